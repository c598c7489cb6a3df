//! What is appended to a file, and where each piece of it is in memory.

use crate::elf::{
    ReadAt,
    patch::PatchPiece,
    plan::{
        parts::ElfParts,
        segment_placement::{PAGE, SegmentRoom},
    },
};

/// What is appended, and the address of its every byte.
pub(super) struct Tail {
    pub(super) pieces: Vec<PatchPiece>,
    /// Where the next piece begins.
    pub(super) offset: u64,
    /// Address minus offset.
    pub(super) bias: u64,
    /// Where the new segment begins, if there is one.
    pub(super) start: u64,
}

#[derive(Clone, Copy)]
pub(super) struct TailPlace {
    pub(super) offset: u64,
    pub(super) address: u64,
}

impl Tail {
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

    pub(super) fn push(&mut self, piece: PatchPiece) -> TailPlace {
        let place = self.place();
        self.offset += piece.len();
        self.pieces.push(piece);
        place
    }

    /// Pads up to an offset that leaves `rest` when it is divided by `align`.
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
