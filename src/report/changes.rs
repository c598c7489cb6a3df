//! What differs between two sets, as Markdown for a job summary. Only the packages are unfolded.

use std::fmt::{self, Write as _};

use itertools::Itertools as _;

use super::cells::{LIMIT, RESERVE, arrow, change, code, folded, linked, plain, rows};
use crate::{
    console::{few, many, size},
    diff::{
        ComparedSet, Difference, FileChange, FilePlace, LineChange, PackageChange, SizeChange,
        changed_size, file_notes, library_facts,
    },
};

/// A difference as a page.
#[derive(Clone, Copy, Debug)]
pub struct DifferencePage<'a> {
    pub difference: &'a Difference,
    /// How many rows of each list are shown; all of them if it is 0.
    pub top: usize,
    /// The URL of the GitHub server, for links to runs and commits.
    pub server: &'a str,
}

impl DifferencePage<'_> {
    /// Renders a page of at most `limit` bytes.
    pub fn render(&self, limit: usize) -> String {
        let difference = self.difference;
        let mut text = "## What differs\n\n".to_owned();
        for (name, set) in [("Before", &difference.before), ("After", &difference.after)] {
            let _ = writeln!(text, "- **{name}**: {}", self.set(set));
        }
        if let Some(path) = difference.source() {
            let _ = writeln!(text, "- {}", linked("source", Some(path), self.server));
        }
        text += "\n";
        if difference.is_empty() {
            return text + "Nothing.\n\n";
        }
        let (old, new) = (difference.before.weight.size, difference.after.weight.size);
        let by = change(Some(old), Some(new));
        let _ = writeln!(text, "{} → {}: {by}\n", size(old), size(new));
        let packages = "| Package | After | Change |\n| :--- | ---: | :--- |";
        let rows = difference.packages.iter().map(package);
        if let Some((_, table)) = self.table(packages, rows, limit.saturating_sub(text.len())) {
            text += &(table + "\n");
        }
        let lists = self.lists(limit.saturating_sub(text.len()));
        text + &lists
    }

    /// What changed within the packages, as a section of a summary, which has the packages
    /// themselves. Empty if nothing is known to have changed there.
    pub(super) fn section(&self, limit: usize) -> String {
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
        let directories = difference.directories.iter().map(directory);
        let files = difference.files.iter().map(file);
        let facts = difference.libraries.iter().flat_map(|library| {
            let facts = library_facts(library, self.top == 0).into_iter();
            facts.map(|fact| format!("| {} | {} |\n", place(&library.file), plain(&fact)))
        });
        let device_code = difference.device_code.iter().map(|it| {
            let by = change(it.before.map(|it| it.bytes), it.after.map(|it| it.bytes));
            format!("| {} | {} | {by} |\n", code(&it.target), code(&it.library))
        });
        let lists: [(&str, &str, Vec<String>); 6] = [
            (
                "Directories, as installed",
                "| Directory | After | Change |\n| :--- | ---: | :--- |",
                directories.collect(),
            ),
            (
                "Files",
                "| | File | Change |\n| :--- | :--- | :--- |",
                files.collect(),
            ),
            (
                "Libraries and programs",
                "| File | What |\n| :--- | :--- |",
                facts.collect(),
            ),
            (
                "Device code",
                "| Target | Library | Change |\n| :--- | :--- | :--- |",
                device_code.collect(),
            ),
            (
                "Metadata",
                LINES,
                difference.metadata.iter().flat_map(line).collect(),
            ),
            (
                "Tables of rocm_sdk",
                LINES,
                difference.tables.iter().flat_map(line).collect(),
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

    fn set(&self, set: &ComparedSet) -> String {
        let identity = &set.identity;
        let of = |path: &str| Some(format!("{}/{path}", identity.repository.as_ref()?));
        let run = identity.run_id.as_ref().filter(|run| !run.is_local());
        let run = run.map(|run| {
            let link = of(&format!("actions/runs/{run}"));
            format!("run {}", linked(run.as_str(), link, self.server))
        });
        let commit = identity.commit.as_ref().map(|commit| {
            let link = of(&format!("commit/{commit}"));
            format!("commit {}", linked(&commit.to_string(), link, self.server))
        });
        let versions = set.versions.iter().map(|it| code(it)).join(" ");
        let versions = Some(versions).filter(|it| !it.is_empty());
        let count = Some(many(set.packages, "package"));
        let facts = [Some(code(&set.place)), versions, run, commit, count];
        facts.into_iter().flatten().join(", ")
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
        let most = if self.top == 0 { count } else { self.top };
        let shown = lines.into_iter().take(most);
        let omitted = rows(&mut table, shown, limit) + count.saturating_sub(most);
        if omitted > 0 {
            let _ = writeln!(table, "\n{} left out here.", many(omitted, "row"));
        }
        Some((count, table))
    }
}

/// The head of a table of changed lines.
const LINES: &str = "| | Package | Line |\n| :--- | :--- | :--- |";

/// Prints the page without a limit, for those who pipe it somewhere.
impl fmt::Display for DifferencePage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(LIMIT))
    }
}

fn package(of: &PackageChange) -> String {
    let sizes = (of.before.map(|it| it.size), of.after.map(|it| it.size));
    let (by, after) = (change(sizes.0, sizes.1), size(sizes.1.unwrap_or(0)));
    format!("| {} | {after} | {by} |\n", code(&of.package))
}

fn directory(of: &SizeChange) -> String {
    let (by, after) = (change(Some(of.before), Some(of.after)), size(of.after));
    let place = of_package(&of.path, &of.package);
    format!("| {place} | {after} | {by} |\n")
}

fn place(file: &FilePlace) -> String {
    of_package(&file.path, &file.package)
}

/// A path with its package below it.
fn of_package(path: &str, package: &str) -> String {
    format!("{}<br><sub>{}</sub>", code(path), plain(package))
}

fn file(change: &FileChange) -> String {
    let from = change.from.as_ref();
    let from = from.map_or(String::new(), |from| format!("{} → ", code(&from.path)));
    let notes = file_notes(change);
    let notes = Some(plain(&notes)).filter(|it| !it.is_empty());
    let notes = notes.map_or(String::new(), |it| format!("<br><sub>{it}</sub>"));
    let (fate, file) = (change.fate, place(&change.file));
    let by = match changed_size(change) {
        size if size.is_empty() => size,
        size => format!(
            "{}{size}",
            arrow(change.before.unwrap_or(0), change.after.unwrap_or(0))
        ),
    };
    format!("| {fate} | {from}{file} | {by}{notes} |\n")
}

fn line(change: &LineChange) -> impl Iterator<Item = String> + '_ {
    let packages = match &change.packages[..] {
        [one] => plain(one),
        several => many(several.len(), "package"),
    };
    let gone = change.lines.gone.iter().map(|line| ("gone", line));
    let lines = gone.chain(change.lines.new.iter().map(|line| ("new", line)));
    lines.map(move |(what, line)| format!("| {what} | {packages} | {} |\n", code(line)))
}
