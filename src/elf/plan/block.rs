//! Finds the sections behind the program header table that may move to the end of the file, to make
//! room for one more program header.
//!
//! Linkers put `.interp`, notes, hash tables, `.dynsym` and versions there. Only segments, section
//! headers and a few entries of the dynamic table refer to them, so they can move together by one
//! distance. Code and data cannot move, because other code contains their addresses. If the block
//! has a section that is not known to be movable, nothing moves, and `room` uses
//! another strategy.

use std::ops::Range;

use goblin::elf::{
    dynamic::{
        DT_FINI, DT_FINI_ARRAY, DT_GNU_HASH, DT_HASH, DT_INIT, DT_INIT_ARRAY, DT_JMPREL, DT_PLTGOT,
        DT_PREINIT_ARRAY, DT_REL, DT_RELA, DT_STRTAB, DT_SYMTAB, DT_TLSDESC_PLT, DT_VERDEF,
        DT_VERNEED, DT_VERSYM,
    },
    program_header::{PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR},
    section_header::{
        SHT_DYNSYM, SHT_GNU_HASH, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM, SHT_HASH,
        SHT_NOTE, SHT_PROGBITS, SHT_STRTAB,
    },
};

use crate::{
    elf::{
        plan::parts::{ElfParts, is_filler},
        source::read_exact_at,
        tables::{Section, Segment, last_value, overlaps},
    },
    error::Result,
};

/// The tables that may move: the type of their section, and the tag with their address. Only these
/// two refer to them.
pub(super) const MOVING: [(u32, u64); 7] = [
    (SHT_HASH, DT_HASH),
    (SHT_GNU_HASH, DT_GNU_HASH),
    (SHT_DYNSYM, DT_SYMTAB),
    (SHT_GNU_VERSYM, DT_VERSYM),
    (SHT_GNU_VERNEED, DT_VERNEED),
    (SHT_GNU_VERDEF, DT_VERDEF),
    // The tail has a copy of the strings in any case.
    (SHT_STRTAB, DT_STRTAB),
];
/// Tags whose address must not lie in the block: all others that hold an address.
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
    pub(super) fn find(parts: &ElfParts<'_>) -> Result<Option<Self>> {
        match Self::around(parts) {
            Some(block) if block.is_movable(parts) && block.is_owned(parts)? => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// The sections and notes that one more program header would overwrite, and all that overlaps
    /// those. It must begin directly behind the program headers.
    fn around(parts: &ElfParts<'_>) -> Option<Self> {
        if parts.sections.is_empty() {
            return None;
        }
        let headers = parts.headers(0);
        let mut range = headers.end..parts.headers(1).end;
        for _ in 0..MAX_ROUNDS {
            range = grow(parts, &range);
        }
        if grow(parts, &range) != range {
            return None;
        }
        let load = parts.load_of(&(headers.start..range.end))?;
        let block = Self {
            address: load.address + (range.start - load.offset),
            align: align(parts, &range)?,
            range,
        };
        let is_sound = block.range.start == headers.end
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

    fn is_movable(&self, parts: &ElfParts<'_>) -> bool {
        let interpreter = parts.first(PT_INTERP).map(Segment::file);
        let mut sections = parts.sections.iter();
        let mut segments = parts.segments.iter();
        sections.all(|section| {
            let file = section.file();
            file.is_empty()
                || !overlaps(&file, &self.range)
                || (self.is_loaded_at(file.start, section.address)
                    && is_movable(parts, section, interpreter.as_ref()))
        }) && segments.all(|segment| {
            !overlaps(&segment.file(), &self.range)
                || matches!(segment.kind, PT_LOAD | PT_PHDR | PT_NULL)
                || (is_small(segment) && self.is_loaded_at(segment.offset, segment.address))
        }) && self.is_unseen(parts)
    }

    /// Whether sections and filler cover the whole block. Other bytes may be in use: a linker can
    /// put data outside of all sections.
    fn is_owned(&self, parts: &ElfParts<'_>) -> Result<bool> {
        let mut inside: Vec<_> = parts.section_files().filter(|it| self.holds(it)).collect();
        inside.sort_by_key(|range| range.start);
        inside.push(self.range.end..self.range.end);
        let mut end = self.range.start;
        for range in inside {
            let gap = range.start.saturating_sub(end);
            if gap > MAX_GAP {
                return Ok(false);
            }
            let mut bytes = vec![0; usize::try_from(gap)?];
            read_exact_at(parts.source, end, &mut bytes)?;
            if !is_filler(&bytes) {
                return Ok(false);
            }
            end = end.max(range.end);
        }
        Ok(true)
    }

    /// Whether no reference into the block is left that `draft` does not correct: an entry of the
    /// dynamic table in `STAYING`, or the section header table within the block.
    fn is_unseen(&self, parts: &ElfParts<'_>) -> bool {
        let mut entries = parts.entries.iter();
        !entries.any(|it| STAYING.contains(&it.tag) && self.holds_address(it.value))
            && !overlaps(&parts.section_table_range(), &self.range)
    }

    /// Whether offset and address have the same distance as those of the block itself. A section or
    /// segment with another distance would get a wrong address when the block moves.
    fn is_loaded_at(&self, offset: u64, address: u64) -> bool {
        address.wrapping_sub(self.address) == offset.wrapping_sub(self.range.start)
    }
}

/// Extends a range so that no section and no small segment is partly inside.
fn grow(parts: &ElfParts<'_>, range: &Range<u64>) -> Range<u64> {
    let segments = parts.segments.iter().filter(|segment| is_small(segment));
    let others = parts.section_files().chain(segments.map(Segment::file));
    others
        .filter(|other| overlaps(other, range))
        .fold(range.clone(), |grown, other| {
            grown.start.min(other.start)..grown.end.max(other.end)
        })
}

/// Whether a segment covers only bytes that may move, so that it can move with the block. Any other
/// segment in the block, except `PT_LOAD` and `PT_PHDR`, keeps the block where it is.
fn is_small(segment: &Segment) -> bool {
    matches!(segment.kind, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
}

/// Whether nothing refers to a section but the references that `draft` corrects.
///
/// A table must be the one that the dynamic table names: for a second one it is unknown who reads
/// it.
fn is_movable(parts: &ElfParts<'_>, section: &Section, interpreter: Option<&Range<u64>>) -> bool {
    let mut tables = MOVING.iter();
    section.is_loaded()
        && match section.kind {
            SHT_NOTE => true,
            SHT_PROGBITS => Some(&section.file()) == interpreter,
            kind => tables.any(|(table, tag)| {
                *table == kind && last_value(&parts.entries, *tag) == Some(section.address)
            }),
        }
}

/// The largest alignment in the block; `None` if it is more than a page.
fn align(parts: &ElfParts<'_>, range: &Range<u64>) -> Option<u64> {
    let inside = |file: Range<u64>| overlaps(&file, range);
    let sections = parts.sections.iter();
    let sections = sections.filter(|it| !it.file().is_empty() && inside(it.file()));
    let segments = parts.segments.iter();
    let segments = segments.filter(|it| is_small(it) && inside(it.file()));
    let align = sections
        .map(|section| section.align)
        .chain(segments.map(|segment| segment.align))
        .fold(8, u64::max);
    (align.is_power_of_two() && align <= MAX_GAP).then_some(align)
}
