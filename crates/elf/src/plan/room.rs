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
    plan::ElfParts,
    source::read_exact_at,
    tables::{FIXED_ADDRESSES, MOVABLE, Section, Segment, contains, last_value, overlaps},
};
use rocwheel_base::error::{Result, ensure};

pub(super) const PAGE: u64 = 0x1000;
/// How many zeros an executable may get so that its program headers are where old kernels look.
const MAX_PAD_EXECUTABLE: u64 = 64 << 20;
/// The same for a shared object. Kernels do not read its headers, so only code that reads the
/// headers of the library that contains it gains from the zeros.
const MAX_PAD_SHARED: u64 = 1 << 20;

/// How often a block is grown by the sections and segments that overlap it. Real files need two
/// rounds; the limit ends the search in damaged files, where overlaps may chain.
const MAX_ROUNDS: usize = 16;
/// The largest gap between two sections of a block. Alignments are at most a page (see
/// `largest_alignment`), so a larger gap is not padding.
const MAX_GAP: u64 = PAGE;

/// The segment that maps the tail. The ways are in the order in which they are tried.
#[derive(Debug)]
pub(super) enum SegmentRoom {
    /// The segment with this index ends where the file ends, and grows.
    Extend(usize),
    /// One more entry fits behind the program headers, or replaces a `PT_NULL`.
    Slot,
    /// One more entry fits once this block has moved to the tail.
    Evict(MovableBlock),
    /// The table moves to the tail. With an offset, the new segment begins at the offset, and then has
    /// the same distance from the first segment in memory as in the file.
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

impl SegmentRoom {
    /// Finds the least intrusive way to map the tail.
    pub(super) fn find(parts: &ElfParts<'_>) -> Result<Self> {
        let is_executable = parts.tables.is_executable(&parts.entries);
        let max_pad = if is_executable { MAX_PAD_EXECUTABLE } else { MAX_PAD_SHARED };
        let pinned = pinned_start(parts, max_pad);
        // The kpack split may leave the program headers of an executable where old kernels do not find
        // them. Moving them repairs this. If that takes too many zeros, they stay: old kernels could
        // not start the program before the edit either.
        if is_executable && pinned.is_some() && !is_pinned(parts) {
            return Ok(Self::Relocate(pinned));
        }
        if let Some(load) = find_extendable(parts) {
            return Ok(Self::Extend(load));
        }
        if has_slot(parts)? {
            return Ok(Self::Slot);
        }
        if let Some(block) = MovableBlock::find(parts)? {
            return Ok(Self::Evict(block));
        }
        // Kernels do not read the program headers of a shared object, so these may go anywhere. An
        // executable whose headers are not pinned would not start on an old kernel.
        ensure!(
            pinned.is_some() || !is_executable,
            "no room for a program header, and too much memory in use to move them"
        );
        Ok(Self::Relocate(pinned))
    }
}

/// Whether the program headers are where kernels before 5.18 expect them: at the same distance from
/// the first segment in memory as in the file. Later kernels use the address of `PT_PHDR`.
fn is_pinned(parts: &ElfParts<'_>) -> bool {
    let bias = parts.tables.load_around(&parts.headers(0)).map(Segment::bias);
    bias.is_some() && bias == parts.tables.loads().next().map(Segment::bias)
}

/// The lowest offset for a new segment that keeps the bias of the first segment and lies above all
/// other segments in memory; `None` if the file would have to grow by more than `max_pad`.
fn pinned_start(parts: &ElfParts<'_>, max_pad: u64) -> Option<u64> {
    let first = parts.tables.loads().next()?;
    let bias = first.address.checked_sub(first.offset)?;
    // With this bias, an offset is an address minus the bias: the new segment has to begin behind the
    // last address that is in use, and behind the end of the file.
    let above_segments = parts.address_end().next_multiple_of(PAGE).checked_sub(bias)?;
    let start = above_segments.max(parts.tables.file_len().next_multiple_of(PAGE));
    (start - parts.tables.file_len() <= max_pad && bias % PAGE == 0).then_some(start)
}

/// Finds the index of the last loaded segment, if appended bytes can become part of it: it ends where
/// the file ends, has no `.bss`, which would be where the bytes go, and is not executable. As addresses
/// ascend, no other segment follows it in memory.
fn find_extendable(parts: &ElfParts<'_>) -> Option<usize> {
    let mut segments = parts.tables.segments.iter().enumerate();
    let (index, load) = segments.rfind(|(_, segment)| segment.kind == PT_LOAD)?;
    let can_grow = load.file().end == parts.tables.file_len()
        && load.file_size == load.memory_size
        && load.file_size > 0
        && load.flags & PF_X == 0;
    can_grow.then_some(index)
}

/// Whether the table has a `PT_NULL` entry, or is followed by unused filler in the same segment.
///
/// The segment matters: the loader reads the table in memory, and so a loaded segment must cover it,
/// with the new entry.
fn has_slot(parts: &ElfParts<'_>) -> Result<bool> {
    let is_loaded = |more| parts.tables.load_around(&parts.headers(more)).is_some();
    if parts.tables.first(PT_NULL).is_some() && is_loaded(0) {
        return Ok(true);
    }
    if !is_loaded(1) || !is_slot_free(parts) {
        return Ok(false);
    }
    // One program header.
    let mut bytes = [0; 56];
    read_exact_at(parts.tables.source, parts.headers(0).end, &mut bytes)?;
    Ok(is_filler(&bytes))
}

/// Whether no section, segment or table uses the range of one more program header.
///
/// Without section headers this cannot be known, unless `PT_PHDR` includes the range, as in files
/// whose writer reserved spare entries.
fn is_slot_free(parts: &ElfParts<'_>) -> bool {
    let headers = parts.headers(0);
    let slot = headers.end..parts.headers(1).end;
    let is_reserved = parts
        .tables
        .first(PT_PHDR)
        .is_some_and(|segment| segment.offset == headers.start && segment.file().end >= slot.end);
    let mut segments = parts.tables.segments.iter();
    (is_reserved || !parts.tables.sections.is_empty())
        && !overlaps(&parts.tables.section_table_range(), &slot)
        && !parts.section_files().any(|file| overlaps(&file, &slot))
        && !segments.any(|segment| segment.is_meaningful() && overlaps(&segment.file(), &slot))
}

/// Whether bytes outside of all sections are unused: only zeros, or only `X`, with which patchelf
/// overwrites the old place of a section that it has moved.
fn is_filler(bytes: &[u8]) -> bool {
    [0, b'X'].iter().any(|filler| bytes.iter().all(|byte| byte == filler))
}

impl MovableBlock {
    /// Finds the block that has to move for one more program header; `None` if a part of it must stay.
    pub(super) fn find(parts: &ElfParts<'_>) -> Result<Option<Self>> {
        match Self::behind_headers(parts) {
            Some(block) if block.is_movable(parts) && block.is_covered(parts)? => Ok(Some(block)),
            _ => Ok(None),
        }
    }

    /// The sections and notes that one more program header would overwrite, and all sections and notes
    /// that overlap these. The block must begin directly behind the program headers.
    fn behind_headers(parts: &ElfParts<'_>) -> Option<Self> {
        // Without section headers, nothing says what the bytes behind the program headers are.
        if parts.tables.sections.is_empty() {
            return None;
        }
        let headers = parts.headers(0);
        let mut range = headers.end..parts.headers(1).end;
        for _ in 0..MAX_ROUNDS {
            range = grow_range(parts, &range);
        }
        if grow_range(parts, &range) != range {
            return None;
        }
        let load = parts.tables.load_around(&(headers.start..range.end))?;
        let block = Self {
            address: load.address + (range.start - load.offset),
            align: largest_alignment(parts, &range)?,
            range,
        };
        // The tail keeps offset and address equal modulo the alignment. If they differ in the old file,
        // one distance cannot keep both aligned.
        let is_sound = block.range.start == headers.end
            && block.address % block.align == block.range.start % block.align;
        is_sound.then_some(block)
    }

    /// Whether an address is within the block in memory.
    pub(super) fn holds_address(&self, address: u64) -> bool {
        let len = self.range.end - self.range.start;
        address.checked_sub(self.address).is_some_and(|inside| inside < len)
    }

    /// Whether all parts of the block may move, and no reference into the block is left that `draft` does
    /// not correct: an entry of the dynamic table, or the section header table within the block.
    ///
    /// `PlanDraft::append_block` relies on this: it corrects what this function allows, and nothing else.
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
    fn is_covered(&self, parts: &ElfParts<'_>) -> Result<bool> {
        let files = parts
            .section_files()
            .filter(|file| contains(&self.range, file))
            .sorted_by_key(|file| file.start);
        let block_end = self.range.end..self.range.end;
        let mut covered = self.range.start;
        for file in files.chain(std::iter::once(block_end)) {
            let gap = file.start.saturating_sub(covered);
            if gap > MAX_GAP {
                return Ok(false);
            }
            let mut bytes = vec![0; usize::try_from(gap)?];
            read_exact_at(parts.tables.source, covered, &mut bytes)?;
            if !is_filler(&bytes) {
                return Ok(false);
            }
            covered = covered.max(file.end);
        }
        Ok(true)
    }

    /// Whether offset and address have the same distance as the offset and the address of the block. A
    /// section or segment with another distance would get a wrong address when the block moves.
    fn is_loaded_at(&self, offset: u64, address: u64) -> bool {
        address.wrapping_sub(self.address) == offset.wrapping_sub(self.range.start)
    }
}

/// A section or a small segment.
struct MovablePart {
    file: Range<u64>,
    align: u64,
}

/// Every section and every small segment that has bytes in the file.
fn movable_parts(parts: &ElfParts<'_>) -> impl Iterator<Item = MovablePart> {
    let sections = parts
        .tables
        .sections
        .iter()
        .map(|section| MovablePart { file: section.file(), align: section.align });
    let segments = parts
        .tables
        .segments
        .iter()
        .filter(|segment| is_small(segment))
        .map(|segment| MovablePart { file: segment.file(), align: segment.align });
    sections.chain(segments).filter(|part| !part.file.is_empty())
}

/// Extends a range so that no section and no small segment is partly inside. What was added may overlap
/// further parts.
fn grow_range(parts: &ElfParts<'_>, range: &Range<u64>) -> Range<u64> {
    movable_parts(parts)
        .filter(|part| overlaps(&part.file, range))
        .fold(range.clone(), |grown, part| {
            grown.start.min(part.file.start)..grown.end.max(part.file.end)
        })
}

/// The largest alignment in the block; `None` if it is more than a page.
fn largest_alignment(parts: &ElfParts<'_>, range: &Range<u64>) -> Option<u64> {
    let align = movable_parts(parts)
        .filter(|part| overlaps(&part.file, range))
        .map(|part| part.align)
        .fold(8, u64::max);
    (align.is_power_of_two() && align <= PAGE).then_some(align)
}

/// Whether a segment covers only bytes that may move, so that it can move with the block. Any other
/// segment in the block, except `PT_LOAD` and `PT_PHDR`, keeps the block where it is.
fn is_small(segment: &Segment) -> bool {
    matches!(segment.kind, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
}

/// Whether nothing refers to a section but the references that `draft` corrects.
///
/// The dynamic table must name a table that moves. Who reads a second table of the same kind is unknown.
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
