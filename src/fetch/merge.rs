//! `--flatten`: merges many artifacts into one install tree. A tree is made once, and only in a directory
//! that has nothing else.
//!
//! Artifacts are fetched to `.rocwheel-fetch` inside the output directory. Their files are moved to a
//! temporary directory there, and one rename to `tree` says that the tree is complete. Its entries are
//! then renamed into the output directory, with the record of the tree as the last. A fetch that was killed
//! between these renames goes on with them.

use std::{collections::BTreeSet, ffi::OsString, io, num::NonZeroUsize, path::Path};

use fs_err as fs;

use super::output::{FetchState, OutputDir, TREE_RECORD, WORK};
use crate::{
    artifact::{Artifact, ArtifactTree, LinkEnd, TreeContent, TreeFile, merge, same_content},
    atomic::{self, StagedDir},
    console::{World, many},
    error::{Error, Hint as _, No, Result, anyhow, ensure, hinted},
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
        let artifacts = self.artifacts(wanted, jobs, world)?;
        let merged = merge(&artifacts, same_content)?;
        let collisions = merged.collisions.iter().map(ToString::to_string);
        let outside = merged.files.values().filter_map(|owned| {
            let (path, content) = (&owned.file.path, &owned.file.content);
            let TreeContent::Link { text, end } = content else {
                return None;
            };
            let problem = format!("symlink `{path}` of `{owned}` leads out of the tree: `{text}`");
            (*end == LinkEnd::Escapes).then_some(problem)
        });
        let problems: Vec<String> = collisions.chain(outside).collect();
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
            let at = tree.path().join(path.as_str());
            if owned.file.content == TreeContent::Directory {
                fs::create_dir_all(at)?;
            } else {
                fs::rename(&owned.file.source, at)?;
                moved += 1;
            }
        }
        state.write_to(&tree.path().join(TREE_RECORD))?;
        // Only this fetch, which holds the lock, writes below the directory in which artifacts wait.
        tree.replace(|_| true)?;
        publish(&self.root)?;
        let (count, files) = (many(artifacts.len(), "artifact"), many(moved, "file"));
        let facts = format!("{count}, {files} into {}", self.root.display());
        world.console.status("Merged", facts);
        Ok(())
    }

    /// The artifacts of these names, without the symlinks that cannot be merged.
    fn artifacts(
        &self,
        names: &BTreeSet<String>,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<Vec<Artifact>> {
        let mut artifacts = ArtifactTree::scan(&self.work, jobs, &world.stop)?.artifacts;
        artifacts.retain(|it| names.contains(&it.name.file_name()));
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

    /// Fails if the directory has files that are not of an unfinished fetch.
    pub(super) fn ensure_room_for_a_tree(&self) -> Result<()> {
        if self.work.join(TREE).exists() {
            return Ok(());
        }
        let mut names = names_in(&self.root)?.into_iter();
        if names.all(|name| name.as_encoded_bytes().starts_with(WORK.as_bytes())) {
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
    let mut names = names_in(&tree)?;
    // The record is last: a tree that has it has everything.
    names.sort_by_key(|name| name == TREE_RECORD);
    for name in names {
        let at = root.join(&name);
        if fs::symlink_metadata(&at).is_ok() {
            return Err(anyhow!("exists already: `{}`", at.display()))
                .hint("remove it, and run the same `rocwheel fetch` again");
        }
        fs::rename(tree.join(&name), at)?;
    }
    if root.join(TREE_RECORD).exists() {
        atomic::clear(&work)?;
    }
    Ok(())
}

/// The names of the entries of a directory; none if it does not exist.
fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name())).collect(),
    }
}
