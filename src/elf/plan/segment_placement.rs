//! Which segment brings the appended bytes into memory.
//!
//! The new strings are only of use to the loader if a `PT_LOAD` covers them, so that one more program
//! header is needed, or the last segment grows. The program header table has no spare room in files
//! of the usual linkers: the first section follows it. The ways to make room are tried from the least
//! to the most intrusive. The table itself moves last, because programs such as the profile runtime of
//! LLVM look for it behind the file header, and kernels before 5.18 compute its address (`AT_PHDR`)
//! from the first segment.

use std::ops::Range;

use goblin::elf::{
    ProgramHeader,
    program_header::{PF_X, PT_LOAD, PT_NULL, PT_PHDR},
};

use crate::elf::{
    ElfError, ReadAt,
    plan::{
        block::MovableBlock,
        parts::{ElfParts, PHDR, SHDR, file_range, is_filler, overlaps, segment_range},
    },
};

pub(super) const PAGE: u64 = 0x1000;
/// What an executable may grow by so that its program headers are where old kernels look.
const MAX_PAD_EXECUTABLE: u64 = 64 << 20;
/// In a shared object only programs that read their own headers look there.
const MAX_PAD_SHARED: u64 = 1 << 20;

#[derive(Debug)]
pub(super) enum SegmentRoom {
    /// The segment with this number ends where the file ends.
    Extend { load: usize },
    /// One more entry fits behind the program headers, or in place of an empty one.
    Slot,
    /// One more entry fits once this is out of the way.
    Evict(MovableBlock),
    /// The table moves too. The new segment begins at least here, for the sake of its address.
    Relocate { not_before: Option<u64> },
}

pub(super) fn find<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Result<SegmentRoom, ElfError> {
    // Where no padding bridges the distance, old kernels do not find the headers of this executable
    // before the change either.
    if parts.is_executable()
        && !is_pinned(parts)
        && let Some(start) = pinned_start(parts, MAX_PAD_EXECUTABLE)
    {
        return Ok(SegmentRoom::Relocate {
            not_before: Some(start),
        });
    }
    Ok(if let Some(load) = extendable(parts) {
        SegmentRoom::Extend { load }
    } else if has_slot(parts)? {
        SegmentRoom::Slot
    } else if let Some(block) = MovableBlock::find(parts)? {
        SegmentRoom::Evict(block)
    } else if parts.is_executable() {
        let Some(start) = pinned_start(parts, MAX_PAD_EXECUTABLE) else {
            return Err(ElfError::Unsupported(
                "no room for a program header, and too much memory in use to move them".to_owned(),
            ));
        };
        SegmentRoom::Relocate {
            not_before: Some(start),
        }
    } else {
        SegmentRoom::Relocate {
            not_before: pinned_start(parts, MAX_PAD_SHARED),
        }
    })
}

/// Whether the program headers are in memory where kernels before 5.18 take them to be: as far
/// from the first segment as in the file.
fn is_pinned<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> bool {
    let (Some(first), Some(load)) = (parts.loads().next(), parts.load_of(&parts.headers(0))) else {
        return false;
    };
    bias(first) == bias(load)
}

/// The offset from which on a segment with the bias of the first one is free of all others.
fn pinned_start<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, max_pad: u64) -> Option<u64> {
    let first = parts.loads().next()?;
    let bias = first.p_vaddr.checked_sub(first.p_offset)?;
    let free = parts
        .address_end()
        .next_multiple_of(PAGE)
        .checked_sub(bias)?;
    let start = free.max(parts.len.next_multiple_of(PAGE));
    (start - parts.len <= max_pad && bias % PAGE == 0).then_some(start)
}

fn bias(load: &ProgramHeader) -> u64 {
    load.p_vaddr.wrapping_sub(load.p_offset)
}

/// The highest segment, if the file ends with it and bytes behind it would be in memory as well.
/// Addresses ascend in a file that loads, so that it is the last one.
fn extendable<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Option<usize> {
    let mut segments = parts.image.segments.iter().enumerate();
    let (index, load) = segments.rfind(|(_, segment)| segment.p_type == PT_LOAD)?;
    let suits = load.p_offset + load.p_filesz == parts.len
        && load.p_filesz == load.p_memsz
        && load.p_filesz > 0
        && load.p_flags & PF_X == 0;
    suits.then_some(index)
}

fn has_slot<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Result<bool, ElfError> {
    if parts.image.segment(PT_NULL).is_some() && parts.load_of(&parts.headers(0)).is_some() {
        return Ok(true);
    }
    let slot = parts.headers(0).end..parts.headers(1).end;
    if parts.load_of(&(parts.headers(1))).is_none() || !is_free(parts, &slot) {
        return Ok(false);
    }
    let bytes = parts
        .image
        .bytes("program header table", slot.start, PHDR)?;
    Ok(is_filler(&bytes))
}

/// Whether nothing owns a range behind the program headers.
fn is_free<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, slot: &Range<u64>) -> bool {
    let is_said_to_be = parts.image.segment(PT_PHDR).is_some_and(|place| {
        place.p_offset == parts.headers(0).start && segment_range(place).end >= slot.end
    });
    let header = &parts.image.header;
    let sections = header.e_shoff..header.e_shoff + parts.sections.len() as u64 * SHDR;
    let mut owned = parts.sections.iter().filter_map(file_range);
    let segments = parts.image.segments.iter();
    let mut parts_of_segments = segments
        .filter(|segment| !matches!(segment.p_type, PT_LOAD | PT_PHDR))
        .map(segment_range);
    (is_said_to_be || !parts.sections.is_empty())
        && !overlaps(&sections, slot)
        && !owned.any(|range| overlaps(&range, slot))
        && !parts_of_segments.any(|range| overlaps(&range, slot))
}
