//! What follows the program headers and may move, to make room for one more of them.
//!
//! Linkers put `.interp`, notes, hash tables, `.dynsym` and versions there. Nothing but segments,
//! section headers and a few entries of the dynamic table refers to them, so that they can move as one
//! block with one distance. Code and data cannot: other code has their addresses built in. What is
//! not known to be movable stays, and room is made in another way.

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

/// Addresses that follow the block when it moves.
pub(super) const MOVING: [u64; 6] = [
    DT_HASH,
    DT_GNU_HASH,
    DT_SYMTAB,
    DT_VERSYM,
    DT_VERNEED,
    DT_VERDEF,
];
/// `DT_RELR` and the tags of `MOVING` aside, all that hold an address.
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

/// How often a range is grown by what overlaps it. Real files need two rounds.
const MAX_ROUNDS: usize = 16;

/// More than any alignment in a block leaves between two sections.
const MAX_GAP: u64 = 0x1000;

/// A range of the file that moves as one.
#[derive(Clone, Debug)]
pub(super) struct MovableBlock {
    pub(super) range: Range<u64>,
    /// Where it is in memory.
    pub(super) address: u64,
    pub(super) align: u64,
}

impl MovableBlock {
    /// The block that makes room for one more program header, if all that is in the way may move.
    pub(super) fn find<R: ReadAt + ?Sized>(
        parts: &ElfParts<'_, R>,
    ) -> Result<Option<Self>, ElfError> {
        match Self::around(parts) {
            Some(block) if block.is_movable(parts) && block.is_owned(parts)? => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// What the next program header would lie in.
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

    /// Whether a tag of the dynamic table follows the block.
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

    /// Whether nothing but filler lies between its sections: other bytes are somebody's.
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

    /// Whether nothing points into the block that would not follow it.
    fn is_unseen<R: ReadAt + ?Sized>(&self, parts: &ElfParts<'_, R>) -> bool {
        let mut entries = parts.table.entries.iter();
        let tags =
            entries.all(|entry| !STAYING.contains(&entry.tag) || !self.holds_address(entry.value));
        let start = parts.image.header.e_shoff;
        let headers = start..start + parts.sections.len() as u64 * SHDR;
        tags && !overlaps(&headers, &self.range)
    }

    /// Whether an address is what the segment around the block makes of an offset.
    fn is_loaded_at(&self, offset: u64, address: u64) -> bool {
        address.wrapping_sub(self.address) == offset.wrapping_sub(self.range.start)
    }
}

/// The range, grown to hold what overlaps it as a whole.
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

/// Whether a segment moves as a whole; the others are looked at in `is_movable`.
fn is_small(segment: &ProgramHeader) -> bool {
    matches!(segment.p_type, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
}

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
        // The strings are copied to the end in any case.
        SHT_STRTAB => is_at(DT_STRTAB),
        _ => false,
    }
}

/// The alignment that all in the block asks for; `None` when it is more than a page.
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
