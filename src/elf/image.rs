//! `ElfImage`: the headers of an ELF file, from small reads at their offsets.
//!
//! goblin parses the single structures. Its `Elf::parse` is not used, because it needs the whole
//! file and reads all symbols and relocations.

use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Dynamic, Elf, Header, ProgramHeader, SectionHeader,
        header::{EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB},
        program_header::{PT_DYNAMIC, PT_LOAD},
        section_header::{SHF_TLS, SHT_NOBITS},
    },
};

use crate::elf::{ElfError, ReadAt, source::read_exact_at};

/// Limit for damaged files: a dynamic table of 4,096 entries.
const MAX_DYNAMIC: u64 = 1 << 16;

/// Limit for one string. Only run paths are nearly as long.
const MAX_TEXT: u64 = 1 << 16;

pub(super) struct ElfImage<'a, R: ?Sized> {
    source: &'a R,
    pub(super) ctx: Ctx,
    pub(super) header: Header,
    pub(super) segments: Vec<ProgramHeader>,
}

/// One entry of the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DynamicEntry {
    pub(super) tag: u64,
    pub(super) value: u64,
}

impl<'a, R: ReadAt + ?Sized> ElfImage<'a, R> {
    /// Reads the file header and the program headers; `None` if the file does not begin with the
    /// magic number of ELF.
    pub(super) fn read(source: &'a R) -> Result<Option<Self>, ElfError> {
        let Some((header, ctx)) = read_header(source)? else {
            return Ok(None);
        };
        let mut image = Self {
            source,
            ctx,
            header,
            segments: Vec::new(),
        };
        image.segments = image.read_segments()?;
        Ok(Some(image))
    }

    /// Reads a range of the file. The range is checked before memory is allocated for it, so a
    /// damaged length cannot allocate more than the size of the file.
    pub(super) fn bytes(&self, what: &str, offset: u64, len: u64) -> Result<Vec<u8>, ElfError> {
        let size = self.source.len();
        let inside = offset.checked_add(len).is_some_and(|end| end <= size);
        let (true, Ok(len)) = (inside, usize::try_from(len)) else {
            return Err(ElfError::damaged(format!(
                "the {what} lies outside the file: {len} bytes at {offset} of {size}"
            )));
        };
        let mut bytes = vec![0; len];
        read_exact_at(self.source, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The offset of an address in the file, and the number of bytes from there to the end of its
    /// segment in the file.
    pub(super) fn locate(&self, address: u64) -> Option<(u64, u64)> {
        self.segments
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD)
            .find_map(|segment| {
                let inside = address.checked_sub(segment.p_vaddr)?;
                let rest = segment.p_filesz.checked_sub(inside)?;
                let offset = segment.p_offset.checked_add(inside)?;
                (rest > 0).then_some((offset, rest))
            })
    }

    pub(super) fn segment(&self, kind: u32) -> Option<&ProgramHeader> {
        self.segments.iter().find(|segment| segment.p_type == kind)
    }

    pub(super) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether the file has only debug information. Such a file (`objcopy --only-keep-debug`) has
    /// the headers of the original, but not the bytes of its loaded sections.
    pub(super) fn is_debug_only(&self, sections: &[SectionHeader]) -> bool {
        let Some(place) = self.segment(PT_DYNAMIC) else {
            return false;
        };
        // Before binutils 2.35, `objcopy` left the sizes in the program headers, so the section
        // type has to be checked too.
        place.p_filesz == 0
            || sections.iter().any(|section| {
                section.sh_type == SHT_NOBITS
                    && section.sh_addr == place.p_vaddr
                    && section.sh_size > 0
                    && section.sh_flags & u64::from(SHF_TLS) == 0
            })
    }

    /// The bytes of the dynamic table with its spare entries; empty if there is none.
    pub(super) fn dynamic_bytes(&self) -> Result<Vec<u8>, ElfError> {
        let Some(place) = self.segment(PT_DYNAMIC) else {
            return Ok(Vec::new());
        };
        if place.p_filesz > MAX_DYNAMIC {
            return Err(ElfError::damaged(format!(
                "a dynamic table of {} bytes",
                place.p_filesz
            )));
        }
        self.bytes("dynamic table", place.p_offset, place.p_filesz)
    }

    /// The entries of the dynamic table before `DT_NULL`; empty if there is none.
    pub(super) fn dynamic(&self) -> Result<Vec<DynamicEntry>, ElfError> {
        let bytes = self.dynamic_bytes()?;
        // goblin finds the table through a program header, so it gets one with offset 0 for the
        // bytes that were read.
        let at_zero = ProgramHeader {
            p_type: PT_DYNAMIC,
            p_filesz: bytes.len() as u64,
            ..ProgramHeader::default()
        };
        let table = Dynamic::parse(&bytes, &[at_zero], self.ctx)
            .map_err(|error| ElfError::damaged(format!("the dynamic table: {error}")))?;
        let entries = table.map(|table| table.dyns).unwrap_or_default();
        Ok(entries
            .iter()
            .map(|entry| DynamicEntry {
                tag: entry.d_tag,
                value: entry.d_val,
            })
            .collect())
    }

    /// The section headers; empty when the file has none.
    pub(super) fn sections(&self) -> Result<Vec<SectionHeader>, ElfError> {
        if self.header.e_shoff == 0 {
            return Ok(Vec::new());
        }
        if self.header.e_shnum == 0 {
            return Err(ElfError::Unsupported(
                "more than 65,279 sections".to_owned(),
            ));
        }
        let size = SectionHeader::size(self.ctx);
        if usize::from(self.header.e_shentsize) != size {
            return Err(ElfError::damaged(format!(
                "section headers of {} bytes instead of {size}",
                self.header.e_shentsize
            )));
        }
        let count = usize::from(self.header.e_shnum);
        let bytes = self.bytes(
            "section header table",
            self.header.e_shoff,
            count.saturating_mul(size) as u64,
        )?;
        // The gABI stores the real number of sections in the size of the first header if the number
        // does not fit into `e_shnum`, and goblin follows that size. A damaged file could have any
        // size there, so a null header replaces the first one, which has no other use.
        let rest = SectionHeader::parse_from(&bytes, size, count.saturating_sub(1), self.ctx)
            .map_err(|error| ElfError::damaged(format!("the section header table: {error}")))?;
        let mut sections = vec![SectionHeader::default()];
        sections.extend(rest);
        sections.truncate(count);
        Ok(sections)
    }

    /// The string at an offset, without its NUL, which must come before `end`.
    pub(super) fn text(&self, what: &str, offset: u64, end: u64) -> Result<Vec<u8>, ElfError> {
        let mut text = Vec::new();
        let mut at = offset;
        let end = end.min(offset.saturating_add(MAX_TEXT));
        while at < end {
            let chunk = self.bytes(what, at, (end.saturating_sub(at)).min(256))?;
            if let Some(nul) = chunk.iter().position(|byte| *byte == 0) {
                text.extend(chunk.iter().take(nul));
                return Ok(text);
            }
            text.extend_from_slice(&chunk);
            at = at.saturating_add(256);
        }
        Err(ElfError::damaged(format!("the {what} has no end")))
    }

    fn read_segments(&self) -> Result<Vec<ProgramHeader>, ElfError> {
        let count = usize::from(self.header.e_phnum);
        if count == 0 {
            return Ok(Vec::new());
        }
        if count == 0xffff {
            return Err(ElfError::Unsupported(
                "more than 65,534 program headers".to_owned(),
            ));
        }
        let size = ProgramHeader::size(self.ctx);
        if usize::from(self.header.e_phentsize) != size {
            return Err(ElfError::damaged(format!(
                "program headers of {} bytes instead of {size}",
                self.header.e_phentsize
            )));
        }
        let len = count.saturating_mul(size) as u64;
        let bytes = self.bytes("program header table", self.header.e_phoff, len)?;
        ProgramHeader::parse(&bytes, 0, count, self.ctx)
            .map_err(|error| ElfError::damaged(format!("the program header table: {error}")))
    }
}

/// The value of a tag. If the tag is repeated, the loader uses the last one.
pub(super) fn value(dynamic: &[DynamicEntry], tag: u64) -> Option<u64> {
    dynamic
        .iter()
        .rev()
        .find(|entry| entry.tag == tag)
        .map(|entry| entry.value)
}

fn read_header<R: ReadAt + ?Sized>(source: &R) -> Result<Option<(Header, Ctx)>, ElfError> {
    let mut bytes = [0; 64];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(64);
    read_exact_at(source, 0, bytes.get_mut(..len).unwrap_or_default())?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let container = match bytes.get(EI_CLASS) {
        Some(&ELFCLASS32) => Container::Little,
        Some(&ELFCLASS64) => Container::Big,
        _ => return Err(ElfError::damaged("neither a 32-bit nor a 64-bit file")),
    };
    let endian = match bytes.get(EI_DATA) {
        Some(&ELFDATA2LSB) => Endian::Little,
        Some(&ELFDATA2MSB) => Endian::Big,
        _ => return Err(ElfError::damaged("neither little-endian nor big-endian")),
    };
    let ctx = Ctx::new(container, endian);
    if len < Header::size(ctx) {
        return Err(ElfError::damaged(format!(
            "the file ends in its header, after {len} bytes"
        )));
    }
    let header = Elf::parse_header(&bytes)
        .map_err(|error| ElfError::damaged(format!("the header: {error}")))?;
    Ok(Some((header, ctx)))
}
