//! Prints the report of `check`.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{check::Report, console::many};

/// The most findings that are shown for one rule, without `--all`.
const MOST_OF_A_RULE: usize = 10;

/// A report as text, or as its JSON document.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReportText<'a> {
    #[serde(flatten)]
    pub(super) report: &'a Report,
    /// Whether to show all findings of each rule.
    #[serde(skip)]
    pub(super) all: bool,
}

/// Prints how many findings each rule has, then the findings of each package, then how to fix them,
/// then the coverage.
impl fmt::Display for ReportText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let rules = report.by_rule();
        for (rule, found) in &rules {
            writeln!(f, "{:>6} {:<7} {rule}", found.len(), rule.severity)?;
        }
        if !rules.is_empty() {
            writeln!(f)?;
        }
        let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
        let mut file = None;
        for finding in &report.findings {
            let count = shown.entry(finding.rule.id).or_default();
            *count += 1;
            if !self.all && *count > MOST_OF_A_RULE {
                continue;
            }
            if file != Some(&finding.file) {
                file = Some(&finding.file);
                let name = finding.file.as_deref().unwrap_or("the set");
                writeln!(f, "{name}")?;
            }
            writeln!(f, "  {finding}")?;
        }
        for (rule, found) in &rules {
            let more = found.len().saturating_sub(MOST_OF_A_RULE);
            if !self.all && more > 0 {
                writeln!(f, "…and {more} more of {} (`--all`)", rule.id)?;
            }
        }
        if !rules.is_empty() {
            writeln!(f, "\nfixes")?;
            let mut rules = rules;
            rules.sort_by_key(|(rule, _)| rule.id);
            for (rule, _) in rules {
                writeln!(f, "  {}: {}", rule.id, rule.way_out())?;
            }
            writeln!(f)?;
        }
        if !report.coverage.libraries.is_empty() {
            writeln!(f, "{}", report.coverage)?;
        }
        let packages = many(report.packages, "package");
        writeln!(f, "{report} in {packages}")
    }
}
