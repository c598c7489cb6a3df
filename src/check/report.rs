//! [`Report`], the result of a check, in the forms that others read: JSON, and annotations, which
//! GitHub shows on the page of a run.

use std::{cmp::Reverse, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    check::{AcceptedFinding, Coverage, Finding, Rule, Severity},
    console::{Annotation, AnnotationLevel},
    error::{Context as _, Hint as _, Result, ensure},
    index::counted,
    quantity::many,
};

const SCHEMA: &str = "rocwheel-check-v1";

/// The findings, the accepted findings, and which library has code for which target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Report {
    pub schema: String,
    /// The number of our packages.
    pub packages: usize,
    /// The number of packages of other projects.
    #[serde(skip_serializing_if = "is_zero")]
    pub others: usize,
    pub errors: usize,
    pub warnings: usize,
    pub findings: Vec<Finding>,
    /// The number of findings of rules that the user skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: usize,
    pub accepted: Vec<AcceptedFinding>,
    pub coverage: Coverage,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Report {
    /// `(packages, others)`: the numbers of our packages and of those of other projects.
    pub fn new(
        (packages, others): (usize, usize),
        findings: Vec<Finding>,
        coverage: Coverage,
    ) -> Self {
        let count = |severity| {
            let all = findings.iter().map(|it| it.rule.severity);
            all.filter(|own| *own == severity).count()
        };
        Self {
            schema: SCHEMA.to_owned(),
            packages,
            others,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            findings,
            skipped: 0,
            accepted: Vec::new(),
            coverage,
        }
    }

    /// Parses the output of `check --format json`. Fields that later versions add are ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || -> Result<Self> {
            let form: serde_json::Value = serde_json::from_str(text)?;
            ensure!(form["schema"] == SCHEMA, "its schema is {}", form["schema"]);
            Ok(serde_json::from_value(form)?)
        };
        read()
            .context("failed to read what `check` found")
            .hint("write it with `rocwheel check --format json`")
    }

    /// `7 packages and 3 of others`
    pub fn counted(&self) -> String {
        counted(self.packages, self.others)
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
}

/// `1 error, 2 warnings, 3 accepted, 4 findings skipped`
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.errors, "error"), (self.warnings, "warning")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut counts: Vec<String> = counts.map(|(count, noun)| many(count, noun)).collect();
        if counts.is_empty() {
            counts.push("OK, no problems".to_owned());
        }
        if !self.accepted.is_empty() {
            counts.push(format!("{} accepted", self.accepted.len()));
        }
        if self.skipped > 0 {
            counts.push(format!("{} skipped", many(self.skipped, "finding")));
        }
        f.write_str(&counts.join(", "))
    }
}

/// GitHub shows at most this number of annotations for a step.
const MOST_ANNOTATIONS: usize = 10;
/// The places named in one annotation. The log has all of them.
const MOST_PLACES: usize = 5;

/// One annotation for each rule, the gravest first, as many as GitHub shows.
pub fn annotations(report: &Report) -> Vec<Annotation> {
    let rules = report.by_rule();
    let shown = rules.iter().take(MOST_ANNOTATIONS);
    shown.map(|(rule, all)| annotation(rule, all)).collect()
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
    lines.push(format!("fix: {}", rule.fix()));
    Annotation::new(level(rule.severity), rule.to_string(), lines.join("\n"))
}

pub fn level(severity: Severity) -> AnnotationLevel {
    match severity {
        Severity::Error => AnnotationLevel::Error,
        Severity::Warning => AnnotationLevel::Warning,
    }
}

#[cfg(test)]
mod tests;
