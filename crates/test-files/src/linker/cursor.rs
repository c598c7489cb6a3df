//! Gives each section its offset and its address.

use goblin::elf::program_header::{PF_R, PT_LOAD};

use super::shape::{Section, Segment, Shape, TableAt};

/// Walks through the file, opening a segment whenever the permissions change.
pub(super) struct Cursor {
    pub(super) offset: u64,
    page: u64,
    pub(super) loads: Vec<Segment>,
}

impl Cursor {
    pub(super) fn new(shape: &Shape, start: u64) -> Self {
        let headers = Segment {
            kind: PT_LOAD,
            offset: 0,
            address: shape.base,
            file_size: start,
            memory_size: start,
            align: shape.page,
            flags: 0,
        };
        Self { offset: start, page: shape.page, loads: vec![headers] }
    }

    /// The offset and the address of the next section.
    pub(super) fn place(&mut self, section: &Section) -> (u64, u64) {
        if !section.is_allocated() {
            self.offset = self.offset.next_multiple_of(section.align.max(1));
            let offset = self.offset;
            self.offset += section.file_size();
            return (offset, 0);
        }
        if section.is_hole() {
            return self.place_hole(section);
        }
        self.open_for(section);
        let page = self.page;
        let Some(load) = self.loads.last_mut() else {
            return (0, 0);
        };
        let align = section.align.max(1);
        self.offset = self.offset.next_multiple_of(align);
        let place = (self.offset, load.address + (self.offset - load.offset));
        debug_assert_eq!(place.1 % page, place.0 % page);
        self.offset += section.file_size();
        load.file_size = self.offset - load.offset;
        load.memory_size = load.file_size + (section.memory_size() - section.file_size());
        place
    }

    fn open_for(&mut self, section: &Section) {
        let flags = section.segment_flags();
        let Some(last) = self.loads.last_mut() else {
            return;
        };
        // The segment of the headers takes the permissions of what comes first.
        if last.flags == 0 {
            last.flags = flags;
        }
        let is_closed = last.memory_size > last.file_size;
        if last.flags == flags && !is_closed {
            return;
        }
        let address = if last.file_size == 0 {
            // What follows a hole goes on within the page in which the hole ends.
            last.end()
        } else {
            let page = last.end().next_multiple_of(self.page);
            page + self.offset % self.page
        };
        self.loads.push(Segment {
            kind: PT_LOAD,
            flags,
            offset: self.offset,
            address,
            align: self.page,
            ..Segment::default()
        });
    }

    /// A segment that exists in memory alone; the end of its last page stays in the file.
    fn place_hole(&mut self, section: &Section) -> (u64, u64) {
        let end = self.loads.last().map_or(0, Segment::end);
        let address = end.next_multiple_of(self.page);
        let offset = self.offset.next_multiple_of(self.page);
        self.loads.push(Segment {
            kind: PT_LOAD,
            flags: section.segment_flags(),
            offset,
            address,
            memory_size: section.hollow,
            align: self.page,
            ..Segment::default()
        });
        self.offset = offset + section.hollow % self.page;
        (offset, address)
    }

    pub(super) fn table_at_end(&mut self, shape: &Shape, size: u64) -> Segment {
        let end = self.loads.last().map_or(0, Segment::end);
        let mut address = end.next_multiple_of(self.page);
        let mut offset = self.offset.next_multiple_of(self.page);
        if matches!(shape.table, TableAt::EndPinned { .. }) {
            offset = offset.max(address - shape.base);
            address = shape.base + offset;
        }
        self.offset = offset + size;
        Segment {
            kind: PT_LOAD,
            flags: PF_R,
            offset,
            address,
            file_size: size,
            memory_size: size,
            align: 0x1000,
        }
    }
}
