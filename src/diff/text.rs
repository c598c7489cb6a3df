//! A difference as text for a terminal.

use std::fmt::{self, Display};

use itertools::Itertools as _;

use super::difference::{ComparedSet, Difference, FileChange, FileFate, LineChange, PackageChange};
use crate::index::Identity;
use rocwheel_base::quantity::{few, growth, many, percent, size};

/// How many lines of each list are shown. The JSON document has all of them.
const MOST_LINES: usize = 20;

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { before, after, .. } = self;
        if self.is_empty() {
            let packages = many(after.packages, "package");
            let first = &before.place;
            let second = &after.place;
            if before.versions == after.versions {
                return writeln!(f, "nothing differs in {packages} of `{first}` and `{second}`");
            }
            let versions = |set: &ComparedSet| few(set.versions.iter().cloned());
            return writeln!(
                f,
                "the contents of {packages} are the same: {} in `{first}`, {} in `{second}`",
                versions(before),
                versions(after)
            );
        }
        writeln!(f, "before: {before}\nafter:  {after}")?;
        if let Some(path) = self.source() {
            writeln!(f, "source: https://github.com/{path}")?;
        }
        self.write_packages(f)?;
        self.write_files(f)?;
        write_section(f, "Metadata", self.metadata.iter().flat_map(line_facts))
    }
}

impl Difference {
    fn write_packages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { before, after, .. } = self;
        let title = format!(
            "Packages: {} in {} before, {} in {} after: {}, {}",
            size(before.size),
            before.packages,
            size(after.size),
            after.packages,
            growth(before.size, after.size),
            percent(before.size, after.size),
        );
        write_section(f, &title, self.packages.iter().map(package_line))
    }

    fn write_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.files.is_empty() {
            return Ok(());
        }
        let counts = self.files.iter().map(|it| it.fate).counts();
        let totals = counts.into_iter().sorted().map(|(fate, count)| format!("{count} {fate}"));
        writeln!(f, "\nFiles: {}", totals.format(", "))?;
        // The files are sorted by fate, and each fate has its own list of first lines.
        for (_, files) in &self.files.iter().chunk_by(|it| it.fate) {
            write_first_lines(f, files.map(file_line))?;
        }
        Ok(())
    }
}

fn write_section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = String>,
) -> fmt::Result {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(f, "\n{title}")?;
    write_first_lines(f, lines)
}

/// Writes the first lines, and how many more there are.
fn write_first_lines(
    f: &mut fmt::Formatter<'_>,
    mut lines: impl Iterator<Item = String>,
) -> fmt::Result {
    for line in lines.by_ref().take(MOST_LINES) {
        writeln!(f, "  {line}")?;
    }
    match lines.count() {
        0 => Ok(()),
        left => writeln!(f, "  … and {left} more: `--format json` has all"),
    }
}

/// Shows what is known of a set: `dist: 7.14.0, run 21440027240 of ROCm/TheRock, commit 5a6d91e`.
impl Display for ComparedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Vec::new();
        if !self.versions.is_empty() {
            facts.push(few(self.versions.iter().cloned()));
        }
        let Identity { run_id, repository, commit, .. } = &self.identity;
        // The id of a local build is no run that a reader could look up.
        if let Some(run) = run_id.as_ref().filter(|run| !run.is_local()) {
            facts.push(match repository {
                Some(repository) => format!("run {run} of {repository}"),
                None => format!("run {run}"),
            });
        }
        if let Some(commit) = commit {
            facts.push(format!("commit {:.10}", commit.to_string()));
        }
        write!(f, "{}: {}", self.place, facts.iter().format(", "))
    }
}

/// `changed   +2.00 MiB  rocm-sdk-core: 14.00 MiB, +17 %`
fn package_line(change: &PackageChange) -> String {
    let (before, after) = change.sizes();
    let fate = FileFate::of(change.before.is_some(), change.after.is_some()).to_string();
    let growth = growth(before, after);
    let line = format!("{fate:<8}{growth:>12}  {}", change.package);
    // A package that is gone or new has grown by its size, which the line already says.
    if change.before.is_none() || change.after.is_none() {
        return line;
    }
    let line = format!("{line}: {}, {}", size(after), percent(before, after));
    match change.renamed_from.as_ref().zip(change.file.as_ref()) {
        Some((old, new)) => format!("{line}, renamed from `{old}` to `{new}`"),
        None => line,
    }
}

/// `gone      −12.00 KiB  rocm-sdk-core: _rocm_sdk_core/lib/libx.so.1`
fn file_line(change: &FileChange) -> String {
    let fate = change.fate.to_string();
    let growth = changed_size(change);
    let line = format!("{fate:<8}{growth:>12}  {}: {}", change.package, change.path);
    let notes = file_notes(change);
    if notes.is_empty() { line } else { format!("{line} ({notes})") }
}

/// How much a file has grown.
pub fn changed_size(change: &FileChange) -> String {
    growth(change.before.unwrap_or(0), change.after.unwrap_or(0))
}

/// What else is known of a changed file: its permissions.
pub fn file_notes(change: &FileChange) -> String {
    match change.modes {
        Some((before, after)) => format!("mode {before:o} → {after:o}"),
        None => String::new(),
    }
}

/// `gone    rocm: Provides-Extra: libraries`
fn line_facts(change: &LineChange) -> impl Iterator<Item = String> + '_ {
    let packages = match &change.packages[..] {
        [package] => package.clone(),
        several => format!("{} of {}", change.file, many(several.len(), "package")),
    };
    let gone = change.gone.iter().map(|line| ("gone", line));
    let new = change.new.iter().map(|line| ("new", line));
    gone.chain(new).map(move |(fate, line)| format!("{fate:<8}{packages}: {line}"))
}
