//! [`BuildPlan`]: what a build will write. For each wheel it maps the path of every member to the
//! source of its bytes.
//!
//! A plan is a value. `build --plan` prints it, tests compare it with snapshots, and `check
//! --planned` compares a finished set with it. Nothing in this file reads files.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use derive_more::{Deref, IntoIterator};
use itertools::Itertools as _;

use crate::{
    elf::Rpath,
    error::{Result, bail, ensure},
    package::{
        catalog::PackageSpec,
        naming::DistributionMode,
        sdk_tree::{BuildOrigin, SdkTree},
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    version::Version,
    wheel,
};

#[derive(Debug)]
pub struct BuildPlan {
    pub version: Version,
    pub mode: DistributionMode,
    pub platform: Platform,
    /// The targets or families that the set has device code for.
    pub targets: Vec<Scope>,
    /// The packages in the order in which they are written: wheels, then sdists.
    pub packages: Vec<PackagePlan>,
    /// The names that `--without` or `without` in `packages.toml` leave out of the set.
    pub without: Vec<String>,
    /// What a user should know, such as files that were left out.
    pub notes: Vec<String>,
}

/// Identifies a package of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// `core`, `device`, …
    pub package: String,
    /// The target or family that the package is built for.
    pub scope: Option<Scope>,
    /// The name of the distribution: `rocm-sdk-device-gfx942`.
    pub dist: String,
    /// The subdirectory of `dist/` for this package. Only legacy sets with several families have
    /// them.
    pub directory: Option<String>,
}

#[derive(Debug)]
pub struct PackagePlan {
    pub label: Label,
    pub file_name: String,
    pub content: PackageContent,
}

#[derive(Debug)]
pub enum PackageContent {
    /// Its members, and the texts of its `.dist-info` directory. RECORD is added when it is written.
    Wheel {
        members: Members,
        dist_info: Vec<(RelPath, String)>,
        record: RelPath,
    },
    /// Its files below the directory `top`, in the order of the archive.
    Sdist {
        top: RelPath,
        files: Vec<(RelPath, Vec<u8>)>,
    },
}

/// A sorted map from path to member, in which no path can be inserted twice.
#[derive(Debug, Default, Deref, IntoIterator)]
pub struct Members(pub(super) BTreeMap<RelPath, WheelMemberPlan>);

#[derive(Clone, Debug)]
pub struct WheelMemberPlan {
    pub mode: wheel::FileMode,
    pub source: MemberSource,
}

/// Where a member's bytes come from.
#[derive(Clone, Debug)]
pub enum MemberSource {
    /// The unchanged file.
    Copy(BuildOrigin),
    /// A library or executable. This run path replaces its own.
    Relink(BuildOrigin, Rpath),
    /// A launcher, in place of a symlink with this text. Wheels cannot have symlinks.
    Launcher(String),
    /// A text that rocwheel generates.
    Text(String),
    /// The archive of the SDK tree.
    Sdk(Arc<SdkTree>, SdkTreePacking),
    /// The manifest of the SDK tree. It needs the sizes of all files, so it is rendered only after
    /// the run paths are planned.
    SdkManifest(Arc<SdkTree>),
}

/// How the SDK tree is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SdkTreePacking {
    /// `_devel.tar`
    #[default]
    #[value(name = "none")]
    Tar,
    /// `_devel.tar.xz`
    #[value(name = "xz")]
    TarXz,
}

impl WheelMemberPlan {
    pub(super) fn regular(source: MemberSource) -> Self {
        let mode = wheel::FileMode::Regular;
        Self { mode, source }
    }
}

impl Members {
    pub fn insert(&mut self, path: RelPath, member: WheelMemberPlan) -> Result<()> {
        match self.0.entry(path) {
            Entry::Vacant(place) => drop(place.insert(member)),
            Entry::Occupied(taken) => bail!("two sources for one member `{}`", taken.key()),
        }
        Ok(())
    }
}

impl BuildPlan {
    /// Removes every package that is not named. The contents of the others do not change.
    ///
    /// A name is that of a package (`core`; `device` stands for all device packages), of the
    /// package for one target (`device-gfx942`), or of a distribution (`rocm-sdk-device-gfx942`).
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        let labels: Vec<&Label> = self.packages.iter().map(|it| &it.label).collect();
        let is_wanted = wanted(&labels, names)?;
        self.packages.retain(|package| is_wanted(&package.label));
        Ok(())
    }

    /// The members of all wheels.
    pub(super) fn members(&self) -> impl Iterator<Item = (&RelPath, &WheelMemberPlan)> {
        self.packages.iter().flat_map(PackagePlan::members)
    }
}

/// A predicate for packages with one of `names`. It is an error if a name fits none of `labels`.
pub(super) fn wanted<'a>(
    labels: &[&Label],
    names: &'a [String],
) -> Result<impl Fn(&Label) -> bool + use<'a>> {
    let known: BTreeSet<String> = labels.iter().flat_map(|label| label.names()).collect();
    let mut unknown = names
        .iter()
        .filter(|name| !known.contains(*name))
        .peekable();
    ensure!(
        unknown.peek().is_none(),
        "no package `{}` in this set, which has `{}`",
        unknown.join("`, `"),
        known.iter().join("`, `")
    );
    Ok(|label: &Label| label.names().any(|name| names.contains(&name)))
}

impl Label {
    pub(super) fn of(package: &PackageSpec, mode: DistributionMode, scope: Option<&Scope>) -> Self {
        Self {
            package: package.name.clone(),
            scope: scope.cloned(),
            dist: package.dist_name(mode, scope),
            directory: None,
        }
    }

    /// All names that select this package, see [`BuildPlan::keep`].
    fn names(&self) -> impl Iterator<Item = String> + use<> {
        let (package, scope) = (&self.package, self.scope.as_ref());
        let narrow = scope.map(|scope| format!("{package}-{}", scope.base()));
        [package.clone(), self.dist.clone()]
            .into_iter()
            .chain(narrow)
    }
}

impl PackagePlan {
    /// Its path below `dist/`.
    pub fn path(&self) -> String {
        let directory = self.label.directory.iter();
        directory.chain([&self.file_name]).join("/")
    }

    /// The members of a wheel. A sdist has none.
    pub fn members(&self) -> impl Iterator<Item = (&RelPath, &WheelMemberPlan)> {
        let members = match &self.content {
            PackageContent::Wheel { members, .. } => Some(members),
            PackageContent::Sdist { .. } => None,
        };
        members.into_iter().flat_map(|members| members.iter())
    }
}
