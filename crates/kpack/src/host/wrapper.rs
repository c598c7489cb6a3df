//! Wrappers: the structures through which a binary registers its device code with the runtime, on
//! Linux and on Windows.
//!
//! A wrapper is clang's `__CudaFatBinaryWrapper`, 24 bytes:
//!
//! | offset | fat binary | split binary |
//! |---|---|---|
//! | 0, 4 bytes | `FPIH` | `HIPK` |
//! | 4, 4 bytes | version 1 | version 1 |
//! | 8, 8 bytes | address of a bundle | address of a marker |
//! | 16, 8 bytes | 0 | number of the bundle |
//!
//! The runtime appends the number of the bundle to the marker's name to look up the code.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
    sync::Arc,
};

use crate::{ByteRegion, Marker, archive, host::image::RELATIVE, split::MAX_LEN};
use rocwheel_base::error::{Context as _, Result, ensure};
use rocwheel_elf::{patch::Replacement, tables::number};

/// The magic number of a wrapper that leads to a bundle. It is called `HIPF`, but its little-endian
/// bytes are `FPIH`.
pub(super) const FAT: u64 = 0x4849_5046;
/// The magic number of a wrapper that leads to a marker. Unlike `FAT`, its bytes are in the order
/// of its name: `HIPK`.
pub(super) const SPLIT: u64 = 0x4b50_4948;
/// Size of a wrapper.
pub(super) const WRAPPER: u64 = 24;

/// Limit for damaged files: no binary has as many translation units.
const MOST_WRAPPERS: u64 = 1 << 20;
/// Limit for all markers of a binary together. A marker has some hundred bytes, and there are few
/// of them; without the limit, a damaged binary could make us keep 64 KiB for every wrapper.
const MOST_BYTES: usize = 16 << 20;

/// A wrapper, which registers the code of one translation unit with the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its offset in the file.
    pub offset: u64,
    /// Its address once the binary is loaded.
    pub address: u64,
    /// The number of the bundle that it leads to. With `-fgpu-rdc` several wrappers lead to one
    /// bundle, so this is not the number of the wrapper.
    pub bundle: usize,
    pub(super) magic: u64,
    /// The address to which it leads once it is loaded; `None` if that is in another file.
    pub(super) target: Option<u64>,
    /// The offset in the file of the relocation (`Elf64_Rela`) of its pointer, if it has one.
    pub(super) relocation: Option<u64>,
}

/// What the runtime gets from a wrapper of a split binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperReference {
    /// The marker to which it leads: the archives to search, and the name of the code.
    pub marker: Arc<Marker>,
    /// The number of the bundle, which selects one of the code objects with the marker's name.
    pub index: usize,
}

impl WrapperReference {
    /// The key of its code in archives.
    pub fn key(&self) -> String {
        archive::key(&self.marker.kernel_name, self.index)
    }
}

/// Parses the wrappers of a section, which has the range `section` in the file and begins at `address` in
/// memory. The wrappers are as they are in the file, before relocation.
pub(super) fn parse(
    name: &str,
    file: &ByteRegion<'_>,
    section: &Range<u64>,
    address: u64,
) -> Result<Vec<Wrapper>> {
    let size = section.end.saturating_sub(section.start);
    ensure!(size <= MOST_WRAPPERS * WRAPPER, "`{name}` of {size} bytes");
    ensure!(
        size.is_multiple_of(WRAPPER),
        "`{name}` holds no whole number of wrappers: {size} bytes"
    );
    let mut wrappers = Vec::new();
    for entry in file.part("wrappers", section.start, size)?.entries() {
        let (inside, bytes) = entry?;
        let address = address.saturating_add(inside);
        ensure!(number(&bytes, 4, 4) == 1, "a wrapper of an unknown kind: at {address:#x}");
        wrappers.push(Wrapper {
            offset: section.start.saturating_add(inside),
            address,
            // The runtime uses only the lower 32 bits.
            bundle: usize::try_from(number(&bytes, 16, 4))?,
            magic: number(&bytes, 0, 4),
            target: Some(number(&bytes, 8, 8)),
            relocation: None,
        });
    }
    Ok(wrappers)
}

/// The marker and the bundle number of each wrapper. `locate` returns the range of the file from an
/// address to the end of what lies there. Most wrappers share a few markers, so each marker is read
/// once.
pub(super) fn references(
    file: &ByteRegion<'_>,
    wrappers: &[Wrapper],
    locate: impl Fn(u64) -> Option<Range<u64>>,
) -> Result<Vec<WrapperReference>> {
    let mut markers: BTreeMap<u64, Arc<Marker>> = BTreeMap::new();
    let mut total_len = 0_usize;
    let mut references = Vec::new();
    for wrapper in wrappers {
        let address = wrapper.address;
        ensure!(wrapper.magic == SPLIT, "a wrapper that leads to no marker: at {address:#x}");
        let target = wrapper.target.context("a wrapper that leads into another file")?;
        let marker = match markers.entry(target) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let range = locate(target).with_context(|| {
                    format!("a wrapper that leads to no bytes: at {address:#x}")
                })?;
                // A marker has no length field, so the parser finds its end.
                let rest = range.end.saturating_sub(range.start).min(MAX_LEN as u64);
                let (marker, len) = Marker::parse(&file.bytes("marker", range.start, rest)?)?;
                total_len = total_len.saturating_add(len);
                ensure!(total_len <= MOST_BYTES, "markers of more than {MOST_BYTES} bytes");
                free.insert(Arc::new(marker))
            }
        };
        references.push(WrapperReference { marker: Arc::clone(marker), index: wrapper.bundle });
    }
    Ok(references)
}

impl Wrapper {
    /// Points the wrapper to a marker, with the number of its bundle.
    ///
    /// The address is written to the wrapper in the file *and* to its relocation. In a program at a
    /// fixed address there is no relocation, and with `DT_RELR` the loader adds the load address to
    /// the word in the file: zeros there would be a null pointer. A symbolic relocation becomes a
    /// relative one, as its symbol has moved.
    pub(super) fn point_to_marker(&self, target: u64) -> Vec<Replacement> {
        // The magic number, and version 1.
        let words = [SPLIT | 1 << 32, target, self.bundle as u64];
        let bytes = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut replacements = vec![Replacement::bytes(self.offset, bytes)];
        if let Some(relocation) = self.relocation {
            // The `r_info` of a relative relocation is its type, and symbol 0. `r_offset`, before it, stays.
            let fields = [RELATIVE.to_le_bytes(), target.to_le_bytes()].concat();
            replacements.push(Replacement::bytes(relocation.saturating_add(8), fields));
        }
        replacements
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use rocwheel_elf::ReadAt as _;

    #[test]
    fn a_marker_is_read_once_and_all_of_them_are_not_too_long() {
        let one = Marker::new(1, &["blas_lib"], &"x".repeat(4000));
        let reads = Cell::new(0);
        let wrapper = |target: u64| Wrapper {
            offset: 0,
            address: 0,
            bundle: 7,
            magic: SPLIT,
            target: Some(target),
            relocation: None,
        };
        let file = one.render().unwrap();
        let file = ByteRegion::whole(&file);
        let locate = |_| {
            reads.set(reads.get() + 1);
            Some(0..file.len())
        };
        let found = references(&file, &[wrapper(5), wrapper(5)], locate).unwrap();
        assert!(Arc::ptr_eq(&found[0].marker, &found[1].marker));
        assert_eq!((&*found[0].marker, found[1].index, reads.get()), (&one, 7, 1));
        let many: Vec<Wrapper> = (1..10_000).map(wrapper).collect();
        let refused = references(&file, &many, locate).unwrap_err();
        insta::assert_snapshot!(refused, @"markers of more than 16777216 bytes");
    }
}
