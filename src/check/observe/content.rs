//! Takes the facts of one member of a package: of a stream in one pass, which is hashed meanwhile, or
//! of a file that can be read at any offset, by a few small reads.
//!
//! A host binary needs random access. One that comes as a stream is held until its end is read, without its
//! device code: in memory, or in a temporary file if that is more than [`IN_MEMORY`] bytes. So the memory is
//! bounded for any set.

use std::{
    cell::Cell,
    io::{self, BufRead, Read},
};

use crate::{
    archive::read_full,
    check::{
        facts::{ContentFacts, DeviceCodeFacts, Elf, ElfFile},
        observe::code,
        sparse::{Forward as _, ForwardStream, SparseFile},
    },
    digest::{Hasher, InspectReader, Sha256},
    elf::{self, ReadAt, ReadFrom},
    error::Context as _,
    kpack::ByteRegion,
    loader::is_loadable,
    spool::Spool,
};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const WINDOWS_MAGIC: &[u8] = b"MZ";
const MIB: u64 = 1 << 20;
/// How much of a binary is held in memory; a thread holds one at a time.
const IN_MEMORY: usize = 64 << 20;
/// The same for a binary that is kept: there may be many of them.
const LITTLE_MEMORY: usize = 4 << 20;
/// The longest table of a binary that is read. Tables are read as a whole, and a hostile file could
/// claim one of any size. Linkers make none that is longer.
const LONGEST_TABLE: usize = 64 << 20;
/// The text before the target in a launcher.
const LAUNCHER_MARK: &[u8; 24] = b"rocwheel launcher runs: ";

/// How many bytes show what a file is.
const BEGIN: usize = 4;

/// The longest file whose bytes are kept for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Keep {
    Facts = 0,
    /// Text such as METADATA, which may contain a README of 1 MiB.
    Text = 4 * MIB,
    /// RECORD or a manifest. The RECORD of 100,000 files has 12 MiB.
    List = 64 * MIB,
}

impl Keep {
    /// Whether the bytes of a file of this length are kept.
    pub(super) fn is_for(self, len: u64) -> bool {
        self != Self::Facts && len <= self as u64
    }
}

/// How a host binary is held while it is examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    /// Not at all, and not examined either: no rule is about the code in a package of another project.
    Nothing,
    /// Without the code objects in its bundles. Reading fails with [`NotKept`] if something else is there
    /// that is needed; then the file has to be read again, and held whole.
    #[default]
    WithoutCode,
    Whole,
    /// Whole, for those who read on in it.
    ForCaller,
}

/// Reads a file to its end and hashes it. A file that does not have `len` bytes is an error. Also
/// returns the bytes of a host binary that are held.
pub(super) fn read(
    source: impl BufRead,
    len: u64,
    keep: Keep,
    how: Hold,
) -> io::Result<(ContentFacts, Option<Spool>)> {
    let is_kept = keep.is_for(len);
    let mut hasher = Hasher::default();
    let mut source = InspectReader::new(source, |bytes| hasher.update(bytes));
    let mut begin = [0; BEGIN];
    let count = read_full(&mut source, &mut begin)?;
    let begin = &begin[..count];
    let form = Form::of(begin, is_kept);
    let mut whole = ForwardStream(begin.chain(&mut source));
    let mut seen = ContentFacts::default();
    let mut held = None;
    if how == Hold::Nothing && !is_kept {
        whole.skip(u64::MAX)?;
    } else if form == Form::Other {
        seen.code = code::read(begin, &mut whole)?;
        whole.skip(u64::MAX)?;
    } else {
        let file = match how {
            Hold::WithoutCode if !is_kept => SparseFile::binary(&mut whole, IN_MEMORY)?,
            Hold::ForCaller if !is_kept => SparseFile::whole(&mut whole, LITTLE_MEMORY)?,
            _ => SparseFile::whole(&mut whole, IN_MEMORY)?,
        };
        seen = form.examine(&file)?;
        held = Some(file.into_bytes());
    }
    let size = SizeAndDigest::of_hashed(hasher, len)?;
    // Bytes that are kept are facts, and are not handed over as a binary too.
    let kept = held.take_if(|_| is_kept).and_then(Spool::into_memory);
    Ok((seen.with_size(size, kept), held))
}

/// Examines a file that can be read at any offset, and whose digest is known or is not asked for.
pub(super) fn examine(
    file: &dyn ReadAt,
    sha256: Option<Sha256>,
    keep: Keep,
) -> io::Result<ContentFacts> {
    let from = |len| ReadFrom::new(file, 0).take(len);
    let len = file.len();
    let mut begin = Vec::new();
    from(BEGIN as u64).read_to_end(&mut begin)?;
    let form = Form::of(&begin, keep.is_for(len));
    let seen = match form {
        Form::Other => ContentFacts {
            code: code::read(&begin, &mut ReadFrom::new(file, 0))?,
            ..ContentFacts::default()
        },
        _ => form.examine(file)?,
    };
    let mut kept = keep.is_for(len).then(Vec::new);
    if let Some(kept) = &mut kept {
        from(len).read_to_end(kept)?;
    }
    Ok(seen.with_size(SizeAndDigest { len, sha256 }, kept))
}

/// What the first bytes of a file say about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Elf,
    Windows,
    /// A file whose bytes are kept for the rules.
    Text,
    Other,
}

impl Form {
    fn of(begin: &[u8], is_kept: bool) -> Self {
        if begin.starts_with(ELF_MAGIC) {
            Self::Elf
        } else if begin.starts_with(WINDOWS_MAGIC) {
            Self::Windows
        } else if is_kept {
            Self::Text
        } else {
            Self::Other
        }
    }

    /// Reads the headers and tables of a host binary. What is wrong with the binary is a fact; an
    /// error is only that it cannot be read.
    fn examine(self, file: &dyn ReadAt) -> io::Result<ContentFacts> {
        let tables = Tables::of(file);
        let mut seen = ContentFacts::default();
        match self {
            Self::Elf => {
                let (elf, code) = examine_elf(&tables);
                (seen.elf, seen.code) = (Some(elf), code);
            }
            Self::Windows => {
                let (code, imports) = code::of_windows(&tables);
                (seen.code, seen.imports) = (code, Some(imports));
            }
            Self::Text | Self::Other => {}
        }
        match tables.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(seen),
        }
    }
}

/// The length of a file, and its digest if the digest is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeAndDigest {
    pub(super) len: u64,
    pub(super) sha256: Option<Sha256>,
}

impl SizeAndDigest {
    /// The length and digest of a file that was hashed. Fails if the file does not have `len` bytes.
    pub(super) fn of_hashed(hasher: Hasher, len: u64) -> io::Result<Self> {
        let (sha256, read) = hasher.finish();
        if read != len {
            return Err(io::Error::other(format!(
                "it has {read} bytes, and {len} in the directory of the archive"
            )));
        }
        Ok(Self { len, sha256: Some(sha256) })
    }
}

/// The facts of a file that is not examined.
pub(super) fn plain(size: SizeAndDigest, kept: Option<Vec<u8>>) -> ContentFacts {
    ContentFacts::default().with_size(size, kept)
}

impl ContentFacts {
    fn with_size(self, size: SizeAndDigest, kept: Option<Vec<u8>>) -> Self {
        Self { len: size.len, sha256: size.sha256, kept, ..self }
    }
}

/// Random access to a file that refuses reads longer than [`LONGEST_TABLE`], and remembers that it
/// did, and the first error of the file itself.
struct Tables<'a> {
    file: &'a dyn ReadAt,
    has_refused: Cell<bool>,
    failure: Cell<Option<io::Error>>,
}

impl<'a> Tables<'a> {
    fn of(file: &'a dyn ReadAt) -> Self {
        Self { file, has_refused: Cell::new(false), failure: Cell::default() }
    }
}

impl ReadAt for Tables<'_> {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.len() > LONGEST_TABLE {
            self.has_refused.set(true);
            let why = "its headers or tables are too large to be examined";
            return Err(io::Error::other(why));
        }
        self.file.read_at(offset, buffer).map_err(|error| {
            let shown = io::Error::new(error.kind(), error.to_string());
            self.failure.set(Some(self.failure.take().unwrap_or(error)));
            shown
        })
    }
}

/// What an ELF file says, and its device code.
fn examine_elf(file: &Tables<'_>) -> (Elf, DeviceCodeFacts) {
    let object = || code::of_elf(file.file).unwrap_or_default();
    let examined = elf::read(file).and_then(|facts| {
        let facts = facts.context("it is cut off after its first bytes")?;
        let mut faults = Vec::new();
        let mut code = object();
        if is_loadable(&facts) {
            faults = elf::faults(file)?;
            code = code::of_host(file, facts.kpack_ref);
        }
        let launches = launches(file);
        let elf = ElfFile { facts, faults, launches };
        Ok((Elf::Read(Box::new(elf)), code))
    });
    if file.has_refused.get() {
        return (Elf::TooLarge, object());
    }
    examined.unwrap_or_else(|error| {
        let why = format!("a damaged ELF file: {error:#}");
        (Elf::Damaged(why), object())
    })
}

fn launches(file: &dyn ReadAt) -> Option<String> {
    /// A launcher is a few kilobytes; nothing larger is searched.
    const LARGEST: u64 = 64 << 10;
    let file = ByteRegion::whole(file);
    let len = file.len();
    let bytes = (len <= LARGEST).then(|| file.bytes("launcher", 0, len));
    let bytes = bytes?.ok()?;
    let mut windows = bytes.windows(LAUNCHER_MARK.len());
    let at = windows.position(|window| window == LAUNCHER_MARK)?;
    let rest = bytes.get(at.saturating_add(LAUNCHER_MARK.len())..)?;
    let target = rest.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(target).into_owned())
}

#[cfg(test)]
pub(super) mod tests;
