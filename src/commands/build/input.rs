//! Artifacts to build from: directories as they are, archives unpacked first.

use std::path::{Path, PathBuf};

use crate::{
    artifact::{ArchiveName, ArtifactName, ArtifactTree, Limits, unpack},
    commands::{World, args::Jobs, fetch},
    console::{many, size},
    error::{Hint as _, Result, anyhow, bail},
    parallel,
};

/// The facts about every artifact of a directory; its archives are unpacked to `unpacked`.
pub fn read(directory: &Path, unpacked: &Path, jobs: &Jobs, world: &World) -> Result<ArtifactTree> {
    let archives = archives(directory)?;
    if archives.is_empty() {
        return scan(directory, jobs, world);
    }
    // The largest first: one that is begun last is waited for by all threads.
    let mut waiting = Vec::new();
    for (path, name) in &archives {
        waiting.push((fs_err::metadata(path)?.len(), path, name));
    }
    waiting.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    parallel::map(
        &waiting,
        jobs.count(),
        &world.stop,
        |(bytes, path, name)| {
            let file = fs_err::File::open(path)?;
            unpack_one(file, *bytes, name, unpacked, world)
        },
    )?;
    let names: Vec<&ArtifactName> = archives.iter().map(|(_, name)| &name.artifact).collect();
    let fresh = scan_only(unpacked, &names, jobs, world)?;
    if has_artifacts(directory)? {
        join(scan(directory, jobs, world)?, fresh)
    } else {
        Ok(fresh)
    }
}

/// What `read` would read, by name; without any, what it would say.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let archives = archives(directory)?;
    let mut names: Vec<String> = archives.iter().map(|(_, name)| name.to_string()).collect();
    if archives.is_empty() || has_artifacts(directory)? {
        let artifacts = ArtifactTree::names(directory)?;
        names.extend(artifacts.iter().map(ToString::to_string));
    }
    Ok(names)
}

/// Refuses artifacts that were fetched for some packages alone: a set would be made of them all the
/// same, and be another than the run's.
pub fn ensure_all(directory: &Path) -> Result<()> {
    let names = fetch::fetched_for(directory)?;
    if names.is_empty() {
        return Ok(());
    }
    Err(anyhow!(
        "{}, which do not show all targets",
        in_words(directory, &names)
    ))
    .hint("build with `--only`, and all targets of the run as `--targets`; or fetch all of it")
}

/// Which artifacts those are that were fetched for some packages.
pub(super) fn in_words(directory: &Path, names: &[String]) -> String {
    let (directory, names) = (directory.display(), names.join(","));
    format!("the artifacts in `{directory}` are those that `fetch --only {names}` fetches")
}

/// The facts about some artifacts of a directory in which others may be left from before.
pub fn scan_only(
    directory: &Path,
    names: &[&ArtifactName],
    jobs: &Jobs,
    world: &World,
) -> Result<ArtifactTree> {
    let mut tree = scan(directory, jobs, world)?;
    tree.artifacts
        .retain(|artifact| names.contains(&&artifact.name));
    Ok(tree)
}

/// Whether a directory has artifacts that are not archives.
fn has_artifacts(directory: &Path) -> Result<bool> {
    for entry in fs_err::read_dir(directory)? {
        let name = entry?.file_name();
        if name
            .to_str()
            .is_some_and(|name| ArtifactName::of_file(name).is_ok())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Unpacks one archive, with progress.
pub fn unpack_one(
    archive: impl std::io::Read,
    bytes: u64,
    name: &ArchiveName,
    destination: &Path,
    world: &World,
) -> Result<()> {
    let progress = world.console.progress("Unpacking", name, None);
    let limits = Limits::default();
    let done = unpack(archive, name, destination, &limits, &world.stop, &|read| {
        progress.inc(read);
    })?;
    drop(progress);
    let facts = format!(
        "{name}: {}, {} from {}",
        many(usize::try_from(done.files)?, "file"),
        size(done.bytes),
        size(bytes)
    );
    world.console.debug(format!("unpacked {facts}"));
    Ok(())
}

/// The archives of a directory, by name; of two of one artifact, the `.tar.zst`.
pub fn archives(directory: &Path) -> Result<Vec<(PathBuf, ArchiveName)>> {
    let mut found: Vec<(PathBuf, ArchiveName)> = Vec::new();
    let entries =
        fs_err::read_dir(directory).hint("pass a directory of artifacts as `--artifact-dir`")?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(name) = name
            .to_str()
            .and_then(|name| ArchiveName::of_file(name).ok())
        {
            found.push((entry.path(), name));
        }
    }
    found.sort_by(|(_, a), (_, b)| a.cmp(b));
    found.dedup_by(|(_, later), (_, first)| later.artifact == first.artifact);
    Ok(found)
}

/// The facts about the artifacts of a directory.
pub fn scan(directory: &Path, jobs: &Jobs, world: &World) -> Result<ArtifactTree> {
    let tree = ArtifactTree::scan(directory, jobs.count(), &world.stop)?;
    let files: usize = tree
        .artifacts
        .iter()
        .map(|artifact| artifact.files.len())
        .sum();
    let artifacts = many(tree.artifacts.len(), "artifact");
    world
        .console
        .status("Scanned", format!("{artifacts}, {}", many(files, "entry")));
    for skipped in &tree.skipped {
        world
            .console
            .debug(format!("skipped `{}`: {}", skipped.name, skipped.reason));
    }
    Ok(tree)
}

/// Both trees as one, which must not have an artifact twice.
fn join(mut tree: ArtifactTree, more: ArtifactTree) -> Result<ArtifactTree> {
    for artifact in more.artifacts {
        if tree
            .artifacts
            .iter()
            .any(|known| known.name == artifact.name)
        {
            bail!(
                "artifact `{}` is there twice: in `{}` and as an archive unpacked to `{}`",
                artifact.name,
                tree.directory.display(),
                more.directory.display()
            );
        }
        tree.artifacts.push(artifact);
    }
    tree.artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tree)
}
