//! The packages of a set as a table with bars, and what changed in them since an earlier set.

use std::{cmp::Reverse, fmt::Write as _};

use itertools::Itertools as _;

use super::cells::{RESERVE, bar, change, code, folded, plain, push_rows};
use crate::{
    diff::{Difference, PackageChange},
    index::{PackageFile, SetJson, Urls},
};
use rocwheel_base::quantity::{few, many, size};

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

/// A row: a package of the set, or a package that only the earlier set has.
struct PackageRow<'a> {
    file: Option<&'a PackageFile>,
    /// `None` if nothing changed.
    change: Option<&'a PackageChange>,
}

impl PackageRow<'_> {
    /// The size in the earlier set. For a package that did not change it is the size in the set.
    fn before(&self) -> Option<u64> {
        match self.change {
            Some(change) => change.before,
            None => self.after(),
        }
    }

    /// The size in the set.
    fn after(&self) -> Option<u64> {
        self.file.map(|file| file.size)
    }

    /// The largest change first, then the largest package.
    fn order(&self) -> Reverse<(bool, u64, u64)> {
        let before = self.before().unwrap_or(0);
        let after = self.after().unwrap_or(0);
        Reverse((self.change.is_some(), before.abs_diff(after), after))
    }
}

impl PackageTable<'_> {
    /// Renders at most `limit` bytes; empty if there is no room for the table.
    pub(super) fn render(&self, limit: usize) -> String {
        let mut markdown = String::from("### Packages\n\n");
        let head = match self.changes {
            Some(_) => "| Package | Size | | Change |\n| :--- | ---: | :--- | :--- |\n",
            None => "| Package | Size | |\n| :--- | ---: | :--- |\n",
        };
        markdown += head;
        let ends = self.total() + "\n\n" + &self.digests(limit / 3);
        let Some(room) = limit.checked_sub(ends.len() + RESERVE) else {
            return String::new();
        };
        if markdown.len() + RESERVE > room {
            return String::new();
        }
        let lines = self.lines();
        let shown = lines.len().min(MOST_SHOWN);
        let mut table = lines.iter().cloned();
        let mut omitted = push_rows(&mut markdown, table.by_ref().take(shown), room);
        let title = many(lines.len() - shown, "more package");
        let mut further_packages = head.to_owned();
        let left = room.saturating_sub(markdown.len() + title.len());
        omitted += push_rows(&mut further_packages, table, left);
        markdown += "\n";
        if lines.len() - shown > omitted {
            markdown += &folded(&title, &further_packages);
        }
        if omitted > 0 {
            let _ = writeln!(markdown, "{} left out here.\n", many(omitted, "row"));
        }
        markdown + &ends
    }

    /// The packages of both sets, in the order in which they are shown.
    fn rows(&self) -> Vec<PackageRow<'_>> {
        let changes = || self.changes.iter().flat_map(|difference| &difference.packages);
        let gone = changes()
            .filter(|change| change.file.is_none())
            .map(|change| PackageRow { file: None, change: Some(change) });
        let files = self.set.files.iter().map(|file| PackageRow {
            file: Some(file),
            change: changes().find(|change| change.file.as_deref() == Some(file.below())),
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
        let largest = self.set.files.iter().map(|file| file.size).max().unwrap_or(0);
        let key = |file: &PackageFile| (file.project.clone(), file.family());
        let counts = self.set.files.iter().counts_by(key);
        let line = |row: PackageRow<'_>| {
            let name = match (row.file, row.change) {
                // The set has several files of the project, such as two versions.
                (Some(file), _) if counts.get(&key(file)).is_some_and(|count| *count > 1) => {
                    file.below().to_owned()
                }
                (Some(file), _) => project_name(file),
                (None, Some(change)) => change.package.clone(),
                (None, None) => String::new(),
            };
            self.render_row(&row, &code(&name), largest)
        };
        self.rows().into_iter().map(line).collect()
    }

    /// `largest` is the size that has the longest bar.
    fn render_row(&self, row: &PackageRow<'_>, name: &str, largest: u64) -> String {
        let title = match (row.file, self.urls) {
            (None, _) => format!("<del>{name}</del>"),
            (Some(file), Some(urls)) => format!("[{name}]({})", urls.path(&file.path)),
            (Some(_), None) => name.to_owned(),
        };
        let before = row.before();
        let after = row.after();
        let bar = bar(after.unwrap_or(0), largest);
        let size = size(after.or(before).unwrap_or(0));
        let change_cell = match self.changes {
            None => String::new(),
            Some(difference) => {
                let is_compared =
                    |file: &PackageFile| difference.after.files.contains(file.below());
                match (row.change, row.file) {
                    (Some(_), _) => format!(" {} |", change(before, after)),
                    (None, Some(file)) if is_compared(file) => " unchanged |".to_owned(),
                    // Only the newest version of a project is compared.
                    (None, _) => " |".to_owned(),
                }
            }
        };
        format!("| {title} | {size} | {bar} |{change_cell}\n")
    }

    /// `6 packages, 7.06 MiB`, what they were before, and where their digests are.
    fn total(&self) -> String {
        let mut markdown = format!("**{}, {}**", self.set.counted(), size(self.set.size()));
        if let Some(Difference { before, after, .. }) = self.changes {
            let versions = few(before.versions.iter().map(|version| code(version)));
            let in_versions =
                if versions.is_empty() { String::new() } else { format!(" in {versions}") };
            let growth = change(Some(before.size), Some(after.size));
            let _ = write!(markdown, "; before: {}{in_versions}, {growth}", size(before.size));
        }
        if let Some(urls) = self.urls {
            let sums = urls.path("SHA256SUMS");
            let document = urls.path("set.json");
            let _ = write!(markdown, ". [SHA256SUMS]({sums}), [set.json]({document})");
        }
        markdown
    }

    /// The digest of each package. Empty if they do not all fit: then `SHA256SUMS` has them.
    fn digests(&self, limit: usize) -> String {
        let lines =
            self.set.files.iter().map(|file| format!("{}  {}\n", file.sha256, plain(file.below())));
        let mut sums = String::new();
        match push_rows(&mut sums, lines, limit) {
            0 => folded("SHA-256 of each package", &format!("<pre>\n{sums}</pre>")),
            _ => String::new(),
        }
    }
}

/// The project of a file, below its family: `gfx94X-dcgpu/rocm`.
fn project_name(file: &PackageFile) -> String {
    let project = file.project.normalized();
    match file.family() {
        Some(family) => format!("{family}/{project}"),
        None => project.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diff::compare_documents, index::tests as samples};
    use rocwheel_base::digest::Sha256;

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
