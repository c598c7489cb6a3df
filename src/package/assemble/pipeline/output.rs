//! An output that hashes what is written to it, although some parts are written twice.

use std::io::{self, Seek, SeekFrom, Write};

use super::Output;
use crate::{
    digest::{Hasher, Sha256},
    error::{Result, ensure},
};

/// Hashes the bytes while they are written.
///
/// Bytes that may still change are not hashed yet: the local header of a large member is completed
/// after its data. Once they are final they are read back, mostly from the page cache.
pub(super) struct HashedOutput<'a, W> {
    out: &'a mut W,
    at: u64,
    hash: Hasher,
    /// How many bytes, from the start of the file, are hashed.
    done: u64,
    /// The start of the bytes that may still change, if there are any.
    open: Option<u64>,
    /// The buffer for what is read back.
    again: Vec<u8>,
}

/// How much is read back at a time. It is small, so that the writer soon looks for the next result.
const STEP: u64 = 1 << 18;

impl<'a, W: Output> HashedOutput<'a, W> {
    pub(super) fn new(out: &'a mut W) -> Self {
        Self {
            out,
            at: 0,
            hash: Hasher::default(),
            done: 0,
            open: None,
            again: Vec::new(),
        }
    }

    /// Declares that bytes from `start` on may be written again.
    pub(super) fn hold(&mut self, start: u64) {
        self.open = Some(start);
    }

    /// Declares that all bytes written so far are final.
    pub(super) fn settle(&mut self) {
        self.open = None;
    }

    /// Truncates the file at the current position.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.out.truncate(self.at)
    }

    /// Hashes the next final bytes, at most [`STEP`]; false if there are none.
    pub(super) fn catch_up(&mut self) -> io::Result<bool> {
        let behind = self
            .open
            .unwrap_or(self.at)
            .min(self.at)
            .saturating_sub(self.done);
        if behind == 0 {
            return Ok(false);
        }
        let step = usize::try_from(behind.min(STEP)).unwrap_or(0);
        self.again.resize(step, 0);
        self.out.seek(SeekFrom::Start(self.done))?;
        let read = self.out.read(&mut self.again)?;
        // The writers above this one do not know of the read, so the position is restored.
        self.out.seek(SeekFrom::Start(self.at))?;
        self.hash.write_all(&self.again[..read])?;
        self.done += read as u64;
        Ok(read > 0)
    }

    /// Returns the hash and the length of the whole file.
    pub(super) fn finish(mut self) -> Result<(u64, Sha256)> {
        while self.catch_up()? {}
        let (sha256, len) = self.hash.finish();
        ensure!(
            len == self.at,
            "the wheel lost bytes while it was written: {len} of {}",
            self.at
        );
        Ok((len, sha256))
    }
}

impl<W: Output> Write for HashedOutput<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        // The hash has all bytes before the position only if none of them are still to be read
        // back. Otherwise these bytes wait for `catch_up` as well, because a hash needs its input
        // in order.
        if self.done == self.at {
            let settled = self
                .open
                .map_or(u64::MAX, |open| open.saturating_sub(self.at));
            let settled = usize::try_from(settled).map_or(written, |settled| settled.min(written));
            self.hash.write_all(&bytes[..settled])?;
            self.done += settled as u64;
        }
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Output> Seek for HashedOutput<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.out.seek(to)?;
        Ok(self.at)
    }
}
