//! What differs between two sets, as Markdown for a job summary. Only the packages are unfolded.

use std::fmt::Write as _;

use super::cells::{arrow, code, folded, linked, plain, table};
use crate::{
    console::{few, many},
    diff::{Difference, FileChange, LineChange, changed_size, file_notes},
};

/// How many rows of each list are shown.
const MOST_SHOWN: usize = 20;

/// What changed within the packages, as a section of a summary, which has the packages themselves. Its lists
/// are closed. Renders at most `limit` bytes; empty if nothing is known to have changed there.
pub(super) fn changes(difference: &Difference, server: &str, limit: usize) -> String {
    let versions = few(difference.before.versions.iter().map(|it| code(it)));
    let since = match &*versions {
        "" => code(&difference.before.place),
        versions => versions.to_owned(),
    };
    let mut text = format!("### What changed since {since}\n\n");
    if let Some(path) = difference.source() {
        let _ = writeln!(text, "{}\n", linked("source", Some(path), server));
    }
    let files: Vec<String> = difference.files.iter().map(file).collect();
    let lines: Vec<String> = difference.metadata.iter().flat_map(line).collect();
    let head = text.len();
    for (title, columns, rows) in
        [("Files", "| | File | Change |", files), ("Metadata", "| | Package | Line |", lines)]
    {
        let title = format!("{title}: {}", rows.len());
        let columns = format!("{columns}\n| :--- | :--- | :--- |");
        let room = limit.saturating_sub(text.len() + title.len());
        match &*table(&columns, rows, MOST_SHOWN, room) {
            "" => {}
            table => text += &folded(&title, table),
        }
    }
    if text.len() == head {
        return String::new();
    }
    text
}

fn file(change: &FileChange) -> String {
    let notes = file_notes(change);
    let notes = Some(plain(&notes)).filter(|it| !it.is_empty());
    let notes = notes.map_or(String::new(), |it| format!("<br><sub>{it}</sub>"));
    let (path, package) = (code(&change.path), plain(&change.package));
    let arrow = arrow(change.before.unwrap_or(0), change.after.unwrap_or(0));
    let by = changed_size(change);
    format!("| {} | {path}<br><sub>{package}</sub> | {arrow}{by}{notes} |\n", change.fate)
}

fn line(change: &LineChange) -> impl Iterator<Item = String> + '_ {
    let packages = match &change.packages[..] {
        [one] => plain(one),
        several => many(several.len(), "package"),
    };
    let gone = change.gone.iter().map(|line| ("gone", line));
    let lines = gone.chain(change.new.iter().map(|line| ("new", line)));
    lines.map(move |(what, line)| format!("| {what} | {packages} | {} |\n", code(line)))
}
