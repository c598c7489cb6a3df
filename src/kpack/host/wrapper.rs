//! Wrappers: what registers device code with the runtime, on Linux and on Windows.

use crate::kpack::Marker;

/// `HIPF`: the wrapper of a bundle; in the file the bytes read `FPIH`.
pub(super) const FAT: u64 = 0x4849_5046;
/// `HIPK`: the wrapper of a marker; in the file the bytes read `HIPK`.
pub(super) const SPLIT: u64 = 0x4b50_4948;
/// How long one is.
pub(super) const WRAPPER: u64 = 24;

/// What a wrapper of a split binary leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub marker: Marker,
    /// Which of the code objects of that name: the ordinal of the bundle.
    pub index: u64,
}
