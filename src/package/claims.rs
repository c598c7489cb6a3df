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
};

/// The files of one runtime or device package, with their paths in the artifacts.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) spec: &'a PackageSpec,
    /// The target or family that the package is built for.
    pub(super) scope: Option<Scope>,
    /// The import name of the directory with its files: `_rocm_sdk_core`.
    pub(super) directory: String,
    pub(super) members: Members,
    /// Names of libraries that do not ship because they are not the SONAME, each with the path that
    /// ships: `lib/libx.so` with `lib/libx.so.1`.
    pub(super) aliases: BTreeMap<RelPath, RelPath>,
    /// The names of the artifacts that were selected for it, even if its globs accept no file.
    pub(super) artifacts: BTreeSet<String>,
    pub(super) notes: Vec<String>,
}

/// All claims, in the order in which the packages were planned.
#[derive(Debug, Default)]
pub(super) struct Claims<'a>(pub(super) Vec<Claim<'a>>);

impl Claim<'_> {
    /// Whether the devel tree for `scope` links to the files of this package.
    ///
    /// The tree of one family ignores packages of other families, which may ship the same path. All
    /// trees ignore device packages: users install and uninstall them later, and their files are
    /// linked into the tree then.
    fn is_seen(&self, scope: Option<&Scope>) -> bool {
        let is_of_another = scope.is_some() && self.scope.is_some() && scope != self.scope.as_ref();
        !is_of_another && self.spec.kind == PackageKind::Runtime
    }

    /// Adds an empty `__init__.py`, which makes the directory a Python package, unless the
    /// artifacts have one.
    pub(super) fn add_empty_module(&mut self) -> Result<()> {
        let path: RelPath = "__init__.py".parse()?;
        if self.members.contains_key(&path) {
            return Ok(());
        }
        let empty = MemberSource::Text(String::new());
        self.members.insert(path, WheelMemberPlan::regular(empty))
    }
}

impl Claims<'_> {
    /// Finds what ships for a path, for the devel tree of `scope`: the index of the claim, and the
    /// path in it. That is another path if the first one is an alias.
    pub(super) fn find<'b>(
        &'b self,
        path: &'b RelPath,
        scope: Option<&Scope>,
    ) -> Option<(usize, &'b RelPath)> {
        let mut seen = self.0.iter().filter(|claim| claim.is_seen(scope));
        let alias = seen.find_map(|claim| claim.aliases.get(path));
        let shipped = alias.unwrap_or(path);
        Some((self.owner(shipped, scope)?, shipped))
    }

    /// The index of the claim that ships a path, for the devel tree of `scope`.
    pub(super) fn owner(&self, path: &RelPath, scope: Option<&Scope>) -> Option<usize> {
        let is_owner = |claim: &Claim<'_>| claim.is_seen(scope) && claim.members.contains_key(path);
        self.0.iter().position(is_owner)
    }
}
