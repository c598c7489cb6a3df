//! Plans the binary without its device code, and with it again, as a [`Patch`]. Reads headers and
//! relocations, and writes nothing.

use goblin::elf::{
    program_header::{PF_R, PT_LOAD, PT_PHDR},
    section_header::{SHT_NOBITS, SHT_NULL, SHT_PROGBITS},
};

use crate::{
    elf::{
        Patch, ReadAt,
        patch::{PatchPiece, Replacement},
        tables::{ALLOC, SEGMENT, Section, Segment, overlaps, range},
    },
    error::{Context as _, Result, ensure},
    kpack::{
        Marker, SplittableBinary,
        host::{
            CODE, MARKERS, check,
            fat::wrappers,
            image::{HostImage, PAGE, largest_alignment},
            layout::{HostLayout, SPARE},
            wrapper::{FAT, SPLIT},
        },
    },
};

/// Plans the binary in which each wrapper leads to the marker of its bundle instead of the bundle.
///
/// `markers` has one marker for each bundle. The plan is verified before it is returned: it is an
/// error if the changed binary would not load or a wrapper would not find its marker.
pub fn plan(source: &dyn ReadAt, fat: &SplittableBinary, markers: &[Marker]) -> Result<Patch> {
    ensure!(
        markers.len() == fat.bundles.len(),
        "{} markers for {} bundles",
        markers.len(),
        fat.bundles.len()
    );
    let image = HostImage::of_host(source)?;
    let (bytes, places) = placed(markers)?;
    let layout = HostLayout::new(&image, bytes.len() as u64)?;
    let mut replacements = vec![instead_of_code(&bytes, &layout)];
    for wrapper in &fat.wrappers {
        let place = places.get(wrapper.bundle).copied().unwrap_or(0);
        let address = layout.markers.saturating_add(place);
        replacements.extend(wrapper.led_to(SPLIT, address, wrapper.bundle as u64));
    }
    // No code reads device code through the symbols of its section any more, such as `__hip_fatbin`.
    // But each names its section (`st_shndx`) and must lie within it: otherwise linters report it,
    // and tools that move sections compute wrong addresses from it. A symbol keeps the part of its
    // range that is left; if none is, it becomes an empty symbol at the nearest end of the section.
    // See https://www.sco.com/developers/gabi/latest/ch4.symtab.html.
    let left = layout.code_left();
    for (place, value, size) in image.symbols_outside(&left)? {
        let end = value.saturating_add(size).clamp(left.start, left.end);
        let value = value.clamp(left.start, left.end);
        let size = end.saturating_sub(value);
        let bytes = [value.to_le_bytes(), size.to_le_bytes()].concat();
        replacements.push(Replacement::bytes(place, bytes));
    }
    let table = match layout.table {
        Some(table) => layout.offset(table),
        None => layout.moved(image.table()),
    };
    let (tail, sections) = split_sections(&image, bytes.len() as u64, &layout)?;
    let headers = (table, layout.segments.len());
    let plan = patch(
        &image,
        replacements,
        layout.removed,
        tail,
        headers,
        &sections,
    )?;
    check::accept(source, &image, fat, markers, &plan)
        .context("failed to check the binary without its code")?;
    Ok(plan)
}

/// The contents of the section of the markers, and the offset of each marker in it. Equal markers
/// are stored once.
fn placed(markers: &[Marker]) -> Result<(Vec<u8>, Vec<u64>)> {
    let mut bytes = Vec::new();
    let mut places: Vec<u64> = Vec::new();
    for marker in markers {
        let mut known = markers.iter().zip(&places);
        if let Some((_, place)) = known.find(|(known, _)| *known == marker) {
            places.push(*place);
            continue;
        }
        // The runtime does not need this alignment. It makes the section easier to read in a dump.
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        places.push(bytes.len() as u64);
        bytes.extend(marker.render()?);
    }
    Ok((bytes, places))
}

/// The bytes that replace the code: program headers, markers, then zeros for the bytes that cannot
/// be removed, because alignments behind them would break.
fn instead_of_code(markers: &[u8], layout: &HostLayout) -> Replacement {
    let mut bytes = Vec::new();
    let mut put = |address: u64, content: &[u8]| {
        let start = address.saturating_sub(layout.code.address);
        bytes.resize(usize::try_from(start).unwrap_or(0), 0);
        bytes.extend_from_slice(content);
    };
    if let Some(table) = layout.table {
        let headers: Vec<u8> = layout.segments.iter().flat_map(Segment::render).collect();
        put(table, &headers);
    }
    put(layout.markers, markers);
    let left = layout.code.size.saturating_sub(layout.removed);
    let zeros = left.saturating_sub(bytes.len() as u64);
    Replacement {
        old: layout.code.file(),
        new: vec![PatchPiece::Bytes(bytes), PatchPiece::Zeros(zeros)],
    }
}

/// The new section headers, and what precedes them at the end of the file: the name of the new
/// section does not fit into the old name table, so a longer copy of it.
fn split_sections(
    image: &HostImage<'_>,
    markers: u64,
    layout: &HostLayout,
) -> Result<(Vec<PatchPiece>, Vec<Section>)> {
    let left = image.end_of_content().saturating_sub(layout.removed);
    let begin = left.max(layout.least_len);
    let mut sections = image.sections.clone();
    for section in &mut sections {
        section.offset = layout.moved(section.offset);
    }
    let names = sections.get_mut(image.names());
    let names = names.context("no section names")?;
    let old = image
        .sections
        .get(image.names())
        .map_or(0..0, Section::file);
    let size = old.end.saturating_sub(old.start);
    let mut bytes = image.file.bytes("section name table", old.start, size)?;
    let name_at = u32::try_from(bytes.len()).context("too many section names")?;
    bytes.extend(MARKERS.as_bytes());
    bytes.push(0);
    names.offset = begin;
    names.size = bytes.len() as u64;
    if let Some(code) = sections.iter_mut().find(|it| it.name == CODE) {
        leave_zeros(code, layout);
    }
    sections.push(Section {
        name: MARKERS.to_owned(),
        name_at,
        kind: SHT_PROGBITS,
        flags: ALLOC,
        address: layout.markers,
        offset: layout.offset(layout.markers),
        size: markers,
        align: 8,
        ..Section::default()
    });
    let padding = PatchPiece::Zeros(begin.saturating_sub(left));
    Ok((vec![padding, PatchPiece::Bytes(bytes)], sections))
}

/// Changes the section of the code to what is left of it: memory that reads as zeros. It becomes
/// `SHT_NOBITS`, because TheRock's check of artifacts requires this of every split binary.
///
/// The section ends where the hole ends. The zeros that were kept behind the hole, for alignment,
/// are in another segment, and tools report a section that lies in two segments as damaged. If no
/// bytes were removed, the file has bytes for the section; linters accept this for `SHT_NOBITS`.
fn leave_zeros(code: &mut Section, layout: &HostLayout) {
    let memory = layout.code_left();
    code.kind = SHT_NOBITS;
    code.address = memory.start;
    code.offset = layout.hole_offset;
    code.size = memory.end.saturating_sub(memory.start);
    if layout.removed == 0 {
        code.align = 8;
    }
}

/// The place for the code.
struct CodeSpace {
    offset: u64,
    address: u64,
    len: u64,
    /// A new segment that loads the code; `None` if the old place of the code is used, which is
    /// still loaded.
    segment: Option<Segment>,
    /// The new offset of the program headers. If they have no room for one more entry, they move to
    /// the start of the new segment, in front of the code.
    table: u64,
}

/// Plans a binary whose wrappers lead to bundles of these lengths, in the order of their numbers.
/// Returns the offset of each bundle in the new file as well, where the plan has zeros, which the
/// caller overwrites.
///
/// The bundles go behind everything else, in the file and in memory. If the split removed nothing
/// from the file and they fit, they go to their old place.
pub fn restore(source: &dyn ReadAt, bundles: &[u64]) -> Result<(Patch, Vec<u64>)> {
    let image = HostImage::of_host(source)?;
    let mut starts = Vec::new();
    let mut len = 0_u64;
    for bundle in bundles {
        len = len.next_multiple_of(PAGE);
        starts.push(len);
        len = len.saturating_add(*bundle);
        ensure!(len < u64::MAX / 4, "too much code");
    }
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
    let mut headers: Vec<u8> = segments.iter().flat_map(Segment::render).collect();
    if place.table == image.table() {
        let headers = std::mem::take(&mut headers);
        replacements.push(Replacement::bytes(place.table, headers));
    }
    let mut tail = Vec::new();
    if let Some(segment) = place.segment {
        let left = segment.file_size.saturating_sub(headers.len() as u64);
        tail.push(PatchPiece::Zeros(segment.offset.saturating_sub(end)));
        tail.push(PatchPiece::Bytes(headers));
        tail.push(PatchPiece::Zeros(left));
    } else {
        replacements.push(Replacement::zeros(range(place.offset, place.len)));
    }
    let sections = fat_sections(&image, &place);
    let headers = (place.table, segments.len());
    let plan = patch(&image, replacements, 0, tail, headers, &sections)?;
    let starts = starts.iter();
    let starts = starts.map(|start| place.offset.saturating_add(*start));
    Ok((plan, starts.collect()))
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
        table: image.table(),
    })
}

/// A new place for the code, behind everything in the file and in memory.
fn behind(image: &HostImage<'_>, end: u64, len: u64) -> Result<CodeSpace> {
    let align = largest_alignment(image.loads());
    let top = image.loads().map(|load| load.memory().end).max();
    let top = top.filter(|top| *top <= u64::MAX / 4 && end <= u64::MAX / 4);
    let mut address = top.context("no room in memory")?.next_multiple_of(align);
    let mut offset = end.next_multiple_of(align);
    let (mut table, mut room) = (image.table(), 0);
    if !has_spare(image)? {
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
        table = offset;
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
        table,
    })
}

/// Whether the program headers are followed by zeros for one more, in the same segment and in no
/// section.
fn has_spare(image: &HostImage<'_>) -> Result<bool> {
    let table = image.table_range();
    let spare = range(table.end, SEGMENT);
    let whole = table.start..spare.end;
    let mut used = image.sections.iter().map(Section::file);
    if used.any(|it| !it.is_empty() && overlaps(&it, &spare))
        || !image.loads().any(|load| load.covers(&whole))
    {
        return Ok(false);
    }
    let bytes = image
        .file
        .bytes("program header table", spare.start, SEGMENT)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// The new section headers. The section of the code is at the new place. The section of the markers
/// is removed, because no wrapper leads to it; its header becomes empty unless it is the last one,
/// so that the indexes of other sections stay valid.
fn fat_sections(image: &HostImage<'_>, place: &CodeSpace) -> Vec<Section> {
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
        if let Some(segment) = place.segment.filter(|it| it.offset == place.table) {
            table.offset = segment.offset;
            table.address = segment.address;
            table.physical = segment.address;
        }
    }
    segments
}

/// The changed file: the old contents with the replacements, which remove so many bytes, then the
/// tail, the section headers, and a file header with the offset and the number of the program headers
/// and of the section headers.
fn patch(
    image: &HostImage<'_>,
    mut replacements: Vec<Replacement>,
    removed: u64,
    mut tail: Vec<PatchPiece>,
    (table, segments): (u64, usize),
    sections: &[Section],
) -> Result<Patch> {
    let old_end = image.end_of_content();
    let len = tail.iter().map(PatchPiece::len).sum();
    let end = old_end.saturating_sub(removed).saturating_add(len);
    let section_table = end.next_multiple_of(8);
    let rendered = sections.iter().flat_map(Section::render);
    tail.push(PatchPiece::Zeros(section_table.saturating_sub(end)));
    tail.push(PatchPiece::Bytes(rendered.collect()));
    let segments = u16::try_from(segments).context("too many segments")?;
    let sections = u16::try_from(sections.len()).context("too many sections")?;
    ensure!(sections < 0xff00, "too many sections");
    let mut header = image.header;
    header[32..40].copy_from_slice(&table.to_le_bytes());
    header[40..48].copy_from_slice(&section_table.to_le_bytes());
    header[56..58].copy_from_slice(&segments.to_le_bytes());
    header[60..62].copy_from_slice(&sections.to_le_bytes());
    replacements.push(Replacement::bytes(0, header.to_vec()));
    Patch::new(image.len(), old_end, replacements, tail)
}
