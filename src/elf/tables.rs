//! Program and section headers of 64-bit little-endian files as they stand in the file, after the
//! [gABI](https://gabi.xinuos.com/): `Elf64_Phdr` and `Elf64_Shdr`.
//!
//! Plans are made from what goblin reads. What they come to is judged by these few lines, and the split
//! of device code uses them too: a mistake of one reader does not hide in the other.

use std::ops::Range;

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
/// What a segment may be used for.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Where its name begins in the table of names.
    pub(crate) name_at: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Link, info, alignment, size of an entry.
    pub(crate) rest: [u8; 24],
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

    /// How far the segment is in memory from its place in the file.
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

    /// What it takes of the file.
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
