//! [`BuildPlan`]: what a build will write. For each wheel it maps the path of every member to the
//! source of its bytes.
//!
//! A plan is a value. `build --plan` prints it, tests compare it with snapshots, and `check
//! --planned` compares a finished set with it. Nothing in this file reads files.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map},
    fmt,
    sync::Arc,
};

use crate::{
    elf::Rpath,
    error::{Result, bail},
    package::{
        catalog::PackageSpec,
        naming::DistributionMode,
        origin::BuildOrigin,
        sdk_tree::{NameLine, SdkTree},
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    version::Version,
    wheel::{self, SdistFilename, WheelFilename},
};

#[derive(Debug)]
pub struct BuildPlan {
    pub version: Version,
    pub mode: DistributionMode,
    pub platform: Platform,
    /// The targets or families that the set has device code for.
    pub targets: Vec<Scope>,
    pub wheels: Vec<WheelPlan>,
    pub sdists: Vec<SdistPlan>,
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

/// One wheel: its members, and the texts of its `dist-info`. RECORD is added when it is written.
#[derive(Debug)]
pub struct WheelPlan {
    pub label: Label,
    pub filename: WheelFilename,
    pub members: Members,
    pub dist_info: Vec<(RelPath, String)>,
}

/// One sdist: its files, in the order of the archive.
#[derive(Debug)]
pub struct SdistPlan {
    pub label: Label,
    pub filename: SdistFilename,
    pub files: Vec<(RelPath, Vec<u8>)>,
}

/// A sorted map from path to member, in which no path can be inserted twice.
#[derive(Debug, Default)]
pub struct Members(BTreeMap<RelPath, WheelMemberPlan>);

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

impl SdkTreePacking {
    pub fn extension(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::TarXz => "tar.xz",
        }
    }
}

impl Members {
    /// Adds a member. If the path is taken already, the error names both sources.
    pub fn insert(&mut self, path: RelPath, member: WheelMemberPlan) -> Result<()> {
        match self.0.entry(path) {
            btree_map::Entry::Vacant(place) => {
                place.insert(member);
                Ok(())
            }
            btree_map::Entry::Occupied(taken) => bail!(
                "two sources for one member `{}`: {} and {}",
                taken.key(),
                taken.get().source,
                member.source
            ),
        }
    }

    pub fn into_entries(self) -> impl Iterator<Item = (RelPath, WheelMemberPlan)> {
        self.0.into_iter()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&RelPath, &WheelMemberPlan)> {
        self.0.iter()
    }

    pub(super) fn source_mut(&mut self, path: &RelPath) -> Option<&mut MemberSource> {
        self.0.get_mut(path).map(|member| &mut member.source)
    }

    pub fn contains(&self, path: &RelPath) -> bool {
        self.0.contains_key(path)
    }

    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl BuildPlan {
    /// A plan without packages.
    pub fn new(version: &Version, mode: DistributionMode, platform: Platform) -> Self {
        Self {
            version: version.clone(),
            mode,
            platform,
            targets: Vec::new(),
            wheels: Vec::new(),
            sdists: Vec::new(),
            without: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Paths of the packages below `dist/`, in the order in which they are written.
    pub fn file_names(&self) -> impl Iterator<Item = String> + '_ {
        let wheels = self.wheels.iter().map(WheelPlan::path);
        wheels.chain(self.sdists.iter().map(SdistPlan::path))
    }

    /// Removes every package that is not named. The contents of the others do not change.
    ///
    /// A name is that of a package (`core`; `device` stands for all device packages), of the
    /// package for one target (`device-gfx942`), or of a distribution (`rocm-sdk-device-gfx942`).
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        let wanted = wanted(&self.labels().collect::<Vec<_>>(), names)?;
        self.wheels.retain(|wheel| wanted(&wheel.label));
        self.sdists.retain(|sdist| wanted(&sdist.label));
        Ok(())
    }

    fn labels(&self) -> impl Iterator<Item = &Label> {
        let wheels = self.wheels.iter().map(|wheel| &wheel.label);
        wheels.chain(self.sdists.iter().map(|sdist| &sdist.label))
    }
}

/// A predicate for packages with one of `names`. It is an error if a name fits none of `labels`.
pub(super) fn wanted<'a>(
    labels: &[&Label],
    names: &'a [String],
) -> Result<impl Fn(&Label) -> bool + use<'a>> {
    let known: BTreeSet<String> = labels.iter().flat_map(|label| label.names()).collect();
    let quoted = |name: &String| format!("`{name}`");
    let unknown = names.iter().filter(|name| !known.contains(*name));
    let unknown: Vec<String> = unknown.map(quoted).collect();
    if !unknown.is_empty() {
        let known: Vec<String> = known.iter().map(quoted).collect();
        bail!(
            "no package {} in this set, which has {}",
            unknown.join(", "),
            known.join(", ")
        );
    }
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
        [Some(package.clone()), Some(self.dist.clone()), narrow]
            .into_iter()
            .flatten()
    }

    fn path(&self, file_name: &impl fmt::Display) -> String {
        match &self.directory {
            Some(directory) => format!("{directory}/{file_name}"),
            None => file_name.to_string(),
        }
    }
}

impl WheelPlan {
    /// Its path below `dist/`.
    pub fn path(&self) -> String {
        self.label.path(&self.filename)
    }
}

impl SdistPlan {
    /// Its path below `dist/`.
    pub fn path(&self) -> String {
        self.label.path(&self.filename)
    }
}

impl WheelPlan {
    /// The path of RECORD, in the `.dist-info` directory.
    pub fn record(&self) -> Result<RelPath> {
        Ok(format!("{}/RECORD", self.filename.dist_info()).parse()?)
    }
}

impl fmt::Display for BuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wheel in &self.wheels {
            writeln!(f, "{wheel}")?;
        }
        for sdist in &self.sdists {
            writeln!(f, "{}", sdist.path())?;
            for (path, text) in &sdist.files {
                writeln!(f, "  text   {path} ({} bytes)", text.len())?;
            }
            writeln!(f)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WheelPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.path())?;
        for (path, member) in self.members.iter() {
            let mark = match member.mode {
                wheel::FileMode::Executable => "*",
                wheel::FileMode::Regular => "",
            };
            let path = NameLine(path.as_str());
            match &member.source {
                MemberSource::Copy(origin) => {
                    writeln!(f, "  copy   {path}{mark} < {}", origin.artifact)?;
                }
                MemberSource::Relink(origin, rpath) => {
                    writeln!(f, "  relink {path}{mark} < {} [{rpath}]", origin.artifact)?;
                }
                MemberSource::Launcher(target) => {
                    writeln!(f, "  launch {path}{mark} -> {}", NameLine(target))?;
                }
                MemberSource::Text(text) => writeln!(f, "  text   {path} ({} bytes)", text.len())?,
                MemberSource::Sdk(tree, _) => write!(f, "  pack   {path}\n{tree}")?,
                MemberSource::SdkManifest(_) => writeln!(f, "  count  {path}")?,
            }
        }
        for (path, text) in &self.dist_info {
            writeln!(f, "  text   {path} ({} bytes)", text.len())?;
        }
        Ok(())
    }
}

/// The source as error messages name it.
impl fmt::Display for MemberSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(origin) | Self::Relink(origin, _) => {
                write!(
                    f,
                    "`{}` of artifact `{}`",
                    origin.path.display(),
                    origin.artifact
                )
            }
            Self::Launcher(target) => write!(f, "a launcher for `{target}`"),
            Self::Text(_) => f.write_str("a text written by this program"),
            Self::SdkManifest(_) => f.write_str("the manifest of the SDK tree"),
            Self::Sdk(..) => f.write_str("the packed SDK tree"),
        }
    }
}
