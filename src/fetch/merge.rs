//! `--flatten`: merges many artifacts into one install tree. All collisions are found before
//! anything is moved.
//!
//! Artifacts are fetched to `.rocwheel-fetch` inside the tree and moved from there by renaming. For
//! each artifact a listing of its paths (`NAME.json`) stays there, so that a later fetch knows
//! which files in the tree came from artifacts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    num::NonZeroUsize,
    path::PathBuf,
};

use fs_err as fs;
use itertools::Itertools as _;

use super::output::{FetchState, Fetched, OutputDir};
use crate::{
    artifact::{
        Artifact, ArtifactName, ArtifactTree, LinkEnd, TreeContent, TreeFile, merge, same_content,
    },
    atomic,
    console::{World, many},
    error::{Context as _, Error, No, Result, ensure, hinted},
    relpath::RelPath,
};

/// How many collisions the error lists one by one.
const MOST_LISTED: usize = 20;

/// The paths of one artifact in the tree.
type Listing = BTreeSet<RelPath>;

impl OutputDir {
    /// Whether every path of a merged artifact still exists in the tree.
    pub(super) fn is_merged_whole(&self, name: &str) -> Result<bool> {
        let is_there = |path: &RelPath| fs::symlink_metadata(self.in_tree(path)).is_ok();
        let listing = self.listing(name)?;
        Ok(listing.is_some_and(|listing| listing.iter().all(is_there)))
    }

    /// Moves the fetched artifacts among `wanted` into the tree. If two artifacts differ about a
    /// path, nothing is moved.
    ///
    /// While its files are moved, an artifact is not recorded as fetched. If the merge is
    /// interrupted, the artifact is fetched again, and its listing says which files in the tree may
    /// be overwritten.
    pub(super) fn merge(
        &self,
        wanted: &BTreeSet<String>,
        state: &mut FetchState,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<()> {
        let mut waiting: BTreeMap<String, Fetched> = state.fetched.clone();
        waiting.retain(|name, it| wanted.contains(name) && it.extent.is_some());
        if waiting.is_empty() {
            return Ok(());
        }
        let artifacts = self.waiting(&waiting, jobs, world)?;
        let owners = self.owners(&artifacts)?;
        let problems = self.problems(&owners, &artifacts)?;
        if !problems.is_empty() {
            return Err(refusal(&problems));
        }
        let files = artifacts.iter().flat_map(|it| &it.files);
        let kept: BTreeSet<&RelPath> = files.map(|it| &it.path).chain(owners.keys()).collect();
        let mut moved = 0;
        for artifact in &artifacts {
            world.stop.check()?;
            let name = artifact.name.file_name();
            state.forget(&name)?;
            moved += self
                .take(artifact, &kept)
                .with_context(|| format!("failed to merge `{name}`"))?;
            fs::remove_dir_all(self.work.join(&name))?;
            let entry = waiting.remove_entry(&name);
            let entry = entry.map(|(name, it)| (name, Fetched { extent: None, ..it }));
            state.record(&mut entry.into_iter().collect())?;
        }
        let (count, files) = (many(artifacts.len(), "artifact"), many(moved, "file"));
        let facts = format!("{count}, {files} into {}", self.root.display());
        world.console.status("Merged", facts);
        Ok(())
    }

    /// The fetched artifacts of these names, without the symlinks that cannot be merged.
    fn waiting(
        &self,
        names: &BTreeMap<String, Fetched>,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Vec<Artifact>> {
        let mut artifacts = ArtifactTree::scan(&self.work, jobs, &world.stop)?.artifacts;
        artifacts.retain(|it| names.contains_key(&it.name.file_name()));
        ensure!(
            artifacts.len() == names.len(),
            "an artifact in `{}` was removed during the fetch",
            self.work.display()
        );
        for Artifact { name, files, .. } in &mut artifacts {
            for TreeFile { path, .. } in files.extract_if(.., |it| it.leads_to_the_host()) {
                world.console.note(format!(
                    "symlink `{path}` of artifact `{name}` is left out: it has an absolute target"
                ));
            }
        }
        Ok(artifacts)
    }

    /// The paths of the artifacts that were merged earlier, except `new`, with their owners.
    fn owners(&self, new: &[Artifact]) -> Result<BTreeMap<RelPath, String>> {
        let mut owners = BTreeMap::new();
        let entries = fs::read_dir(&self.work)?.collect::<io::Result<Vec<_>>>()?;
        for file_name in entries.iter().map(fs::DirEntry::file_name).sorted() {
            let name = file_name.to_str().and_then(|it| it.strip_suffix(".json"));
            let is_new = |name: &str| new.iter().any(|it| it.name.file_name() == name);
            let Some(name) = name.filter(|it| !it.starts_with('.') && !is_new(it)) else {
                continue;
            };
            let artifact = ArtifactName::of_file(name)?;
            let paths = self.listing(name)?.unwrap_or_default().into_iter();
            owners.extend(paths.map(|path| (path, artifact.to_string())));
        }
        Ok(owners)
    }

    fn problems(
        &self,
        owners: &BTreeMap<RelPath, String>,
        new: &[Artifact],
    ) -> Result<Vec<String>> {
        let collisions = merge(new, same_content)?.collisions;
        let mut problems: Vec<String> = collisions.iter().map(ToString::to_string).collect();
        // Of all new artifacts, because a file may have moved from one to another since they were
        // merged.
        let mut replaceable = BTreeSet::new();
        for artifact in new {
            let listing = self.listing(&artifact.name.file_name())?;
            replaceable.extend(listing.unwrap_or_default());
        }
        for artifact in new {
            for file in &artifact.files {
                let (path, owner) = (&file.path, owners.get(&file.path));
                let name = format!("{}/{}", artifact.name, file.basedir);
                if let TreeContent::Link { text, end } = &file.content
                    && *end == LinkEnd::Escapes
                {
                    problems.push(format!(
                        "symlink `{path}` of `{name}` leads out of the tree: `{text}`"
                    ));
                }
                let is_replaced = owner.is_none() && replaceable.contains(path);
                if is_replaced || self.is_free_for(file)? {
                    continue;
                }
                problems.push(match owner {
                    Some(owner) => format!("`{path}` differs between `{owner}` and `{name}`"),
                    None => {
                        format!("`{path}` of `{name}` exists already and belongs to no artifact")
                    }
                });
            }
        }
        Ok(problems)
    }

    /// Whether the tree has nothing at the path of `file`, or the same.
    fn is_free_for(&self, file: &TreeFile) -> Result<bool> {
        let at = self.in_tree(&file.path);
        let found = match fs::symlink_metadata(&at) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(true);
            }
            found => found?,
        };
        #[cfg(unix)]
        let executable = std::os::unix::fs::MetadataExt::mode(&found) & 0o111 != 0;
        #[cfg(not(unix))]
        let executable = false;
        Ok(match &file.content {
            TreeContent::Directory => found.is_dir(),
            TreeContent::Link { text, .. } => {
                let same = |to: PathBuf| to.to_string_lossy().replace('\\', "/") == *text;
                found.is_symlink() && same(fs::read_link(&at)?)
            }
            TreeContent::File(facts) => {
                let there = TreeFile {
                    source: at,
                    ..file.clone()
                };
                found.is_file()
                    && (found.len(), executable) == (facts.len, facts.mode.executable)
                    && same_content(&there, file)?
            }
        })
    }

    /// Moves the files of an artifact into the tree, and returns how many were moved. Files of its
    /// previous version that no artifact has any more are removed.
    fn take(&self, artifact: &Artifact, kept: &BTreeSet<&RelPath>) -> Result<usize> {
        let name = artifact.name.file_name();
        let old = self.listing(&name)?.unwrap_or_default();
        let new: Listing = artifact.files.iter().map(|it| it.path.clone()).collect();
        let both = old.union(&new).cloned().collect();
        // List the old and the new paths before anything is touched. If this is interrupted, the
        // next merge finds every file of either version in the listing and may replace it; with the
        // new listing alone, it would not remove the old files that are left.
        self.write_listing(&name, &both)?;
        // Remove in reverse order: a directory sorts before its contents, and must be empty first.
        for path in old.iter().rev().filter(|it| !kept.contains(it)) {
            let at = self.in_tree(path);
            match fs::symlink_metadata(&at) {
                // `remove_dir` fails if the directory has other files. Then it stays.
                Ok(found) if found.is_dir() => drop(fs::remove_dir(&at)),
                Ok(_) => fs::remove_file(&at)?,
                Err(_) => {}
            }
        }
        let mut moved = 0;
        for file in &artifact.files {
            let at = self.in_tree(&file.path);
            let is_directory = fs::symlink_metadata(&at).map(|found| found.is_dir());
            match (&file.content, is_directory) {
                (TreeContent::Directory, Ok(true)) => continue,
                (TreeContent::Directory, Ok(false)) => fs::remove_file(&at)?,
                (_, Ok(true)) => fs::remove_dir(&at)?,
                (_, _) => {}
            }
            if file.content == TreeContent::Directory {
                fs::create_dir(&at)?;
            } else {
                fs::rename(&file.source, &at)?;
                moved += 1;
            }
        }
        self.write_listing(&name, &new)?;
        Ok(moved)
    }

    fn in_tree(&self, path: &RelPath) -> PathBuf {
        self.root.join(path.as_str())
    }

    pub(super) fn listing_path(&self, name: &str) -> PathBuf {
        self.work.join(format!("{name}.json"))
    }

    /// `None` if the listing does not exist or cannot be parsed.
    fn listing(&self, name: &str) -> Result<Option<Listing>> {
        match fs::read_to_string(self.listing_path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => Ok(serde_json::from_str(&text?).ok()),
        }
    }

    fn write_listing(&self, name: &str, listing: &Listing) -> Result<()> {
        atomic::write(&self.listing_path(name), serde_json::to_string(listing)?)
            .context("failed to record the files of the artifact")
    }
}

fn refusal(problems: &[String]) -> Error {
    let count = many(problems.len(), "collision");
    let title = format!("{count}, so nothing was merged");
    let hint = "leave one of them out with `--exclude`, or fetch without `--flatten`";
    hinted(Error::new(No::list(title, problems, MOST_LISTED)), hint)
}
