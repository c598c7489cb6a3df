//! Makes the files that the tests of rocwheel's crates read: ELF files that really load and run, offload
//! bundles, `.kpack` archives, Windows libraries, and tar archives, valid and hostile. Each is built byte by
//! byte, without a compiler, and the same calls give the same bytes. Only `compiled` asks the linkers of this
//! machine, and `programs` loads and runs what was made. Two macros assert what a text has in it.
//!
//! Nothing here uses the crates that it tests, so a mistake in one of them cannot hide itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on has failed")]
#![expect(clippy::return_self_not_must_use, reason = "the files are described by chains of calls")]

#[cfg(feature = "bundles")]
pub mod binaries;
#[cfg(feature = "bundles")]
pub mod bundles;
#[cfg(all(feature = "programs", unix))]
pub mod compiled;
pub mod contents;
pub mod linker;
pub mod long;
#[cfg(all(feature = "programs", unix))]
pub mod programs;
pub mod skipped;
pub mod stored;
#[cfg(feature = "tars")]
pub mod tars;
#[cfg(feature = "wheels")]
pub mod wheels;
pub mod windows;

/// Bytes that do not compress, and are the same every time.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Asserts that a text has each of these in it, and shows all of it if one is missing.
#[macro_export]
macro_rules! assert_has {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "no `{}` in:\n{text}", $part);)+
    }};
}

/// Asserts that a text has none of these in it, and shows all of it otherwise.
#[macro_export]
macro_rules! assert_lacks {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(!text.contains($part), "`{}` in:\n{text}", $part);)+
    }};
}
