//! `ElfImage`: the headers and the dynamic strings of an ELF file, from small reads at their
//! offsets.
//!
//! goblin parses the single structures. Its `Elf::parse` is not used, because it needs the whole
//! file and reads all symbols and relocations.

use std::cell::Cell;

use derive_more::Deref;
use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Dynamic, Elf, Header, ProgramHeader, SectionHeader,
        dynamic::{DT_STRSZ, DT_STRTAB},
        header::{EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB},
        program_header::PT_DYNAMIC,
        section_header::{SHF_TLS, SHT_NOBITS},
    },
};

use crate::{
    elf::{
        ReadAt,
        source::{read_exact_at, text_at},
        tables::{DynamicEntry, ElfTables, Section, Segment, last_value},
    },
    error::{Context as _, Result, anyhow, bail, ensure},
};

/// Limit for damaged files: a dynamic table of 4,096 entries.
const MAX_DYNAMIC: u64 = 1 << 16;

/// Limit for one string. Only run paths are nearly as long.
const MAX_TEXT: u64 = 1 << 16;

/// Limit for all strings that are read of a file. In a damaged file, thousands of entries may refer
/// to the same long string, and each would become a copy of it.
const MAX_STRINGS: usize = 1 << 20;

/// The headers as goblin reads them, of files for any machine. `sections` is empty unless
/// `with_sections` has read them.
#[derive(Deref)]
pub(super) struct ElfImage<'a> {
    #[deref]
    pub(super) tables: ElfTables<'a>,
    pub(super) ctx: Ctx,
    pub(super) header: Header,
}

/// The strings of the dynamic string table (`DT_STRTAB`).
pub(super) struct Strings<'a> {
    image: &'a ElfImage<'a>,
    /// Start and end of the table in the file.
    place: Option<(u64, u64)>,
    /// How many more bytes may be read.
    left: Cell<usize>,
}

impl<'a> ElfImage<'a> {
    /// Reads the file header and the program headers; `None` if the file does not begin with the
    /// magic number of ELF.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
        let Some((bytes, header, ctx)) = read_header(source)? else {
            return Ok(None);
        };
        let mut image = Self {
            tables: ElfTables {
                source,
                header: bytes,
                segments: Vec::new(),
                sections: Vec::new(),
            },
            ctx,
            header,
        };
        let count = usize::from(image.header.e_phnum);
        ensure!(
            count != 0xffff,
            "more than 65,534 program headers, which is not supported"
        );
        if count > 0 {
            let size = ProgramHeader::size(ctx);
            let stated = image.header.e_phentsize;
            let bytes = image.headers("program", image.header.e_phoff, (count, stated), size)?;
            let headers = ProgramHeader::parse(&bytes, 0, count, ctx)
                .context("a damaged program header table")?;
            image.tables.segments = headers.iter().map(Segment::from).collect();
        }
        Ok(Some(image))
    }

    /// Reads the section headers, if the file has any.
    pub(super) fn with_sections(mut self) -> Result<Self> {
        if self.header.e_shoff == 0 {
            return Ok(self);
        }
        let count = usize::from(self.header.e_shnum);
        ensure!(
            count > 0,
            "more than 65,279 sections, which is not supported"
        );
        let size = SectionHeader::size(self.ctx);
        let stated = self.header.e_shentsize;
        let bytes = self.headers("section", self.header.e_shoff, (count, stated), size)?;
        // The gABI stores the real number of sections in the size of the first header if the number
        // does not fit into `e_shnum`, and goblin follows that size. A damaged file could have any
        // size there, so a null header replaces the first one, which has no other use.
        let rest = SectionHeader::parse_from(&bytes, size, count.saturating_sub(1), self.ctx)
            .context("a damaged section header table")?;
        let sections = [SectionHeader::default()].into_iter().chain(rest);
        self.tables.sections = sections
            .take(count)
            .map(|header| Section::from(&header))
            .collect();
        Ok(self)
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

    /// The offset of an address in the file, and the number of bytes from there to the end of its
    /// segment in the file.
    pub(super) fn locate(&self, address: u64) -> Option<(u64, u64)> {
        self.loads().find_map(|segment| {
            let inside = address.checked_sub(segment.address)?;
            let rest = segment.file_size.checked_sub(inside)?;
            let offset = segment.offset.checked_add(inside)?;
            (rest > 0).then_some((offset, rest))
        })
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
        // goblin finds the table through a program header, so it gets one with offset 0 for the
        // bytes that were read.
        let at_zero = ProgramHeader {
            p_type: PT_DYNAMIC,
            p_filesz: bytes.len() as u64,
            ..ProgramHeader::default()
        };
        let table = Dynamic::parse(&bytes, &[at_zero], self.ctx);
        let table = table.context("a damaged dynamic table")?;
        let entries = table.into_iter().flat_map(|table| table.dyns);
        Ok(entries
            .map(|entry| DynamicEntry {
                tag: entry.d_tag,
                value: entry.d_val,
            })
            .collect())
    }

    /// The string at an offset, without its NUL, which must come before `end`.
    pub(super) fn text(&self, what: &str, offset: u64, end: u64) -> Result<Vec<u8>> {
        let limit = offset.saturating_add(MAX_TEXT);
        let end = end.min(limit).min(self.source.len());
        let text = text_at(self.source, offset, end)?;
        text.with_context(|| format!("the {what} has no end"))
    }

    /// Reads a table of headers. The size in the file header must be the usual one.
    fn headers(
        &self,
        what: &str,
        offset: u64,
        (count, stated): (usize, u16),
        size: usize,
    ) -> Result<Vec<u8>> {
        ensure!(
            usize::from(stated) == size,
            "{what} headers of {stated} bytes instead of {size}"
        );
        let len = count.saturating_mul(size) as u64;
        self.bytes(&format!("{what} header table"), offset, len)
    }
}

impl<'a> Strings<'a> {
    pub(super) fn find(image: &'a ElfImage<'a>, dynamic: &[DynamicEntry]) -> Self {
        let place = last_value(dynamic, DT_STRTAB)
            .and_then(|address| image.locate(address))
            .map(|(offset, rest)| {
                let size = last_value(dynamic, DT_STRSZ).unwrap_or(rest).min(rest);
                (offset, offset.saturating_add(size))
            });
        let left = Cell::new(MAX_STRINGS);
        Self { image, place, left }
    }

    pub(super) fn text(&self, offset: u64) -> Result<String> {
        let place = self.place;
        let (start, end) = place.context("the dynamic string table is in no segment")?;
        let start = start.saturating_add(offset);
        let text = self.image.text("dynamic string", start, end)?;
        let left = self.left.get().checked_sub(text.len());
        let left =
            left.with_context(|| format!("dynamic strings of more than {MAX_STRINGS} bytes"))?;
        self.left.set(left);
        utf8(text)
    }
}

pub(super) fn utf8(text: Vec<u8>) -> Result<String> {
    String::from_utf8(text).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes());
        anyhow!("a string that is not UTF-8: {text:?}")
    })
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
