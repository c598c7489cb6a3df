//! SHA-256 digests, which index pages, RECORD files and transfers use, and the checksums of stores.

use std::{fmt, io, str::FromStr};

use crc_fast::CrcAlgorithm;
use md5::Md5;
use serde::{Deserialize, Serialize};
use sha2::{
    Digest as _,
    digest::common::hazmat::{SerializableState as _, SerializedState},
};

use crate::error::{Invalid, as_text};

/// A SHA-256 digest. It is written, and only parsed, as 64 lower-case hexadecimal digits.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Debug, derive_more::From,
)]
#[debug("{self}")]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Hashes bytes that are all in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of the rest of a reader, and the number of bytes.
    pub fn of_reader(mut reader: impl io::Read) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::default();
        io::copy(&mut reader, &mut hasher)?;
        Ok(hasher.finish())
    }

    /// The 32 bytes; `Display` shows them as lowercase hexadecimal digits.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Hashes and counts the bytes that are written to it.
#[derive(Clone, Default)]
pub struct Hasher {
    hash: sha2::Sha256,
    len: u64,
}

impl Hasher {
    /// Hashes and counts further bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// The digest of all bytes, and how many there were.
    pub fn finish(self) -> (Sha256, u64) {
        (Sha256(self.hash.finalize().into()), self.len)
    }
}

/// The first bytes of a file, hashed: the digest of another file that begins with the same bytes takes only the rest.
///
/// **Contract:** it says nothing about a file. Its reader knows by other means that a file begins so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashedStart {
    /// How many bytes these are.
    pub len: u64,
    /// CRC-32 of these bytes.
    pub crc: u32,
    /// What SHA-256 knows after them, in hexadecimal digits.
    state: String,
}

impl HashedStart {
    /// `hasher` has hashed the first bytes and no others.
    pub fn new(hasher: &Hasher, crc: u32) -> Self {
        Self { len: hasher.len, crc, state: hex::encode(hasher.hash.serialize()) }
    }

    /// Goes on after the first bytes. `None` if another version wrote the state.
    pub fn hasher(&self) -> Option<Hasher> {
        let bytes = hex::decode(&self.state).ok()?;
        let state = SerializedState::<sha2::Sha256>::try_from(bytes.as_slice()).ok()?;
        let hash = sha2::Sha256::deserialize(&state).ok()?;
        Some(Hasher { hash, len: self.len })
    }
}

/// Calls a function with the bytes that are read through it, so that they are hashed on the way.
pub struct InspectReader<R, F> {
    inner: R,
    inspect: F,
}

impl<R, F: FnMut(&[u8])> InspectReader<R, F> {
    /// `inspect` is called with each piece that `inner` reads, before the caller gets it.
    pub fn new(inner: R, inspect: F) -> Self {
        Self { inner, inspect }
    }
}

impl<R: io::Read, F: FnMut(&[u8])> io::Read for InspectReader<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        (self.inspect)(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<R: io::BufRead, F: FnMut(&[u8])> io::BufRead for InspectReader<R, F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // What is consumed is in the buffer, so nothing is read for it.
        let passed = self.inner.fill_buf().unwrap_or_default();
        (self.inspect)(passed.get(..amount).unwrap_or_default());
        self.inner.consume(amount);
    }
}

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FromStr for Sha256 {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let read = hex::decode_to_slice(text, &mut bytes);
        read.is_ok_and(|()| is_lower).then_some(Self(bytes)).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Invalid::new("not a SHA-256 of 64 lower-case hexadecimal digits", shown)
        })
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `hex::encode` collects single characters, which shows in the index of many files.
        let mut digits = [0; 64];
        hex::encode_to_slice(self.0, &mut digits).map_err(|_| fmt::Error)?;
        f.pad(str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

as_text!(Sha256);

/// A checksum of all bytes of an object. It detects corruption, but not tampering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum that Amazon's tools send with an upload since 2024.
    Crc64Nvme(u64),
    /// The `ETag` of an object that was uploaded in one request. It is no MD5 if the object is
    /// encrypted with a key of its own.
    Md5([u8; 16]),
}

impl Checksum {
    /// The MD5 that an `ETag` may be. The `ETag` of an object that was uploaded in parts has a `-`.
    pub fn of_etag(etag: &str) -> Option<Self> {
        if etag.len() != 32 {
            return None;
        }
        let md5 = u128::from_str_radix(etag, 16).ok()?;
        Some(Self::Md5(md5.to_be_bytes()))
    }

    /// The `ETag` that most servers give to bytes that come in one request.
    pub fn etag_of(bytes: &[u8]) -> String {
        hex::encode(Md5::digest(bytes))
    }

    /// Whether some bytes have this checksum.
    pub fn is_of(self, bytes: &[u8]) -> bool {
        let mut checking = Checking::new(self);
        checking.update(bytes);
        checking.fits()
    }
}

/// Computes a checksum incrementally and compares it with the expected one.
pub struct Checking {
    expected: Checksum,
    crc: crc_fast::Digest,
    md5: Md5,
}

impl Checking {
    /// Nothing has been hashed yet.
    pub fn new(expected: Checksum) -> Self {
        Self { expected, crc: crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme), md5: Md5::new() }
    }

    /// Hashes further bytes.
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

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_the_known_one_and_reads_back() {
        assert_eq!(Sha256::of(b"abc").to_string(), ABC);
        assert_eq!(Sha256::of_reader(&b"abc"[..]).unwrap(), (Sha256::of(b"abc"), 3));
        assert_eq!(ABC.parse(), Ok(Sha256::of(b"abc")));
    }

    #[test]
    fn a_digest_goes_on_where_another_one_was() {
        let bytes: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
        for at in [0, 1, 63, 64, 65, 4000] {
            let (first, rest) = bytes.split_at(at);
            let mut hasher = Hasher::default();
            hasher.update(first);
            let json = serde_json::to_string(&HashedStart::new(&hasher, 7)).unwrap();
            let start: HashedStart = serde_json::from_str(&json).unwrap();
            let mut going_on = start.hasher().unwrap();
            going_on.update(rest);
            assert_eq!(going_on.finish(), (Sha256::of(&bytes), 4000), "{at}");
            for state in ["", "00", &start.state[2..]] {
                assert!(
                    HashedStart { state: state.to_owned(), ..start.clone() }.hasher().is_none()
                );
            }
        }
    }

    #[test]
    fn a_digest_is_a_text_in_json() {
        let json = serde_json::to_string(&Sha256::of(b"abc")).unwrap();
        assert_eq!(json, format!("\"{ABC}\""));
        assert_eq!(serde_json::from_str::<Sha256>(&json).unwrap(), Sha256::of(b"abc"));
        assert!(serde_json::from_str::<Sha256>("\"ABC\"").is_err());
    }

    #[test]
    fn anything_but_64_lower_case_digits_is_refused() {
        let upper = ABC.to_uppercase();
        let refused = ["", "ba78", &ABC[1..], &upper, &format!("{ABC}00"), "ü"];
        for text in refused {
            assert!(text.parse::<Sha256>().is_err(), "{text}");
        }
        insta::assert_snapshot!("Abc".parse::<Sha256>().unwrap_err(), @r#"not a SHA-256 of 64 lower-case hexadecimal digits: "Abc""#);
    }

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
