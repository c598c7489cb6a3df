//! What `check` answers: the findings, what to do about them, and the coverage by target.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    check::{Coverage, Finding, Rule, Severity},
    console::{Annotation, Level, many},
    error::{Context as _, Result},
};

/// GitHub shows no more annotations of a step.
const MOST_ANNOTATIONS: usize = 10;
/// So many places are named in an annotation; the log has all.
const MOST_PLACES: usize = 5;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Answer {
    schema: &'static str,
    packages: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    findings: Vec<Finding>,
    coverage: Coverage,
}

impl Answer {
    pub(super) fn new(packages: usize, findings: Vec<Finding>, coverage: Coverage) -> Self {
        let count = |severity| {
            let all = findings.iter();
            all.filter(|finding| finding.rule.severity == severity)
                .count()
        };
        Self {
            schema: "rocwheel-check-v1",
            packages,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            findings,
            coverage,
        }
    }

    /// The same as others read it.
    pub(super) fn json(&self) -> Result<String> {
        serde_json::to_string(self).context("write what was found")
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many findings are at least so grave.
    pub(super) fn count_from(&self, least: Severity) -> usize {
        let grave = self.findings.iter().filter(|it| it.rule.severity >= least);
        grave.count()
    }

    /// `1 error, 2 warnings, 1 note`
    pub(super) fn counts(&self) -> String {
        let counts = [
            (self.errors, "error"),
            (self.warnings, "warning"),
            (self.notes, "note"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, noun)| many(count, noun)).collect();
        if counts.is_empty() {
            return "nothing found".to_owned();
        }
        counts.join(", ")
    }

    /// One for each rule, the gravest and most frequent first, as many as GitHub shows.
    pub(super) fn annotations(&self) -> Vec<Annotation> {
        let mut rules: Vec<(&Rule, Vec<&Finding>)> = self.by_rule().into_values().collect();
        rules.sort_by_key(|(rule, findings)| {
            let rank = std::cmp::Reverse((rule.severity, findings.len()));
            (rank, rule.id)
        });
        let shown = if rules.len() > MOST_ANNOTATIONS {
            MOST_ANNOTATIONS - 1
        } else {
            rules.len()
        };
        let rest = rules.split_off(shown);
        let shown = rules.iter().map(|(rule, all)| annotation(rule, all));
        shown.chain(rolled_up(&rest)).collect()
    }

    fn by_rule(&self) -> BTreeMap<&str, (&'static Rule, Vec<&Finding>)> {
        let mut rules: BTreeMap<&str, (&'static Rule, Vec<&Finding>)> = BTreeMap::new();
        for finding in &self.findings {
            let place = rules.entry(finding.rule.id);
            place.or_insert((finding.rule, Vec::new())).1.push(finding);
        }
        rules
    }
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
        lines.push(format!("and {rest} more, in the log"));
    }
    lines.push(format!("way out: {}", rule.way_out));
    Annotation::new(level(rule), rule.to_string(), lines.join("\n"))
}

/// What would be one annotation too many, by name.
fn rolled_up(rules: &[(&Rule, Vec<&Finding>)]) -> Option<Annotation> {
    let (gravest, _) = rules.first()?;
    let names: Vec<String> = rules.iter().map(|(rule, _)| rule.to_string()).collect();
    let title = format!("{} found something too", many(rules.len(), "other rule"));
    let text = format!("{}\nthe log has all", names.join(", "));
    Some(Annotation::new(level(gravest), title, text))
}

fn level(rule: &Rule) -> Level {
    match rule.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Note => Level::Notice,
    }
}

/// The findings below the package that they are about, then the ways out, then the coverage.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = None;
        for finding in &self.findings {
            if file != Some(&finding.file) {
                file = Some(&finding.file);
                let name = finding.file.as_deref().unwrap_or("the set");
                writeln!(f, "{name}")?;
            }
            writeln!(f, "  {finding}")?;
        }
        if !self.findings.is_empty() {
            writeln!(f, "\nways out")?;
            for (rule, _) in self.by_rule().into_values() {
                writeln!(f, "  {}: {}", rule.id, rule.way_out)?;
            }
            writeln!(f)?;
        }
        if !self.coverage.is_empty() {
            writeln!(f, "{}", self.coverage)?;
        }
        let packages = many(self.packages, "package");
        writeln!(f, "{} in {packages}", self.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::RULES;

    fn of(rules: usize) -> Vec<Annotation> {
        let findings = RULES.iter().take(rules);
        let findings =
            findings.flat_map(|rule| [Finding::new(rule, "one"), Finding::new(rule, "two")]);
        Answer::new(1, findings.collect(), Coverage::default()).annotations()
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

    fn answer(findings: Vec<Finding>) -> Answer {
        Answer::new(1, findings, Coverage::default())
    }

    #[test]
    fn ten_annotations_are_made_at_most_the_gravest_and_most_frequent_first() {
        let each = RULES.iter().map(|rule| Finding::new(rule, "a fact"));
        let frequent = (0..3).map(|at| {
            let rule = RULES.iter().rfind(|it| it.severity == Severity::Error);
            Finding::new(rule.unwrap(), format!("fact {at}"))
        });
        let shown = answer(each.chain(frequent).collect()).annotations();
        assert_eq!(shown.len(), 10);
        assert!(shown.iter().all(|it| it.level == Level::Error));
        insta::assert_snapshot!(shown[0], @"
        RW903 not-as-planned: a fact
        fact 0
        fact 1
        fact 2
        way out: build again from these artifacts, or compare with the plan of this set
        ");
        let warnings = RULES.iter().filter(|it| it.severity == Severity::Warning);
        let warnings = warnings.map(|rule| Finding::new(rule, "a fact"));
        let gravest = RULES
            .iter()
            .find(|it| it.severity == Severity::Error)
            .unwrap();
        let mixed = warnings.chain([Finding::new(gravest, "a fact")]);
        let shown = answer(mixed.collect()).annotations();
        assert_eq!(shown.len(), 10);
        let errors = shown.iter().filter(|it| it.level == Level::Error);
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
        insta::assert_snapshot!(answer(found.collect()).annotations()[0], @"
        RW101 unreadable-package: a0::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a1::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a2::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a3::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        a4::error::.whl: x��::add-mask::y: 100% of it,�all: of it
        and 2 more, in the log
        way out: build or copy the file again
        ");
    }
}
