//! [`PackageReader`]: the bytes of a package on disk or in a store; and `Walk`, the stream through
//! which it is read.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

use crate::{
    check::observe::ObserveProgress,
    digest::{Hasher, Sha256},
};

/// A package that is read as streams of ranges. In a store every stream costs a request, so readers
/// open few of them and read on.
#[expect(
    clippy::len_without_is_empty,
    reason = "no caller asks whether a package is empty before it reads the end"
)]
pub trait PackageReader: Sync {
    fn len(&self) -> u64;

    /// Streams the bytes of a range. The stream ends early at the end of the package.
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

/// Reads a whole range into memory. The caller bounds its length.
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

/// A buffered stream that knows its offset in the package, reports progress, can hash what passes,
/// and fails when the user interrupts.
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

    /// Hashes all bytes that pass.
    pub(super) fn hashing(mut self) -> Self {
        self.hasher = Some(Hasher::default());
        self
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Skips to an offset.
    pub(super) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let rest = offset.saturating_sub(self.at);
        io::copy(&mut self.take(rest), &mut io::sink())?;
        Ok(())
    }

    /// Reads to the end. Returns digest and number of all bytes if they were hashed.
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
            // Writing to a hasher cannot fail.
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
