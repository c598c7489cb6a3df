//! Takes the facts of one member of a package: [`read`] passes once through a stream and hashes it, and
//! [`examine`] makes a few small reads in a file that can be read at any offset.
//!
//! A host binary needs random access. A binary in a stream is held until its end is read, without its
//! device code: in memory, or in a temporary file if more than [`IN_MEMORY`] bytes are held. So the memory
//! is bounded for any set.

use std::{
    cell::Cell,
    io::{self, BufRead, Read},
};

use crate::check::{
    facts::{ContentFacts, Elf, ElfFile},
    observe::code,
    sparse::{Forward as _, ForwardStream, SparseFile},
};
use rocwheel_base::{
    digest::{Hasher, InspectReader, Sha256},
    error::{Context as _, Result},
    spool::Spool,
};
use rocwheel_elf::{ReadAt, ReadFrom, loader::is_loadable};
use rocwheel_kpack::ByteRegion;
use rocwheel_wheel::tar::read_full;

const ELF_MAGIC: &[u8] = b"\x7fELF";
const WINDOWS_MAGIC: &[u8] = b"MZ";
const SCRIPT_MAGIC: &[u8] = b"#!";
const MIB: u64 = 1 << 20;
/// How many bytes of a binary are held in memory. A thread holds one binary at a time.
const IN_MEMORY: usize = 64 << 20;
/// How many bytes of a binary that the caller keeps are in memory. The caller may keep many binaries.
const LITTLE_MEMORY: usize = 4 << 20;
/// The longest table of a binary that is read. Tables are read as a whole, and a hostile file could
/// claim a table of any size. Linkers make no longer tables.
const LONGEST_TABLE: usize = 64 << 20;
/// The text before the target in a launcher.
const LAUNCHER_MARK: &[u8; 24] = b"rocwheel launcher runs: ";

/// How many bytes show what a file is.
const BEGIN: usize = 4;

/// How much of a file is kept for the rules. The number of a variant is the length of the longest such file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Keep {
    /// No bytes, only the facts.
    Facts = 0,
    /// Text such as METADATA, which may contain a README of 1 MiB.
    Text = 4 * MIB,
    /// RECORD or a manifest. The RECORD of 100,000 files has 12 MiB.
    List = 64 * MIB,
}

// Kept bytes come from memory: a longer file is in a temporary file, from which `read` does not take them.
const _: () = assert!(Keep::List as u64 <= IN_MEMORY as u64);

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
    /// Without the code objects in its bundles. Reading fails with [`NotKept`] if the file needs some of the
    /// bytes that were taken for code. Then the caller has to read the file again with [`Self::Whole`].
    #[default]
    WithoutCode,
    Whole,
    /// Whole, for a caller that reads on in the binary.
    ForCaller,
}

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct ReadContent {
    pub(super) facts: ContentFacts,
    /// The bytes of a host binary that were held, unless they are among the facts.
    pub(super) binary: Option<Spool>,
}

/// Reads a file to its end and hashes it. A file that does not have `len` bytes is an error.
pub(super) fn read(
    source: impl BufRead,
    len: u64,
    keep: Keep,
    hold: Hold,
) -> io::Result<ReadContent> {
    let is_kept = keep.is_for(len);
    let mut hasher = Hasher::default();
    let mut source = InspectReader::new(source, |bytes| hasher.update(bytes));
    let mut begin = [0; BEGIN];
    let count = read_full(&mut source, &mut begin)?;
    let begin = &begin[..count];
    let form = Form::of(begin, is_kept);
    let mut whole = ForwardStream(begin.chain(&mut source));
    let mut facts = ContentFacts::default();
    let mut binary = None;
    // Each branch reads to the end, so that the hash is the hash of the whole file.
    if hold == Hold::Nothing && !is_kept {
        whole.skip(u64::MAX)?;
    } else if form == Form::Other {
        facts.code = code::read(begin, &mut whole)?;
        whole.skip(u64::MAX)?;
    } else {
        let file = match hold {
            Hold::WithoutCode if !is_kept => SparseFile::binary(&mut whole, IN_MEMORY)?,
            Hold::ForCaller if !is_kept => SparseFile::whole(&mut whole, LITTLE_MEMORY)?,
            _ => SparseFile::whole(&mut whole, IN_MEMORY)?,
        };
        facts = form.examine(&file, LoaderTables::Proven)?;
        binary = Some(file.into_bytes());
    }
    facts.is_script = begin.starts_with(SCRIPT_MAGIC);
    let size = SizeAndDigest::of_hashed(hasher, len)?;
    // Kept bytes are among the facts, so they are not handed over as a binary too.
    let kept = binary.take_if(|_| is_kept).and_then(Spool::into_memory);
    Ok(ReadContent { facts: facts.with_size(size, kept), binary })
}

/// Whether the tables of a library that a loader uses are proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoaderTables {
    Proven,
    /// For installed files: no rule for environments asks for them.
    NotAsked,
}

/// Examines a file that can be read at any offset, and whose digest is known or is not asked for.
pub(super) fn examine(
    file: &dyn ReadAt,
    sha256: Option<Sha256>,
    keep: Keep,
    loader_tables: LoaderTables,
) -> io::Result<ContentFacts> {
    let len = file.len();
    let read_begin = |count| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        ReadFrom::new(file, 0).take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let begin = read_begin(BEGIN as u64)?;
    let form = Form::of(&begin, keep.is_for(len));
    let mut facts = match form {
        Form::Other => ContentFacts {
            code: code::read(&begin, &mut ReadFrom::new(file, 0))?,
            ..ContentFacts::default()
        },
        _ => form.examine(file, loader_tables)?,
    };
    facts.is_script = begin.starts_with(SCRIPT_MAGIC);
    let kept = if keep.is_for(len) { Some(read_begin(len)?) } else { None };
    Ok(facts.with_size(SizeAndDigest { len, sha256 }, kept))
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

    /// Reads the headers and tables of a host binary. A defect of the binary is a fact. Only a failure to
    /// read it is an error.
    fn examine(self, file: &dyn ReadAt, loader_tables: LoaderTables) -> io::Result<ContentFacts> {
        let tables = Tables::of(file);
        let facts = match self {
            Self::Elf => examine_elf(&tables, loader_tables),
            Self::Windows => ContentFacts {
                code: code::of_windows(&tables),
                imports: Some(code::imports_of_windows(&tables)),
                ..ContentFacts::default()
            },
            Self::Text | Self::Other => ContentFacts::default(),
        };
        // The functions above take a failed read for a defect of the binary, so `tables` remembers it.
        match tables.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(facts),
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

/// Random access to a file, for reads of at most [`LONGEST_TABLE`] bytes.
struct Tables<'a> {
    file: &'a dyn ReadAt,
    /// Whether a longer read was refused.
    has_refused: Cell<bool>,
    /// The first error of the file itself.
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

/// The facts of an ELF file: a host binary, or a code object.
fn examine_elf(file: &Tables<'_>, loader_tables: LoaderTables) -> ContentFacts {
    let mut host_code = None;
    let mut examine = || -> Result<ElfFile> {
        let facts = rocwheel_elf::read(file)?.context("it is cut off after its first bytes")?;
        let mut faults = Vec::new();
        if is_loadable(&facts) {
            if loader_tables == LoaderTables::Proven {
                faults = rocwheel_elf::faults(file)?;
            }
            host_code = Some(code::of_host(file, facts.kpack_ref));
        }
        Ok(ElfFile { facts, faults, launches: launched_program(file) })
    };
    let mut elf = match examine() {
        Ok(elf) => Elf::Read(Box::new(elf)),
        Err(error) => Elf::Damaged(format!("a damaged ELF file: {error:#}")),
    };
    // What was refused looks like a defect above, but it is none.
    if file.has_refused.get() {
        elf = Elf::TooLarge;
        host_code = None;
    }
    // A file that no loader loads may be a code object. Its header is at its beginning, and no table is needed.
    let code = host_code.unwrap_or_else(|| code::of_elf(file.file).unwrap_or_default());
    ContentFacts { elf: Some(elf), code, ..ContentFacts::default() }
}

/// The program that a launcher runs. `None` if the file is not a launcher.
fn launched_program(file: &dyn ReadAt) -> Option<String> {
    /// A launcher has a few kilobytes, so a larger file is not searched.
    const LARGEST: u64 = 64 << 10;
    let file = ByteRegion::whole(file);
    let len = file.len();
    if len > LARGEST {
        return None;
    }
    let bytes = file.bytes("launcher", 0, len).ok()?;
    let mark_at = bytes.windows(LAUNCHER_MARK.len()).position(|window| window == LAUNCHER_MARK)?;
    let after_mark = bytes.get(mark_at.saturating_add(LAUNCHER_MARK.len())..)?;
    let program = after_mark.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(program).into_owned())
}

#[cfg(test)]
pub(super) mod tests;
