//! Scans a directory of artifacts: lists them, reads their manifests, walks their base directories,
//! reads the facts of files, and resolves symlinks.

use std::{
    collections::HashMap,
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use walkdir::{DirEntry, WalkDir};

use crate::artifact::{
    ArchiveName, ArtifactManifest, ArtifactName, local_path,
    name::{ensure_readable, from_local},
    output::ensure_finished,
    tree::{
        Artifact, ArtifactTree, FileFacts, LinkEnd, Skipped, TreeContent, TreeFile, complete_facts,
    },
};
use rocwheel_base::{
    error::{Context, Error, Hint, Result, Stop, anyhow, bail, ensure},
    io::FileIdentity,
    parallel,
    quantity::shell_word,
    relpath::{
        RelPath,
        links::{Node, ResolvedLink, resolve},
    },
};
use rocwheel_wheel::tar::ArchiveFormat;

/// What a directory of artifacts has.
struct Listing {
    /// The absolute path of the directory.
    directory: PathBuf,
    /// Sorted by name.
    artifacts: Vec<ListedArtifact>,
    /// Everything else in the directory.
    skipped: Vec<Skipped>,
}

/// An artifact whose files have not been listed yet.
struct ListedArtifact {
    /// The directory of the artifact.
    path: PathBuf,
    artifact: Artifact,
}

impl ArtifactTree {
    /// Scans the artifacts in a directory with `jobs` threads. Fails if there are none.
    pub fn scan(directory: &Path, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let Listing { directory, artifacts: mut listed, skipped } = list_artifacts(directory)?;
        let mut basedirs = Vec::new();
        for ListedArtifact { path, artifact } in &listed {
            basedirs.extend(artifact.basedirs.iter().map(|basedir| (path, basedir)));
        }
        let mut trees =
            parallel::map(&basedirs, jobs, stop, |(path, basedir)| list_files(path, basedir))?;
        // All files of all artifacts are read together, so that a large artifact keeps all threads busy.
        let files: Vec<&TreeFile> = trees.iter().flatten().collect();
        let facts = parallel::map(&files, jobs, stop, |file| match &file.content {
            TreeContent::File(facts) => complete_facts(facts, &file.source).map(Some),
            TreeContent::Directory | TreeContent::Link { .. } => Ok(None),
        })?;
        for (file, facts) in trees.iter_mut().flatten().zip(facts) {
            if let Some(facts) = facts {
                file.content = TreeContent::File(facts);
            }
        }
        for files in &mut trees {
            resolve_links(files);
        }
        // The trees have the order of the artifacts, and for each artifact the order of its base directories.
        let mut trees = trees.into_iter();
        for ListedArtifact { artifact, .. } in &mut listed {
            artifact.files = trees.by_ref().take(artifact.basedirs.len()).flatten().collect();
        }
        Ok(Self {
            directory,
            artifacts: listed.into_iter().map(|listed| listed.artifact).collect(),
            skipped,
        })
    }

    /// The names of the artifacts that [`ArtifactTree::scan`] would find.
    pub fn names(directory: &Path) -> Result<Vec<ArtifactName>> {
        let listing = list_artifacts(directory)?;
        Ok(listing.artifacts.into_iter().map(|listed| listed.artifact.name).collect())
    }
}

/// Lists the artifacts in a directory, and everything else with the reason to skip it. Fails if there are no
/// artifacts.
fn list_artifacts(directory: &Path) -> Result<Listing> {
    let directory = std::path::absolute(directory)
        .with_context(|| format!("failed to scan `{}`", directory.display()))?;
    ensure_finished(&directory)?;
    let mut artifacts = Vec::new();
    let mut skipped = Vec::new();
    for child in fs_err::read_dir(&directory)? {
        let child = child?;
        let name = child.file_name().to_string_lossy().into_owned();
        let path = child.path();
        ensure_readable(&name, path.is_dir())?;
        match artifact_name(&name, &path) {
            Ok(artifact_name) => {
                let basedirs = find_basedirs(&path).hint(format!("fetch `{name}` again"))?;
                let artifact = Artifact { name: artifact_name, basedirs, files: Vec::new() };
                artifacts.push(ListedArtifact { path, artifact });
            }
            Err(reason) => skipped.push(Skipped { is_directory: path.is_dir(), name, reason }),
        }
    }
    artifacts.sort_by_cached_key(|listed| listed.artifact.name.to_string());
    skipped.sort_by(|a, b| a.name.cmp(&b.name));
    if artifacts.is_empty() {
        return Err(no_artifacts(&directory, &skipped)).hint(where_artifacts_are(&directory));
    }
    Ok(Listing { directory, artifacts, skipped })
}

/// The name of the artifact at a path, or the reason why the path is no artifact.
fn artifact_name(name: &str, path: &Path) -> Result<ArtifactName, String> {
    if ArchiveFormat::from_file_name(name).is_some() {
        return Err(match ArchiveName::of_file(name) {
            Ok(_) => "an archive that is not unpacked".to_owned(),
            Err(invalid) => invalid.to_string(),
        });
    }
    if name.strip_suffix(".part").is_some() {
        return Err("an artifact that is not whole".to_owned());
    }
    let artifact = ArtifactName::of_file(name).map_err(|invalid| invalid.to_string())?;
    // `metadata` follows symlinks: a symlink to a directory is accepted, and a symlink to nothing is not.
    if !fs_err::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Err("not a directory".to_owned());
    }
    match fs_err::symlink_metadata(path.join(ArtifactManifest::FILE_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("it has no `{}`", ArtifactManifest::FILE_NAME))
        }
        // Any other error comes again when the manifest is read.
        _ => Ok(artifact),
    }
}

/// Finds the base directories of an artifact that exist, in the order of its manifest.
fn find_basedirs(artifact: &Path) -> Result<Vec<Arc<RelPath>>> {
    let path = artifact.join(ArtifactManifest::FILE_NAME);
    let metadata = fs_err::symlink_metadata(&path)?;
    ensure!(metadata.is_file(), "not a regular file: `{}`", path.display());
    // `parse` has the same limit, but the file would be in memory by then.
    ensure!(
        metadata.len() <= ArtifactManifest::MAX_LEN as u64,
        "more than {} bytes: `{}`",
        ArtifactManifest::MAX_LEN,
        path.display()
    );
    let manifest = ArtifactManifest::parse(&fs_err::read(&path)?)
        .with_context(|| format!("failed to read `{}`", path.display()))?;
    let mut basedirs = Vec::new();
    for basedir in manifest.basedirs() {
        if has_basedir(artifact, basedir)? {
            basedirs.push(Arc::new(basedir.clone()));
        }
    }
    Ok(basedirs)
}

/// Whether a base directory exists. Fails if a symlink leads to it, because a symlink could lead anywhere.
fn has_basedir(directory: &Path, basedir: &RelPath) -> Result<bool> {
    for step in basedir.ancestors().chain([basedir.clone()]) {
        let path = local_path(directory, &step);
        match fs_err::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) if metadata.is_symlink() => {
                bail!("a link in place of a base directory: `{}`", path.display())
            }
            Ok(_) => bail!("not a directory: `{}`", path.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Finds the ends of the symlinks of a base directory.
fn resolve_links(files: &mut [TreeFile]) {
    let by_path: HashMap<&str, (Node, &TreeFile)> = files
        .iter()
        .map(|file| {
            let node = match &file.content {
                TreeContent::Directory => Node::Directory,
                TreeContent::File(_) => Node::File,
                TreeContent::Link { text, .. } => Node::Link(text.as_str().into()),
            };
            (file.path.as_str(), (node, file))
        })
        .collect();
    let ends: Vec<Option<LinkEnd>> =
        files.iter().map(|file| find_link_end(file, &by_path)).collect();
    for (file, resolved) in files.iter_mut().zip(ends) {
        if let (TreeContent::Link { end, .. }, Some(resolved)) = (&mut file.content, resolved) {
            *end = resolved;
        }
    }
}

/// Finds the end of a symlink. `None` if the file is no symlink.
fn find_link_end(link: &TreeFile, by_path: &HashMap<&str, (Node, &TreeFile)>) -> Option<LinkEnd> {
    let TreeContent::Link { text, .. } = &link.content else {
        return None;
    };
    let node = |path: &str| by_path.get(path).map(|(node, _)| node);
    Some(match resolve(&link.path, text, node) {
        ResolvedLink::Absolute | ResolvedLink::Outside => LinkEnd::Escapes,
        ResolvedLink::Missing => LinkEnd::Dangling,
        ResolvedLink::Directory => LinkEnd::Directory,
        ResolvedLink::File(path) => match by_path.get(path.as_str()).map(|(_, file)| *file) {
            Some(TreeFile { source, content: TreeContent::File(facts), .. }) => {
                LinkEnd::File { source: source.clone(), facts: facts.clone(), path }
            }
            _ => LinkEnd::Dangling,
        },
    })
}

/// Lists all entries of a base directory, sorted by path. Files are not opened and symlinks are not
/// followed, so their facts and their ends are still missing.
fn list_files(artifact: &Path, basedir: &Arc<RelPath>) -> Result<Vec<TreeFile>> {
    let top = local_path(artifact, basedir);
    let mut files = Vec::new();
    for entry in WalkDir::new(&top).min_depth(1) {
        let entry = entry?;
        let directory = entry.path().parent().unwrap_or(&top);
        let file = read_entry(&top, basedir, &entry)
            .with_context(|| format!("failed to scan `{}`", directory.display()))?;
        files.push(file);
    }
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_entry(top: &Path, basedir: &Arc<RelPath>, entry: &DirEntry) -> Result<TreeFile> {
    let name = entry.file_name();
    let Some(name) = name.to_str() else {
        bail!("a name that is not UTF-8: {:?}", name.to_string_lossy());
    };
    name.parse::<RelPath>()?;
    let local = entry.path().strip_prefix(top)?.to_string_lossy();
    let path: RelPath = from_local(&local).parse()?;
    let source = entry.path().to_owned();
    let metadata = entry.metadata()?;
    let content = if metadata.is_symlink() {
        TreeContent::Link { text: read_link_text(&source)?, end: LinkEnd::Dangling }
    } else if metadata.is_dir() {
        TreeContent::Directory
    } else if metadata.is_file() {
        #[cfg(unix)]
        let executable = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o111 != 0;
        #[cfg(not(unix))]
        let executable = false;
        TreeContent::File(FileFacts {
            identity: Some(FileIdentity::from_metadata(&metadata)),
            ..FileFacts::new(metadata.len(), executable)
        })
    } else {
        bail!("neither a file, a directory nor a link: `{path}`");
    };
    Ok(TreeFile { path, basedir: Arc::clone(basedir), source, content })
}

fn read_link_text(source: &Path) -> Result<String> {
    let text = fs_err::read_link(source)?;
    match text.to_str() {
        Some(text) => Ok(from_local(text).into_owned()),
        None => bail!(
            "link `{}` has a text that is not UTF-8: {:?}",
            source.display(),
            text.to_string_lossy()
        ),
    }
}

/// The hint for a directory without artifacts. `pipeline` has them in a directory of its output directory.
fn where_artifacts_are(directory: &Path) -> String {
    let below = directory.join("artifacts");
    if below.is_dir() {
        return format!("pass `{}`, which is a directory of artifacts", below.display());
    }
    format!(
        "fetch a run into it: `rocwheel fetch --run-id ID --output-dir {}`",
        shell_word(&directory.to_string_lossy())
    )
}

fn no_artifacts(directory: &Path, skipped: &[Skipped]) -> Error {
    let directory = directory.display();
    // A hidden file is one of this program or of a tool, and not what the user takes for an artifact.
    let visible: Vec<&Skipped> = skipped.iter().filter(|it| !it.name.starts_with('.')).collect();
    match visible.as_slice() {
        [] if !skipped.is_empty() => anyhow!("no artifacts in `{directory}`"),
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
