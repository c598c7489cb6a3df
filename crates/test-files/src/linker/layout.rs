//! Places sections in the file and in memory, and writes the headers.

use std::collections::BTreeMap;

use goblin::elf::{
    program_header::{PF_R, PF_W, PT_DYNAMIC, PT_GNU_STACK, PT_INTERP, PT_NOTE, PT_PHDR},
    section_header::{SHT_DYNAMIC, SHT_NOTE, SHT_STRTAB},
};

use super::{
    cursor::Cursor,
    shape::{Section, Segment, Shape, TableAt},
    tables::Strings,
};

pub(super) const EHDR: u64 = 64;
pub(super) const PHDR: u64 = 56;
const SHDR: u64 = 64;

/// Where everything is.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    places: Vec<(u64, u64)>,
    names: BTreeMap<String, usize>,
    segments: Vec<Segment>,
    table: u64,
    section_names: u64,
    section_headers: u64,
    end: u64,
}

/// Lays the sections out, asks for them again with their addresses known, and writes the file.
///
/// The second answer must have the sizes of the first.
pub(super) fn build(shape: &Shape, sections: impl Fn(&Layout) -> Vec<Section>) -> Vec<u8> {
    let layout = Layout::new(shape, &sections(&Layout::default()));
    layout.write(shape, &sections(&layout))
}

impl Layout {
    /// The address of a section; 0 while nothing is placed yet.
    pub(super) fn address(&self, name: &str) -> u64 {
        self.place(name).1
    }

    /// The index of a section; 0 when there is none.
    pub(super) fn index(&self, name: &str) -> usize {
        self.names.get(name).copied().unwrap_or(0)
    }

    fn place(&self, name: &str) -> (u64, u64) {
        let index = self.index(name).checked_sub(1);
        let place = index.and_then(|index| self.places.get(index));
        place.copied().unwrap_or_default()
    }

    fn new(shape: &Shape, sections: &[Section]) -> Self {
        let mut layout = Self { table: EHDR, ..Self::default() };
        let table = count_segments(shape, sections) * PHDR;
        let is_first = shape.table == TableAt::Start;
        let start = EHDR + if is_first { table } else { 0 };
        let mut cursor = Cursor::new(shape, start);
        for (index, section) in sections.iter().enumerate() {
            layout.names.insert(section.name.clone(), index + 1);
            let place = cursor.place(section);
            layout.places.push(place);
        }
        layout.section_names = cursor.offset;
        if shape.section_headers {
            let names: u64 = sections.iter().map(|s| s.name.len() as u64 + 1).sum();
            // One for the empty name, and the table's own.
            let names = 1 + names + ".shstrtab".len() as u64 + 1;
            layout.section_headers = cursor.offset + names;
            if is_first {
                layout.section_headers = layout.section_headers.next_multiple_of(8);
            }
            cursor.offset = layout.section_headers + (sections.len() as u64 + 2) * SHDR;
        }
        let mut loads = cursor.loads.clone();
        if let TableAt::End { spare } | TableAt::EndPinned { spare } = shape.table {
            let load = cursor.table_at_end(shape, table + u64::from(spare) * PHDR);
            layout.table = load.offset;
            loads.push(load);
        }
        layout.end = cursor.offset;
        layout.segments = layout.program_headers(shape, sections, loads);
        layout
    }

    fn program_headers(
        &self,
        shape: &Shape,
        sections: &[Section],
        loads: Vec<Segment>,
    ) -> Vec<Segment> {
        let mut segments = Vec::new();
        if shape.phdr {
            let last = loads.last().copied().unwrap_or_default();
            let (size, address) = match shape.table {
                TableAt::Start => (count_segments(shape, sections) * PHDR, shape.base + EHDR),
                _ => (last.file_size, last.address),
            };
            segments.push(Segment {
                kind: PT_PHDR,
                flags: PF_R,
                offset: self.table,
                address,
                file_size: size,
                memory_size: size,
                align: 8,
            });
        }
        segments.extend(self.covering(sections, |s| s.name == ".interp", PT_INTERP));
        segments.extend(loads);
        segments.extend(self.covering(sections, |s| s.kind == SHT_DYNAMIC, PT_DYNAMIC));
        segments.extend(self.covering(sections, |s| s.kind == SHT_NOTE, PT_NOTE));
        segments.push(Segment {
            kind: PT_GNU_STACK,
            flags: PF_R | PF_W,
            align: 16,
            ..Segment::default()
        });
        segments
    }

    /// The segment that covers exactly one section, when that section is there.
    fn covering(
        &self,
        sections: &[Section],
        wanted: impl Fn(&Section) -> bool,
        kind: u32,
    ) -> Option<Segment> {
        let section = sections.iter().find(|section| wanted(section))?;
        let (offset, address) = self.place(&section.name);
        Some(Segment {
            kind,
            flags: section.segment_flags(),
            offset,
            address,
            file_size: section.file_size(),
            memory_size: section.memory_size(),
            align: section.align,
        })
    }

    fn write(&self, shape: &Shape, sections: &[Section]) -> Vec<u8> {
        let mut file = Patch(vec![0; usize::try_from(self.end).unwrap_or_default()]);
        file.put(0, &self.file_header(shape, sections));
        for (index, segment) in self.segments.iter().enumerate() {
            file.put(self.table + index as u64 * PHDR, &segment.bytes());
        }
        for (section, (offset, _)) in sections.iter().zip(&self.places) {
            file.put(*offset, &section.bytes);
        }
        if shape.section_headers {
            self.write_section_headers(&mut file, sections);
        }
        file.0
    }

    fn file_header(&self, shape: &Shape, sections: &[Section]) -> Vec<u8> {
        let (headers, count) =
            if shape.section_headers { (self.section_headers, sections.len() + 2) } else { (0, 0) };
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        append!(bytes, shape.elf_type, goblin::elf::header::EM_X86_64, 1_u32);
        append!(bytes, self.address(".text"), self.table, headers, 0_u32);
        let (segments, count) = (self.segments.len() as u64, count as u64);
        let last = count.saturating_sub(1);
        for half in [EHDR, PHDR, segments, SHDR, count, last] {
            append!(bytes, u16::try_from(half).unwrap_or(0));
        }
        bytes
    }

    fn write_section_headers(&self, file: &mut Patch, sections: &[Section]) {
        let mut names = Strings::default();
        let mut headers = vec![0; usize::try_from(SHDR).unwrap_or(64)];
        for (section, (offset, address)) in sections.iter().zip(&self.places) {
            let link = u32::try_from(self.index(section.link)).unwrap_or(0);
            append!(headers, names.add(&section.name), section.kind);
            append!(headers, u64::from(section.flags), address, offset);
            append!(headers, section.memory_size(), link, section.info);
            append!(headers, section.align, section.entry_size);
        }
        append!(headers, names.add(".shstrtab"), SHT_STRTAB);
        let size = names.bytes().len() as u64;
        for word in [0, 0, self.section_names, size, 0, 1, 0] {
            headers.extend(word.to_le_bytes());
        }
        file.put(self.section_names, names.bytes());
        file.put(self.section_headers, &headers);
    }
}

/// Bytes that pieces are put into.
struct Patch(Vec<u8>);

impl Patch {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).unwrap_or_default();
        if let Some(place) = self.0.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

fn count_segments(shape: &Shape, sections: &[Section]) -> u64 {
    let mut cursor = Cursor::new(shape, EHDR);
    for section in sections.iter().filter(|section| section.is_allocated()) {
        cursor.place(section);
    }
    let has = |found: bool| u64::from(found);
    cursor.loads.len() as u64
        + 1
        + has(shape.phdr)
        + has(shape.table != TableAt::Start)
        + has(sections.iter().any(|section| section.name == ".interp"))
        + has(sections.iter().any(|section| section.kind == SHT_DYNAMIC))
        + has(sections.iter().any(|section| section.kind == SHT_NOTE))
}
