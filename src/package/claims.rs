//! Which package ships which path, and which library names are left to their SONAME.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    error::Result,
    package::{
        catalog::{PackageKind, PackageSpec},
        plan::{MemberSource, Members, WheelMemberPlan},
    },
    relpath::RelPath,
    target::Scope,
    wheel,
};

/// What one runtime or device package has taken, with paths as in the artifacts.
#[derive(Debug)]
pub struct Claim {
    /// `core`, `libraries`, …
    pub package: String,
    pub kind: PackageKind,
    /// The target or family it is built for.
    pub scope: Option<Scope>,
    /// The import name of the directory its files go to.
    pub directory: String,
    pub members: Members,
    /// Library names that are not shipped, each with the path that is: a name is left out when the
    /// library calls itself otherwise.
    pub aliases: BTreeMap<RelPath, RelPath>,
    /// The artifacts it looked at, whatever the globs let through.
    pub artifacts: BTreeSet<String>,
    pub notes: Vec<String>,
}

/// How the devel tree refers to a path that a package ships.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimReference<'a> {
    /// One more name of the library at this path.
    Alias(&'a RelPath),
    /// The file itself, in this package's directory.
    Shipped { directory: &'a str },
}

/// All claims, in the order in which the packages were planned.
#[derive(Debug, Default)]
pub struct Claims(pub(super) Vec<Claim>);

impl Claim {
    /// A package that has taken nothing yet.
    pub fn new(spec: &PackageSpec, directory: &str, scope: Option<&Scope>) -> Self {
        Self {
            package: spec.name.clone(),
            kind: spec.kind,
            scope: scope.cloned(),
            directory: directory.to_owned(),
            members: Members::default(),
            aliases: BTreeMap::new(),
            artifacts: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Whether a devel tree of this scope links to its files.
    fn is_seen(&self, scope: Option<&Scope>) -> bool {
        let is_for = match (scope, &self.scope) {
            (Some(tree), Some(package)) => tree == package,
            _ => true,
        };
        is_for && self.kind == PackageKind::Runtime
    }

    /// Makes the directory a Python package: an empty `__init__.py`, unless a file of that name is
    /// among the artifacts.
    pub fn add_empty_module(&mut self) -> Result<()> {
        let path: RelPath = "__init__.py".parse()?;
        if self.members.contains(&path) {
            return Ok(());
        }
        let source = MemberSource::Text(String::new());
        self.members.insert(
            path,
            WheelMemberPlan {
                mode: wheel::FileMode::Regular,
                source,
            },
        )
    }
}

impl Claims {
    /// Names of the artifacts that the runtime packages looked at.
    pub fn runtime_artifacts(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .flat_map(|claim| &claim.artifacts)
            .map(String::as_str)
            .collect()
    }

    /// Who ships a path, for a devel tree of this scope; names of libraries come first.
    ///
    /// A package of another family may ship a path of the same name; a tree that is for one family
    /// does not see it. Nor does any tree see device packages: they come and go after it, and link
    /// their files into it themselves.
    pub fn find(&self, path: &RelPath, scope: Option<&Scope>) -> Option<ClaimReference<'_>> {
        let mut eligible = self.eligible(scope);
        let alias = eligible.find_map(|claim| claim.aliases.get(path).map(ClaimReference::Alias));
        let shipped = || {
            let directory = &self.owner(path, scope)?.directory;
            Some(ClaimReference::Shipped { directory })
        };
        alias.or_else(shipped)
    }

    /// The packages that ship some of these paths, or libraries that they are names of, for a devel
    /// tree of this scope.
    pub fn owners<'a>(
        &self,
        paths: impl Iterator<Item = &'a RelPath>,
        scope: Option<&Scope>,
    ) -> Vec<&Claim> {
        let directories: BTreeSet<&str> = paths
            .filter_map(|path| match self.find(path, scope)? {
                ClaimReference::Alias(library) => Some(&*self.owner(library, scope)?.directory),
                ClaimReference::Shipped { directory } => Some(directory),
            })
            .collect();
        let mut owners: Vec<&Claim> = self.eligible(scope).collect();
        owners.retain(|claim| directories.contains(&*claim.directory));
        owners
    }

    /// The number, of the package that ships a path, for a devel tree of this
    /// scope.
    pub fn owner_index(&self, path: &RelPath, scope: Option<&Scope>) -> Option<usize> {
        let is_owner = |claim: &Claim| claim.is_seen(scope) && claim.members.contains(path);
        self.0.iter().position(is_owner)
    }

    fn owner(&self, path: &RelPath, scope: Option<&Scope>) -> Option<&Claim> {
        self.0.get(self.owner_index(path, scope)?)
    }

    fn eligible(&self, scope: Option<&Scope>) -> impl Iterator<Item = &Claim> {
        self.0.iter().filter(move |claim| claim.is_seen(scope))
    }
}
