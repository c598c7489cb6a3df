//! A host binary as the split reads it: its headers with the names of the sections, and its bytes
//! by offset or by address.

use std::ops::Range;

use derive_more::Deref;
use goblin::elf::{
    header::{EM_X86_64, ET_DYN, ET_EXEC},
    section_header::{SHT_DYNSYM, SHT_SYMTAB},
};

use crate::{
    elf::{
        ReadAt,
        tables::{ElfTables, SECTION_EXECUTE, Section, Segment, half, number, overlaps},
    },
    error::{Context as _, Result, ensure},
    kpack::{ByteRegion, host::CODE},
};

/// Names of sections are cut to this length, which is longer than all names that we look for.
///
/// In a damaged file the name table may be hundreds of megabytes without a NUL. Every section would
/// then keep a copy of it as its name.
const LONGEST_NAME: usize = 64;

pub(super) const PAGE: u64 = 4096;

#[derive(Deref)]
pub(super) struct HostImage<'a> {
    pub(super) file: ByteRegion<'a>,
    #[deref]
    tables: ElfTables<'a>,
}

impl<'a> HostImage<'a> {
    /// Reads the program and section headers of a file; `None` if it is not a 64-bit little-endian
    /// ELF file.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let file = ByteRegion::whole(source);
        if !file.has(0, b"\x7fELF\x02\x01")? || file.len() < 64 {
            return Ok(None);
        }
        let tables = ElfTables::read(source)?;
        let mut image = Self { file, tables };
        if let Some(names) = image.sections.get(image.names()) {
            let (start, size) = (names.offset, names.size);
            ensure!(size <= 1 << 28, "section names of {size} bytes");
            let names = file.bytes("section name table", start, size)?;
            for section in &mut image.tables.sections {
                let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
                let name = names.get(start..).unwrap_or_default().iter().copied();
                let name = name.take_while(|byte| *byte != 0).take(LONGEST_NAME);
                let name: Vec<u8> = name.collect();
                section.name = String::from_utf8_lossy(&name).into_owned();
            }
        }
        Ok(Some(image))
    }

    /// The index of the section with the names (`e_shstrndx`).
    pub(super) fn names(&self) -> usize {
        half(&self.header, 62).into()
    }

    /// Whether this is an executable or a shared object for x86-64. Any other file is an object
    /// file, a core dump, or for another machine.
    pub(super) fn is_host(&self) -> bool {
        let [kind, machine] = [16, 18].map(|at| half(&self.header, at));
        matches!(kind, ET_EXEC | ET_DYN) && machine == EM_X86_64
    }

    /// Like [`Self::read`], but refuses any other file.
    pub(super) fn of_host(source: &'a dyn ReadAt) -> Result<Self> {
        let image = Self::read(source)?.filter(Self::is_host);
        image.context("not a binary for x86-64")
    }

    /// The section of the code.
    pub(super) fn code(&self) -> Result<&Section> {
        self.section(CODE).with_context(|| format!("no `{CODE}`"))
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Whether a section with machine code overlaps a range of addresses.
    pub(super) fn runs_in(&self, memory: &Range<u64>) -> bool {
        self.sections.iter().any(|section| {
            section.flags & SECTION_EXECUTE != 0 && overlaps(&section.memory(), memory)
        })
    }

    /// The end of the contents: the start of the section headers if they are last, otherwise the
    /// end of the file. A new section header table replaces one that is last.
    pub(super) fn end_of_content(&self) -> u64 {
        let table = self.section_table_range();
        if table.end == self.len() {
            table.start
        } else {
            self.len()
        }
    }

    /// The bytes at an address.
    pub(super) fn at(&self, what: &str, address: u64, len: u64) -> Result<Vec<u8>> {
        let offset = self.place(address, len);
        let offset =
            offset.with_context(|| format!("the {what} is not in the file: {address:#x}"))?;
        self.file.bytes(what, offset, len)
    }
    /// The range in the file from an address to the end of what its segment has there.
    pub(super) fn rest(&self, address: u64) -> Option<Range<u64>> {
        self.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let start = load.offset.saturating_add(inside);
            (inside < load.file_size).then(|| start..load.file().end)
        })
    }

    /// The symbols of the code section that do not lie in a range of memory: the offset of the value
    /// in the file, the value, and the size. The size follows the value in the file.
    pub(super) fn symbols_outside(&self, memory: &Range<u64>) -> Result<Vec<(u64, u64, u64)>> {
        let code = self.sections.iter().position(|it| it.name == CODE);
        let tables = self.sections.iter();
        let mut found = Vec::new();
        for table in tables.filter(|it| matches!(it.kind, SHT_SYMTAB | SHT_DYNSYM)) {
            let table = table.file();
            for symbol in ByteRegion::new(&self.file, "symbol table", &table)?.entries() {
                let (at, symbol) = symbol?;
                let (value, size) = (number(&symbol, 8, 8), number(&symbol, 16, 8));
                let is_inside = memory.start <= value && value.saturating_add(size) <= memory.end;
                if code.is_some_and(|code| number(&symbol, 6, 2) == code as u64) && !is_inside {
                    found.push((table.start.saturating_add(at + 8), value, size));
                }
            }
        }
        Ok(found)
    }
}

/// The largest alignment of some segments, at least a page.
pub(super) fn largest_alignment<'a>(segments: impl Iterator<Item = &'a Segment>) -> u64 {
    let aligns = segments.map(|segment| segment.align);
    let aligns = aligns.filter(|align| align.is_power_of_two());
    aligns.fold(PAGE, u64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{tables::number, write::SharedObject};

    #[test]
    fn a_name_without_an_end_is_not_kept_for_every_section() {
        let mut file = SharedObject::new("liba.so.1").build();
        let number = |file: &[u8], at| usize::try_from(number(file, at, 8)).unwrap();
        let names = usize::from(u16::from_le_bytes([file[62], file[63]]));
        let header = number(&file, 40) + names * 64;
        let end = file.len() as u64;
        file[header + 24..header + 32].copy_from_slice(&end.to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&100_000_u64.to_le_bytes());
        file.resize(file.len() + 100_000, b'x');
        let image = HostImage::of_host(&file).unwrap();
        assert!(image.sections.len() > 3);
        assert!(
            image
                .sections
                .iter()
                .all(|it| it.name.len() == LONGEST_NAME)
        );
    }
}
