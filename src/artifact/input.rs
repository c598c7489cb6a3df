//! Reads the artifacts to build from: directories as they are, archives after unpacking them.

mod memory;

use std::{
    cmp::Reverse,
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{
    artifact::{
        ArchiveName, ArtifactManifest, ArtifactName, ArtifactTree, UnpackLimits,
        name::ensure_readable, stage, tree::Skipped,
    },
    console::World,
};
use rocwheel_base::{
    error::{Hint as _, Result, one_line},
    io::FileIdentity,
    parallel,
    quantity::{count, many, size},
};

pub use memory::claim;
pub(super) use memory::digest_directory;
use memory::{UnpackMemory, UnpackedArtifact};

/// Scans all artifacts of a directory. Archives are unpacked to `unpacked` first, unless they are
/// there already.
pub fn read(
    directory: &Path,
    unpacked: &Path,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<ArtifactTree> {
    let (archives, notes) = archives(directory)?;
    world.console.first_notes(&notes);
    if archives.is_empty() {
        return scan(directory, jobs, world);
    }
    unpack(&archives, unpacked, jobs, world)?;
    // An earlier run may have unpacked other archives to the same directory.
    let names: Vec<&ArtifactName> = archives.iter().map(|(_, name)| &name.artifact).collect();
    let of_archives = scan_only(unpacked, &names, jobs, world)?;
    if !has_artifacts(directory)? {
        return Ok(of_archives);
    }
    let mut tree = scan(directory, jobs, world)?;
    tree.artifacts.extend(of_archives.artifacts);
    tree.artifacts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tree)
}

/// An archive that has to be unpacked.
struct WaitingArchive<'a> {
    path: &'a Path,
    name: &'a ArchiveName,
    /// What the archive was before it was opened.
    identity: FileIdentity,
}

/// Unpacks archives, except for the archives that an earlier call has unpacked there.
fn unpack(archives: &Archives, to: &Path, jobs: NonZeroUsize, world: &World) -> Result<()> {
    let memory = UnpackMemory::read(to);
    let stop = &world.stop;
    let are_unpacked = parallel::map(archives, jobs, stop, |(path, name)| {
        Ok(memory.has(&name.artifact, path, to))
    })?;
    let mut waiting = Vec::new();
    for ((path, name), is_unpacked) in archives.iter().zip(are_unpacked) {
        if !is_unpacked {
            waiting.push(WaitingArchive { path, name, identity: FileIdentity::of(path)? });
        }
    }
    let reused = archives.len() - waiting.len();
    if reused > 0 {
        let facts = format!(
            "{} of {}, unpacked before in `{}`",
            count(reused),
            many(archives.len(), "archive"),
            to.display()
        );
        world.console.status("Reused", facts);
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let names: Vec<&ArtifactName> = waiting.iter().map(|archive| &archive.name.artifact).collect();
    claim(to, &names)?;
    // The largest archives are started first: if one of them started last, all other threads would wait for it.
    waiting.sort_by_key(|archive| Reverse(archive.identity.len));
    let unpacked = Mutex::new(Vec::new());
    let bar = world.console.joined_progress(
        "Unpacking",
        many(waiting.len(), "archive"),
        waiting.len(),
        waiting.iter().map(|archive| archive.identity.len).sum(),
    );
    let result = parallel::map(&waiting, jobs, stop, |WaitingArchive { path, name, identity }| {
        let file = fs_err::File::open(path)?;
        let artifact = UnpackedArtifact {
            name: &name.artifact,
            archive: *identity,
            files: unpack_and_look(file, name, to, world, digest_directory)?,
        };
        unpacked.lock().unwrap_or_else(PoisonError::into_inner).push(artifact);
        Ok(())
    });
    drop(bar);
    // Also after a failure or an interruption: what was unpacked need not be unpacked again.
    let remembered = memory.remember(unpacked.into_inner().unwrap_or_else(PoisonError::into_inner));
    result?;
    if let Err(error) = remembered {
        let why = one_line(&error);
        world.console.warn(format!("the next build has to unpack the archives again: {why}"));
    }
    Ok(())
}

/// The archives and the artifacts that [`read`] would read. Fails, as [`read`] does, if there are none.
pub fn names(directory: &Path) -> Result<(Archives, Vec<ArtifactName>)> {
    let (archives, _) = archives(directory)?;
    let mut artifacts = Vec::new();
    if archives.is_empty() || has_artifacts(directory)? {
        artifacts = ArtifactTree::names(directory)?;
    }
    Ok((archives, artifacts))
}

/// Scans only the artifacts of these names. The directory may have others from earlier runs.
pub fn scan_only(
    directory: &Path,
    names: &[&ArtifactName],
    jobs: NonZeroUsize,
    world: &World,
) -> Result<ArtifactTree> {
    let mut tree = scan(directory, jobs, world)?;
    tree.artifacts.retain(|artifact| names.contains(&&artifact.name));
    Ok(tree)
}

/// Whether a directory has artifacts as directories.
fn has_artifacts(directory: &Path) -> Result<bool> {
    let names = file_names(directory)?;
    Ok(names.iter().any(|name| ArtifactName::of_file(name).is_ok()))
}

/// The names in a directory that are Unicode.
fn file_names(directory: &Path) -> io::Result<Vec<String>> {
    fs_err::read_dir(directory)?
        .map(|entry| Ok(entry?.file_name().into_string().ok()))
        .filter_map(Result::transpose)
        .collect()
}

/// Unpacks one archive and shows the progress.
pub fn unpack_one(
    archive: impl io::Read + Send,
    name: &ArchiveName,
    destination: &Path,
    world: &World,
) -> Result<()> {
    unpack_and_look(archive, name, destination, world, |_| ())
}

/// Like [`unpack_one`]. Returns what `look` sees in the directory before the directory gets its final name,
/// while no other program knows it.
fn unpack_and_look<T>(
    archive: impl io::Read + Send,
    name: &ArchiveName,
    destination: &Path,
    world: &World,
    look: impl FnOnce(&Path) -> T,
) -> Result<T> {
    let progress = world.console.progress("Unpacking", name, None);
    let limits = UnpackLimits::default();
    let count_bytes = |bytes| progress.inc(bytes);
    let staged = stage(archive, name, destination, &limits, &world.stop, &count_bytes)?;
    let seen = look(staged.path());
    let unpacked = staged.commit()?;
    drop(progress);
    let files = many(usize::try_from(unpacked.files)?, "file");
    world.console.debug(format!("unpacked {name}: {files}, {}", size(unpacked.bytes)));
    Ok(seen)
}

/// Paths of archives with their names, sorted by name.
pub type Archives = Vec<(PathBuf, ArchiveName)>;

/// The archives of a directory that [`read`] unpacks, sorted by name, and notes for the user.
///
/// If an artifact has archives of two formats, the `.tar.zst` is used. If it also exists as a
/// directory, as after a local build, the directory is used, and a note says so if it is older than
/// the archive.
pub fn archives(directory: &Path) -> Result<(Archives, Vec<String>)> {
    let names = file_names(directory).hint("pass a directory of artifacts as `--artifact-dir`")?;
    for name in &names {
        ensure_readable(name, directory.join(name).is_dir())?;
    }
    let mut by_name: Archives = Vec::new();
    for file_name in &names {
        if let Ok(name) = ArchiveName::of_file(file_name) {
            by_name.push((directory.join(file_name), name));
        }
    }
    by_name.sort_by(|(_, a), (_, b)| a.cmp(b));
    by_name.dedup_by(|(_, later), (_, first)| later.artifact == first.artifact);
    let mut notes = Vec::new();
    let mut archives = Vec::new();
    for (path, name) in by_name {
        let manifest = directory.join(name.artifact.to_string()).join(ArtifactManifest::FILE_NAME);
        let Ok(manifest_time) = fs_err::metadata(manifest).and_then(|file| file.modified()) else {
            archives.push((path, name));
            continue;
        };
        if manifest_time < fs_err::metadata(&path)?.modified()? {
            let artifact = &name.artifact;
            notes.push(format!(
                "directory `{artifact}` is used, and it is older than `{name}` beside it"
            ));
        }
    }
    Ok((archives, notes))
}

/// Scans the artifacts of a directory.
pub fn scan(directory: &Path, jobs: NonZeroUsize, world: &World) -> Result<ArtifactTree> {
    let tree = ArtifactTree::scan(directory, jobs, &world.stop)?;
    let files = tree.artifacts.iter().map(|artifact| artifact.files.len()).sum();
    let artifacts = many(tree.artifacts.len(), "artifact");
    world.console.status("Scanned", format!("{artifacts}, {}", many(files, "entry")));
    // A directory beside the artifacts may be an artifact with a wrong name. A file, such as a log, is none.
    let (directories, files): (Vec<_>, Vec<_>) =
        tree.skipped.iter().partition(|it| it.is_directory && !it.name.starts_with('.'));
    let remark = |skipped: &Skipped| format!("`{}` is not used: {}", skipped.name, skipped.reason);
    for file in files {
        world.console.debug(remark(file));
    }
    let notes: Vec<String> = directories.into_iter().map(remark).collect();
    world.console.first_notes(&notes);
    Ok(tree)
}
