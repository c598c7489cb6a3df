//! Decides where everything stands in a binary once its code is gone. Looks at headers alone.
//!
//! The first page of the old code holds what is new: the program headers and the markers. The pages
//! behind it leave the file, and an empty segment keeps their addresses, which read as zeros: code and
//! data behind them have addresses that are built into each other, and cannot move in memory.
//!
//! The first page is a good place for the program headers because it is in the file and in an early
//! segment already, at the same distance in memory as in the file; kernels before 5.18 look for the
//! program headers of an executable only there. What leaves the file is a multiple of the largest
//! alignment of the segments behind it, because offset and address of a segment must agree modulo its
//! alignment (gABI, program header), and glibc before 2.35 refuses the file otherwise.

use std::ops::Range;

use crate::{
    elf::{
        ReadAt,
        tables::{ALLOC, EXECUTE, INTERP, LOAD, PHDR, SEGMENT, Section, Segment},
    },
    error::{Result, bail, ensure},
    kpack::host::{CODE, image::HostImage},
};

const PAGE: u64 = 4096;
/// Empty slots behind the program headers, for who adds a run path later.
const SPARE: u64 = 4;
/// What a file grows by for the sake of linters, at most.
const MOST_PADDING: u64 = 1 << 20;
const FLAGS_1: u64 = 0x6fff_fffb;
const PIE: u64 = 0x0800_0000;

/// Where everything is. Addresses are those of memory, which never change.
#[derive(Clone, Debug)]
pub(super) struct HostLayout {
    /// The code as it was.
    pub(super) code: Section,
    /// Where the program headers go; `None` while they stay, as nothing leaves the file.
    pub(super) table: Option<u64>,
    pub(super) markers: u64,
    /// What leaves the file begins here, behind a page that stays.
    pub(super) hole: u64,
    /// Where in the new file the section of the code is said to be.
    pub(super) hole_offset: u64,
    /// As long is the file at least, so that every segment without bytes begins in it.
    pub(super) least_len: u64,
    /// How many bytes leave the file: a multiple of every alignment behind them.
    pub(super) removed: u64,
    pub(super) segments: Vec<Segment>,
}

impl HostLayout {
    /// The layout with so many bytes of markers.
    pub(super) fn new<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, markers: u64) -> Result<Self> {
        let Some(code) = image.section(CODE) else {
            bail!("no `{CODE}`");
        };
        // Far from the end of all addresses, sums of a few pages do not overflow.
        ensure!(
            code.memory().end <= u64::MAX / 2 && code.file().end <= u64::MAX / 2,
            "`{CODE}` at an address that no program has: {:#x}",
            code.address
        );
        let covering = covering(image, code)?;
        let shrunk = shrunk(image, code, covering, markers)?;
        Ok(match shrunk {
            Some(layout) => layout,
            None => whole(image, code, markers)?,
        })
    }

    /// The addresses of the code section that read as zeros now, and hold nothing else.
    pub(super) fn code_left(&self) -> Range<u64> {
        let end = if self.removed > 0 {
            self.hole.saturating_add(self.removed)
        } else {
            self.code.memory().end
        };
        self.hole..end
    }

    /// The offset of an address of the old code in the new file, as far as it is still there.
    pub(super) fn offset(&self, address: u64) -> u64 {
        let inside = address.saturating_sub(self.code.address);
        self.code.offset.saturating_add(inside)
    }

    /// Where an offset of the old file is in the new one. Offsets in the part that leaves the file have
    /// no place there, and give the begin of the hole.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        let hole = self.offset(self.hole);
        if offset >= hole.saturating_add(self.removed) {
            offset.saturating_sub(self.removed)
        } else {
            offset.min(hole)
        }
    }
}

/// The one segment that brings the code into memory.
fn covering<'a, R: ReadAt + ?Sized>(
    image: &'a HostImage<'_, R>,
    code: &Section,
) -> Result<(usize, &'a Segment)> {
    let range = code.memory();
    let mut touching = image.segments.iter().enumerate().filter(|(_, segment)| {
        let memory = segment.memory();
        segment.kind == LOAD && memory.start < range.end && range.start < memory.end
    });
    let (Some(first), None) = (touching.next(), touching.next()) else {
        bail!("`{CODE}` is not in one segment");
    };
    ensure!(
        first.1.bias() == code.address.wrapping_sub(code.offset)
            && first.1.file().end >= code.file().end,
        "`{CODE}` is not where its segment is"
    );
    Ok(first)
}

/// Nothing leaves the file: the markers take the place of code, the rest of which is zeros.
fn whole<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    code: &Section,
    markers: u64,
) -> Result<HostLayout> {
    let start = code.address.next_multiple_of(8);
    let end = start.saturating_add(markers);
    ensure!(
        end <= code.memory().end,
        "`{CODE}` is too small for a marker: {} bytes",
        code.size
    );
    let hole = end.next_multiple_of(8).min(code.memory().end);
    Ok(HostLayout {
        code: code.clone(),
        table: None,
        markers: start,
        hole,
        hole_offset: code
            .offset
            .saturating_add(hole.saturating_sub(code.address)),
        least_len: 0,
        removed: 0,
        segments: image.segments.clone(),
    })
}

fn shrunk<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    code: &Section,
    (index, covering): (usize, &Segment),
    markers: u64,
) -> Result<Option<HostLayout>> {
    // The table gets two more entries: the hole, and what is behind it.
    let count = (image.segments.len() as u64).saturating_add(2);
    let table = code.address.next_multiple_of(8);
    let room = count.saturating_add(SPARE).saturating_mul(SEGMENT);
    let start = table.saturating_add(room);
    let hole = start.saturating_add(markers).next_multiple_of(PAGE);
    let align = largest_alignment(image, covering);
    let behind = code.memory().end.saturating_sub(hole);
    let removed = behind.saturating_sub(behind % align);
    let is_possible = removed > 0
        && count < 0xffff
        && covering.bias() % PAGE == 0
        && hole > code.address
        && is_where_kernels_look(image, covering)?;
    if !is_possible {
        return Ok(None);
    }
    let mut layout = HostLayout {
        code: code.clone(),
        table: Some(table),
        markers: start,
        hole,
        hole_offset: 0,
        least_len: 0,
        removed,
        segments: Vec::new(),
    };
    ensure_alone(image, &layout)?;
    layout.hole_offset = hole_offset(image, &layout);
    segments(image, index, &mut layout, count);
    Ok(Some(layout))
}

/// Cutting by less would leave a segment's offset and address unequal by its alignment.
fn largest_alignment<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, covering: &Segment) -> u64 {
    let behind = image
        .segments
        .iter()
        .filter(|s| s.offset >= covering.offset);
    behind
        .map(|segment| segment.align)
        .filter(|align| align.is_power_of_two())
        .fold(PAGE, u64::max)
}

/// Kernels before 5.18 look for the program headers of an executable as far from its first segment
/// in memory as in the file.
fn is_where_kernels_look<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    covering: &Segment,
) -> Result<bool> {
    let dynamic = image.dynamic()?;
    let flags = dynamic.iter().find(|(tag, _)| *tag == FLAGS_1);
    let is_pie = flags.is_some_and(|(_, flags)| flags & PIE != 0);
    let is_executable = image.is_fixed() || image.first(INTERP).is_some() || is_pie;
    let first = image.loads().next();
    Ok(!is_executable || first.is_some_and(|first| first.bias() == covering.bias()))
}

/// Nothing else may lie in what leaves the file, nor in what is written over.
fn ensure_alone<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, layout: &HostLayout) -> Result<()> {
    let code = layout.code.file();
    let touches = |start: u64, end: u64| start < code.end && code.start < end;
    for section in &image.sections {
        let file = section.file();
        ensure!(
            section.name == CODE || file.is_empty() || !touches(file.start, file.end),
            "`{}` lies in `{CODE}`",
            section.name
        );
    }
    for segment in image.segments.iter().filter(|s| s.kind != LOAD) {
        let file = segment.file();
        ensure!(
            file.is_empty() || !touches(file.start, file.end),
            "a segment of kind {:#x} lies in `{CODE}`",
            segment.kind
        );
    }
    for (what, start, len) in image.tables() {
        ensure!(
            len == 0 || !touches(start, start.saturating_add(len)),
            "the {what} lies in `{CODE}`"
        );
    }
    Ok(())
}

fn segments<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    covering: usize,
    layout: &mut HostLayout,
    count: u64,
) {
    let mut segments = Vec::new();
    layout.least_len = layout.hole_offset;
    for (index, segment) in image.segments.iter().enumerate() {
        let moved = Segment {
            offset: layout.moved(segment.offset),
            ..*segment
        };
        if index == covering {
            let mut pieces = split(segment, layout);
            for piece in pieces.iter_mut().filter(|it| !image.runs_in(&it.memory())) {
                piece.flags &= !EXECUTE;
            }
            segments.extend(pieces);
        } else if segment.kind == LOAD && is_hole(image, segment) {
            layout.least_len = layout.least_len.saturating_add(PAGE);
            segments.push(Segment {
                offset: layout.least_len,
                ..*segment
            });
        } else if segment.kind == PHDR {
            segments.push(table(segment, layout, count));
        } else {
            segments.push(moved);
        }
    }
    // One that turned out to be empty leaves a slot.
    let size = segments.len() as u64 * SEGMENT;
    for segment in segments.iter_mut().filter(|s| s.kind == PHDR) {
        segment.file_size = size;
        segment.memory_size = size;
    }
    layout.segments = segments;
}

fn table(old: &Segment, layout: &HostLayout, count: u64) -> Segment {
    let address = layout.table.unwrap_or(old.address);
    let physical = old.physical.wrapping_sub(old.address);
    Segment {
        offset: layout.offset(address),
        address,
        physical: address.wrapping_add(physical),
        file_size: count.saturating_mul(SEGMENT),
        memory_size: count.saturating_mul(SEGMENT),
        ..*old
    }
}

/// The segment up to the hole, the hole, and the rest, if there is any. Linkers that put code and data
/// into one segment leave pieces without code, which need not be executable any more.
fn split(old: &Segment, layout: &HostLayout) -> Vec<Segment> {
    let at = |address: u64| Segment {
        address,
        physical: old.physical.wrapping_add(address.wrapping_sub(old.address)),
        ..*old
    };
    let head = layout.hole.saturating_sub(old.address);
    let end = layout.hole.saturating_add(layout.removed);
    let rest_file = old
        .address
        .saturating_add(old.file_size)
        .saturating_sub(end);
    let rest_memory = old.memory().end.saturating_sub(end);
    // Memory without a file behind the hole is as empty as the hole.
    let hole_size = if rest_file == 0 {
        layout.removed.saturating_add(rest_memory)
    } else {
        layout.removed
    };
    let mut segments = vec![
        Segment {
            file_size: head,
            memory_size: head,
            ..*old
        },
        Segment {
            offset: layout.hole_offset,
            file_size: 0,
            memory_size: hole_size,
            align: PAGE,
            ..at(layout.hole)
        },
    ];
    if rest_file > 0 {
        segments.push(Segment {
            offset: layout.offset(layout.hole),
            file_size: rest_file,
            memory_size: rest_memory,
            ..at(end)
        });
    }
    segments
}

/// Where the hole is said to be in the file.
///
/// It has no bytes there. But linters and strip look for the segment of a section by its offset, in the
/// order of the program headers, and a segment of zeros is as long there as it is in memory: a hole in
/// front of `.bss` would take it for its own. Hence behind all that is loaded, and behind the zeros of
/// the segments before it, unless these are many.
fn hole_offset<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, layout: &HostLayout) -> u64 {
    let loads = || image.loads().filter(|load| !is_hole(image, load));
    let files = loads().map(|load| layout.moved(load.file().end));
    let sections = image.sections.iter().filter(|it| it.flags & ALLOC != 0);
    let sections = sections.map(|it| layout.moved(it.offset).saturating_add(1));
    let end = files.chain(sections).max().unwrap_or(0);
    let end = end.min(image.file.len()).next_multiple_of(PAGE);
    let before = loads().filter(|load| load.address < layout.code.address);
    let zeros = before.map(|load| {
        let start = layout.moved(load.offset);
        start.saturating_add(load.memory_size).min(u64::MAX / 2)
    });
    let behind = zeros.max().unwrap_or(0).next_multiple_of(PAGE);
    let most = MOST_PADDING.min(layout.removed / 16);
    if behind <= end.saturating_add(most) {
        end.max(behind)
    } else {
        end
    }
}

/// Whether a segment is what an earlier split has left of code that came back elsewhere.
fn is_hole<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, load: &Segment) -> bool {
    let memory = load.memory();
    let mut sections = image.sections.iter();
    load.file_size == 0
        && load.align <= PAGE
        && load.address.is_multiple_of(PAGE)
        && !sections.any(|it| it.flags & ALLOC != 0 && memory.contains(&it.address))
}
