//! Drafts the edit of a file: appends the new run path to the file, and changes every header that
//! has to refer to an appended part.

use goblin::elf::{
    ProgramHeader, SectionHeader,
    dynamic::{DT_STRSZ, DT_STRTAB},
    program_header::{PF_R, PF_W, PT_DYNAMIC, PT_LOAD, PT_NULL, PT_PHDR},
    section_header::SHT_DYNAMIC,
};

use crate::elf::{
    ElfError, ReadAt,
    edit::{EditPlan, Strategy},
    image::DynamicEntry,
    patch::{PatchPiece, Replacement},
    plan::{
        block::MovableBlock,
        headers::{section_bytes, segment_bytes},
        moved_tables::Leavings,
        parts::{ElfParts, SHDR, file_range, segment_range},
        segment_placement::{self, PAGE, SegmentRoom},
        table::to_bytes,
        tail::{Tail, TailPlace},
    },
};

/// A plan in the making. `parts` is the file as it was; `entries`, `segments` and `sections` are
/// its headers after the edit, and change step by step.
pub(super) struct PlanDraft<'a, R: ?Sized> {
    parts: ElfParts<'a, R>,
    room: SegmentRoom,
    entries: Vec<DynamicEntry>,
    /// The dynamic table has no spare entry for `DT_RPATH`, and moves to the tail.
    moves_table: bool,
    segments: Vec<ProgramHeader>,
    sections: Vec<SectionHeader>,
    tail: Tail,
    overlays: Vec<Replacement>,
}

impl<'a, R: ReadAt + ?Sized> PlanDraft<'a, R> {
    pub(super) fn new(parts: ElfParts<'a, R>, goal: &str) -> Result<Self, ElfError> {
        let old = parts.strings.end - parts.strings.start;
        let entries = parts.table.with_run_path(Some(old));
        let moves_table = !parts.table.fits(&entries);
        let room = segment_placement::find(&parts)?;
        let mut draft = Self {
            tail: Tail::new(&parts, &room),
            segments: parts.image.segments.clone(),
            sections: parts.sections.clone(),
            overlays: Vec::new(),
            parts,
            room,
            entries,
            moves_table,
        };
        draft.append_strings(goal)?;
        Ok(draft)
    }

    /// Appends the other parts and rewrites the headers.
    ///
    /// The order of the steps matters. Each step appends its part to the tail and records the new
    /// offset and address in the headers, so the headers are written last. No byte that code,
    /// relocations or debug information refer to changes its address, so none of them is read.
    pub(super) fn finish(mut self) -> Result<EditPlan, ElfError> {
        if let SegmentRoom::Evict(block) = &self.room {
            let block = block.clone();
            self.append_block(&block);
        }
        if self.moves_table {
            self.append_table();
        } else {
            self.overlays.push(self.parts.table.overlay(&self.entries));
        }
        self.write_segments();
        self.write_sections();
        let leavings = Leavings {
            parts: &self.parts,
            sections: &self.sections,
            segments: &self.segments,
            entries: &self.entries,
        };
        let blanks = leavings.blanks(&self.overlays);
        self.overlays.extend(blanks);
        let strategy = match self.room {
            SegmentRoom::Extend { .. } => Strategy::Extend,
            SegmentRoom::Slot => Strategy::Slot,
            SegmentRoom::Evict(_) => Strategy::Evict,
            SegmentRoom::Relocate { .. } => Strategy::Relocate,
        };
        EditPlan::new(self.parts.len, self.overlays, self.tail.pieces, strategy)
    }

    /// Appends a copy of the dynamic strings, followed by the run path.
    ///
    /// All old offsets into the strings stay valid, so symbols and versions need no change. The
    /// strings are the first part of the tail because of `llvm-strip`: with `.interp` first, it
    /// takes `PT_INTERP`, whose alignment is 1, for the parent of the new segment, and gives that
    /// an offset that no longer agrees with its address.
    fn append_strings(&mut self, goal: &str) -> Result<(), ElfError> {
        let old = self.parts.strings.clone();
        let place = self.tail.push(PatchPiece::Copy(old.clone()));
        let mut text = goal.as_bytes().to_vec();
        text.push(0);
        let len = old.end - old.start + text.len() as u64;
        self.tail.push(PatchPiece::Bytes(text));
        self.point(DT_STRTAB, place.address);
        self.point(DT_STRSZ, len);
        if let Some(index) = self.parts.string_section()?
            && let Some(section) = self.sections.get_mut(index)
        {
            section.sh_addr = place.address;
            section.sh_offset = place.offset;
            section.sh_size = len;
        }
        Ok(())
    }

    /// Moves the block to the tail by one distance, a multiple of its alignment, and corrects all
    /// that refers to its parts: section headers, segments such as `PT_NOTE`, and the dynamic
    /// table.
    fn append_block(&mut self, block: &MovableBlock) {
        let aligned = block.range.start % block.align;
        let place = self.tail.align_to(block.align, aligned);
        self.tail.push(PatchPiece::Copy(block.range.clone()));
        let by_offset = place.offset - block.range.start;
        let by_address = place.address - block.address;
        for section in &mut self.sections {
            if file_range(section).is_some_and(|range| block.holds(&range)) {
                section.sh_offset += by_offset;
                section.sh_addr += by_address;
            }
        }
        for segment in &mut self.segments {
            let moves = !matches!(segment.p_type, PT_LOAD | PT_PHDR | PT_NULL);
            if moves && segment.p_filesz > 0 && block.holds(&segment_range(segment)) {
                segment.p_offset += by_offset;
                segment.p_vaddr += by_address;
                segment.p_paddr = segment.p_vaddr;
            }
        }
        for entry in &mut self.entries {
            if MovableBlock::moves_tag(entry.tag) && block.holds_address(entry.value) {
                entry.value += by_address;
            }
        }
    }

    /// Moves the dynamic table to the tail.
    fn append_table(&mut self) {
        let place = self.tail.align_to(16, 0);
        let mut bytes = to_bytes(&self.entries);
        // The terminating `DT_NULL`.
        bytes.resize(bytes.len() + 16, 0);
        let len = bytes.len() as u64;
        self.tail.push(PatchPiece::Bytes(bytes));
        // readelf 2.30 reports a table as damaged if it ends where the file ends.
        self.tail.push(PatchPiece::Zeros(16));
        let old = self.parts.table.offset;
        for segment in &mut self.segments {
            if segment.p_type == PT_DYNAMIC {
                segment.p_offset = place.offset;
                segment.p_vaddr = place.address;
                segment.p_paddr = place.address;
                segment.p_filesz = len;
                segment.p_memsz = len;
            }
        }
        for section in &mut self.sections {
            if section.sh_type == SHT_DYNAMIC && section.sh_offset == old {
                section.sh_offset = place.offset;
                section.sh_addr = place.address;
                section.sh_size = len;
            }
        }
    }

    /// Writes the program headers: in place, or, for `Relocate`, as the last part of the tail.
    ///
    /// The table is appended last because it is part of the new segment, and its entry for that
    /// segment has to hold the final size of the tail. So the size of the table is added to the
    /// tail's offset first, and its bytes are rendered afterwards.
    fn write_segments(&mut self) {
        let more =
            u64::from(!matches!(self.room, SegmentRoom::Extend { .. }) && !self.reuses_slot());
        let mut table = self.parts.headers(more);
        if matches!(self.room, SegmentRoom::Relocate { .. }) {
            let place = self.tail.align_to(8, 0);
            table = place.offset..place.offset + (table.end - table.start);
            self.tail.offset = table.end;
            self.write_header(place.offset, more);
            self.place_headers(place, table.end - table.start);
            self.add_load();
            self.tail
                .pieces
                .push(PatchPiece::Bytes(self.segment_bytes()));
            return;
        }
        if let SegmentRoom::Extend { load } = self.room {
            self.extend(load);
        } else {
            self.write_header(table.start, more);
            let headers = self.segments.iter_mut().find(|s| s.p_type == PT_PHDR);
            if let Some(headers) = headers {
                headers.p_filesz = headers.p_filesz.max(table.end - table.start);
                headers.p_memsz = headers.p_memsz.max(headers.p_filesz);
            }
            self.add_load();
        }
        self.overlays
            .push(Replacement::bytes(table.start, self.segment_bytes()));
    }

    /// Whether the new segment replaces a `PT_NULL` entry, so that the table does not grow.
    fn reuses_slot(&self) -> bool {
        matches!(self.room, SegmentRoom::Slot) && self.parts.image.segment(PT_NULL).is_some()
    }

    /// Grows a segment to the end of the tail. The dynamic table must be writable, because the
    /// loader stores the address of its debug structure in `DT_DEBUG`.
    fn extend(&mut self, load: usize) {
        let end = self.tail.offset;
        let writable = if self.moves_table { PF_W } else { 0 };
        if let Some(load) = self.segments.get_mut(load) {
            load.p_filesz = end - load.p_offset;
            load.p_memsz = load.p_filesz;
            load.p_flags |= writable;
        }
    }

    /// Adds the segment for the tail. Its address is above all others, and the gABI requires
    /// `PT_LOAD` entries in ascending order of address, so it follows the last of them.
    ///
    /// A `PT_NULL` entry is removed rather than overwritten, because it may precede other
    /// `PT_LOAD`s.
    fn add_load(&mut self) {
        if self.reuses_slot() {
            let slot = self.segments.iter().position(|s| s.p_type == PT_NULL);
            if let Some(slot) = slot {
                self.segments.remove(slot);
            }
        }
        let size = self.tail.offset - self.tail.start;
        let address = self.tail.start.wrapping_add(self.tail.bias);
        let load = ProgramHeader {
            p_type: PT_LOAD,
            p_flags: if self.moves_table { PF_R | PF_W } else { PF_R },
            p_offset: self.tail.start,
            p_vaddr: address,
            p_paddr: address,
            p_filesz: size,
            p_memsz: size,
            p_align: PAGE,
        };
        let last = self.segments.iter().rposition(|s| s.p_type == PT_LOAD);
        let place = last.map_or(self.segments.len(), |last| last + 1);
        self.segments.insert(place, load);
    }

    /// Points `PT_PHDR` to the moved program headers.
    fn place_headers(&mut self, place: TailPlace, len: u64) {
        let headers = self.segments.iter_mut().find(|s| s.p_type == PT_PHDR);
        if let Some(headers) = headers {
            headers.p_offset = place.offset;
            headers.p_vaddr = place.address;
            headers.p_paddr = place.address;
            headers.p_filesz = len;
            headers.p_memsz = len;
        }
    }

    /// Writes the offset of the program headers and their number into the file header.
    fn write_header(&mut self, table: u64, more: u64) {
        const E_PHOFF: u64 = 32;
        const E_PHNUM: u64 = 56;
        let count = self.parts.image.segments.len() as u64 + more;
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.overlays
            .push(Replacement::bytes(E_PHOFF, table.to_le_bytes().to_vec()));
        self.overlays
            .push(Replacement::bytes(E_PHNUM, count.to_le_bytes().to_vec()));
    }

    /// Overwrites the section headers that changed. No section is added, so section indexes in
    /// symbols (`st_shndx`) stay valid.
    fn write_sections(&mut self) {
        let start = self.parts.image.header.e_shoff;
        let pairs = self.sections.iter().zip(&self.parts.sections);
        for (index, (new, old)) in pairs.enumerate() {
            if new != old {
                self.overlays.push(Replacement::bytes(
                    start + index as u64 * SHDR,
                    section_bytes(new),
                ));
            }
        }
    }

    fn segment_bytes(&self) -> Vec<u8> {
        self.segments.iter().flat_map(segment_bytes).collect()
    }

    /// Sets the value of every entry with this tag.
    fn point(&mut self, tag: u64, value: u64) {
        for entry in &mut self.entries {
            if entry.tag == tag {
                entry.value = value;
            }
        }
    }
}
