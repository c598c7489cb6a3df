//! A difference as text for a terminal.

use std::fmt::{self, Display};

use itertools::Itertools as _;

use super::difference::{ComparedSet, Difference, FileChange, FileFate, LineChange, PackageChange};
use crate::console::{few, growth, many, percent, size};

/// How many lines of each list are shown. The JSON document has all of them.
const MOST_LINES: usize = 20;

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { before, after, .. } = self;
        if self.is_empty() {
            let packages = many(after.packages, "package");
            let (before, after) = (&before.place, &after.place);
            return writeln!(f, "nothing differs in {packages} of `{before}` and `{after}`");
        }
        writeln!(f, "before: {before}\nafter:  {after}")?;
        if let Some(path) = self.source() {
            writeln!(f, "source: https://github.com/{path}")?;
        }
        self.packages(f)?;
        self.files(f)?;
        let metadata = &self.metadata;
        section(f, "Metadata", metadata.iter().flat_map(line_facts))
    }
}

impl Difference {
    fn packages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { before, after, .. } = self;
        let (old, new) = (before.size, after.size);
        let title = format!(
            "Packages: {} in {} before, {} in {} after: {}, {}",
            size(old),
            before.packages,
            size(new),
            after.packages,
            growth(old, new),
            percent(old, new),
        );
        section(f, &title, self.packages.iter().map(package))
    }

    fn files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = &self.files;
        if files.is_empty() {
            return Ok(());
        }
        let counts = files.iter().map(|it| it.fate).counts();
        let counts = counts.into_iter().sorted();
        let counts = counts.map(|(fate, count)| format!("{count} {fate}"));
        writeln!(f, "\nFiles: {}", counts.format(", "))?;
        let groups = files.iter().chunk_by(|it| it.fate);
        for (_, files) in &groups {
            some(f, files.map(file))?;
        }
        Ok(())
    }
}

fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = String>,
) -> fmt::Result {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(f, "\n{title}")?;
    some(f, lines)
}

/// The first lines, and how many more there are.
fn some(f: &mut fmt::Formatter<'_>, lines: impl Iterator<Item = String>) -> fmt::Result {
    let mut rest = 0_usize;
    for (index, line) in lines.enumerate() {
        if index < MOST_LINES {
            writeln!(f, "  {line}")?;
        } else {
            rest += 1;
        }
    }
    if rest > 0 {
        writeln!(f, "  … and {rest} more: `--format json` has all")?;
    }
    Ok(())
}

/// Shows what is known of a set: `dist: 7.14.0, run 21440027240 of ROCm/TheRock, commit 5a6d91e`.
impl Display for ComparedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = &self.identity;
        let run = identity.run_id.as_ref().filter(|it| !it.is_local());
        let run = run.map(|run| match &identity.repository {
            Some(repository) => format!("run {run} of {repository}"),
            None => format!("run {run}"),
        });
        let commit = identity.commit.as_ref();
        let commit = commit.map(|it| format!("commit {:.10}", it.to_string()));
        let versions = few(self.versions.iter().cloned());
        let versions = Some(versions).filter(|it| !it.is_empty());
        let facts = [versions, run, commit].into_iter().flatten();
        write!(f, "{}: {}", self.place, facts.format(", "))
    }
}

fn package(change: &PackageChange) -> String {
    let (before, after) = change.sizes();
    let fate = FileFate::of(change.before.is_some(), change.after.is_some());
    let (by, name) = (growth(before, after), &change.package);
    let line = format!("{:<8}{by:>12}  {name}", fate.to_string());
    if change.before.is_none() || change.after.is_none() {
        return line;
    }
    format!("{line}: {}, {}", size(after), percent(before, after))
}

/// `gone      −12.00 KiB  rocm-sdk-core: _rocm_sdk_core/lib/libx.so.1`
fn file(change: &FileChange) -> String {
    let (by, fate) = (changed_size(change), change.fate.to_string());
    let (package, path) = (&change.package, &change.path);
    let line = format!("{fate:<8}{by:>12}  {package}: {path}");
    let notes = file_notes(change);
    if notes.is_empty() { line } else { format!("{line} ({notes})") }
}

/// How much a file has grown.
pub fn changed_size(change: &FileChange) -> String {
    growth(change.before.unwrap_or(0), change.after.unwrap_or(0))
}

/// What else is known of a changed file: its permissions.
pub fn file_notes(change: &FileChange) -> String {
    let modes = change.modes;
    modes.map_or(String::new(), |(old, new)| format!("mode {old:o} → {new:o}"))
}

/// `gone    rocm: Provides-Extra: libraries`
fn line_facts(change: &LineChange) -> impl Iterator<Item = String> + '_ {
    let packages = match &change.packages[..] {
        [one] => one.clone(),
        several => format!("{} of {}", change.file, many(several.len(), "package")),
    };
    let gone = change.gone.iter().map(|line| ("gone", line));
    let lines = gone.chain(change.new.iter().map(|line| ("new", line)));
    lines.map(move |(what, line)| format!("{what:<8}{packages}: {line}"))
}
