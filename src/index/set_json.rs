//! [`SetJson`]: a package set, with the facts that an index shows about each file; its document
//! `set.json`, which describes the set to programs; and the rules for names of packages.

use std::iter;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{layout::Layout, projects::device_targets};
use crate::{
    console::many,
    digest::Sha256,
    error::{Context as _, Hint as _, Result, anyhow, as_text, ensure},
    location::Key,
    policy::catalog::CATALOG,
    run::{ArtifactGroup, ForeignCode, Platform, Repository, Run, RunAttempt, RunId},
    target::{Scope, Target},
    version::{GitSha, Version},
    wheel::{DistName, PackageFilename},
};

/// The version of the format.
const SCHEMA: u32 = 1;

/// The directory of the set itself, as a path below it.
pub const TOP: &str = "./";

/// The file in which `upload --part` says what a part was built from. `set.json` does not exist
/// before the set is complete.
pub const PART: &str = "part.json";

/// What a set was built from, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The attempt of the run that published the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_attempt: Option<RunAttempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<GitSha>,
    /// The version of ROCm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Scope>,
    /// The version that was tested, of a set that was promoted to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_from: Option<Version>,
    /// Set if the code of the packages is not the repository's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_code: Option<ForeignCode>,
    /// Packages that the set leaves out on purpose: the names passed to `build --without`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Artifacts with libraries or programs that no package of the set takes, and no reason why:
    /// `brandnew_lib`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unshipped: Vec<String>,
}

impl Identity {
    /// Fills in missing facts from the run that publishes the set. A local build becomes a set of the run.
    #[must_use]
    pub fn or_of(mut self, run: &Run) -> Self {
        if self.run_id.as_ref().is_none_or(RunId::is_local) {
            self.run_id = Some(run.id.clone());
        }
        if self.run_id.as_ref() == Some(&run.id) {
            self.repository = self.repository.or(Some(run.repository.clone()));
            self.run_attempt = run.attempt.or(self.run_attempt);
        }
        self
    }
}

/// A package set, as `set.json` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetJson {
    schema: u32,
    #[serde(flatten)]
    pub identity: Identity,
    /// Sorted by project, version and name.
    pub files: Vec<SetFile>,
}

/// One wheel or sdist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetFile {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`. It is a key, so that it has
    /// no control character. Quotes, angle brackets, `%`, `+`, spaces and any other Unicode are
    /// allowed, and pages escape them.
    pub path: String,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// The reason why the file is yanked, which may be empty. `None` if it is not yanked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub yanked: Option<String>,
    /// What spares the next `index` or `upload` from reading a file in a bucket. `upload` writes it only of
    /// files that were there before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remembered: Option<Remembered>,
    /// The attempt of the run that published a package of others: each of their jobs publishes for itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_attempt: Option<RunAttempt>,
    /// The targets for which a package of others has an extra: `torch[device-gfx942]`. It brings the
    /// device code of ROCm too, so that users of a wheel with its own code in it also need it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub device_extras: Vec<Target>,
    // The other facts are in the pages of the index, and not in `set.json`.
    /// When it was uploaded, if the store says so, in the format of
    /// [PEP 700](https://peps.python.org/pep-0700/).
    #[serde(skip)]
    pub upload_time: Option<String>,
    /// The digest of the wheel's METADATA, which is a file beside it (a sidecar), so that installers
    /// can resolve without downloading the wheel ([PEP 658](https://peps.python.org/pep-0658/)).
    #[serde(skip)]
    pub metadata: Option<Sha256>,
    /// `Requires-Python` in the metadata: `>=3.10`.
    #[serde(skip)]
    pub requires_python: Option<String>,
}

/// Facts about a file, and the stamps of the file and its sidecar for which they are true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Remembered {
    pub file: SetStamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar: Option<SetStamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar_sha256: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requires_python: Option<String>,
}

/// Size and `ETag` of an object, which show without reading it whether it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetStamp {
    pub size: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
}

impl SetFile {
    /// A file of which an index shows nothing more.
    pub fn new(
        path: String,
        project: DistName,
        version: Version,
        size: u64,
        sha256: Sha256,
    ) -> Self {
        Self {
            path,
            project,
            version,
            size,
            sha256,
            yanked: None,
            remembered: None,
            run_attempt: None,
            device_extras: Vec::new(),
            upload_time: None,
            metadata: None,
            requires_python: None,
        }
    }

    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The path of its sidecar, which need not exist.
    pub fn sidecar_path(&self) -> String {
        format!("{}{SIDECAR}", self.path)
    }

    /// The family whose directory contains the file. `None` for files for all families.
    pub fn family(&self) -> Option<ArtifactGroup> {
        ArtifactGroup::of_directory(self.directory()?).ok()
    }

    pub fn layout(&self) -> Layout {
        Layout::of(&self.path).0
    }

    /// The path relative to the directory of all files.
    pub fn below(&self) -> &str {
        Layout::of(&self.path).1
    }

    pub fn directory(&self) -> Option<&str> {
        Some(self.below().split_once('/')?.0)
    }

    fn order(&self) -> (&DistName, &Version, &str, Option<&str>) {
        (&self.project, &self.version, self.name(), self.directory())
    }

    /// The path is outside input: it must be a key of a file, in no directory but that of a family.
    fn ensure_valid(&self) -> Result<()> {
        let key: Key = self.path.parse()?;
        let depth = self.below().matches('/').count();
        ensure!(
            !key.is_directory() && depth == usize::from(self.family().is_some()),
            "not the path of a package"
        );
        Ok(())
    }
}

impl SetJson {
    /// A set of these files. The targets of its device wheels are added to those of `identity`. If
    /// `identity` has no version, it is that of `rocm`. Fails if two files of one name would be on
    /// the same page.
    pub fn new(mut identity: Identity, mut files: Vec<SetFile>) -> Result<Self> {
        files.sort_by(|a, b| a.order().cmp(&b.order()));
        for (one, next) in files.iter().tuple_windows() {
            // A file for all families comes first, and is on the page of every family.
            let is_on_one_page = one.directory().is_none_or(|it| next.directory() == Some(it));
            let name = next.name();
            ensure!(
                one.name() != name || !is_on_one_page,
                "two files of one name in a package set: `{name}`"
            );
        }
        if identity.version.is_none() {
            let mut files = files.iter().rev();
            let rocm = files.find(|file| file.project.normalized() == "rocm");
            identity.version = rocm.map(|file| file.version.clone());
        }
        let targets = device_targets(files.iter().map(|file| file.project.normalized()));
        identity.targets.extend(targets.into_iter().map(Scope::Target));
        identity.targets = identity.targets.drain(..).unique().collect();
        Ok(Self { schema: SCHEMA, identity, files })
    }

    /// The same set with its files where `layout` has them.
    pub fn in_layout(&self, layout: Layout) -> Result<Self> {
        let files = self.files.iter().map(|file| SetFile {
            path: format!("{}{}", layout.files(), file.below()),
            ..file.clone()
        });
        Self::new(self.identity.clone(), files.collect())
    }

    /// The number of its packages of other projects.
    pub fn others(&self) -> usize {
        let files = self.files.iter();
        files.filter(|file| !is_ours(&file.project)).count()
    }

    /// `7 packages and 3 of others`
    pub fn counted(&self) -> String {
        let others = self.others();
        counted(self.files.len() - others, others)
    }

    /// The set with more files.
    pub fn with(mut self, files: Vec<SetFile>) -> Result<Self> {
        self.files.extend(files);
        Self::new(self.identity, self.files)
    }

    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct SetJsonSchema {
            schema: u32,
        }
        #[derive(Deserialize)]
        struct Files {
            files: Vec<SetFile>,
        }
        // Check the schema first: a later version may not parse as this one.
        let SetJsonSchema { schema } =
            serde_json::from_str(text).context("failed to read the `schema` of a set")?;
        if schema != SCHEMA {
            return Err(anyhow!("a set of another schema than {SCHEMA}: {schema}"))
                .hint("use the version of rocwheel that wrote it, or a later one");
        }
        // Parse twice. With `#[serde(flatten)]`, serde would hold the whole document in memory a
        // second time.
        let identity = serde_json::from_str(text).context("failed to read a set")?;
        let Files { files } = serde_json::from_str(text).context("failed to read a set")?;
        let set = Self { schema, identity, files };
        for file in &set.files {
            let path = &file.path;
            file.ensure_valid()
                .with_context(|| format!("failed to read the path of a file in a set: {path:?}"))?;
        }
        Ok(set)
    }

    /// The size of all files, without sidecars.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The targets that have a device wheel.
    pub fn device_targets(&self) -> Vec<Target> {
        device_targets(self.files.iter().map(|file| file.project.normalized()))
    }

    /// The layouts of its files. A place may have files in both: TheRock's jobs add theirs beside
    /// `dist/`.
    pub fn layouts(&self) -> Vec<Layout> {
        let layouts = self.files.iter().map(SetFile::layout);
        layouts.sorted().dedup().collect()
    }

    /// The layout of the newest `rocm`, whose find-links page is the one to install from. Of a set
    /// without `rocm`, `dist` if any file is there.
    pub fn layout(&self) -> Layout {
        let mut newest = self.files.iter().rev();
        let rocm = newest.find(|file| file.project.normalized() == "rocm");
        let of_rocm = rocm.map(SetFile::layout);
        of_rocm.or_else(|| self.layouts().first().copied()).unwrap_or_default()
    }

    /// The families that have their own directory and index, sorted.
    pub fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.iter().filter_map(SetFile::family);
        families.sorted().dedup().collect()
    }

    /// The families by which the set is installed: those that have packages of ours. A job may put
    /// packages of others in the directory of a family, in a set that has none. Of a set without
    /// packages of ours, all families.
    pub fn own_families(&self) -> Vec<ArtifactGroup> {
        let is_of_others = self.others() == self.files.len();
        let files = self.files.iter();
        let ours = files.filter(|file| is_of_others || is_ours(&file.project));
        ours.filter_map(SetFile::family).sorted().dedup().collect()
    }

    /// The indexes of the set: one with the files for all families, and for each family one with
    /// those and its own files.
    pub fn views(&self) -> Vec<IndexView<'_>> {
        let (families, layout) = (self.families().into_iter().map(Some), self.layout());
        let view = |family: Option<ArtifactGroup>| {
            let wanted = family.as_ref().map(ArtifactGroup::as_str);
            let is_in = |file: &&SetFile| {
                let directory = file.directory();
                directory.is_none() || directory == wanted
            };
            IndexView { files: self.files.iter().filter(is_in).collect(), family, layout }
        };
        iter::once(None).chain(families).map(view).collect()
    }

    pub fn has(&self, project: &str) -> bool {
        let mut files = self.files.iter();
        files.any(|file| file.project.normalized() == project)
    }

    /// The body of `part.json`: what all parts of a set have in common, without files.
    pub fn part(&self) -> String {
        let mut common = Self { files: Vec::new(), ..self.clone() };
        common.identity.targets.clear();
        common.pretty()
    }

    /// The document on lines for people.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The files of one index.
#[derive(Clone, Debug)]
pub struct IndexView<'a> {
    pub family: Option<ArtifactGroup>,
    pub files: Vec<&'a SetFile>,
    /// That of the whole set: each of many pages names it.
    pub layout: Layout,
}

impl IndexView<'_> {
    /// Every project by its normalized name, with its files, in order.
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[&SetFile])> {
        let projects = self.files.chunk_by(|a, b| a.project == b.project);
        projects.filter_map(|files| Some((files.first()?.project.normalized(), files)))
    }

    /// The directory of its pages: empty, or ending in `/`.
    pub fn top(&self) -> String {
        let family = self.family.as_ref();
        family.map_or_else(String::new, |family| format!("{family}/"))
    }
}

as_text!(GitSha, Version, Scope, DistName);

/// The suffix of a sidecar: `x.whl.metadata` belongs to `x.whl`.
pub const SIDECAR: &str = ".metadata";

/// The beginning of most names in `packages.toml`, and of no package of another project.
const SDK: &str = "rocm-sdk-";

/// Whether a project is one of the packages of `packages.toml`, or one of the SDK that another policy
/// or a later build of TheRock adds. A place may also hold packages of others, such as torch, and an
/// index their dependencies.
pub fn is_ours(project: &DistName) -> bool {
    let name = project.normalized();
    name.starts_with(SDK) || CATALOG.has_dist(name)
}

/// `7 packages and 3 of others`
pub fn counted(ours: usize, others: usize) -> String {
    let packages = many(ours, "package");
    match others {
        0 => packages,
        others => format!("{packages} and {others} of others"),
    }
}

/// Whether a package, or the sidecar of one, is of another project, by its file name.
pub fn is_of_others(file: &str) -> bool {
    let package = file.strip_suffix(SIDECAR).unwrap_or(file);
    identity(package).is_some_and(|(project, _)| !is_ours(&project))
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

pub fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL)
}

/// Whether a file is a wheel or an sdist by its name. Other files in the directory are ignored.
pub fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(WHEEL) || ends(SDIST))
}

/// Project and version of a package, from its file name. `None` if the name is invalid.
pub fn identity(file: &str) -> Option<(DistName, Version)> {
    let name: PackageFilename = file.rsplit('/').next()?.parse().ok()?;
    Some((name.name, name.version))
}

#[cfg(test)]
mod tests;
