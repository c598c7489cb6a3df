//! `ElfFacts`: what packaging and `check` need to know about an ELF file.

use std::{fmt, ops::Range};

use goblin::elf::{
    dynamic::{
        DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB,
        DT_VERNEED,
    },
    header::ET_DYN,
    program_header::PT_INTERP,
};

use crate::{
    ElfError, Rpath,
    source::{ReadAt, read_string_at},
    tables::{DynamicEntry, ElfTables, count_used, last_value},
};
use rocwheel_base::error::{Context as _, Result, anyhow};

const KPACK_REF: &[u8] = b".rocm_kpack_ref";
/// Limit for one string. Only run paths are nearly as long.
const MAX_TEXT: u64 = 1 << 16;
/// Limit for all strings that are read of a file. In a damaged file, thousands of entries may refer
/// to the same long string, and each would become a copy of it.
const MAX_STRINGS: usize = 1 << 20;

/// What is read of an ELF file. For a file that is not linked, such as a relocatable object, only
/// the machine is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// What the file is: a program, a library, or neither.
    pub kind: ElfKind,
    /// The machine that the code is for.
    pub machine: Machine,
    /// `DT_SONAME`: the name by which other files need the library.
    pub soname: Option<String>,
    /// `DT_NEEDED`: the libraries that the loader must find, in the order in which it loads them.
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
    /// A library, which may also be a module or a plugin.
    SharedObject,
    /// For example a relocatable object or a core dump.
    #[default]
    Other,
}

/// The machine that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit and little-endian, as every host of ROCm is.
    X86_64,
    /// Device code for AMD GPUs (`EM_AMDGPU`). It has the form of a shared object, but no host loads
    /// it.
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

    /// Whether `path` is the only run path of the file. The empty path stands for no run path.
    pub fn has_rpath(&self, path: &Rpath) -> bool {
        self.runpath.is_none() && self.rpath.as_deref().unwrap_or_default() == path.to_string()
    }

    /// Whether the dynamic loader of the host reads the run path of this file.
    pub fn uses_run_path(&self) -> bool {
        self.machine == Machine::X86_64
            && self.kind != ElfKind::Other
            && (!self.needed.is_empty() || self.run_path().is_some())
    }
}

/// The GNU symbol versions that a file needs of a library, such as `GLIBC_2.28` of `libc.so.6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededVersions {
    /// The SONAME of the library.
    pub library: String,
    /// The names of its versions that the file needs, in the order of the table.
    pub versions: Vec<String>,
}

/// Reads the facts of a file; `None` if it is not an ELF file.
pub fn read(source: &dyn ReadAt) -> Result<Option<ElfFacts>, ElfError> {
    let Some(tables) = ElfTables::read(source)? else {
        return Ok(None);
    };
    let mut facts = ElfFacts { machine: tables.machine(), ..ElfFacts::default() };
    if !tables.is_linked() {
        return Ok(Some(facts));
    }
    // The headers of a file with only debug information point to bytes that are not in the file.
    let mut dynamic = Vec::new();
    if !tables.is_debug_only() {
        dynamic = tables.slots()?;
        dynamic.truncate(count_used(&dynamic));
    }
    let mut strings = DynamicStrings::find(&tables, &dynamic);
    for entry in &dynamic {
        let mut read_value = || strings.read(entry.value).map(Some);
        match entry.tag {
            DT_SONAME => facts.soname = read_value()?,
            DT_NEEDED => facts.needed.extend(read_value()?),
            DT_RPATH => facts.rpath = read_value()?,
            DT_RUNPATH => facts.runpath = read_value()?,
            _ => {}
        }
    }
    for record in tables.version_records(&dynamic, DT_VERNEED)? {
        let mut names = record.names.into_iter().map(|offset| strings.read(offset));
        facts.versions.push(NeededVersions {
            library: names.next().transpose()?.unwrap_or_default(),
            versions: names.collect::<Result<_>>()?,
        });
    }
    // Files with only debug information have `PT_INTERP` without its bytes.
    if let Some(segment) = tables.first(PT_INTERP).filter(|segment| segment.file_size > 0) {
        let file = segment.file();
        facts.interpreter = Some(read_text(&tables, "interpreter", file.start, file.end)?);
    }
    let flags = last_value(&dynamic, DT_FLAGS_1).unwrap_or(0);
    facts.kind = match tables.head.e_type {
        ET_DYN if flags & DF_1_PIE == 0 => ElfKind::SharedObject,
        _ => ElfKind::Executable,
    };
    facts.kpack_ref = has_kpack_ref(&tables)?;
    Ok(Some(facts))
}

/// Whether a section is called `.rocm_kpack_ref`. The section headers are enough to know it: every
/// file that the kpack split writes has them.
fn has_kpack_ref(tables: &ElfTables<'_>) -> Result<bool> {
    let name_table =
        tables.sections.get(tables.name_section_index()).filter(|section| section.size > 0);
    let Some(name_table) = name_table else {
        return Ok(false);
    };
    let names = tables.bytes("section name table", name_table.offset, name_table.size)?;
    Ok(tables.sections.iter().any(|section| {
        let start = usize::try_from(section.name_at).unwrap_or(usize::MAX);
        let name = names.get(start..).unwrap_or_default();
        name.strip_prefix(KPACK_REF).is_some_and(|rest| rest.first() == Some(&0))
    }))
}

/// The strings of the dynamic string table (`DT_STRTAB`).
struct DynamicStrings<'a> {
    tables: &'a ElfTables<'a>,
    /// The range of the table in the file; `None` if no segment loads it. That is an error only for a
    /// file that refers to a string.
    range: Option<Range<u64>>,
    /// How many more bytes may be read.
    left: usize,
}

impl<'a> DynamicStrings<'a> {
    fn find(tables: &'a ElfTables<'a>, dynamic: &[DynamicEntry]) -> Self {
        let range = last_value(dynamic, DT_STRTAB).and_then(|address| {
            let load =
                tables.loads().find(|load| (load.address..load.file_end()).contains(&address))?;
            let start = load.offset.checked_add(address - load.address)?;
            // Damaged files may have no size, or a size that is too large: then the table ends with its
            // segment.
            let size = last_value(dynamic, DT_STRSZ).unwrap_or(u64::MAX);
            Some(start..start.saturating_add(size).min(load.file().end))
        });
        Self { tables, range, left: MAX_STRINGS }
    }

    fn read(&mut self, offset: u64) -> Result<String> {
        let range = self.range.as_ref().context("the dynamic string table is in no segment")?;
        let start = range.start.saturating_add(offset);
        let string = read_text(self.tables, "dynamic string", start, range.end)?;
        self.left = self
            .left
            .checked_sub(string.len())
            .with_context(|| format!("dynamic strings of more than {MAX_STRINGS} bytes"))?;
        Ok(string)
    }
}

/// Reads the text at an offset, without its NUL, which must come before `end`.
fn read_text(tables: &ElfTables<'_>, what: &str, start: u64, end: u64) -> Result<String> {
    let limit = end.min(start.saturating_add(MAX_TEXT)).min(tables.file_len());
    let bytes = read_string_at(tables.source, start, limit)?
        .with_context(|| format!("the {what} has no end"))?;
    String::from_utf8(bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(error.as_bytes());
        anyhow!("a string that is not UTF-8: {shown:?}")
    })
}

#[cfg(test)]
mod tests;
