//! Plans a binary with its device code again: the inverse of `change`. The code gets another
//! address if it was removed from the file.

use goblin::elf::{
    program_header::{PF_R, PT_LOAD, PT_PHDR},
    section_header::{SHT_NULL, SHT_PROGBITS},
};

use crate::{
    elf::{
        Patch, ReadAt,
        patch::{PatchPiece, Replacement},
        tables::{SEGMENT, Section, Segment, overlaps},
    },
    error::{Context as _, Result, ensure},
    kpack::host::{
        CODE, MARKERS,
        fat::wrappers,
        image::HostImage,
        layout::{PAGE, SPARE, largest_alignment},
        wrapper::FAT,
    },
};

/// A binary with room for its bundles. The plan has zeros there, which the caller overwrites.
#[derive(Clone, Debug)]
pub struct Restored {
    pub plan: Patch,
    /// The offset of each bundle in the new file.
    pub starts: Vec<u64>,
}

/// The place for the code.
struct CodeSpace {
    offset: u64,
    address: u64,
    len: u64,
    /// A new segment that loads the code; `None` if the old place of the code is used, which is
    /// still loaded.
    segment: Option<Segment>,
    /// The program headers have no room for one more entry, and move to the start of the new
    /// segment, in front of the code.
    moves: bool,
}

/// Plans a binary whose wrappers lead to bundles of these lengths, in the order of their numbers.
///
/// The bundles go behind everything else, in the file and in memory. If the split removed nothing
/// from the file and they fit, they go to their old place.
pub fn restore(source: &dyn ReadAt, bundles: &[u64]) -> Result<Restored> {
    let image = HostImage::of_host(source)?;
    let (starts, len) = starts(bundles)?;
    let end = image.end_of_content();
    let place = in_place(&image, len).map_or_else(|| behind(&image, end, len), Ok)?;
    let mut replacements = Vec::new();
    for wrapper in wrappers(&image, |_| Ok(()))? {
        let start = starts.get(wrapper.bundle);
        let start = start.context("a wrapper that leads to no bundle")?;
        let address = place.address.saturating_add(*start);
        replacements.extend(wrapper.led_to(FAT, address, 0));
    }
    let segments = segments(&image, &place);
    let headers: Vec<u8> = segments.iter().flat_map(Segment::render).collect();
    let mut tail = Vec::new();
    if let Some(segment) = place.segment {
        tail.push(PatchPiece::Zeros(segment.offset.saturating_sub(end)));
        let mut left = segment.file_size;
        if place.moves {
            left = left.saturating_sub(headers.len() as u64);
            tail.push(PatchPiece::Bytes(headers.clone()));
        }
        tail.push(PatchPiece::Zeros(left));
    } else {
        replacements.push(Replacement::zeros(
            place.offset..place.offset.saturating_add(place.len),
        ));
    }
    let mut program_headers = image.table();
    if place.moves {
        program_headers = place.segment.map_or(0, |segment| segment.offset);
    } else {
        replacements.push(Replacement::bytes(program_headers, headers));
    }
    let starts = starts.iter();
    let starts = starts.map(|start| place.offset.saturating_add(*start));
    Ok(Restored {
        starts: starts.collect(),
        plan: image.patch(
            replacements,
            0,
            tail,
            (program_headers, segments.len()),
            &sections(&image, &place),
        )?,
    })
}

/// The offset of each bundle, aligned to pages, and the length of all bundles together.
fn starts(bundles: &[u64]) -> Result<(Vec<u64>, u64)> {
    let mut starts = Vec::new();
    let mut at = 0_u64;
    for len in bundles {
        at = at.next_multiple_of(PAGE);
        starts.push(at);
        at = at.saturating_add(*len);
        ensure!(at < u64::MAX / 4, "too much code");
    }
    Ok((starts, at))
}

/// The old place of the code, from the markers on, if it is still in the file and large enough.
fn in_place(image: &HostImage<'_>, len: u64) -> Option<CodeSpace> {
    let markers = image.section(MARKERS)?;
    let code = image.section(CODE)?;
    let room = code.memory().end.checked_sub(markers.address)?;
    let is_there = markers.address.is_multiple_of(8)
        && image.place(markers.address, room) == Some(markers.offset);
    (is_there && len <= room).then_some(CodeSpace {
        offset: markers.offset,
        address: markers.address,
        len: room,
        segment: None,
        moves: false,
    })
}

/// A new place for the code, behind everything in the file and in memory.
fn behind(image: &HostImage<'_>, end: u64, len: u64) -> Result<CodeSpace> {
    let align = largest_alignment(image.loads());
    let top = image.loads().map(|load| load.memory().end).max();
    let top = top.filter(|top| *top <= u64::MAX / 4 && end <= u64::MAX / 4);
    let mut address = top.context("no room in memory")?.next_multiple_of(align);
    let mut offset = end.next_multiple_of(align);
    let moves = !has_spare(image)?;
    let mut room = 0;
    if moves {
        let count = (image.segments.len() as u64).saturating_add(1 + SPARE);
        room = count.saturating_mul(SEGMENT).next_multiple_of(PAGE);
        // Kernels before 5.18 expect the program headers of an executable at the same distance from
        // its first segment in memory as in the file, so the new segment gets the bias of the
        // first. If its address has to be higher, its offset grows as well, and zeros fill the
        // file.
        let bias = image.loads().next().map_or(0, Segment::bias);
        ensure!(
            bias.is_multiple_of(align),
            "a first segment that is not aligned"
        );
        address = address.max(offset.saturating_add(bias));
        offset = address.saturating_sub(bias);
    }
    let segment = Segment {
        kind: PT_LOAD,
        flags: PF_R,
        offset,
        address,
        physical: address,
        file_size: room.saturating_add(len),
        memory_size: room.saturating_add(len),
        align,
    };
    Ok(CodeSpace {
        offset: offset.saturating_add(room),
        address: address.saturating_add(room),
        len,
        segment: Some(segment),
        moves,
    })
}

/// Whether the program headers are followed by zeros for one more, in the same segment and in no
/// section.
fn has_spare(image: &HostImage<'_>) -> Result<bool> {
    let table = image.table_range();
    let spare = table.end..table.end.saturating_add(SEGMENT);
    let is_used = |section: &Section| {
        let file = section.file();
        !file.is_empty() && overlaps(&file, &spare)
    };
    let is_free = !image.sections.iter().any(is_used)
        && image
            .loads()
            .any(|load| load.covers(&(table.start..spare.end)));
    Ok(is_free
        && image
            .file
            .bytes("program header table", spare.start, SEGMENT)?
            .iter()
            .all(|byte| *byte == 0))
}

/// The new section headers. The section of the code is at the new place. The section of the markers
/// is removed, because no wrapper leads to it; its header becomes empty unless it is the last one,
/// so that the indexes of other sections stay valid.
fn sections(image: &HostImage<'_>, place: &CodeSpace) -> Vec<Section> {
    let mut sections = image.sections.clone();
    for section in &mut sections {
        if section.name == CODE {
            section.kind = SHT_PROGBITS;
            section.offset = place.offset;
            section.address = place.address;
            section.size = place.len;
            section.align = PAGE;
        } else if section.name == MARKERS {
            *section = Section::default();
        }
    }
    if sections.last().is_some_and(|last| last.kind == SHT_NULL) {
        sections.pop();
    }
    sections
}

/// The new program headers. The new segment follows the last `PT_LOAD`, as addresses must ascend.
fn segments(image: &HostImage<'_>, place: &CodeSpace) -> Vec<Segment> {
    let mut segments = image.segments.clone();
    let last = segments.iter().rposition(|segment| segment.kind == PT_LOAD);
    if let (Some(segment), Some(last)) = (place.segment, last) {
        segments.insert(last.saturating_add(1), segment);
    }
    let size = segments.len() as u64 * SEGMENT;
    for table in segments.iter_mut().filter(|s| s.kind == PT_PHDR) {
        table.resize(size);
        if let Some(segment) = place.segment.filter(|_| place.moves) {
            table.offset = segment.offset;
            table.address = segment.address;
            table.physical = segment.address;
        }
    }
    segments
}
