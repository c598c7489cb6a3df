//! Splits fat artifacts during a build, without writing split artifacts to disk.
//!
//! The planner sees the artifacts as if they were split. Device code is removed from binaries while
//! they are read into packages; `.kpack` archives are written after the set is planned.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use itertools::Itertools as _;

use crate::{
    artifact::{
        Artifact, ArtifactTree, FileFacts, LinkEnd, TreeContent, TreeFile, TreeForm, local_path,
        split::{self, ArchivePlace, SplitAction, SplitPlan},
    },
    atomic,
    console::{World, many, size},
    error::{Context as _, Hint as _, Result, anyhow},
    relpath::RelPath,
    target::Scope,
};

/// What to do with device code that is still in binaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Kpack {
    /// Split it out if the build's manifest says that device code is split
    #[default]
    Auto,
    /// Split it out of every artifact that is for a GPU
    Split,
    /// Keep it in the binaries
    Keep,
}

/// An artifact tree in which device code is split off, and the work that is still to be done for
/// it.
pub(super) struct SplitTree<'a> {
    pub(super) tree: Cow<'a, ArtifactTree>,
    splittings: Vec<SplitPlan<'a>>,
    staging: PathBuf,
}

impl<'a> SplitTree<'a> {
    /// Plans the split, without writing anything. The archives will be in `staging`.
    pub(super) fn new(
        tree: &'a ArtifactTree,
        kpack: Kpack,
        staging: &Path,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Self> {
        // Like all sources of a tree, those of the archives are absolute paths.
        let staging = std::path::absolute(staging)
            .context("failed to make the path of a directory absolute")?;
        let splittings = split::all(candidates(tree, kpack)?, jobs, &world.stop)?;
        for splitting in &splittings {
            for warning in splitting.kept_code() {
                world.console.warn(warning);
            }
        }
        let fat = |one: &SplitPlan| {
            let is_family = matches!(one.artifact.name.scope, Scope::Family(_));
            kpack == Kpack::Split || is_family || one.losses().next().is_some()
        };
        let splittings: Vec<_> = splittings.into_iter().filter(fat).collect();
        let mut tree = Cow::Borrowed(tree);
        if !splittings.is_empty() {
            let split: BTreeSet<_> = splittings.iter().map(|one| &one.artifact.name).collect();
            let new = &mut tree.to_mut().artifacts;
            new.retain(|one| !split.contains(&one.name));
            for splitting in &splittings {
                new.extend(artifacts(splitting, &staging)?);
            }
            new.sort_by_cached_key(|artifact| artifact.name.to_string());
            let found = many(splittings.len(), "fat artifact");
            let names = splittings.iter().map(|one| &one.artifact.name).join(", ");
            let console = &world.console;
            console.status("Splitting", format!("{found}: {names}"));
        }
        Ok(Self { tree, splittings, staging })
    }

    /// Writes the archives. They are deleted when the returned value is dropped.
    pub(super) fn write(&self, jobs: NonZeroUsize, world: &World) -> Result<Option<BuildArchives>> {
        if self.splittings.is_empty() {
            return Ok(None);
        }
        // A build that was killed may have left the directory.
        atomic::clear(&self.staging)?;
        fs_err::create_dir_all(&self.staging)?;
        let staging = BuildArchives(self.staging.clone());
        let (mut count, mut bytes) = (0, 0);
        let total = self.splittings.iter().map(code_size).sum();
        let parts = self.splittings.len();
        let what = many(parts, "fat artifact");
        let _bar = (world.console).joined_progress("Splitting", what, parts, total);
        for splitting in &self.splittings {
            let name = &splitting.artifact.name;
            let progress = (world.console).progress("Splitting", name, code_size(splitting));
            let to = |at: &ArchivePlace| {
                let place = place(splitting, at, &self.staging);
                if let Some(parent) = place.parent() {
                    fs_err::create_dir_all(parent)?;
                }
                Ok(place)
            };
            let inc = |bytes| progress.inc(bytes);
            let archives = split::write_archives(splitting, to, jobs, &world.stop, &inc)
                .with_context(|| format!("failed to split `{name}`"))?;
            for (_, len) in archives {
                count += 1;
                bytes += len;
            }
        }
        let facts = format!("{} of device code, {}", many(count, "archive"), size(bytes));
        world.console.status("Split", facts);
        Ok(Some(staging))
    }
}

/// The size of the device code that an artifact loses.
fn code_size(splitting: &SplitPlan<'_>) -> u64 {
    let losses = splitting.losses();
    losses.map(|(_, loss)| loss.fat.code.end - loss.fat.code.start).sum()
}

/// The directory with the archives of a build. Dropping it removes the directory.
///
/// It has a fixed name and not a random one, because the plan of the build contains its path.
#[derive(Debug)]
pub(super) struct BuildArchives(PathBuf);

impl Drop for BuildArchives {
    fn drop(&mut self) {
        // If the build failed, its error is more important than one from here.
        let _ = atomic::clear(&self.0);
    }
}

/// The artifacts that may be fat.
///
/// An artifact for a target that has a generic sibling is not fat: it is a part of a split
/// artifact.
fn candidates(tree: &ArtifactTree, kpack: Kpack) -> Result<Vec<&Artifact>> {
    let is_wanted = match kpack {
        Kpack::Keep => false,
        Kpack::Split => true,
        Kpack::Auto => tree.therock_manifest()?.kpack_split,
    };
    let part = |artifact: &Artifact| (artifact.name.name.clone(), artifact.name.component);
    let generic = tree.artifacts.iter();
    let generic = generic.filter(|it| it.name.scope == Scope::Generic);
    let generic: BTreeMap<_, _> = generic.map(|it| (part(it), it)).collect();
    let mut candidates = Vec::new();
    for artifact in tree.artifacts.iter().filter(|_| is_wanted) {
        match (&artifact.name.scope, generic.get(&part(artifact))) {
            (Scope::Generic, _) | (Scope::Target(_), Some(_)) => {}
            (Scope::Family(_), Some(_)) if kpack == Kpack::Auto => {}
            (Scope::Family(_), Some(generic)) => {
                let (one, other) = (&artifact.name, &generic.name);
                return Err(anyhow!("only one of `{other}` and `{one}` is split"))
                    .hint("keep the artifacts of one run in `--artifact-dir`");
            }
            (_, None) => candidates.push(artifact),
        }
    }
    Ok(candidates)
}

/// The parts of a fat artifact, as a scan would find them if it had been split on disk.
fn artifacts(splitting: &SplitPlan<'_>, staging: &Path) -> Result<Vec<Artifact>> {
    let mut parts: BTreeMap<Scope, Vec<TreeFile>> = BTreeMap::from([(Scope::Generic, Vec::new())]);
    let changed = changed(splitting);
    for (file, fate) in &splitting.files {
        let scope = fate.scope();
        let mut file = TreeFile::clone(file);
        let basedir = Arc::clone(&file.basedir);
        // A binary, and a symlink to one, has the facts of the binary without device code. A
        // symlink to a file that has moved is dangling.
        match &mut file.content {
            TreeContent::File(facts) => {
                if let Some(Some(new)) = changed.get(&(&*basedir, &file.path)) {
                    *facts = new.clone();
                }
            }
            TreeContent::Link { end, .. } => {
                if let LinkEnd::File { path, facts, .. } = end
                    && let Some(new) = changed.get(&(&*basedir, &*path))
                {
                    match new {
                        Some(new) => *facts = new.clone(),
                        None => *end = LinkEnd::Dangling,
                    }
                }
            }
            TreeContent::Directory => {}
        }
        parts.entry(scope).or_default().push(file);
    }
    for at in splitting.places.values() {
        let basedirs = splitting.artifact.basedirs.iter();
        let basedir = basedirs.clone().find(|basedir| ***basedir == at.basedir);
        parts.entry(at.scope.clone()).or_default().push(TreeFile {
            path: at.path.clone(),
            basedir: Arc::clone(basedir.context("no such base directory")?),
            source: place(splitting, at, staging),
            content: TreeContent::File(FileFacts {
                form: TreeForm::ToCome,
                ..FileFacts::new(0, false)
            }),
        });
    }
    let parts = parts.into_iter().map(|(scope, mut files)| {
        let order = &splitting.artifact.basedirs;
        let at = |file: &TreeFile| order.iter().position(|basedir| *basedir == file.basedir);
        files.sort_by(|a, b| (at(a), &a.path).cmp(&(at(b), &b.path)));
        let has = |basedir: &&Arc<RelPath>| files.iter().any(|file| file.basedir == **basedir);
        Artifact {
            name: splitting.name(&scope),
            basedirs: order.iter().filter(has).cloned().collect(),
            files,
        }
    });
    Ok(parts.collect())
}

/// The files that change, by base directory and path, with their new facts. `None` if the file
/// moves to the artifact of a target.
fn changed<'a>(
    splitting: &'a SplitPlan<'a>,
) -> BTreeMap<(&'a RelPath, &'a RelPath), Option<FileFacts>> {
    let changed = splitting.files.iter().filter_map(|(file, fate)| {
        let facts = match (fate, &file.content) {
            (SplitAction::Moves(_), _) => None,
            (SplitAction::Loses(loss), TreeContent::File(facts)) => Some(FileFacts {
                len: loss.plan.total_len(),
                form: TreeForm::WithoutCode(Arc::clone(&loss.plan)),
                ..facts.clone()
            }),
            _ => return None,
        };
        Some(((&*file.basedir, &file.path), facts))
    });
    changed.collect()
}

fn place(splitting: &SplitPlan<'_>, at: &ArchivePlace, staging: &Path) -> PathBuf {
    let artifact = staging.join(splitting.name(&at.scope).file_name());
    local_path(&artifact, &at.basedir.join(&at.path))
}
