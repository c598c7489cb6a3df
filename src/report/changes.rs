//! What differs between two sets, as Markdown for a job summary. Only the packages are unfolded.

use std::fmt::{self, Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, change, code, folded, linked, plain, rows};
use crate::{
    console::{many, size},
    diff::{
        ComparedSet, Difference, FileChange, FilePlace, LineChange, PackageChange, changed_size,
        file_notes, library_facts,
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
        let head = (
            "Packages",
            "| Package | After | Change |\n| :--- | ---: | ---: |",
        );
        self.table(
            &mut text,
            limit,
            head,
            difference.packages.iter().map(package),
        );
        let head = ("Files", "| | File | Change |\n| :--- | :--- | ---: |");
        self.table(&mut text, limit, head, difference.files.iter().map(file));
        let facts = difference.libraries.iter().flat_map(|library| {
            let facts = library_facts(library, self.top == 0).into_iter();
            facts.map(|fact| format!("| {} | {} |\n", place(&library.file), plain(&fact)))
        });
        let head = ("Libraries and programs", "| File | What |\n| :--- | :--- |");
        self.table(&mut text, limit, head, facts);
        let rows = difference.device_code.iter().map(|it| {
            let by = change(it.before.map(|it| it.bytes), it.after.map(|it| it.bytes));
            format!("| {} | {} | {by} |\n", code(&it.target), code(&it.library))
        });
        let head = (
            "Device code",
            "| Target | Library | Change |\n| :--- | :--- | ---: |",
        );
        self.table(&mut text, limit, head, rows);
        let head = "| | Package | Line |\n| :--- | :--- | :--- |";
        let metadata = difference.metadata.iter().flat_map(line);
        self.table(&mut text, limit, ("Metadata", head), metadata);
        let tables = difference.tables.iter().flat_map(line);
        self.table(&mut text, limit, ("Tables of rocm_sdk", head), tables);
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

    /// Appends a table, folded unless it is the first one.
    fn table(
        &self,
        text: &mut String,
        limit: usize,
        (title, head): (&str, &str),
        lines: impl Iterator<Item = String>,
    ) {
        let lines: Vec<String> = lines.collect();
        let (mut table, title) = (format!("{head}\n"), format!("{title}: {}", lines.len()));
        let limit = limit.saturating_sub(text.len() + title.len());
        if lines.is_empty() || table.len() + RESERVE > limit {
            return;
        }
        let most = if self.top == 0 { lines.len() } else { self.top };
        let shown = lines.iter().take(most).cloned();
        let omitted = rows(&mut table, shown, limit) + lines.len().saturating_sub(most);
        if omitted > 0 {
            let _ = writeln!(table, "\n{} left out here.", many(omitted, "row"));
        }
        *text += &if title.starts_with("Packages") {
            table + "\n"
        } else {
            folded(&title, &table)
        };
    }
}

/// Prints the page without a limit, for those who pipe it somewhere.
impl fmt::Display for DifferencePage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(super::LIMIT))
    }
}

fn package(of: &PackageChange) -> String {
    let sizes = (of.before.map(|it| it.size), of.after.map(|it| it.size));
    let (by, after) = (change(sizes.0, sizes.1), size(sizes.1.unwrap_or(0)));
    format!("| {} | {after} | {by} |\n", code(&of.package))
}

fn place(file: &FilePlace) -> String {
    format!(
        "{}<br><sub>{}</sub>",
        code(&file.path),
        plain(&file.package)
    )
}

fn file(change: &FileChange) -> String {
    let from = change.from.as_ref();
    let from = from.map_or(String::new(), |from| format!("{} → ", code(&from.path)));
    let notes = file_notes(change);
    let notes = Some(plain(&notes)).filter(|it| !it.is_empty());
    let notes = notes.map_or(String::new(), |it| format!("<br><sub>{it}</sub>"));
    let (fate, file, by) = (change.fate, place(&change.file), changed_size(change));
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
