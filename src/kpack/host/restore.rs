//! Plans how a binary gets code back: the inverse of `change`, at another address.

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
/// Empty slots behind program headers that have moved.
const SPARE: u64 = 4;

/// A binary with room for code: the plan has zeros where the bundles go.
#[derive(Clone, Debug)]
pub struct Restored {
    pub plan: Patch,
    /// Where each bundle begins in the new file.
    pub starts: Vec<u64>,
}

/// Where the code goes.
struct CodeSpace {
    offset: u64,
    address: u64,
    len: u64,
    /// What brings it into memory, if nothing does yet: it may begin before the code.
    segment: Option<Segment>,
    /// The program headers go to the begin of that segment: there is no room for one more.
    moves: bool,
}

/// Plans a binary whose wrappers lead to bundles of these lengths, by their ordinals.
///
/// Only the code is elsewhere than it was before it was taken out: behind everything else, or, where
/// it never left the file, in its old place.
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

/// Bundles one behind the other, each at a page, and how long that is.
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

/// The wrappers, as the split has left them.
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

/// The old place, if nothing has left the file and the code fits: markers and zeros lie there.
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

/// Behind all that is in the file and in memory.
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
        // Kernels before 5.18 look for the program headers of an executable as far from its first
        // segment in memory as in the file.
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

/// Whether there is room for one more program header behind the others.
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

/// The code's section is where the code is; that of the markers, which nothing leads to any more,
/// is none.
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
