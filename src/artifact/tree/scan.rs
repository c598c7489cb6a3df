//! Scans a directory of artifacts: lists and walks them, reads facts, and resolves symlinks.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use walkdir::{DirEntry, WalkDir};

use crate::{
    artifact::{
        ArtifactName,
        resolve::{Node, ResolvedLink, resolve},
        tree::{
            Artifact, ArtifactTree, FileFacts, LinkEnd, PermissionBits, Skipped, TreeContent,
            TreeFile, below,
            facts::facts,
            list::{ListedArtifact, list},
        },
    },
    error::{Context, Error, Hint, Result, Stop, anyhow, bail},
    parallel,
    relpath::RelPath,
};

/// An entry found on disk.
struct WalkedPath {
    path: RelPath,
    source: PathBuf,
    node: Node,
    /// The length and the mode of a file.
    file: Option<(u64, PermissionBits)>,
}

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
                        .flat_map(|(at, contents)| files_in(at, &contents))
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
    let file = found.file;
    file.map(|(len, mode)| facts(&found.source, len, mode))
        .transpose()
}

/// The files of a base directory, with resolved symlinks.
fn files_in(basedir: &Arc<RelPath>, contents: &Contents) -> Vec<TreeFile> {
    let by_path: HashMap<&str, &(WalkedPath, Option<FileFacts>)> = contents
        .iter()
        .map(|entry| (entry.0.path.as_str(), entry))
        .collect();
    let file = |(found, facts): &(WalkedPath, Option<FileFacts>)| TreeFile {
        path: found.path.clone(),
        basedir: Arc::clone(basedir),
        source: found.source.clone(),
        content: match (&found.node, facts) {
            (Node::Link(text), _) => TreeContent::Link {
                end: link_end(&found.path, text, &by_path),
                text: text.to_string(),
            },
            (_, Some(facts)) => TreeContent::File(facts.clone()),
            (_, None) => TreeContent::Directory,
        },
    };
    contents.iter().map(file).collect()
}

fn link_end(
    path: &RelPath,
    text: &str,
    by_path: &HashMap<&str, &(WalkedPath, Option<FileFacts>)>,
) -> LinkEnd {
    let node = |path: &str| by_path.get(path).map(|(found, _)| &found.node);
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

/// All entries below `top`, sorted by path. Files are not opened and symlinks are not followed.
fn walk(top: &Path) -> Result<Vec<WalkedPath>> {
    let entries = WalkDir::new(top).min_depth(1).into_iter().map(|entry| {
        let entry = entry?;
        let directory = entry.path().parent().unwrap_or(top);
        look(top, &entry).with_context(|| format!("failed to scan `{}`", directory.display()))
    });
    let mut found = entries.collect::<Result<Vec<_>>>()?;
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn look(top: &Path, entry: &DirEntry) -> Result<WalkedPath> {
    let name = entry.file_name();
    let Some(name) = name.to_str() else {
        bail!("a name that is not UTF-8: {:?}", name.to_string_lossy());
    };
    name.parse::<RelPath>()?;
    let path = entry.path().strip_prefix(top)?.to_string_lossy();
    let path: RelPath = if cfg!(windows) {
        path.replace('\\', "/").parse()?
    } else {
        path.parse()?
    };
    let source = entry.path().to_owned();
    let found = entry.metadata()?;
    let (node, file) = if found.is_symlink() {
        (Node::Link(link_text(&source)?.into()), None)
    } else if found.is_dir() {
        (Node::Directory, None)
    } else if found.is_file() {
        #[cfg(unix)]
        let mode = mode(std::os::unix::fs::MetadataExt::mode(&found));
        #[cfg(not(unix))]
        let mode = PermissionBits {
            read_only: found.permissions().readonly(),
            ..PermissionBits::default()
        };
        (Node::File, Some((found.len(), mode)))
    } else {
        bail!("neither a file, a directory nor a link: `{path}`");
    };
    Ok(WalkedPath {
        path,
        source,
        node,
        file,
    })
}

fn link_text(source: &Path) -> Result<String> {
    let text = fs_err::read_link(source)?;
    match text.to_str() {
        Some(text) if cfg!(windows) => Ok(text.replace('\\', "/")),
        Some(text) => Ok(text.to_owned()),
        None => bail!(
            "link `{}` has a text that is not UTF-8: {:?}",
            source.display(),
            text.to_string_lossy()
        ),
    }
}

#[cfg(unix)]
fn mode(bits: u32) -> PermissionBits {
    PermissionBits {
        executable: bits & 0o111 != 0,
        read_only: bits & 0o200 == 0,
        setuid: bits & 0o6000 != 0,
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
