//! [`SourceWheel`]: a wheel that another one is made of. It is hashed while it is copied.
//!
//! A promoted wheel differs from its source near the end, where the metadata is. Up to there one copy
//! and one hash serve both, which takes a third of the time off a promotion: hashing takes longer
//! than copying.

use std::{
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use fs_err::File;

use super::{
    TakenMember,
    content::{CountedReader, Unchanged},
    pipeline::{CommonStart, OpenedMember},
};
use crate::{
    artifact::FileStamp,
    digest::{Hasher, Sha256},
    error::{Context as _, Result, Stop, anyhow, ensure},
    wheel::{WheelMember, common_start},
};

/// The buffer for what is only hashed.
const READ: usize = 256 << 10;

/// A wheel on this disk.
pub struct SourceWheel {
    path: PathBuf,
    stamp: FileStamp,
    is_hashed: bool,
}

impl SourceWheel {
    /// With `is_hashed`, its digest is wanted.
    pub fn new(path: &Path, is_hashed: bool) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            stamp: FileStamp::of(path)?,
            is_hashed,
        })
    }

    /// How many members a wheel of these has in common with this one, at the beginning, and their
    /// length with their headers.
    pub(super) fn common_start(
        &self,
        members: &[WheelMember],
        taken: &[Option<TakenMember>],
        time: u64,
    ) -> Result<(usize, u64)> {
        let members = members.iter().zip(taken);
        let members = members.map_while(|(member, taken)| {
            let packed = &taken.as_ref()?.packed;
            Some((member, packed.method, packed.crc, &packed.bytes))
        });
        Ok(common_start(File::open(&self.path)?, members, time)?)
    }

    /// Writes a wheel that begins with these members of this one. Returns the digest of this one as
    /// well, if it is wanted.
    pub(super) fn write<T>(
        &self,
        (members, len): (usize, u64),
        stop: &Stop,
        write: impl FnOnce(CommonStart<'_>) -> Result<T>,
    ) -> Result<(T, Option<Sha256>)> {
        thread::scope(|scope| {
            let (hashed, begun) = mpsc::channel();
            let digest = move || self.digest(len, &begun, stop);
            let thread = self.is_hashed.then(|| {
                let thread = thread::Builder::new().spawn_scoped(scope, digest);
                thread.context("failed to start a thread")
            });
            let thread = thread.transpose()?;
            let written = write(CommonStart {
                members,
                open: &|| self.open(0..len),
                // Fails if no thread wants it.
                hashed: &|hash| drop(hashed.send(hash)),
            });
            // If the writer failed, this ends the thread.
            drop(hashed);
            let digest = match thread.map(thread::ScopedJoinHandle::join) {
                Some(digest) => digest.map_err(|_| anyhow!("a thread that hashes died"))?,
                None => Ok(None),
            };
            Ok((written?, digest?))
        })
    }

    /// Goes on with the hash of the first bytes. `None` if there is none, because the writer failed.
    fn digest(
        &self,
        start: u64,
        begun: &mpsc::Receiver<Hasher>,
        stop: &Stop,
    ) -> Result<Option<Sha256>> {
        let Ok(mut hasher) = begun.recv() else {
            return Ok(None);
        };
        let (source, progress) = (self.open(start..self.stamp.len)?, &|_| {});
        let source = CountedReader {
            source,
            stop,
            progress,
        };
        io::copy(&mut BufReader::with_capacity(READ, source), &mut hasher)?;
        let (sha256, len) = hasher.finish();
        let path = self.path.display();
        ensure!(
            len == self.stamp.len,
            "`{path}` became shorter while it was read"
        );
        Ok(Some(sha256))
    }

    /// Reads some of its bytes, and fails if it has changed.
    fn open(&self, bytes: Range<u64>) -> Result<OpenedMember> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        let left = bytes.end.saturating_sub(bytes.start);
        Ok(Box::new(Unchanged {
            reader: file.take(left),
            path: self.path.clone(),
            stamp: self.stamp,
            left,
        }))
    }
}
