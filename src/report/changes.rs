//! What differs between two sets, as Markdown for a job summary. Only the packages are unfolded.

use std::fmt::Write as _;

use super::cells::{RESERVE, arrow, code, folded, linked, plain, rows};
use crate::{
    console::{few, many},
    diff::{Difference, FileChange, LineChange, changed_size, file_notes},
};

/// A difference as a section of a summary.
#[derive(Clone, Copy, Debug)]
pub(super) struct DifferenceSection<'a> {
    pub(super) difference: &'a Difference,
    /// How many rows of each list are shown.
    pub(super) top: usize,
    /// The URL of the GitHub server, for links to runs and commits.
    pub(super) server: &'a str,
}

impl DifferenceSection<'_> {
    /// What changed within the packages, as a section of a summary, which has the packages
    /// themselves. Empty if nothing is known to have changed there.
    pub(super) fn render(&self, limit: usize) -> String {
        let difference = self.difference;
        let versions = few(difference.before.versions.iter().map(|it| code(it)));
        let since = match &*versions {
            "" => code(&difference.before.place),
            versions => versions.to_owned(),
        };
        let mut text = format!("### What changed since {since}\n\n");
        if let Some(path) = difference.source() {
            let _ = writeln!(text, "{}\n", linked("source", Some(path), self.server));
        }
        let lists = self.lists(limit.saturating_sub(text.len()));
        if lists.is_empty() {
            return lists;
        }
        text + &lists
    }

    /// The lists of everything below packages, each of them closed.
    fn lists(&self, limit: usize) -> String {
        let difference = self.difference;
        let lists: [(&str, &str, Vec<String>); 2] = [
            (
                "Files",
                "| | File | Change |\n| :--- | :--- | :--- |",
                difference.files.iter().map(file).collect(),
            ),
            (
                "Metadata",
                "| | Package | Line |\n| :--- | :--- | :--- |",
                difference.metadata.iter().flat_map(line).collect(),
            ),
        ];
        let mut text = String::new();
        for (title, head, rows) in lists {
            let room = limit.saturating_sub(text.len() + title.len());
            if let Some((count, table)) = self.table(head, rows.into_iter(), room) {
                text += &folded(&format!("{title}: {count}"), &table);
            }
        }
        text
    }

    /// A table of the first rows, and how many rows there are in all. `None` if there are none, or if
    /// there is no room.
    fn table(
        &self,
        head: &str,
        lines: impl Iterator<Item = String>,
        limit: usize,
    ) -> Option<(usize, String)> {
        let (lines, mut table): (Vec<String>, _) = (lines.collect(), format!("{head}\n"));
        let count = lines.len();
        if count == 0 || table.len() + RESERVE > limit {
            return None;
        }
        let shown = lines.into_iter().take(self.top);
        let omitted = rows(&mut table, shown, limit) + count.saturating_sub(self.top);
        if omitted > 0 {
            let _ = writeln!(table, "\n{} left out here.", many(omitted, "row"));
        }
        Some((count, table))
    }
}

fn file(change: &FileChange) -> String {
    let notes = file_notes(change);
    let notes = Some(plain(&notes)).filter(|it| !it.is_empty());
    let notes = notes.map_or(String::new(), |it| format!("<br><sub>{it}</sub>"));
    let (path, package) = (code(&change.path), plain(&change.package));
    let arrow = arrow(change.before.unwrap_or(0), change.after.unwrap_or(0));
    let by = changed_size(change);
    format!(
        "| {} | {path}<br><sub>{package}</sub> | {arrow}{by}{notes} |\n",
        change.fate
    )
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
