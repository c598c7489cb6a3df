//! The findings of `check`: one table by rule, and below it, closed, each rule with its findings.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, code, folded, message, plain, rows};
use crate::{
    check::{Finding, Report, Rule, Severity},
    console::{count, many},
};

/// The rules that a reader sees before opening anything.
const MOST_SHOWN: usize = 8;
/// The most different facts that are shown for one rule.
const MOST_FACTS: usize = 20;
/// The most places that are shown for one fact.
const MOST_PLACES: usize = 5;

/// Renders at most `limit` bytes; empty if nothing was found, or if there is no room.
pub(super) fn findings(report: &Report, limit: usize) -> String {
    let mut text = String::from("### Findings\n\n");
    let rules = report.by_rule();
    if rules.is_empty() || text.len() + 3 * RESERVE > limit {
        return String::new();
    }
    let head = "| | Rule | Findings | Fix |\n| :--- | :--- | ---: | :--- |\n";
    let mut table = rules.iter().map(|(rule, found)| row(rule, found.len()));
    text += head;
    let mut omitted = rows(&mut text, table.by_ref().take(MOST_SHOWN), limit / 3);
    text += "\n";
    let mut rest = head.to_owned();
    omitted += rows(&mut rest, table, limit / 3);
    if rules.len() - omitted > MOST_SHOWN {
        text += &folded(&many(rules.len() - MOST_SHOWN, "more rule"), &rest);
    }
    let mut all = String::new();
    let blocks = rules.iter().map(|(rule, found)| block(rule, found));
    let omitted = rows(&mut all, blocks, limit - text.len());
    if omitted > 0 {
        let rules = many(omitted, "rule");
        let _ = writeln!(all, "Findings of {rules} left out: run `rocwheel check`.");
    }
    text + &folded("The findings, by rule", &all)
}

/// The first finding of each rule that makes the set fail, for readers who open nothing.
pub(super) fn first(report: &Report) -> String {
    let rules = report.by_rule().into_iter();
    let rules: Vec<_> = rules.filter(|(rule, _)| rule.severity == Severity::Error).collect();
    let lines = rules.iter().take(MOST_SHOWN).filter_map(|(rule, found)| {
        let first = found.first()?;
        let (mark, id, name) = (mark(rule), plain(rule.id), plain(rule.name));
        let more = match found.len() - 1 {
            0 => String::new(),
            more => format!(", and {} more", count(more)),
        };
        let (fact, place) = (message(&first.fact), place(first));
        Some(format!("- {mark} <b>{id}</b> {name}: {fact} ({place}{more})\n"))
    });
    let text: String = lines.collect();
    let rest = rules.len().saturating_sub(MOST_SHOWN);
    let rest = Some(format!("- and {}\n", many(rest, "more rule"))).filter(|_| rest > 0);
    text + &rest.unwrap_or_default() + if rules.is_empty() { "" } else { "\n" }
}

fn mark(rule: &Rule) -> &'static str {
    match rule.severity {
        Severity::Error => "❌",
        Severity::Warning => "⚠️",
    }
}

fn row(rule: &Rule, number: usize) -> String {
    let (id, name) = (plain(rule.id), plain(rule.name));
    let (mark, number, fix) = (mark(rule), count(number), message(rule.fix()));
    format!("| {mark} | <b>{id}</b> {name} | {number} | {fix} |\n")
}

/// The findings of one rule. Those that say the same are one row.
fn block(rule: &Rule, found: &[&Finding]) -> String {
    let mut by_fact: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in found {
        by_fact.entry(&finding.fact).or_default().push(place(finding));
    }
    let facts = by_fact.iter();
    let facts = facts.sorted_by_key(|(fact, places)| (Reverse(places.len()), **fact));
    let mut body = String::from("| What | Where |\n| :--- | :--- |\n");
    for (fact, places) in facts.take(MOST_FACTS) {
        let mut shown = places.iter().take(MOST_PLACES).join("<br>");
        let rest = places.len().saturating_sub(MOST_PLACES);
        if rest > 0 {
            let _ = write!(shown, "<br>and {} more, in the log", count(rest));
        }
        let _ = writeln!(body, "| {} | {shown} |", message(fact));
    }
    let rest = by_fact.len().saturating_sub(MOST_FACTS);
    if rest > 0 {
        let _ = writeln!(body, "| … | {} more, in the log |", count(rest));
    }
    let (mark, id, name) = (mark(rule), plain(rule.id), plain(rule.name));
    folded(&format!("{mark} <b>{id}</b> {name}: {}", count(found.len())), &body)
}

fn place(finding: &Finding) -> String {
    let file = finding.file.as_deref().map_or("the set".to_owned(), code);
    match &finding.member {
        Some(member) => format!("{file}: {}", code(member)),
        None => file,
    }
}
