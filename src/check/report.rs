//! [`Report`], the result of a check, in the forms that others read: JSON, and annotations, which
//! GitHub shows on the page of a run.

use std::{cmp::Reverse, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use crate::{
    check::{
        AcceptedFinding, Coverage, Finding, Rule, Severity,
        facts::{PackageCounts, ReadAmount},
    },
    console::{Annotation, AnnotationLevel},
    index::counted,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, ensure},
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
    /// How much of the packages of a published place was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadAmount>,
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
    pub fn new(packages: PackageCounts, findings: Vec<Finding>, coverage: Coverage) -> Self {
        let count = |severity| {
            let of_severity = findings.iter().filter(|it| it.rule.severity == severity);
            Finding::total(of_severity)
        };
        Self {
            schema: SCHEMA.to_owned(),
            packages: packages.ours,
            others: packages.others,
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            findings,
            read: None,
            skipped: 0,
            accepted: Vec::new(),
            coverage,
        }
    }

    /// Parses the output of `check --format json`. Fields that later versions add are ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let parse_json = || -> Result<Self> {
            let document: serde_json::Value = serde_json::from_str(text)?;
            ensure!(document["schema"] == SCHEMA, "its schema is {}", document["schema"]);
            Ok(serde_json::from_value(document)?)
        };
        parse_json()
            .context("failed to read what `check` found")
            .hint("write it with `rocwheel check --format json`")
    }

    /// `7 packages and 3 of others`
    pub fn counted(&self) -> String {
        counted(self.packages, self.others)
    }

    /// `read 1.20 MiB of 2.40 GiB`, and what was not judged because it was not read.
    pub fn reading(&self) -> Vec<String> {
        let Some(amount) = self.read else {
            return Vec::new();
        };
        let mut sentences = vec![amount.to_string()];
        if amount.is_partial() {
            let files = many(amount.unread_files, "file");
            sentences.push(format!(
                "contents of {files} were not read: digests, libraries and device code are not judged"
            ));
        }
        sentences
    }

    /// Whether the contents of some files were not read, so that it says nothing about them.
    pub fn is_partial(&self) -> bool {
        self.read.is_some_and(|amount| amount.is_partial())
    }

    /// The findings by rule, sorted by severity, then by number of findings.
    pub fn by_rule(&self) -> Vec<(&'static Rule, Vec<&Finding>)> {
        self.findings
            .iter()
            .into_group_map_by(|finding| finding.rule.id)
            .into_values()
            .filter_map(|findings| Some((findings.first()?.rule, findings)))
            .sorted_by_key(|(rule, findings)| {
                (Reverse((rule.severity, Finding::total(findings.iter().copied()))), rule.id)
            })
            .collect()
    }

    /// The number of findings of at least this severity.
    pub fn count_from(&self, least: Severity) -> usize {
        let severe = self.findings.iter().filter(|finding| finding.rule.severity >= least);
        Finding::total(severe)
    }
}

/// `1 error, 2 warnings, 3 accepted, 4 findings skipped`
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = [(self.errors, "error"), (self.warnings, "warning")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, noun)| many(count, noun))
            .collect();
        if parts.is_empty() {
            let nothing =
                if self.is_partial() { "no problems in what was read" } else { "OK, no problems" };
            parts.push(nothing.to_owned());
        }
        if !self.accepted.is_empty() {
            parts.push(format!("{} accepted", self.accepted.len()));
        }
        if self.skipped > 0 {
            parts.push(format!("{} skipped", many(self.skipped, "finding")));
        }
        f.write_str(&parts.join(", "))
    }
}

/// GitHub shows at most this number of annotations for a step.
const MOST_ANNOTATIONS: usize = 10;
/// The most findings that one annotation names. The log has all of them.
const MOST_FINDINGS: usize = 5;

/// One annotation for each rule, errors before warnings, as many as GitHub shows.
pub fn annotations(report: &Report) -> Vec<Annotation> {
    report
        .by_rule()
        .iter()
        .take(MOST_ANNOTATIONS)
        .map(|(rule, findings)| annotation(rule, findings))
        .collect()
}

fn annotation(rule: &Rule, findings: &[&Finding]) -> Annotation {
    let mut lines: Vec<String> = findings
        .iter()
        .take(MOST_FINDINGS)
        .map(|finding| {
            finding.file.iter().chain(&finding.member).chain([&finding.text()]).join(": ")
        })
        .collect();
    let unshown = Finding::total(findings.iter().copied()).saturating_sub(MOST_FINDINGS);
    if unshown > 0 {
        lines.push(format!("and {unshown} more in the log"));
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
