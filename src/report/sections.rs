//! The sections of the job summary that can be long. Each gets a limit in bytes, and says how many
//! rows it left out.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    cell::{code, message, plain},
    changes::{Changes, PackageChange, percent},
};
use crate::{
    check::{
        Finding, Report, Rule, Severity,
        coverage::{Cell, Coverage, short_size},
    },
    console::{many, size},
    set::{SetJson, SetJsonFile, Urls},
};

/// The most packages of the earlier set that are listed as gone, above the packages of the set.
const MOST_GONE: usize = 20;
/// The most findings that are shown for one rule.
const MOST_OF_A_RULE: usize = 20;
/// Bytes reserved for the end of a section.
const RESERVE: usize = 400;

/// Appends rows up to a limit. Returns how many were left out.
fn rows(text: &mut String, rows: impl ExactSizeIterator<Item = String>, limit: usize) -> usize {
    let mut rows = rows;
    while let Some(row) = rows.next() {
        if text.len() + row.len() + RESERVE > limit {
            return rows.len() + 1;
        }
        text.push_str(&row);
    }
    0
}

/// The table of packages; empty if there is no room for it.
pub(super) fn packages(
    set: &SetJson,
    urls: Option<&Urls>,
    changes: Option<&Changes<'_>>,
    limit: usize,
) -> String {
    let mut text = String::from("### Packages\n\n");
    text.push_str(match changes {
        Some(_) => "| Package | Size | Change |\n| :--- | ---: | ---: |\n",
        None => "| Package | Size |\n| :--- | ---: |\n",
    });
    if text.len() + RESERVE > limit {
        return String::new();
    }
    let files = set.files().iter();
    let table = files.map(|file| package(file, urls, changes));
    let gone = changes.map(|changes| changes.gone(set)).unwrap_or_default();
    let lost = gone.iter().map(|file| {
        let (name, size) = (code(file.name()), size(file.size));
        format!("| <del>{name}</del> | {size} | **gone** |\n")
    });
    let mut lost: Vec<String> = lost.collect();
    let further = lost.split_off(lost.len().min(MOST_GONE));
    let table: Vec<String> = lost.into_iter().chain(table).chain(further).collect();
    let omitted = rows(&mut text, table.into_iter(), limit);
    let total: u64 = set.files().iter().map(|file| file.size).sum();
    let count = many(set.files().len(), "package");
    let _ = write!(text, "\n{count}, {}", size(total));
    if let Some(changes) = changes {
        let before = changes.total();
        let since = changes
            .version()
            .map(|version| format!(" {}", code(version)));
        let _ = write!(
            text,
            " (before,{}: {}, {})",
            since.unwrap_or_default(),
            size(before),
            percent(before, total)
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

fn package(file: &SetJsonFile, urls: Option<&Urls>, changes: Option<&Changes<'_>>) -> String {
    let name = code(file.name());
    let name = match urls {
        Some(urls) => format!("[{name}]({})", urls.path(file.path())),
        None => name,
    };
    let size = size(file.size);
    let change = changes.map(|changes| format!(" {} |", change(file, changes.of(file))));
    format!(
        "| {name}<br><sub>sha256 <code>{}</code></sub> | {size} |{}\n",
        file.sha256,
        change.unwrap_or_default()
    )
}

fn change(file: &SetJsonFile, change: PackageChange) -> String {
    match change {
        PackageChange::New => "**new**".to_owned(),
        PackageChange::Same => "same bytes".to_owned(),
        PackageChange::From(before) => {
            let (sign, by) = if file.size < before {
                ("−", before - file.size)
            } else {
                ("+", file.size - before)
            };
            let by = size(by);
            format!("{sign}{by}<br><sub>{}</sub>", percent(before, file.size))
        }
    }
}

/// The findings of `check`, by rule; empty if there are none or no room for them.
pub(super) fn findings(report: &Report, limit: usize) -> String {
    let mut text = String::from("### Findings\n\n");
    let rules = report.by_rule();
    if rules.is_empty() || text.len() + RESERVE > limit {
        return String::new();
    }
    let blocks = rules.iter().map(|(broken, rows)| rule(broken, rows));
    let blocks: Vec<String> = blocks.collect();
    let omitted = rows(&mut text, blocks.into_iter(), limit);
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
    let is_wide = report.coverage.targets.len() > MOST_COLUMNS;
    if is_wide && !gaps.is_empty() {
        text.push_str("| Library | No code for |\n| :--- | :--- |\n");
        text.extend(gaps);
        text.push_str("\n<details><summary>Library by target</summary>\n\n");
    } else if is_wide {
        text.push_str("<details><summary>Library by target</summary>\n\n");
    }
    text.push_str(&heads(&report.coverage));
    if text.len() + RESERVE > limit {
        return String::new();
    }
    let table = libraries
        .iter()
        .map(|(name, row)| line(&report.coverage, name, row));
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

type Cells = BTreeMap<String, Cell>;

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

fn heads(coverage: &Coverage) -> String {
    let targets = &coverage.targets;
    let heads: Vec<String> = targets.iter().map(|it| plain(it)).collect();
    let heads = heads.join(" | ");
    let rule = " ---: |".repeat(targets.len());
    format!("| Library | {heads} |\n| :--- |{rule}\n")
}

fn line(coverage: &Coverage, library: &str, row: &Cells) -> String {
    let cells = coverage.targets.iter().map(|target| match row.get(target) {
        None => " **none** |".to_owned(),
        Some(cell) => format!(" {} |", short_size(cell.bytes).replace(' ', "&nbsp;")),
    });
    format!("| {} |{}\n", code(library), cells.collect::<String>())
}
