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

use crate::{
    artifact::{
        Artifact, ArtifactTree, FileFacts, FileKind, LinkEnd, PermissionBits, TreeContent,
        TreeFile, TreeForm,
        split::{self, ArchivePlace, ArchiveSet, SplitAction, SplitPlan},
    },
    atomic,
    console::{World, many, size},
    error::{Context as _, Hint as _, Result, bail},
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
            let is_family = matches!(one.source.scope, Scope::Family(_));
            kpack == Kpack::Split || is_family || one.losses().next().is_some()
        };
        let splittings: Vec<_> = splittings.into_iter().filter(fat).collect();
        let tree = if splittings.is_empty() {
            Cow::Borrowed(tree)
        } else {
            let mut new = tree.clone();
            let split: BTreeSet<_> = splittings.iter().map(|one| &one.source).collect();
            new.artifacts.retain(|one| !split.contains(&one.name));
            for splitting in &splittings {
                new.artifacts.extend(artifacts(splitting, &staging)?);
            }
            new.artifacts
                .sort_by_cached_key(|artifact| artifact.name.to_string());
            let names: Vec<String> = splittings
                .iter()
                .map(|one| one.source.to_string())
                .collect();
            let found = many(names.len(), "fat artifact");
            world
                .console
                .status("Splitting", format!("{found}: {}", names.join(", ")));
            Cow::Owned(new)
        };
        Ok(Self {
            tree,
            splittings,
            staging,
        })
    }

    /// Writes the archives. They are deleted when the returned value is dropped.
    pub(super) fn write(&self, jobs: NonZeroUsize, world: &World) -> Result<Option<BuildArchives>> {
        if self.splittings.is_empty() {
            return Ok(None);
        }
        let staging = BuildArchives::new(self.staging.clone())?;
        let (mut count, mut bytes) = (0, 0);
        for splitting in &self.splittings {
            let total = splitting
                .losses()
                .map(|(_, loss)| loss.fat.code.end - loss.fat.code.start);
            let progress =
                world
                    .console
                    .progress("Splitting", &splitting.source, Some(total.sum()));
            let mut writing = ArchiveSet::new(splitting, |at| {
                let place = place(splitting, at, &self.staging);
                if let Some(parent) = place.parent() {
                    fs_err::create_dir_all(parent)?;
                }
                Ok(place)
            })?;
            writing
                .fill(jobs, &world.stop, &|bytes| progress.inc(bytes))
                .with_context(|| format!("failed to split `{}`", splitting.source))?;
            for len in writing.finish()?.into_values() {
                count += 1;
                bytes += len;
            }
        }
        let facts = format!("{} of device code, {}", many(count, "archive"), size(bytes));
        world.console.status("Split", facts);
        Ok(Some(staging))
    }
}

/// The directory with the archives of a build. Dropping it removes the directory.
///
/// It has a fixed name and not a random one, because the plan of the build contains its path.
#[derive(Debug)]
pub(super) struct BuildArchives(PathBuf);

impl BuildArchives {
    fn new(place: PathBuf) -> Result<Self> {
        // A build that was killed may have left the directory.
        atomic::clear(&place)?;
        fs_err::create_dir_all(&place)?;
        Ok(Self(place))
    }
}

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
    let mut candidates = Vec::new();
    for artifact in tree.artifacts.iter().filter(|_| is_wanted) {
        let generic = tree.artifacts.iter().find(|other| {
            other.name.scope == Scope::Generic
                && (&other.name.name, other.name.component)
                    == (&artifact.name.name, artifact.name.component)
        });
        match (&artifact.name.scope, generic) {
            (Scope::Generic, _) | (Scope::Target(_), Some(_)) => {}
            (Scope::Family(_), Some(_)) if kpack == Kpack::Auto => {}
            (Scope::Family(_), Some(generic)) => {
                let (one, other) = (&artifact.name, &generic.name);
                let both = || -> Result<_> { bail!("only one of `{other}` and `{one}` is split") };
                return both().hint("keep the artifacts of one run in `--artifact-dir`");
            }
            (_, None) => candidates.push(artifact),
        }
    }
    Ok(candidates)
}

/// The parts of a fat artifact, as a scan would find them if it had been split on disk.
fn artifacts(splitting: &SplitPlan<'_>, staging: &Path) -> Result<Vec<Artifact>> {
    let mut parts: BTreeMap<Scope, Vec<TreeFile>> = BTreeMap::from([(Scope::Generic, Vec::new())]);
    let losing = losing(splitting);
    for (file, fate) in &splitting.files {
        let scope = fate.scope();
        let content = content(file, &losing);
        let file = TreeFile {
            content,
            ..(*file).clone()
        };
        parts.entry(scope).or_default().push(file);
    }
    for at in splitting.places.values() {
        let basedirs = splitting.artifact.basedirs.iter();
        let basedir = basedirs.clone().find(|basedir| ***basedir == at.basedir);
        parts.entry(at.scope.clone()).or_default().push(TreeFile {
            path: at.path.clone(),
            basedir: Arc::clone(basedir.context("no such base directory")?),
            source: place(splitting, at, staging),
            content: TreeContent::File(to_come()),
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
type Losing<'a> = BTreeMap<(&'a RelPath, &'a RelPath), Option<FileFacts>>;

fn losing<'a>(splitting: &'a SplitPlan<'a>) -> Losing<'a> {
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

/// The content of a file after the split. A binary, and a symlink to one, has the facts of the
/// binary without device code. A symlink to a file that has moved is dangling.
fn content(file: &TreeFile, losing: &Losing<'_>) -> TreeContent {
    let changed = |path| losing.get(&(&*file.basedir, path));
    match &file.content {
        TreeContent::File(_) => match changed(&file.path) {
            Some(Some(facts)) => TreeContent::File(facts.clone()),
            _ => file.content.clone(),
        },
        TreeContent::Link {
            text,
            end: LinkEnd::File { path, source, .. },
        } => {
            let end = match changed(path) {
                None => return file.content.clone(),
                Some(None) => LinkEnd::Dangling,
                Some(Some(facts)) => LinkEnd::File {
                    path: path.clone(),
                    source: source.clone(),
                    facts: facts.clone(),
                },
            };
            let text = text.clone();
            TreeContent::Link { text, end }
        }
        _ => file.content.clone(),
    }
}

fn to_come() -> FileFacts {
    FileFacts {
        len: 0,
        mode: PermissionBits::default(),
        kind: FileKind::Other,
        elf: None,
        damage: None,
        form: TreeForm::ToCome,
    }
}

fn place(splitting: &SplitPlan<'_>, at: &ArchivePlace, staging: &Path) -> PathBuf {
    let artifact = staging.join(splitting.name(&at.scope).to_string());
    artifact.join(at.basedir.join(&at.path).as_str())
}
