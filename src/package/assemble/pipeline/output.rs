//! [`HashedOutput`]: the file of a wheel, hashed while it is written.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    mem,
};

use fs_err::File;

use crate::{
    digest::{Hasher, Sha256},
    error::{Result, ensure},
};

/// The file of a wheel. It is written from its start, read back to hash what was written twice, and
/// truncated if compression made a member longer.
pub trait Output: Read + Write + Seek {
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

impl Output for File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

impl<W: Output> Output for &mut W {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        W::truncate(self, len)
    }
}

/// Hashes the bytes while they are written, although some are written twice.
///
/// Bytes that may still change are not hashed yet: the local header of a large member is completed
/// after its data. Once they are final they are read back, mostly from the page cache.
pub(super) struct HashedOutput<W> {
    out: W,
    at: u64,
    hasher: Hasher,
    /// How many bytes, from the start of the file, are hashed.
    done: u64,
    /// The start of the bytes that may still change, if there are any.
    open: Option<u64>,
    /// The buffer for what is read back.
    again: Vec<u8>,
}

/// How much is read back at a time. It is small, so that the writer soon looks for the next result.
const STEP: u64 = 1 << 18;

impl<W: Output> HashedOutput<W> {
    /// An empty file.
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            at: 0,
            hasher: Hasher::default(),
            done: 0,
            open: None,
            again: Vec::new(),
        }
    }

    /// From here on, bytes may still change until [`HashedOutput::close`].
    pub(super) fn open(&mut self, at: u64) {
        self.open = Some(at);
    }

    /// All bytes are final.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Cuts off what is behind the last byte.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.out.truncate(self.at)
    }

    fn hash(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.done += bytes.len() as u64;
    }

    /// Hashes the next final bytes, at most [`STEP`]; false if there are none. Called while the next
    /// result is not there yet.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        let end = self.open.unwrap_or(self.at).min(self.at);
        let behind = end.saturating_sub(self.done).min(STEP);
        if behind == 0 {
            return Ok(false);
        }
        self.again.resize(usize::try_from(behind).unwrap_or(0), 0);
        self.out.seek(SeekFrom::Start(self.done))?;
        let read = self.out.read(&mut self.again)?;
        // The writers above this one do not know of the read, so the position is restored.
        self.out.seek(SeekFrom::Start(self.at))?;
        let again = mem::take(&mut self.again);
        self.hash(&again[..read]);
        self.again = again;
        Ok(read > 0)
    }

    /// Returns the length and the hash of the whole file.
    pub(super) fn finish(mut self) -> Result<(u64, Sha256)> {
        while self.catch_up()? {}
        let ((sha256, len), at) = (self.hasher.finish(), self.at);
        ensure!(
            len == at,
            "the wheel lost bytes while it was written: {len} of {at}"
        );
        Ok((len, sha256))
    }
}

impl<W: Output> Write for HashedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        // The hash has all bytes before the position only if none of them are still to be read
        // back. Otherwise these bytes wait for `catch_up` as well, because a hash needs its input
        // in order.
        if self.done == self.at && self.open.is_none() {
            self.hash(&bytes[..written]);
        }
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Output> Seek for HashedOutput<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.out.seek(to)?;
        Ok(self.at)
    }
}
