//! `--flatten`: merges many artifacts into one install tree. A tree is made once, and only in a directory
//! that has nothing else.
//!
//! Artifacts are fetched to `.rocwheel-fetch` inside the output directory. Their files are moved to a
//! temporary directory there, and one rename to `tree` says that the tree is complete. Its entries are
//! then renamed into the output directory, the record of the tree last. If a fetch was killed between these
//! renames, the next fetch goes on with them.

use std::{collections::BTreeSet, ffi::OsString, io, num::NonZeroUsize, path::Path};

use fs_err as fs;

use super::output::{FetchState, OutputDir, TREE_RECORD, WORK};
use crate::{
    artifact::{Artifact, ArtifactTree, LinkEnd, TreeContent, TreeFile, merge, same_content},
    console::World,
};
use rocwheel_base::{
    atomic::{self, StagedDir},
    error::{Error, Hint as _, No, Result, anyhow, ensure, hinted},
    quantity::many,
};

/// How many collisions the error lists one by one.
const MOST_LISTED: usize = 20;

/// A tree that is complete and not in its place yet, in [`WORK`].
const TREE: &str = "tree";

impl OutputDir {
    /// Moves the files of the wanted artifacts into one tree. If two artifacts differ about a path,
    /// nothing is moved.
    pub(super) fn merge(
        &self,
        wanted: &BTreeSet<String>,
        state: &FetchState,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<()> {
        let artifacts = self.scan_artifacts(wanted, jobs, world)?;
        let merged = merge(&artifacts, same_content)?;
        let collisions = merged.collisions.iter().map(ToString::to_string);
        let escaping_links = merged.files.values().filter_map(|owned| match &owned.file.content {
            TreeContent::Link { text, end: LinkEnd::Escapes } => {
                let path = &owned.file.path;
                Some(format!("symlink `{path}` of `{owned}` leads out of the tree: `{text}`"))
            }
            _ => None,
        });
        let problems: Vec<String> = collisions.chain(escaping_links).collect();
        if !problems.is_empty() {
            let count = many(problems.len(), "collision");
            let title = format!("{count}, so nothing was merged");
            let hint = "leave one of them out with `--exclude`, or fetch without `--flatten`";
            let error = Error::new(No::list(title, problems, MOST_LISTED));
            return Err(hinted(error, hint));
        }
        let tree = StagedDir::beside(&self.work.join(TREE))?;
        let mut moved = 0;
        for (path, owned) in &merged.files {
            world.stop.check()?;
            let target = tree.path().join(path.as_str());
            if owned.file.content == TreeContent::Directory {
                fs::create_dir_all(target)?;
            } else {
                fs::rename(&owned.file.source, target)?;
                moved += 1;
            }
        }
        state.write_to(&tree.path().join(TREE_RECORD))?;
        // Only this fetch, which holds the lock, writes below the directory in which artifacts wait.
        tree.replace(|_, _| true)?;
        publish(&self.root)?;
        let count = many(artifacts.len(), "artifact");
        let files = many(moved, "file");
        let facts = format!("{count}, {files} into {}", self.root.display());
        world.console.status("Merged", facts);
        Ok(())
    }

    /// Scans the artifacts of these names. Leaves out the symlinks that cannot be merged.
    fn scan_artifacts(
        &self,
        names: &BTreeSet<String>,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Vec<Artifact>> {
        let mut artifacts = ArtifactTree::scan(&self.work, jobs, &world.stop)?.artifacts;
        artifacts.retain(|artifact| names.contains(&artifact.name.file_name()));
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

    /// Fails if the directory has files other than the files of an unfinished fetch.
    pub(super) fn ensure_room_for_tree(&self) -> Result<()> {
        // The entries of a complete tree may be here already, some or all.
        if self.work.join(TREE).exists() {
            return Ok(());
        }
        let names = list_names(&self.root)?;
        if names.iter().all(|name| name.as_encoded_bytes().starts_with(WORK.as_bytes())) {
            return Ok(());
        }
        Err(anyhow!("not empty: `{}`", self.root.display()))
            .hint("choose another `--output-dir`: `--flatten` makes a tree in a new directory")
    }
}

/// Renames the entries of a complete tree into the output directory, and removes the directory that it was
/// made in.
pub(super) fn publish(root: &Path) -> Result<()> {
    let work = root.join(WORK);
    let tree = work.join(TREE);
    let mut names = list_names(&tree)?;
    // The record is last: a tree that has it has everything.
    names.sort_by_key(|name| name == TREE_RECORD);
    for name in names {
        let target = root.join(&name);
        if fs::symlink_metadata(&target).is_ok() {
            return Err(anyhow!("exists already: `{}`", target.display()))
                .hint("remove it, and run the same `rocwheel fetch` again");
        }
        fs::rename(tree.join(&name), target)?;
    }
    if root.join(TREE_RECORD).exists() {
        atomic::clear(&work)?;
    }
    Ok(())
}

/// The names of the entries of a directory; none if it does not exist.
fn list_names(directory: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name())).collect(),
    }
}
