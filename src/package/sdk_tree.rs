//! `SdkTree`: the tree that a devel package unpacks, and the order in which it is packed.

use std::{collections::BTreeMap, fmt};

use crate::{elf::Rpath, package::origin::Origin, relpath::RelPath, wheel};

/// The tree, with paths below its top directory.
#[derive(Clone, Debug)]
pub struct SdkTree {
    /// `_rocm_sdk_devel`.
    pub top: RelPath,
    entries: BTreeMap<RelPath, SdkEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SdkEntry {
    Directory,
    /// A file that no other package ships; with a run path, it has this one and no other.
    File {
        origin: Origin,
        mode: wheel::Mode,
        rpath: Option<Rpath>,
    },
    /// A file that another package ships.
    Shipped(String),
    /// A link inside the tree.
    Link(String),
    /// An empty file.
    Empty,
}

impl SdkTree {
    /// An empty tree with this top directory.
    pub fn new(top: RelPath) -> Self {
        Self {
            top,
            entries: BTreeMap::new(),
        }
    }

    /// Adds an entry and the directories above it.
    pub fn add(&mut self, path: RelPath, entry: SdkEntry) {
        for directory in path.ancestors() {
            self.entries.entry(directory).or_insert(SdkEntry::Directory);
        }
        self.entries.insert(path, entry);
    }

    /// A path that is a directory because of what lies below it, and something else by itself.
    pub fn contradiction(&self) -> Option<(RelPath, &RelPath)> {
        self.entries.keys().find_map(|path| {
            let not_a_directory =
                |above: &RelPath| self.entries.get(above) != Some(&SdkEntry::Directory);
            path.ancestors()
                .find(not_a_directory)
                .map(|above| (above, path))
        })
    }

    /// The entries in the order of the archive.
    ///
    /// The tree is unpacked in this order by a program that empties a directory when it first meets
    /// it, so a directory comes before anything below it, and its files before its subdirectories.
    /// Files and links to other packages come before the links inside the tree that may lead to
    /// them, so that these can become hard links.
    pub fn ordered(&self) -> Vec<(&RelPath, &SdkEntry)> {
        let mut children: BTreeMap<Option<RelPath>, Vec<(&RelPath, &SdkEntry)>> = BTreeMap::new();
        for (path, entry) in &self.entries {
            children
                .entry(path.parent())
                .or_default()
                .push((path, entry));
        }
        let mut ordered = Vec::with_capacity(self.entries.len());
        let mut waiting = vec![None];
        while let Some(directory) = waiting.pop() {
            let mut inside = children.remove(&directory).unwrap_or_default();
            inside.sort_by_key(|(path, entry)| (entry.turn(), *path));
            let subdirectories = inside
                .iter()
                .filter(|(_, entry)| **entry == SdkEntry::Directory);
            let subdirectories: Vec<_> = subdirectories
                .map(|(path, _)| Some((*path).clone()))
                .rev()
                .collect();
            waiting.extend(subdirectories);
            ordered.extend(inside);
        }
        ordered
    }
}

impl SdkEntry {
    fn turn(&self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::File { .. } | Self::Shipped(_) => 1,
            Self::Link(_) => 2,
            Self::Directory => 3,
        }
    }
}

impl fmt::Display for SdkTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in self.ordered() {
            match entry {
                SdkEntry::Directory => writeln!(f, "    mkdir  {path}")?,
                SdkEntry::Empty => writeln!(f, "    empty  {path}")?,
                SdkEntry::File {
                    origin,
                    rpath: None,
                    ..
                } => {
                    writeln!(f, "    copy   {path} < {}", origin.artifact)?;
                }
                SdkEntry::File {
                    origin,
                    rpath: Some(rpath),
                    ..
                } => {
                    writeln!(f, "    relink {path} < {} [{rpath}]", origin.artifact)?;
                }
                SdkEntry::Shipped(text) | SdkEntry::Link(text) => {
                    writeln!(f, "    link   {path} -> {text}")?;
                }
            }
        }
        Ok(())
    }
}
