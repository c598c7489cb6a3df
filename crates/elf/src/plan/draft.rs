//! Drafts the edit of a file: appends the new run path to the file, and changes every header that
//! has to refer to an appended part.

use std::ops::Range;

use goblin::elf::{
    dynamic::{DT_STRSZ, DT_STRTAB},
    program_header::{PF_R, PF_W, PT_DYNAMIC, PT_LOAD, PT_NULL, PT_PHDR},
    section_header::{SHT_DYNAMIC, SHT_STRTAB},
};

use crate::{
    patch::{Patch, PatchPiece, Replacement},
    plan::{
        EditPlan, ElfParts, Strategy, render_entries,
        room::{MovableBlock, PAGE, SegmentRoom},
    },
    tables::{
        DynamicEntry, ENTRY, MOVABLE, SECTION, SEGMENT, Section, Segment, contains, is_address,
        is_movable, last_value, overlaps,
    },
};
use rocwheel_base::error::{Context as _, Result};

/// The old places of moved tables that are smaller stay as they are: zeros there would not make a wheel
/// noticeably smaller.
const LEAST_BLANK: u64 = 4096;
/// Where the file header has the offset of the program headers, and their number.
const E_PHOFF: u64 = 32;
const E_PHNUM: u64 = 56;

/// A plan in the making. `parts` is the file as it was; `entries`, `segments` and `sections` are
/// its headers after the edit, and change step by step.
pub(super) struct PlanDraft<'a> {
    parts: &'a ElfParts<'a>,
    room: SegmentRoom,
    entries: Vec<DynamicEntry>,
    /// Whether the dynamic table has no spare entry for `DT_RPATH`, and moves to the tail.
    moves_table: bool,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    tail: Tail,
    /// The bytes of the file that are overwritten in place.
    overlays: Vec<Replacement>,
}

/// The pieces that are appended to the file.
struct Tail {
    pieces: Vec<PatchPiece>,
    /// The offset of the next piece.
    offset: u64,
    /// Address minus offset, for every byte of the tail.
    bias: u64,
    /// Offset of the new segment, if there is one. Padding precedes it.
    start: u64,
}

impl<'a> PlanDraft<'a> {
    /// Appends the run path and all that has to follow it, and rewrites the headers.
    ///
    /// The order of the steps matters. Each step appends its part to the tail and records the new
    /// offset and address in the headers, so the headers are written last. No byte that code,
    /// relocations or debug information refer to changes its address, so none of them is read.
    pub(super) fn plan(parts: &'a ElfParts<'a>, goal: &str) -> Result<EditPlan> {
        // The run path follows the old strings, so its offset in the new strings is their length.
        let run_path_at = parts.strings.end - parts.strings.start;
        let entries = parts.with_run_path(Some(run_path_at));
        let room = SegmentRoom::find(parts)?;
        let mut draft = Self {
            tail: Tail::new(parts, &room),
            segments: parts.tables.segments.clone(),
            sections: parts.tables.sections.clone(),
            overlays: Vec::new(),
            room,
            moves_table: entries.len() > parts.entries.len() + parts.spare,
            entries,
            parts,
        };
        draft.append_strings(goal)?;
        let strategy = match &draft.room {
            SegmentRoom::Extend(_) => Strategy::Extend,
            SegmentRoom::Slot => Strategy::Slot,
            SegmentRoom::Evict(_) => Strategy::Evict,
            SegmentRoom::Relocate(_) => Strategy::Relocate,
        };
        if let SegmentRoom::Evict(block) = &draft.room {
            draft.append_block(&block.clone());
        }
        // Only now: the strings and the block have put their new addresses into the entries.
        if draft.moves_table {
            draft.append_dynamic_table();
        } else {
            draft.overlays.push(parts.overlay_table(&draft.entries));
        }
        draft.write_segments();
        draft.write_sections();
        // Last, because zeros must not overlap any of the bytes that the other steps write.
        draft.blank_moved_tables();
        let patch = Patch::new(
            parts.tables.file_len(),
            parts.tables.file_len(),
            draft.overlays,
            draft.tail.pieces,
        )?;
        Ok(EditPlan { patch, strategy })
    }

    /// Appends a copy of the dynamic strings, followed by the run path.
    ///
    /// All old offsets into the strings stay valid, so symbols and versions need no change. The
    /// strings are the first part of the tail because of `llvm-strip`: with `.interp` first, it
    /// takes `PT_INTERP`, whose alignment is 1, for the parent of the new segment, and gives the new
    /// segment an offset that no longer agrees with its address.
    fn append_strings(&mut self, goal: &str) -> Result<()> {
        let old = self.parts.strings.clone();
        let offset = self.tail.push(PatchPiece::Copy(old.clone()));
        let address = self.tail.address(offset);
        let run_path = [goal.as_bytes(), b"\0"].concat();
        let len = old.end - old.start + run_path.len() as u64;
        self.tail.push(PatchPiece::Bytes(run_path));
        for entry in &mut self.entries {
            match entry.tag {
                DT_STRTAB => entry.value = address,
                DT_STRSZ => entry.value = len,
                _ => {}
            }
        }
        // No loader reads the section headers, but strip and objcopy find the strings by them.
        if !self.sections.is_empty() {
            let old_address = last_value(&self.parts.entries, DT_STRTAB);
            let section = self
                .sections
                .iter_mut()
                .find(|section| {
                    section.kind == SHT_STRTAB
                        && section.is_loaded()
                        && Some(section.address) == old_address
                })
                .context("no section holds the dynamic strings")?;
            section.address = address;
            section.offset = offset;
            section.size = len;
        }
        Ok(())
    }

    /// Moves the block to the tail by one distance, a multiple of its alignment, and corrects all
    /// that refers to its parts: section headers, segments such as `PT_NOTE`, and the dynamic
    /// table.
    ///
    /// `MovableBlock::is_movable` has proved that nothing else refers into the block, and that every part
    /// has the same distance between address and offset. So one distance in the file and one in memory
    /// are right for all parts. A part that is already corrected cannot be moved twice: the strings, which
    /// `append_strings` has moved, are behind the end of the old file now, and so outside the block.
    fn append_block(&mut self, block: &MovableBlock) {
        let rest = block.range.start % block.align;
        let offset = self.tail.align_to(block.align, rest);
        self.tail.push(PatchPiece::Copy(block.range.clone()));
        let file_distance = offset - block.range.start;
        let memory_distance = self.tail.address(offset) - block.address;
        for section in &mut self.sections {
            let file = section.file();
            if !file.is_empty() && contains(&block.range, &file) {
                section.offset += file_distance;
                section.address += memory_distance;
            }
        }
        for segment in &mut self.segments {
            if segment.is_meaningful()
                && segment.file_size > 0
                && contains(&block.range, &segment.file())
            {
                segment.offset += file_distance;
                segment.address += memory_distance;
                segment.physical = segment.address;
            }
        }
        for entry in &mut self.entries {
            if is_movable(entry.tag) && block.holds_address(entry.value) {
                entry.value += memory_distance;
            }
        }
    }

    fn append_dynamic_table(&mut self) {
        let offset = self.tail.align_to(16, 0);
        let mut bytes = render_entries(&self.entries);
        // The terminating `DT_NULL`.
        bytes.resize(bytes.len() + ENTRY, 0);
        let len = bytes.len() as u64;
        self.tail.push(PatchPiece::Bytes(bytes));
        // readelf 2.30 reports a table as damaged if it ends where the file ends.
        self.tail.push(PatchPiece::Zeros(16));
        self.point_segments(PT_DYNAMIC, offset, len);
        for section in &mut self.sections {
            if section.kind == SHT_DYNAMIC && section.offset == self.parts.dynamic {
                section.offset = offset;
                section.address = self.tail.address(offset);
                section.size = len;
            }
        }
    }

    /// Writes the program headers: in place, or, for `Relocate`, as the last part of the tail.
    ///
    /// The table is appended last because it is part of the new segment, and its entry for that
    /// segment has to hold the final size of the tail. So the size of the table is added to the
    /// tail's offset first, and its bytes are rendered afterwards.
    fn write_segments(&mut self) {
        // A `PT_NULL` entry is removed rather than overwritten, because it may precede other
        // `PT_LOAD`s.
        if matches!(self.room, SegmentRoom::Slot)
            && let Some(slot) = self.segments.iter().position(|segment| segment.kind == PT_NULL)
        {
            self.segments.remove(slot);
        }
        let is_load_added = !matches!(self.room, SegmentRoom::Extend(_));
        let count = self.segments.len() + usize::from(is_load_added);
        let len = count as u64 * SEGMENT;
        let mut table = self.parts.tables.segment_table_at();
        let is_table_moved = matches!(self.room, SegmentRoom::Relocate(_));
        if is_table_moved {
            table = self.tail.align_to(8, 0);
            self.tail.offset = table + len;
            self.point_segments(PT_PHDR, table, len);
        } else if let Some(headers) = self.segments.iter_mut().find(|it| it.kind == PT_PHDR) {
            // A writer that reserved spare entries may have made `PT_PHDR` larger already.
            headers.file_size = headers.file_size.max(len);
            headers.memory_size = headers.memory_size.max(headers.file_size);
        }
        match self.room {
            SegmentRoom::Extend(load) => self.extend_load(load),
            _ => self.add_load(),
        }
        let e_phnum = u16::try_from(count).unwrap_or(u16::MAX);
        self.overlays.extend([
            Replacement::bytes(E_PHOFF, table.to_le_bytes().to_vec()),
            Replacement::bytes(E_PHNUM, e_phnum.to_le_bytes().to_vec()),
        ]);
        let bytes = self.segments.iter().flat_map(Segment::render).collect();
        if is_table_moved {
            // Not `Tail::push`: the offset of the tail has counted the table already.
            self.tail.pieces.push(PatchPiece::Bytes(bytes));
        } else {
            self.overlays.push(Replacement::bytes(table, bytes));
        }
    }

    /// Grows a segment to the end of the tail. The dynamic table must be writable, because the
    /// loader stores the address of its debug structure in `DT_DEBUG`.
    fn extend_load(&mut self, load: usize) {
        if let Some(load) = self.segments.get_mut(load) {
            load.resize(self.tail.offset - load.offset);
            load.flags |= if self.moves_table { PF_W } else { 0 };
        }
    }

    /// Adds the segment for the tail. Its address is above all others, and the gABI requires
    /// `PT_LOAD` entries in ascending order of address, so it follows the last of them.
    fn add_load(&mut self) {
        let size = self.tail.offset - self.tail.start;
        let address = self.tail.address(self.tail.start);
        let load = Segment {
            kind: PT_LOAD,
            flags: if self.moves_table { PF_R | PF_W } else { PF_R },
            offset: self.tail.start,
            address,
            physical: address,
            file_size: size,
            memory_size: size,
            align: PAGE,
        };
        let last = self.segments.iter().rposition(|segment| segment.kind == PT_LOAD);
        let index = last.map_or(self.segments.len(), |last| last + 1);
        self.segments.insert(index, load);
    }

    /// Points the segments of a kind to a part of the tail.
    fn point_segments(&mut self, kind: u32, offset: u64, len: u64) {
        for segment in self.segments.iter_mut().filter(|segment| segment.kind == kind) {
            segment.offset = offset;
            segment.address = self.tail.address(offset);
            segment.physical = segment.address;
            segment.resize(len);
        }
    }

    /// Overwrites the section headers that changed. No section is added, so section indexes in
    /// symbols (`st_shndx`) stay valid.
    fn write_sections(&mut self) {
        let start = self.parts.tables.section_table_at();
        let pairs = self.sections.iter().zip(&self.parts.tables.sections);
        for (index, (new, old)) in pairs.enumerate() {
            if new != old {
                let offset = start + index as u64 * SECTION;
                self.overlays.push(Replacement::bytes(offset, new.render()));
            }
        }
    }

    /// Overwrites the old places of moved tables with zeros, except the bytes that the plan has
    /// written there: the program header table may have grown into one. Otherwise a wheel would
    /// contain the same strings and symbols twice, and zeros compress to almost nothing.
    fn blank_moved_tables(&mut self) {
        let mut unused: Vec<Range<u64>> = self
            .parts
            .tables
            .sections
            .iter()
            .zip(&self.sections)
            .filter(|(old, new)| old.offset != new.offset && self.is_unused(old))
            .map(|(old, _)| old.file())
            .collect();
        for overlay in &self.overlays {
            unused = unused.iter().flat_map(|range| subtract(range, &overlay.old)).collect();
        }
        unused.retain(|range| range.end - range.start >= LEAST_BLANK);
        self.overlays.extend(unused.into_iter().map(Replacement::zeros));
    }

    /// Whether no section, segment or dynamic entry refers to the old place of a table any more.
    fn is_unused(&self, old: &Section) -> bool {
        let file = old.file();
        let memory = old.memory();
        let is_used_by = |other: Range<u64>| overlaps(&other, &file);
        let mut sections = self.sections.iter().map(Section::file);
        let mut segments = self.segments.iter().filter(|segment| segment.is_meaningful());
        let mut entries = self.entries.iter();
        // Notes and the dynamic table stay, because symbols such as `_DYNAMIC` may keep their old
        // address.
        MOVABLE.iter().any(|(table, _)| *table == old.kind)
            && old.is_loaded()
            && !is_used_by(self.parts.tables.section_table_range())
            && !sections.any(|other| !other.is_empty() && is_used_by(other))
            && !segments.any(|segment| is_used_by(segment.file()))
            && !entries.any(|entry| is_address(entry.tag) && memory.contains(&entry.value))
    }
}

/// The parts of `range` that are not in `taken`.
fn subtract(range: &Range<u64>, taken: &Range<u64>) -> Vec<Range<u64>> {
    if !overlaps(range, taken) {
        return vec![range.clone()];
    }
    let mut parts = vec![range.start..taken.start, taken.end..range.end];
    parts.retain(|part| part.start < part.end);
    parts
}

impl Tail {
    /// Chooses offset and address of the tail.
    ///
    /// They agree modulo the page size, as `mmap` requires. An extended segment keeps its bias. A pinned
    /// segment gets the bias of the first segment. Any other segment goes to the first page above all
    /// segments, so that it shares no page with them.
    fn new(parts: &ElfParts<'_>, room: &SegmentRoom) -> Self {
        let (start, load) = match room {
            SegmentRoom::Extend(load) => {
                (parts.tables.file_len(), parts.tables.segments.get(*load))
            }
            SegmentRoom::Relocate(Some(start)) => (*start, parts.tables.loads().next()),
            _ => (parts.tables.file_len().next_multiple_of(16), None),
        };
        let above = parts.address_end().next_multiple_of(PAGE) + start % PAGE;
        let pad = start - parts.tables.file_len();
        Self {
            pieces: Vec::from_iter((pad > 0).then_some(PatchPiece::Zeros(pad))),
            offset: start,
            bias: load.map_or(above.wrapping_sub(start), Segment::bias),
            start,
        }
    }

    /// Appends a piece, and returns its offset.
    fn push(&mut self, piece: PatchPiece) -> u64 {
        let offset = self.offset;
        self.offset += piece.size();
        self.pieces.push(piece);
        offset
    }

    /// Appends zeros until the offset is `rest` modulo `align`, and returns the offset.
    fn align_to(&mut self, align: u64, rest: u64) -> u64 {
        let pad = (align + rest - self.offset % align) % align;
        if pad > 0 {
            self.push(PatchPiece::Zeros(pad));
        }
        self.offset
    }

    fn address(&self, offset: u64) -> u64 {
        offset.wrapping_add(self.bias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_of_a_range_is_cut_out() {
        let cut = |taken: Range<u64>| format!("{:?}", subtract(&(10..20), &taken));
        assert_eq!(cut(0..10), "[10..20]");
        assert_eq!(cut(0..12), "[12..20]");
        assert_eq!(cut(12..15), "[10..12, 15..20]");
        assert_eq!(cut(18..30), "[10..18]");
        assert_eq!(cut(20..30), "[10..20]");
        assert_eq!(cut(5..30), "[]");
    }
}
