//! A host binary as the split reads it: its headers with the names of the sections, and its bytes
//! by offset or by address.

use std::ops::{Deref, Range};

use crate::{
    elf::{
        ReadAt,
        patch::Replacement,
        tables::{ElfTables, SECTION, SECTION_EXECUTE, SEGMENT, Section, half},
    },
    error::{Context as _, Result, ensure},
    kpack::ByteRegion,
};

/// Names of sections are cut to this length, which is longer than all names that we look for.
///
/// In a damaged file the name table may be hundreds of megabytes without a NUL. Every section would
/// then keep a copy of it as its name.
const LONGEST_NAME: usize = 64;

const EXECUTABLE: u16 = 2;
const SHARED: u16 = 3;
const X86_64: u16 = 62;

#[derive(Debug)]
pub(super) struct HostImage<'a, R: ?Sized> {
    pub(super) file: ByteRegion<'a, R>,
    tables: ElfTables,
    /// The index of the section with the names (`e_shstrndx`).
    pub(super) names: usize,
}

impl<R: ?Sized> Deref for HostImage<'_, R> {
    type Target = ElfTables;

    fn deref(&self) -> &ElfTables {
        &self.tables
    }
}

/// Any file, classified by whether its device code can be read or changed.
pub(super) enum HostFile<'a, R: ?Sized> {
    NotElf,
    /// An object file, a core dump, or a file for another machine.
    Other(HostImage<'a, R>),
    /// An executable or a shared object for x86-64.
    Host(HostImage<'a, R>),
}

impl<'a, R: ReadAt + ?Sized> HostImage<'a, R> {
    /// Classifies a file by its header, and reads its program and section headers.
    pub(super) fn see(source: &'a R) -> Result<HostFile<'a, R>> {
        let file = ByteRegion::whole(source);
        let is_elf = file.has(0, b"\x7fELF\x02\x01")?;
        if !is_elf || file.len() < 64 {
            return Ok(HostFile::NotElf);
        }
        let mut tables = ElfTables::read(source)?;
        let [kind, machine, names] = [16, 18, 62].map(|at| half(&tables.header, at));
        let is_host = matches!(kind, EXECUTABLE | SHARED) && machine == X86_64;
        let names = usize::from(names);
        name(&mut tables.sections, names, &file)?;
        let image = Self {
            file,
            tables,
            names,
        };
        Ok(if is_host {
            HostFile::Host(image)
        } else {
            HostFile::Other(image)
        })
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Whether a section with machine code overlaps a range of addresses.
    pub(super) fn runs_in(&self, memory: &Range<u64>) -> bool {
        self.sections.iter().any(|section| {
            let own = section.memory();
            section.flags & SECTION_EXECUTE != 0 && own.start < memory.end && memory.start < own.end
        })
    }

    /// The name, offset and length of the file header, the program headers and the section headers.
    pub(super) fn tables(&self) -> [(&'static str, u64, u64); 3] {
        let segments = self.segments.len() as u64;
        let sections = self.sections.len() as u64;
        [
            ("header", 0, 64),
            (
                "program header table",
                self.table(),
                segments.saturating_mul(SEGMENT),
            ),
            (
                "section header table",
                self.section_table(),
                sections.saturating_mul(SECTION),
            ),
        ]
    }

    /// The end of the contents: the start of the section headers if they are last, otherwise the
    /// end of the file. A new section header table replaces one that is last.
    pub(super) fn end_of_content(&self) -> u64 {
        let [_, _, (_, start, len)] = self.tables();
        let is_last = start.saturating_add(len) == self.file.len();
        if is_last { start } else { self.file.len() }
    }

    /// Replaces the file header by one with these offsets and counts of the program headers and the
    /// section headers.
    pub(super) fn header_with(
        &self,
        (table, segments): (u64, usize),
        (section_table, sections): (u64, usize),
    ) -> Result<Replacement> {
        let segments = u16::try_from(segments).context("too many segments")?;
        let sections = u16::try_from(sections).context("too many sections")?;
        ensure!(sections < 0xff00, "too many sections");
        let mut header = self.header.to_vec();
        put(&mut header, 32, &table.to_le_bytes());
        put(&mut header, 40, &section_table.to_le_bytes());
        put(&mut header, 56, &segments.to_le_bytes());
        put(&mut header, 60, &sections.to_le_bytes());
        Ok(Replacement::bytes(0, header))
    }

    /// The bytes at an address.
    pub(super) fn at(&self, what: &str, address: u64, len: u64) -> Result<Vec<u8>> {
        let offset = self.place(address, len);
        ensure!(
            offset.is_some(),
            "the {what} is not in the file: {address:#x}"
        );
        self.file.bytes(what, offset.unwrap_or(0), len)
    }

    /// The tags and values of the dynamic table; empty if there is no table, or if it is not
    /// terminated.
    pub(super) fn dynamic(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.tables.dynamic(&self.file)?.unwrap_or_default())
    }
}

/// Overwrites the bytes at an index.
pub(super) fn put(bytes: &mut [u8], at: usize, number: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at.saturating_add(number.len())) {
        place.copy_from_slice(number);
    }
}

/// Fills in the names of all sections.
fn name<R: ReadAt + ?Sized>(
    sections: &mut [Section],
    names: usize,
    file: &ByteRegion<'_, R>,
) -> Result<()> {
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
        let HostFile::Host(image) = HostImage::see(&file).unwrap() else {
            panic!("not a host binary")
        };
        assert!(image.sections.len() > 3);
        assert!(
            image
                .sections
                .iter()
                .all(|it| it.name.len() == LONGEST_NAME)
        );
    }
}
