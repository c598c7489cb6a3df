//! The packed SDK tree: links to what other packages ship, and files of its own besides.
//! Decides; reads nothing, writes nothing.

use std::{collections::BTreeMap, fmt};

use crate::{
    artifact::{Content, Leaf, LinkEnd, TreeFile},
    elf::{Kind, Rpath},
    error::{Result, anyhow, bail, hinted},
    package::{
        claims::{Claims, Reference},
        plan::Origin,
        runtime::escaping_link,
        search,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    wheel,
};

/// The tree, with paths below its top directory.
#[derive(Clone, Debug)]
pub struct DevelPlan {
    /// `_rocm_sdk_devel`.
    pub top: RelPath,
    entries: BTreeMap<RelPath, DevelEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevelEntry {
    Directory,
    /// A file that no other package ships; with a run path, it has this one and no other.
    File { origin: Origin, mode: wheel::Mode, rpath: Option<Rpath> },
    /// A file that another package ships.
    Shipped(String),
    /// A link inside the tree.
    Link(String),
    /// An empty file.
    Empty,
}

impl DevelPlan {
    pub(super) fn new(
        top: RelPath,
        files: &BTreeMap<RelPath, TreeFile>,
        claims: &Claims,
        scope: Option<&Scope>,
        platform: Platform,
    ) -> Result<Self> {
        let mut plan = Self { top, entries: BTreeMap::new() };
        plan.add("__init__.py".parse()?, DevelEntry::Empty);
        for (path, file) in files {
            let entry = entry(path, file, claims, scope, platform)?;
            plan.add(path.clone(), entry);
        }
        plan.check_parents(files)?;
        Ok(plan)
    }

    /// Adds an entry and the directories above it.
    fn add(&mut self, path: RelPath, entry: DevelEntry) {
        for directory in path.ancestors() {
            self.entries.entry(directory).or_insert(DevelEntry::Directory);
        }
        self.entries.insert(path, entry);
    }

    /// Refuses a tree in which a path is a directory for one artifact and a file for another.
    fn check_parents(&self, files: &BTreeMap<RelPath, TreeFile>) -> Result<()> {
        for path in self.entries.keys() {
            for above in path.ancestors() {
                if self.entries.get(&above) != Some(&DevelEntry::Directory) {
                    let owner = files.get(&above).map(|file| file.artifact.to_string());
                    bail!(
                        "`{above}` is a directory, because of `{path}`, and no directory in artifact `{}`",
                        owner.unwrap_or_default()
                    );
                }
            }
        }
        Ok(())
    }

    /// The entries in the order of the archive.
    ///
    /// The tree is unpacked in this order by a program that empties a directory when it first meets
    /// it, so a directory comes before anything below it, and its files before its subdirectories.
    /// Files and links to other packages come before the links inside the tree that may lead to
    /// them, so that these can become hard links.
    pub fn ordered(&self) -> Vec<(&RelPath, &DevelEntry)> {
        let mut children: BTreeMap<Option<RelPath>, Vec<(&RelPath, &DevelEntry)>> = BTreeMap::new();
        for (path, entry) in &self.entries {
            children.entry(path.parent()).or_default().push((path, entry));
        }
        let mut ordered = Vec::with_capacity(self.entries.len());
        let mut waiting = vec![None];
        while let Some(directory) = waiting.pop() {
            let mut inside = children.remove(&directory).unwrap_or_default();
            inside.sort_by_key(|(path, entry)| (entry.turn(), *path));
            let subdirectories = inside.iter().filter(|(_, entry)| **entry == DevelEntry::Directory);
            let subdirectories: Vec<_> =
                subdirectories.map(|(path, _)| Some((*path).clone())).rev().collect();
            waiting.extend(subdirectories);
            ordered.extend(inside);
        }
        ordered
    }
}

impl DevelEntry {
    fn turn(&self) -> u8 {
        match self {
            Self::Empty => 0,
            Self::File { .. } | Self::Shipped(_) => 1,
            Self::Link(_) => 2,
            Self::Directory => 3,
        }
    }
}

fn entry(
    path: &RelPath,
    file: &TreeFile,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<DevelEntry> {
    if let Content::Directory = file.content {
        return Ok(DevelEntry::Directory);
    }
    match claims.find(path, scope) {
        Some(Reference::Alias(text)) => return Ok(DevelEntry::Link(text.to_owned())),
        Some(Reference::Shipped { directory }) => {
            let up = "../".repeat(path.depth());
            return Ok(DevelEntry::Shipped(format!("{up}{directory}/{path}")));
        }
        None => {}
    }
    match &file.content {
        Content::Link { text, end: LinkEnd::Escapes } => Err(escaping_link(path, text, file)),
        Content::Link { text, .. } => Ok(DevelEntry::Link(text.clone())),
        Content::File(leaf) => own_file(path, leaf, file, platform),
        Content::Directory => Ok(DevelEntry::Directory),
    }
}

/// A file of the tree itself keeps its run path, as DT_RPATH, so that `LD_LIBRARY_PATH` cannot
/// come before it.
fn own_file(path: &RelPath, leaf: &Leaf, file: &TreeFile, platform: Platform) -> Result<DevelEntry> {
    let loaded = leaf.elf.as_ref().filter(|elf| {
        platform == Platform::Linux && elf.run_path().is_some() && search::is_searched(elf)
    });
    Ok(DevelEntry::File {
        origin: Origin { artifact: file.artifact.clone(), path: leaf.source.clone(), len: leaf.len },
        mode: leaf.mode(),
        rpath: loaded.map(|elf| search::own(path, elf)).transpose()?,
    })
}

impl fmt::Display for DevelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in self.ordered() {
            match entry {
                DevelEntry::Directory => writeln!(f, "    mkdir  {path}")?,
                DevelEntry::Empty => writeln!(f, "    empty  {path}")?,
                DevelEntry::File { origin, rpath: None, .. } => {
                    writeln!(f, "    copy   {path} < {}", origin.artifact)?;
                }
                DevelEntry::File { origin, rpath: Some(rpath), .. } => {
                    writeln!(f, "    relink {path} < {} [{rpath}]", origin.artifact)?;
                }
                DevelEntry::Shipped(text) | DevelEntry::Link(text) => {
                    writeln!(f, "    link   {path} -> {text}")?;
                }
            }
        }
        Ok(())
    }
}
