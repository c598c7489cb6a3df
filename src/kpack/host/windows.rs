//! Windows binaries: finds their bundles and wrappers, reads the markers of split ones, and the
//! names of the libraries that they import. The split itself does not change Windows binaries. See
//! the [PE format](https://learn.microsoft.com/en-us/windows/win32/debug/pe-format).

use std::{collections::BTreeSet, ffi::CStr, ops::Range};

use itertools::Itertools as _;

use crate::{
    elf::{ReadAt, tables::number},
    error::{Context as _, Result, bail, ensure},
    kpack::{
        ByteRegion,
        host::wrapper::{self, FAT, SPLIT, Wrapper, WrapperReference},
    },
};

/// The names of sections in a PE image have at most eight bytes, so the linker cuts `.hip_fatbin`.
const CODE: [u8; 8] = *b".hip_fat";
const WRAPPERS: [u8; 8] = *b".hipFatB";
const MARKERS: [u8; 8] = *b".kpackrf";

/// Size of a section header.
const SECTION: u64 = 40;
const MOST_SECTIONS: u64 = 96;
/// The magic number of the optional header of 64-bit images (PE32+).
const OPTIONAL_MAGIC: u64 = 0x20b;
/// The offset in the optional header of the number of data directories. Behind it are their
/// addresses and sizes.
const TABLES: u64 = 108;

/// The index of the base relocations in the data directories.
const RELOCATIONS: u64 = 5;
/// Limit in bytes for damaged files: no binary has as many relocations.
const MOST_RELOCATIONS: u64 = 64 << 20;

/// A table of libraries: the index of its data directory, the size of an entry, and the offset in
/// the entry of the address of the name. See *The .idata Section* and *Delay-Load Import Tables*.
type ImportTable = (u64, u64, usize);
const AT_START: ImportTable = (1, 20, 12);
/// Delay-loaded libraries: Windows loads them when one of their functions is first called.
const AT_FIRST_USE: ImportTable = (13, 32, 4);
/// Limit for damaged files: no binary imports as many libraries.
const MOST_LIBRARIES: u64 = 4096;
/// Limit for a name in bytes: `MAX_PATH` of Windows.
const LONGEST_NAME: u64 = 260;

/// The device code of a Windows binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Not a Windows binary, or one without device code.
    Plain,
    /// The range of the bundles in the file, and for each wrapper the offset in that range to which
    /// it leads.
    Fat { code: Range<u64>, wrapped: Vec<u64> },
    /// The code was removed; the marker and bundle number of each wrapper.
    Split(Vec<WrapperReference>),
}

struct Pe<'a> {
    file: ByteRegion<'a>,
    sections: Vec<PeSection>,
    /// The offset of the optional header.
    optional: u64,
}

struct PeSection {
    /// Padded with NUL.
    name: [u8; 8],
    /// Relative to the start of the image (RVA).
    address: u64,
    file: Range<u64>,
}

/// The range of the bundles of a Windows binary; `None` for any other file. Reads only the headers,
/// so the start of a file is enough.
pub(super) fn code(file: ByteRegion<'_>) -> Result<Option<Range<u64>>> {
    let pe = Pe::read(file)?;
    Ok(pe.and_then(|pe| Some(pe.section(CODE)?.file.clone())))
}

/// Finds the device code of any file.
pub fn windows(source: &dyn ReadAt) -> Result<Windows> {
    // A file whose section table cannot be read is not loaded by Windows either.
    let Ok(Some(pe)) = Pe::read(ByteRegion::whole(source)) else {
        return Ok(Windows::Plain);
    };
    let code = pe.section(CODE).map_or(0..0, |it| it.file.clone());
    let section = pe.section(WRAPPERS);
    ensure!(
        section.is_some() || pe.section(MARKERS).is_none(),
        "a marker that no wrapper leads to"
    );
    let wrappers = section.map(|it| pe.wrappers(it)).transpose()?;
    let wrappers = wrappers.unwrap_or_default();
    match wrappers.iter().map(|it| it.magic).all_equal_value() {
        Err(None) if code.is_empty() => Ok(Windows::Plain),
        Err(None) | Ok(FAT) => Ok(Windows::Fat { wrapped: pe.wrapped(&wrappers, &code)?, code }),
        Ok(SPLIT) => {
            wrapper::references(&pe.file, &wrappers, |it| pe.locate(it)).map(Windows::Split)
        }
        _ => bail!("wrappers of different or unknown kinds"),
    }
}

/// The names of the libraries that a Windows binary imports, in the case in which it has them.
/// Empty for any other file.
pub fn imports(source: &dyn ReadAt) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    if let Some(pe) = Pe::read(ByteRegion::whole(source))? {
        pe.ensure_64_bits()?;
        for table in [AT_START, AT_FIRST_USE] {
            pe.libraries(table, &mut names)?;
        }
    }
    Ok(names)
}

impl<'a> Pe<'a> {
    /// Reads the section table; `None` if the file is not a Windows binary. The contents of a
    /// section in the file are padded to the file alignment, so its range ends at its size in memory
    /// if that is smaller.
    fn read(file: ByteRegion<'a>) -> Result<Option<Self>> {
        if !file.has(0, b"MZ")? || file.len() < 64 {
            return Ok(None);
        }
        let header = file.number("header", 0x3c, 4)?;
        if !file.has(header, b"PE\0\0")? {
            return Ok(None);
        }
        let count = file.number("number of sections", header.saturating_add(6), 2)?;
        ensure!(count <= MOST_SECTIONS, "{count} sections");
        let len = file.number("length of a header", header.saturating_add(20), 2)?;
        let optional = header.saturating_add(24);
        let table = optional.saturating_add(len);
        let bytes = file.bytes("section table", table, count.saturating_mul(SECTION))?;
        let sections = bytes.chunks_exact(40).map(|entry| {
            let (used, size) = (number(entry, 8, 4), number(entry, 16, 4));
            let start = number(entry, 20, 4);
            PeSection {
                name: entry.first_chunk().copied().unwrap_or_default(),
                address: number(entry, 12, 4),
                file: start..start.saturating_add(size.min(used)),
            }
        });
        Ok(Some(Self { file, sections: sections.collect(), optional }))
    }

    fn section(&self, name: [u8; 8]) -> Option<&PeSection> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// A field of the optional header.
    fn field(&self, at: u64, size: u64) -> Result<u64> {
        let place = self.optional.saturating_add(at);
        self.file.number("header", place, size)
    }

    fn ensure_64_bits(&self) -> Result<()> {
        let magic = self.field(0, 2)?;
        ensure!(magic == OPTIONAL_MAGIC, "not a Windows binary of 64 bits");
        Ok(())
    }

    /// The RVA and the size of a data directory, if the image has it.
    fn table(&self, number: u64) -> Result<Option<(u64, u64)>> {
        if self.field(TABLES, 4)? <= number {
            return Ok(None);
        }
        let entry = TABLES + 4 + number * 8;
        let (address, size) = (self.field(entry, 4)?, self.field(entry + 4, 4)?);
        Ok((address > 0 && size > 0).then_some((address, size)))
    }

    /// The range in the file from the target of a pointer to the end of its section. Pointers in the
    /// file are absolute: they contain the preferred load address.
    fn locate(&self, pointer: u64) -> Option<Range<u64>> {
        let base = self.field(24, 8).ok()?;
        self.place(pointer.checked_sub(base)?)
    }

    /// The range in the file from an RVA to the end of its section.
    fn place(&self, address: u64) -> Option<Range<u64>> {
        self.sections.iter().find_map(|section| {
            let inside = address.checked_sub(section.address)?;
            let place = section.file.start.saturating_add(inside);
            (place < section.file.end).then_some(place..section.file.end)
        })
    }

    /// The wrappers. In an image that can be moved, each pointer needs a base relocation; otherwise
    /// the loader would leave it wrong.
    fn wrappers(&self, section: &PeSection) -> Result<Vec<Wrapper>> {
        self.ensure_64_bits()?;
        let wrappers = wrapper::parse(".hipFatB", &self.file, &section.file, section.address)?;
        if let Some(relocated) = self.relocated()? {
            for Wrapper { address, .. } in &wrappers {
                ensure!(
                    relocated.contains(&address.saturating_add(8)),
                    "a wrapper that is not relocated: at {address:#x}"
                );
            }
        }
        Ok(wrappers)
    }

    /// For each wrapper, the offset in the section of the bundles to which it leads.
    fn wrapped(&self, wrappers: &[Wrapper], code: &Range<u64>) -> Result<Vec<u64>> {
        let targets = wrappers.iter().map(|Wrapper { target, address, .. }| {
            let place = target.and_then(|target| self.locate(target));
            let place = place.filter(|it| code.contains(&it.start));
            let start = place.map(|it| it.start.saturating_sub(code.start));
            start.with_context(|| format!("a wrapper that leads to no bundle: at {address:#x}"))
        });
        targets.collect()
    }

    /// The addresses of the 64-bit words that the loader relocates; `None` for an image without
    /// base relocations, which is only loaded at its preferred address.
    fn relocated(&self) -> Result<Option<BTreeSet<u64>>> {
        /// `IMAGE_REL_BASED_DIR64`
        const WHOLE: u64 = 10;
        let Some((address, size)) = self.table(RELOCATIONS)? else {
            return Ok(None);
        };
        ensure!(size <= MOST_RELOCATIONS, "relocations of {size} bytes");
        let place = self.place(address);
        let place = place.context("relocations outside of the file")?;
        let bytes = self.file.bytes("relocations", place.start, size)?;
        let mut rest = bytes.as_slice();
        let mut places = BTreeSet::new();
        while rest.len() >= 8 {
            let (page, len) = (number(rest, 0, 4), number(rest, 4, 4));
            let len = usize::try_from(len).unwrap_or(usize::MAX).max(8);
            let block = rest.get(8..len).context("relocations that run over")?;
            let entries = block.chunks_exact(2).map(|it| number(it, 0, 2));
            let whole = entries.filter(|entry| entry >> 12 == WHOLE);
            places.extend(whole.map(|entry| page.saturating_add(entry & 0xfff)));
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(Some(places))
    }

    /// Adds the names of one table of libraries. Like the loader, it ignores the size of the table,
    /// and reads up to the entry without a name.
    fn libraries(
        &self,
        (table, len, name): ImportTable,
        names: &mut BTreeSet<String>,
    ) -> Result<()> {
        let Some((address, _)) = self.table(table)? else {
            return Ok(());
        };
        for index in 0..=MOST_LIBRARIES {
            let place = self.place(address.saturating_add(index.saturating_mul(len)));
            let place = place.context("a table of libraries that runs out of its section")?;
            let entry = self.file.bytes("table of libraries", place.start, len)?;
            match number(&entry, name, 4) {
                0 => return Ok(()),
                name => names.insert(self.library(name)?),
            };
        }
        bail!("more than {MOST_LIBRARIES} libraries")
    }

    fn library(&self, address: u64) -> Result<String> {
        let place = self.place(address);
        let place =
            place.with_context(|| format!("a library whose name is nowhere: at {address:#x}"))?;
        let len = place.end.saturating_sub(place.start).min(LONGEST_NAME);
        let bytes = self.file.bytes("name of a library", place.start, len)?;
        let name = CStr::from_bytes_until_nul(&bytes).ok();
        let name =
            name.with_context(|| format!("a library whose name has no end: at {address:#x}"))?;
        Ok(name.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests;
