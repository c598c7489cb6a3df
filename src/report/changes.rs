//! What differs between two sets, as a section of a job summary.

use std::fmt::Write as _;

use super::cells::{arrow, code, folded, linked, plain, table};
use crate::diff::{Difference, FileChange, LineChange, changed_size, file_notes};
use rocwheel_base::quantity::{few, many};

/// How many rows of each list are shown.
const MOST_SHOWN: usize = 20;

/// Renders what changed within the packages; the table of packages says which packages changed. The lists
/// are closed. Renders at most `limit` bytes; empty if nothing is known to have changed there.
pub(super) fn render_changes(difference: &Difference, server: &str, limit: usize) -> String {
    let versions = few(difference.before.versions.iter().map(|it| code(it)));
    let since = match &*versions {
        "" => code(&difference.before.place),
        versions => versions.to_owned(),
    };
    let mut markdown = format!("### What changed since {since}\n\n");
    if let Some(path) = difference.source() {
        let _ = writeln!(markdown, "{}\n", linked("source", Some(path), server));
    }
    let files: Vec<String> = difference.files.iter().map(render_file).collect();
    let lines: Vec<String> = difference.metadata.iter().flat_map(render_lines).collect();
    let head = markdown.len();
    for (title, columns, rows) in
        [("Files", "| | File | Change |", files), ("Metadata", "| | Package | Line |", lines)]
    {
        let title = format!("{title}: {}", rows.len());
        let columns = format!("{columns}\n| :--- | :--- | :--- |");
        let room = limit.saturating_sub(markdown.len() + title.len());
        match &*table(&columns, rows, MOST_SHOWN, room) {
            "" => {}
            table => markdown += &folded(&title, table),
        }
    }
    if markdown.len() == head {
        return String::new();
    }
    markdown
}

/// The row of a file.
fn render_file(change: &FileChange) -> String {
    let notes = match &*plain(&file_notes(change)) {
        "" => String::new(),
        notes => format!("<br><sub>{notes}</sub>"),
    };
    let path = code(&change.path);
    let package = plain(&change.package);
    let arrow = arrow(change.before.unwrap_or(0), change.after.unwrap_or(0));
    let growth = changed_size(change);
    format!("| {} | {path}<br><sub>{package}</sub> | {arrow}{growth}{notes} |\n", change.fate)
}

/// A row for each line of METADATA that is gone or new.
fn render_lines(change: &LineChange) -> impl Iterator<Item = String> + '_ {
    let packages = match &change.packages[..] {
        [package] => plain(package),
        packages => many(packages.len(), "package"),
    };
    let gone = change.gone.iter().map(|line| ("gone", line));
    let new = change.new.iter().map(|line| ("new", line));
    gone.chain(new).map(move |(fate, line)| format!("| {fate} | {packages} | {} |\n", code(line)))
}
