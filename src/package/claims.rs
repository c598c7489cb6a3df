//! Which package ships which path, and which library names are left to their SONAME.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    error::Result,
    package::plan::{Member, Members, Source},
    relpath::RelPath,
    target::Scope,
    wheel,
};

/// What one runtime or device package has taken, with paths as in the artifacts.
#[derive(Debug)]
pub struct Claim {
    /// `core`, `libraries`, …
    pub package: String,
    /// The target or family it is built for.
    pub scope: Option<Scope>,
    /// The import name of the directory its files go to.
    pub directory: String,
    pub members: Members,
    /// Library names that ship only as their SONAME: the path, and a link text that leads there.
    pub aliases: BTreeMap<RelPath, String>,
    /// The artifacts it looked at, whatever the globs let through.
    pub artifacts: BTreeSet<String>,
    pub notes: Vec<String>,
}

impl Claim {
    /// A package that has taken nothing yet.
    pub fn new(package: &str, directory: &str) -> Self {
        Self {
            package: package.to_owned(),
            scope: None,
            directory: directory.to_owned(),
            members: Members::default(),
            aliases: BTreeMap::new(),
            artifacts: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Makes the directory a Python package: an empty `__init__.py`, unless a file of that name is
    /// among the artifacts.
    pub fn add_empty_module(&mut self) -> Result<()> {
        let path: RelPath = "__init__.py".parse()?;
        if self.members.contains(&path) {
            return Ok(());
        }
        let source = Source::Text(String::new());
        self.members.insert(
            path,
            Member {
                mode: wheel::Mode::Regular,
                source,
            },
        )
    }
}

/// How the devel tree refers to a path that a package ships.
#[derive(Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// A link beside the library it names.
    Alias(&'a str),
    /// The file itself, in this package's directory.
    Shipped { directory: &'a str },
}

/// All claims, in the order in which the packages were planned.
#[derive(Debug, Default)]
pub struct Claims(Vec<Claim>);

impl Claims {
    pub fn push(&mut self, claim: Claim) {
        self.0.push(claim);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_vec(self) -> Vec<Claim> {
        self.0
    }

    /// Names of the artifacts that the runtime packages looked at.
    pub fn runtime_artifacts(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .flat_map(|claim| &claim.artifacts)
            .map(String::as_str)
            .collect()
    }

    /// Who ships a path, for a devel tree of this scope: the first package that has it.
    ///
    /// A package of another family may ship a path of the same name; a tree that is for one family
    /// does not see it.
    pub fn find(&self, path: &RelPath, scope: Option<&Scope>) -> Option<Reference<'_>> {
        let eligible = |claim: &&Claim| match (scope, &claim.scope) {
            (Some(tree), Some(package)) => tree == package,
            _ => true,
        };
        self.0.iter().filter(eligible).find_map(|claim| {
            let alias = claim.aliases.get(path).map(|text| Reference::Alias(text));
            let shipped = || {
                claim.members.contains(path).then_some(Reference::Shipped {
                    directory: &claim.directory,
                })
            };
            alias.or_else(shipped)
        })
    }
}
