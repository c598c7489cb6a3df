//! Wrappers: what registers device code with the runtime, on Linux and on Windows.
//!
//! One is the `__CudaFatBinaryWrapper` of clang: magic, version 1, a pointer to the bundle, and a
//! reserved word. After the split the magic is another, the pointer leads to a marker, and the reserved
//! word holds the number of the bundle, which the runtime puts behind the name of the code.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    error::{Result, ensure},
    kpack::Marker,
};

/// `HIPF`: the wrapper of a bundle; in the file the bytes read `FPIH`.
pub(super) const FAT: u64 = 0x4849_5046;
/// `HIPK`: the wrapper of a marker; in the file the bytes read `HIPK`.
pub(super) const SPLIT: u64 = 0x4b50_4948;
/// How long one is.
pub(super) const WRAPPER: u64 = 24;

/// More than all markers of a binary take: they are some hundred bytes, and there is one for each
/// set of targets that bundles have.
const MOST_BYTES: usize = 16 << 20;

/// What a wrapper of a split binary leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrapperReference {
    pub marker: Arc<Marker>,
    /// Which of the code objects of that name: the ordinal of the bundle.
    pub index: u64,
}

/// The markers of a binary, each read once: as a rule all wrappers lead to a few.
#[derive(Default)]
pub(super) struct KnownMarkers {
    known: BTreeMap<u64, Arc<Marker>>,
    bytes: usize,
}

impl KnownMarkers {
    /// The marker that begins at a place.
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
