//! `ElfFacts`: what packaging and `check` need to know about an ELF file.

use std::ops::Range;

use goblin::{
    container::Endian,
    elf::{
        dynamic::{
            DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_VERNEED,
            DT_VERNEEDNUM,
        },
        header::{EM_X86_64, ET_DYN, ET_EXEC},
        program_header::PT_INTERP,
    },
};

use crate::{
    elf::{
        ReadAt,
        image::{ElfImage, Strings, utf8},
        tables::{DynamicEntry, last_value, number},
    },
    error::{Context as _, Result},
};

/// `EM_AMDGPU`: a device code object. By its type it is a shared object, but no host can load it.
/// See the [AMDGPU ABI](https://llvm.org/docs/AMDGPUUsage.html#header).
const EM_AMDGPU: u16 = 224;
const KPACK_REF: &[u8] = b".rocm_kpack_ref";
/// Limit for damaged files, whose version records may form a loop.
const MAX_RECORDS: usize = 1 << 12;

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
#[derive(Clone, Copy, Debug, Default, derive_more::Display, PartialEq, Eq)]
pub enum ElfKind {
    /// `ET_EXEC`, or `ET_DYN` with the flag `DF_1_PIE`.
    #[display("executable")]
    Executable,
    #[display("shared object")]
    SharedObject,
    /// For example a relocatable object or a core dump.
    #[default]
    #[display("other")]
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
        machine: machine(&image),
        ..ElfFacts::default()
    };
    if !matches!(image.header.e_type, ET_DYN | ET_EXEC) {
        return Ok(Some(facts));
    }
    let image = image.with_sections()?;
    let dynamic = if image.is_debug_only() {
        Vec::new()
    } else {
        image.dynamic()?
    };
    let strings = Strings::find(&image, &dynamic);
    let text = |tag| {
        last_value(&dynamic, tag)
            .map(|offset| strings.text(offset))
            .transpose()
    };
    facts.kind = kind(image.header.e_type, &dynamic);
    facts.soname = text(DT_SONAME)?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        facts.needed.push(strings.text(entry.value)?);
    }
    facts.rpath = text(DT_RPATH)?;
    facts.runpath = text(DT_RUNPATH)?;
    facts.interpreter = interpreter(&image)?;
    facts.versions = versions(&image, &dynamic, &strings)?;
    facts.kpack_ref = has_kpack_ref(&image)?;
    Ok(Some(facts))
}

pub(super) fn machine(image: &ElfImage<'_>) -> Machine {
    let host = image.ctx.is_big() && image.ctx.is_little_endian();
    match image.header.e_machine {
        EM_X86_64 if host => Machine::X86_64,
        EM_AMDGPU => Machine::AmdGpu,
        other => Machine::Other(other),
    }
}

fn kind(elf_type: u16, dynamic: &[DynamicEntry]) -> ElfKind {
    let pie = last_value(dynamic, DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0);
    if elf_type == ET_EXEC || pie {
        ElfKind::Executable
    } else {
        ElfKind::SharedObject
    }
}

fn interpreter(image: &ElfImage<'_>) -> Result<Option<String>> {
    // Files with only debug information have `PT_INTERP` without its bytes.
    let Some(place) = image.first(PT_INTERP).filter(|it| it.file_size > 0) else {
        return Ok(None);
    };
    let Range { start, end } = place.file();
    let text = image.text("interpreter", start, end)?;
    utf8(text).map(Some)
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

/// Reads the GNU symbol versions that a file needs (`DT_VERNEED`). See [Symbol Versioning] in the
/// Linux Standard Base.
///
/// [Symbol Versioning]:
/// https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
fn versions(
    image: &ElfImage<'_>,
    dynamic: &[DynamicEntry],
    strings: &Strings<'_>,
) -> Result<Vec<NeededVersions>> {
    let start = last_value(dynamic, DT_VERNEED).and_then(|address| image.locate(address));
    let Some((mut at, _)) = start else {
        return Ok(Vec::new());
    };
    let mut left = MAX_RECORDS;
    let mut needs = Vec::new();
    for _ in 0..last_value(dynamic, DT_VERNEEDNUM).unwrap_or(0) {
        let need = VersionRecord::read(image, at, &mut left)?;
        let mut versions = Vec::new();
        let mut inner = at.saturating_add(need.word(8));
        for _ in 0..need.half(2) {
            let version = VersionRecord::read(image, inner, &mut left)?;
            versions.push(strings.text(version.word(8))?);
            match version.word(12) {
                0 => break,
                next => inner = inner.saturating_add(next),
            }
        }
        let library = strings.text(need.word(4))?;
        needs.push(NeededVersions { library, versions });
        match need.word(12) {
            0 => break,
            next => at = at.saturating_add(next),
        }
    }
    Ok(needs)
}

/// An `Elf64_Verneed` or `Elf64_Vernaux`. Both have 16 bytes, also in 32-bit files.
struct VersionRecord {
    bytes: Vec<u8>,
    endian: Endian,
}

impl VersionRecord {
    fn read(image: &ElfImage<'_>, at: u64, left: &mut usize) -> Result<Self> {
        *left = left
            .checked_sub(1)
            .context("the needed versions have no end")?;
        let bytes = image.bytes("table of needed versions", at, 16)?;
        let endian = image.ctx.le;
        Ok(Self { bytes, endian })
    }

    fn half(&self, at: usize) -> u64 {
        self.number(at, 2)
    }

    fn word(&self, at: usize) -> u64 {
        self.number(at, 4)
    }

    fn number(&self, at: usize, len: usize) -> u64 {
        let mut bytes = self.bytes.get(at..at + len).unwrap_or_default().to_vec();
        if self.endian == Endian::Big {
            bytes.reverse();
        }
        number(&bytes, 0, len)
    }
}

#[cfg(test)]
mod tests;
