//! What is learned from the bytes of one file while they pass.
//!
//! A file of up to `WHOLE` bytes is held in memory while it is examined. Of a larger ELF file only
//! the parts are held that say something about it; those that nobody foresaw are read again.

use std::{
    io::{self, Read, Write as _},
    iter,
    ops::Range,
    slice,
};

use crate::{
    check::{
        facts::{Code, Content, Elf, ElfFile, HostCode, WindowsFile},
        observe::{
            bundles::Bundles,
            code::{self, Sifting},
            host_code::Binary,
            windows::Windows,
        },
    },
    digest::Hasher,
    elf::{self, Machine, ReadAt},
    kpack::{Region, host},
};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const WINDOWS_MAGIC: &[u8] = b"MZ";
const MIB: u64 = 1 << 20;
/// RECORD and manifests; the RECORD of 100,000 files has 12 MiB.
const LONGEST_LIST: u64 = 64 * MIB;
/// What people or build tools write: METADATA with the text of a whole README has 1 MiB.
const LONGEST_TEXT: u64 = 4 * MIB;
const WHOLE: u64 = 32 * MIB;
/// Symbols and their names come first, section headers last.
const HEAD: u64 = 8 * MIB;
const TAIL: u64 = 4 * MIB;
/// What is read around a part that nobody foresaw.
const AROUND: u64 = MIB;
/// No more than this is held of a file, and no file is read more often.
const MOST: u64 = 2 * WHOLE;
const MOST_READINGS: usize = 16;
const CHUNK: usize = 128 << 10;
/// What stands before the target in a launcher.
const LAUNCHER_MARK: &[u8] = b"rocwheel launcher runs: ";

/// Whether the bytes of a file are kept for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Text,
    List,
    Facts,
}

impl Keep {
    /// How long a file may be for its bytes to be kept.
    fn most(self) -> u64 {
        match self {
            Self::Text => LONGEST_TEXT,
            Self::List => LONGEST_LIST,
            Self::Facts => 0,
        }
    }
}

/// How the bytes of a file are read once more.
pub(super) type Again<'a> = &'a dyn Fn() -> io::Result<Box<dyn Read + 'a>>;

/// Reads a file of so many bytes to its end, and hashes it.
pub(super) fn read(
    mut source: impl Read,
    len: u64,
    keep: Keep,
    again: Again<'_>,
) -> io::Result<Content> {
    let mut hasher = Hasher::default();
    let mut sieve = Sieve::new(len, keep);
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = fill(&mut source, &mut buffer)?;
        if chunk.is_empty() {
            break;
        }
        hasher.write_all(chunk)?;
        sieve.take(chunk);
    }
    let (sha256, found) = hasher.finish();
    let mut content = Content {
        len: found,
        sha256,
        kept: None,
        elf: None,
        code: None,
        windows: None,
    };
    if found != len {
        return Err(io::Error::other(format!(
            "it has {found} bytes, and {len} in the directory of the archive"
        )));
    }
    match sieve.examined(again)? {
        Some(Examined::Elf(elf)) => content.elf = Some(elf),
        Some(Examined::Windows(file)) => content.windows = Some(file),
        None => {}
    }
    content.code = sieve.code();
    if keep != Keep::Facts {
        content.kept = sieve.windows.into_whole();
    }
    Ok(content)
}

/// What an ELF file of so many bytes says; of other files no more than the beginning is read.
pub(super) fn elf(mut source: impl Read, len: u64, again: Again<'_>) -> io::Result<Option<Elf>> {
    let mut sieve = Sieve::new(len, Keep::Facts);
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = fill(&mut source, &mut buffer)?;
        if chunk.is_empty() {
            break;
        }
        sieve.take(chunk);
        if sieve.form != Some(Form::Elf) {
            break;
        }
    }
    match sieve.examined(again)? {
        Some(Examined::Elf(elf)) => Ok(Some(elf)),
        _ => Ok(None),
    }
}

/// What a file is that hosts load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Elf,
    Windows,
}

enum Examined {
    Elf(Elf),
    Windows(WindowsFile),
}

impl Examined {
    /// What is known where something was missing to the end.
    fn in_part(self) -> Self {
        let Self::Windows(file) = self else {
            return Self::Elf(Elf::TooLarge);
        };
        let why = "its headers and tables are too far apart or too large to check";
        Self::Windows(match file.code {
            HostCode::Damaged(_) => WindowsFile {
                code: HostCode::Damaged(why.to_owned()),
                needed: file.needed,
            },
            code => WindowsFile {
                code,
                needed: Err(why.to_owned()),
            },
        })
    }
}

/// Keeps what may be asked for while a file passes.
struct Sieve {
    keep: Keep,
    at: u64,
    form: Option<Form>,
    wanted: Vec<Range<u64>>,
    windows: Windows,
    device: Option<Sifting>,
    /// Of a large file.
    bundles: Bundles,
}

impl Sieve {
    fn new(len: u64, keep: Keep) -> Self {
        Self {
            keep,
            at: 0,
            form: None,
            wanted: Vec::new(),
            windows: Windows::new(len),
            device: None,
            bundles: Bundles::of_section(0..0, len),
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        if self.at == 0 {
            self.begin(chunk);
        }
        if self.at == 0 && self.keep == Keep::Facts {
            self.device = Sifting::of(chunk);
        }
        if let Some(device) = &mut self.device {
            device.take(chunk);
        }
        self.bundles.take(chunk);
        self.windows.keep(self.at, chunk, &self.wanted);
        self.at = self.at.saturating_add(chunk.len() as u64);
    }

    fn begin(&mut self, chunk: &[u8]) {
        let len = self.windows.len();
        self.form = match chunk {
            _ if chunk.starts_with(ELF_MAGIC) => Some(Form::Elf),
            _ if chunk.starts_with(WINDOWS_MAGIC) => Some(Form::Windows),
            _ => None,
        };
        self.wanted = match self.form {
            _ if len <= self.keep.most() => ranges(iter::once(0..len)),
            Some(_) if len <= WHOLE => ranges(iter::once(0..len)),
            Some(Form::Elf) => foreseen(chunk, len),
            Some(Form::Windows) => ranges([0..AROUND, len.saturating_sub(TAIL)..len]),
            None => Vec::new(),
        };
        self.bundles = match self.form {
            Some(Form::Elf) if len > WHOLE => Bundles::anywhere(len),
            Some(Form::Windows) if len > WHOLE => {
                // These have their sections at the begin.
                let code = host::windows_code(&Region::whole(chunk));
                Bundles::of_section(code.ok().flatten().unwrap_or(0..0), len)
            }
            _ => Bundles::of_section(0..0, len),
        };
    }

    /// What the file has code for, if it is for devices.
    fn code(&mut self) -> Option<Code> {
        match self.device.take() {
            Some(device) => Some(device.finish()),
            None if self.form == Some(Form::Elf) => code::of_elf(&self.windows),
            None => None,
        }
    }

    /// Examines the file, and reads it again for as long as something is missing.
    fn examined(&mut self, again: Again<'_>) -> io::Result<Option<Examined>> {
        let Some(form) = self.form else {
            return Ok(None);
        };
        let mut last = None;
        for _ in 0..MOST_READINGS {
            let binary = Binary {
                file: &self.windows,
                bundles: &self.bundles,
            };
            let examined = match form {
                Form::Elf => Examined::Elf(examine(&binary)),
                Form::Windows => Examined::Windows(binary.of_windows()),
            };
            if let Some(section) = self.bundles.take_missing() {
                let end = section.end;
                self.bundles = Bundles::of_section(section, self.windows.len());
                read_up_to(end, again, |_, chunk| self.bundles.take(chunk))?;
                // What else was missing comes up again.
                self.windows.take_missing();
                last = Some(examined);
                continue;
            }
            let Some(missing) = self.windows.take_missing() else {
                return Ok(Some(examined));
            };
            last = Some(examined);
            let start = missing.start.saturating_sub(AROUND);
            let end = missing.end.saturating_add(AROUND).min(self.windows.len());
            let more = end.saturating_sub(start);
            if self.windows.held().saturating_add(more) > MOST {
                break;
            }
            let wanted = start..end;
            read_up_to(end, again, |at, chunk| {
                self.windows.keep(at, chunk, slice::from_ref(&wanted));
            })?;
        }
        Ok(last.map(Examined::in_part))
    }
}

/// Reads a file once more, as far as that is asked for.
fn read_up_to(end: u64, again: Again<'_>, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let mut source = again()?.take(end);
    let (mut at, mut buffer) = (0_u64, vec![0; CHUNK]);
    loop {
        let chunk = fill(&mut source, &mut buffer)?;
        if chunk.is_empty() {
            return Ok(());
        }
        take(at, chunk);
        at = at.saturating_add(chunk.len() as u64);
    }
}

/// What is asked of a large file, as far as its beginning tells.
fn foreseen(head: &[u8], len: u64) -> Vec<Range<u64>> {
    const DYNAMIC: u32 = 2;
    let half = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .copied()
            .map(u16::from_le_bytes)
    };
    let word = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .copied()
            .map(u32::from_le_bytes)
    };
    let long = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .copied()
            .map(u64::from_le_bytes)
    };
    let mut wanted = vec![0..HEAD, len.saturating_sub(TAIL)..len];
    let table = long(32).and_then(|at| usize::try_from(at).ok());
    for index in 0..usize::from(half(56).unwrap_or(0)) {
        let entry = index.checked_mul(56).and_then(|at| at.checked_add(table?));
        let Some(entry) = entry.filter(|at| *at < <[u8]>::len(head)) else {
            break;
        };
        if word(entry) == Some(DYNAMIC) {
            let start = long(entry.saturating_add(8)).unwrap_or(0);
            wanted.push(start..start.saturating_add(AROUND));
        }
    }
    if let Some(sections) = long(40) {
        wanted.push(sections..sections.saturating_add(AROUND));
    }
    ranges(
        wanted
            .into_iter()
            .map(|range| range.start..range.end.min(len)),
    )
}

/// Ascending, with those joined that touch.
fn ranges(all: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = all.into_iter().filter(|range| !range.is_empty()).collect();
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// As many bytes as the buffer holds, fewer at the end only.
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

fn examine(binary: &Binary<'_>) -> Elf {
    let file = binary.file;
    match elf::read(file) {
        Err(error) => Elf::Damaged(error.to_string()),
        Ok(None) => Elf::Damaged("it is cut off after its first bytes".to_owned()),
        Ok(Some(facts)) => {
            let loads = facts.machine == Machine::X86_64 && facts.kind != elf::Kind::Other;
            let faults = if loads {
                elf::faults(file)
            } else {
                Ok(Vec::new())
            };
            match faults {
                Err(error) => Elf::Damaged(error.to_string()),
                Ok(faults) => Elf::Read(Box::new(ElfFile {
                    launches: file.whole().and_then(launches),
                    code: if loads {
                        binary.of_elf(facts.kpack_ref)
                    } else {
                        HostCode::None
                    },
                    facts,
                    faults,
                })),
            }
        }
    }
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
