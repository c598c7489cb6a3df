//! `PackageReader`: a package where it is stored, on a disk or behind a network.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

use crate::{
    check::observe::ObserveProgress,
    digest::{Hasher, Sha256},
};

/// Bytes that are read as streams from any place on: whoever waits long for a first byte is asked
/// seldom.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks a package whether it is empty before reading its end"
)]
pub trait PackageReader: Sync {
    fn len(&self) -> u64;

    /// The bytes of a range, in order. It may end early where the package does.
    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + '_>>;
}

impl PackageReader for Vec<u8> {
    fn len(&self) -> u64 {
        Self::len(self) as u64
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + '_>> {
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let end = place(range.end).min(Self::len(self));
        let bytes = self.get(place(range.start)..end);
        Ok(Box::new(bytes.unwrap_or_default()))
    }
}

/// All bytes of a range that is known to be short.
pub(super) fn bytes(
    source: &(impl PackageReader + ?Sized),
    range: Range<u64>,
) -> io::Result<Vec<u8>> {
    let len = range.end.saturating_sub(range.start);
    let mut bytes = Vec::new();
    source.stream(range)?.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == len {
        Ok(bytes)
    } else {
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file is cut off",
        ))
    }
}

/// A stream that knows where it is, tells how far it came, and ends when the user asks to.
pub(super) struct Walk<'a> {
    inner: BufReader<Box<dyn Read + 'a>>,
    at: u64,
    hasher: Option<Hasher>,
    watch: &'a ObserveProgress<'a>,
}

const BUFFER: usize = 256 << 10;

impl<'a> Walk<'a> {
    pub(super) fn new(stream: Box<dyn Read + 'a>, at: u64, watch: &'a ObserveProgress<'a>) -> Self {
        Self {
            inner: BufReader::with_capacity(BUFFER, stream),
            at,
            hasher: None,
            watch,
        }
    }

    /// The same, hashing all that passes.
    pub(super) fn hashing(mut self) -> Self {
        self.hasher = Some(Hasher::default());
        self
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Passes over what lies before an offset.
    pub(super) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let rest = offset.saturating_sub(self.at);
        io::copy(&mut self.take(rest), &mut io::sink())?;
        Ok(())
    }

    /// Reads to the end; the hash and the number of all bytes, if they were hashed.
    pub(super) fn finish(mut self) -> io::Result<Option<(Sha256, u64)>> {
        self.skip_to(u64::MAX)?;
        Ok(self.hasher.map(Hasher::finish))
    }
}

impl BufRead for Walk<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.watch.stop.check().map_err(io::Error::other)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(hasher) = &mut self.hasher {
            let passed = self.inner.buffer().get(..amount).unwrap_or_default();
            // A hash takes whatever it is given.
            let _ = io::Write::write_all(hasher, passed);
        }
        self.inner.consume(amount);
        self.at = self.at.saturating_add(amount as u64);
        (self.watch.progress)(amount as u64);
    }
}

impl Read for Walk<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ready = self.fill_buf()?;
        let count = ready.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
