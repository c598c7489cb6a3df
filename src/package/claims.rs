//! [`Claim`]: the paths of the install tree that one package ships. The devel tree links to them,
//! and ships only what no claim has.

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

/// The files of one runtime or device package, with their paths in the artifacts.
#[derive(Debug)]
pub struct Claim {
    /// `core`, `libraries`, …
    pub package: String,
    pub kind: PackageKind,
    /// The target or family that the package is built for.
    pub scope: Option<Scope>,
    /// The import name of the directory with its files: `_rocm_sdk_core`.
    pub directory: String,
    pub members: Members,
    /// Names of libraries that do not ship because they are not the SONAME, each with the path that
    /// ships: `lib/libx.so` with `lib/libx.so.1`.
    pub aliases: BTreeMap<RelPath, RelPath>,
    /// The names of the artifacts that were selected for it, even if its globs accept no file.
    pub artifacts: BTreeSet<String>,
    pub notes: Vec<String>,
}

/// How the devel tree refers to a path that a package ships.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimReference<'a> {
    /// Another name of the library that ships at this path.
    Alias(&'a RelPath),
    /// The file ships in the directory of this package.
    Shipped { directory: &'a str },
}

/// All claims, in the order in which the packages were planned.
#[derive(Debug, Default)]
pub struct Claims(pub(super) Vec<Claim>);

impl Claim {
    /// A claim without files.
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

    /// Whether the devel tree for `scope` links to the files of this package.
    fn is_seen(&self, scope: Option<&Scope>) -> bool {
        let is_for = match (scope, &self.scope) {
            (Some(tree), Some(package)) => tree == package,
            _ => true,
        };
        is_for && self.kind == PackageKind::Runtime
    }

    /// Adds an empty `__init__.py`, which makes the directory a Python package, unless the
    /// artifacts have one.
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
    /// Names of the artifacts that were selected for runtime packages.
    pub fn runtime_artifacts(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .flat_map(|claim| &claim.artifacts)
            .map(String::as_str)
            .collect()
    }

    /// Finds the package that ships a path, for the devel tree of `scope`. Aliases take precedence.
    ///
    /// The tree of one family ignores packages of other families, which may ship the same path. All
    /// trees ignore device packages: users install and uninstall them later, and their files are
    /// linked into the tree then.
    pub fn find(&self, path: &RelPath, scope: Option<&Scope>) -> Option<ClaimReference<'_>> {
        let mut eligible = self.eligible(scope);
        let alias = eligible.find_map(|claim| claim.aliases.get(path).map(ClaimReference::Alias));
        let shipped = || {
            let directory = &self.owner(path, scope)?.directory;
            Some(ClaimReference::Shipped { directory })
        };
        alias.or_else(shipped)
    }

    /// The packages that ship any of `paths`, or the libraries that these are aliases of, for the
    /// devel tree of `scope`.
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

    /// The index of the claim that ships a path, for the devel tree of `scope`.
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
