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
    console::World,
};
use rocwheel_base::{
    atomic,
    error::{Context as _, Hint as _, Result, anyhow},
    quantity::{many, size},
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
    /// The artifacts that are to be split.
    plans: Vec<SplitPlan<'a>>,
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
        // All sources of a tree are absolute paths, so the sources of the archives are too.
        let staging = std::path::absolute(staging)
            .context("failed to make the path of a directory absolute")?;
        let mut plans = split::all(find_candidates(tree, kpack)?, jobs, &world.stop)?;
        for plan in &plans {
            for warning in plan.kept_code() {
                world.console.warn(warning);
            }
        }
        // Without `--kpack split`, an artifact whose binaries lose no code stays as it is. An artifact of a
        // family does not: a split set has none.
        plans.retain(|plan| {
            let is_family = matches!(plan.artifact.name.scope, Scope::Family(_));
            kpack == Kpack::Split || is_family || plan.losses().next().is_some()
        });
        let mut split_tree = Cow::Borrowed(tree);
        if !plans.is_empty() {
            let fat: BTreeSet<_> = plans.iter().map(|plan| &plan.artifact.name).collect();
            let artifacts = &mut split_tree.to_mut().artifacts;
            artifacts.retain(|artifact| !fat.contains(&artifact.name));
            for plan in &plans {
                artifacts.extend(list_parts(plan, &staging)?);
            }
            artifacts.sort_by_cached_key(|artifact| artifact.name.to_string());
            let count = many(plans.len(), "fat artifact");
            let names = plans.iter().map(|plan| &plan.artifact.name).join(", ");
            world.console.status("Splitting", format!("{count}: {names}"));
        }
        Ok(Self { tree: split_tree, plans, staging })
    }

    /// Writes the archives. They are deleted when the returned value is dropped.
    pub(super) fn write(&self, jobs: NonZeroUsize, world: &World) -> Result<Option<BuildArchives>> {
        if self.plans.is_empty() {
            return Ok(None);
        }
        // A build that was killed may have left the directory.
        atomic::clear(&self.staging)?;
        fs_err::create_dir_all(&self.staging)?;
        // From here on an error removes the directory.
        let build_archives = BuildArchives(self.staging.clone());
        let mut count = 0;
        let mut bytes = 0;
        let total = self.plans.iter().map(code_size).sum();
        let parts = self.plans.len();
        let title = many(parts, "fat artifact");
        let _bar = world.console.joined_progress("Splitting", title, parts, total);
        for plan in &self.plans {
            let name = &plan.artifact.name;
            let progress = world.console.progress("Splitting", name, code_size(plan));
            let create_directory = |place: &ArchivePlace| {
                let path = archive_path(plan, place, &self.staging);
                if let Some(parent) = path.parent() {
                    fs_err::create_dir_all(parent)?;
                }
                Ok(path)
            };
            let inc = |bytes| progress.inc(bytes);
            let archives = split::write_archives(plan, create_directory, jobs, &world.stop, &inc)
                .with_context(|| format!("failed to split `{name}`"))?;
            for (_, len) in archives {
                count += 1;
                bytes += len;
            }
        }
        let facts = format!("{} of device code, {}", many(count, "archive"), size(bytes));
        world.console.status("Split", facts);
        Ok(Some(build_archives))
    }
}

/// The size of the device code that an artifact loses.
fn code_size(plan: &SplitPlan<'_>) -> u64 {
    plan.losses().map(|(_, loss)| loss.fat.code.end - loss.fat.code.start).sum()
}

/// The directory with the archives of a build. Dropping it removes the directory.
///
/// It has a fixed name and not a random one, because the plan of the build contains its path.
#[derive(Debug)]
pub(super) struct BuildArchives(PathBuf);

impl Drop for BuildArchives {
    fn drop(&mut self) {
        // If the build failed, its error is more important than an error from here.
        let _ = atomic::clear(&self.0);
    }
}

/// Finds the artifacts that may be fat.
///
/// An artifact for a target that has a generic sibling is not fat: it is a part of a split
/// artifact.
fn find_candidates(tree: &ArtifactTree, kpack: Kpack) -> Result<Vec<&Artifact>> {
    let is_wanted = match kpack {
        Kpack::Keep => false,
        Kpack::Split => true,
        Kpack::Auto => tree.therock_manifest()?.kpack_split,
    };
    if !is_wanted {
        return Ok(Vec::new());
    }
    let part = |artifact: &Artifact| (artifact.name.name.clone(), artifact.name.component);
    let generic_by_part: BTreeMap<_, _> = tree
        .artifacts
        .iter()
        .filter(|artifact| artifact.name.scope == Scope::Generic)
        .map(|artifact| (part(artifact), artifact))
        .collect();
    let mut candidates = Vec::new();
    for artifact in &tree.artifacts {
        match (&artifact.name.scope, generic_by_part.get(&part(artifact))) {
            (Scope::Generic, _) | (Scope::Target(_), Some(_)) => {}
            // The planner refuses a split set with an artifact for a family.
            (Scope::Family(_), Some(_)) if kpack == Kpack::Auto => {}
            (Scope::Family(_), Some(generic)) => {
                let name = &artifact.name;
                return Err(anyhow!("only one of `{}` and `{name}` is split", generic.name))
                    .hint("keep the artifacts of one run in `--artifact-dir`");
            }
            (_, None) => candidates.push(artifact),
        }
    }
    Ok(candidates)
}

/// Lists the parts of a fat artifact, as a scan would find them if it had been split on disk.
fn list_parts(plan: &SplitPlan<'_>, staging: &Path) -> Result<Vec<Artifact>> {
    let mut files_by_scope: BTreeMap<Scope, Vec<TreeFile>> =
        BTreeMap::from([(Scope::Generic, Vec::new())]);
    let changed = changed_files(plan);
    for (file, action) in &plan.files {
        let scope = action.scope();
        let mut file = TreeFile::clone(file);
        let basedir = Arc::clone(&file.basedir);
        // A binary, and a symlink to one, has the facts of the binary without device code. A
        // symlink to a file that has moved is dangling.
        match &mut file.content {
            TreeContent::File(facts) => {
                if let Some(Some(changed_facts)) = changed.get(&(&*basedir, &file.path)) {
                    *facts = changed_facts.clone();
                }
            }
            TreeContent::Link { end, .. } => {
                if let LinkEnd::File { path, facts, .. } = end
                    && let Some(change) = changed.get(&(&*basedir, &*path))
                {
                    match change {
                        Some(changed_facts) => *facts = changed_facts.clone(),
                        None => *end = LinkEnd::Dangling,
                    }
                }
            }
            TreeContent::Directory => {}
        }
        files_by_scope.entry(scope).or_default().push(file);
    }
    let basedirs = &plan.artifact.basedirs;
    for place in plan.places.values() {
        let basedir = basedirs.iter().find(|basedir| ***basedir == place.basedir);
        files_by_scope.entry(place.scope.clone()).or_default().push(TreeFile {
            path: place.path.clone(),
            basedir: Arc::clone(basedir.context("no such base directory")?),
            source: archive_path(plan, place, staging),
            content: TreeContent::File(FileFacts {
                form: TreeForm::ToCome,
                ..FileFacts::new(0, false)
            }),
        });
    }
    let parts = files_by_scope.into_iter().map(|(scope, mut files)| {
        // As in an artifact that was scanned: by base directory, in the order of the artifact, then by path.
        let turn = |file: &TreeFile| basedirs.iter().position(|basedir| *basedir == file.basedir);
        files.sort_by(|a, b| (turn(a), &a.path).cmp(&(turn(b), &b.path)));
        let is_used = |basedir: &&Arc<RelPath>| files.iter().any(|file| file.basedir == **basedir);
        Artifact {
            name: plan.name(&scope),
            basedirs: basedirs.iter().filter(is_used).cloned().collect(),
            files,
        }
    });
    Ok(parts.collect())
}

/// The files that change, by base directory and path, with their new facts. `None` if the file
/// moves to the artifact of a target.
fn changed_files<'a>(
    plan: &'a SplitPlan<'a>,
) -> BTreeMap<(&'a RelPath, &'a RelPath), Option<FileFacts>> {
    let changed = plan.files.iter().filter_map(|(file, action)| {
        let facts = match (action, &file.content) {
            (SplitAction::MoveTo(_), _) => None,
            (SplitAction::RemoveCode(loss), TreeContent::File(facts)) => Some(FileFacts {
                len: loss.patch.total_len(),
                form: TreeForm::WithoutCode(Arc::clone(&loss.patch)),
                ..facts.clone()
            }),
            _ => return None,
        };
        Some(((&*file.basedir, &file.path), facts))
    });
    changed.collect()
}

/// The path of an archive of device code below the staging directory.
fn archive_path(plan: &SplitPlan<'_>, place: &ArchivePlace, staging: &Path) -> PathBuf {
    let artifact = staging.join(plan.name(&place.scope).file_name());
    local_path(&artifact, &place.basedir.join(&place.path))
}
