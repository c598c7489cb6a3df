//! [`Report`]: the result of a check, for the commands that print it or decide by it.

use std::{cmp::Reverse, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    check::{AcceptedFinding, Coverage, Finding, Rule, Severity},
    console::many,
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
