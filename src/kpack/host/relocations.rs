//! Lists the pointers that the dynamic loader writes, with their targets.
//!
//! Linkers store the address of a bundle in a wrapper in four ways, and all four occur:
//!
//! 1. as the addend of an `R_X86_64_RELATIVE` relocation; the word in the file may be 0 (lld);
//! 2. as the symbol of a relocation (`R_X86_64_64`), with `-fgpu-rdc`;
//! 3. as the word in the file, to which the loader adds its load address, if `DT_RELR` lists the
//!    word (`-z pack-relative-relocs`);
//! 4. as the word in the file alone, without a relocation, in a program at a fixed address.
//!
//! See the [x86-64 psABI](https://gitlab.com/x86-psABIs/x86-64-ABI), and the
//! [gABI](https://gabi.xinuos.com/) for `DT_RELR`.

use goblin::elf::dynamic::{DT_JMPREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELASZ, DT_SYMTAB};

use crate::{
    elf::tables::{last_value, number},
    error::{Context as _, Result, ensure},
    kpack::host::image::HostImage,
};

/// The types of relocations: `R_X86_64_RELATIVE` and `R_X86_64_IRELATIVE`, then those with the
/// address of a symbol. Only `R_X86_64_64` adds an addend to it.
const RELATIVE: u64 = 8;
const IRELATIVE: u64 = 37;
const SYMBOL_AND_ADDEND: u64 = 1;
const GLOB_DAT: u64 = 6;
const JUMP_SLOT: u64 = 7;

const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;

/// A word in memory to which the loader writes an address.
pub(super) struct Pointer {
    pub(super) address: u64,
    /// The offset in the file of its relocation (`Elf64_Rela`); `None` with `DT_RELR`.
    pub(super) relocation: Option<u64>,
    /// The address that the loader writes, before it adds the load address; `None` if another file
    /// defines the symbol.
    pub(super) target: Option<u64>,
}

/// Calls `each` for every pointer that the loader writes.
pub(super) fn each(
    image: &HostImage<'_>,
    mut each: impl FnMut(&Pointer) -> Result<()>,
) -> Result<()> {
    let dynamic = image.dynamic()?.unwrap_or_default();
    let value = |tag| last_value(&dynamic, tag);
    let symbols = value(DT_SYMTAB);
    for (place, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
        if let (Some(address), Some(size)) = (value(place), value(size)) {
            entries(image, symbols, (address, size), &mut each)?;
        }
    }
    ensure!(value(DT_REL).is_none(), "relocations without addends");
    if let (Some(address), Some(size)) = (value(DT_RELR), value(DT_RELRSZ)) {
        packed(image, address, size, &mut each)?;
    }
    Ok(())
}

/// The pointers of a table of `Elf64_Rela` entries.
fn entries(
    image: &HostImage<'_>,
    symbols: Option<u64>,
    (address, size): (u64, u64),
    each: &mut impl FnMut(&Pointer) -> Result<()>,
) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let start = image.place(address, size);
    let start = start.context("relocations outside of the file")?;
    for entry in image.file.part("relocations", start, size)?.entries() {
        let (at, entry) = entry?;
        let (kind, symbol) = (number(&entry, 8, 4), number(&entry, 12, 4));
        let addend = number(&entry, 16, 8);
        let target = match (kind, symbols) {
            (RELATIVE | IRELATIVE, _) => Some(addend),
            (SYMBOL_AND_ADDEND, Some(symbols)) => {
                defined(image, symbols, symbol)?.map(|value| value.wrapping_add(addend))
            }
            (GLOB_DAT | JUMP_SLOT, Some(symbols)) => defined(image, symbols, symbol)?,
            _ => None,
        };
        each(&Pointer {
            address: number(&entry, 0, 8),
            relocation: Some(start.saturating_add(at)),
            target,
        })?;
    }
    Ok(())
}

/// The pointers of a `DT_RELR` table.
///
/// An even entry is the address of a word to relocate. An odd entry is a bitmap: bit `n` stands for
/// the word `n - 1` of the 63 words that follow the previous entry's words.
fn packed(
    image: &HostImage<'_>,
    address: u64,
    size: u64,
    each: &mut impl FnMut(&Pointer) -> Result<()>,
) -> Result<()> {
    ensure!(size <= 1 << 28, "packed relocations of {size} bytes");
    let table = image.at("packed relocations", address, size)?;
    let mut next = 0_u64;
    let mut place = |address: u64| {
        // The file has no bytes for some words, as in `.bss`.
        let at = image.place(address, 8);
        let word = at.map(|at| image.file.number("relocated word", at, 8));
        each(&Pointer {
            address,
            relocation: None,
            target: word.transpose()?,
        })
    };
    for word in table.chunks_exact(8) {
        let word = number(word, 0, 8);
        if word & 1 == 0 {
            place(word)?;
            next = word.wrapping_add(8);
            continue;
        }
        for bit in (1..64).filter(|bit| word >> bit & 1 == 1) {
            place(next.wrapping_add((bit - 1) * 8))?;
        }
        next = next.wrapping_add(63 * 8);
    }
    Ok(())
}

/// The value of a symbol; `None` if another file defines it. Symbol 0 stands for no symbol, and has
/// the value 0.
fn defined(image: &HostImage<'_>, table: u64, index: u64) -> Result<Option<u64>> {
    if index == 0 {
        return Ok(Some(0));
    }
    let entry = table.wrapping_add(index.wrapping_mul(24));
    let at = image.place(entry, 24);
    let at = at.with_context(|| format!("symbol {index} is not in the file"))?;
    let entry = image.file.bytes("symbol", at, 24)?;
    let (section, value) = (number(&entry, 6, 2), number(&entry, 8, 8));
    Ok((section != 0).then_some(value))
}
