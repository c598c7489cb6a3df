//! Chooses the segment that maps the appended bytes into memory.
//!
//! The loader finds the new strings only if a `PT_LOAD` covers them. So the last segment has to
//! grow, or the file needs one more program header. Usual linkers leave no room for one: the first
//! section follows the table directly. The ways to make room are tried from the least to the most
//! intrusive. Moving the table itself is the last one, because programs such as the profile runtime
//! of LLVM look for it behind the file header, and kernels before 5.18 compute its address
//! (`AT_PHDR`) from the first segment. See
//! [Program Header](https://www.sco.com/developers/gabi/latest/ch5.pheader.html) in the gABI.

use goblin::elf::program_header::{PF_X, PT_LOAD, PT_NULL, PT_PHDR};

use crate::{
    elf::{
        plan::{
            block::MovableBlock,
            parts::{ElfParts, is_filler},
        },
        source::read_exact_at,
        tables::{Segment, overlaps},
    },
    error::{Context as _, Result},
};

pub(super) const PAGE: u64 = 0x1000;
/// How many zeros an executable may get so that its program headers are where old kernels look.
const MAX_PAD_EXECUTABLE: u64 = 64 << 20;
/// The same for a shared object. Kernels do not read its headers, so only code that reads the
/// headers of its own library gains from the zeros.
const MAX_PAD_SHARED: u64 = 1 << 20;

/// How the tail gets mapped. The variants are those of [`Strategy`](crate::elf::Strategy).
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

pub(super) fn find(parts: &ElfParts<'_>) -> Result<SegmentRoom> {
    let is_executable = parts.is_executable(&parts.entries);
    let pinned = |max_pad| SegmentRoom::Relocate {
        not_before: pinned_start(parts, max_pad),
    };
    // The kpack split may leave the program headers of an executable where old kernels do not find
    // them. Moving them repairs this. If that takes too many zeros, they stay: old kernels could
    // not start the program before the edit either.
    if is_executable
        && !is_pinned(parts)
        && let room @ SegmentRoom::Relocate {
            not_before: Some(_),
        } = pinned(MAX_PAD_EXECUTABLE)
    {
        return Ok(room);
    }
    Ok(if let Some(load) = extendable(parts) {
        SegmentRoom::Extend { load }
    } else if has_slot(parts)? {
        SegmentRoom::Slot
    } else if let Some(block) = MovableBlock::find(parts)? {
        SegmentRoom::Evict(block)
    } else if is_executable {
        let start = pinned_start(parts, MAX_PAD_EXECUTABLE)
            .context("no room for a program header, and too much memory in use to move them")?;
        SegmentRoom::Relocate {
            not_before: Some(start),
        }
    } else {
        pinned(MAX_PAD_SHARED)
    })
}

/// Whether the program headers are where kernels before 5.18 expect them: at the same distance from
/// the first segment in memory as in the file. Later kernels use the address of `PT_PHDR`.
fn is_pinned(parts: &ElfParts<'_>) -> bool {
    let load = parts.load_of(&parts.headers(0)).map(Segment::bias);
    load.is_some() && load == parts.loads().next().map(Segment::bias)
}

/// The lowest offset for a new segment that keeps the bias of the first one and lies above all
/// other segments in memory; `None` if the file would have to grow by more than `max_pad`.
fn pinned_start(parts: &ElfParts<'_>, max_pad: u64) -> Option<u64> {
    let first = parts.loads().next()?;
    let bias = first.address.checked_sub(first.offset)?;
    let free = parts
        .address_end()
        .next_multiple_of(PAGE)
        .checked_sub(bias)?;
    let start = free.max(parts.len().next_multiple_of(PAGE));
    (start - parts.len() <= max_pad && bias % PAGE == 0).then_some(start)
}

/// The last loaded segment, if appended bytes can become part of it: it ends where the file ends,
/// has no `.bss`, which would be where the bytes go, and is not executable. As addresses ascend, no
/// other segment follows it in memory.
fn extendable(parts: &ElfParts<'_>) -> Option<usize> {
    let mut segments = parts.segments.iter().enumerate();
    let (index, load) = segments.rfind(|(_, segment)| segment.kind == PT_LOAD)?;
    let suits = load.file().end == parts.len()
        && load.file_size == load.memory_size
        && load.file_size > 0
        && load.flags & PF_X == 0;
    suits.then_some(index)
}

/// Whether the table has a `PT_NULL` entry, or is followed by unused filler in the same segment.
fn has_slot(parts: &ElfParts<'_>) -> Result<bool> {
    if parts.first(PT_NULL).is_some() && parts.load_of(&parts.headers(0)).is_some() {
        return Ok(true);
    }
    if parts.load_of(&parts.headers(1)).is_none() || !is_free(parts) {
        return Ok(false);
    }
    let mut bytes = [0; 56];
    read_exact_at(parts.source, parts.headers(0).end, &mut bytes)?;
    Ok(is_filler(&bytes))
}

/// Whether no section, segment or table uses the range of one more program header.
///
/// Without section headers this cannot be known, unless `PT_PHDR` includes the range, as in files
/// whose writer reserved spare entries.
fn is_free(parts: &ElfParts<'_>) -> bool {
    let slot = parts.headers(0).end..parts.headers(1).end;
    let is_said_to_be = parts.first(PT_PHDR).is_some_and(|place| {
        place.offset == parts.headers(0).start && place.file().end >= slot.end
    });
    let mut segments = parts.segments.iter();
    (is_said_to_be || !parts.sections.is_empty())
        && !overlaps(&parts.section_table_range(), &slot)
        && !parts.section_files().any(|file| overlaps(&file, &slot))
        && !segments.any(|segment| {
            !matches!(segment.kind, PT_LOAD | PT_PHDR) && overlaps(&segment.file(), &slot)
        })
}
