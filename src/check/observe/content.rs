//! Reads one member of a package in one pass: hashes it, and takes its facts.
//!
//! A host binary needs random access. A file that begins like one is held until its end is read: in
//! memory, or in a temporary file if it has more than [`IN_MEMORY`] bytes. So the memory is bounded
//! for any set, and no member is unpacked twice.

use std::{
    cell::Cell,
    io::{self, Read, Write as _},
};

use crate::{
    check::{
        facts::{ContentFacts, DeviceCodeFacts, Elf, ElfFile, HostCode},
        observe::{
            code::{self, Sifting},
            host_code,
        },
    },
    digest::Hasher,
    elf::{self, Machine, ReadAt},
    spool::Spool,
};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const WINDOWS_MAGIC: &[u8] = b"MZ";
const MIB: usize = 1 << 20;
/// The longest RECORD or manifest that is kept. The RECORD of 100,000 files has 12 MiB.
const LONGEST_LIST: usize = 64 * MIB;
/// The longest text that is kept, such as METADATA, which may contain a README of 1 MiB.
const LONGEST_TEXT: usize = 4 * MIB;
/// The longest binary that is held in memory; a thread holds one at a time. Longer ones are written
/// to a temporary file, which takes little time compared with unpacking and hashing them.
const IN_MEMORY: usize = 64 * MIB;
/// The longest table of a binary that is read. Tables are read as a whole, and a hostile file could
/// claim one of any size. Linkers make none that is longer.
const LONGEST_TABLE: usize = 64 * MIB;
const CHUNK: usize = 128 << 10;
/// The text before the target in a launcher.
const LAUNCHER_MARK: &[u8] = b"rocwheel launcher runs: ";

/// Whether the rules need the bytes of a file, or its facts only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Text,
    List,
    Facts,
}

impl Keep {
    /// The longest file whose bytes are kept.
    fn most(self) -> usize {
        match self {
            Self::Text => LONGEST_TEXT,
            Self::List => LONGEST_LIST,
            Self::Facts => 0,
        }
    }
}

/// The format of a host binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostFileForm {
    Elf,
    Windows,
}

impl HostFileForm {
    fn of(begin: &[u8]) -> Option<Self> {
        match begin {
            _ if begin.starts_with(ELF_MAGIC) => Some(Self::Elf),
            _ if begin.starts_with(WINDOWS_MAGIC) => Some(Self::Windows),
            _ => None,
        }
    }
}

/// Reads a file to its end and hashes it. A file that does not have `len` bytes is an error.
pub(super) fn read(mut source: impl Read, len: u64, keep: Keep) -> io::Result<ContentFacts> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; CHUNK];
    let mut chunk = fill(&mut source, &mut buffer)?;
    let form = HostFileForm::of(chunk);
    let is_kept = keep != Keep::Facts && len <= keep.most() as u64;
    let mut device = match keep {
        Keep::Facts => Sifting::of(chunk),
        Keep::Text | Keep::List => None,
    };
    let mut held = Spool::new(IN_MEMORY);
    while !chunk.is_empty() {
        hasher.write_all(chunk)?;
        if is_kept || form.is_some() {
            held.push(chunk)?;
        }
        if let Some(device) = &mut device {
            device.take(chunk);
        }
        chunk = fill(&mut source, &mut buffer)?;
    }
    let (sha256, found) = hasher.finish();
    if found != len {
        return Err(io::Error::other(format!(
            "it has {found} bytes, and {len} in the directory of the archive"
        )));
    }
    let is_elf = form == Some(HostFileForm::Elf);
    Ok(ContentFacts {
        len,
        sha256,
        elf: is_elf.then(|| examine(&held)),
        code: match device {
            Some(device) => Some(device.finish()),
            None => code_of_elf(&held).filter(|_| is_elf),
        },
        windows: (form == Some(HostFileForm::Windows))
            .then(|| host_code::of_windows(&Tables::of(&held))),
        kept: held.into_memory().filter(|_| is_kept),
    })
}

fn code_of_elf(held: &Spool) -> Option<DeviceCodeFacts> {
    code::of_elf(&Tables::of(held))
}

/// The facts of an ELF file. `None` for other files, of which only the beginning is read.
pub(super) fn elf(mut source: impl Read) -> io::Result<Option<Elf>> {
    let mut buffer = vec![0; CHUNK];
    let mut chunk = fill(&mut source, &mut buffer)?;
    if HostFileForm::of(chunk) != Some(HostFileForm::Elf) {
        return Ok(None);
    }
    let mut held = Spool::new(IN_MEMORY);
    while !chunk.is_empty() {
        held.push(chunk)?;
        chunk = fill(&mut source, &mut buffer)?;
    }
    Ok(Some(examine(&held)))
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

/// Fills the buffer; returns fewer bytes only at the end of the file.
fn fill<'a>(source: &mut impl Read, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(count) => done = done.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get(..done).unwrap_or_default())
}

fn examine(held: &Spool) -> Elf {
    let file = Tables::of(held);
    let elf = match elf::read(&file) {
        Err(error) => Elf::Damaged(error.to_string()),
        Ok(None) => Elf::Damaged("it is cut off after its first bytes".to_owned()),
        Ok(Some(facts)) => {
            let loads = facts.machine == Machine::X86_64 && facts.kind != elf::ElfKind::Other;
            let faults = if loads {
                elf::faults(&file)
            } else {
                Ok(Vec::new())
            };
            match faults {
                Err(error) => Elf::Damaged(error.to_string()),
                Ok(faults) => Elf::Read(Box::new(ElfFile {
                    launches: held.memory().and_then(launches),
                    code: if loads {
                        host_code::of_elf(&file, facts.kpack_ref)
                    } else {
                        HostCode::None
                    },
                    facts,
                    faults,
                })),
            }
        }
    };
    if file.has_refused.get() {
        return Elf::TooLarge;
    }
    elf
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
