//! Which library has device code for which target, as squares, and, closed, as sizes.

use std::{collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, code, folded, plain, rows, table};
use crate::{
    check::{
        Report,
        coverage::{Cell, Coverage},
    },
    console::many,
};

/// The libraries with gaps that a reader sees before opening anything.
const MOST_SHOWN: usize = 8;

/// Renders at most `limit` bytes; empty if nothing is known, or if there is no room.
pub(super) fn coverage(report: &Report, limit: usize) -> String {
    let Coverage { targets, libraries, .. } = &report.coverage;
    if libraries.is_empty() {
        return String::new();
    }
    let gaps: Vec<String> =
        libraries.iter().filter_map(|(name, row)| gap(targets, name, &row.cells)).collect();
    let whole = libraries.len() - gaps.len();
    let count = many(libraries.len(), "library");
    let mut text = format!("### Device code\n\n{whole} of {count} with code for every target.\n\n");
    let heads = targets.iter().map(|it| plain(it)).join(" | ");
    let rule = " ---: |".repeat(targets.len());
    let head = format!("| Library | {heads} |\n| :--- |{rule}");
    if text.len() + head.len() + 3 * RESERVE > limit {
        return String::new();
    }
    if !gaps.is_empty() {
        text += "| Library | Code | No code for |\n| :--- | :--- | :--- |\n";
        let shown = gaps.len().min(MOST_SHOWN);
        let omitted = rows(&mut text, gaps.into_iter().take(shown), limit / 2);
        let further = libraries.len() - whole - shown + omitted;
        if further > 0 {
            let _ = writeln!(text, "\n{} with gaps below.", many(further, "more library"));
        }
        text += "\n";
    }
    let lines = libraries.iter().map(|(name, row)| line(targets, name, &row.cells));
    let room = limit.saturating_sub(text.len());
    let table = table(&head, lines.collect(), usize::MAX, room);
    text + &folded("Size of the code by library and target", &table)
}

/// A size without fraction: `96 KiB`.
fn short_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// The row of a library that lacks code for a target: `🟩🟥`.
fn gap(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> Option<String> {
    let missing = targets.iter().filter(|target| !row.contains_key(*target));
    let missing = missing.map(|target| code(target)).join(" ");
    let squares = targets.iter().map(|target| match row.get(target) {
        Some(_) => '🟩',
        None => '🟥',
    });
    let squares: String = squares.collect();
    let library = code(library);
    (!missing.is_empty()).then(|| format!("| {library} | {squares} | {missing} |\n"))
}

fn line(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> String {
    let cells = targets.iter().map(|target| match row.get(target) {
        None => " 🟥&nbsp;none |".to_owned(),
        Some(cell) => format!(" {} |", short_size(cell.bytes).replace(' ', "&nbsp;")),
    });
    format!("| {} |{}\n", code(library), cells.collect::<String>())
}
