//! The checksums of objects for which a store has no SHA-256.

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
    crc: u64,
    md5: Md5,
}

/// CRC-64/NVME: <https://reveng.sourceforge.io/crc-catalogue/all.htm#crc.cat.crc-64-nvme>
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;
const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ ((crc & 1) * POLYNOMIAL);
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

impl Checking {
    pub fn new(expected: Checksum) -> Self {
        Self {
            expected,
            crc: u64::MAX,
            md5: Md5::new(),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self.expected {
            Checksum::Crc64Nvme(_) => {
                for byte in bytes {
                    let [low, ..] = self.crc.to_le_bytes();
                    self.crc = self.crc >> 8 ^ TABLE[usize::from(low ^ byte)];
                }
            }
            Checksum::Md5(_) => self.md5.update(bytes),
        }
    }

    /// Whether the bytes have the expected checksum.
    pub fn fits(self) -> bool {
        match self.expected {
            Checksum::Crc64Nvme(expected) => !self.crc == expected,
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
