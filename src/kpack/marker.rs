//! `Marker`: the `MessagePack` map that a split binary contains instead of a bundle. It tells the
//! runtime in which archives the code is, and under which key.

use std::{fmt, io::Cursor};

use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Result, ensure};

/// The part of a search path that the runtime replaces by a target.
pub const PLACEHOLDER: &str = "@GFXARCH@";

/// The runtime reads at most this many bytes of a marker.
pub(super) const MAX_LEN: usize = 1 << 16;
/// Limit for damaged markers: the loader looks for every path with every target.
const MOST_PATHS: usize = 64;
/// Limit for a path or a name in bytes: `PATH_MAX` of Linux.
const LONGEST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Marker {
    /// Archives, relative to the directory of the binary: `../.kpack/blas_lib_@GFXARCH@.kpack`.
    pub kpack_search_paths: Vec<String>,
    /// The part of the keys before `#`: `math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5`.
    pub kernel_name: String,
}

impl Marker {
    /// The marker of a binary that is `depth` directories below the one with `.kpack`. The runtime
    /// searches the archives in the given order.
    pub fn new(depth: usize, archives: &[impl fmt::Display], kernel_name: &str) -> Self {
        let up = "../".repeat(depth);
        let archives = archives.iter();
        let paths = archives.map(|name| format!("{up}.kpack/{name}_{PLACEHOLDER}.kpack"));
        Self {
            kpack_search_paths: paths.collect(),
            kernel_name: kernel_name.to_owned(),
        }
    }

    pub fn render(&self) -> Result<Vec<u8>> {
        let bytes = rmp_serde::to_vec_named(self).context("failed to write a marker")?;
        ensure!(bytes.len() <= MAX_LEN, "a marker of {} bytes", bytes.len());
        Ok(bytes)
    }

    /// Parses the marker at the start of `bytes`, and returns its length as well. Bytes behind it
    /// are ignored.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut reader = rmp_serde::Deserializer::new(Cursor::new(bytes));
        let marker = Self::deserialize(&mut reader).context("failed to read a marker")?;
        let paths = &marker.kpack_search_paths;
        ensure!(!paths.is_empty(), "a marker without a path");
        ensure!(
            paths.len() <= MOST_PATHS,
            "a marker with {} paths",
            paths.len()
        );
        let longest = paths.iter().chain([&marker.kernel_name]).map(String::len);
        let longest = longest.max().unwrap_or(0);
        ensure!(
            longest <= LONGEST,
            "a marker with a path of {longest} bytes"
        );
        let len = usize::try_from(reader.get_ref().position())?;
        Ok((marker, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_has_the_bytes_of_the_reference() {
        let name = "math-libs/demo/stage/lib/libtest_kernel_multi.so";
        let marker = Marker::new(1, &["demo_lib"], name);
        let expected: &[&[u8]] = &[
            b"\x82\xb2kpack_search_paths\x91\xd9\x22../.kpack/demo_lib_@GFXARCH@.kpack",
            b"\xabkernel_name\xd9\x30math-libs/demo/stage/lib/libtest_kernel_multi.so",
        ];
        let mut bytes = marker.render().unwrap();
        assert_eq!(bytes, expected.concat());
        assert_eq!(bytes.len(), 119);
        bytes.extend([0xff; 500]);
        assert_eq!(Marker::parse(&bytes).unwrap(), (marker, 119));
    }

    #[test]
    fn a_binary_at_the_root_has_its_archives_beside_it() {
        let marker = Marker::new(0, &["x"], "x");
        assert_eq!(marker.kpack_search_paths, [".kpack/x_@GFXARCH@.kpack"]);
    }

    #[test]
    fn what_the_runtime_could_not_read_is_refused() {
        let long = Marker::new(0, &["x"], &"y".repeat(MAX_LEN));
        insta::assert_snapshot!(long.render().unwrap_err(), @"a marker of 65599 bytes");
        let mut many = Marker::new(0, &["x"], "x");
        many.kpack_search_paths = vec!["y".to_owned(); 65];
        let refused = [
            &b"\x82\xb2kpack_search_paths\x90\xabkernel_name\xa1x"[..],
            b"\x81\xb2kpack_search_paths\x91\xa1x",
            b"\x82\xb2kpack_search",
            b"",
            &Marker::new(0, &["x"], &"y".repeat(4097)).render().unwrap(),
            &many.render().unwrap(),
        ]
        .map(|bytes| format!("{:#}", Marker::parse(bytes).unwrap_err()));
        insta::assert_snapshot!(refused.join("\n"), @"
        a marker without a path
        failed to read a marker: missing field `kernel_name`
        failed to read a marker: IO error while reading data: unexpected end of file: unexpected end of file
        failed to read a marker: IO error while reading marker: failed to fill whole buffer: failed to fill whole buffer
        a marker with a path of 4097 bytes
        a marker with 65 paths
        ");
    }
}
