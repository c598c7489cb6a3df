//! Reads each package once, and turns its bytes into the types of `facts`. A damaged package is not
//! an error: its defect is a fact too, and a rule reports it.

mod built;
mod code;
mod content;
mod tarball;
mod wheel;

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

pub use built::facts_of_built;
pub use tarball::{is_devel, read_sdist};
pub use wheel::{Outline, Portion, is_kept};

use crate::check::{
    facts::{CheckedPackage, MemberFacts, MemberKind, WheelFile},
    observe::content::{LoaderTables, SizeAndDigest},
};
use rocwheel_base::{
    digest::Hasher,
    error::{Error, Stop},
    spool::Spool,
};
use rocwheel_elf::ReadAt;
use rocwheel_wheel::PackageFilename;

/// What a caller does while packages are read: shows progress, stops the reading, takes binaries.
pub struct ReadWatch<'a> {
    pub stop: &'a Stop,
    /// Called with the number of bytes of the package that were read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Called with the path and the bytes of each host binary, for a caller that reads on in it.
    pub binaries: Option<&'a BinarySink<'a>>,
}

/// A function that takes the path and the bytes of a binary.
pub type BinarySink<'a> = dyn Fn(&str, Spool) + Sync + 'a;

/// A package that is read as streams of ranges. In a store every stream costs a request, so readers
/// open few of them and read on.
pub trait PackageReader: Sync {
    fn size(&self) -> u64;

    /// Streams the bytes of a range. The stream ends early at the end of the package.
    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>>;
}

/// Reads a whole range into memory. The caller bounds its length.
fn read_range(source: &dyn PackageReader, range: Range<u64>) -> io::Result<Vec<u8>> {
    let len = range.end.saturating_sub(range.start);
    let mut bytes = Vec::new();
    source.stream(range)?.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is cut off"));
    }
    Ok(bytes)
}

/// Parses the file name of a package, which may be below the directory of its family:
/// `gfx94X-dcgpu/rocm-7.tar.gz`.
pub(super) fn file_name(file: &str) -> Result<PackageFilename, String> {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.parse().map_err(|error: Error| format!("{error:#}"))
}

/// The facts of an installed file, as if it were still in its wheel, from its headers. Its digest is
/// not computed.
pub fn installed_member(path: String, mode: u32, file: &dyn ReadAt) -> io::Result<MemberFacts> {
    let content = content::examine(file, None, wheel::keep(&path), LoaderTables::NotAsked)?;
    Ok(MemberFacts { path, kind: MemberKind::File, mode, content: Ok(content) })
}

/// An installed package. `file` is the name that its wheel has or would have.
pub fn installed_wheel(file: String, members: Vec<MemberFacts>) -> WheelFile {
    WheelFile {
        package: CheckedPackage { filename: file_name(&file), size: 0, sha256: None, file },
        unreadable: None,
        contradictions: Vec::new(),
        members,
        devel: None,
    }
}

/// A buffered stream that knows its offset in the package, reports progress, can hash the bytes that it reads,
/// and fails when the user interrupts.
struct Walk<'a> {
    inner: BufReader<Box<dyn Read + Send + 'a>>,
    at: u64,
    hasher: Option<Hasher>,
    watch: &'a ReadWatch<'a>,
}

/// How much is read or unpacked at a time. It is hashed while it is in the cache of the processor.
const BUFFER: usize = 256 << 10;

impl<'a> Walk<'a> {
    /// Walks a stream that begins at this offset.
    fn new(stream: Box<dyn Read + Send + 'a>, at: u64, watch: &'a ReadWatch<'a>) -> Self {
        Self { inner: BufReader::with_capacity(BUFFER, stream), at, hasher: None, watch }
    }

    /// The same walk, which hashes all bytes from here on.
    fn hashed(self) -> Self {
        Self { hasher: Some(Hasher::default()), ..self }
    }

    /// Skips to an offset.
    fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let skipped = offset.saturating_sub(self.at);
        io::copy(&mut self.take(skipped), &mut io::sink())?;
        Ok(())
    }

    /// Reads to the end. Returns the offset of the end, and the digest if the bytes were hashed.
    fn finish(mut self) -> io::Result<SizeAndDigest> {
        self.skip_to(u64::MAX)?;
        let sha256 = self.hasher.map(|hasher| hasher.finish().0);
        Ok(SizeAndDigest { len: self.at, sha256 })
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
