//! The findings of `check`: one table by rule, and below it, closed, each rule with its findings.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{LIMIT, RESERVE, code, folded, message, plain, push_rows};
use crate::check::{Finding, Report, Rule, Severity};
use rocwheel_base::quantity::{count, many};

/// The rules that a reader sees before opening anything.
const MOST_SHOWN: usize = 8;
/// The most different facts that are shown for one rule.
const MOST_FACTS: usize = 20;
/// The most places that are shown for one fact.
const MOST_PLACES: usize = 5;

/// A page of its own about a check, for a place whose set nothing describes: its head, and its findings.
pub fn check_page(place: &str, report: &Report) -> String {
    let counted = report.counted();
    let mut markdown = format!("## Check of {}\n\n", code(place));
    let _ = writeln!(markdown, "{} **{report}** in {counted}\n", report_mark(report));
    markdown += &render_reading(report);
    markdown += &render_first(report);
    let room = LIMIT - markdown.len();
    markdown + &render_findings(report, room)
}

/// What a reader sees first.
pub(super) fn report_mark(report: &Report) -> &'static str {
    match (report.errors, report.warnings) {
        (0, 0) if report.is_partial() => "☑️",
        (0, 0) => "✅",
        (0, _) => "⚠️",
        _ => "❌",
    }
}

/// How much of a published place was read, and what was not judged.
pub(super) fn render_reading(report: &Report) -> String {
    let sentences = report.reading();
    let rows = sentences.iter().map(|sentence| format!("- {sentence}\n"));
    let end = if sentences.is_empty() { "" } else { "\n" };
    rows.chain([end.to_owned()]).collect()
}

/// Renders at most `limit` bytes; empty if nothing was found, or if there is no room.
pub(super) fn render_findings(report: &Report, limit: usize) -> String {
    let mut markdown = String::from("### Findings\n\n");
    let rules = report.by_rule();
    if rules.is_empty() || markdown.len() + 3 * RESERVE > limit {
        return String::new();
    }
    let head = "| | Rule | Findings | Fix |\n| :--- | :--- | ---: | :--- |\n";
    let mut table = rules
        .iter()
        .map(|(rule, findings)| render_rule(rule, Finding::total(findings.iter().copied())));
    markdown += head;
    let mut omitted = push_rows(&mut markdown, table.by_ref().take(MOST_SHOWN), limit / 3);
    markdown += "\n";
    let mut further_rules = head.to_owned();
    omitted += push_rows(&mut further_rules, table, limit / 3);
    if rules.len() - omitted > MOST_SHOWN {
        markdown += &folded(&many(rules.len() - MOST_SHOWN, "more rule"), &further_rules);
    }
    let mut body = String::new();
    let blocks = rules.iter().map(|(rule, findings)| render_block(rule, findings));
    let omitted = push_rows(&mut body, blocks, limit - markdown.len());
    if omitted > 0 {
        let rules = many(omitted, "rule");
        let _ = writeln!(body, "Findings of {rules} left out: run `rocwheel check`.");
    }
    markdown + &folded("The findings, by rule", &body)
}

/// The first finding of each rule that makes the set fail, for readers who open nothing.
pub(super) fn render_first(report: &Report) -> String {
    let mut rules = report.by_rule();
    rules.retain(|(rule, _)| rule.severity == Severity::Error);
    if rules.is_empty() {
        return String::new();
    }
    let mut markdown = String::new();
    for (rule, findings) in rules.iter().take(MOST_SHOWN) {
        let Some(first) = findings.first() else {
            continue;
        };
        let more = match Finding::total(findings.iter().copied()) - first.count() {
            0 => String::new(),
            more => format!(", and {} more", count(more)),
        };
        let fact = message(&first.text());
        let _ = writeln!(markdown, "- {}: {fact} ({}{more})", rule_title(rule), place(first));
    }
    let further = rules.len().saturating_sub(MOST_SHOWN);
    if further > 0 {
        let _ = writeln!(markdown, "- and {}", many(further, "more rule"));
    }
    markdown + "\n"
}

fn mark(rule: &Rule) -> &'static str {
    match rule.severity {
        Severity::Error => "❌",
        Severity::Warning => "⚠️",
    }
}

/// `❌ <b>RW202</b> missing-device-wheel`
fn rule_title(rule: &Rule) -> String {
    format!("{} <b>{}</b> {}", mark(rule), plain(rule.id), plain(rule.name))
}

/// The row of a rule with `number` findings.
fn render_rule(rule: &Rule, number: usize) -> String {
    let id = plain(rule.id);
    let name = plain(rule.name);
    let fix = message(rule.fix());
    format!("| {} | <b>{id}</b> {name} | {} | {fix} |\n", mark(rule), count(number))
}

/// The findings of one rule. Findings of the same fact are one row.
fn render_block(rule: &Rule, findings: &[&Finding]) -> String {
    let mut places_by_fact: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (counted, kept): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.counted.is_some());
    for finding in kept {
        places_by_fact.entry(finding.text()).or_default().push(place(finding));
    }
    // A reader looks for what is wrong in most places.
    let facts =
        places_by_fact.iter().sorted_by_key(|(fact, places)| (Reverse(places.len()), *fact));
    let mut body = String::from("| What | Where |\n| :--- | :--- |\n");
    for (fact, places) in facts.take(MOST_FACTS) {
        let mut shown = places.iter().take(MOST_PLACES).join("<br>");
        let further = places.len().saturating_sub(MOST_PLACES);
        if further > 0 {
            let _ = write!(shown, "<br>and {} more, in the log", count(further));
        }
        let _ = writeln!(body, "| {} | {shown} |", message(fact));
    }
    let further = places_by_fact.len().saturating_sub(MOST_FACTS);
    if further > 0 {
        let _ = writeln!(body, "| … | {} more, in the log |", count(further));
    }
    // The log does not have these either.
    for finding in counted.into_iter().take(MOST_FACTS) {
        let _ = writeln!(body, "| {} | {} |", message(&finding.text()), place(finding));
    }
    folded(
        &format!("{}: {}", rule_title(rule), count(Finding::total(findings.iter().copied()))),
        &body,
    )
}

fn place(finding: &Finding) -> String {
    let file = finding.file.as_deref().map_or("the set".to_owned(), code);
    match &finding.member {
        Some(member) => format!("{file}: {}", code(member)),
        None => file,
    }
}
