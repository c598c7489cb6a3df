//! Archives as CI compresses them.

use std::io::{self, Read};

use rocwheel_test_files::tars::compress;

use crate::tar::ArchiveFormat;

/// Gives its bytes a few at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = buf.len().min(self.1);
        self.0.read(&mut buf[..most])
    }
}

fn compressed(format: ArchiveFormat, tar: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    compress(format.extension(), tar, &mut out).unwrap();
    out
}

/// Compressible, but not only runs.
fn sample() -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0] & 7
    };
    (0..500_000).map(|_| next()).collect()
}

#[test]
fn what_is_compressed_can_be_read_by_the_libraries() {
    let sample = sample();
    let zst = compressed(ArchiveFormat::TarZst, sample.as_slice());
    assert_eq!(zstd::decode_all(zst.as_slice()).unwrap(), sample);
    let mut back = Vec::new();
    let xz = compressed(ArchiveFormat::TarXz, sample.as_slice());
    xz2::read::XzDecoder::new(xz.as_slice()).read_to_end(&mut back).unwrap();
    assert_eq!(back, sample);
}

#[test]
fn the_sizes_of_single_reads_do_not_show() {
    let sample = sample();
    for format in ArchiveFormat::ALL {
        let whole = compressed(format, sample.as_slice());
        assert!(whole.len() < sample.len() / 2);
        for most in [1_000, 4_097, 131_073] {
            assert!(whole == compressed(format, Trickle(&sample, most)));
        }
    }
}

#[test]
fn the_bytes_are_the_same_everywhere() {
    let digest = |format| crc32fast::hash(&compressed(format, sample().as_slice()));
    insta::assert_snapshot!(digest(ArchiveFormat::TarZst), @"2860048072");
    insta::assert_snapshot!(digest(ArchiveFormat::TarXz), @"3533373539");
}

#[test]
fn an_error_of_the_reader_is_the_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    for format in ArchiveFormat::ALL {
        let error = compress(format.extension(), Broken, io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
    }
}

#[test]
fn the_file_name_says_the_format() {
    let format = ArchiveFormat::from_file_name;
    assert_eq!(format("blas_lib_gfx942.tar.zst"), Some(ArchiveFormat::TarZst));
    assert_eq!(format("blas_lib_gfx942.tar.xz"), Some(ArchiveFormat::TarXz));
    for other in ["a.tar.gz", "a.zst", ".tar.xz", "a.tar.zst.sha256sum", ""] {
        assert_eq!(format(other), None, "{other}");
    }
}
