//! `Coverage`: which library has device code for which target, and how much.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::{
    audit::{
        facts::{Code, Member, SetFacts},
        mention,
        sparse::Sparse,
    },
    kpack::{CodeTarget, archive::Archive, loader::wanted},
    target::Target,
};

/// Libraries by name, each with the targets that it has code for.
///
/// A library whose code is in archives has a row of its own, `librocblas.so.5.1`; the files beside
/// it are under the directory that they lie in, `rocblas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    targets: Vec<String>,
    libraries: BTreeMap<String, BTreeMap<String, Cell>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cell {
    pub files: u64,
    /// What of it lies in archives, each under a key of its own.
    pub code_objects: u64,
    /// As they lie in the package once unpacked.
    pub bytes: u64,
}

impl Coverage {
    /// Of the device wheels; what they say about themselves does not count.
    pub fn of(set: &SetFacts) -> Self {
        let mut coverage = Self::default();
        for (target, wheel) in set.device_wheels() {
            coverage.targets.push(target.to_string());
            for member in wheel.members.iter().filter(|it| is_device_file(&it.path)) {
                for (library, part) in parts(member, &target) {
                    let row = coverage.libraries.entry(library).or_default();
                    row.entry(target.to_string()).or_default().add(part);
                }
            }
        }
        coverage
    }

    /// The columns.
    pub fn targets(&self) -> &[String] {
        &self.targets
    }

    /// The rows, by the name of the library; a target without a cell has no code.
    pub fn libraries(&self) -> &BTreeMap<String, BTreeMap<String, Cell>> {
        &self.libraries
    }

    pub fn is_empty(&self) -> bool {
        self.libraries.is_empty()
    }

    /// The libraries that have code for a target.
    pub fn count(&self, target: &Target) -> usize {
        let rows = self.libraries.values();
        rows.filter(|row| row.contains_key(target.as_str())).count()
    }

    /// The libraries that have code for other targets, but none for this one; with those others.
    pub fn gaps(&self, target: &Target) -> Vec<(&str, Vec<&str>)> {
        let rows = self.libraries.iter();
        rows.filter(|(_, row)| !row.contains_key(target.as_str()))
            .map(|(library, row)| (library.as_str(), row.keys().map(String::as_str).collect()))
            .collect()
    }
}

impl Cell {
    fn add(&mut self, part: Self) {
        self.files = self.files.saturating_add(part.files);
        self.code_objects = self.code_objects.saturating_add(part.code_objects);
        self.bytes = self.bytes.saturating_add(part.bytes);
    }
}

/// Keys are free text; what is longer is not for a table.
const LONGEST_NAME: usize = 80;
const UNNAMED: &str = "(unnamed)";

/// What a file has for a target, by library; an archive that cannot be read has nothing.
fn parts(member: &Member, target: &Target) -> Vec<(String, Cell)> {
    let content = member.content.as_ref().ok();
    if let Some(Code::Archive(sparse)) = content.and_then(|content| content.code.as_ref())
        && let Ok(archive) = Archive::open(sparse.as_ref())
    {
        return in_archive(&archive, target);
    }
    if mention::has_extension(&member.path, "kpack") {
        return Vec::new();
    }
    let cell = Cell {
        files: 1,
        code_objects: 0,
        bytes: content.map_or(0, |content| content.len),
    };
    vec![(mention::library(&member.path), cell)]
}

/// Only code that runs there counts.
fn in_archive(archive: &Archive<&Sparse>, target: &Target) -> Vec<(String, Cell)> {
    let device = target.base().as_str().parse::<CodeTarget>();
    let device = device.map(|device| wanted(&device)).unwrap_or_default();
    let accepted: BTreeSet<CodeTarget> = device.into_iter().collect();
    let codes = archive.codes().iter();
    let codes = codes.filter(|code| accepted.contains(&code.target.base()));
    codes
        .map(|code| {
            let name = code.key.rsplit_once('#').map_or(&*code.key, |it| it.0);
            let name = name.rsplit('/').next().unwrap_or(name);
            let name: String = name.chars().take(LONGEST_NAME).collect();
            let name = name.replace(char::is_control, "\u{fffd}");
            let cell = Cell {
                files: 0,
                code_objects: 1,
                bytes: archive.packed(code),
            };
            let name = if name.is_empty() { UNNAMED } else { &name };
            (name.to_owned(), cell)
        })
        .collect()
}

/// Neither `.dist-info` nor the list of links.
pub(super) fn is_device_file(path: &str) -> bool {
    let mut parts = path.split('/');
    let top = parts.next().unwrap_or_default();
    let below = parts.next().unwrap_or_default();
    !top.ends_with(".dist-info") && below != ".devel_links" && !mention::has_extension(path, "py")
}

/// A table with a row for each library.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.libraries.keys().map(|name| name.chars().count()).max();
        let first = longest.unwrap_or(0).max("library".len());
        write!(f, "{:<first$}", "library")?;
        for target in &self.targets {
            write!(f, "  {target:>10}")?;
        }
        writeln!(f)?;
        for (library, row) in &self.libraries {
            write!(f, "{library:<first$}")?;
            for target in &self.targets {
                let cell = row.get(target);
                let cell = cell.map_or("-".to_owned(), |cell| short_size(cell.bytes));
                let width = target.len().max(10);
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// `96 KiB`: as much as a table needs.
pub fn short_size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_gaps() {
        let cell = |bytes| Cell {
            files: 1,
            code_objects: 0,
            bytes,
        };
        let row = |cells: &[(&str, u64)]| {
            let cells = cells.iter();
            cells
                .map(|(name, bytes)| ((*name).to_owned(), cell(*bytes)))
                .collect()
        };
        let coverage = Coverage {
            targets: vec!["gfx1100".to_owned(), "gfx942".to_owned()],
            libraries: BTreeMap::from([
                (
                    "blas".to_owned(),
                    row(&[("gfx1100", 4096), ("gfx942", 5 << 20)]),
                ),
                ("hipblaslt".to_owned(), row(&[("gfx942", 3 << 30)])),
            ]),
        };
        insta::assert_snapshot!(coverage, @"
        library       gfx1100      gfx942
        blas            4 KiB       5 MiB
        hipblaslt           -       3 GiB
        ");
        let target: Target = "gfx1100".parse().unwrap();
        assert_eq!(coverage.gaps(&target), [("hipblaslt", vec!["gfx942"])]);
        assert_eq!(coverage.count(&target), 1);
    }
}
