//! Merges artifacts into one install tree: which artifact owns each path, and where they collide.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
};

use itertools::Itertools as _;

use crate::artifact::tree::{Artifact, TreeContent, TreeFile, TreeForm};
use rocwheel_base::{error::Result, relpath::RelPath};

/// The install tree that several artifacts make up.
#[derive(Clone, Debug, Default)]
pub struct Merged<'a> {
    /// Each path with one file. If several artifacts or base directories have the path, the last file
    /// wins.
    pub files: BTreeMap<&'a RelPath, Owned<'a>>,
    /// Sorted by path.
    pub collisions: Vec<Collision<'a>>,
}

/// A file and the artifact that contains it.
#[derive(Clone, Copy, Debug, derive_more::Display)]
#[display("{}/{}", artifact.name, file.basedir)]
pub struct Owned<'a> {
    pub artifact: &'a Artifact,
    pub file: &'a TreeFile,
}

/// A path that has different contents in several artifacts, or in several base directories of an artifact.
#[derive(Clone, Debug)]
pub struct Collision<'a> {
    pub path: &'a RelPath,
    /// All files with this path, in order. The last one is in the tree.
    pub owners: Vec<Owned<'a>>,
}

/// Merges artifacts in the given order. `same` compares the contents of two files that have the
/// same length and the same executable bit.
pub fn merge<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
    same: impl Fn(&TreeFile, &TreeFile) -> Result<bool>,
) -> Result<Merged<'a>> {
    let mut merged = Merged::default();
    let mut shared: BTreeMap<&RelPath, Vec<Owned>> = BTreeMap::new();
    for artifact in artifacts {
        for file in &artifact.files {
            let owned = Owned { artifact, file };
            if let Some(earlier) = merged.files.insert(&file.path, owned) {
                shared.entry(&file.path).or_insert_with(|| vec![earlier]).push(owned);
            }
        }
    }
    for (path, owners) in shared {
        for (one, other) in owners.iter().tuple_windows() {
            if !same_entry(one.file, other.file, &same)? {
                merged.collisions.push(Collision { path, owners });
                break;
            }
        }
    }
    Ok(merged)
}

/// Whether two files have the same bytes on disk. Files that are not written yet are equal only if
/// they have the same source.
pub fn same_content(one: &TreeFile, other: &TreeFile) -> Result<bool> {
    let forms = [one, other].map(|file| match &file.content {
        TreeContent::File(facts) => &facts.form,
        _ => &TreeForm::Whole,
    });
    if forms.contains(&&TreeForm::ToCome) {
        return Ok(one.source == other.source);
    }
    let [left, right] = forms;
    Ok(same_bytes(left.open(&one.source)?, right.open(&other.source)?)?)
}

const STEP: usize = 64 * 1024;

fn same_bytes(mut one: impl Read, mut other: impl Read) -> io::Result<bool> {
    let mut left = Vec::new();
    let mut right = Vec::new();
    loop {
        left.clear();
        right.clear();
        one.by_ref().take(STEP as u64).read_to_end(&mut left)?;
        other.by_ref().take(STEP as u64).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

/// Whether two files with one path are the same. `same` compares their contents, if they have the same
/// length and the same executable bit.
pub fn same_entry(
    one: &TreeFile,
    other: &TreeFile,
    same: impl Fn(&TreeFile, &TreeFile) -> Result<bool>,
) -> Result<bool> {
    Ok(match (&one.content, &other.content) {
        (TreeContent::Directory, TreeContent::Directory) => true,
        (TreeContent::Link { text, .. }, TreeContent::Link { text: other, .. }) => text == other,
        (TreeContent::File(facts), TreeContent::File(others)) => {
            facts.len == others.len && facts.executable == others.executable && same(one, other)?
        }
        _ => false,
    })
}

impl fmt::Display for Collision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, first) = self.owners.split_last().ok_or(fmt::Error)?;
        let names = first.iter().map(|owner| format!("`{owner}`")).join(", ");
        write!(f, "`{}` differs between {names} and `{last}`", self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::artifact::tree::{FileFacts, LinkEnd};
    use rocwheel_base::error::bail;

    /// `a/` is a directory, `a -> b` a link, `a 3` a file of three bytes, `a 3x` one that runs.
    fn artifact(name: &str, basedirs: &[(&str, &[&str])]) -> Artifact {
        let mut artifact =
            Artifact { name: name.parse().unwrap(), basedirs: Vec::new(), files: Vec::new() };
        for (basedir, lines) in basedirs {
            let basedir = std::sync::Arc::new(basedir.parse().unwrap());
            artifact.files.extend(lines.iter().map(|line| {
                let (path, content) = parse(line);
                TreeFile {
                    path: path.parse().unwrap(),
                    basedir: std::sync::Arc::clone(&basedir),
                    source: format!("/{name}/{path}").into(),
                    content,
                }
            }));
            artifact.basedirs.push(basedir);
        }
        artifact
    }

    fn parse(line: &str) -> (&str, TreeContent) {
        if let Some(path) = line.strip_suffix('/') {
            return (path, TreeContent::Directory);
        }
        if let Some((path, text)) = line.split_once(" -> ") {
            let (text, end) = (text.to_owned(), LinkEnd::Dangling);
            return (path, TreeContent::Link { text, end });
        }
        let (path, len) = line.split_once(' ').unwrap();
        let executable = len.ends_with('x');
        let len = len.trim_end_matches('x').parse().unwrap();
        (path, TreeContent::File(FileFacts::new(len, executable)))
    }

    fn collisions(artifacts: &[Artifact], same: bool) -> String {
        let merged = merge(artifacts, |_, _| Ok(same)).unwrap();
        let lines: Vec<String> = merged.collisions.iter().map(Collision::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn the_tree_has_each_path_once_and_the_last_owner_wins() {
        let artifacts = [
            artifact("a_lib_generic", &[("s", &["lib/", "lib/x 1", "lib/y 1"])]),
            artifact("b_lib_generic", &[("s", &["lib/", "lib/x 2"]), ("t", &["lib/x 3"])]),
        ];
        let merged = merge(&artifacts, |_, _| Ok(true)).unwrap();
        let lines: Vec<String> =
            merged.files.iter().map(|(path, owned)| format!("{path}: {owned}")).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        lib: b_lib_generic/s
        lib/x: b_lib_generic/t
        lib/y: a_lib_generic/s
        ");
        insta::assert_snapshot!(collisions(&artifacts, true), @"`lib/x` differs between `a_lib_generic/s`, `b_lib_generic/s` and `b_lib_generic/t`");
        assert_eq!(collisions(&artifacts[..1], false), "");
    }

    #[test]
    fn equal_things_do_not_collide() {
        let lines: &[&str] = &["lib/", "lib/x 1", "lib/y -> x"];
        let artifacts = ["a_lib_generic", "b_lib_generic", "c_lib_generic"]
            .map(|name| artifact(name, &[("s", lines)]));
        assert_eq!(collisions(&artifacts, true), "");
        insta::assert_snapshot!(collisions(&artifacts, false), @"`lib/x` differs between `a_lib_generic/s`, `b_lib_generic/s` and `c_lib_generic/s`");
    }

    #[test]
    fn things_that_differ_collide_and_only_equal_lengths_are_read() {
        let one: &[&str] = &["a/", "b -> x", "c 1", "d 1", "e -> x", "f 1"];
        let two: &[&str] = &["a -> x", "b -> y", "c 2", "d 1x", "e 1", "f/"];
        let artifacts =
            [artifact("a_lib_generic", &[("s", one)]), artifact("b_lib_generic", &[("s", two)])];
        let merged = merge(&artifacts, |_, _| bail!("read")).unwrap();
        let paths: Vec<&str> = merged.collisions.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn files_are_compared_only_where_they_meet() {
        let artifacts = [
            artifact("a_lib_generic", &[("s", &["x 1", "y 1"])]),
            artifact("b_lib_generic", &[("s", &["x 1", "z 1"])]),
        ];
        let asked = Cell::new(0);
        let same = |_: &TreeFile, _: &TreeFile| {
            asked.set(asked.get() + 1);
            Ok(true)
        };
        assert_eq!(merge(&artifacts, same).unwrap().files.len(), 3);
        assert_eq!(asked.get(), 1);
        assert!(merge(&artifacts, |_, _| bail!("the disk is gone")).is_err());
    }

    #[test]
    fn bytes_are_compared_to_the_end() {
        let long = vec![7; STEP + 1];
        let mut other = long.clone();
        assert!(same_bytes(long.as_slice(), other.as_slice()).unwrap());
        other[STEP] = 8;
        assert!(!same_bytes(long.as_slice(), other.as_slice()).unwrap());
        assert!(!same_bytes(long.as_slice(), &long[..STEP]).unwrap());
        assert!(same_bytes(io::empty(), io::empty()).unwrap());
    }

    #[test]
    fn content_on_disk_is_compared() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            fs_err::write(directory.path().join(name), content).unwrap();
            let (path, content) = parse("x 1");
            TreeFile {
                path: path.parse().unwrap(),
                basedir: std::sync::Arc::new("s".parse().unwrap()),
                source: directory.path().join(name),
                content,
            }
        };
        let (one, two, three) = (file("1", "a"), file("2", "a"), file("3", "b"));
        assert!(same_content(&one, &two).unwrap());
        assert!(!same_content(&one, &three).unwrap());
    }
}
