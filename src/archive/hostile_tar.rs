//! Builds invalid and malicious tars byte by byte, for tests.

use tar::{EntryType, Header};

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
