//! Plans the binary without its device code: a [`Patch`] that removes the bundles, adds the
//! markers, and points the wrappers to them. Reads headers and relocations, and writes nothing.

use crate::{
    elf::{
        Patch, ReadAt,
        patch::{PatchPiece, Replacement},
        tables::{ALLOC, NOBITS, PROGBITS, Section, Segment},
    },
    error::{Context as _, Result, bail, ensure},
    kpack::{
        Marker, SplittableBinary,
        host::{
            MARKERS, check,
            fat::Wrapper,
            image::{HostFile, HostImage},
            layout::HostLayout,
            relocations::How,
            symbols,
            wrapper::{SPLIT, WRAPPER},
        },
    },
};

/// The `r_info` of an `R_X86_64_RELATIVE` relocation: its type, and symbol 0.
const RELATIVE: u64 = 8;

/// The contents of the section of the markers. Equal markers are stored once.
#[derive(Debug, Default)]
struct PlacedMarkers {
    bytes: Vec<u8>,
    known: Vec<(Marker, u64)>,
}

/// Plans the binary in which each wrapper leads to the marker of its bundle instead of the bundle.
///
/// `markers` has one marker for each bundle. The plan is verified before it is returned: it is an
/// error if the changed binary would not load or a wrapper would not find its marker.
pub fn plan<R: ReadAt + ?Sized>(
    source: &R,
    fat: &SplittableBinary,
    markers: &[Marker],
) -> Result<Patch> {
    ensure!(
        markers.len() == fat.bundles.len(),
        "{} markers for {} bundles",
        markers.len(),
        fat.bundles.len()
    );
    let HostFile::Host(image) = HostImage::see(source)? else {
        bail!("not a binary for x86-64");
    };
    let mut placed = PlacedMarkers::default();
    for marker in markers {
        placed.add(marker)?;
    }
    let layout = HostLayout::new(&image, placed.bytes.len() as u64)?;
    let plan = draft(&image, fat, markers, &placed, &layout)?;
    check::accept(source, &image, fat, markers, &plan)
        .context("failed to check the binary without its code")?;
    Ok(plan)
}

impl PlacedMarkers {
    fn add(&mut self, marker: &Marker) -> Result<()> {
        if self.known.iter().any(|(known, _)| known == marker) {
            return Ok(());
        }
        // The runtime does not need this alignment. It makes the section easier to read in a dump.
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.known.push((marker.clone(), self.bytes.len() as u64));
        self.bytes.extend(marker.render()?);
        Ok(())
    }

    /// The offset of a marker in `bytes`.
    fn place(&self, marker: Option<&Marker>) -> u64 {
        let mut known = self.known.iter();
        known
            .find(|(known, _)| Some(known) == marker)
            .map_or(0, |(_, place)| *place)
    }
}

fn draft<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    fat: &SplittableBinary,
    markers: &[Marker],
    placed: &PlacedMarkers,
    layout: &HostLayout,
) -> Result<Patch> {
    let mut replacements = vec![code(image, placed, layout)];
    for wrapper in &fat.wrappers {
        let marker = placed.place(markers.get(wrapper.bundle));
        let address = layout.markers.saturating_add(marker);
        replacements.extend(lead(wrapper, SPLIT, address, wrapper.bundle as u64));
    }
    replacements.extend(symbols::moved(image, layout)?);
    let (end, tail, section_table) = sections(image, placed, layout)?;
    let table = match layout.table {
        Some(table) => layout.offset(table),
        None => layout.moved(image.table()),
    };
    replacements.push(image.header_with(
        (table, layout.segments.len()),
        (section_table, image.sections.len().saturating_add(1)),
    )?);
    Ok(Patch::new(image.file.len(), end, replacements, tail)?)
}

/// The bytes that replace the code: program headers, markers, then zeros for the bytes that cannot
/// be removed, because alignments behind them would break.
fn code<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    placed: &PlacedMarkers,
    layout: &HostLayout,
) -> Replacement {
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
    put(layout.markers, &placed.bytes);
    let left = layout.code.size.saturating_sub(layout.removed);
    let zeros = left.saturating_sub(bytes.len() as u64);
    debug_assert!(image.file.len() >= left);
    Replacement {
        old: layout.code.file(),
        new: vec![PatchPiece::Bytes(bytes), PatchPiece::Zeros(zeros)],
    }
}

/// Points a wrapper to another address, with this magic and bundle number.
///
/// The address is written to the wrapper in the file *and* to its relocation. In a program at a
/// fixed address there is no relocation, and with `DT_RELR` the loader adds the load address to the
/// word in the file: zeros there would be a null pointer. A symbolic relocation becomes a relative
/// one, as its symbol has moved.
pub(super) fn lead(wrapper: &Wrapper, magic: u64, to: u64, ordinal: u64) -> Vec<Replacement> {
    let magic = u32::try_from(magic).unwrap_or(0).to_le_bytes();
    let mut bytes = [magic, 1_u32.to_le_bytes()].concat();
    bytes.extend(to.to_le_bytes());
    bytes.extend(ordinal.to_le_bytes());
    debug_assert_eq!(bytes.len() as u64, WRAPPER);
    let mut replacements = vec![Replacement::bytes(wrapper.offset, bytes)];
    if let How::Entry { at } = wrapper.how {
        let entry = [RELATIVE.to_le_bytes(), to.to_le_bytes()].concat();
        replacements.push(Replacement::bytes(at.saturating_add(8), entry));
    }
    replacements
}

/// Plans the end of the file: where the copy of the old contents ends, the tail that follows it,
/// and the offset of the section headers in the new file.
///
/// The name of the new section does not fit into the old name table, so the tail has a longer copy
/// of it, and then a new section header table.
fn sections<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    placed: &PlacedMarkers,
    layout: &HostLayout,
) -> Result<(u64, Vec<PatchPiece>, u64)> {
    let end = image.end_of_content();
    let left = end.saturating_sub(layout.removed);
    let begin = left.max(layout.least_len);
    let padding = PatchPiece::Zeros(begin.saturating_sub(left));
    let mut sections = image.sections.clone();
    for section in &mut sections {
        section.offset = layout.moved(section.offset);
    }
    let Some(names) = sections.get_mut(image.names) else {
        bail!("no section names");
    };
    let old_names = image.sections.get(image.names).map_or(0..0, Section::file);
    let size = old_names.end.saturating_sub(old_names.start);
    let mut tail = image
        .file
        .bytes("section name table", old_names.start, size)?;
    let name_at = u32::try_from(tail.len()).context("too many section names")?;
    tail.extend(MARKERS.as_bytes());
    tail.push(0);
    names.offset = begin;
    names.size = tail.len() as u64;
    code_section(&mut sections, layout);
    sections.push(marker_section(name_at, placed, layout));
    let table = begin.saturating_add(tail.len() as u64).next_multiple_of(8);
    tail.resize(usize::try_from(table.saturating_sub(begin)).unwrap_or(0), 0);
    tail.extend(sections.iter().flat_map(Section::render));
    Ok((end, vec![padding, PatchPiece::Bytes(tail)], table))
}

/// Changes the section of the code to what is left of it: memory that reads as zeros. It becomes
/// `SHT_NOBITS`, because TheRock's check of artifacts requires this of every split binary.
///
/// The section ends where the hole ends. The zeros that were kept behind the hole, for alignment,
/// are in another segment, and tools report a section that lies in two segments as damaged. If no
/// bytes were removed, the file has bytes for the section; linters accept this for `SHT_NOBITS`.
fn code_section(sections: &mut [Section], layout: &HostLayout) {
    let code = sections.iter_mut().find(|s| s.name == layout.code.name);
    if let Some(code) = code {
        let memory = layout.code_left();
        code.kind = NOBITS;
        code.address = memory.start;
        code.offset = layout.hole_offset;
        code.size = memory.end.saturating_sub(memory.start);
        if layout.removed == 0
            && let Some(align) = code.rest.get_mut(8..16)
        {
            align.copy_from_slice(&8_u64.to_le_bytes());
        }
    }
}

fn marker_section(name_at: u32, placed: &PlacedMarkers, layout: &HostLayout) -> Section {
    let mut section = Section {
        name: MARKERS.to_owned(),
        name_at,
        kind: PROGBITS,
        flags: ALLOC,
        address: layout.markers,
        offset: layout.offset(layout.markers),
        size: placed.bytes.len() as u64,
        rest: [0; 24],
    };
    // `sh_addralign`, behind `sh_link` and `sh_info`.
    section.rest[8] = 8;
    section
}
