//! [`SetJson`]: a package set, and its document `set.json`, which describes the set to programs.

use std::iter;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{
    layout::Layout,
    package_file::{PackageFile, is_ours},
    projects::device_targets,
    variants::{VariantIndex, VariantsOfOthers},
};
use crate::run::{ArtifactGroup, ForeignCode, Platform, Repository, Run, RunAttempt, RunId};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    quantity::many,
    target::{Scope, Target},
    version::{GitSha, Version},
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
    /// Artifacts that packages are made of and the run does not have: `core-ocl`, `fft_dev`,
    /// `rccl_lib_gfx942`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_in_run: Vec<String>,
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
    pub files: Vec<PackageFile>,
    /// What the pages list of a place that has such documents. `set.json` does not have them.
    #[serde(skip)]
    pub variants_of_others: VariantsOfOthers,
}

impl SetJson {
    /// Makes a set of `files`. Adds the target of each device wheel to the targets of `identity`. An identity
    /// without a version gets the version of `rocm`. Fails if two files of one name would be on the same page, or if
    /// variant wheels disagree about what their labels mean.
    pub fn new(mut identity: Identity, mut files: Vec<PackageFile>) -> Result<Self> {
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
            let rocm = files.iter().rfind(|file| file.project.normalized() == "rocm");
            identity.version = rocm.map(|file| file.version.clone());
        }
        let targets = device_targets(files.iter().map(|file| &file.project));
        identity.targets.extend(targets.into_iter().map(Scope::Target));
        identity.targets = identity.targets.drain(..).unique().collect();
        let variants_of_others = VariantsOfOthers::new();
        let set = Self { schema: SCHEMA, identity, files, variants_of_others };
        for view in set.views() {
            VariantIndex::all(&view.files, &set.variants_of_others)?;
        }
        Ok(set)
    }

    /// The same set with its files where `layout` has them.
    pub fn in_layout(&self, layout: Layout) -> Result<Self> {
        let files = self.files.iter().map(|file| PackageFile {
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
    pub fn with(mut self, files: Vec<PackageFile>) -> Result<Self> {
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
            files: Vec<PackageFile>,
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
        let set = Self { schema, identity, files, variants_of_others: VariantsOfOthers::new() };
        for file in &set.files {
            let path = &file.path;
            file.ensure_valid()
                .with_context(|| format!("failed to read a file of a set: {path:?}"))?;
        }
        Ok(set)
    }

    /// The size of all files, without sidecars.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The targets that have a device wheel.
    pub fn device_targets(&self) -> Vec<Target> {
        device_targets(self.files.iter().map(|file| &file.project))
    }

    /// The layouts of its files. A place may have files in both: TheRock's jobs add theirs beside
    /// `dist/`.
    pub fn layouts(&self) -> Vec<Layout> {
        let layouts = self.files.iter().map(PackageFile::layout);
        layouts.sorted().dedup().collect()
    }

    /// The layout of the newest `rocm`, whose find-links page is the one to install from. Of a set
    /// without `rocm`, `dist` if any file is there.
    pub fn layout(&self) -> Layout {
        let mut newest = self.files.iter().rev();
        let rocm = newest.find(|file| file.project.normalized() == "rocm");
        let of_rocm = rocm.map(PackageFile::layout);
        of_rocm.or_else(|| self.layouts().first().copied()).unwrap_or_default()
    }

    /// The families that have their own directory and index, sorted.
    pub fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.iter().filter_map(PackageFile::family);
        families.sorted().dedup().collect()
    }

    /// The families that a user can choose. A family counts if its directory has a package of ours, because a
    /// job may put packages of others there. In a set without packages of ours, every family counts.
    pub fn own_families(&self) -> Vec<ArtifactGroup> {
        let is_of_others = self.others() == self.files.len();
        let files = self.files.iter();
        let ours = files.filter(|file| is_of_others || is_ours(&file.project));
        ours.filter_map(PackageFile::family).sorted().dedup().collect()
    }

    /// The indexes of the set: one with the files for all families, and for each family one with
    /// those and its own files.
    pub fn views(&self) -> Vec<IndexView<'_>> {
        let families = self.families().into_iter().map(Some);
        let layout = self.layout();
        let view = |family: Option<ArtifactGroup>| {
            let wanted = family.as_ref().map(ArtifactGroup::as_str);
            let is_in = |file: &&PackageFile| {
                let directory = file.directory();
                directory.is_none() || directory == wanted
            };
            let files: Vec<&PackageFile> = self.files.iter().filter(is_in).collect();
            // Wheels that disagree are refused where a set is made. A `set.json` of others may have some: its index
            // then says nothing of their labels.
            let variants = VariantIndex::all(&files, &self.variants_of_others).unwrap_or_default();
            IndexView { family, files, variants, layout }
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
    pub files: Vec<&'a PackageFile>,
    pub variants: Vec<VariantIndex<'a>>,
    /// The layout of the whole set, computed once because every page names it.
    pub layout: Layout,
}

impl IndexView<'_> {
    /// Every project by its normalized name, with its files, in order.
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[&PackageFile])> {
        let projects = self.files.chunk_by(|a, b| a.project == b.project);
        projects.filter_map(|files| Some((files.first()?.project.normalized(), files)))
    }

    /// The files about variants that no other view has: those of its family, or the common ones.
    pub fn own_variants(&self) -> impl Iterator<Item = &VariantIndex<'_>> {
        let family = self.family.as_ref().map(ArtifactGroup::as_str);
        self.variants.iter().filter(move |index| {
            let (_, below) = Layout::of(&index.path);
            below.split_once('/').map(|(directory, _)| directory) == family
        })
    }

    /// The directory of its pages: empty, or ending in `/`.
    pub fn top(&self) -> String {
        let family = self.family.as_ref();
        family.map_or_else(String::new, |family| format!("{family}/"))
    }
}

/// `7 packages and 3 of others`
pub fn counted(ours: usize, others: usize) -> String {
    let packages = many(ours, "package");
    match others {
        0 => packages,
        others => format!("{packages} and {others} of others"),
    }
}

#[cfg(test)]
mod tests;
