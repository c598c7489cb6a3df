//! [`ChangedWheel`]: a wheel that is made from another one, or from parts of several. Members that do
//! not change are copied as they are compressed, and a binary is patched while it is packed.
//!
//! To tie, to split and to promote a wheel differ in what changes. How the result is written is the
//! same: sorted, with the metadata behind everything else, RECORD last, and under its name once it is
//! whole.

use std::{
    io::{Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use derive_more::Display;
use serde::Serialize;

use super::{
    AssembleSettings, TakenMember,
    pipeline::{CommonStart, WheelWork, write_wheel},
    source::SourceWheel,
};
use crate::{
    atomic::AtomicFile,
    console::{self, World},
    digest::Sha256,
    elf::{Patch, PatchedReader},
    error::{Context as _, Result},
    package::plan::turn,
    relpath::RelPath,
    spool::Spool,
    wheel::{PackageFilename, WheelMember},
};

/// A wheel to write.
pub struct ChangedWheel {
    name: PackageFilename,
    dist_info: RelPath,
    members: Vec<(WheelMember, ChangedContent)>,
}

/// Where the bytes of a member come from.
#[derive(Clone)]
pub enum ChangedContent {
    /// Compressed bytes of another wheel.
    Taken(TakenMember),
    /// A binary with a change.
    Patched(Arc<Spool>, Patch),
    /// A file of this length.
    File(PathBuf, u64),
    Bytes(Arc<[u8]>),
}

/// A wheel that was written. It is shown as in SHA256SUMS, with its size.
#[derive(Clone, Debug, Display, Serialize)]
#[display("{sha256}  {file} ({})", console::size(*size))]
pub struct ChangedFile {
    pub file: String,
    pub size: u64,
    pub sha256: Sha256,
}

impl ChangedContent {
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }

    fn len(&self) -> u64 {
        match self {
            Self::Taken(member) => member.packed.len,
            Self::Patched(_, patch) => patch.total_len(),
            Self::File(_, len) => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    fn taken(&self) -> Option<TakenMember> {
        match self {
            Self::Taken(member) => Some(member.clone()),
            _ => None,
        }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Taken(member) => member.open()?,
            Self::Patched(bytes, patch) => {
                Box::new(PatchedReader::new(Arc::clone(bytes), patch.clone()))
            }
            Self::File(path, _) => Box::new(fs_err::File::open(path)?),
            Self::Bytes(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
        })
    }
}

impl ChangedWheel {
    /// A wheel without members. `dist_info` is the directory of its metadata.
    pub fn new(name: PackageFilename, dist_info: RelPath) -> Self {
        Self {
            name,
            dist_info,
            members: Vec::new(),
        }
    }

    /// Adds a member. RECORD is made when the wheel is written.
    pub fn add(&mut self, path: RelPath, executable: bool, content: ChangedContent) {
        let member = WheelMember {
            path,
            executable,
            len: content.len(),
        };
        self.members.push((member, content));
    }

    /// Writes the wheel into a directory. `verb` says what is done: `Tying`.
    pub fn write(
        self,
        directory: &Path,
        settings: &AssembleSettings,
        verb: &str,
        world: &World,
    ) -> Result<ChangedFile> {
        let written = self.write_from(None, directory, settings, verb, world);
        written.map(|(file, _)| file)
    }

    /// Writes the wheel like [`ChangedWheel::write`]. All members that it takes are of `source`: what
    /// both begin with is copied as a whole, and hashed once. Returns the digest of `source` if that is
    /// wanted.
    pub fn write_from(
        self,
        source: Option<&SourceWheel<'_>>,
        directory: &Path,
        settings: &AssembleSettings,
        verb: &str,
        world: &World,
    ) -> Result<(ChangedFile, Option<Sha256>)> {
        let file = self.name.to_string();
        let target = directory.join(&file);
        self.written(&target, source, (verb, settings), world)
            .with_context(|| format!("failed to write `{file}`"))
    }

    fn written(
        self,
        target: &Path,
        source: Option<&SourceWheel<'_>>,
        (verb, settings): (&str, &AssembleSettings),
        world: &World,
    ) -> Result<(ChangedFile, Option<Sha256>)> {
        let Self {
            name,
            dist_info,
            mut members,
        } = self;
        let is_metadata = |path: &RelPath| path.strip_prefix(&dist_info).is_some();
        members.sort_by_cached_key(|(it, _)| (is_metadata(&it.path), turn(&it.path)));
        let (members, contents): (Vec<WheelMember>, Vec<ChangedContent>) =
            members.into_iter().unzip();
        let size: u64 = members.iter().map(|it| it.len).sum();
        let progress = world.console.progress(verb, &name, size);
        let taken: Vec<Option<TakenMember>> = contents.iter().map(ChangedContent::taken).collect();
        let mut file = AtomicFile::beside(target)?;
        let record = dist_info.join(&"RECORD".parse()?);
        let mut write = |start: Option<CommonStart<'_>>| {
            let work = WheelWork {
                members: &members,
                open: &|index| contents.get(index).context("no such member")?.open(),
                taken: &taken,
                start,
                texts: &[],
                record: &record,
                settings,
                stop: &world.stop,
                progress: &|bytes| progress.inc(bytes),
            };
            write_wheel(file.file(), &work)
        };
        let (written, digest) = match source {
            None => (write(None)?, None),
            Some(source) => {
                let start = source.common_start(&members, &taken, settings.time)?;
                source.write(start, &world.stop, |start| write(Some(start)))?
            }
        };
        file.replace(target)?;
        let file = ChangedFile {
            file: name.to_string(),
            size: written.len,
            sha256: written.sha256,
        };
        Ok((file, digest))
    }
}
