//! Reads one member of a package in one pass: hashes it, and takes its facts.
//!
//! A host binary needs random access. A file that begins like one is held until its end is read: in
//! memory, or in a temporary file if it has more than [`IN_MEMORY`] bytes. So the memory is bounded
//! for any set, and no member is unpacked twice.

use std::{
    cell::Cell,
    io::{self, BufReader, Read, Write as _},
};

use crate::{
    check::{
        facts::{ContentFacts, DeviceCodeFacts, Elf, ElfFile},
        observe::code,
    },
    digest::Hasher,
    elf::{self, ReadAt},
    error::Context as _,
    loader::is_loadable,
    spool::Spool,
};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const WINDOWS_MAGIC: &[u8] = b"MZ";
const MIB: u64 = 1 << 20;
/// The longest binary that is held in memory; a thread holds one at a time. Longer ones are written
/// to a temporary file, which takes little time compared with unpacking and hashing them.
const IN_MEMORY: usize = 64 << 20;
/// The longest table of a binary that is read. Tables are read as a whole, and a hostile file could
/// claim one of any size. Linkers make none that is longer.
const LONGEST_TABLE: usize = 64 << 20;
const CHUNK: usize = 128 << 10;
/// The text before the target in a launcher.
const LAUNCHER_MARK: &[u8] = b"rocwheel launcher runs: ";

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

/// Reads a file to its end and hashes it. A file that does not have `len` bytes is an error.
pub(super) fn read(source: impl Read, len: u64, keep: Keep) -> io::Result<ContentFacts> {
    let mut source = BufReader::with_capacity(CHUNK, HashedReader::new(source));
    let mut begin = Vec::new();
    source.by_ref().take(4).read_to_end(&mut begin)?;
    let is_kept = keep != Keep::Facts && len <= keep as u64;
    let is_elf = begin.starts_with(ELF_MAGIC);
    let is_windows = begin.starts_with(WINDOWS_MAGIC);
    let mut held = Spool::new(IN_MEMORY);
    let (mut elf, mut imports, mut code) = (None, None, DeviceCodeFacts::None);
    let mut whole = begin.as_slice().chain(&mut source);
    if is_kept || is_elf || is_windows {
        let mut chunk = Vec::new();
        while whole.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)? > 0 {
            held.push(&chunk)?;
            chunk.clear();
        }
    } else {
        code = code::read(&begin, &mut whole)?;
    }
    io::copy(&mut source, &mut io::sink())?;
    if is_elf {
        let (examined, found) = examine(&held);
        (code, elf) = (found, Some(examined));
    } else if is_windows {
        let (found, names) = code::of_windows(&Tables::of(&held));
        (code, imports) = (found, Some(names));
    }
    let kept = held.into_memory().filter(|_| is_kept);
    Ok(ContentFacts {
        elf,
        code,
        imports,
        ..source.into_inner().content(len, kept)?
    })
}

/// Hashes and counts the bytes that are read through it.
pub(super) struct HashedReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R> HashedReader<R> {
    pub(super) fn new(inner: R) -> Self {
        let hasher = Hasher::default();
        Self { inner, hasher }
    }

    /// The facts about any file. Fails if it does not have `len` bytes.
    pub(super) fn content(self, len: u64, kept: Option<Vec<u8>>) -> io::Result<ContentFacts> {
        let (sha256, found) = self.hasher.finish();
        if found != len {
            return Err(io::Error::other(format!(
                "it has {found} bytes, and {len} in the directory of the archive"
            )));
        }
        Ok(ContentFacts {
            len,
            sha256,
            kept,
            elf: None,
            code: DeviceCodeFacts::None,
            imports: None,
        })
    }
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let passed = buffer.get(..count).unwrap_or_default();
        self.hasher.write_all(passed)?;
        Ok(count)
    }
}

/// Random access to a held file that refuses reads longer than [`LONGEST_TABLE`], and remembers
/// that it did.
struct Tables<'a> {
    file: &'a Spool,
    has_refused: Cell<bool>,
}

impl<'a> Tables<'a> {
    fn of(file: &'a Spool) -> Self {
        Self {
            file,
            has_refused: Cell::new(false),
        }
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
        self.file.read_at(offset, buffer)
    }
}

/// What an ELF file says, and its device code.
fn examine(held: &Spool) -> (Elf, DeviceCodeFacts) {
    let file = Tables::of(held);
    let object = || code::of_elf(&Tables::of(held)).unwrap_or_default();
    let examined = elf::read(&file).and_then(|facts| {
        let facts = facts.context("it is cut off after its first bytes")?;
        let (mut faults, mut code) = (Vec::new(), object());
        if is_loadable(&facts) {
            faults = elf::faults(&file)?;
            code = code::of_host(&file, facts.kpack_ref);
        }
        let launches = held.memory().and_then(launches);
        let file = ElfFile {
            facts,
            faults,
            launches,
        };
        Ok((Elf::Read(Box::new(file)), code))
    });
    if file.has_refused.get() {
        return (Elf::TooLarge, object());
    }
    examined.unwrap_or_else(|error| {
        let why = format!("a damaged ELF file: {error:#}");
        (Elf::Damaged(why), object())
    })
}

fn launches(bytes: &[u8]) -> Option<String> {
    /// A launcher is a few kilobytes; nothing larger is searched.
    const LARGEST: usize = 64 << 10;
    let bytes = Some(bytes).filter(|bytes| <[u8]>::len(bytes) <= LARGEST)?;
    let mut windows = bytes.windows(<[u8]>::len(LAUNCHER_MARK));
    let at = windows.position(|window| window == LAUNCHER_MARK)?;
    let rest = bytes.get(at.saturating_add(<[u8]>::len(LAUNCHER_MARK))..)?;
    let target = rest.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(target).into_owned())
}

#[cfg(test)]
mod tests;
