//! Finds the device code of a binary, and the wrappers that lead to it or to its markers.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use goblin::elf::section_header::SHT_NOBITS;

use crate::{
    ByteRegion,
    bundle::{self, Bundle},
    host::{
        CODE, MARKERS, WRAPPERS,
        image::{HostImage, Pointer},
        windows,
        wrapper::{self, FAT, WRAPPER, Wrapper, WrapperReference},
    },
};
use rocwheel_base::error::{Result, bail, ensure};
use rocwheel_elf::ReadAt;

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
    Unsplittable {
        /// The reason, for a warning.
        why: &'static str,
        /// The bundles in the file, which can still be listed and extracted.
        code: Range<u64>,
    },
}

/// A binary with device code that can be removed.
#[derive(Clone, Debug)]
pub struct SplittableBinary {
    /// The range of the section with the bundles in the file.
    pub code: Range<u64>,
    /// The bundles of that section, in the order of the file.
    pub bundles: Vec<Bundle>,
    /// The wrappers, in the order of the file. Each leads to one of the bundles.
    pub wrappers: Vec<Wrapper>,
}

impl SplittableBinary {
    /// The section with the bundles.
    pub fn section<'a>(&self, source: &'a dyn ReadAt) -> Result<ByteRegion<'a>> {
        ByteRegion::new(source, "device code", &self.code)
    }
}

/// Finds the device code of any file. It is an error if a file has device code and is inconsistent.
pub fn look(source: &dyn ReadAt) -> Result<FatFileKind> {
    let unsplittable = |why, code| Ok(FatFileKind::Unsplittable { why, code });
    let Some(image) = HostImage::read(source)? else {
        return match windows::code(ByteRegion::whole(source))? {
            Some(code) => unsplittable("Windows binaries are not split", code),
            None => Ok(FatFileKind::Plain),
        };
    };
    let Some(section) = image.section(CODE) else {
        return Ok(FatFileKind::Plain);
    };
    if image.section(MARKERS).is_some() {
        return Ok(FatFileKind::Split);
    }
    let code = section.file();
    if !image.is_host() {
        return unsplittable("neither an executable nor a shared object for x86-64", code);
    }
    if section.kind == SHT_NOBITS || section.size == 0 {
        return unsplittable("the code was removed, and no marker was left", code);
    }
    if image.section(WRAPPERS).is_none() {
        return unsplittable("no wrapper leads to the code", code);
    }
    read_fat(&image).map(FatFileKind::Fat)
}

/// The marker and the bundle number of each wrapper of a split binary, once the loader has
/// relocated the binary.
pub fn references(source: &dyn ReadAt) -> Result<Vec<WrapperReference>> {
    let image = HostImage::read_host(source)?;
    let wrappers = read_wrappers(&image, |_| Ok(()))?;
    wrapper::references(&image.file, &wrappers, |target| image.rest_of_segment(target))
}

/// Reads the wrappers of a binary, with the pointers that they have after relocation. Calls
/// `each_other` for all other pointers of the binary.
///
/// Without a relocation the word in the file is the pointer, but only in a program at a fixed
/// address. Elsewhere the binary is refused, as the loader would leave the pointer wrong.
fn read_wrappers(
    image: &HostImage<'_>,
    mut each_other: impl FnMut(&Pointer) -> Result<()>,
) -> Result<Vec<Wrapper>> {
    let Some(section) = image.section(WRAPPERS) else {
        return Ok(Vec::new());
    };
    let address = section.address;
    ensure!(
        section.kind != SHT_NOBITS
            && image.tables.place(address, section.size) == Some(section.offset),
        "`{WRAPPERS}` is not loaded from where it lies"
    );
    let mut wrappers = wrapper::parse(WRAPPERS, &image.file, &section.file(), address)?;
    let mut relocated = BTreeSet::new();
    image.pointers(|pointer| {
        // The pointer of a wrapper is its third word, at offset 8. A smaller address wraps around to a
        // number that is larger than every index.
        let inside = pointer.address.wrapping_sub(8).wrapping_sub(address);
        let index = usize::try_from(inside / WRAPPER)?;
        let wrapper = wrappers.get_mut(index).filter(|_| inside % WRAPPER == 0);
        let Some(wrapper) = wrapper else {
            return each_other(pointer);
        };
        ensure!(
            relocated.insert(wrapper.address),
            "a wrapper that is relocated twice: at {:#x}",
            wrapper.address
        );
        wrapper.target = pointer.target;
        wrapper.relocation = pointer.relocation;
        Ok(())
    })?;
    for Wrapper { address, .. } in &wrappers {
        ensure!(
            image.tables.is_fixed() || relocated.contains(address),
            "a wrapper that is not relocated: at {address:#x}"
        );
    }
    Ok(wrappers)
}

/// Reads bundles and wrappers, and refuses what the split could not preserve: a pointer into the
/// code that is not in a wrapper would lead to zeros afterwards.
fn read_fat(image: &HostImage<'_>) -> Result<SplittableBinary> {
    let section = image.code()?;
    for load in image.tables.loads() {
        ensure!(
            load.file_size <= load.memory_size,
            "a segment that no loader takes: at {:#x}",
            load.address
        );
    }
    ensure!(
        image.tables.place(section.address, section.size) == Some(section.offset),
        "`{CODE}` is not loaded from where it lies"
    );
    let memory = section.memory();
    let bundles = bundle::find(&image.file.part(CODE, section.offset, section.size)?)?;
    let ordinals: BTreeMap<u64, usize> = bundles
        .iter()
        .enumerate()
        .map(|(ordinal, bundle)| (section.address.saturating_add(bundle.offset), ordinal))
        .collect();
    let mut wrappers = read_wrappers(image, |pointer| {
        ensure!(
            pointer.target.is_none_or(|target| !memory.contains(&target)),
            "a pointer into the code that is no wrapper's: at {:#x}",
            pointer.address
        );
        Ok(())
    })?;
    ensure!(!wrappers.is_empty(), "`{WRAPPERS}` is empty");
    for wrapper in &mut wrappers {
        let magic = wrapper.magic;
        let address = wrapper.address;
        ensure!(magic == FAT, "a wrapper of an unknown kind: {magic:#x} at {address:#x}");
        let Some(bundle) = wrapper.target.and_then(|target| ordinals.get(&target)) else {
            bail!("a wrapper that leads to no bundle: at {address:#x}");
        };
        wrapper.bundle = *bundle;
    }
    Ok(SplittableBinary { code: section.file(), bundles, wrappers })
}
