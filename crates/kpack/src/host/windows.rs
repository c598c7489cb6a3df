//! Windows binaries: finds their bundles and wrappers, reads the markers of split ones, and the
//! names of the libraries that they import. The split itself does not change Windows binaries. See
//! the [PE format](https://learn.microsoft.com/en-us/windows/win32/debug/pe-format).

use std::{collections::BTreeSet, ffi::CStr, ops::Range};

use itertools::Itertools as _;

use crate::{
    ByteRegion,
    host::wrapper::{self, FAT, SPLIT, Wrapper, WrapperReference},
};
use rocwheel_base::error::{Context as _, Result, bail, ensure};
use rocwheel_elf::{ReadAt, tables::number};

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

/// A table of libraries. See *The .idata Section* and *Delay-Load Import Tables*.
struct ImportTable {
    /// The index of its data directory.
    directory: u64,
    /// The size of an entry.
    entry_len: u64,
    /// The offset in the entry of the address of the name.
    name: usize,
}

/// Libraries that Windows loads with the binary.
const AT_START: ImportTable = ImportTable { directory: 1, entry_len: 20, name: 12 };
/// Delay-loaded libraries: Windows loads them when one of their functions is first called.
const AT_FIRST_USE: ImportTable = ImportTable { directory: 13, entry_len: 32, name: 4 };
/// Limit for damaged files: no binary imports as many libraries.
const MOST_LIBRARIES: u64 = 4096;
/// Limit for a name in bytes: `MAX_PATH` of Windows.
const LONGEST_NAME: u64 = 260;

/// The device code of a Windows binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Not a Windows binary, or a Windows binary without device code.
    Plain,
    /// It has device code.
    Fat {
        /// The range of the bundles in the file.
        code: Range<u64>,
        /// For each wrapper the offset in that range to which it leads.
        wrapped: Vec<u64>,
    },
    /// The code was removed; the marker and bundle number of each wrapper.
    Split(Vec<WrapperReference>),
}

/// A Windows binary (a PE image).
struct Pe<'a> {
    file: ByteRegion<'a>,
    sections: Vec<PeSection>,
    /// The offset of the optional header.
    optional: u64,
}

struct PeSection {
    /// The name, padded with NUL.
    name: [u8; 8],
    /// Relative to the start of the image (RVA).
    address: u64,
    file: Range<u64>,
}

/// A data directory, such as the table of the base relocations.
struct DataDirectory {
    /// Relative to the start of the image (RVA).
    address: u64,
    size: u64,
}

/// The range of the bundles of a Windows binary; `None` for any other file. Reads only the headers,
/// so the start of a file is enough.
pub(super) fn code(file: ByteRegion<'_>) -> Result<Option<Range<u64>>> {
    Ok(Pe::read(file)?.and_then(|pe| Some(pe.section(CODE)?.file.clone())))
}

/// Finds the device code of any file.
pub fn windows(source: &dyn ReadAt) -> Result<Windows> {
    // A file whose section table cannot be read is not loaded by Windows either.
    let Ok(Some(pe)) = Pe::read(ByteRegion::whole(source)) else {
        return Ok(Windows::Plain);
    };
    let code = pe.section(CODE).map_or(0..0, |section| section.file.clone());
    let wrapper_section = pe.section(WRAPPERS);
    ensure!(
        wrapper_section.is_some() || pe.section(MARKERS).is_none(),
        "a marker that no wrapper leads to"
    );
    let wrappers = match wrapper_section {
        Some(section) => pe.wrappers(section)?,
        None => Vec::new(),
    };
    // `Err(None)` means that there is no wrapper.
    match wrappers.iter().map(|wrapper| wrapper.magic).all_equal_value() {
        Err(None) if code.is_empty() => Ok(Windows::Plain),
        Err(None) | Ok(FAT) => {
            Ok(Windows::Fat { wrapped: pe.wrapped_offsets(&wrappers, &code)?, code })
        }
        Ok(SPLIT) => {
            let references =
                wrapper::references(&pe.file, &wrappers, |pointer| pe.locate_pointer(pointer))?;
            Ok(Windows::Split(references))
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
            pe.add_libraries(&table, &mut names)?;
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
            let memory_size = number(entry, 8, 4);
            let file_size = number(entry, 16, 4);
            let start = number(entry, 20, 4);
            PeSection {
                name: entry.first_chunk().copied().unwrap_or_default(),
                address: number(entry, 12, 4),
                file: start..start.saturating_add(file_size.min(memory_size)),
            }
        });
        Ok(Some(Self { file, sections: sections.collect(), optional }))
    }

    fn section(&self, name: [u8; 8]) -> Option<&PeSection> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// A field of the optional header.
    fn field(&self, at: u64, size: u64) -> Result<u64> {
        self.file.number("header", self.optional.saturating_add(at), size)
    }

    fn ensure_64_bits(&self) -> Result<()> {
        let magic = self.field(0, 2)?;
        ensure!(magic == OPTIONAL_MAGIC, "not a Windows binary of 64 bits");
        Ok(())
    }

    /// A data directory, if the image has it.
    fn directory(&self, index: u64) -> Result<Option<DataDirectory>> {
        if self.field(TABLES, 4)? <= index {
            return Ok(None);
        }
        let entry = TABLES + 4 + index * 8;
        let address = self.field(entry, 4)?;
        let size = self.field(entry + 4, 4)?;
        Ok((address > 0 && size > 0).then_some(DataDirectory { address, size }))
    }

    /// The range in the file from the target of a pointer to the end of its section. Pointers in the
    /// file are absolute: they contain the preferred load address.
    fn locate_pointer(&self, pointer: u64) -> Option<Range<u64>> {
        let base = self.field(24, 8).ok()?;
        self.locate(pointer.checked_sub(base)?)
    }

    /// The range in the file from an RVA to the end of its section.
    fn locate(&self, address: u64) -> Option<Range<u64>> {
        self.sections.iter().find_map(|section| {
            let inside = address.checked_sub(section.address)?;
            let start = section.file.start.saturating_add(inside);
            (start < section.file.end).then_some(start..section.file.end)
        })
    }

    /// The wrappers. In an image that can be moved, each pointer needs a base relocation; otherwise
    /// the loader would leave it wrong.
    fn wrappers(&self, section: &PeSection) -> Result<Vec<Wrapper>> {
        self.ensure_64_bits()?;
        let wrappers = wrapper::parse(".hipFatB", &self.file, &section.file, section.address)?;
        if let Some(relocated) = self.relocated_words()? {
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
    fn wrapped_offsets(&self, wrappers: &[Wrapper], code: &Range<u64>) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        for Wrapper { target, address, .. } in wrappers {
            let bundle = target
                .and_then(|target| self.locate_pointer(target))
                .filter(|bundle| code.contains(&bundle.start))
                .with_context(|| format!("a wrapper that leads to no bundle: at {address:#x}"))?;
            offsets.push(bundle.start.saturating_sub(code.start));
        }
        Ok(offsets)
    }

    /// The addresses of the 64-bit words that the loader relocates; `None` for an image without
    /// base relocations, which is only loaded at its preferred address.
    fn relocated_words(&self) -> Result<Option<BTreeSet<u64>>> {
        /// `IMAGE_REL_BASED_DIR64`
        const WORD: u64 = 10;
        let Some(DataDirectory { address, size }) = self.directory(RELOCATIONS)? else {
            return Ok(None);
        };
        ensure!(size <= MOST_RELOCATIONS, "relocations of {size} bytes");
        let table = self.locate(address).context("relocations outside of the file")?;
        let bytes = self.file.bytes("relocations", table.start, size)?;
        let mut rest = bytes.as_slice();
        let mut words = BTreeSet::new();
        // Blocks, each for a page: its address, the length of the block, then entries of two bytes, each
        // with a type (4 bits) and the offset in the page.
        while rest.len() >= 8 {
            let page = number(rest, 0, 4);
            // A length of less than the header would never end.
            let len = usize::try_from(number(rest, 4, 4)).unwrap_or(usize::MAX).max(8);
            let block = rest.get(8..len).context("relocations that run over")?;
            let entries = block.chunks_exact(2).map(|entry| number(entry, 0, 2));
            words.extend(
                entries
                    .filter(|entry| entry >> 12 == WORD)
                    .map(|entry| page.saturating_add(entry & 0xfff)),
            );
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(Some(words))
    }

    /// Adds the names of one table of libraries. Like the loader, this ignores the size of the table,
    /// and reads up to the entry without a name.
    fn add_libraries(&self, table: &ImportTable, names: &mut BTreeSet<String>) -> Result<()> {
        let Some(directory) = self.directory(table.directory)? else {
            return Ok(());
        };
        for index in 0..=MOST_LIBRARIES {
            let offset = index.saturating_mul(table.entry_len);
            let place = self
                .locate(directory.address.saturating_add(offset))
                .context("a table of libraries that runs out of its section")?;
            let entry = self.file.bytes("table of libraries", place.start, table.entry_len)?;
            match number(&entry, table.name, 4) {
                0 => return Ok(()),
                address => names.insert(self.library_name(address)?),
            };
        }
        bail!("more than {MOST_LIBRARIES} libraries")
    }

    fn library_name(&self, address: u64) -> Result<String> {
        let place = self
            .locate(address)
            .with_context(|| format!("a library whose name is nowhere: at {address:#x}"))?;
        let len = place.end.saturating_sub(place.start).min(LONGEST_NAME);
        let bytes = self.file.bytes("name of a library", place.start, len)?;
        let name = CStr::from_bytes_until_nul(&bytes)
            .ok()
            .with_context(|| format!("a library whose name has no end: at {address:#x}"))?;
        Ok(name.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests;
