//! Reads the sections and data directories of 64-bit Windows binaries, and converts addresses to
//! offsets. See the [PE format](https://learn.microsoft.com/en-us/windows/win32/debug/pe-format).

use std::ops::Range;

use crate::{
    elf::{ReadAt, tables::number},
    error::{Result, ensure},
    kpack::ByteRegion,
};

/// Size of a section header.
const SECTION: u64 = 40;
const MOST_SECTIONS: u64 = 96;
/// The magic number of the optional header of 64-bit images (PE32+).
const OPTIONAL_MAGIC: u64 = 0x20b;
/// The offset in the optional header of the number of data directories. Behind it are their
/// addresses and sizes.
const TABLES: u64 = 108;

pub(super) struct Pe<'a, R: ?Sized> {
    pub(super) file: ByteRegion<'a, R>,
    pub(super) sections: Vec<PeSection>,
    /// The offset of the optional header.
    optional: u64,
    /// The preferred load address. Pointers in the file are absolute and contain it.
    base: u64,
}

#[derive(Clone, Debug)]
pub(super) struct PeSection {
    /// At most eight bytes, padded with NUL.
    pub(super) name: Vec<u8>,
    /// Relative to the start of the image (RVA).
    pub(super) address: u64,
    pub(super) file: Range<u64>,
}

/// The offset of the signature `PE\0\0`; `None` if the file is not a Windows binary.
pub(super) fn header(file: &ByteRegion<'_, impl ReadAt + ?Sized>) -> Result<Option<u64>> {
    if !file.has(0, b"MZ")? || file.len() < 64 {
        return Ok(None);
    }
    let header = file.number("header", 0x3c, 4)?;
    Ok(file.has(header, b"PE\0\0")?.then_some(header))
}

/// Reads the section table. The contents of a section in the file are padded to the file alignment,
/// so its range ends at its size in memory if that is smaller.
pub(super) fn sections(
    file: &ByteRegion<'_, impl ReadAt + ?Sized>,
    header: u64,
) -> Result<Vec<PeSection>> {
    let count = file.number("number of sections", header.saturating_add(6), 2)?;
    ensure!(count <= MOST_SECTIONS, "{count} sections");
    let optional = file.number("length of a header", header.saturating_add(20), 2)?;
    let table = header.saturating_add(24).saturating_add(optional);
    let bytes = file.bytes("section table", table, count.saturating_mul(SECTION))?;
    let section = |entry: &[u8]| {
        let (used, size) = (number(entry, 8, 4), number(entry, 16, 4));
        let start = number(entry, 20, 4);
        PeSection {
            name: entry.get(..8).unwrap_or_default().to_vec(),
            address: number(entry, 12, 4),
            file: start..start.saturating_add(size.min(used)),
        }
    };
    Ok(bytes.chunks_exact(40).map(section).collect())
}

impl<'a, R: ReadAt + ?Sized> Pe<'a, R> {
    pub(super) fn new(
        file: ByteRegion<'a, R>,
        header: u64,
        sections: Vec<PeSection>,
    ) -> Result<Self> {
        let optional = header.saturating_add(24);
        ensure!(
            file.number("header", optional, 2)? == OPTIONAL_MAGIC,
            "not a Windows binary of 64 bits"
        );
        Ok(Self {
            base: file.number("header", optional.saturating_add(24), 8)?,
            file,
            sections,
            optional,
        })
    }

    /// The RVA and the size of a data directory, if the image has it.
    pub(super) fn table(&self, number: u64) -> Result<Option<(u64, u64)>> {
        let field = |at| {
            let place = self.optional.saturating_add(at);
            self.file.number("header", place, 4)
        };
        if field(TABLES)? <= number {
            return Ok(None);
        }
        let entry = number.saturating_mul(8).saturating_add(TABLES + 4);
        let (address, size) = (field(entry)?, field(entry.saturating_add(4))?);
        Ok((address > 0 && size > 0).then_some((address, size)))
    }

    /// The range in the file from the target of a pointer to the end of its section.
    pub(super) fn locate(&self, pointer: u64) -> Option<Range<u64>> {
        self.place(pointer.checked_sub(self.base)?)
    }

    /// The range in the file from an RVA to the end of its section.
    pub(super) fn place(&self, address: u64) -> Option<Range<u64>> {
        self.sections.iter().find_map(|section| {
            let inside = address.checked_sub(section.address)?;
            let place = section.file.start.saturating_add(inside);
            (place < section.file.end).then_some(place..section.file.end)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) const BASE: u64 = 0x1_8000_0000;

    /// A section: its name, its address, its bytes.
    pub(crate) type Part<'a> = (&'a [u8; 8], u32, &'a [u8]);

    /// A binary with these sections, and with tables at these addresses of these lengths.
    pub(crate) fn binary(parts: &[Part<'_>], tables: &[(usize, u32, u32)]) -> Vec<u8> {
        let mut file = b"MZ".to_vec();
        file.resize(0x3c, 0);
        file.extend(0x40_u32.to_le_bytes());
        file.extend(b"PE\0\0\x64\x86");
        file.extend(u16::try_from(parts.len()).unwrap().to_le_bytes());
        file.extend([0; 12]);
        file.extend([240, 0, 0x22, 0x20]);
        let optional = file.len();
        file.resize(optional + 240, 0);
        file[optional..optional + 2].copy_from_slice(&[0x0b, 2]);
        file[optional + 24..optional + 32].copy_from_slice(&BASE.to_le_bytes());
        file[optional + 108] = 16;
        for (number, address, len) in tables {
            let entry = optional + 112 + number * 8;
            file[entry..entry + 4].copy_from_slice(&address.to_le_bytes());
            file[entry + 4..entry + 8].copy_from_slice(&len.to_le_bytes());
        }
        let mut content = Vec::new();
        for (name, address, bytes) in parts {
            let len = u32::try_from(bytes.len()).unwrap();
            let padded = len.next_multiple_of(512);
            let start = 0x400 + u32::try_from(content.len()).unwrap();
            file.extend(*name);
            for number in [len, *address, padded, start] {
                file.extend(number.to_le_bytes());
            }
            file.extend([0; 16]);
            content.extend(*bytes);
            content.resize((start - 0x400 + padded) as usize, 0);
        }
        file.resize(0x400, 0);
        file.extend(content);
        file
    }
}
