//! The bytes that are appended to a file, with their addresses.

use crate::elf::{
    ReadAt,
    patch::PatchPiece,
    plan::{
        parts::ElfParts,
        segment_placement::{PAGE, SegmentRoom},
    },
};

/// The appended pieces, and the offset and address of the next one.
pub(super) struct Tail {
    pub(super) pieces: Vec<PatchPiece>,
    /// Offset of the next piece in the file.
    pub(super) offset: u64,
    /// Address minus offset, for every byte of the tail.
    pub(super) bias: u64,
    /// Offset of the new segment, if there is one. Padding precedes it.
    pub(super) start: u64,
}

/// Where a piece of the tail is in the file and in memory.
#[derive(Clone, Copy)]
pub(super) struct TailPlace {
    pub(super) offset: u64,
    pub(super) address: u64,
}

impl Tail {
    /// Chooses offset and address of the tail.
    ///
    /// They agree modulo the page size, as `mmap` requires. An extended segment keeps its bias, a
    /// pinned one has that of the first segment, and any other goes to the first page above all
    /// segments, so that it shares no page with them.
    pub(super) fn new<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, room: &SegmentRoom) -> Self {
        let segment = match room {
            SegmentRoom::Extend { load } => parts.image.segments.get(*load),
            _ => None,
        };
        let start = match room {
            SegmentRoom::Extend { .. } => parts.len,
            SegmentRoom::Relocate {
                not_before: Some(start),
            } => *start,
            _ => parts.len.next_multiple_of(16),
        };
        let address = match (segment, room) {
            (Some(load), _) => load.p_vaddr + (start - load.p_offset),
            (
                None,
                SegmentRoom::Relocate {
                    not_before: Some(_),
                },
            ) => {
                let first = parts.loads().next();
                start + first.map_or(0, |first| first.p_vaddr - first.p_offset)
            }
            _ => parts.address_end().next_multiple_of(PAGE) + start % PAGE,
        };
        let pad = start - parts.len;
        Self {
            pieces: if pad > 0 {
                vec![PatchPiece::Zeros(pad)]
            } else {
                Vec::new()
            },
            offset: start,
            bias: address.wrapping_sub(start),
            start,
        }
    }

    /// Appends a piece, and returns its place.
    pub(super) fn push(&mut self, piece: PatchPiece) -> TailPlace {
        let place = self.place();
        self.offset += piece.len();
        self.pieces.push(piece);
        place
    }

    /// Appends zeros until the offset is `rest` modulo `align`.
    pub(super) fn align_to(&mut self, align: u64, rest: u64) -> TailPlace {
        let pad = (align + rest - self.offset % align) % align;
        if pad > 0 {
            self.push(PatchPiece::Zeros(pad));
        }
        self.place()
    }

    fn place(&self) -> TailPlace {
        TailPlace {
            offset: self.offset,
            address: self.offset.wrapping_add(self.bias),
        }
    }
}
