//! Moves the symbols of the code section, such as `__hip_fatbin`, into what is left of it.
//!
//! No code reads device code through them any more. But each symbol names its section (`st_shndx`)
//! and must lie within it: otherwise linters report it, and tools that move sections compute wrong
//! addresses from it. See
//! [Symbol Table](https://www.sco.com/developers/gabi/latest/ch4.symtab.html) in the gABI.

use crate::{
    elf::{ReadAt, patch::Replacement, tables::number},
    error::{Result, bail},
    kpack::host::{CODE, image::HostImage, layout::HostLayout},
};

/// `SHT_SYMTAB` and `SHT_DYNSYM`.
const TABLES: [u32; 2] = [2, 11];
const SYMBOL: u64 = 24;
/// How many bytes of a symbol table are read at once, so that a large `.symtab` is never in memory
/// as a whole.
const AT_ONCE: u64 = SYMBOL << 12;

/// Changes the symbols that would lie outside of what is left of the code section.
pub(super) fn moved<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    layout: &HostLayout,
) -> Result<Vec<Replacement>> {
    let left = layout.code_left();
    let mut replacements = Vec::new();
    each(image, |place, value, size| {
        if !is_outside((left.start, left.end), value, size) {
            return;
        }
        // A symbol keeps the part of its range that is left. If no part is left, it becomes an
        // empty symbol at the nearest end of the section.
        let end = value.saturating_add(size).clamp(left.start, left.end);
        let value = value.clamp(left.start, left.end);
        let size = end.saturating_sub(value);
        let bytes = [value.to_le_bytes(), size.to_le_bytes()].concat();
        replacements.push(Replacement::bytes(place, bytes));
    })?;
    Ok(replacements)
}

/// An error if a symbol of the code section lies outside of it.
pub(super) fn ensure_inside<R: ReadAt + ?Sized>(image: &HostImage<'_, R>) -> Result<()> {
    let Some(code) = image.section(CODE) else {
        bail!("no `{CODE}`");
    };
    let memory = code.memory();
    let mut outside = None;
    each(image, |_, value, size| {
        if is_outside((memory.start, memory.end), value, size) {
            outside = Some(value);
        }
    })?;
    match outside {
        Some(value) => bail!("a symbol of `{CODE}` lies outside of it: {value:#x}"),
        None => Ok(()),
    }
}

fn is_outside((start, end): (u64, u64), value: u64, size: u64) -> bool {
    value < start || value > end || value.saturating_add(size) > end
}

/// Calls `found` for every symbol of the code section with the offset of its value in the file, its
/// value, and its size. The size follows the value in the file.
fn each<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    mut found: impl FnMut(u64, u64, u64),
) -> Result<()> {
    let Some(code) = image.sections.iter().position(|it| it.name == CODE) else {
        return Ok(());
    };
    for section in image.sections.iter().filter(|it| TABLES.contains(&it.kind)) {
        let mut at = section.offset;
        let end = section.file().end;
        while at < end {
            let step = end.saturating_sub(at).min(AT_ONCE);
            let bytes = image.file.bytes("symbol table", at, step)?;
            for (index, symbol) in bytes.chunks_exact(24).enumerate() {
                if number(symbol, 6, 2) == code as u64 {
                    let place = at.saturating_add(index as u64 * SYMBOL).saturating_add(8);
                    found(place, number(symbol, 8, 8), number(symbol, 16, 8));
                }
            }
            at = at.saturating_add(step);
        }
    }
    Ok(())
}
