//! [`Report`]: the result of a check, for the commands that print it or decide by it; and its
//! annotations, which GitHub shows on the page of a run.

use std::{cmp::Reverse, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    check::{AcceptedFinding, Coverage, Finding, Rule, Severity},
    console::{Annotation, AnnotationLevel, many},
    error::{Context as _, Hint as _, Result, ensure},
};

const SCHEMA: &str = "rocwheel-check-v1";

/// The findings, the accepted findings, and which library has code for which target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Report {
    pub schema: String,
    /// The number of packages that were read.
    pub packages: usize,
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    pub findings: Vec<Finding>,
    pub accepted: Vec<AcceptedFinding>,
    pub coverage: Coverage,
}

impl Report {
    pub fn new(packages: usize, findings: Vec<Finding>, coverage: Coverage) -> Self {
        let count = |severity| {
            let all = findings.iter().map(|it| it.rule.severity);
            all.filter(|own| *own == severity).count()
        };
        Self {
            schema: SCHEMA.to_owned(),
            packages,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            findings,
            accepted: Vec::new(),
            coverage,
        }
    }

    /// Parses the output of `check --format json`. Fields that later versions add are ignored.
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct ReportSchema {
            schema: String,
        }
        let read = || -> Result<Self> {
            let form: ReportSchema = serde_json::from_str(text)?;
            ensure!(form.schema == SCHEMA, "its schema is {:?}", form.schema);
            Ok(serde_json::from_str(text)?)
        };
        read()
            .context("failed to read what `check` found")
            .hint("write it with `rocwheel check --format json`")
    }

    /// The findings by rule, sorted by severity, then by number of findings.
    pub fn by_rule(&self) -> Vec<(&'static Rule, Vec<&Finding>)> {
        let findings = self.findings.iter().map(|it| (it.rule.id, it));
        let rules = findings.into_group_map().into_values();
        let rules = rules.filter_map(|found| Some((found.first()?.rule, found)));
        rules
            .sorted_by_key(|(rule, found)| (Reverse((rule.severity, found.len())), rule.id))
            .collect()
    }

    /// The number of findings of at least this severity.
    pub fn count_from(&self, least: Severity) -> usize {
        let severities = self.findings.iter().map(|it| it.rule.severity);
        severities.filter(|own| *own >= least).count()
    }

    /// The highest severity of the findings.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|it| it.rule.severity).max()
    }
}

/// `1 error, 2 warnings, 3 accepted`
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.errors, "error"),
            (self.warnings, "warning"),
            (self.notes, "note"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut counts: Vec<String> = counts.map(|(count, noun)| many(count, noun)).collect();
        if counts.is_empty() {
            counts.push("nothing found".to_owned());
        }
        if !self.accepted.is_empty() {
            counts.push(format!("{} accepted", self.accepted.len()));
        }
        f.write_str(&counts.join(", "))
    }
}

/// GitHub shows at most this number of annotations for a step.
const MOST_ANNOTATIONS: usize = 10;
/// The places named in one annotation. The log has all of them.
const MOST_PLACES: usize = 5;

/// One annotation for each rule, sorted by severity and frequency, as many as GitHub shows.
pub fn annotations(report: &Report) -> Vec<Annotation> {
    let mut rules = report.by_rule();
    let rest = if rules.len() > MOST_ANNOTATIONS {
        rules.split_off(MOST_ANNOTATIONS - 1)
    } else {
        Vec::new()
    };
    let shown = rules.iter().map(|(rule, all)| annotation(rule, all));
    shown.chain(rolled_up(&rest)).collect()
}

fn annotation(rule: &Rule, findings: &[&Finding]) -> Annotation {
    let shown = findings.iter().take(MOST_PLACES).map(|finding| {
        let place = finding.file.iter().chain(&finding.member);
        place.chain([&finding.fact]).join(": ")
    });
    let mut lines: Vec<String> = shown.collect();
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
    let names = rules.iter().map(|(rule, _)| rule).join(", ");
    let title = format!("{} found something too", many(rules.len(), "other rule"));
    let text = format!("{names}\nthe log has all");
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
    use crate::{check::rule, error::render};

    #[test]
    fn a_report_is_read_as_it_was_written_and_ordered_by_rule() {
        let rules = [
            rule::UNCOVERED_LIBRARY,
            rule::UNCOVERED_LIBRARY,
            rule::UNRESOLVED_REQUIREMENT,
            rule::UNREADABLE_PACKAGE,
            rule::UNREADABLE_PACKAGE,
        ];
        let findings = rules.map(|rule| Finding::new(rule, "f").in_file("a").at("b"));
        let mut report = Report::new(7, findings.to_vec(), Coverage::default());
        report.accepted.push(AcceptedFinding {
            finding: Finding::new(rule::RUNPATH, "f"),
            reason: "r".to_owned(),
        });
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(Report::parse(&text).unwrap(), report);
        let newer = text.replacen('{', r#"{"new":{},"#, 1);
        assert_eq!(Report::parse(&newer).unwrap(), report);
        let order = report.by_rule();
        let order: Vec<_> = order
            .iter()
            .map(|(rule, all)| (rule.id, all.len()))
            .collect();
        assert_eq!(order, [("RW101", 2), ("RW201", 1), ("RW303", 2)]);
        assert_eq!(report.to_string(), "3 errors, 2 warnings, 1 accepted");
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        let newer = r#"{"schema":"rocwheel-check-v1","findings":[{"id":"RW999","fact":"f"}]}"#;
        let refused = ["", "{}", r#"{"schema":"rocwheel-plan-v1"}"#, newer]
            .map(|text| render(&Report::parse(text).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: failed to read what `check` found
          caused by: EOF while parsing a value at line 1 column 0

        hint: write it with `rocwheel check --format json`
        error: failed to read what `check` found
          caused by: missing field `schema` at line 1 column 2

        hint: write it with `rocwheel check --format json`
        error: failed to read what `check` found
          caused by: its schema is "rocwheel-plan-v1"

        hint: write it with `rocwheel check --format json`
        error: failed to read what `check` found
          caused by: a rule that this version does not have: "RW999" at line 1 column 55

        hint: write it with `rocwheel check --format json`
        "#);
    }
}

#[cfg(test)]
mod annotation_tests {
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
        let shown = self::annotation_tests::shown(each.chain(frequent).collect());
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
        let shown = self::annotation_tests::shown(mixed.collect());
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
