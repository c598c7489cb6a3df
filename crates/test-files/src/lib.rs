//! Makes the files that the tests of rocwheel's crates read: ELF files that really load and run, offload
//! bundles, `.kpack` archives, Windows libraries, and tar archives, valid and hostile. Each is built byte by
//! byte, without a compiler, and the same calls give the same bytes.
//!
//! Nothing here uses the crates that it tests, so a mistake in one of them cannot hide itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on has failed")]
#![expect(clippy::return_self_not_must_use, reason = "the files are described by chains of calls")]

#[cfg(feature = "bundles")]
pub mod bundles;
pub mod contents;
pub mod linker;
pub mod stored;
#[cfg(feature = "tars")]
pub mod tars;
pub mod windows;
