//! Scans a directory of artifacts: lists and walks them, reads facts, and resolves symlinks.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    artifact::{
        ArtifactName,
        resolve::{Node, ResolvedLink, resolve},
        tree::{
            Artifact, ArtifactTree, FileFacts, LinkEnd, Skipped, TreeContent, TreeFile, below,
            facts::facts,
            list::{ListedArtifact, list},
            walk::{WalkedKind, WalkedPath, walk},
        },
    },
    error::{Context, Error, Hint, Result, Stop, anyhow},
    parallel,
    relpath::RelPath,
};

/// The entries of a base directory, with facts for regular files.
type Contents = Vec<(WalkedPath, Option<FileFacts>)>;

impl ArtifactTree {
    /// Scans the artifacts in a directory with `jobs` threads. Fails if there are none.
    pub fn scan(directory: &Path, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let (directory, listed, skipped) = list_some(directory)?;
        let mut contents = contents(&listed, jobs, stop)?.into_iter();
        let artifacts = listed
            .into_iter()
            .map(|listed| {
                let basedirs: Vec<_> = listed.basedirs.into_iter().map(Arc::new).collect();
                let files = basedirs.iter().zip(contents.by_ref());
                Artifact {
                    name: listed.name,
                    files: files
                        .flat_map(|(at, contents)| files_in(at, contents))
                        .collect(),
                    basedirs,
                }
            })
            .collect();
        Ok(Self {
            directory,
            artifacts,
            skipped,
        })
    }

    /// The names of the artifacts that [`ArtifactTree::scan`] would find.
    pub fn names(directory: &Path) -> Result<Vec<ArtifactName>> {
        let (_, listed, _) = list_some(directory)?;
        Ok(listed.into_iter().map(|artifact| artifact.name).collect())
    }
}

/// Lists the artifacts of a directory. Fails if there are none.
fn list_some(directory: &Path) -> Result<(PathBuf, Vec<ListedArtifact>, Vec<Skipped>)> {
    let directory = std::path::absolute(directory)
        .with_context(|| format!("failed to scan `{}`", directory.display()))?;
    let (listed, skipped) = list(&directory)?;
    if listed.is_empty() {
        return Err(nothing_found(&directory, &skipped))
            .hint("`rocwheel fetch` puts artifacts there");
    }
    Ok((directory, listed, skipped))
}

/// The entries of all base directories of all artifacts, in that order.
fn contents(listed: &[ListedArtifact], jobs: NonZeroUsize, stop: &Stop) -> Result<Vec<Contents>> {
    let tops: Vec<_> = listed
        .iter()
        .flat_map(|artifact| {
            let tops = artifact.basedirs.iter();
            tops.map(|basedir| below(&artifact.directory, basedir))
        })
        .collect();
    let walked = parallel::map(&tops, jobs, stop, |top| walk(top))?;
    let lens: Vec<usize> = walked.iter().map(Vec::len).collect();
    let found: Vec<WalkedPath> = walked.into_iter().flatten().collect();
    let facts = parallel::map(&found, jobs, stop, facts_of)?;
    let mut all = found.into_iter().zip(facts);
    Ok(lens
        .into_iter()
        .map(|len| all.by_ref().take(len).collect())
        .collect())
}

fn facts_of(found: &WalkedPath) -> Result<Option<FileFacts>> {
    match found.what {
        WalkedKind::File { len, mode } => facts(&found.path, &found.source, len, mode).map(Some),
        WalkedKind::Directory | WalkedKind::Link(_) => Ok(None),
    }
}

/// The files of a base directory, with resolved symlinks.
fn files_in(basedir: &Arc<RelPath>, contents: Contents) -> Vec<TreeFile> {
    let by_path: HashMap<&str, &(WalkedPath, Option<FileFacts>)> = contents
        .iter()
        .map(|entry| (entry.0.path.as_str(), entry))
        .collect();
    let what: Vec<TreeContent> = contents
        .iter()
        .map(|(found, facts)| match (&found.what, facts) {
            (WalkedKind::Link(text), _) => TreeContent::Link {
                end: link_end(&found.path, text, &by_path),
                text: text.clone(),
            },
            (_, Some(facts)) => TreeContent::File(facts.clone()),
            (_, None) => TreeContent::Directory,
        })
        .collect();
    contents
        .into_iter()
        .zip(what)
        .map(|((found, _), content)| TreeFile {
            path: found.path,
            basedir: Arc::clone(basedir),
            source: found.source,
            content,
        })
        .collect()
}

fn link_end(
    path: &RelPath,
    text: &str,
    by_path: &HashMap<&str, &(WalkedPath, Option<FileFacts>)>,
) -> LinkEnd {
    let node = |path: &str| {
        by_path.get(path).map(|(found, _)| match &found.what {
            WalkedKind::Directory => Node::Directory,
            WalkedKind::File { .. } => Node::File,
            WalkedKind::Link(text) => Node::Link(text),
        })
    };
    match resolve(path, text, node) {
        ResolvedLink::Absolute | ResolvedLink::Outside => LinkEnd::Escapes,
        ResolvedLink::Missing => LinkEnd::Dangling,
        ResolvedLink::Directory => LinkEnd::Directory,
        ResolvedLink::File(path) => match by_path.get(path.as_str()) {
            Some((found, Some(facts))) => LinkEnd::File {
                source: found.source.clone(),
                facts: facts.clone(),
                path,
            },
            _ => LinkEnd::Dangling,
        },
    }
}

fn nothing_found(directory: &Path, skipped: &[Skipped]) -> Error {
    let directory = directory.display();
    match skipped {
        [] => anyhow!("no artifacts in `{directory}`, which is empty"),
        [first, rest @ ..] => anyhow!(
            "no artifacts in `{directory}`; `{}`: {}{}",
            first.name,
            first.reason,
            match rest.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            }
        ),
    }
}

#[cfg(test)]
mod tests;
