//! Finds the device code of a binary, and the wrappers that lead to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    elf::{
        ReadAt,
        tables::{NOBITS, number},
    },
    error::{Result, bail, ensure},
    kpack::{
        ByteRegion,
        bundle::{self, Bundle},
        host::{
            CODE, MARKERS, WRAPPERS, coff,
            image::{HostFile, HostImage},
            relocations::{self, How, Pointer},
            wrapper::{FAT, WRAPPER},
        },
    },
};

/// Limit for damaged files: no binary has as many translation units.
const MAX_WRAPPERS: u64 = 1 << 20;

/// How the split treats a file.
#[derive(Debug)]
pub enum FatFileKind {
    /// It has no device code.
    Plain,
    /// It has device code that can be removed.
    Fat(SplittableBinary),
    /// Its device code has been removed before.
    Split,
    /// It has device code that must stay.
    Stuck {
        /// The reason, for a warning.
        why: String,
        /// The bundles in the file, which can still be listed and extracted.
        code: Range<u64>,
    },
}

/// A binary with device code that can be removed.
#[derive(Clone, Debug)]
pub struct SplittableBinary {
    /// The range of the section with the bundles in the file.
    pub code: Range<u64>,
    pub bundles: Vec<Bundle>,
    pub wrappers: Vec<Wrapper>,
}

/// A wrapper, which registers the code of one translation unit with the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its offset in the file.
    pub offset: u64,
    pub address: u64,
    /// The number of the bundle that it leads to. With `-fgpu-rdc` several wrappers lead to one
    /// bundle, so this is not the number of the wrapper.
    pub bundle: usize,
    pub(super) how: How,
}

impl SplittableBinary {
    /// The section with the bundles.
    pub fn section<'a, R: ReadAt + ?Sized>(&self, source: &'a R) -> Result<ByteRegion<'a, R>> {
        let len = self.code.end.saturating_sub(self.code.start);
        ByteRegion::new(source, "device code", self.code.start, len)
    }
}

/// Finds the device code of any file. It is an error if a file has device code and is inconsistent.
pub fn look<R: ReadAt + ?Sized>(source: &R) -> Result<FatFileKind> {
    let stuck = |why: &str, code| {
        let why = why.to_owned();
        Ok(FatFileKind::Stuck { why, code })
    };
    let (image, is_host) = match HostImage::see(source)? {
        HostFile::NotElf => {
            return match coff::code(&ByteRegion::whole(source))? {
                Some(code) => stuck("Windows binaries are not split", code),
                None => Ok(FatFileKind::Plain),
            };
        }
        HostFile::Other(image) => (image, false),
        HostFile::Host(image) => (image, true),
    };
    let Some(section) = image.section(CODE) else {
        return Ok(FatFileKind::Plain);
    };
    if image.section(MARKERS).is_some() {
        return Ok(FatFileKind::Split);
    }
    let code = section.file();
    if !is_host {
        return stuck("neither an executable nor a shared object for x86-64", code);
    }
    if section.kind == NOBITS || section.size == 0 {
        return stuck("the code was removed, and no marker was left", code);
    }
    if image.section(WRAPPERS).is_none() {
        return stuck("no wrapper leads to the code", code);
    }
    fat(&image).map(FatFileKind::Fat)
}

/// The address and the bytes of every wrapper of a binary.
pub(super) fn wrappers<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
) -> Result<Vec<(u64, Vec<u8>)>> {
    let Some(section) = image.section(WRAPPERS) else {
        return Ok(Vec::new());
    };
    ensure!(
        section.kind != NOBITS && section.size % WRAPPER == 0,
        "`{WRAPPERS}` holds no whole number of wrappers: {} bytes",
        section.size
    );
    let count = section.size / WRAPPER;
    ensure!(count <= MAX_WRAPPERS, "{count} wrappers");
    let bytes = image.at("wrappers", section.address, section.size)?;
    ensure!(
        image.place(section.address, section.size) == Some(section.offset),
        "`{WRAPPERS}` is not loaded from where it lies"
    );
    let address = |index: usize| section.address.saturating_add(index as u64 * WRAPPER);
    let wrappers = bytes.chunks_exact(24).enumerate();
    Ok(wrappers
        .map(|(index, bytes)| (address(index), bytes.to_vec()))
        .collect())
}

/// The pointer in each wrapper after relocation, by the address of the wrapper. Calls `each` for
/// all other pointers of the binary.
///
/// Without a relocation the word in the file is the pointer, but only in a program at a fixed
/// address. Elsewhere the binary is refused, as the loader would leave the pointer wrong.
pub(super) fn pointers<R: ReadAt + ?Sized>(
    image: &HostImage<'_, R>,
    wrappers: &[(u64, Vec<u8>)],
    mut each: impl FnMut(Pointer) -> Result<()>,
) -> Result<BTreeMap<u64, Pointer>> {
    let known: BTreeSet<u64> = wrappers.iter().map(|(address, _)| *address).collect();
    let mut found = BTreeMap::new();
    relocations::each(image, |pointer| {
        let wrapper = pointer.address.wrapping_sub(8);
        if !known.contains(&wrapper) {
            return each(pointer);
        }
        let before = found.insert(wrapper, pointer);
        ensure!(
            before.is_none(),
            "a wrapper that is relocated twice: at {wrapper:#x}"
        );
        Ok(())
    })?;
    for (address, bytes) in wrappers {
        if found.contains_key(address) {
            continue;
        }
        ensure!(
            image.is_fixed(),
            "a wrapper that is not relocated: at {address:#x}"
        );
        let fixed = Pointer {
            address: address.wrapping_add(8),
            how: How::Fixed,
            target: Some(number(bytes, 8, 8)),
        };
        found.insert(*address, fixed);
    }
    Ok(found)
}

/// Reads bundles and wrappers, and refuses what the split could not preserve: a pointer into the
/// code that is not in a wrapper would lead to zeros afterwards.
fn fat<R: ReadAt + ?Sized>(image: &HostImage<'_, R>) -> Result<SplittableBinary> {
    let Some(section) = image.section(CODE) else {
        bail!("no `{CODE}`");
    };
    let code = section.file();
    for load in image.loads() {
        ensure!(
            load.file_size <= load.memory_size,
            "a segment that no loader takes: at {:#x}",
            load.address
        );
    }
    ensure!(
        image.place(section.address, section.size) == Some(section.offset),
        "`{CODE}` is not loaded from where it lies"
    );
    let range = section.memory();
    let bundles = bundle::find(&image.file.part(CODE, section.offset, section.size)?)?;
    let starts: BTreeMap<u64, usize> = bundles
        .iter()
        .enumerate()
        .map(|(ordinal, bundle)| (section.address.saturating_add(bundle.offset), ordinal))
        .collect();
    let raw = wrappers(image)?;
    ensure!(!raw.is_empty(), "`{WRAPPERS}` is empty");
    let pointers = pointers(image, &raw, |pointer| {
        let leads_in = pointer.target.is_some_and(|target| range.contains(&target));
        ensure!(
            !leads_in,
            "a pointer into the code that is no wrapper's: at {:#x}",
            pointer.address
        );
        Ok(())
    })?;
    let mut wrappers = Vec::new();
    for (address, bytes) in raw {
        let magic = number(&bytes, 0, 4);
        ensure!(
            magic == FAT && number(&bytes, 4, 4) == 1,
            "a wrapper of an unknown kind: {magic:#x} at {address:#x}"
        );
        let pointer = pointers.get(&address);
        let bundle = pointer
            .and_then(|pointer| pointer.target)
            .and_then(|target| starts.get(&target));
        let (Some(pointer), Some(bundle)) = (pointer, bundle) else {
            bail!("a wrapper that leads to no bundle: at {address:#x}");
        };
        wrappers.push(Wrapper {
            offset: image.place(address, WRAPPER).unwrap_or(0),
            address,
            bundle: *bundle,
            how: pointer.how,
        });
    }
    Ok(SplittableBinary {
        code,
        bundles,
        wrappers,
    })
}
