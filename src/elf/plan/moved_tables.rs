//! Overwrites the old places of moved tables with zeros. Otherwise a wheel would contain the same
//! strings and symbols twice, and zeros compress to almost nothing.

use std::ops::Range;

use goblin::elf::{
    ProgramHeader, SectionHeader,
    dynamic::DT_STRTAB,
    program_header::{PT_LOAD, PT_NULL, PT_PHDR},
    section_header::{
        SHF_ALLOC, SHT_DYNSYM, SHT_GNU_HASH, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM,
        SHT_HASH, SHT_STRTAB,
    },
};

use crate::elf::{
    image::DynamicEntry,
    patch::Replacement,
    plan::{
        block::{MOVING, STAYING},
        parts::{ElfParts, SHDR, file_range, overlaps, segment_range},
    },
};

/// Types of tables to which only the dynamic table and the section headers refer. Notes and the
/// dynamic table are not among them, because symbols such as `_DYNAMIC` may keep their old address.
const TABLES: [u32; 7] = [
    SHT_STRTAB,
    SHT_DYNSYM,
    SHT_HASH,
    SHT_GNU_HASH,
    SHT_GNU_VERSYM,
    SHT_GNU_VERNEED,
    SHT_GNU_VERDEF,
];

/// Smaller ranges stay as they are: they would not make a wheel noticeably smaller.
const LEAST: u64 = 4096;

/// The headers of a file before (`parts`) and after its tables moved.
pub(super) struct Leavings<'a, R: ?Sized> {
    pub(super) parts: &'a ElfParts<'a, R>,
    pub(super) sections: &'a [SectionHeader],
    pub(super) segments: &'a [ProgramHeader],
    pub(super) entries: &'a [DynamicEntry],
}

impl<R: ?Sized> Leavings<'_, R> {
    /// Zeros for every old place of a table, except the bytes that the plan has written there: the
    /// program header table may have grown into it.
    pub(super) fn blanks(&self, written: &[Replacement]) -> Vec<Replacement> {
        let pairs = self.parts.sections.iter().zip(self.sections);
        let mut free: Vec<Range<u64>> = pairs
            .filter(|(old, new)| old.sh_offset != new.sh_offset && self.is_left(old))
            .filter_map(|(old, _)| file_range(old))
            .collect();
        for overlay in written {
            free = free
                .into_iter()
                .flat_map(|range| without(&range, &overlay.old))
                .collect();
        }
        free.retain(|range| range.end - range.start >= LEAST);
        free.into_iter().map(Replacement::zeros).collect()
    }

    /// Whether no section, segment or dynamic entry refers to the old place of a table any more.
    fn is_left(&self, old: &SectionHeader) -> bool {
        let Some(range) = file_range(old) else {
            return false;
        };
        let start = self.parts.image.header.e_shoff;
        let table = start..start + self.parts.sections.len() as u64 * SHDR;
        let is_used = |other: Range<u64>| overlaps(&other, &range);
        let segments = self.segments.iter();
        let mut segments = segments.filter(|it| !matches!(it.p_type, PT_LOAD | PT_PHDR | PT_NULL));
        let addresses = old.sh_addr..old.sh_addr + old.sh_size;
        let is_address = |tag| tag == DT_STRTAB || MOVING.contains(&tag) || STAYING.contains(&tag);
        let mut entries = self.entries.iter();
        TABLES.contains(&old.sh_type)
            && old.sh_flags & u64::from(SHF_ALLOC) != 0
            && !is_used(table)
            && !self.sections.iter().filter_map(file_range).any(is_used)
            && !segments.any(|segment| is_used(segment_range(segment)))
            && !entries.any(|entry| is_address(entry.tag) && addresses.contains(&entry.value))
    }
}

/// The parts of `range` that are not in `taken`.
fn without(range: &Range<u64>, taken: &Range<u64>) -> Vec<Range<u64>> {
    let before = range.start..range.end.min(taken.start);
    let after = range.start.max(taken.end)..range.end;
    let mut left = vec![before, after];
    left.retain(|part| part.start < part.end);
    if !overlaps(range, taken) {
        left = vec![range.clone()];
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_of_a_range_is_cut_out() {
        let cut = |taken: Range<u64>| format!("{:?}", without(&(10..20), &taken));
        assert_eq!(cut(0..10), "[10..20]");
        assert_eq!(cut(0..12), "[12..20]");
        assert_eq!(cut(12..15), "[10..12, 15..20]");
        assert_eq!(cut(18..30), "[10..18]");
        assert_eq!(cut(20..30), "[10..20]");
        assert_eq!(cut(5..30), "[]");
    }
}
