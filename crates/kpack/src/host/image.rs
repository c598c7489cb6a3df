//! A host binary as the split reads it: its headers with the names of the sections, its bytes by
//! offset or by address, and the pointers that the dynamic loader writes, with their targets.
//!
//! Linkers store the address of a bundle in a wrapper in four ways, and all four occur:
//!
//! 1. as the addend of an `R_X86_64_RELATIVE` relocation; the word in the file may be 0 (lld);
//! 2. as the symbol of a relocation (`R_X86_64_64`), with `-fgpu-rdc`;
//! 3. as the word in the file, to which the loader adds its load address, if `DT_RELR` lists the
//!    word (`-z pack-relative-relocs`);
//! 4. as the word in the file alone, without a relocation, in a program at a fixed address.
//!
//! See the [x86-64 psABI](https://gitlab.com/x86-psABIs/x86-64-ABI), and the
//! [gABI](https://gabi.xinuos.com/) for `DT_RELR`.

use std::{io::Read as _, ops::Range};

use goblin::elf::{
    dynamic::{DT_JMPREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELASZ, DT_SYMTAB},
    section_header::{SHT_DYNSYM, SHT_SYMTAB},
};

use crate::{ByteRegion, host::CODE, region::BlockReader};
use rocwheel_base::error::{Context as _, Result, ensure};
use rocwheel_elf::{
    Machine, ReadAt,
    tables::{ElfTables, SECTION_EXECUTE, Section, Segment, last_value, number, overlaps},
};

/// Names of sections are cut to this length, which is longer than all names that we look for.
///
/// In a damaged file the name table may be hundreds of megabytes without a NUL. Every section would
/// then keep a copy of it as its name.
const LONGEST_NAME: usize = 64;

/// Limit in bytes for a damaged `DT_RELR` table: an entry stands for up to 63 words.
const MOST_PACKED: u64 = 1 << 28;

pub(super) const PAGE: u64 = 4096;

/// The types of relocations: `R_X86_64_RELATIVE` and `R_X86_64_IRELATIVE`, then the types with the
/// address of a symbol. Only `R_X86_64_64` adds an addend to the address.
pub(super) const RELATIVE: u64 = 8;
const IRELATIVE: u64 = 37;
const SYMBOL_AND_ADDEND: u64 = 1;
const GLOB_DAT: u64 = 6;
const JUMP_SLOT: u64 = 7;

const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;

/// The headers of a file with the names of its sections, and its bytes.
pub(super) struct HostImage<'a> {
    pub(super) file: ByteRegion<'a>,
    pub(super) tables: ElfTables<'a>,
}

/// A word in memory to which the loader writes an address.
pub(super) struct Pointer {
    pub(super) address: u64,
    /// The offset in the file of its relocation (`Elf64_Rela`); `None` with `DT_RELR`.
    pub(super) relocation: Option<u64>,
    /// The address that the loader writes, before it adds the load address; `None` if another file
    /// defines the symbol.
    pub(super) target: Option<u64>,
}

/// A symbol of the code section.
pub(super) struct CodeSymbol {
    /// The offset of the value in the file. The size follows the value.
    pub(super) value_at: u64,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// A table that the loader reads, by its address and size.
#[derive(Clone, Copy)]
struct LoadedTable {
    address: u64,
    size: u64,
}

impl<'a> HostImage<'a> {
    /// Reads the program and section headers of a file; `None` if it is not a 64-bit little-endian
    /// ELF file.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let file = ByteRegion::whole(source);
        if !file.has(0, b"\x7fELF\x02\x01")? || file.len() < 64 {
            return Ok(None);
        }
        let mut tables = ElfTables::read(source)?.context("not an ELF file")?;
        // An object file may have device code too, and its section headers say so.
        if !tables.is_linked() && tables.section_table_at() != 0 {
            tables.sections = tables.read_sections()?;
        }
        if let Some(name_table) = tables.sections.get(tables.name_section_index()) {
            let size = name_table.size;
            ensure!(size <= 1 << 28, "section names of {size} bytes");
            let names = file.bytes("section name table", name_table.offset, size)?;
            for section in &mut tables.sections {
                let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
                let name: Vec<u8> = names
                    .get(start..)
                    .unwrap_or_default()
                    .iter()
                    .copied()
                    .take_while(|byte| *byte != 0)
                    .take(LONGEST_NAME)
                    .collect();
                section.name = String::from_utf8_lossy(&name).into_owned();
            }
        }
        Ok(Some(Self { file, tables }))
    }

    /// Whether this is an executable or a shared object for x86-64. Any other file is an object
    /// file, a core dump, or for another machine.
    pub(super) fn is_host(&self) -> bool {
        self.tables.is_linked() && self.tables.machine() == Machine::X86_64
    }

    /// Like [`Self::read`], but refuses any other file.
    pub(super) fn read_host(source: &'a dyn ReadAt) -> Result<Self> {
        Self::read(source)?.filter(Self::is_host).context("not a binary for x86-64")
    }

    /// The section of the code.
    pub(super) fn code(&self) -> Result<&Section> {
        self.section(CODE).with_context(|| format!("no `{CODE}`"))
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.tables.sections.iter().find(|section| section.name == name)
    }

    /// Whether a section with machine code overlaps a range of addresses.
    pub(super) fn runs_in(&self, memory: &Range<u64>) -> bool {
        self.tables.sections.iter().any(|section| {
            section.flags & SECTION_EXECUTE != 0 && overlaps(&section.memory(), memory)
        })
    }

    /// The end of the contents: the start of the section headers if they are last, otherwise the
    /// end of the file. A new section header table replaces an old table that is last.
    pub(super) fn end_of_content(&self) -> u64 {
        let table = self.tables.section_table_range();
        if table.end == self.tables.file_len() { table.start } else { self.tables.file_len() }
    }

    /// The range in the file from an address to the end of its segment.
    pub(super) fn rest_of_segment(&self, address: u64) -> Option<Range<u64>> {
        self.tables.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let start = load.offset.saturating_add(inside);
            (inside < load.file_size).then(|| start..load.file().end)
        })
    }

    /// The symbols of the code section that do not lie in a range of memory.
    pub(super) fn symbols_outside(&self, memory: &Range<u64>) -> Result<Vec<CodeSymbol>> {
        let code = self.tables.sections.iter().position(|section| section.name == CODE);
        let mut symbols = Vec::new();
        for section in &self.tables.sections {
            if !matches!(section.kind, SHT_SYMTAB | SHT_DYNSYM) {
                continue;
            }
            let table = section.file();
            for entry in ByteRegion::new(&self.file, "symbol table", &table)?.entries() {
                let (offset, symbol) = entry?;
                let value = number(&symbol, 8, 8);
                let size = number(&symbol, 16, 8);
                let is_of_code = code.is_some_and(|code| number(&symbol, 6, 2) == code as u64);
                let is_inside = memory.start <= value && value.saturating_add(size) <= memory.end;
                if is_of_code && !is_inside {
                    let value_at = table.start.saturating_add(offset + 8);
                    symbols.push(CodeSymbol { value_at, value, size });
                }
            }
        }
        Ok(symbols)
    }

    /// Calls `each` for every pointer that the loader writes.
    pub(super) fn pointers(&self, mut each: impl FnMut(&Pointer) -> Result<()>) -> Result<()> {
        let dynamic = self.tables.dynamic()?.unwrap_or_default();
        let value = |tag| last_value(&dynamic, tag);
        let symbols = value(DT_SYMTAB);
        let mut file = BlockReader::new(self.file);
        for (address_tag, size_tag) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            if let (Some(address), Some(size @ 1..)) = (value(address_tag), value(size_tag)) {
                self.each_relocation(&mut file, symbols, LoadedTable { address, size }, &mut each)?;
            }
        }
        // x86-64 has relocations with addends only. A table that is not read could hide a pointer.
        ensure!(value(DT_REL).is_none(), "relocations without addends");
        if let (Some(address), Some(size)) = (value(DT_RELR), value(DT_RELRSZ)) {
            self.each_packed_relocation(&mut file, LoadedTable { address, size }, &mut each)?;
        }
        Ok(())
    }

    /// Calls `each` for the pointers of a table of `Elf64_Rela` entries. `symbols` is the address of the
    /// symbol table.
    fn each_relocation(
        &self,
        file: &mut BlockReader<'_>,
        symbols: Option<u64>,
        table: LoadedTable,
        each: &mut impl FnMut(&Pointer) -> Result<()>,
    ) -> Result<()> {
        let start = self
            .tables
            .place(table.address, table.size)
            .context("relocations outside of the file")?;
        for entry in self.file.part("relocations", start, table.size)?.entries() {
            let (offset, relocation) = entry?;
            let kind = number(&relocation, 8, 4);
            let symbol = number(&relocation, 12, 4);
            let addend = number(&relocation, 16, 8);
            let target = match (kind, symbols) {
                (RELATIVE | IRELATIVE, _) => Some(addend),
                (SYMBOL_AND_ADDEND, Some(symbols)) => {
                    let value = self.symbol_value(file, symbols, symbol)?;
                    value.map(|value| value.wrapping_add(addend))
                }
                (GLOB_DAT | JUMP_SLOT, Some(symbols)) => {
                    self.symbol_value(file, symbols, symbol)?
                }
                // The other types store no address, such as the offset of a thread-local variable.
                _ => None,
            };
            each(&Pointer {
                address: number(&relocation, 0, 8),
                relocation: Some(start.saturating_add(offset)),
                target,
            })?;
        }
        Ok(())
    }

    /// Calls `each` for the pointers of a `DT_RELR` table.
    ///
    /// An even entry is the address of a word to relocate. An odd entry is a bitmap: bit `n` stands
    /// for the word `n - 1` of the 63 words that follow the words of the previous entry.
    fn each_packed_relocation(
        &self,
        file: &mut BlockReader<'_>,
        table: LoadedTable,
        each: &mut impl FnMut(&Pointer) -> Result<()>,
    ) -> Result<()> {
        let LoadedTable { address, size } = table;
        ensure!(size <= MOST_PACKED, "packed relocations of {size} bytes");
        let start =
            self.tables.place(address, size).context("packed relocations outside of the file")?;
        let mut entries = self.file.part("packed relocations", start, size)?.from(0);
        let mut next = 0_u64;
        let mut call_each = |address: u64| {
            // The file has no bytes for some words, as in `.bss`.
            let offset = self.tables.place(address, 8);
            let target = offset
                .map(|offset| file.bytes("relocated word", offset).map(u64::from_le_bytes))
                .transpose()?;
            each(&Pointer { address, relocation: None, target })
        };
        for _ in 0..size / 8 {
            let mut bytes = [0; 8];
            entries.read_exact(&mut bytes)?;
            let entry = u64::from_le_bytes(bytes);
            if entry & 1 == 0 {
                call_each(entry)?;
                next = entry.wrapping_add(8);
                continue;
            }
            for bit in (1..64).filter(|bit| entry >> bit & 1 == 1) {
                call_each(next.wrapping_add((bit - 1) * 8))?;
            }
            next = next.wrapping_add(63 * 8);
        }
        Ok(())
    }

    /// The value of a symbol; `None` if another file defines it. Symbol 0 stands for no symbol, and
    /// has the value 0.
    fn symbol_value(
        &self,
        file: &mut BlockReader<'_>,
        table: u64,
        index: u64,
    ) -> Result<Option<u64>> {
        if index == 0 {
            return Ok(Some(0));
        }
        let address = table.wrapping_add(index.wrapping_mul(24));
        let offset = self
            .tables
            .place(address, 24)
            .with_context(|| format!("symbol {index} is not in the file"))?;
        let symbol: [u8; 24] = file.bytes("symbol", offset)?;
        let section = number(&symbol, 6, 2);
        Ok((section != 0).then_some(number(&symbol, 8, 8)))
    }
}

/// The largest alignment of some segments, at least a page.
pub(super) fn largest_alignment<'a>(segments: impl Iterator<Item = &'a Segment>) -> u64 {
    segments
        .map(|segment| segment.align)
        .filter(|align| align.is_power_of_two())
        .fold(PAGE, u64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_elf::tables::number;
    use rocwheel_test_files::linker::SharedObject;

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
        let image = HostImage::read_host(&file).unwrap();
        assert!(image.tables.sections.len() > 3);
        assert!(image.tables.sections.iter().all(|it| it.name.len() == LONGEST_NAME));
    }
}
