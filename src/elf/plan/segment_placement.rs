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
/// How many zeros an executable may get so that its program headers are where old kernels look.
const MAX_PAD_EXECUTABLE: u64 = 64 << 20;
/// The same for a shared object. Kernels do not read its headers, so only code that reads the
/// headers of its own library gains from the zeros.
const MAX_PAD_SHARED: u64 = 1 << 20;

/// How the tail gets mapped. The variants are those of [`Strategy`](crate::elf::edit::Strategy).
#[derive(Debug)]
pub(super) enum SegmentRoom {
    /// The segment with this index ends where the file ends, and grows.
    Extend { load: usize },
    /// One more entry fits behind the program headers, or replaces a `PT_NULL`.
    Slot,
    /// One more entry fits once this block has moved to the tail.
    Evict(MovableBlock),
    /// The table moves to the tail. With `not_before` the new segment begins at this offset, where
    /// it has the same distance from the first segment in memory as in the file.
    Relocate { not_before: Option<u64> },
}

pub(super) fn find<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Result<SegmentRoom, ElfError> {
    // The kpack split may leave the program headers of an executable where old kernels do not find
    // them. Moving them repairs this. If that takes too many zeros, they stay: old kernels could
    // not start the program before the edit either.
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

/// Whether the program headers are where kernels before 5.18 expect them: at the same distance from
/// the first segment in memory as in the file. Later kernels use the address of `PT_PHDR`.
fn is_pinned<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> bool {
    let (Some(first), Some(load)) = (parts.loads().next(), parts.load_of(&parts.headers(0))) else {
        return false;
    };
    bias(first) == bias(load)
}

/// The lowest offset for a new segment that keeps the bias of the first one and lies above all
/// other segments in memory; `None` if the file would have to grow by more than `max_pad`.
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

/// The distance between a segment's address and its offset.
fn bias(load: &ProgramHeader) -> u64 {
    load.p_vaddr.wrapping_sub(load.p_offset)
}

/// The last loaded segment, if appended bytes can become part of it: it ends where the file ends,
/// has no `.bss`, which would be where the bytes go, and is not executable. As addresses ascend, no
/// other segment follows it in memory.
fn extendable<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>) -> Option<usize> {
    let mut segments = parts.image.segments.iter().enumerate();
    let (index, load) = segments.rfind(|(_, segment)| segment.p_type == PT_LOAD)?;
    let suits = load.p_offset + load.p_filesz == parts.len
        && load.p_filesz == load.p_memsz
        && load.p_filesz > 0
        && load.p_flags & PF_X == 0;
    suits.then_some(index)
}

/// Whether the table has a `PT_NULL` entry, or is followed by unused filler in the same segment.
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

/// Whether no section, segment or table uses a range behind the program headers.
///
/// Without section headers this cannot be known, unless `PT_PHDR` includes the range, as in files
/// whose writer reserved spare entries.
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
