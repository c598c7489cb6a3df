//! An archive from outside becomes a directory: whole and under its own name, or not at all.

use std::{
    error::Error as StdError,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    archive::{Decompressor, TarReader},
    artifact::{ArchiveName, ArtifactManifest},
    error::{Context, Hint, Result, Stop},
    relpath::RelPath,
};

mod disk;
mod member;
mod seen;
mod staged;

use member::Unpacking;
use staged::PartialTree;
pub use staged::Staged;

/// What an archive may be. The defaults are far beyond any real artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// The bytes of the tar: 256 GiB.
    pub bytes: u64,
    /// The files, directories and links: 4 million.
    pub members: u64,
    /// The bytes of one component of a path: 255, as in most file systems.
    pub name: usize,
    /// The bytes of all paths together, which are held in memory: 1 GiB.
    pub paths: u64,
    /// What to do about names that differ only by case or normal form.
    pub clashes: Clashes,
}

/// `share/terminfo/E` beside `share/terminfo/e` is fine on Linux, and one directory elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clashes {
    /// An error that names both.
    Refuse,
    /// Listed in `Unpacked::clashes`.
    Report,
}

/// What came out of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    pub directory: PathBuf,
    pub manifest: ArtifactManifest,
    /// Regular files and hard links.
    pub files: u64,
    pub symlinks: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// Whether a checksum of the archive's own stands for its bytes.
    pub has_checksum: bool,
    /// Pairs of names that a file system without case would take for one.
    pub clashes: Vec<(RelPath, RelPath)>,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        let keeps_case = !cfg!(any(windows, target_vendor = "apple"));
        Self {
            bytes: 256 << 30,
            members: 4_000_000,
            name: 255,
            paths: 1 << 30,
            clashes: if keeps_case {
                Clashes::Report
            } else {
                Clashes::Refuse
            },
        }
    }
}

/// Unpacks into `{destination}/{stem}`, which is replaced only by a whole artifact.
///
/// `progress` is told the bytes of the tar as they come.
pub fn unpack(
    archive: impl Read,
    name: &ArchiveName,
    destination: &Path,
    limits: &UnpackLimits,
    stop: &Stop,
    progress: &dyn Fn(u64),
) -> Result<Unpacked> {
    stage(archive, name, destination, limits, stop, progress)?.commit()
}

/// Unpacks into `{destination}/{stem}.part`, for a caller who has more to verify, and who then
/// says `commit`; or else all of it is removed.
///
/// The archive is read to its very end.
pub fn stage(
    archive: impl Read,
    name: &ArchiveName,
    destination: &Path,
    limits: &UnpackLimits,
    stop: &Stop,
    progress: &dyn Fn(u64),
) -> Result<Staged> {
    let attempt = || -> Result<Staged> {
        let part = PartialTree::create(destination, &name.artifact)?;
        let tar = UnpackReader {
            source: Decompressor::new(name.format, archive)?,
            stop,
            progress,
        };
        let mut tar = TarReader::new(tar, limits.bytes);
        let unpacked = fill(part.path(), &mut tar, limits, stop)?;
        let unpacked = Unpacked {
            has_checksum: tar.source().source.has_checksum(),
            ..unpacked
        };
        Ok(Staged::new(part, unpacked))
    };
    attempt().or_else(|error| {
        // A stop comes out of the reader as an error of the archive.
        stop.check()?;
        let damaged = error.chain().any(is_damage);
        let result = Err(error).with_context(|| format!("unpack `{name}`"));
        if damaged {
            result.hint("download the archive again; if that does not help, rebuild it in its run")
        } else {
            result
        }
    })
}

fn is_damage(cause: &(dyn StdError + 'static)) -> bool {
    let kind = cause.downcast_ref().map(io::Error::kind);
    matches!(
        kind,
        Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
    )
}

fn fill(
    root: &Path,
    tar: &mut TarReader<impl Read>,
    limits: &UnpackLimits,
    stop: &Stop,
) -> Result<Unpacked> {
    let mut unpacking = Unpacking::new(root, limits);
    while let Some(entry) = tar.next_entry()? {
        unpacking.take(entry, tar)?;
    }
    unpacking.finish(stop)
}

/// A source that stops when the user says so, and tells how far it is.
struct UnpackReader<'a, R> {
    source: R,
    stop: &'a Stop,
    progress: &'a dyn Fn(u64),
}

impl<R: Read> Read for UnpackReader<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let read = self.source.read(buf)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
