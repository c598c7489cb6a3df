//! Turns a report into annotations, which GitHub shows on the page of a run.

use crate::{
    check::{Finding, Report, Rule, Severity},
    console::{Annotation, AnnotationLevel, many},
};

/// GitHub shows at most this number of annotations for a step.
const MOST_ANNOTATIONS: usize = 10;
/// The places named in one annotation. The log has all of them.
const MOST_PLACES: usize = 5;

/// One annotation for each rule, sorted by severity and frequency, as many as GitHub shows.
pub fn annotations(report: &Report) -> Vec<Annotation> {
    let mut rules = report.by_rule();
    let shown = if rules.len() > MOST_ANNOTATIONS {
        MOST_ANNOTATIONS - 1
    } else {
        rules.len()
    };
    let rest = rules.split_off(shown);
    let shown = rules.iter().map(|(rule, all)| annotation(rule, all));
    shown.chain(rolled_up(&rest)).collect()
}

fn annotation(rule: &Rule, findings: &[&Finding]) -> Annotation {
    let mut lines: Vec<String> = Vec::new();
    for finding in findings.iter().take(MOST_PLACES) {
        let places = [finding.file.as_deref(), finding.member.as_deref()];
        let places: Vec<&str> = places.into_iter().flatten().collect();
        let places = places.join(": ");
        let joint = if places.is_empty() { "" } else { ": " };
        lines.push(format!("{places}{joint}{}", finding.fact));
    }
    let rest = findings.len().saturating_sub(MOST_PLACES);
    if rest > 0 {
        lines.push(format!("and {rest} more in the log"));
    }
    lines.push(format!("fix: {}", rule.way_out()));
    Annotation::new(level(rule.severity), rule.to_string(), lines.join("\n"))
}

/// One annotation that names the rules for which no other one is left.
fn rolled_up(rules: &[(&Rule, Vec<&Finding>)]) -> Option<Annotation> {
    let (gravest, _) = rules.first()?;
    let names: Vec<String> = rules.iter().map(|(rule, _)| rule.to_string()).collect();
    let title = format!("{} found something too", many(rules.len(), "other rule"));
    let text = format!("{}\nthe log has all", names.join(", "));
    Some(Annotation::new(level(gravest.severity), title, text))
}

pub fn level(severity: Severity) -> AnnotationLevel {
    match severity {
        Severity::Error => AnnotationLevel::Error,
        Severity::Warning => AnnotationLevel::Warning,
        Severity::Note => AnnotationLevel::Notice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Coverage, RULES};

    fn of(rules: usize) -> Vec<Annotation> {
        let findings = RULES.iter().take(rules);
        let findings =
            findings.flat_map(|rule| [Finding::new(rule, "one"), Finding::new(rule, "two")]);
        shown(findings.collect())
    }

    fn shown(findings: Vec<Finding>) -> Vec<Annotation> {
        annotations(&Report::new(1, findings, Coverage::default()))
    }

    #[test]
    fn there_are_no_more_annotations_than_github_shows_and_the_last_tells_of_the_rest() {
        assert_eq!(of(1).len(), 1);
        assert_eq!(of(MOST_ANNOTATIONS).len(), MOST_ANNOTATIONS);
        let many = of(MOST_ANNOTATIONS + 2);
        assert_eq!(many.len(), MOST_ANNOTATIONS);
        let last = format!("{:?}", many.last());
        assert!(last.contains("3 other rules found something too"), "{last}");
        assert_eq!(of(RULES.len()).len(), MOST_ANNOTATIONS);
    }

    #[test]
    fn ten_annotations_are_made_at_most_the_gravest_and_most_frequent_first() {
        let each = RULES.iter().map(|rule| Finding::new(rule, "a fact"));
        let frequent = (0..3).map(|at| {
            let rule = RULES.iter().rfind(|it| it.severity == Severity::Error);
            Finding::new(rule.unwrap(), format!("fact {at}"))
        });
        let shown = self::tests::shown(each.chain(frequent).collect());
        assert_eq!(shown.len(), 10);
        assert!(shown.iter().all(|it| it.level == AnnotationLevel::Error));
        insta::assert_snapshot!(shown[0], @"
        RW903 not-as-planned: a fact
        fact 0
        fact 1
        fact 2
        fix: build again from these artifacts, or compare with the plan of this set
        ");
        let warnings = RULES.iter().filter(|it| it.severity == Severity::Warning);
        let warnings = warnings.map(|rule| Finding::new(rule, "a fact"));
        let gravest = RULES
            .iter()
            .find(|it| it.severity == Severity::Error)
            .unwrap();
        let mixed = warnings.chain([Finding::new(gravest, "a fact")]);
        let shown = self::tests::shown(mixed.collect());
        assert_eq!(shown.len(), 10);
        let errors = shown.iter().filter(|it| it.level == AnnotationLevel::Error);
        assert_eq!(errors.count(), 1);
        assert_eq!(shown[0].title, gravest.to_string());
    }

    #[test]
    fn an_annotation_names_five_places_and_says_how_many_more() {
        let rule = RULES[0];
        let found = (0..7).map(|at| {
            let finding = Finding::new(rule, "100% of it,\nall: of it");
            finding
                .in_file(format!("a{at}::error::.whl"))
                .at("x\r\n::add-mask::y")
        });
        insta::assert_snapshot!(shown(found.collect())[0], @"
        RW101 unreadable-package: a0::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a1::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a2::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a3::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a4::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        and 2 more in the log
        fix: build or copy the file again
        ");
    }
}
