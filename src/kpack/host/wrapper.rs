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

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::{Result, ensure},
    kpack::Marker,
};

/// The magic number of a wrapper that leads to a bundle. It is called `HIPF`, but its little-endian
/// bytes are `FPIH`.
pub(super) const FAT: u64 = 0x4849_5046;
/// The magic number of a wrapper that leads to a marker. Unlike `FAT`, its bytes are in the order
/// of its name: `HIPK`.
pub(super) const SPLIT: u64 = 0x4b50_4948;
/// Size of a wrapper.
pub(super) const WRAPPER: u64 = 24;

/// Limit for all markers of a binary together. A marker has some hundred bytes, and there are few
/// of them; without the limit, a damaged binary could make us keep 64 KiB for every wrapper.
const MOST_BYTES: usize = 16 << 20;

/// What the runtime gets from a wrapper of a split binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperReference {
    pub marker: Arc<Marker>,
    /// The number of the bundle, which selects one of the code objects with the marker's name.
    pub index: u64,
}

/// A cache of the markers of a binary. Most wrappers share a few markers, so each is parsed once.
#[derive(Default)]
pub(super) struct KnownMarkers {
    known: BTreeMap<u64, Arc<Marker>>,
    bytes: usize,
}

impl KnownMarkers {
    /// The marker at a place. Calls `read` only if the marker is not in the cache.
    pub(super) fn at(
        &mut self,
        place: u64,
        read: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Arc<Marker>> {
        if let Some(known) = self.known.get(&place) {
            return Ok(Arc::clone(known));
        }
        let (marker, len) = Marker::parse(&read()?)?;
        self.bytes = self.bytes.saturating_add(len);
        ensure!(
            self.bytes <= MOST_BYTES,
            "markers of more than {MOST_BYTES} bytes"
        );
        let marker = Arc::new(marker);
        self.known.insert(place, Arc::clone(&marker));
        Ok(marker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_once_and_all_of_them_are_not_too_long() {
        let one = Marker::new(1, &["blas_lib"], &"x".repeat(4000));
        let bytes = one.render().unwrap();
        let mut markers = KnownMarkers::default();
        let first = markers.at(0, || Ok(bytes.clone())).unwrap();
        let again = markers.at(0, || panic!("read again")).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && *first == one);
        let mut all = (1..10_000).map(|place| markers.at(place, || Ok(bytes.clone())));
        let refused = all.find_map(Result::err).unwrap();
        insta::assert_snapshot!(refused, @"markers of more than 16777216 bytes");
    }
}
