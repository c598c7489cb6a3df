//! `ElfFacts`: what packaging and `check` need to know about an ELF file, and `ElfImage`: the
//! headers that have it, from small reads at their offsets.
//!
//! goblin parses the single structures. Its `Elf::parse` is not used, because it needs the whole
//! file and reads all symbols and relocations.

use std::fmt;

use derive_more::Deref;
use goblin::{
    container::{Container, Ctx, Endian},
    elf::{
        Elf, Header, ProgramHeader, SectionHeader,
        dynamic::{
            DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
            DT_STRTAB, DT_VERNEED,
        },
        header::{
            EI_CLASS, EI_DATA, ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_X86_64, ET_DYN,
            ET_EXEC,
        },
        program_header::{PT_DYNAMIC, PT_INTERP},
        section_header::{SHF_TLS, SHT_NOBITS},
    },
};

use crate::{
    elf::{
        source::{ReadAt, read_exact_at, text_at},
        tables::{DynamicEntry, ElfTables, Section, Segment, last_value},
    },
    error::{Context as _, Result, anyhow, bail, ensure},
};

/// `EM_AMDGPU`: a device code object. By its type it is a shared object, but no host can load it.
/// See the [AMDGPU ABI](https://llvm.org/docs/AMDGPUUsage.html#header).
const EM_AMDGPU: u16 = 224;
const KPACK_REF: &[u8] = b".rocm_kpack_ref";
/// Limit for one string. Only run paths are nearly as long.
const MAX_TEXT: u64 = 1 << 16;
/// Limit for all strings that are read of a file. In a damaged file, thousands of entries may refer
/// to the same long string, and each would become a copy of it.
const MAX_STRINGS: usize = 1 << 20;
/// Limit for damaged files: a dynamic table of 4,096 entries.
const MAX_DYNAMIC: u64 = 1 << 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    pub kind: ElfKind,
    pub machine: Machine,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// The text of `DT_RPATH`.
    pub rpath: Option<String>,
    /// The text of `DT_RUNPATH`, which makes the loader ignore `DT_RPATH`.
    pub runpath: Option<String>,
    /// The dynamic loader that an executable asks for.
    pub interpreter: Option<String>,
    /// The GNU symbol versions that the file needs, by library.
    pub versions: Vec<NeededVersions>,
    /// Whether the file has a section `.rocm_kpack_ref`, which the kpack split adds.
    pub kpack_ref: bool,
}

/// The kind of a file, as `file` of libmagic 5.36 and later reports it. Mode bits and `PT_INTERP`
/// are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElfKind {
    /// `ET_EXEC`, or `ET_DYN` with the flag `DF_1_PIE`.
    Executable,
    SharedObject,
    /// For example a relocatable object or a core dump.
    #[default]
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit and little-endian, as every host of ROCm is.
    X86_64,
    AmdGpu,
    /// `e_machine` of another machine, or of x86-64 with another class or byte order, such as x32.
    Other(u16),
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86_64 => f.write_str("x86-64"),
            Self::AmdGpu => f.write_str("AMD GPUs"),
            Self::Other(3) => f.write_str("32-bit x86"),
            Self::Other(21) => f.write_str("PowerPC"),
            Self::Other(183) => f.write_str("AArch64"),
            Self::Other(243) => f.write_str("RISC-V"),
            Self::Other(number) => write!(f, "machine {number}"),
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::Other(0)
    }
}

impl ElfFacts {
    /// The run path that the loader uses: `DT_RUNPATH` if there is one, otherwise `DT_RPATH`.
    pub fn run_path(&self) -> Option<&str> {
        self.runpath.as_deref().or(self.rpath.as_deref())
    }

    /// Whether the dynamic loader of the host reads the run path of this file.
    pub fn is_searched(&self) -> bool {
        self.machine == Machine::X86_64
            && self.kind != ElfKind::Other
            && (!self.needed.is_empty() || self.run_path().is_some())
    }
}

/// The GNU symbol versions that a file needs of a library, such as `GLIBC_2.28` of `libc.so.6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededVersions {
    pub library: String,
    pub versions: Vec<String>,
}

/// Reads the facts of a file; `None` if it is not an ELF file.
pub fn read(source: &dyn ReadAt) -> Result<Option<ElfFacts>> {
    let Some(image) = ElfImage::read(source)? else {
        return Ok(None);
    };
    let mut facts = ElfFacts {
        machine: image.machine(),
        ..ElfFacts::default()
    };
    if !image.is_linked() {
        return Ok(Some(facts));
    }
    let mut dynamic = Vec::new();
    if !image.is_debug_only() {
        dynamic = image.slots()?;
        let used = dynamic.iter().position(|entry| entry.tag == DT_NULL);
        dynamic.truncate(used.unwrap_or(dynamic.len()));
    }
    let mut strings = DynamicStrings::find(&image, &dynamic);
    for entry in &dynamic {
        let mut text = || strings.text(entry.value).map(Some);
        match entry.tag {
            DT_SONAME => facts.soname = text()?,
            DT_NEEDED => facts.needed.extend(text()?),
            DT_RPATH => facts.rpath = text()?,
            DT_RUNPATH => facts.runpath = text()?,
            _ => {}
        }
    }
    for names in image.version_names(&dynamic, DT_VERNEED)? {
        let mut names = names.into_iter().map(|name| strings.text(name));
        facts.versions.push(NeededVersions {
            library: names.next().transpose()?.unwrap_or_default(),
            versions: names.collect::<Result<_>>()?,
        });
    }
    // Files with only debug information have `PT_INTERP` without its bytes.
    if let Some(place) = image.first(PT_INTERP).filter(|it| it.file_size > 0) {
        let end = place.file().end;
        facts.interpreter = Some(text(&image, "interpreter", place.offset, end)?);
    }
    let flags = last_value(&dynamic, DT_FLAGS_1).unwrap_or(0);
    facts.kind = match image.header.e_type {
        ET_DYN if flags & DF_1_PIE == 0 => ElfKind::SharedObject,
        _ => ElfKind::Executable,
    };
    facts.kpack_ref = has_kpack_ref(&image)?;
    Ok(Some(facts))
}

/// Whether a section is called `.rocm_kpack_ref`. The section headers are enough to know it: every
/// file that the kpack split writes has them.
fn has_kpack_ref(image: &ElfImage<'_>) -> Result<bool> {
    let names = image.sections.get(usize::from(image.header.e_shstrndx));
    let Some(names) = names.filter(|names| names.size > 0) else {
        return Ok(false);
    };
    let names = image.bytes("section name table", names.offset, names.size)?;
    Ok(image.sections.iter().any(|section| {
        let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
        let name = names.get(start..).unwrap_or_default();
        name.strip_prefix(KPACK_REF)
            .is_some_and(|rest| rest.first() == Some(&0))
    }))
}

/// The strings of the dynamic string table (`DT_STRTAB`).
struct DynamicStrings<'a> {
    image: &'a ElfImage<'a>,
    /// Start and end of the table in the file.
    place: Option<(u64, u64)>,
    /// How many more bytes may be read.
    left: usize,
}

impl<'a> DynamicStrings<'a> {
    fn find(image: &'a ElfImage<'a>, dynamic: &[DynamicEntry]) -> Self {
        // Damaged files may have no size, or one that is too large: the segment is the limit then.
        let address = last_value(dynamic, DT_STRTAB);
        let place = address.and_then(|address| {
            let mut loads = image.loads();
            let load = loads.find(|it| (it.address..it.file_end()).contains(&address))?;
            let start = load.offset.checked_add(address - load.address)?;
            let size = last_value(dynamic, DT_STRSZ).unwrap_or(u64::MAX);
            Some((start, start.saturating_add(size).min(load.file().end)))
        });
        let left = MAX_STRINGS;
        Self { image, place, left }
    }

    fn text(&mut self, offset: u64) -> Result<String> {
        let place = self.place;
        let (start, end) = place.context("the dynamic string table is in no segment")?;
        let start = start.saturating_add(offset);
        let text = text(self.image, "dynamic string", start, end)?;
        let left = self.left.checked_sub(text.len());
        self.left =
            left.with_context(|| format!("dynamic strings of more than {MAX_STRINGS} bytes"))?;
        Ok(text)
    }
}

/// The string at an offset, without its NUL, which must come before `end`.
fn text(image: &ElfImage<'_>, what: &str, start: u64, end: u64) -> Result<String> {
    let end = end.min(start.saturating_add(MAX_TEXT)).min(image.len());
    let text = text_at(image.source, start, end)?;
    let text = text.with_context(|| format!("the {what} has no end"))?;
    String::from_utf8(text).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes());
        anyhow!("a string that is not UTF-8: {text:?}")
    })
}

/// The headers as goblin reads them, of files for any machine. Only linked files get their
/// `sections`.
#[derive(Deref)]
pub(super) struct ElfImage<'a> {
    #[deref]
    pub(super) tables: ElfTables<'a>,
    ctx: Ctx,
    header: Header,
}

impl<'a> ElfImage<'a> {
    /// Reads the headers; `None` if the file does not begin with the magic number of ELF.
    pub(super) fn read(source: &'a dyn ReadAt) -> Result<Option<Self>> {
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

    pub(super) fn machine(&self) -> Machine {
        let host = self.ctx.is_big() && self.ctx.is_little_endian();
        match self.header.e_machine {
            EM_X86_64 if host => Machine::X86_64,
            EM_AMDGPU => Machine::AmdGpu,
            other => Machine::Other(other),
        }
    }

    fn segments(&self) -> Result<Vec<Segment>> {
        let (count, size) = (self.header.e_phnum, ProgramHeader::size(self.ctx));
        ensure!(
            count != u16::MAX,
            "more than 65,534 program headers, which is not supported"
        );
        let (start, stated) = (self.header.e_phoff, self.header.e_phentsize);
        let bytes = self.headers("program", start, count, stated, size)?;
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
        let bytes = self.headers("section", start, count, stated, size)?;
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
        count: u16,
        stated: u16,
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

    /// All slots of the dynamic table, with the spare ones behind `DT_NULL`.
    pub(super) fn slots(&self) -> Result<Vec<DynamicEntry>> {
        let Some(place) = self.first(PT_DYNAMIC) else {
            return Ok(Vec::new());
        };
        let (len, size) = (place.file_size, self.ctx.size());
        ensure!(len <= MAX_DYNAMIC, "a dynamic table of {len} bytes");
        let bytes = self.bytes("dynamic table", place.offset, len)?;
        let slots = bytes.chunks_exact(2 * size).map(|entry| DynamicEntry {
            tag: self.number(entry, 0, size),
            value: self.number(entry, size, size),
        });
        Ok(slots.collect())
    }
}

#[cfg(test)]
mod tests;
