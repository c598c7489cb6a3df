//! An output whose hash is known when it is done, although parts of it are written twice.

use std::io::{self, Seek, SeekFrom, Write};

use super::Output;
use crate::{
    digest::{Hasher, Sha256},
    error::{Result, ensure},
};

/// Hashes what passes. What may still change is left out, and read back once it is settled: a
/// member's header is completed after its bytes, which then are in the page cache.
pub(super) struct HashedOutput<'a, W> {
    out: &'a mut W,
    at: u64,
    hash: Hasher,
    /// How far the hash has come.
    done: u64,
    /// Where that begins which may still change.
    open: Option<u64>,
    /// What was read back last.
    again: Vec<u8>,
}

/// How much is read back at a time.
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

    /// What is written from `start` on may change.
    pub(super) fn hold(&mut self, start: u64) {
        self.open = Some(start);
    }

    /// All that was written stays as it is.
    pub(super) fn settle(&mut self) {
        self.open = None;
    }

    /// Cuts off what lies behind the position.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        self.out.truncate(self.at)
    }

    /// Hashes a little of what is settled; false when there is nothing of that kind.
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
        self.out.seek(SeekFrom::Start(self.at))?;
        self.hash.write_all(&self.again[..read])?;
        self.done += read as u64;
        Ok(read > 0)
    }

    /// The length and the hash of the whole.
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
