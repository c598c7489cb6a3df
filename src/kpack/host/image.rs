//! A host binary as the split reads it: its headers with the names of the sections, and its bytes
//! by offset or by address.

use std::ops::Range;

use derive_more::Deref;
use goblin::elf::header::{EM_X86_64, ET_DYN, ET_EXEC};

use crate::{
    elf::{
        Patch, ReadAt,
        patch::{PatchPiece, Replacement},
        tables::{ElfTables, SECTION_EXECUTE, Section, half, overlaps},
    },
    error::{Context as _, Result, ensure},
    kpack::{ByteRegion, host::CODE},
};

/// Names of sections are cut to this length, which is longer than all names that we look for.
///
/// In a damaged file the name table may be hundreds of megabytes without a NUL. Every section would
/// then keep a copy of it as its name.
const LONGEST_NAME: usize = 64;

#[derive(Deref)]
pub(super) struct HostImage<'a> {
    pub(super) file: ByteRegion<'a>,
    #[deref]
    tables: ElfTables<'a>,
    /// The index of the section with the names (`e_shstrndx`).
    pub(super) names: usize,
    /// Whether this is an executable or a shared object for x86-64. Any other file is an object
    /// file, a core dump, or for another machine.
    pub(super) is_host: bool,
}

impl<'a> HostImage<'a> {
    /// Reads the program and section headers of a file; `None` if it is not a 64-bit little-endian
    /// ELF file.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let file = ByteRegion::whole(source);
        if !file.has(0, b"\x7fELF\x02\x01")? || file.len() < 64 {
            return Ok(None);
        }
        let mut tables = ElfTables::read(source)?;
        let [kind, machine, names] = [16, 18, 62].map(|at| half(&tables.header, at));
        let names = usize::from(names);
        name(&mut tables.sections, names, &file)?;
        Ok(Some(Self {
            file,
            tables,
            names,
            is_host: matches!(kind, ET_EXEC | ET_DYN) && machine == EM_X86_64,
        }))
    }

    /// Like [`Self::read`], but refuses any other file.
    pub(super) fn of_host(source: &'a dyn ReadAt) -> Result<Self> {
        let image = Self::read(source)?.filter(|image| image.is_host);
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

    /// The changed file: the old contents with the replacements, which remove so many bytes, then
    /// the tail, the section headers, and a file header with the offset and the number of the
    /// program headers and of the section headers.
    pub(super) fn patch(
        &self,
        mut replacements: Vec<Replacement>,
        removed: u64,
        mut tail: Vec<PatchPiece>,
        (table, segments): (u64, usize),
        sections: &[Section],
    ) -> Result<Patch> {
        let old_end = self.end_of_content();
        let len = tail.iter().map(PatchPiece::len).sum();
        let end = old_end.saturating_sub(removed).saturating_add(len);
        let section_table = end.next_multiple_of(8);
        let rendered = sections.iter().flat_map(Section::render);
        tail.push(PatchPiece::Zeros(section_table.saturating_sub(end)));
        tail.push(PatchPiece::Bytes(rendered.collect()));
        let segments = u16::try_from(segments).context("too many segments")?;
        let sections = u16::try_from(sections.len()).context("too many sections")?;
        ensure!(sections < 0xff00, "too many sections");
        let mut header = self.header;
        header[32..40].copy_from_slice(&table.to_le_bytes());
        header[40..48].copy_from_slice(&section_table.to_le_bytes());
        header[56..58].copy_from_slice(&segments.to_le_bytes());
        header[60..62].copy_from_slice(&sections.to_le_bytes());
        replacements.push(Replacement::bytes(0, header.to_vec()));
        Patch::new(self.len(), old_end, replacements, tail)
    }

    /// The bytes at an address.
    pub(super) fn at(&self, what: &str, address: u64, len: u64) -> Result<Vec<u8>> {
        let offset = self.place(address, len);
        let offset =
            offset.with_context(|| format!("the {what} is not in the file: {address:#x}"))?;
        self.file.bytes(what, offset, len)
    }
}

/// Fills in the names of all sections.
fn name(sections: &mut [Section], names: usize, file: &ByteRegion<'_>) -> Result<()> {
    let Some(names) = sections.get(names) else {
        return Ok(());
    };
    ensure!(
        names.size <= 1 << 28,
        "section names of {} bytes",
        names.size
    );
    let names = file.bytes("section name table", names.offset, names.size)?;
    for section in sections {
        let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
        let name = names.get(start..).unwrap_or_default().iter().copied();
        let name = name.take_while(|byte| *byte != 0).take(LONGEST_NAME);
        let name: Vec<u8> = name.collect();
        section.name = String::from_utf8_lossy(&name).into_owned();
    }
    Ok(())
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
