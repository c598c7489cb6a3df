//! The packages of a set as a table with bars, and what changed in them since an earlier set.

use std::{cmp::Reverse, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, bar, change, code, folded, plain, rows};
use crate::{
    console::{few, many, size},
    diff::{Difference, PackageChange},
    index::{PackageFile, SetJson, Urls},
};

/// The packages that a reader sees before opening anything.
const MOST_SHOWN: usize = 8;

/// The most packages of the earlier set that are listed as gone before all packages of the set.
const MOST_GONE: usize = 20;

/// The packages of a set, and what changed in them.
pub(super) struct PackageTable<'a> {
    pub(super) set: &'a SetJson,
    /// `None` if the packages have no addresses.
    pub(super) urls: Option<&'a Urls>,
    pub(super) changes: Option<&'a Difference>,
}

/// One row: a package of the set, or one that only the earlier set has.
struct PackageRow<'a> {
    file: Option<&'a PackageFile>,
    /// `None` if nothing changed.
    change: Option<&'a PackageChange>,
}

impl PackageRow<'_> {
    fn sizes(&self) -> (Option<u64>, Option<u64>) {
        let after = self.file.map(|it| it.size);
        let unchanged = (after, after);
        self.change.map_or(unchanged, |it| (it.before, after))
    }

    /// The largest change first, then the largest package.
    fn order(&self) -> Reverse<(bool, u64, u64)> {
        let (before, after) = self.sizes();
        let (before, after) = (before.unwrap_or(0), after.unwrap_or(0));
        Reverse((self.change.is_some(), before.abs_diff(after), after))
    }
}

impl PackageTable<'_> {
    /// Renders at most `limit` bytes; empty if there is no room for the table.
    pub(super) fn render(&self, limit: usize) -> String {
        let mut text = String::from("### Packages\n\n");
        let head = match self.changes {
            Some(_) => "| Package | Size | | Change |\n| :--- | ---: | :--- | :--- |\n",
            None => "| Package | Size | |\n| :--- | ---: | :--- |\n",
        };
        text += head;
        let ends = self.total() + "\n\n" + &self.digests(limit / 3);
        let Some(room) = limit.checked_sub(ends.len() + RESERVE) else {
            return String::new();
        };
        if text.len() + RESERVE > room {
            return String::new();
        }
        let all = self.lines();
        let shown = all.len().min(MOST_SHOWN);
        let mut table = all.iter().cloned();
        let mut omitted = rows(&mut text, table.by_ref().take(shown), room);
        let title = many(all.len() - shown, "more package");
        let mut rest = head.to_owned();
        let left = room.saturating_sub(text.len() + title.len());
        omitted += rows(&mut rest, table, left);
        text += "\n";
        if all.len() - shown > omitted {
            text += &folded(&title, &rest);
        }
        if omitted > 0 {
            let _ = writeln!(text, "{} left out here.\n", many(omitted, "row"));
        }
        text + &ends
    }

    /// The packages of both sets, in the order in which they are shown.
    fn rows(&self) -> Vec<PackageRow<'_>> {
        let changes = || self.changes.iter().flat_map(|it| &it.packages);
        let gone = changes().filter(|it| it.file.is_none());
        let gone = gone.map(|it| PackageRow { file: None, change: Some(it) });
        let files = self.set.files.iter().map(|file| PackageRow {
            file: Some(file),
            change: changes().find(|it| it.file.as_deref() == Some(file.below())),
        });
        let sorted = files.chain(gone).sorted_by_key(PackageRow::order);
        // A long list of what is gone must not take the room of the packages.
        let mut number = 0;
        let (mut rows, further): (Vec<_>, Vec<_>) = sorted.partition(|row| {
            number += usize::from(row.file.is_none());
            row.file.is_some() || number <= MOST_GONE
        });
        rows.extend(further);
        rows
    }

    /// The rows as Markdown.
    fn lines(&self) -> Vec<String> {
        let most = self.set.files.iter().map(|it| it.size).max();
        let key = |file: &PackageFile| (file.project.clone(), file.family());
        let counts = self.set.files.iter().counts_by(key);
        let line = |row: PackageRow<'_>| {
            let is_only = |file: &PackageFile| counts.get(&key(file)).is_none_or(|it| *it == 1);
            let name = match (row.file, row.change) {
                (Some(file), _) => name(file, is_only(file)),
                (None, change) => change.map(|it| it.package.clone()).unwrap_or_default(),
            };
            self.line(&row, &code(&name), most.unwrap_or(0))
        };
        self.rows().into_iter().map(line).collect()
    }

    fn line(&self, row: &PackageRow<'_>, name: &str, most: u64) -> String {
        let name = match (row.file, self.urls) {
            (None, _) => format!("<del>{name}</del>"),
            (Some(file), Some(urls)) => format!("[{name}]({})", urls.path(&file.path)),
            (Some(_), None) => name.to_owned(),
        };
        let (before, after) = row.sizes();
        let drawn = bar(after.unwrap_or(0), most);
        let size = size(after.or(before).unwrap_or(0));
        let change = self.changes.map(|changes| {
            let is_compared = |file: &PackageFile| changes.after.files.contains(file.below());
            match (row.change, row.file) {
                (Some(_), _) => format!(" {} |", change(before, after)),
                (None, Some(file)) if is_compared(file) => " unchanged |".to_owned(),
                // Of a version that is not the newest one of the set.
                (None, _) => " |".to_owned(),
            }
        });
        format!("| {name} | {size} | {drawn} |{}\n", change.unwrap_or_default())
    }

    /// `6 packages, 7.06 MiB`, what they were before, and where their digests are.
    fn total(&self) -> String {
        let (count, total) = (self.set.counted(), self.set.size());
        let mut text = format!("**{count}, {}**", size(total));
        if let Some(changes) = self.changes {
            let (earlier, now) = (&changes.before, &changes.after);
            let versions = few(earlier.versions.iter().map(|it| code(it)));
            let version = Some(format!(" in {versions}")).filter(|_| !versions.is_empty());
            let (old, version) = (earlier.size, version.unwrap_or_default());
            let by = change(Some(old), Some(now.size));
            let _ = write!(text, "; before: {}{version}, {by}", size(old));
        }
        if let Some(urls) = self.urls {
            let (sums, document) = (urls.path("SHA256SUMS"), urls.path("set.json"));
            let _ = write!(text, ". [SHA256SUMS]({sums}), [set.json]({document})");
        }
        text
    }

    /// The digest of each package. Empty if they do not all fit: then `SHA256SUMS` has them.
    fn digests(&self, limit: usize) -> String {
        let files = self.set.files.iter();
        let lines = files.map(|file| format!("{}  {}\n", file.sha256, plain(file.below())));
        let mut sums = String::new();
        match rows(&mut sums, lines, limit) {
            0 => folded("SHA-256 of each package", &format!("<pre>\n{sums}</pre>")),
            _ => String::new(),
        }
    }
}

/// The project of a file, below its family; the name of the file if the set has several for the
/// project.
fn name(file: &PackageFile, is_only: bool) -> String {
    let project = file.project.normalized();
    match file.family() {
        _ if !is_only => file.below().to_owned(),
        Some(family) => format!("{family}/{project}"),
        None => project.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diff::compare_documents, digest::Sha256, index::tests as samples};

    fn changes(earlier: &SetJson, set: &SetJson) -> String {
        let changes = compare_documents(("before", earlier), ("after", set));
        let table = PackageTable { set, urls: None, changes: Some(&changes) };
        table.lines().concat()
    }

    #[test]
    fn packages_are_compared_without_their_versions() {
        let mut earlier = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-old"]);
        for file in earlier.files.iter_mut().skip(1) {
            file.sha256 = Sha256::of(b"other");
            file.size = 1000;
        }
        let set = samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-new"]);
        insta::assert_snapshot!(changes(&earlier, &set), @"
        | <code>rocm-sdk-new</code> | 1.18 MiB | ████████████ | 🟩 **new** |
        | <code>rocm-sdk-core</code> | 1.18 MiB | ████████████ | 🔺 +1.18 MiB (+123356.7 %) |
        | <del><code>rocm-sdk-old</code></del> | 1000 B |  | 🟥 **gone** |
        | <code>rocm</code> | 1.18 MiB | ████████████ | unchanged |
        ");
    }

    #[test]
    fn packages_are_compared_across_layouts() {
        let earlier = samples::document_of_families(&["gfx94X-dcgpu"]);
        let mut set = earlier.clone();
        for file in &mut set.files {
            file.path = file.below().to_owned();
        }
        insta::assert_snapshot!(changes(&earlier, &set), @"
        | <code>gfx94X-dcgpu&#47;rocm</code> | 1.18 MiB | ████████████ | unchanged |
        | <code>rocm-sdk-core</code> | 1.18 MiB | ████████████ | unchanged |
        ");
    }

    #[test]
    fn files_of_one_project_have_their_own_names() {
        let mut set = samples::set();
        set.files[0].size = 1 << 33;
        let table = PackageTable { set: &set, urls: None, changes: None };
        insta::assert_snapshot!(table.render(10_000), @"
        ### Packages

        | Package | Size | |
        | :--- | ---: | :--- |
        | <code>rocm</code> | 8.00 GiB | ████████████ |
        | <code>rocm&#95;sdk&#95;core-7.13.0.dev0+ab-py3-none-linux&#95;x86&#95;64.whl</code> | 1.18 MiB | ▏ |
        | <code>rocm&#95;sdk&#95;core-7.9.0-py3-none-linux&#95;x86&#95;64.whl</code> | 12 B | ▏ |

        **3 packages, 8.00 GiB**

        <details><summary>SHA-256 of each package</summary>

        <pre>
        4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24  rocm-7.13.0.dev0+ab.tar.gz
        cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808  rocm&#95;sdk&#95;core-7.9.0-py3-none-linux&#95;x86&#95;64.whl
        e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb  rocm&#95;sdk&#95;core-7.13.0.dev0+ab-py3-none-linux&#95;x86&#95;64.whl
        </pre>

        </details>
        ");
    }
}
