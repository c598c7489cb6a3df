//! Chooses the segment that maps the appended bytes into memory.
//!
//! The loader finds the new strings only if a `PT_LOAD` covers them. So the last segment has to
//! grow, or the file needs one more program header. Usual linkers leave no room for one: the first
//! section follows the table directly. The ways to make room are tried from the least to the most
//! intrusive. Moving the table itself is the last one, because programs such as the profile runtime
//! of LLVM look for it behind the file header, and kernels before 5.18 compute its address
//! (`AT_PHDR`) from the first segment. See
//! [Program Header](https://www.sco.com/developers/gabi/latest/ch5.pheader.html) in the gABI.

use std::ops::Range;

use goblin::elf::{
    program_header::{PF_X, PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR},
    section_header::{SHT_NOTE, SHT_PROGBITS},
};

use itertools::Itertools as _;

use crate::{
    elf::{
        plan::ElfParts,
        source::read_exact_at,
        tables::{FIXED_ADDRESSES, MOVABLE, Section, Segment, contains, last_value, overlaps},
    },
    error::{Result, ensure},
};

pub(super) const PAGE: u64 = 0x1000;
/// How many zeros an executable may get so that its program headers are where old kernels look.
const MAX_PAD_EXECUTABLE: u64 = 64 << 20;
/// The same for a shared object. Kernels do not read its headers, so only code that reads the
/// headers of its own library gains from the zeros.
const MAX_PAD_SHARED: u64 = 1 << 20;

/// How often a block is grown by the sections and segments that overlap it. Real files need two
/// rounds; the limit ends the search in damaged files, where overlaps may chain.
const MAX_ROUNDS: usize = 16;
/// The largest gap between two sections of a block. Alignments are at most a page (see `align`), so
/// a larger gap is not padding.
const MAX_GAP: u64 = PAGE;

/// How the tail gets mapped, in the order in which the ways are tried.
#[derive(Debug)]
pub(super) enum SegmentRoom {
    /// The segment with this index ends where the file ends, and grows.
    Extend(usize),
    /// One more entry fits behind the program headers, or replaces a `PT_NULL`.
    Slot,
    /// One more entry fits once this block has moved to the tail.
    Evict(MovableBlock),
    /// The table moves to the tail. With an offset the new segment begins there, where it has the
    /// same distance from the first segment in memory as in the file.
    Relocate(Option<u64>),
}

/// A range of the file behind the program headers that moves as a whole.
///
/// Linkers put `.interp`, notes, hash tables, `.dynsym` and versions there. Only segments, section
/// headers and a few entries of the dynamic table refer to them, so they can move together by one
/// distance. Code and data cannot move, because other code contains their addresses. If the block
/// has a section that is not known to be movable, nothing moves.
#[derive(Clone, Debug)]
pub(super) struct MovableBlock {
    pub(super) range: Range<u64>,
    /// The address of its first byte.
    pub(super) address: u64,
    pub(super) align: u64,
}

pub(super) fn find(parts: &ElfParts<'_>) -> Result<SegmentRoom> {
    let is_executable = parts.tables.is_executable(&parts.entries);
    let pinned = if is_executable {
        pinned_start(parts, MAX_PAD_EXECUTABLE)
    } else {
        pinned_start(parts, MAX_PAD_SHARED)
    };
    // The kpack split may leave the program headers of an executable where old kernels do not find
    // them. Moving them repairs this. If that takes too many zeros, they stay: old kernels could
    // not start the program before the edit either.
    if is_executable && pinned.is_some() && !is_pinned(parts) {
        return Ok(SegmentRoom::Relocate(pinned));
    }
    if let Some(load) = extendable(parts) {
        return Ok(SegmentRoom::Extend(load));
    }
    if has_slot(parts)? {
        return Ok(SegmentRoom::Slot);
    }
    if let Some(block) = MovableBlock::find(parts)? {
        return Ok(SegmentRoom::Evict(block));
    }
    ensure!(
        pinned.is_some() || !is_executable,
        "no room for a program header, and too much memory in use to move them"
    );
    Ok(SegmentRoom::Relocate(pinned))
}

/// Whether the program headers are where kernels before 5.18 expect them: at the same distance from
/// the first segment in memory as in the file. Later kernels use the address of `PT_PHDR`.
fn is_pinned(parts: &ElfParts<'_>) -> bool {
    let load = parts.load_of(&parts.headers(0)).map(Segment::bias);
    load.is_some() && load == parts.tables.loads().next().map(Segment::bias)
}

/// The lowest offset for a new segment that keeps the bias of the first one and lies above all
/// other segments in memory; `None` if the file would have to grow by more than `max_pad`.
fn pinned_start(parts: &ElfParts<'_>, max_pad: u64) -> Option<u64> {
    let first = parts.tables.loads().next()?;
    let bias = first.address.checked_sub(first.offset)?;
    let free = parts.address_end().next_multiple_of(PAGE).checked_sub(bias)?;
    let start = free.max(parts.tables.len().next_multiple_of(PAGE));
    (start - parts.tables.len() <= max_pad && bias % PAGE == 0).then_some(start)
}

/// The last loaded segment, if appended bytes can become part of it: it ends where the file ends,
/// has no `.bss`, which would be where the bytes go, and is not executable. As addresses ascend, no
/// other segment follows it in memory.
fn extendable(parts: &ElfParts<'_>) -> Option<usize> {
    let mut segments = parts.tables.segments.iter().enumerate();
    let (index, load) = segments.rfind(|(_, segment)| segment.kind == PT_LOAD)?;
    let suits = load.file().end == parts.tables.len()
        && load.file_size == load.memory_size
        && load.file_size > 0
        && load.flags & PF_X == 0;
    suits.then_some(index)
}

/// Whether the table has a `PT_NULL` entry, or is followed by unused filler in the same segment.
fn has_slot(parts: &ElfParts<'_>) -> Result<bool> {
    if parts.tables.first(PT_NULL).is_some() && parts.load_of(&parts.headers(0)).is_some() {
        return Ok(true);
    }
    if parts.load_of(&parts.headers(1)).is_none() || !is_free(parts) {
        return Ok(false);
    }
    let mut bytes = [0; 56];
    read_exact_at(parts.tables.source, parts.headers(0).end, &mut bytes)?;
    Ok(is_filler(&bytes))
}

/// Whether no section, segment or table uses the range of one more program header.
///
/// Without section headers this cannot be known, unless `PT_PHDR` includes the range, as in files
/// whose writer reserved spare entries.
fn is_free(parts: &ElfParts<'_>) -> bool {
    let slot = parts.headers(0).end..parts.headers(1).end;
    let is_said_to_be = parts.tables.first(PT_PHDR).is_some_and(|place| {
        place.offset == parts.headers(0).start && place.file().end >= slot.end
    });
    let mut segments = parts.tables.segments.iter();
    (is_said_to_be || !parts.tables.sections.is_empty())
        && !overlaps(&parts.tables.section_table_range(), &slot)
        && !parts.section_files().any(|file| overlaps(&file, &slot))
        && !segments.any(|it| it.is_meaningful() && overlaps(&it.file(), &slot))
}

/// Whether bytes outside of all sections are unused: only zeros, or only `X`, with which patchelf
/// overwrites the old place of a section that it has moved.
fn is_filler(bytes: &[u8]) -> bool {
    let mut fillers = [0, b'X'].iter();
    fillers.any(|filler| bytes.iter().all(|byte| byte == filler))
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
        if parts.tables.sections.is_empty() {
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

    pub(super) fn holds_address(&self, address: u64) -> bool {
        let len = self.range.end - self.range.start;
        let inside = address.checked_sub(self.address);
        inside.is_some_and(|inside| inside < len)
    }

    /// Whether all parts of the block may move, and no reference into it is left that `draft` does
    /// not correct: an entry of the dynamic table, or the section header table within the block.
    fn is_movable(&self, parts: &ElfParts<'_>) -> bool {
        let mut sections = parts.tables.sections.iter();
        let mut segments = parts.tables.segments.iter();
        let mut entries = parts.entries.iter();
        sections.all(|section| {
            let file = section.file();
            file.is_empty()
                || !overlaps(&file, &self.range)
                || (self.is_loaded_at(file.start, section.address) && is_movable(parts, section))
        }) && segments.all(|segment| {
            !overlaps(&segment.file(), &self.range)
                || !segment.is_meaningful()
                || (is_small(segment) && self.is_loaded_at(segment.offset, segment.address))
        }) && !entries.any(|it| FIXED_ADDRESSES.contains(&it.tag) && self.holds_address(it.value))
            && !overlaps(&parts.tables.section_table_range(), &self.range)
    }

    /// Whether sections and filler cover the whole block. Other bytes may be in use: a linker can
    /// put data outside of all sections.
    fn is_owned(&self, parts: &ElfParts<'_>) -> Result<bool> {
        let inside = parts.section_files().filter(|it| contains(&self.range, it));
        let inside = inside.sorted_by_key(|range| range.start);
        let mut end = self.range.start;
        let block_end = self.range.end..self.range.end;
        for range in inside.chain(std::iter::once(block_end)) {
            let gap = range.start.saturating_sub(end);
            if gap > MAX_GAP {
                return Ok(false);
            }
            let mut bytes = vec![0; usize::try_from(gap)?];
            read_exact_at(parts.tables.source, end, &mut bytes)?;
            if !is_filler(&bytes) {
                return Ok(false);
            }
            end = end.max(range.end);
        }
        Ok(true)
    }

    /// Whether offset and address have the same distance as those of the block itself. A section or
    /// segment with another distance would get a wrong address when the block moves.
    fn is_loaded_at(&self, offset: u64, address: u64) -> bool {
        address.wrapping_sub(self.address) == offset.wrapping_sub(self.range.start)
    }
}

/// The range and the alignment of every section and every small segment.
fn movable_parts(parts: &ElfParts<'_>) -> impl Iterator<Item = (Range<u64>, u64)> {
    let sections = parts.tables.sections.iter().map(|it| (it.file(), it.align));
    let segments = parts.tables.segments.iter().filter(|segment| is_small(segment));
    let all = sections.chain(segments.map(|it| (it.file(), it.align)));
    all.filter(|(file, _)| !file.is_empty())
}

/// Extends a range so that no section and no small segment is partly inside.
fn grow(parts: &ElfParts<'_>, range: &Range<u64>) -> Range<u64> {
    movable_parts(parts)
        .filter(|(other, _)| overlaps(other, range))
        .fold(range.clone(), |grown, (other, _)| {
            grown.start.min(other.start)..grown.end.max(other.end)
        })
}

/// The largest alignment in the block; `None` if it is more than a page.
fn align(parts: &ElfParts<'_>, range: &Range<u64>) -> Option<u64> {
    let inside = movable_parts(parts).filter(|(file, _)| overlaps(file, range));
    let align = inside.map(|(_, align)| align).fold(8, u64::max);
    (align.is_power_of_two() && align <= MAX_GAP).then_some(align)
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
fn is_movable(parts: &ElfParts<'_>, section: &Section) -> bool {
    let mut tables = MOVABLE.iter();
    section.is_loaded()
        && match section.kind {
            SHT_NOTE => true,
            SHT_PROGBITS => {
                parts.tables.first(PT_INTERP).map(Segment::file) == Some(section.file())
            }
            kind => tables.any(|(table, tag)| {
                *table == kind && last_value(&parts.entries, *tag) == Some(section.address)
            }),
        }
}
