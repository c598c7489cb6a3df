//! A host file as the split needs it: its headers, the names of its sections, and its bytes by address.

use std::ops::{Deref, DerefMut, Range};

use crate::{
    elf::{
        ReadAt,
        tables::{DYNAMIC, LOAD, SECTION, SECTION_EXECUTE, SEGMENT, Section, Segment},
    },
    error::{Result, ensure},
    kpack::Region,
};

/// Longer than the names of the sections that are looked for; of others the begin will do. Every
/// section may have its name at the begin of a table of megabytes.
const LONGEST_NAME: usize = 64;

const EXECUTABLE: u64 = 2;
const SHARED: u64 = 3;
const X86_64: u64 = 62;

#[derive(Debug)]
pub(super) struct HostImage<'a, R: ?Sized> {
    pub(super) file: Region<'a, R>,
    pub(super) header: Vec<u8>,
    /// A program at a fixed address: nothing in it is relocated.
    pub(super) is_fixed: bool,
    pub(super) section_table: u64,
    pub(super) names: usize,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<NamedSection>,
}

/// A section with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedSection {
    pub(super) name: String,
    pub(super) header: Section,
}

impl Deref for NamedSection {
    type Target = Section;

    fn deref(&self) -> &Section {
        &self.header
    }
}

impl DerefMut for NamedSection {
    fn deref_mut(&mut self) -> &mut Section {
        &mut self.header
    }
}

/// What a file is, as far as it decides whether it can be looked into.
pub(super) enum HostFile<'a, R: ?Sized> {
    NotElf,
    /// An object file, a core dump, a file for another machine: with its sections, if it has any.
    Other(HostImage<'a, R>),
    Host(HostImage<'a, R>),
}

impl<'a, R: ReadAt + ?Sized> HostImage<'a, R> {
    pub(super) fn see(source: &'a R) -> Result<HostFile<'a, R>> {
        let file = Region::whole(source);
        let is_elf = file.has(0, b"\x7fELF\x02\x01")?;
        if !is_elf || file.len() < 64 {
            return Ok(HostFile::NotElf);
        }
        let header = file.bytes("header", 0, 64)?;
        let kind = number(&header, 16, 2);
        let is_host = matches!(kind, EXECUTABLE | SHARED) && number(&header, 18, 2) == X86_64;
        let mut image = Self {
            file,
            is_fixed: kind == EXECUTABLE,
            section_table: number(&header, 40, 8),
            names: usize::try_from(number(&header, 62, 2)).unwrap_or(0),
            header,
            segments: Vec::new(),
            sections: Vec::new(),
        };
        image.sections = image.read_sections()?;
        if is_host {
            image.segments = image.read_segments()?;
            Ok(HostFile::Host(image))
        } else {
            Ok(HostFile::Other(image))
        }
    }

    pub(super) fn section(&self, name: &str) -> Option<&NamedSection> {
        self.sections.iter().find(|section| section.name == name)
    }

    pub(super) fn loads(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == LOAD)
    }

    /// Whether a section with code lies in some memory.
    pub(super) fn runs_in(&self, memory: &Range<u64>) -> bool {
        self.sections.iter().any(|section| {
            let own = section.memory();
            section.flags & SECTION_EXECUTE != 0 && own.start < memory.end && memory.start < own.end
        })
    }

    pub(super) fn has(&self, kind: u32) -> bool {
        self.segments.iter().any(|segment| segment.kind == kind)
    }

    /// The headers: what, where, and how long.
    pub(super) fn tables(&self) -> [(&'static str, u64, u64); 3] {
        let segments = self.segments.len() as u64;
        let sections = self.sections.len() as u64;
        [
            ("header", 0, 64),
            (
                "program header table",
                number(&self.header, 32, 8),
                segments.saturating_mul(SEGMENT),
            ),
            (
                "section header table",
                self.section_table,
                sections.saturating_mul(SECTION),
            ),
        ]
    }

    /// Where so many bytes at an address lie in the file.
    pub(super) fn locate(&self, address: u64, len: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let rest = load.file_size.checked_sub(inside)?;
            (rest >= len).then(|| load.offset.saturating_add(inside))
        })
    }

    /// The bytes at an address.
    pub(super) fn at(&self, what: &str, address: u64, len: u64) -> Result<Vec<u8>> {
        let offset = self.locate(address, len);
        ensure!(
            offset.is_some(),
            "the {what} is not in the file: {address:#x}"
        );
        self.file.bytes(what, offset.unwrap_or(0), len)
    }

    /// Entries of the dynamic table up to its end.
    pub(super) fn dynamic(&self) -> Result<Vec<(u64, u64)>> {
        let Some(place) = self.segments.iter().find(|s| s.kind == DYNAMIC) else {
            return Ok(Vec::new());
        };
        ensure!(
            place.file_size <= 1 << 20,
            "a dynamic table of {} bytes",
            place.file_size
        );
        let bytes = self
            .file
            .bytes("dynamic table", place.offset, place.file_size)?;
        let entries = bytes.chunks_exact(16);
        Ok(entries
            .map(|entry| (number(entry, 0, 8), number(entry, 8, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .collect())
    }

    fn read_segments(&self) -> Result<Vec<Segment>> {
        let count = number(&self.header, 56, 2);
        ensure!(count < 0xffff, "too many program headers");
        ensure!(
            count == 0 || number(&self.header, 54, 2) == SEGMENT,
            "program headers of an unknown size"
        );
        let start = number(&self.header, 32, 8);
        let bytes =
            self.file
                .bytes("program header table", start, count.saturating_mul(SEGMENT))?;
        let entries = bytes.chunks_exact(56);
        Ok(entries.map(Segment::parse).collect())
    }

    fn read_sections(&self) -> Result<Vec<NamedSection>> {
        let count = number(&self.header, 60, 2);
        if self.section_table == 0 || count == 0 {
            return Ok(Vec::new());
        }
        ensure!(
            number(&self.header, 58, 2) == SECTION,
            "section headers of an unknown size"
        );
        let bytes = self.file.bytes(
            "section header table",
            self.section_table,
            count.saturating_mul(SECTION),
        )?;
        let headers = bytes.chunks_exact(64);
        let sections = headers.map(|header| NamedSection {
            name: String::new(),
            header: Section::parse(header),
        });
        let mut sections: Vec<NamedSection> = sections.collect();
        let Some(names) = sections.get(self.names).cloned() else {
            return Ok(sections);
        };
        ensure!(
            names.size <= 1 << 28,
            "section names of {} bytes",
            names.size
        );
        let names = self
            .file
            .bytes("section name table", names.offset, names.size)?;
        for section in &mut sections {
            let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
            let name = names.get(start..).unwrap_or_default().iter().copied();
            let name = name.take_while(|byte| *byte != 0).take(LONGEST_NAME);
            let name: Vec<u8> = name.collect();
            section.name = String::from_utf8_lossy(&name).into_owned();
        }
        Ok(sections)
    }
}

/// A number in a table that was read as a whole; 0 behind its end.
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let bytes = bytes.get(at..at.saturating_add(size)).unwrap_or_default();
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::write::SharedObject;

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
