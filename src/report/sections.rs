//! The sections of the job summary that can be long. Each gets a limit in bytes, and says how many
//! rows it left out.

use std::{collections::BTreeMap, fmt::Write as _};

use super::cell::{RESERVE, code, message, plain, rows};
use crate::{
    check::{
        Finding, Report, Rule, Severity,
        coverage::{Cell, Coverage, short_size},
    },
    console::many,
};

/// The most findings that are shown for one rule.
const MOST_OF_A_RULE: usize = 20;

/// The findings of `check`, by rule; empty if there are none or no room for them.
pub(super) fn findings(report: &Report, limit: usize) -> String {
    let mut text = String::from("### Findings\n\n");
    let rules = report.by_rule();
    if rules.is_empty() || text.len() + RESERVE > limit {
        return String::new();
    }
    let blocks = rules.iter().map(|(broken, rows)| rule(broken, rows));
    let omitted = rows(&mut text, blocks, limit);
    if omitted > 0 {
        let rules = many(omitted, "rule");
        let _ = writeln!(
            text,
            "Findings of {rules} left out: run `rocwheel check`.\n"
        );
    }
    text
}

/// The findings of one rule. Errors are shown unfolded, warnings folded.
fn rule(rule: &Rule, rows: &[&Finding]) -> String {
    let (mark, open, noun) = match rule.severity {
        Severity::Error => ("❌", " open", "error"),
        Severity::Warning => ("⚠️", "", "warning"),
        Severity::Note => ("ℹ️", "", "note"),
    };
    let (id, name, count) = (plain(rule.id), plain(rule.name), many(rows.len(), noun));
    let mut text = format!(
        "<details{open}><summary>{mark} <b>{id}</b> {name}: {count}</summary>\n\n\
         | Where | What |\n| :--- | :--- |\n"
    );
    for row in rows.iter().take(MOST_OF_A_RULE) {
        let file = row.file.as_deref().map_or("the set".to_owned(), code);
        let member = row.member.as_deref();
        let member = member.map(|it| format!("<br>{}", code(it)));
        let _ = writeln!(
            text,
            "| {file}{} | {} |",
            member.unwrap_or_default(),
            message(&row.fact)
        );
    }
    let rest = rows.len().saturating_sub(MOST_OF_A_RULE);
    if rest > 0 {
        let _ = writeln!(text, "| … | {rest} more, in the log of `check` |");
    }
    let _ = writeln!(text, "\nFix: {}.", message(rule.way_out()));
    text + "\n</details>\n\n"
}

/// The table of libraries and their targets; empty if nothing is known or there is no room.
pub(super) fn coverage(report: &Report, limit: usize) -> String {
    let libraries = &report.coverage.libraries;
    let mut text = String::from("### Device code\n\n");
    if libraries.is_empty() {
        return String::new();
    }
    let gaps = gaps(&report.coverage);
    let whole = libraries.len() - gaps.len();
    let count = many(libraries.len(), "library");
    let _ = writeln!(text, "{whole} of {count} with code for every target.\n");
    let targets = &report.coverage.targets;
    let is_wide = targets.len() > MOST_COLUMNS;
    if is_wide && !gaps.is_empty() {
        text += "| Library | No code for |\n| :--- | :--- |\n";
        text.extend(gaps);
        text += "\n";
    }
    if is_wide {
        text += "<details><summary>Library by target</summary>\n\n";
    }
    let heads: Vec<String> = targets.iter().map(|it| plain(it)).collect();
    let rule = " ---: |".repeat(targets.len());
    let _ = writeln!(text, "| Library | {} |\n| :--- |{rule}", heads.join(" | "));
    if text.len() + RESERVE > limit {
        return String::new();
    }
    let table = libraries.iter().map(|(name, row)| line(targets, name, row));
    let omitted = rows(&mut text, table, limit);
    if omitted > 0 {
        let _ = writeln!(text, "\n{} left out here.", many(omitted, "row"));
    }
    if is_wide {
        text.push_str("\n</details>\n");
    }
    text + "\n"
}

/// A wider table is folded, and a list of its gaps is shown above it.
const MOST_COLUMNS: usize = 8;

/// One row for each library that lacks device code for a target.
fn gaps(coverage: &Coverage) -> Vec<String> {
    let mut found = Vec::new();
    for (library, row) in &coverage.libraries {
        let targets = coverage.targets.iter();
        let missing = targets.filter(|target| !row.contains_key(*target));
        let missing: Vec<String> = missing.map(|target| code(target)).collect();
        if !missing.is_empty() {
            found.push(format!("| {} | {} |\n", code(library), missing.join(" ")));
        }
    }
    found
}

fn line(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> String {
    let cells = targets.iter().map(|target| match row.get(target) {
        None => " **none** |".to_owned(),
        Some(cell) => format!(" {} |", short_size(cell.bytes).replace(' ', "&nbsp;")),
    });
    format!("| {} |{}\n", code(library), cells.collect::<String>())
}
