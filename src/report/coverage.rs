//! Which library has device code for which target: gaps as squares, and all sizes in a closed table.

use std::{collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, code, folded, plain, push_rows, table};
use crate::check::{
    Report,
    coverage::{Cell, Coverage},
};
use rocwheel_base::quantity::many;

/// The libraries with gaps that a reader sees before opening anything.
const MOST_SHOWN: usize = 8;

/// Renders at most `limit` bytes; empty if nothing is known, or if there is no room.
pub(super) fn render_coverage(report: &Report, limit: usize) -> String {
    let Coverage { targets, libraries, .. } = &report.coverage;
    if libraries.is_empty() {
        return String::new();
    }
    let gaps: Vec<String> =
        libraries.iter().filter_map(|(name, row)| render_gap(targets, name, &row.cells)).collect();
    let whole = libraries.len() - gaps.len();
    let count = many(libraries.len(), "library");
    let mut markdown =
        format!("### Device code\n\n{whole} of {count} with code for every target.\n\n");
    let columns = targets.iter().map(|target| plain(target)).join(" | ");
    let alignment = " ---: |".repeat(targets.len());
    let head = format!("| Library | {columns} |\n| :--- |{alignment}");
    if markdown.len() + head.len() + 3 * RESERVE > limit {
        return String::new();
    }
    if !gaps.is_empty() {
        markdown += "| Library | Code | No code for |\n| :--- | :--- | :--- |\n";
        let shown = gaps.len().min(MOST_SHOWN);
        let omitted = push_rows(&mut markdown, gaps.into_iter().take(shown), limit / 2);
        let further = libraries.len() - whole - shown + omitted;
        if further > 0 {
            let _ = writeln!(markdown, "\n{} with gaps below.", many(further, "more library"));
        }
        markdown += "\n";
    }
    let lines =
        libraries.iter().map(|(name, row)| render_sizes(targets, name, &row.cells)).collect();
    let room = limit.saturating_sub(markdown.len());
    let table = table(&head, lines, usize::MAX, room);
    markdown + &folded("Size of the code by library and target", &table)
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
fn render_gap(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> Option<String> {
    let has_code = |target: &String| row.contains_key(target);
    if targets.iter().all(has_code) {
        return None;
    }
    let missing = targets.iter().filter(|it| !has_code(it)).map(|it| code(it)).join(" ");
    let squares: String =
        targets.iter().map(|target| if has_code(target) { '🟩' } else { '🟥' }).collect();
    Some(format!("| {} | {squares} | {missing} |\n", code(library)))
}

/// The row of a library with the size of its code for each target.
fn render_sizes(targets: &[String], library: &str, row: &BTreeMap<String, Cell>) -> String {
    let cells: String = targets
        .iter()
        .map(|target| match row.get(target) {
            None => " 🟥&nbsp;none |".to_owned(),
            Some(cell) => format!(" {} |", short_size(cell.bytes).replace(' ', "&nbsp;")),
        })
        .collect();
    format!("| {} |{cells}\n", code(library))
}
