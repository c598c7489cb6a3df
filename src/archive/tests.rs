//! What the tests of other modules need: archives as CI compresses them, and invalid and malicious
//! tars, built byte by byte.

use std::io::{self, Read, Write};

use tar::{EntryType, Header};
use xz2::write::XzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::archive::ArchiveFormat;

/// The levels that CI uses for its artifacts.
const ZSTD_LEVEL: i32 = 3;
const XZ_PRESET: u32 = 6;

/// Compresses a tar as CI does.
pub(crate) fn compress(
    format: ArchiveFormat,
    mut tar: impl Read,
    out: impl Write,
) -> io::Result<()> {
    match format {
        ArchiveFormat::TarZst => {
            let mut encoder = ZstdEncoder::new(out, ZSTD_LEVEL)?;
            encoder.include_checksum(true)?;
            io::copy(&mut tar, &mut encoder)?;
            encoder.finish()?.flush()
        }
        ArchiveFormat::TarXz => {
            let mut encoder = XzEncoder::new(out, XZ_PRESET);
            io::copy(&mut tar, &mut encoder)?;
            encoder.finish()?.flush()
        }
    }
}

/// Builds an archive without any checks.
#[derive(Clone, Default)]
pub(crate) struct Craft(Vec<u8>);

impl Craft {
    pub(crate) fn file(self, name: &str, content: &[u8]) -> Self {
        self.file_with_mode(name, content, 0o644)
    }

    pub(crate) fn file_with_mode(self, name: &str, content: &[u8], mode: u32) -> Self {
        self.member(name, b'0', content, |header| header.set_mode(mode))
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.member(name, b'5', b"", |_| {})
    }

    pub(crate) fn symlink(self, name: &str, text: &str) -> Self {
        self.link(name, b'2', text)
    }

    pub(crate) fn hardlink(self, name: &str, target: &str) -> Self {
        self.link(name, b'1', target)
    }

    pub(crate) fn link(self, name: &str, kind: u8, to: &str) -> Self {
        self.member(name, kind, b"", |header| {
            header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
        })
    }

    /// A pax header; `records` are `key=value`.
    pub(crate) fn pax(self, kind: u8, records: &[&str]) -> Self {
        let mut content = Vec::new();
        for record in records {
            // Two digits suffice for the records of the tests.
            let len = record.len() + 4;
            content.extend_from_slice(format!("{len:02} {record}\n").as_bytes());
        }
        self.member("././@PaxHeader", kind, &content, |_| {})
    }

    /// A member of any type. `change` edits the finished header, and then the checksum is computed.
    pub(crate) fn member(
        mut self,
        name: &str,
        kind: u8,
        content: &[u8],
        change: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(EntryType::new(kind));
        header.set_mode(0o644);
        header.set_uid(1000);
        header.set_gid(1000);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        Self([self.0, bytes.to_vec()].concat())
    }

    /// The archive without an end mark.
    pub(crate) fn cut(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.bytes(&[0; 1024]).0
    }
}

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
    compress(format, tar, &mut out).unwrap();
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
        let error = compress(format, Broken, io::sink()).unwrap_err();
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
