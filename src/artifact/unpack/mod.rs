//! Unpacks an archive into a directory. The archive is untrusted: sizes and names have limits, and
//! nothing is written outside of the directory. The directory gets its final name only when it is
//! complete.

use std::{
    error::Error as StdError,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    archive::{Decompressor, TarReader},
    artifact::{ArchiveName, ArtifactManifest},
    atomic::StagedDir,
    error::{Context, Hint, Result, Stop, anyhow},
    relpath::RelPath,
};

mod member;
mod seen;

use member::Unpacking;

/// Limits for archives. No real artifact comes near the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes of the uncompressed tar. Default: 256 GiB.
    pub bytes: u64,
    /// Number of files, directories and links. Default: 4 million.
    pub members: u64,
    /// Bytes of one path component. Default: 255, as in most file systems.
    pub name: usize,
    /// Bytes of all paths together, which are kept in memory. Default: 1 GiB.
    pub paths: u64,
    /// What to do with names that differ only in case or in Unicode normalization.
    pub clashes: Clashes,
}

/// `share/terminfo/E` and `share/terminfo/e` are two directories on Linux, but one on Windows and
/// macOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clashes {
    /// Fail, and name both paths.
    Refuse,
    /// List them in [`Unpacked::clashes`].
    Report,
}

/// An unpacked archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub directory: PathBuf,
    pub manifest: ArtifactManifest,
    /// Number of regular files, including hard links.
    pub files: u64,
    pub symlinks: u64,
    /// Total length of all files in bytes.
    pub bytes: u64,
    /// Whether the archive has a checksum of its own, which was verified.
    pub has_checksum: bool,
    /// Pairs of paths that are one path on a file system that ignores case.
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

/// Unpacks into `{destination}/{stem}`. An older artifact there is replaced only when the new one
/// is complete.
///
/// `progress` is called with the number of bytes of the tar after each read.
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

/// An unpacked artifact without its final name. Dropping it deletes it.
pub struct Staged {
    staging: StagedDir,
    unpacked: Unpacked,
}

impl Staged {
    pub fn unpacked(&self) -> &Unpacked {
        &self.unpacked
    }

    /// Renames the artifact to its final name. An older one is replaced.
    pub fn commit(self) -> Result<Unpacked> {
        let directory = self.staging.target().to_owned();
        self.staging.replace()?;
        Ok(Unpacked {
            directory,
            ..self.unpacked
        })
    }
}

/// Unpacks into a temporary directory beside `{destination}/{stem}`. The caller can verify more and
/// then call [`Staged::commit`]; dropping the result deletes the directory.
///
/// The archive is read to its end, even if the tar ends earlier.
pub fn stage(
    archive: impl Read,
    name: &ArchiveName,
    destination: &Path,
    limits: &UnpackLimits,
    stop: &Stop,
    progress: &dyn Fn(u64),
) -> Result<Staged> {
    let attempt = || -> Result<Staged> {
        let target = destination.join(name.artifact.file_name());
        // Only directories and symlinks are replaced.
        if fs_err::symlink_metadata(&target).is_ok_and(|found| found.is_file()) {
            let file = target.display();
            return Err(anyhow!("a file has this name already: `{file}`"))
                .hint("remove it, or unpack to another directory");
        }
        let staging = StagedDir::beside(&target)?;
        let tar = UnpackReader {
            source: Decompressor::new(name.format, archive)?,
            stop,
            progress,
        };
        let mut tar = TarReader::new(tar, limits.bytes);
        let mut unpacking = Unpacking::new(staging.path(), limits);
        while let Some(entry) = tar.next_entry()? {
            unpacking.take(entry, &mut tar)?;
        }
        let mut unpacked = unpacking.finish(stop)?;
        unpacked.has_checksum = tar.source().source.has_checksum();
        Ok(Staged { staging, unpacked })
    };
    attempt().or_else(|error| {
        // `UnpackReader` reports a stop as an I/O error. Report the stop itself, not a damaged
        // archive.
        stop.check()?;
        let damaged = error.chain().any(is_damage);
        let result = Err(error).with_context(|| format!("failed to unpack `{name}`"));
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

/// A reader that fails once the user stops the program, and reports progress.
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
