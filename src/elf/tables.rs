//! A second parser for the headers of 64-bit little-endian files: `Elf64_Ehdr`, `Elf64_Phdr` and
//! `Elf64_Shdr` of the [gABI](https://gabi.xinuos.com/).
//!
//! The plan of a run path is made with goblin's parsers and verified with these, so that a mistake
//! in one parser does not hide in the other. The split of device code uses these for both.

use std::ops::Range;

use crate::elf::{ElfError, ReadAt, source::read_exact_at};

pub(crate) const LOAD: u32 = 1;
pub(crate) const DYNAMIC: u32 = 2;
pub(crate) const INTERP: u32 = 3;
pub(crate) const NOTE: u32 = 4;
pub(crate) const PHDR: u32 = 6;
pub(crate) const TLS: u32 = 7;
pub(crate) const EH_FRAME: u32 = 0x6474_e550;
pub(crate) const STACK: u32 = 0x6474_e551;
pub(crate) const RELRO: u32 = 0x6474_e552;
pub(crate) const PROPERTY: u32 = 0x6474_e553;

pub(crate) const PROGBITS: u32 = 1;
pub(crate) const STRTAB: u32 = 3;
pub(crate) const NOBITS: u32 = 8;
pub(crate) const ALLOC: u64 = 2;
pub(crate) const SECTION_EXECUTE: u64 = 4;
/// `PF_X`: the segment is executable.
pub(crate) const EXECUTE: u32 = 1;

/// The size of a program header, and of a section header.
pub(crate) const SEGMENT: u64 = 56;
pub(crate) const SECTION: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) physical: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) align: u64,
}

/// The headers of a file.
#[derive(Debug)]
pub(crate) struct ElfTables {
    pub(crate) len: u64,
    pub(crate) header: [u8; 64],
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The name; empty unless a reader fills it in.
    pub(crate) name: String,
    /// The offset of the name in the section name table.
    pub(crate) name_at: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// The last fields as they are in the file: `sh_link`, `sh_info`, `sh_addralign`, `sh_entsize`.
    pub(crate) rest: [u8; 24],
}

impl ElfTables {
    pub(crate) fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, ElfError> {
        let mut header = [0; 64];
        read_exact_at(source, 0, &mut header)?;
        let mut tables = Self {
            len: source.len(),
            header,
            segments: Vec::new(),
            sections: Vec::new(),
        };
        let count = half(&header, 56);
        if count == u16::MAX {
            return Err(ElfError::damaged("too many program headers"));
        }
        let bytes = entries(source, tables.table(), (count, half(&header, 54)), SEGMENT)?;
        tables.segments = bytes.chunks_exact(56).map(Segment::parse).collect();
        if tables.section_table() != 0 {
            let count = (half(&header, 60), half(&header, 58));
            let bytes = entries(source, tables.section_table(), count, SECTION)?;
            tables.sections = bytes.chunks_exact(64).map(Section::parse).collect();
        }
        Ok(tables)
    }

    /// Whether this is a program at a fixed address (`ET_EXEC`).
    pub(crate) fn is_fixed(&self) -> bool {
        half(&self.header, 16) == 2
    }

    /// The address at which a program starts (`e_entry`).
    pub(crate) fn entry(&self) -> u64 {
        long(&self.header, 24)
    }

    /// The offset of the program headers in the file.
    pub(crate) fn table(&self) -> u64 {
        long(&self.header, 32)
    }

    /// The offset of the section headers in the file; 0 if there are none.
    pub(crate) fn section_table(&self) -> u64 {
        long(&self.header, 40)
    }

    pub(crate) fn loads(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == LOAD)
    }

    pub(crate) fn first(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// The offset in the file of `len` bytes at an address; `None` if no segment loads all of them.
    pub(crate) fn place(&self, address: u64, len: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let rest = load.file_size.checked_sub(inside)?;
            (rest >= len).then(|| load.offset.saturating_add(inside))
        })
    }

    /// The tags and values of the dynamic table before `DT_NULL`; `None` if there is no table, or
    /// if it is not terminated.
    pub(crate) fn dynamic(
        &self,
        source: &(impl ReadAt + ?Sized),
    ) -> Result<Option<Vec<(u64, u64)>>, ElfError> {
        let Some(place) = self.first(DYNAMIC) else {
            return Ok(None);
        };
        let mut entries = Vec::new();
        for index in 0..place.file_size / 16 {
            let mut entry = [0; 16];
            read_exact_at(source, place.offset.saturating_add(index * 16), &mut entry)?;
            match (long(&entry, 0), long(&entry, 8)) {
                (0, _) => return Ok(Some(entries)),
                pair => entries.push(pair),
            }
        }
        Ok(None)
    }
}

/// Reads a table of `count` entries. The entry size in the file header must be the usual one.
fn entries(
    source: &(impl ReadAt + ?Sized),
    start: u64,
    (count, stated): (u16, u16),
    size: u64,
) -> Result<Vec<u8>, ElfError> {
    if count > 0 && u64::from(stated) != size {
        return Err(ElfError::damaged(format!(
            "headers of {stated} bytes instead of {size}"
        )));
    }
    let mut bytes = vec![0; usize::from(count) * usize::try_from(size).unwrap_or(0)];
    read_exact_at(source, start, &mut bytes)?;
    Ok(bytes)
}

impl Segment {
    pub(crate) fn parse(entry: &[u8]) -> Self {
        Self {
            kind: word(entry, 0),
            flags: word(entry, 4),
            offset: long(entry, 8),
            address: long(entry, 16),
            physical: long(entry, 24),
            file_size: long(entry, 32),
            memory_size: long(entry, 40),
            align: long(entry, 48),
        }
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        let mut bytes = [self.kind.to_le_bytes(), self.flags.to_le_bytes()].concat();
        for number in [
            self.offset,
            self.address,
            self.physical,
            self.file_size,
            self.memory_size,
            self.align,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn file(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.file_size)
    }

    pub(crate) fn memory(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.memory_size)
    }

    /// The distance between the segment's address and its offset in the file.
    pub(crate) fn bias(&self) -> u64 {
        self.address.wrapping_sub(self.offset)
    }

    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let file = self.file();
        file.start <= range.start && range.end <= file.end
    }
}

impl Section {
    pub(crate) fn parse(entry: &[u8]) -> Self {
        Self {
            name: String::new(),
            name_at: word(entry, 0),
            kind: word(entry, 4),
            flags: long(entry, 8),
            address: long(entry, 16),
            offset: long(entry, 24),
            size: long(entry, 32),
            rest: *entry.last_chunk().unwrap_or(&[0; 24]),
        }
    }

    pub(crate) fn render(&self) -> Vec<u8> {
        let mut bytes = [self.name_at.to_le_bytes(), self.kind.to_le_bytes()].concat();
        for number in [self.flags, self.address, self.offset, self.size] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.rest);
        bytes
    }

    /// Its bytes in the file; an empty range for `SHT_NOBITS`.
    pub(crate) fn file(&self) -> Range<u64> {
        let size = if matches!(self.kind, 0 | NOBITS) {
            0
        } else {
            self.size
        };
        self.offset..self.offset.saturating_add(size)
    }

    pub(crate) fn memory(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// A little-endian number of at most eight bytes. Bytes behind the end count as 0.
pub(crate) fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at.saturating_add(size)).unwrap_or_default();
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u16::from_le_bytes(bytes.copied().unwrap_or_default())
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}
