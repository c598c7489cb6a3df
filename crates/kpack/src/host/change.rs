//! Plans the binary without its device code as a [`Patch`]. Reads headers and relocations, and writes
//! nothing.

use goblin::elf::section_header::{SHT_NOBITS, SHT_PROGBITS};

use crate::{
    Marker, SplittableBinary,
    host::{CODE, MARKERS, check, image::HostImage, layout::HostLayout},
};
use rocwheel_base::error::{Context as _, Result, ensure};
use rocwheel_elf::{
    Patch, ReadAt,
    patch::{PatchPiece, Replacement},
    tables::{ALLOC, Section, Segment},
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
    let image = HostImage::read_host(source)?;
    let section = MarkerSection::render(markers)?;
    let layout = HostLayout::new(&image, section.bytes.len() as u64)?;
    let mut replacements = vec![replace_code(&section.bytes, &layout)];
    for wrapper in &fat.wrappers {
        let offset = section.offsets.get(wrapper.bundle).copied().unwrap_or(0);
        let address = layout.markers.saturating_add(offset);
        replacements.extend(wrapper.point_to_marker(address));
    }
    // No code reads device code through the symbols of its section any more, such as `__hip_fatbin`.
    // But each names its section (`st_shndx`) and must lie within it: otherwise linters report it,
    // and tools that move sections compute wrong addresses from it. A symbol keeps the part of its
    // range that is left; if none is left, it becomes an empty symbol at the nearest end of the section.
    // See https://www.sco.com/developers/gabi/latest/ch4.symtab.html.
    let left = layout.code_left();
    for symbol in image.symbols_outside(&left)? {
        let start = symbol.value.clamp(left.start, left.end);
        let end = symbol.value.saturating_add(symbol.size).clamp(left.start, left.end);
        let size = end.saturating_sub(start);
        let bytes = [start.to_le_bytes(), size.to_le_bytes()].concat();
        replacements.push(Replacement::bytes(symbol.value_at, bytes));
    }
    let (tail, sections) = plan_sections(&image, section.bytes.len() as u64, &layout)?;
    let plan = join_patch(&image, &layout, replacements, tail, &sections)?;
    check::ensure_only_code_left(source, &image, fat, markers, &plan)
        .context("failed to check the binary without its code")?;
    Ok(plan)
}

/// The contents of the section of the markers.
struct MarkerSection {
    bytes: Vec<u8>,
    /// The offset of the marker of each bundle. Equal markers are stored once.
    offsets: Vec<u64>,
}

impl MarkerSection {
    fn render(markers: &[Marker]) -> Result<Self> {
        let mut bytes = Vec::new();
        let mut offsets: Vec<u64> = Vec::new();
        for marker in markers {
            let mut known = markers.iter().zip(&offsets);
            if let Some((_, offset)) = known.find(|(known, _)| *known == marker) {
                offsets.push(*offset);
                continue;
            }
            // The runtime does not need this alignment. It makes the section easier to read in a dump.
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            offsets.push(bytes.len() as u64);
            bytes.extend(marker.render()?);
        }
        Ok(Self { bytes, offsets })
    }
}

/// Replaces the code by program headers, markers, then zeros for the bytes that cannot be removed,
/// because alignments behind them would break.
fn replace_code(markers: &[u8], layout: &HostLayout) -> Replacement {
    let mut bytes = Vec::new();
    // Zeros up to an address, then the content: the layout may have left a gap before it.
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

/// Plans the new section headers, and the pieces that precede them at the end of the file: the name of
/// the new section does not fit into the old name table, so a longer copy of the table. `markers_len` is
/// the size of the new section.
fn plan_sections(
    image: &HostImage<'_>,
    markers_len: u64,
    layout: &HostLayout,
) -> Result<(Vec<PatchPiece>, Vec<Section>)> {
    // The segment of the hole has an offset, but no bytes. The file must be at least so long.
    let content_end = image.end_of_content().saturating_sub(layout.removed);
    let tail_at = content_end.max(layout.hole_offset);
    let mut sections = image.tables.sections.clone();
    for section in &mut sections {
        section.offset = layout.move_offset(section.offset);
    }
    let names = sections.get_mut(image.tables.name_section_index()).context("no section names")?;
    let old_names =
        image.tables.sections.get(image.tables.name_section_index()).map_or(0..0, Section::file);
    let old_len = old_names.end.saturating_sub(old_names.start);
    let mut bytes = image.file.bytes("section name table", old_names.start, old_len)?;
    let name_at = u32::try_from(bytes.len()).context("too many section names")?;
    bytes.extend(MARKERS.as_bytes());
    bytes.push(0);
    names.offset = tail_at;
    names.size = bytes.len() as u64;
    if let Some(code) = sections.iter_mut().find(|section| section.name == CODE) {
        leave_zeros(code, layout);
    }
    // The new section is the last, so that the indexes of sections in symbols stay valid.
    sections.push(Section {
        name: MARKERS.to_owned(),
        name_at,
        kind: SHT_PROGBITS,
        flags: ALLOC,
        address: layout.markers,
        offset: layout.offset(layout.markers),
        size: markers_len,
        align: 8,
        ..Section::default()
    });
    let padding = PatchPiece::Zeros(tail_at.saturating_sub(content_end));
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

/// The changed file: the old contents with the replacements, then the tail, the section headers, and
/// a file header with the offset and the number of the program headers and of the section headers.
fn join_patch(
    image: &HostImage<'_>,
    layout: &HostLayout,
    mut replacements: Vec<Replacement>,
    mut tail: Vec<PatchPiece>,
    sections: &[Section],
) -> Result<Patch> {
    let old_end = image.end_of_content();
    let tail_len = tail.iter().map(PatchPiece::size).sum();
    let end = old_end.saturating_sub(layout.removed).saturating_add(tail_len);
    let section_table = end.next_multiple_of(8);
    tail.push(PatchPiece::Zeros(section_table.saturating_sub(end)));
    tail.push(PatchPiece::Bytes(sections.iter().flat_map(Section::render).collect()));
    let table = match layout.table {
        Some(table) => layout.offset(table),
        None => layout.move_offset(image.tables.segment_table_at()),
    };
    let segment_count = u16::try_from(layout.segments.len()).context("too many segments")?;
    let section_count = u16::try_from(sections.len()).context("too many sections")?;
    // From 0xff00 on, section numbers have other meanings.
    ensure!(section_count < 0xff00, "too many sections");
    // `e_phoff`, `e_shoff`, `e_phnum` and `e_shnum`.
    let mut header = image.tables.header;
    header[32..40].copy_from_slice(&table.to_le_bytes());
    header[40..48].copy_from_slice(&section_table.to_le_bytes());
    header[56..58].copy_from_slice(&segment_count.to_le_bytes());
    header[60..62].copy_from_slice(&section_count.to_le_bytes());
    replacements.push(Replacement::bytes(0, header.to_vec()));
    Patch::new(image.tables.file_len(), old_end, replacements, tail)
}
