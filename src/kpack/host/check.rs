//! Verifies the plan of a binary without its code. Compares the old file with the patched view of
//! it, and does not use the layout, so that a mistake in the planning cannot hide itself.

use goblin::elf::{
    program_header::{PF_X, PT_LOAD, PT_PHDR},
    section_header::SHT_NOBITS,
};
use itertools::Itertools as _;

use crate::{
    elf::{
        self, Patch, PatchedReader, ReadAt,
        tables::{Section, Segment},
    },
    error::{Result, bail, ensure},
    kpack::{
        Marker, SplittableBinary,
        host::{CODE, fat::references, image::HostImage},
    },
};

/// An error unless the changed binary loads as before, has everything but its code, and its
/// wrappers lead to the markers.
pub(super) fn accept(
    source: &dyn ReadAt,
    old: &HostImage<'_>,
    fat: &SplittableBinary,
    markers: &[Marker],
    plan: &Patch,
) -> Result<()> {
    let view = PatchedReader::new(source, plan.clone());
    let new = HostImage::of_host(&view)?;
    let known = elf::broken_rules(source)?;
    let mut broken = elf::broken_rules(&view)?.into_iter();
    // Defects that the binary had before the split are accepted.
    if let Some(rule) = broken.find(|rule| !known.contains(rule)) {
        bail!("{rule}");
    }
    mapped(old, &new)?;
    copied(old, &new, plan)?;
    other_segments(old, &new, plan)?;
    sections(old, &new, plan)?;
    inside_by_offset(old, &new)?;
    // Tools confuse a segment without bytes with another one at the same offset.
    for empty in new.tables.loads().filter(|it| it.file_size == 0 && it.align > 1) {
        let same = new.tables.loads().filter(|load| load.offset == empty.offset);
        ensure!(
            same.count() == 1,
            "two segments at the same place in the file: {:#x}",
            empty.offset
        );
    }
    if let Some((_, value, _)) = new.symbols_outside(&new.code()?.memory())?.first() {
        bail!("a symbol of `{CODE}` lies outside of it: {value:#x}");
    }
    let found = references(&view)?;
    ensure!(found.len() == fat.wrappers.len(), "wrappers are missing");
    for (wrapper, reference) in fat.wrappers.iter().zip(&found) {
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
fn mapped(old: &HostImage<'_>, new: &HostImage<'_>) -> Result<()> {
    for load in old.tables.loads() {
        let wanted = load.memory();
        let mut at = wanted.start;
        for piece in new.tables.loads() {
            let memory = piece.memory();
            let is_allowed = piece.flags == load.flags
                || (piece.flags | PF_X == load.flags && !old.runs_in(&memory));
            if is_allowed && memory.contains(&at) {
                at = memory.end;
            }
        }
        ensure!(at >= wanted.end, "memory is missing: at {at:#x}");
    }
    Ok(())
}

/// Every copied byte that was loaded is still loaded at its old address.
fn copied(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    for (range, start) in plan.copies() {
        for load in old.tables.loads() {
            let file = load.file();
            let part = range.start.max(file.start)..range.end.min(file.end);
            if part.is_empty() {
                continue;
            }
            let address = load.address.wrapping_add(part.start.wrapping_sub(load.offset));
            let moved = start.saturating_add(part.start.saturating_sub(range.start));
            // The part may span several segments of the new file, so its two ends are looked up
            // instead of the whole range.
            let end = part.end.saturating_sub(part.start).saturating_sub(1);
            ensure!(
                new.tables.place(address, 1) == Some(moved)
                    && new.tables.place(address.wrapping_add(end), 1)
                        == Some(moved.saturating_add(end)),
                "bytes are loaded elsewhere: {address:#x}"
            );
        }
    }
    Ok(())
}

/// All segments but `PT_LOAD` and `PT_PHDR` are the same, except for their offset, which follows
/// the copied bytes.
fn other_segments(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    let is_other = |it: &&Segment| !matches!(it.kind, PT_LOAD | PT_PHDR);
    let before = old.tables.segments.iter().filter(is_other);
    let after = new.tables.segments.iter().filter(is_other);
    let same = before.zip_longest(after).all(|pair| {
        pair.both().is_some_and(|(one, other)| {
            let offset = moved(plan, one.offset, one.file_size).unwrap_or(other.offset);
            Segment { offset, ..*one } == *other
        })
    });
    ensure!(same, "a segment changed that is not loaded");
    ensure!(
        old.tables.first(PT_PHDR).is_some() == new.tables.first(PT_PHDR).is_some(),
        "`PT_PHDR` came or went"
    );
    Ok(())
}

/// Every section has its old header, except for its offset, which follows the copied bytes. Only
/// the section of the code and the section names differ, and one section is new.
fn sections(old: &HostImage<'_>, new: &HostImage<'_>, plan: &Patch) -> Result<()> {
    ensure!(
        new.tables.sections.len() == old.tables.sections.len().saturating_add(1),
        "sections are missing"
    );
    for (index, (one, other)) in old.tables.sections.iter().zip(&new.tables.sections).enumerate() {
        if one.name == CODE || index == old.tables.names() {
            ensure!(one.name == other.name, "`{}` lost its name", one.name);
            continue;
        }
        let size = one.file().end.saturating_sub(one.file().start);
        let mut moved_one = one.clone();
        moved_one.offset = moved(plan, one.offset, size).unwrap_or(other.offset);
        ensure!(moved_one == *other, "`{}` changed", one.name);
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
fn inside_by_offset(old: &HostImage<'_>, new: &HostImage<'_>) -> Result<()> {
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
    let owner = image.tables.loads().find(|load| {
        let size = if section.kind == SHT_NOBITS { load.memory_size } else { load.file_size };
        let inside = section.offset.checked_sub(load.offset);
        inside.is_some_and(|inside| inside < size)
    });
    owner.is_none_or(|load| {
        let end = load.offset.saturating_add(load.memory_size);
        // mold gives all sections without bytes the offset 0, where other bytes are.
        let is_misplaced =
            section.name != CODE && section.kind == SHT_NOBITS && section.offset < load.file().end;
        !is_misplaced && section.offset.saturating_add(section.size) <= end
    })
}

/// The offset in the new file of bytes of the old one; `None` if their first byte is not copied.
fn moved(plan: &Patch, offset: u64, size: u64) -> Option<u64> {
    if size == 0 {
        return None;
    }
    plan.copies().find_map(|(range, start)| {
        let inside = offset.checked_sub(range.start)?;
        (offset < range.end).then(|| start.saturating_add(inside))
    })
}
