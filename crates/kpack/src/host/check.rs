//! Verifies the plan of a binary without its code. Compares the old file with the patched view of
//! it, and does not use the layout, so that a mistake in the planning cannot hide itself.

use goblin::elf::{
    program_header::{PF_X, PT_LOAD, PT_PHDR},
    section_header::SHT_NOBITS,
};
use itertools::Itertools as _;

use crate::{
    Marker, SplittableBinary,
    host::{CODE, fat::references, image::HostImage},
};
use rocwheel_base::error::{Result, bail, ensure};
use rocwheel_elf::{
    self, Patch, PatchedReader, ReadAt,
    tables::{Section, Segment},
};

/// An error unless the changed binary loads as before, has everything but its code, and its
/// wrappers lead to the markers.
pub(super) fn ensure_only_code_left(
    source: &dyn ReadAt,
    old: &HostImage<'_>,
    fat: &SplittableBinary,
    markers: &[Marker],
    plan: &Patch,
) -> Result<()> {
    let view = PatchedReader::new(source, plan.clone());
    let new = HostImage::read_host(&view)?;
    let known = rocwheel_elf::broken_rules(source)?;
    let mut broken = rocwheel_elf::broken_rules(&view)?.into_iter();
    // Defects that the binary had before the split are accepted.
    if let Some(rule) = broken.find(|rule| !known.contains(rule)) {
        bail!("{rule}");
    }
    ensure_memory_mapped(old, &new)?;
    ensure_bytes_loaded(old, &new, plan)?;
    compare_other_segments(old, &new, plan)?;
    compare_sections(old, &new, plan)?;
    ensure_inside_by_offset(old, &new)?;
    // Tools confuse a segment without bytes with another segment at the same offset.
    for empty in new.tables.loads().filter(|load| load.file_size == 0 && load.align > 1) {
        let same_offset = new.tables.loads().filter(|load| load.offset == empty.offset);
        ensure!(
            same_offset.count() == 1,
            "two segments at the same place in the file: {:#x}",
            empty.offset
        );
    }
    if let Some(symbol) = new.symbols_outside(&new.code()?.memory())?.first() {
        bail!("a symbol of `{CODE}` lies outside of it: {:#x}", symbol.value);
    }
    let references = references(&view)?;
    ensure!(references.len() == fat.wrappers.len(), "wrappers are missing");
    for (wrapper, reference) in fat.wrappers.iter().zip(&references) {
        let bundle = wrapper.bundle;
        ensure!(
            markers.get(bundle) == Some(&*reference.marker) && reference.index == bundle,
            "a wrapper leads elsewhere: at {:#x}",
            wrapper.address
        );
    }
    Ok(())
}

/// All memory of the old segments is still mapped with its permissions. Only memory without machine
/// code may have lost the permission to execute.
fn ensure_memory_mapped(old: &HostImage<'_>, new: &HostImage<'_>) -> Result<()> {
    for load in old.tables.loads() {
        let wanted = load.memory();
        // The segment of the code is three segments now, in the order of their addresses. Together they
        // must cover the old segment.
        let mut mapped_to = wanted.start;
        for piece in new.tables.loads() {
            let memory = piece.memory();
            let is_allowed = piece.flags == load.flags
                || (piece.flags | PF_X == load.flags && !old.runs_in(&memory));
            if is_allowed && memory.contains(&mapped_to) {
                mapped_to = memory.end;
            }
        }
        ensure!(mapped_to >= wanted.end, "memory is missing: at {mapped_to:#x}");
    }
    Ok(())
}

/// Every copied byte that was loaded is still loaded at its old address.
fn ensure_bytes_loaded(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    for (range, new_start) in plan.copies() {
        for load in old.tables.loads() {
            let file = load.file();
            let part = range.start.max(file.start)..range.end.min(file.end);
            if part.is_empty() {
                continue;
            }
            let address = load.address.wrapping_add(part.start.wrapping_sub(load.offset));
            let offset = new_start.saturating_add(part.start.saturating_sub(range.start));
            // The part may span several segments of the new file, so its two ends are looked up
            // instead of the whole range.
            let last = part.end.saturating_sub(part.start).saturating_sub(1);
            let is_start_loaded = new.tables.place(address, 1) == Some(offset);
            let is_end_loaded = new.tables.place(address.wrapping_add(last), 1)
                == Some(offset.saturating_add(last));
            ensure!(is_start_loaded && is_end_loaded, "bytes are loaded elsewhere: {address:#x}");
        }
    }
    Ok(())
}

/// All segments but `PT_LOAD` and `PT_PHDR` are the same, except for their offset, which follows
/// the copied bytes.
fn compare_other_segments(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    let is_other = |segment: &&Segment| !matches!(segment.kind, PT_LOAD | PT_PHDR);
    let old_segments = old.tables.segments.iter().filter(is_other);
    let new_segments = new.tables.segments.iter().filter(is_other);
    let is_same = old_segments.zip_longest(new_segments).all(|pair| {
        pair.both().is_some_and(|(before, after)| {
            let offset = new_offset(plan, before.offset, before.file_size).unwrap_or(after.offset);
            Segment { offset, ..*before } == *after
        })
    });
    ensure!(is_same, "a segment changed that is not loaded");
    ensure!(
        old.tables.first(PT_PHDR).is_some() == new.tables.first(PT_PHDR).is_some(),
        "`PT_PHDR` came or went"
    );
    Ok(())
}

/// Every section has its old header, except for its offset, which follows the copied bytes. Only
/// the section of the code and the section names differ, and one section is new.
fn compare_sections(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    ensure!(
        new.tables.sections.len() == old.tables.sections.len().saturating_add(1),
        "sections are missing"
    );
    let pairs = old.tables.sections.iter().zip(&new.tables.sections);
    for (index, (before, after)) in pairs.enumerate() {
        if before.name == CODE || index == old.tables.name_section_index() {
            ensure!(before.name == after.name, "`{}` lost its name", before.name);
            continue;
        }
        let file = before.file();
        let size = file.end.saturating_sub(file.start);
        let offset = new_offset(plan, before.offset, size).unwrap_or(after.offset);
        ensure!(Section { offset, ..before.clone() } == *after, "`{}` changed", before.name);
    }
    Ok(())
}

/// No section ends outside of its segment, as linters and strip see it, unless it did before.
///
/// They find the segment of a section by its offset: the first segment that contains the section's
/// first byte. For a section without bytes (`.bss`) they use the segment's size in memory.
///
/// The section of the code has bytes before the split and none afterwards. If nothing was removed,
/// its zeros are still in the file, which linters accept.
fn ensure_inside_by_offset(old: &HostImage<'_>, new: &HostImage<'_>) -> Result<()> {
    for (before, after) in old.tables.sections.iter().zip(&new.tables.sections) {
        ensure!(
            !after.is_loaded() || ends_inside(new, after) || !ends_inside(old, before),
            "`{}` ends outside of its segment by its offset",
            after.name
        );
    }
    Ok(())
}

fn ends_inside(image: &HostImage<'_>, section: &Section) -> bool {
    let segment = image.tables.loads().find(|load| {
        let size = if section.kind == SHT_NOBITS { load.memory_size } else { load.file_size };
        let inside = section.offset.checked_sub(load.offset);
        inside.is_some_and(|inside| inside < size)
    });
    segment.is_none_or(|load| {
        let end = load.offset.saturating_add(load.memory_size);
        // mold gives all sections without bytes the offset 0, where other bytes are.
        let is_misplaced =
            section.name != CODE && section.kind == SHT_NOBITS && section.offset < load.file().end;
        !is_misplaced && section.offset.saturating_add(section.size) <= end
    })
}

/// The offset in the new file of bytes of the old file; `None` if their first byte is not copied.
fn new_offset(plan: &Patch, offset: u64, size: u64) -> Option<u64> {
    if size == 0 {
        return None;
    }
    plan.copies().find_map(|(range, start)| {
        let inside = offset.checked_sub(range.start)?;
        (offset < range.end).then(|| start.saturating_add(inside))
    })
}
