//! Plans a binary with its device code again: the inverse of `change`. The code gets another
//! address if it was removed from the file.

use crate::{
    elf::{
        Patch, ReadAt,
        patch::{PatchPiece, Replacement},
        tables::{LOAD, PHDR, PROGBITS, SEGMENT, Section, Segment, number},
    },
    error::{Context as _, Result, bail, ensure},
    kpack::host::{
        CODE, MARKERS,
        change::lead,
        fat::{Wrapper, pointers, wrappers},
        image::{HostFile, HostImage, put},
        wrapper::FAT,
    },
};

const PAGE: u64 = 4096;
const READ: u32 = 4;
/// Spare entries behind program headers that move.
const SPARE: u64 = 4;

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
pub fn restore<R: ReadAt + ?Sized>(source: &R, bundles: &[u64]) -> Result<Restored> {
    let HostFile::Host(image) = HostImage::see(source)? else {
        bail!("not a binary for x86-64");
    };
    let (starts, len) = starts(bundles)?;
    let end = image.end_of_content();
    let place = in_place(&image, len).map_or_else(|| behind(&image, end, len), Ok)?;
    let mut replacements = Vec::new();
    for wrapper in found(&image)? {
        let start = starts.get(wrapper.bundle);
        let start = start.context("a wrapper that leads to no bundle")?;
        let address = place.address.saturating_add(*start);
        replacements.extend(lead(&wrapper, FAT, address, 0));
    }
    let segments = segments(&image, &place);
    let headers: Vec<u8> = segments.iter().flat_map(Segment::render).collect();
    let mut tail = Vec::new();
    if let Some(segment) = place.segment {
        tail.push(PatchPiece::Zeros(segment.offset.saturating_sub(end)));
        let mut room = place.offset.saturating_sub(segment.offset);
        if place.moves {
            room = room.saturating_sub(headers.len() as u64);
            tail.push(PatchPiece::Bytes(headers.clone()));
        }
        tail.push(PatchPiece::Zeros(room.saturating_add(len)));
    } else {
        replacements.push(Replacement::zeros(
            place.offset..place.offset.saturating_add(place.len),
        ));
    }
    let so_far = end.saturating_add(tail.iter().map(PatchPiece::len).sum());
    let table = so_far.next_multiple_of(8);
    tail.push(PatchPiece::Zeros(table.saturating_sub(so_far)));
    let sections = sections(&image, &place);
    let rendered = sections.iter().flat_map(Section::render);
    tail.push(PatchPiece::Bytes(rendered.collect()));
    let mut program_headers = image.table();
    if place.moves {
        program_headers = place.segment.map_or(0, |segment| segment.offset);
    } else {
        replacements.push(Replacement::bytes(program_headers, headers));
    }
    replacements
        .push(image.header_with((program_headers, segments.len()), (table, sections.len()))?);
    let starts = starts
        .iter()
        .map(|start| place.offset.saturating_add(*start));
    Ok(Restored {
        starts: starts.collect(),
        plan: Patch::new(image.file.len(), end, replacements, tail)?,
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

/// The wrappers of the split binary. Each has the number of its bundle.
fn found<R: ReadAt + ?Sized>(image: &HostImage<'_, R>) -> Result<Vec<Wrapper>> {
    let raw = wrappers(image)?;
    let pointers = pointers(image, &raw, |_| Ok(()))?;
    let found = raw.iter().map(|(address, bytes)| {
        let pointer = pointers
            .get(address)
            .context("a wrapper without a pointer")?;
        Ok(Wrapper {
            offset: image
                .place(*address, 24)
                .context("a wrapper outside of the file")?,
            address: *address,
            bundle: usize::try_from(number(bytes, 16, 4))?,
            how: pointer.how,
        })
    });
    found.collect()
}

/// The old place of the code, from the markers on, if it is still in the file and large enough.
fn in_place<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, len: u64) -> Option<CodeSpace> {
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
fn behind<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, end: u64, len: u64) -> Result<CodeSpace> {
    let align = image.loads().map(|load| load.align);
    let align = align
        .filter(|align| align.is_power_of_two())
        .fold(PAGE, u64::max);
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
        kind: LOAD,
        flags: READ,
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
fn has_spare<R: ReadAt + ?Sized>(image: &HostImage<'_, R>) -> Result<bool> {
    let [_, (what, start, len), _] = image.tables();
    let from = start.saturating_add(len);
    let to = from.saturating_add(SEGMENT);
    let is_free = image
        .loads()
        .any(|load| load.offset <= start && to <= load.file().end)
        && image.sections.iter().all(|section| {
            let file = section.file();
            file.is_empty() || file.end <= from || to <= file.start
        });
    Ok(is_free
        && image
            .file
            .bytes(what, from, SEGMENT)?
            .iter()
            .all(|byte| *byte == 0))
}

/// The new section headers. The section of the code is at the new place. The section of the markers
/// is removed, because no wrapper leads to it; its header becomes empty unless it is the last one,
/// so that the indexes of other sections stay valid.
fn sections<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, place: &CodeSpace) -> Vec<Section> {
    let mut sections = image.sections.clone();
    for section in &mut sections {
        if section.name == CODE {
            section.kind = PROGBITS;
            section.offset = place.offset;
            section.address = place.address;
            section.size = place.len;
            put(&mut section.rest, 8, &PAGE.to_le_bytes());
        } else if section.name == MARKERS {
            *section = Section::default();
        }
    }
    if sections.last().is_some_and(|last| last.kind == 0) {
        sections.pop();
    }
    sections
}

/// The new program headers. The new segment follows the last `PT_LOAD`, as addresses must ascend.
fn segments<R: ReadAt + ?Sized>(image: &HostImage<'_, R>, place: &CodeSpace) -> Vec<Segment> {
    let mut segments = image.segments.clone();
    let last = segments.iter().rposition(|segment| segment.kind == LOAD);
    if let (Some(segment), Some(last)) = (place.segment, last) {
        segments.insert(last.saturating_add(1), segment);
    }
    let size = segments.len() as u64 * SEGMENT;
    for table in segments.iter_mut().filter(|s| s.kind == PHDR) {
        table.file_size = size;
        table.memory_size = size;
        if let Some(segment) = place.segment.filter(|_| place.moves) {
            table.offset = segment.offset;
            table.address = segment.address;
            table.physical = segment.address;
        }
    }
    segments
}
