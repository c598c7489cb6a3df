//! The headers of a file, validated for planning: every range lies within the file, and addresses
//! are small enough that the planner can add them without an overflow.

use std::ops::Range;

use goblin::elf::{
    Header, ProgramHeader, SectionHeader,
    dynamic::{DF_1_PIE, DT_FLAGS_1, DT_STRSZ, DT_STRTAB},
    header::ET_EXEC,
    program_header::{PT_INTERP, PT_LOAD},
    section_header::{SHF_ALLOC, SHT_NOBITS, SHT_NULL, SHT_STRTAB},
};

use crate::elf::{ElfError, ReadAt, image::ElfImage, plan::table::DynamicTable};

/// The end of the user addresses of x86-64. Sums of several addresses below it do not overflow.
const CEILING: u64 = 1 << 47;
/// The kernel refuses a program header table of more than 64 KiB, which is 1170 entries.
const MAX_SEGMENTS: usize = 1170;
/// Size of a program header.
pub(super) const PHDR: u64 = 56;
/// Size of a section header.
pub(super) const SHDR: u64 = 64;

pub(super) struct ElfParts<'a, R: ?Sized> {
    pub(super) image: ElfImage<'a, R>,
    pub(super) sections: Vec<SectionHeader>,
    pub(super) table: DynamicTable,
    pub(super) len: u64,
    /// The range of the dynamic strings in the file.
    pub(super) strings: Range<u64>,
}

impl<'a, R: ReadAt + ?Sized> ElfParts<'a, R> {
    pub(super) fn new(
        image: ElfImage<'a, R>,
        sections: Vec<SectionHeader>,
        table: DynamicTable,
    ) -> Result<Self, ElfError> {
        let len = image.len();
        bounded(&image.header, &image.segments, &sections, len)?;
        let strings = strings(&image, &table)?;
        Ok(Self {
            image,
            sections,
            table,
            len,
            strings,
        })
    }

    /// The dynamic string at an offset in the string table.
    pub(super) fn string(&self, offset: u64) -> Result<Vec<u8>, ElfError> {
        let start = self.strings.start.saturating_add(offset);
        self.image.text("dynamic string", start, self.strings.end)
    }

    /// The string offset of an existing run path with the wanted text, if there is one.
    pub(super) fn run_path_that_is(&self, wanted: &str) -> Result<Option<u64>, ElfError> {
        for entry in self.table.run_paths() {
            if self.string(entry.value)? == wanted.as_bytes() {
                return Ok(Some(entry.value));
            }
        }
        Ok(None)
    }

    /// Whether this is a program. `e_type` alone does not decide it: position-independent programs
    /// are `ET_DYN`, like shared objects. `PT_INTERP` or `DF_1_PIE` tells them apart.
    pub(super) fn is_executable(&self) -> bool {
        let flags = self.table.last(DT_FLAGS_1).unwrap_or(0);
        self.image.header.e_type == ET_EXEC
            || flags & DF_1_PIE != 0
            || self.image.segment(PT_INTERP).is_some()
    }

    pub(super) fn loads(&self) -> impl Iterator<Item = &ProgramHeader> {
        let segments = self.image.segments.iter();
        segments.filter(|segment| segment.p_type == PT_LOAD)
    }

    /// The highest address of all loaded segments, with their `.bss`.
    pub(super) fn address_end(&self) -> u64 {
        self.loads()
            .map(|load| load.p_vaddr + load.p_memsz)
            .max()
            .unwrap_or(0)
    }

    /// The program header table, with room for `more` entries.
    pub(super) fn headers(&self, more: u64) -> Range<u64> {
        let start = self.image.header.e_phoff;
        start..start + (self.image.segments.len() as u64 + more) * PHDR
    }

    /// The loaded segment that contains a whole range of the file.
    pub(super) fn load_of(&self, range: &Range<u64>) -> Option<&ProgramHeader> {
        self.loads()
            .find(|load| load.p_offset <= range.start && range.end <= load.p_offset + load.p_filesz)
    }

    /// The index of the section of the dynamic strings; `None` if the file has no section headers.
    pub(super) fn string_section(&self) -> Result<Option<usize>, ElfError> {
        if self.sections.is_empty() {
            return Ok(None);
        }
        let address = self.table.last(DT_STRTAB);
        let found = self.sections.iter().position(|section| {
            section.sh_type == SHT_STRTAB
                && section.sh_flags & u64::from(SHF_ALLOC) != 0
                && Some(section.sh_addr) == address
        });
        match found {
            Some(index) => Ok(Some(index)),
            None => Err(ElfError::damaged("no section holds the dynamic strings")),
        }
    }
}

pub(super) fn overlaps(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Whether bytes outside of all sections are unused: only zeros, or only `X`, with which patchelf
/// overwrites the old place of a section that it has moved.
pub(super) fn is_filler(bytes: &[u8]) -> bool {
    [0, b'X']
        .iter()
        .any(|filler| bytes.iter().all(|byte| byte == filler))
}

/// The bytes of a section in the file; `None` if it has none there, like `.bss`.
pub(super) fn file_range(section: &SectionHeader) -> Option<Range<u64>> {
    has_bytes(section).then(|| section.sh_offset..section.sh_offset + section.sh_size)
}

fn has_bytes(section: &SectionHeader) -> bool {
    !matches!(section.sh_type, SHT_NOBITS | SHT_NULL) && section.sh_size > 0
}

pub(super) fn segment_range(segment: &ProgramHeader) -> Range<u64> {
    segment.p_offset..segment.p_offset + segment.p_filesz
}

/// Refuses headers whose ranges the planner could not add and compare safely.
fn bounded(
    header: &Header,
    segments: &[ProgramHeader],
    sections: &[SectionHeader],
    len: u64,
) -> Result<(), ElfError> {
    let inside = |offset: u64, size: u64| offset.checked_add(size).is_some_and(|end| end <= len);
    let in_memory =
        |start: u64, size: u64| start.checked_add(size).is_some_and(|end| end <= CEILING);
    if segments.len() > MAX_SEGMENTS {
        return Err(ElfError::Unsupported(format!(
            "{} program headers, which is more than the kernel takes",
            segments.len()
        )));
    }
    if len > CEILING || header.e_phoff > len || header.e_shoff > len {
        return Err(ElfError::damaged("a table lies outside the file"));
    }
    for (index, segment) in segments.iter().enumerate() {
        let sound = inside(segment.p_offset, segment.p_filesz)
            && in_memory(segment.p_vaddr, segment.p_memsz);
        if !sound {
            return Err(ElfError::damaged(format!(
                "a segment lies outside the file or memory: number {index}"
            )));
        }
    }
    for (index, section) in sections.iter().enumerate() {
        let sound = !has_bytes(section) || inside(section.sh_offset, section.sh_size);
        if !sound || !in_memory(section.sh_addr, section.sh_size) {
            return Err(ElfError::damaged(format!(
                "a section lies outside the file or memory: number {index}"
            )));
        }
    }
    Ok(())
}

/// The range of the dynamic strings in the file.
///
/// The last byte must be NUL. Otherwise the loader would read the last string beyond the table, and
/// get another string once the table is copied.
fn strings<R: ReadAt + ?Sized>(
    image: &ElfImage<'_, R>,
    table: &DynamicTable,
) -> Result<Range<u64>, ElfError> {
    let count = |tag| {
        table
            .entries
            .iter()
            .filter(|entry| entry.tag == tag)
            .count()
    };
    let (Some(address), Some(size)) = (table.last(DT_STRTAB), table.last(DT_STRSZ)) else {
        return Err(ElfError::damaged("the dynamic table names no strings"));
    };
    if count(DT_STRTAB) > 1 || count(DT_STRSZ) > 1 {
        return Err(ElfError::damaged(
            "the dynamic table names its strings twice",
        ));
    }
    let place = image.locate(address).filter(|(_, rest)| *rest >= size);
    let Some((start, _)) = place.filter(|_| size > 0) else {
        return Err(ElfError::damaged(
            "the dynamic string table is in no segment",
        ));
    };
    let end = start.saturating_add(size);
    let last = image.bytes("dynamic string table", end.saturating_sub(1), 1)?;
    if last != [0] {
        return Err(ElfError::damaged("the dynamic string table has no end"));
    }
    Ok(start..end)
}
