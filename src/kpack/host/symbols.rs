//! Moves the symbols of the code section, such as `__hip_fatbin`, into what is left of it.
//!
//! No code reads device code through them any more. But each symbol names its section (`st_shndx`)
//! and must lie within it: otherwise linters report it, and tools that move sections compute wrong
//! addresses from it. See
//! [Symbol Table](https://www.sco.com/developers/gabi/latest/ch4.symtab.html) in the gABI.

use std::ops::Range;

use goblin::elf::section_header::{SHT_DYNSYM, SHT_SYMTAB};

use crate::{
    elf::{patch::Replacement, tables::number},
    error::{Result, bail},
    kpack::host::{CODE, image::HostImage},
};

const SYMBOL: u64 = 24;
/// How many bytes of a symbol table are read at once, so that a large `.symtab` is never in memory
/// as a whole.
const AT_ONCE: u64 = SYMBOL << 12;

/// Changes the symbols that would lie outside of what is left of the code section.
pub(super) fn moved(image: &HostImage<'_>, left: &Range<u64>) -> Result<Vec<Replacement>> {
    let outside = outside(image, left)?.into_iter();
    let moved = outside.map(|(place, value, size)| {
        // A symbol keeps the part of its range that is left. If no part is left, it becomes an
        // empty symbol at the nearest end of the section.
        let end = value.saturating_add(size).clamp(left.start, left.end);
        let value = value.clamp(left.start, left.end);
        let size = end.saturating_sub(value);
        Replacement::bytes(place, [value.to_le_bytes(), size.to_le_bytes()].concat())
    });
    Ok(moved.collect())
}

/// An error if a symbol of the code section lies outside of it.
pub(super) fn ensure_inside(image: &HostImage<'_>) -> Result<()> {
    match outside(image, &image.code()?.memory())?.first() {
        Some((_, value, _)) => bail!("a symbol of `{CODE}` lies outside of it: {value:#x}"),
        None => Ok(()),
    }
}

/// The symbols of the code section that do not lie in a range of memory: the offset of the value in
/// the file, the value, and the size. The size follows the value in the file.
fn outside(image: &HostImage<'_>, memory: &Range<u64>) -> Result<Vec<(u64, u64, u64)>> {
    let code = image.sections.iter().position(|it| it.name == CODE);
    let tables = image.sections.iter();
    let tables = tables.filter(|it| matches!(it.kind, SHT_SYMTAB | SHT_DYNSYM));
    let mut found = Vec::new();
    for section in tables {
        let Range { start, end } = section.file();
        let mut at = start;
        while at < end {
            let step = end.saturating_sub(at).min(AT_ONCE);
            let bytes = image.file.bytes("symbol table", at, step)?;
            for (index, symbol) in bytes.chunks_exact(24).enumerate() {
                let (value, size) = (number(symbol, 8, 8), number(symbol, 16, 8));
                let is_inside = memory.start <= value && value.saturating_add(size) <= memory.end;
                if code.is_some_and(|code| number(symbol, 6, 2) == code as u64) && !is_inside {
                    let place = at.saturating_add(index as u64 * SYMBOL).saturating_add(8);
                    found.push((place, value, size));
                }
            }
            at = at.saturating_add(step);
        }
    }
    Ok(found)
}
