//! Writes a new run path behind the file, and everything that has to point there.

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

pub(super) struct PlanDraft<'a, R: ?Sized> {
    parts: ElfParts<'a, R>,
    room: SegmentRoom,
    entries: Vec<DynamicEntry>,
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

    /// The order of the steps matters: each one records where in the tail its part goes, and the headers
    /// that name those places are written last. No byte of the original moves, so that addresses in
    /// code, relocations and debug information stay right without being read.
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

    /// The strings come first: strip takes the lowest part of a segment for its beginning, and
    /// this one has no alignment that it could get wrong.
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

    /// All of the block moves by one distance, which its alignment divides.
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

    fn append_table(&mut self) {
        let place = self.tail.align_to(16, 0);
        let mut bytes = to_bytes(&self.entries);
        // The end mark.
        bytes.resize(bytes.len() + 16, 0);
        let len = bytes.len() as u64;
        self.tail.push(PatchPiece::Bytes(bytes));
        // readelf 2.30 takes a table that ends with the file for a damaged one.
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

    fn reuses_slot(&self) -> bool {
        matches!(self.room, SegmentRoom::Slot) && self.parts.image.segment(PT_NULL).is_some()
    }

    fn extend(&mut self, load: usize) {
        let end = self.tail.offset;
        let writable = if self.moves_table { PF_W } else { 0 };
        if let Some(load) = self.segments.get_mut(load) {
            load.p_filesz = end - load.p_offset;
            load.p_memsz = load.p_filesz;
            load.p_flags |= writable;
        }
    }

    /// Adds the new segment behind the last one that is loaded, as addresses must ascend.
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

    /// The two fields of the file header that tell where the program headers are.
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

    fn point(&mut self, tag: u64, value: u64) {
        for entry in &mut self.entries {
            if entry.tag == tag {
                entry.value = value;
            }
        }
    }
}
