//! The tables of the job summary: findings, device code, and packages with how they differ from those
//! of an earlier set. Each gets a limit in bytes, and says how many rows it left out. Texts from
//! outside, such as names of files, are escaped for Markdown and the HTML that GitHub allows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use itertools::Itertools as _;

use crate::{
    check::{
        Finding, Report, Rule, Severity,
        coverage::{Cell, Coverage, short_size},
    },
    console::{growth, many, percent, size},
    set::{SetFile, SetJson, Urls},
};

/// Longer texts are cut.
const LONGEST_TEXT: usize = 300;
/// Bytes reserved for the end of a section.
const RESERVE: usize = 400;

/// Appends rows up to a limit. Returns how many were left out.
pub(super) fn rows(
    text: &mut String,
    mut rows: impl Iterator<Item = String>,
    limit: usize,
) -> usize {
    while let Some(row) = rows.next() {
        if text.len() + row.len() + RESERVE > limit {
            return rows.count() + 1;
        }
        text.push_str(&row);
    }
    0
}

/// The signs that mean nothing in Markdown and HTML, besides letters and digits.
const PLAIN: &str = "-.+ ,→−";

/// Escapes a text, so that it cannot end its table cell, its HTML element or its line.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(LONGEST_TEXT) {
        match c {
            c if PLAIN.contains(c) || c.is_ascii_alphanumeric() => out.push(c),
            c if c.is_ascii_punctuation() => _ = write!(out, "&#{};", u32::from(c)),
            c if c.is_alphanumeric() => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    if text.chars().nth(LONGEST_TEXT).is_some() {
        out.push('…');
    }
    out
}

/// Escapes a text and shows it as code.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", plain(text))
}

/// Escapes a message. Texts between backticks are shown as code.
fn message(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 && !part.is_empty() {
            out.push_str(&code(part));
        } else {
            out.push_str(&plain(part));
        }
    }
    out
}

/// A text that links to a path on the server; without the link if that is not a valid address.
pub(super) fn linked(text: &str, path: Option<String>, server: &str) -> String {
    let url = path.and_then(|path| format!("{server}/{path}").parse::<Urls>().ok());
    let url = url.map(|url| url.to_string());
    match url {
        Some(url) => format!("[{}]({})", code(text), url.trim_end_matches('/')),
        None => code(text),
    }
}

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
    let heads = targets.iter().map(|it| plain(it)).join(" | ");
    let rule = " ---: |".repeat(targets.len());
    let _ = writeln!(text, "| Library | {heads} |\n| :--- |{rule}");
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
    let gap = |(library, row): (&String, &BTreeMap<String, Cell>)| {
        let targets = coverage.targets.iter();
        let missing = targets.filter(|target| !row.contains_key(*target));
        let missing = missing.map(|target| code(target)).join(" ");
        (!missing.is_empty()).then(|| format!("| {} | {missing} |\n", code(library)))
    };
    coverage.libraries.iter().filter_map(gap).collect()
}

fn line(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> String {
    let cells = targets.iter().map(|target| match row.get(target) {
        None => " **none** |".to_owned(),
        Some(cell) => format!(" {} |", short_size(cell.bytes).replace(' ', "&nbsp;")),
    });
    format!("| {} |{}\n", code(library), cells.collect::<String>())
}

/// The most packages of the earlier set that are listed as gone, above the packages of the set.
const MOST_GONE: usize = 20;

/// The table of packages; empty if there is no room for it.
pub(super) fn packages(
    set: &SetJson,
    urls: Option<&Urls>,
    earlier: Option<&SetJson>,
    limit: usize,
) -> String {
    let mut text = String::from("### Packages\n\n");
    text += match earlier {
        Some(_) => "| Package | Size | Change |\n| :--- | ---: | ---: |\n",
        None => "| Package | Size |\n| :--- | ---: |\n",
    };
    if text.len() + RESERVE > limit {
        return String::new();
    }
    let before = earlier.map(by_identity).unwrap_or_default();
    let table = set.files.iter().map(|file| {
        let before = before.get(&identity(file)).copied();
        let change = earlier.map(|_| format!(" {} |", change(file, before)));
        row(file, urls, &change.unwrap_or_default())
    });
    let mut gone = gone(set, &before);
    let further = gone.split_off(gone.len().min(MOST_GONE));
    let omitted = rows(
        &mut text,
        gone.into_iter().chain(table).chain(further),
        limit,
    );
    let (count, total) = (set.counted(), set.size());
    let _ = write!(text, "\n{count}, {}", size(total));
    if let Some(earlier) = earlier {
        let version = earlier.identity.version.as_ref();
        let version = version.map(|version| format!(" {}", code(&version.to_string())));
        let _ = write!(
            text,
            " (before,{}: {}, {})",
            version.unwrap_or_default(),
            size(earlier.size()),
            percent(earlier.size(), total)
        );
    }
    if omitted > 0 {
        let _ = write!(text, "; {} left out here", many(omitted, "row"));
    }
    if let Some(urls) = urls {
        let (sums, document) = (urls.path("SHA256SUMS"), urls.path("set.json"));
        let _ = write!(
            text,
            ". All of them: [SHA256SUMS]({sums}), [set.json]({document})"
        );
    }
    text + ".\n\n"
}

fn row(file: &SetFile, urls: Option<&Urls>, change: &str) -> String {
    let name = code(file.name());
    let name = match urls {
        Some(urls) => format!("[{name}]({})", urls.path(&file.path)),
        None => name,
    };
    let (sha256, size) = (file.sha256, size(file.size));
    format!("| {name}<br><sub>sha256 <code>{sha256}</code></sub> | {size} |{change}\n")
}

fn change(file: &SetFile, before: Option<&SetFile>) -> String {
    match before {
        None => "**new**".to_owned(),
        Some(before) if before.sha256 == file.sha256 => "same bytes".to_owned(),
        Some(before) => {
            let (by, part) = (
                growth(before.size, file.size),
                percent(before.size, file.size),
            );
            format!("{by}<br><sub>{part}</sub>")
        }
    }
}

/// A row for each package of the earlier set that this one does not have.
fn gone(set: &SetJson, before: &BTreeMap<String, &SetFile>) -> Vec<String> {
    let here: BTreeSet<String> = set.files.iter().map(identity).collect();
    let gone = before.iter().filter(|(name, _)| !here.contains(*name));
    let rows = gone.map(|(_, file)| {
        let (name, size) = (code(file.name()), size(file.size));
        format!("| <del>{name}</del> | {size} | **gone** |\n")
    });
    rows.collect()
}

fn by_identity(set: &SetJson) -> BTreeMap<String, &SetFile> {
    let files = set.files.iter();
    files.map(|file| (identity(file), file)).collect()
}

/// The path of a package in any layout, without its version:
/// `rocm_sdk_core--py3-none-linux_x86_64.whl`.
fn identity(file: &SetFile) -> String {
    file.below().replace(&file.version.to_string(), "")
}

#[cfg(test)]
mod tests;
