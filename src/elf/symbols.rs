//! The symbols that a file defines for others, with their versions, as `nm -D` shows them.
//!
//! They are read from `.dynsym` and the sections of GNU [Symbol Versioning]. A file without section
//! headers has none that are known.
//!
//! [Symbol Versioning]:
//! https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html

use std::collections::{BTreeMap, BTreeSet};

use goblin::elf::{
    section_header::{SHN_ABS, SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERSYM},
    sym::{STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK, STV_HIDDEN, STV_INTERNAL, st_bind, st_visibility},
};

use crate::{
    elf::{
        facts::{ElfImage, Machine},
        source::ReadAt,
        tables::{Section, half, word},
    },
    error::{Result, ensure},
};

/// The longest table that is read. The largest libraries of ROCm have a tenth of it.
const LONGEST: u64 = 128 << 20;
/// The size of a symbol in a 64-bit file.
const SYMBOL: usize = 24;
/// The bit of a version index that says: found only by those who ask for this version.
const NOT_DEFAULT: u16 = 0x8000;
/// `VER_FLG_BASE`: the record names the file itself.
const BASE: u16 = 1;

/// What a library defines for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedSymbols {
    /// `name`, or with its version `name@@V`; `name@V` for one that is not the default.
    pub symbols: BTreeSet<String>,
    pub versions: BTreeSet<String>,
}

/// Reads the symbols that a host library or program defines. `None` for other files.
pub fn exported(source: &dyn ReadAt) -> Result<Option<ExportedSymbols>> {
    let Some(image) = ElfImage::read(source)? else {
        return Ok(None);
    };
    let is_host = image.machine() == Machine::X86_64 && image.is_linked() && !image.is_debug_only();
    let of_kind = |kind| image.sections.iter().find(move |it| it.kind == kind);
    let Some(table) = of_kind(SHT_DYNSYM).filter(|_| is_host) else {
        return Ok(None);
    };
    let bytes = |section: Option<&Section>| match section {
        Some(section) => {
            let size = section.size;
            ensure!(size <= LONGEST, "a table of {size} bytes");
            image.bytes("dynamic symbols", section.offset, size)
        }
        None => Ok(Vec::new()),
    };
    let strings = |section: &Section| bytes(image.sections.get(index(section.link)));
    let definitions = of_kind(SHT_GNU_VERDEF);
    let names = definitions.map(strings).transpose()?.unwrap_or_default();
    let versions = versions(&bytes(definitions)?, &names);
    let (symbols, strings) = (bytes(Some(table))?, strings(table)?);
    let chosen = bytes(of_kind(SHT_GNU_VERSYM))?;
    let symbols = symbols.chunks_exact(SYMBOL).enumerate();
    let symbols = symbols.filter_map(|(at, symbol)| {
        let (info, other, place) = (*symbol.get(4)?, *symbol.get(5)?, half(symbol, 6));
        let is_global = matches!(st_bind(info), STB_GLOBAL | STB_WEAK | STB_GNU_UNIQUE);
        let is_hidden = matches!(st_visibility(other), STV_HIDDEN | STV_INTERNAL);
        let name = text(&strings, word(symbol, 0))?;
        // Linkers define a symbol for each version.
        let is_version = u32::from(place) == SHN_ABS && versions.values().any(|it| *it == name);
        if place == 0 || !is_global || is_hidden || is_version {
            return None;
        }
        let version = half(&chosen, at * 2);
        Some(match versions.get(&(version & !NOT_DEFAULT)) {
            Some(of) if version & NOT_DEFAULT == 0 => format!("{name}@@{of}"),
            Some(of) => format!("{name}@{of}"),
            None => name,
        })
    });
    Ok(Some(ExportedSymbols {
        symbols: symbols.collect(),
        versions: versions.into_values().collect(),
    }))
}

/// The defined versions by their index, without the one that names the file.
fn versions(records: &[u8], names: &[u8]) -> BTreeMap<u16, String> {
    let (mut found, mut at) = (BTreeMap::new(), 0_usize);
    // Each record leads to the next one. A damaged one could lead to itself, so there is a limit:
    // an index has 15 bits.
    for _ in 0..NOT_DEFAULT {
        let Some(record) = records.get(at..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        let inner = record.get(index(word(record, 12))..).unwrap_or_default();
        let name = text(names, word(inner, 0)).filter(|_| half(record, 2) & BASE == 0);
        found.extend(name.map(|name| (half(record, 4), name)));
        match word(record, 16) {
            0 => break,
            step => at = at.saturating_add(index(step)),
        }
    }
    found
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The string at an offset, without its NUL.
fn text(strings: &[u8], at: u32) -> Option<String> {
    let rest = strings.get(index(at)..)?;
    let text = rest.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}
