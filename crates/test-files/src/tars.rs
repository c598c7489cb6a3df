//! Tar archives, valid and hostile, built byte by byte, and compressed as CI does.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use proptest::{collection::btree_map, strategy::Strategy};
use tar::{EntryType, Header};
use xz2::write::XzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

/// The levels that CI uses for its artifacts.
const ZSTD_LEVEL: i32 = 3;
const XZ_PRESET: u32 = 6;

/// Compresses a tar as CI does, in the format of a file extension: `.tar.zst` or `.tar.xz`.
pub fn compress(extension: &str, mut tar: impl Read, out: impl Write) -> io::Result<()> {
    match extension {
        ".tar.zst" => {
            let mut encoder = ZstdEncoder::new(out, ZSTD_LEVEL)?;
            encoder.include_checksum(true)?;
            io::copy(&mut tar, &mut encoder)?;
            encoder.finish()?.flush()
        }
        ".tar.xz" => {
            let mut encoder = XzEncoder::new(out, XZ_PRESET);
            io::copy(&mut tar, &mut encoder)?;
            encoder.finish()?.flush()
        }
        other => panic!("CI has no archives with the extension {other}"),
    }
}

/// Files that an archive may have, each with its size: names that fit into one field of a header, into two, or
/// into none.
pub fn files_and_sizes() -> impl Strategy<Value = BTreeMap<String, u64>> {
    btree_map("[a-zé]{1,60}(/[a-z ]{1,70}){0,2}", 0_u64..2_000, 0..8)
}

/// Builds an archive without any checks.
#[derive(Clone, Default)]
pub struct Craft(Vec<u8>);

impl Craft {
    pub fn file(self, name: &str, content: &[u8]) -> Self {
        self.file_with_mode(name, content, 0o644)
    }

    pub fn file_with_mode(self, name: &str, content: &[u8], mode: u32) -> Self {
        self.member(name, b'0', content, |header| header.set_mode(mode))
    }

    pub fn directory(self, name: &str) -> Self {
        self.member(name, b'5', b"", |_| {})
    }

    pub fn symlink(self, name: &str, text: &str) -> Self {
        self.link(name, b'2', text)
    }

    pub fn hardlink(self, name: &str, target: &str) -> Self {
        self.link(name, b'1', target)
    }

    pub fn link(self, name: &str, kind: u8, to: &str) -> Self {
        self.member(name, kind, b"", |header| {
            header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
        })
    }

    /// A pax header; `records` are `key=value`.
    pub fn pax(self, kind: u8, records: &[&str]) -> Self {
        let mut content = Vec::new();
        for record in records {
            // Two digits suffice for the records of the tests.
            let len = record.len() + 4;
            content.extend_from_slice(format!("{len:02} {record}\n").as_bytes());
        }
        self.member("././@PaxHeader", kind, &content, |_| {})
    }

    /// A member of any type. `change` edits the finished header, and then the checksum is computed.
    pub fn member(
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

    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self([self.0, bytes.to_vec()].concat())
    }

    /// The archive without an end mark.
    pub fn cut(self) -> Vec<u8> {
        self.0
    }

    pub fn end(self) -> Vec<u8> {
        self.bytes(&[0; 1024]).0
    }
}
