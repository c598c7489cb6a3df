//! `ElfImage`: the headers and the dynamic table of an ELF file, from small reads at their offsets.
//!
//! goblin parses the single structures. Its `Elf::parse` is not used, because it needs the whole
//! file and reads all symbols and relocations.

use derive_more::Deref;
use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Elf, Header, ProgramHeader, SectionHeader,
        dynamic::DT_NULL,
        header::{
            EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ET_DYN, ET_EXEC,
        },
        program_header::PT_DYNAMIC,
        section_header::{SHF_TLS, SHT_NOBITS},
    },
};

use crate::{
    elf::{
        source::{ReadAt, read_exact_at},
        tables::{DynamicEntry, ElfTables, Section, Segment},
    },
    error::{Context as _, Result, bail, ensure},
};

/// Limit for damaged files: a dynamic table of 4,096 entries.
const MAX_DYNAMIC: u64 = 1 << 16;

/// The headers as goblin reads them, of files for any machine. Only linked files get their
/// `sections`.
#[derive(Deref)]
pub(super) struct ElfImage<'a> {
    #[deref]
    pub(super) tables: ElfTables<'a>,
    pub(super) ctx: Ctx,
    pub(super) header: Header,
}

impl<'a> ElfImage<'a> {
    /// Reads the headers; `None` if the file does not begin with the magic number of ELF.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let Some((bytes, header, ctx)) = read_header(source)? else {
            return Ok(None);
        };
        let tables = ElfTables {
            source,
            header: bytes,
            segments: Vec::new(),
            sections: Vec::new(),
        };
        let mut image = Self {
            tables,
            ctx,
            header,
        };
        image.tables.segments = image.segments()?;
        if image.is_linked() && image.header.e_shoff != 0 {
            image.tables.sections = image.sections()?;
        }
        Ok(Some(image))
    }

    /// Whether this is a program or a shared object, for any machine.
    pub(super) fn is_linked(&self) -> bool {
        matches!(self.header.e_type, ET_DYN | ET_EXEC)
    }

    fn segments(&self) -> Result<Vec<Segment>> {
        let (count, size) = (self.header.e_phnum, ProgramHeader::size(self.ctx));
        ensure!(
            count != u16::MAX,
            "more than 65,534 program headers, which is not supported"
        );
        let (start, stated) = (self.header.e_phoff, self.header.e_phentsize);
        let bytes = self.headers("program", start, (count, stated), size)?;
        let headers = ProgramHeader::parse(&bytes, 0, count.into(), self.ctx)
            .context("a damaged program header table")?;
        Ok(headers.iter().map(Segment::from).collect())
    }

    fn sections(&self) -> Result<Vec<Section>> {
        let (count, size) = (self.header.e_shnum, SectionHeader::size(self.ctx));
        ensure!(
            count > 0,
            "more than 65,279 sections, which is not supported"
        );
        let (start, stated) = (self.header.e_shoff, self.header.e_shentsize);
        let bytes = self.headers("section", start, (count, stated), size)?;
        // The gABI stores the real number of sections in the size of the first header if the number
        // does not fit into `e_shnum`, and goblin follows that size. A damaged file could have any
        // size there, so a null header replaces the first one, which has no other use.
        let rest = SectionHeader::parse_from(&bytes, size, usize::from(count) - 1, self.ctx)
            .context("a damaged section header table")?;
        let sections = [SectionHeader::default()].into_iter().chain(rest);
        Ok(sections.map(|header| Section::from(&header)).collect())
    }

    /// Reads a table of headers. The size in the file header must be the usual one.
    fn headers(
        &self,
        what: &str,
        offset: u64,
        (count, stated): (u16, u16),
        size: usize,
    ) -> Result<Vec<u8>> {
        ensure!(
            count == 0 || usize::from(stated) == size,
            "{what} headers of {stated} bytes instead of {size}"
        );
        let len = u64::from(count) * size as u64;
        let offset = if count == 0 { 0 } else { offset };
        self.bytes(&format!("{what} header table"), offset, len)
    }

    /// Reads a range of the file. The range is checked before memory is allocated for it, so a
    /// damaged length cannot allocate more than the size of the file.
    pub(super) fn bytes(&self, what: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let size = self.source.len();
        let inside = offset.checked_add(len).is_some_and(|end| end <= size);
        let (true, Ok(count)) = (inside, usize::try_from(len)) else {
            bail!("the {what} lies outside the file: {len} bytes at {offset} of {size}");
        };
        let mut bytes = vec![0; count];
        read_exact_at(self.source, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether the file has only debug information. Such a file (`objcopy --only-keep-debug`) has
    /// the headers of the original, but not the bytes of its loaded sections.
    pub(super) fn is_debug_only(&self) -> bool {
        let Some(place) = self.first(PT_DYNAMIC) else {
            return false;
        };
        // Before binutils 2.35, `objcopy` left the sizes in the program headers, so the section
        // type has to be checked too.
        place.file_size == 0
            || self.sections.iter().any(|section| {
                section.kind == SHT_NOBITS
                    && section.address == place.address
                    && section.size > 0
                    && section.flags & u64::from(SHF_TLS) == 0
            })
    }

    /// The bytes of the dynamic table with its spare entries; empty if there is none.
    pub(super) fn dynamic_bytes(&self) -> Result<Vec<u8>> {
        let Some(place) = self.first(PT_DYNAMIC) else {
            return Ok(Vec::new());
        };
        let len = place.file_size;
        ensure!(len <= MAX_DYNAMIC, "a dynamic table of {len} bytes");
        self.bytes("dynamic table", place.offset, len)
    }

    /// The entries of the dynamic table before `DT_NULL`; empty if there is none.
    pub(super) fn dynamic(&self) -> Result<Vec<DynamicEntry>> {
        let bytes = self.dynamic_bytes()?;
        let size = self.ctx.size();
        let entries = bytes.chunks_exact(2 * size).map(|entry| DynamicEntry {
            tag: self.number(entry, 0, size),
            value: self.number(entry, size, size),
        });
        Ok(entries.take_while(|entry| entry.tag != DT_NULL).collect())
    }
}

fn read_header(source: &dyn ReadAt) -> Result<Option<([u8; 64], Header, Ctx)>> {
    let mut bytes = [0; 64];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(64);
    read_exact_at(source, 0, bytes.get_mut(..len).unwrap_or_default())?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let container = match bytes.get(EI_CLASS) {
        Some(&ELFCLASS32) => Container::Little,
        Some(&ELFCLASS64) => Container::Big,
        _ => bail!("neither a 32-bit nor a 64-bit file"),
    };
    let endian = match bytes.get(EI_DATA) {
        Some(&ELFDATA2LSB) => Endian::Little,
        Some(&ELFDATA2MSB) => Endian::Big,
        _ => bail!("neither little-endian nor big-endian"),
    };
    let ctx = Ctx::new(container, endian);
    ensure!(
        len >= Header::size(ctx),
        "the file ends in its header, after {len} bytes"
    );
    let header = Elf::parse_header(&bytes).context("a damaged header")?;
    Ok(Some((bytes, header, ctx)))
}
