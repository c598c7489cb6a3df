//! Plans the layout of a binary without its device code. Reads headers only.
//!
//! The first pages of the old code stay in the file and hold the new data: the program headers and
//! the markers. The pages behind them (the *hole*) are removed from the file. Code and data behind
//! them contain each other's addresses and cannot move in memory, so a segment without file
//! contents keeps the addresses of the hole, which read as zeros.
//!
//! The old code is a good place for the program headers: its first page is already loaded by an
//! early segment, usually at the same distance from the first segment in memory as in the file.
//! Kernels before 5.18 look for the program headers of an executable only there.
//!
//! The number of removed bytes is a multiple of the largest alignment of the segments behind the
//! hole, because offset and address of a segment must agree modulo its alignment
//! ([Program Header](https://www.sco.com/developers/gabi/latest/ch5.pheader.html) in the gABI).
//! glibc before 2.35 refuses the file otherwise.

use std::ops::Range;

use goblin::elf::program_header::{PF_X, PT_LOAD, PT_PHDR};
use itertools::Itertools as _;

use crate::host::{
    CODE,
    image::{HostImage, PAGE, largest_alignment},
};
use rocwheel_base::error::{Result, bail, ensure};
use rocwheel_elf::tables::{SEGMENT, Section, Segment, overlaps};

/// Spare entries behind the program headers, so that a later edit of the run path can add a segment
/// without moving the table.
const SPARE: u64 = 4;
/// The most zeros that the file gets for the sake of linters; see `choose_hole_offset`.
const MOST_PADDING: u64 = 1 << 20;

/// The layout of the new file. Unless a field says otherwise, places are addresses in memory,
/// because these never change.
#[derive(Clone, Debug)]
pub(super) struct HostLayout {
    /// The section of the code as it was.
    pub(super) code: Section,
    /// The new place of the program headers; `None` if they stay, because nothing is removed.
    pub(super) table: Option<u64>,
    pub(super) markers: u64,
    /// The start of the hole: the bytes that are removed from the file.
    pub(super) hole: u64,
    /// The offset that the segment of the hole and the section of the code get in the new file.
    /// They have no bytes there, but the file is at least so long.
    pub(super) hole_offset: u64,
    /// The number of removed bytes: a multiple of the alignment of every segment behind them.
    pub(super) removed: u64,
    pub(super) segments: Vec<Segment>,
}

impl HostLayout {
    /// Plans a layout with room for `markers` bytes of markers.
    pub(super) fn new(image: &HostImage<'_>, markers: u64) -> Result<Self> {
        let code = image.code()?;
        // Below this limit, sums of an address and a few pages cannot overflow.
        ensure!(
            code.memory().end <= u64::MAX / 2 && code.file().end <= u64::MAX / 2,
            "`{CODE}` at an address that no program has: {:#x}",
            code.address
        );
        let code_load = find_code_load(image, code)?;
        let mut layout = Self {
            code: code.clone(),
            table: None,
            markers: code.address.next_multiple_of(8),
            hole: 0,
            hole_offset: 0,
            removed: 0,
            segments: image.tables.segments.clone(),
        };
        if !layout.remove_hole(image, code_load, markers)? {
            layout.keep_size(markers)?;
        }
        Ok(layout)
    }

    /// Removes nothing: the markers replace the start of the code, and the rest of the code becomes
    /// zeros. The program headers stay unchanged.
    fn keep_size(&mut self, markers: u64) -> Result<()> {
        let end = self.markers.saturating_add(markers);
        let code_end = self.code.memory().end;
        ensure!(end <= code_end, "`{CODE}` is too small for a marker: {} bytes", self.code.size);
        self.hole = end.next_multiple_of(8).min(code_end);
        self.hole_offset = self.offset(self.hole);
        Ok(())
    }

    /// Removes the hole; `false` if nothing can be removed: too little code, a large alignment, or an
    /// executable whose program headers would be where old kernels do not find them.
    fn remove_hole(
        &mut self,
        image: &HostImage<'_>,
        code_load: &Segment,
        markers: u64,
    ) -> Result<bool> {
        // The segment of the code is split in three, which takes two more entries.
        let count = (image.tables.segments.len() as u64).saturating_add(2);
        let table = self.code.address.next_multiple_of(8);
        let table_len = count.saturating_add(SPARE).saturating_mul(SEGMENT);
        let markers_at = table.saturating_add(table_len);
        // The hole begins at a page, because it becomes a segment.
        let hole = markers_at.saturating_add(markers).next_multiple_of(PAGE);
        // All segments from the code on get a smaller offset. The rest of the segment of the code is one
        // of them.
        let moved_segments =
            image.tables.segments.iter().filter(|segment| segment.offset >= code_load.offset);
        let align = largest_alignment(moved_segments);
        let removable = self.code.memory().end.saturating_sub(hole);
        let removed = removable.saturating_sub(removable % align);
        let is_possible = removed > 0
            && count < 0xffff
            && code_load.bias().is_multiple_of(PAGE)
            && hole > self.code.address
            && is_where_kernels_look(image, code_load)?;
        if !is_possible {
            return Ok(false);
        }
        self.table = Some(table);
        self.markers = markers_at;
        self.hole = hole;
        self.removed = removed;
        ensure_alone(image, &self.code.file())?;
        // In this order: the new program headers contain the offset of the hole.
        self.hole_offset = choose_hole_offset(image, self);
        self.segments = plan_segments(image, code_load, self);
        Ok(true)
    }

    /// The part of the code section that is left: memory that reads as zeros and has no other use.
    ///
    /// If a segment before the code seems to contain the hole (see `choose_hole_offset`), the section
    /// ends where the zeros of this segment end, so that linters find the whole section in one segment.
    pub(super) fn code_left(&self) -> Range<u64> {
        let end = if self.removed > 0 {
            self.hole.saturating_add(self.removed)
        } else {
            self.code.memory().end
        };
        let mut loads = self.segments.iter().filter(|segment| segment.kind == PT_LOAD);
        let seeming_len = loads.find_map(|load| {
            let inside = self.hole_offset.checked_sub(load.offset)?;
            load.memory_size.checked_sub(inside).filter(|len| *len > 0)
        });
        let seeming_end = seeming_len.map_or(end, |len| self.hole.saturating_add(len));
        self.hole..end.min(seeming_end)
    }

    /// The offset in the new file of an address in the kept part of the old code.
    pub(super) fn offset(&self, address: u64) -> u64 {
        let inside = address.saturating_sub(self.code.address);
        self.code.offset.saturating_add(inside)
    }

    /// Converts an offset of the old file to an offset of the new file. An offset within the hole becomes
    /// the start of the hole.
    pub(super) fn move_offset(&self, offset: u64) -> u64 {
        let hole = self.offset(self.hole);
        if offset >= hole.saturating_add(self.removed) {
            offset.saturating_sub(self.removed)
        } else {
            offset.min(hole)
        }
    }
}

/// Finds the only segment that loads the code.
fn find_code_load<'a>(image: &'a HostImage<'_>, code: &Section) -> Result<&'a Segment> {
    let memory = code.memory();
    let loads = image.tables.loads().filter(|load| overlaps(&load.memory(), &memory));
    let Ok(load) = loads.exactly_one() else {
        bail!("`{CODE}` is not in one segment");
    };
    // The layout converts an address of the code to an offset by the section alone.
    ensure!(
        load.bias() == code.address.wrapping_sub(code.offset) && load.file().end >= code.file().end,
        "`{CODE}` is not where its segment is"
    );
    Ok(load)
}

/// Whether kernels before 5.18 find the program headers in the segment of the code. They compute
/// the address from the first segment: the same distance in memory as in the file. Only executables
/// are concerned; libraries are loaded by the C library, which reads the headers from the file.
fn is_where_kernels_look(image: &HostImage<'_>, code_load: &Segment) -> Result<bool> {
    let is_executable = image.tables.is_executable(&image.tables.dynamic()?.unwrap_or_default());
    let first = image.tables.loads().next();
    Ok(!is_executable || first.is_some_and(|first| first.bias() == code_load.bias()))
}

/// Refuses a binary in which another section, segment or table shares bytes with the code, because
/// they would be removed or overwritten.
fn ensure_alone(image: &HostImage<'_>, code: &Range<u64>) -> Result<()> {
    let sections = image
        .tables
        .sections
        .iter()
        .filter(|section| section.name != CODE)
        .map(|section| (format!("`{}`", section.name), section.file()));
    let segments = image
        .tables
        .segments
        .iter()
        .filter(|segment| segment.kind != PT_LOAD)
        .map(|segment| (format!("a segment of kind {:#x}", segment.kind), segment.file()));
    let tables = [
        ("the header".to_owned(), 0..64),
        ("the program header table".to_owned(), image.tables.segment_table_range()),
        ("the section header table".to_owned(), image.tables.section_table_range()),
    ];
    for (what, file) in sections.chain(segments).chain(tables) {
        ensure!(file.is_empty() || !overlaps(&file, code), "{what} lies in `{CODE}`");
    }
    Ok(())
}

/// Plans the new program headers.
fn plan_segments(image: &HostImage<'_>, code_load: &Segment, layout: &HostLayout) -> Vec<Segment> {
    let mut segments = Vec::new();
    for segment in &image.tables.segments {
        if segment == code_load {
            let mut pieces = split_code_load(segment, layout);
            // Without device code, a piece may have only data, which needs no permission to run.
            for piece in pieces.iter_mut().filter(|piece| !image.runs_in(&piece.memory())) {
                piece.flags &= !PF_X;
            }
            segments.extend(pieces);
            continue;
        }
        let mut moved = *segment;
        moved.offset = layout.move_offset(segment.offset);
        if segment.kind == PT_PHDR {
            let physical = segment.physical.wrapping_sub(segment.address);
            moved.address = layout.table.unwrap_or(segment.address);
            moved.offset = layout.offset(moved.address);
            moved.physical = moved.address.wrapping_add(physical);
        }
        segments.push(moved);
    }
    let size = segments.len() as u64 * SEGMENT;
    for table in segments.iter_mut().filter(|segment| segment.kind == PT_PHDR) {
        table.resize(size);
    }
    segments
}

/// Splits the segment of the code: up to the hole, the hole, and the rest, if there is any.
///
/// All three keep the addresses that their bytes have, because code and data contain these addresses.
/// The hole has no bytes in the file, so the loader maps zeros. The rest comes directly behind the head
/// in the file, and so its offset is the offset of the hole's start: `removed` is a multiple of its
/// alignment, and its offset and its address still agree.
fn split_code_load(old: &Segment, layout: &HostLayout) -> Vec<Segment> {
    let starting_at = |address: u64| Segment {
        address,
        physical: old.physical.wrapping_add(address.wrapping_sub(old.address)),
        ..*old
    };
    let head_len = layout.hole.saturating_sub(old.address);
    let hole_end = layout.hole.saturating_add(layout.removed);
    let rest_file = old.file_end().saturating_sub(hole_end);
    let rest_memory = old.memory().end.saturating_sub(hole_end);
    // If only `.bss` is behind the hole, it becomes part of the hole: both read as zeros.
    let hole_size =
        if rest_file == 0 { layout.removed.saturating_add(rest_memory) } else { layout.removed };
    let mut segments = vec![
        Segment { file_size: head_len, memory_size: head_len, ..*old },
        Segment {
            offset: layout.hole_offset,
            file_size: 0,
            memory_size: hole_size,
            align: PAGE,
            ..starting_at(layout.hole)
        },
    ];
    if rest_file > 0 {
        segments.push(Segment {
            offset: layout.offset(layout.hole),
            file_size: rest_file,
            memory_size: rest_memory,
            ..starting_at(hole_end)
        });
    }
    segments
}

/// Chooses the offset that the hole gets in the new file, although it has no bytes there.
///
/// The kernel and the loader ignore this offset, but linters and strip do not. They find the
/// segment of a section by the offset of the section: the first program header whose range contains it.
/// For a segment of zeros they use its size in memory as the length of the range. At its true
/// place, the hole would appear to contain the sections that follow it, such as `.bss`.
///
/// So the hole gets an offset behind all loaded bytes, and also behind the zeros (`.bss`) of the
/// segments before it, which would otherwise appear to contain the hole. The file may grow for this
/// by at most `MOST_PADDING` or a sixteenth of the removed bytes, the smaller of the two. If this is
/// not enough, the section of the code is made shorter: see `code_left`.
fn choose_hole_offset(image: &HostImage<'_>, layout: &HostLayout) -> u64 {
    let load_ends = image.tables.loads().map(|load| layout.move_offset(load.file().end));
    // A section without bytes counts as one byte: its offset must be in front of the hole.
    let section_starts = image
        .tables
        .sections
        .iter()
        .filter(|section| section.is_loaded())
        .map(|section| layout.move_offset(section.offset).saturating_add(1));
    let used = load_ends.chain(section_starts).max().unwrap_or(0);
    let behind_bytes = used.min(image.tables.file_len()).next_multiple_of(PAGE);
    let zeros_end = image
        .tables
        .loads()
        .filter(|load| load.address < layout.code.address)
        .map(|load| layout.move_offset(load.offset).saturating_add(load.memory_size))
        .map(|end| end.min(u64::MAX / 2))
        .max();
    let behind_zeros = zeros_end.unwrap_or(0).next_multiple_of(PAGE);
    let most_padding = MOST_PADDING.min(layout.removed / 16);
    if behind_zeros <= behind_bytes.saturating_add(most_padding) {
        behind_bytes.max(behind_zeros)
    } else {
        behind_bytes
    }
}
