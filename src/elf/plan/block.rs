//! Finds the sections behind the program header table that may move to the end of the file, to make
//! room for one more program header.
//!
//! Linkers put `.interp`, notes, hash tables, `.dynsym` and versions there. Only segments, section
//! headers and a few entries of the dynamic table refer to them, so they can move together by one
//! distance. Code and data cannot move, because other code contains their addresses. If the block
//! has a section that is not known to be movable, nothing moves, and `segment_placement` uses
//! another strategy.

use std::ops::Range;

use goblin::elf::{
    ProgramHeader, SectionHeader,
    dynamic::{
        DT_FINI, DT_FINI_ARRAY, DT_GNU_HASH, DT_HASH, DT_INIT, DT_INIT_ARRAY, DT_JMPREL, DT_PLTGOT,
        DT_PREINIT_ARRAY, DT_REL, DT_RELA, DT_STRTAB, DT_SYMTAB, DT_VERDEF, DT_VERNEED, DT_VERSYM,
    },
    program_header::{PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR},
    section_header::{
        SHF_ALLOC, SHT_DYNSYM, SHT_GNU_HASH, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM,
        SHT_HASH, SHT_NOTE, SHT_PROGBITS, SHT_STRTAB,
    },
};

use crate::elf::{
    ElfError, ReadAt,
    plan::parts::{ElfParts, SHDR, file_range, is_filler, overlaps, segment_range},
};

/// Tags whose address is corrected if it lies in the block.
pub(super) const MOVING: [u64; 6] = [
    DT_HASH,
    DT_GNU_HASH,
    DT_SYMTAB,
    DT_VERSYM,
    DT_VERNEED,
    DT_VERDEF,
];
/// Tags whose address must not lie in the block: all others that hold an address, except
/// `DT_STRTAB`, which the plan changes in any case.
pub(super) const STAYING: [u64; 11] = [
    DT_PLTGOT,
    DT_RELA,
    DT_INIT,
    DT_FINI,
    DT_REL,
    DT_JMPREL,
    DT_INIT_ARRAY,
    DT_FINI_ARRAY,
    DT_PREINIT_ARRAY,
    DT_RELR,
    DT_TLSDESC_PLT,
];
const DT_RELR: u64 = 36;
const DT_TLSDESC_PLT: u64 = 0x6fff_fef6;

/// How often the block is grown by the sections and segments that overlap it. Real files need two
/// rounds; the limit ends the search in damaged files, where overlaps may chain.
const MAX_ROUNDS: usize = 16;

/// The largest gap between two sections of a block. Alignments are at most a page (see `align`), so
/// a larger gap is not padding.
const MAX_GAP: u64 = 0x1000;

/// A range of the file that moves as a whole.
#[derive(Clone, Debug)]
pub(super) struct MovableBlock {
    pub(super) range: Range<u64>,
    /// The address of its first byte.
    pub(super) address: u64,
    pub(super) align: u64,
}

impl MovableBlock {
    /// The block that has to move for one more program header; `None` if a part of it must stay.
    pub(super) fn find<R: ReadAt + ?Sized>(
        parts: &ElfParts<'_, R>,
    ) -> Result<Option<Self>, ElfError> {
        match Self::around(parts) {
            Some(block) if block.is_movable(parts) && block.is_owned(parts)? => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// The sections and notes that one more program header would overwrite, and all that overlaps
    /// those. It must begin directly behind the program headers.
    fn around<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Option<Self> {
        if parts.sections.is_empty() {
            return None;
        }
        let headers = parts.headers(0);
        let wanted = headers.end..parts.headers(1).end;
        let mut range = wanted.clone();
        for _ in 0..MAX_ROUNDS {
            range = grow(parts, &range);
        }
        if grow(parts, &range) != range {
            return None;
        }
        let load = parts.load_of(&(headers.start..range.end))?;
        let block = Self {
            address: load.p_vaddr + (range.start - load.p_offset),
            align: align(parts, &range)?,
            range,
        };
        let is_sound = block.range.start == wanted.start
            && block.address % block.align == block.range.start % block.align;
        is_sound.then_some(block)
    }

    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    pub(super) fn holds_address(&self, address: u64) -> bool {
        let len = self.range.end - self.range.start;
        address
            .checked_sub(self.address)
            .is_some_and(|inside| inside < len)
    }

    /// Whether the address of this tag is corrected if it lies in the block.
    pub(super) fn moves_tag(tag: u64) -> bool {
        MOVING.contains(&tag)
    }

    fn is_movable<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> bool {
        self.sections_may_move(parts) && self.segments_may_move(parts) && self.is_unseen(parts)
    }

    fn sections_may_move<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> bool {
        let interpreter = parts.image.segment(PT_INTERP).map(segment_range);
        let mut sections = parts.sections.iter();
        sections.all(|section| match file_range(section) {
            Some(range) if overlaps(&range, &self.range) => {
                self.is_loaded_at(range.start, section.sh_addr)
                    && is_movable(parts, section, interpreter.as_ref())
            }
            _ => true,
        })
    }

    fn segments_may_move<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> bool {
        let mut segments = parts.image.segments.iter();
        segments.all(|segment| {
            !overlaps(&segment_range(segment), &self.range)
                || matches!(segment.p_type, PT_LOAD | PT_PHDR | PT_NULL)
                || (is_small(segment) && self.is_loaded_at(segment.p_offset, segment.p_vaddr))
        })
    }

    /// Whether sections and filler cover the whole block. Other bytes may be in use: a linker can
    /// put data outside of all sections.
    fn is_owned<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> Result<bool, ElfError> {
        let sections = parts.sections.iter().filter_map(file_range);
        let mut inside: Vec<Range<u64>> = sections.filter(|range| self.holds(range)).collect();
        inside.sort_by_key(|range| range.start);
        inside.push(self.range.end..self.range.end);
        let mut end = self.range.start;
        for range in inside {
            let gap = range.start.saturating_sub(end);
            if gap > MAX_GAP {
                return Ok(false);
            }
            let bytes = parts
                .image
                .bytes("space behind the program headers", end, gap)?;
            if !is_filler(&bytes) {
                return Ok(false);
            }
            end = end.max(range.end);
        }
        Ok(true)
    }

    /// Whether no reference into the block is left that `draft` does not correct: an entry of the
    /// dynamic table in `STAYING`, or the section header table within the block.
    fn is_unseen<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> bool {
        let mut entries = parts.table.entries.iter();
        let tags =
            entries.all(|entry| !STAYING.contains(&entry.tag) || !self.holds_address(entry.value));
        let start = parts.image.header.e_shoff;
        let headers = start..start + parts.sections.len() as u64 * SHDR;
        tags && !overlaps(&headers, &self.range)
    }

    /// Whether offset and address have the same distance as those of the block itself. A section or
    /// segment with another distance would get a wrong address when the block moves.
    fn is_loaded_at(&self, offset: u64, address: u64) -> bool {
        address.wrapping_sub(self.address) == offset.wrapping_sub(self.range.start)
    }
}

/// Extends a range so that no section and no small segment is partly inside.
fn grow<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, range: &Range<u64>) -> Range<u64> {
    let sections = parts.sections.iter().filter_map(file_range);
    let segments = parts
        .image
        .segments
        .iter()
        .filter(|segment| is_small(segment));
    let segments = segments.map(segment_range);
    let mut grown = range.clone();
    for other in sections.chain(segments) {
        if overlaps(&other, range) {
            grown = grown.start.min(other.start)..grown.end.max(other.end);
        }
    }
    grown
}

/// Whether a segment covers only bytes that may move, so that it can move with the block. Any other
/// segment in the block, except `PT_LOAD` and `PT_PHDR`, keeps the block where it is.
fn is_small(segment: &ProgramHeader) -> bool {
    matches!(segment.p_type, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
}

/// Whether nothing refers to a section but the references that `draft` corrects.
///
/// A table must be the one that the dynamic table names: for a second one it is unknown who reads
/// it.
fn is_movable<R: ReadAt + ?Sized>(
    parts: &ElfParts<'_, R>,
    section: &SectionHeader,
    interpreter: Option<&Range<u64>>,
) -> bool {
    if section.sh_flags & u64::from(SHF_ALLOC) == 0 {
        return false;
    }
    let is_at = |tag| parts.table.last(tag) == Some(section.sh_addr);
    match section.sh_type {
        SHT_NOTE => true,
        SHT_PROGBITS => file_range(section).as_ref() == interpreter,
        SHT_HASH => is_at(DT_HASH),
        SHT_GNU_HASH => is_at(DT_GNU_HASH),
        SHT_DYNSYM => is_at(DT_SYMTAB),
        SHT_GNU_VERSYM => is_at(DT_VERSYM),
        SHT_GNU_VERNEED => is_at(DT_VERNEED),
        SHT_GNU_VERDEF => is_at(DT_VERDEF),
        // The tail has a copy of the strings in any case.
        SHT_STRTAB => is_at(DT_STRTAB),
        _ => false,
    }
}

/// The largest alignment in the block; `None` if it is more than a page.
fn align<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, range: &Range<u64>) -> Option<u64> {
    let inside = |other: &Range<u64>| overlaps(other, range);
    let sections = parts.sections.iter();
    let sections = sections.filter(|section| file_range(section).as_ref().is_some_and(inside));
    let segments = parts.image.segments.iter();
    let segments = segments.filter(|segment| is_small(segment) && inside(&segment_range(segment)));
    let align = sections
        .map(|section| section.sh_addralign)
        .chain(segments.map(|segment| segment.p_align))
        .fold(8, u64::max);
    (align.is_power_of_two() && align <= 0x1000).then_some(align)
}
