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

use crate::{
    elf::{ReadAt, tables::number},
    error::{Context as _, Result, bail, ensure},
    kpack::host::image::HostImage,
};

const RELATIVE: u64 = 8;
const IRELATIVE: u64 = 37;
/// `R_X86_64_64`, `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`: the address of a symbol. Only the
/// first one adds an addend.
const SYMBOLIC: [u64; 3] = [1, 6, 7];

const PLTRELSZ: u64 = 2;
const SYMTAB: u64 = 6;
const RELA: u64 = 7;
const RELASZ: u64 = 8;
const REL: u64 = 17;
const JMPREL: u64 = 23;
const RELRSZ: u64 = 35;
const RELR: u64 = 36;

/// A word in memory to which the loader writes an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) address: u64,
    pub(super) how: How,
    /// The address that the loader writes, before it adds the load address; `None` if another file
    /// defines the symbol.
    pub(super) target: Option<u64>,
}

/// How a pointer gets its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The file contains the final address, and the loader writes nothing.
    Fixed,
    /// From the relocation (`Elf64_Rela`) at this offset in the file.
    Entry { at: u64 },
    /// The loader adds the load address to the word in the file (`DT_RELR`).
    InPlace,
}

/// Calls `each` for every pointer that the loader writes.
pub(super) fn each<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    mut each: impl FnMut(Pointer) -> Result<()>,
) -> Result<()> {
    let dynamic = image.dynamic()?;
    let value = |tag: u64| {
        let mut found = dynamic.iter().rev();
        found
            .find(|(known, _)| *known == tag)
            .map(|(_, value)| *value)
    };
    let symbols = value(SYMTAB);
    for (place, size) in [(RELA, RELASZ), (JMPREL, PLTRELSZ)] {
        if let (Some(address), Some(size)) = (value(place), value(size)) {
            entries(image, symbols, address, size, &mut each)?;
        }
    }
    if value(REL).is_some() {
        bail!("relocations without addends");
    }
    if let (Some(address), Some(size)) = (value(RELR), value(RELRSZ)) {
        packed(image, address, size, &mut each)?;
    }
    Ok(())
}

/// The pointers of a table of `Elf64_Rela` entries.
///
/// Reads the table in pieces of 24 KiB, which is a multiple of the entry size: a large library has
/// hundreds of thousands of entries.
fn entries<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    symbols: Option<u64>,
    address: u64,
    size: u64,
    each: &mut impl FnMut(Pointer) -> Result<()>,
) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    let start = image
        .place(address, size)
        .context("relocations outside of the file")?;
    let table = image.file.part("relocations", start, size)?;
    let mut window = Window::new(image);
    let mut done = 0_u64;
    while done < size {
        let step = (size.saturating_sub(done)).min(24 << 10);
        let bytes = table.bytes("relocations", done, step)?;
        for (index, entry) in bytes.chunks_exact(24).enumerate() {
            let (kind, symbol) = (number(entry, 8, 4), number(entry, 12, 4));
            let addend = number(entry, 16, 8);
            let target = if matches!(kind, RELATIVE | IRELATIVE) {
                Some(addend)
            } else if let (true, Some(symbols)) = (SYMBOLIC.contains(&kind), symbols) {
                let value = window.symbol(symbols, symbol)?;
                // Only the first kind adds anything.
                value.map(|value| {
                    if kind == 1 {
                        value.wrapping_add(addend)
                    } else {
                        value
                    }
                })
            } else {
                None
            };
            let inside = done.saturating_add((index as u64).saturating_mul(24));
            each(Pointer {
                address: number(entry, 0, 8),
                how: How::Entry {
                    at: start.saturating_add(inside),
                },
                target,
            })?;
        }
        done = done.saturating_add(step);
    }
    Ok(())
}

/// The pointers of a `DT_RELR` table.
///
/// An even entry is the address of a word to relocate. An odd entry is a bitmap: bit `n` stands for
/// the word `n - 1` of the 63 words that follow the previous entry's words.
fn packed<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    address: u64,
    size: u64,
    each: &mut impl FnMut(Pointer) -> Result<()>,
) -> Result<()> {
    ensure!(size <= 1 << 28, "packed relocations of {size} bytes");
    let table = image.at("packed relocations", address, size)?;
    let mut window = Window::new(image);
    let mut next = 0_u64;
    let mut place = |address: u64| {
        each(Pointer {
            address,
            how: How::InPlace,
            target: window.word(address)?,
        })
    };
    for word in table.chunks_exact(8) {
        let word = number(word, 0, 8);
        if word & 1 == 0 {
            place(word)?;
            next = word.wrapping_add(8);
            continue;
        }
        for bit in 1..64_u64 {
            if word >> bit & 1 == 1 {
                place(next.wrapping_add((bit - 1) * 8))?;
            }
        }
        next = next.wrapping_add(63 * 8);
    }
    Ok(())
}

/// A buffer of 4 KiB for reads of a few bytes. Symbols and relocated words are mostly close
/// together.
struct Window<'a, 'f, R: ?Sized> {
    image: &'a HostImage<'f, R>,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, 'f, R: ReadAt + ?Sized> Window<'a, 'f, R> {
    const SIZE: u64 = 1 << 12;

    fn new(image: &'a HostImage<'f, R>) -> Self {
        Self {
            image,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// The value of a symbol; `None` if another file defines it. Symbol 0 stands for no symbol, and
    /// has the value 0.
    fn symbol(&mut self, table: u64, index: u64) -> Result<Option<u64>> {
        if index == 0 {
            return Ok(Some(0));
        }
        let entry = table.wrapping_add(index.wrapping_mul(24));
        let Some(at) = self.image.place(entry, 24) else {
            bail!("symbol {index} is not in the file");
        };
        let section = self.read(at.saturating_add(6), 2)?;
        let value = self.read(at.saturating_add(8), 8)?;
        Ok((section != 0).then_some(value))
    }

    /// The word at an address; `None` if the file has no bytes for it, as in `.bss`.
    fn word(&mut self, address: u64) -> Result<Option<u64>> {
        let at = self.image.place(address, 8);
        at.map(|at| self.read(at, 8)).transpose()
    }

    fn read(&mut self, at: u64, size: u64) -> Result<u64> {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        if at < self.start || at.saturating_add(size) > end {
            let rest = self.image.file.len().saturating_sub(at);
            self.bytes =
                self.image
                    .file
                    .bytes("relocated word", at, rest.min(Self::SIZE).max(size))?;
            self.start = at;
        }
        let inside = usize::try_from(at.saturating_sub(self.start)).unwrap_or(usize::MAX);
        Ok(number(
            &self.bytes,
            inside,
            usize::try_from(size).unwrap_or(8),
        ))
    }
}
