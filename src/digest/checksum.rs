//! The checksums of objects for which a store has no SHA-256.

use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};

/// A checksum of all bytes of an object. It detects corruption, but not tampering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum that Amazon's tools send with an upload since 2024.
    Crc64Nvme(u64),
    /// The `ETag` of an object that was uploaded in one request. It is no MD5 if the object is
    /// encrypted with a key of its own.
    Md5([u8; 16]),
}

/// Computes a checksum incrementally and compares it with the expected one.
pub struct Checking {
    expected: Checksum,
    crc: crc_fast::Digest,
    md5: Md5,
}

impl Checking {
    pub fn new(expected: Checksum) -> Self {
        Self {
            expected,
            crc: crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme),
            md5: Md5::new(),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self.expected {
            Checksum::Crc64Nvme(_) => self.crc.update(bytes),
            Checksum::Md5(_) => self.md5.update(bytes),
        }
    }

    /// Whether the bytes have the expected checksum.
    pub fn fits(self) -> bool {
        match self.expected {
            Checksum::Crc64Nvme(expected) => self.crc.finalize() == expected,
            Checksum::Md5(expected) => <[u8; 16]>::from(self.md5.finalize()) == expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_their_definitions() {
        let fits = |expected, bytes: &[u8]| {
            let mut checking = Checking::new(expected);
            let (head, tail) = bytes.split_at(bytes.len() / 2);
            checking.update(head);
            checking.update(tail);
            checking.fits()
        };
        let crc = Checksum::Crc64Nvme(0xae8b_1486_0a79_9888);
        let md5 = Checksum::Md5(0x25f9_e794_323b_4538_85f5_181f_1b62_4d0b_u128.to_be_bytes());
        for checksum in [crc, md5] {
            assert!(fits(checksum, b"123456789"), "{checksum:?}");
            assert!(!fits(checksum, b"123456788"), "{checksum:?}");
        }
    }
}
