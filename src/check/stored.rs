//! The facts of wheels that a build has made, in `.rocwheel-facts` beside `dist`, so that `check`
//! need not read the wheels.
//!
//! | contents | bytes |
//! |---|--:|
//! | `rocwheel facts 1` and a line break | 17 |
//! | the digest of the program that wrote it | 32 |
//! | of each wheel: its SHA-256, a length (little-endian), and its facts as zstd over `MessagePack` | 32, 8, … |
//! | the SHA-256 of everything before | 32 |
//!
//! The facts of a wheel follow from its bytes and from the program. So they are found by its SHA-256,
//! and only by the program that wrote them: another one may look for more. Whether a file still has
//! that SHA-256 is known from elsewhere.

use std::{collections::BTreeMap, io::Read as _};

use rmp_serde::config::BytesMode;
use serde::{Deserialize, Serialize};

use crate::{
    check::facts::{DevelTree, MemberFacts, WheelFile},
    digest::Sha256,
    error::{Result, ensure},
};

/// The name of the file. Programs that list a directory mostly leave such names out.
pub const FACTS_FILE: &str = ".rocwheel-facts";
/// The longest file that is read: a set of 100,000 members has 5 MiB.
pub const LONGEST_FACTS: u64 = 256 << 20;

const MAGIC: &[u8; 17] = b"rocwheel facts 1\n";
const DIGEST: usize = 32;
/// The most bytes that the facts of one wheel may unpack to.
const LONGEST_WHEEL: u64 = 1 << 30;
const LEVEL: i32 = 3;

/// The facts of several wheels, by the SHA-256 of the wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFacts {
    program: Sha256,
    wheels: BTreeMap<Sha256, Vec<u8>>,
}

/// What is stored of a wheel. The rest follows from its name, its size and its digest.
#[derive(Deserialize)]
pub(super) struct StoredWheel {
    pub(super) members: Vec<MemberFacts>,
    pub(super) devel: Option<DevelTree>,
}

/// [`StoredWheel`], as it is written.
#[derive(Serialize)]
struct WheelContents<'a> {
    members: &'a [MemberFacts],
    devel: &'a Option<DevelTree>,
}

impl StoredFacts {
    /// No facts, for those of this program.
    pub fn new(program: Sha256) -> Self {
        Self {
            program,
            wheels: BTreeMap::new(),
        }
    }

    /// Reads what [`StoredFacts::to_bytes`] wrote. Returns no facts if another program wrote them,
    /// or if a single byte has changed.
    pub fn parse(bytes: &[u8], program: Sha256) -> Self {
        let mut this = Self::new(program);
        this.wheels = this.read(bytes).unwrap_or_default();
        this
    }

    fn read(&self, bytes: &[u8]) -> Option<BTreeMap<Sha256, Vec<u8>>> {
        let (bytes, sum) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST)?)?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let mut rest = rest.strip_prefix(self.program.bytes())?;
        if Sha256::of(bytes).bytes() != sum {
            return None;
        }
        let mut wheels = BTreeMap::new();
        while !rest.is_empty() {
            let (sha256, after) = rest.split_first_chunk::<DIGEST>()?;
            let (len, after) = after.split_first_chunk()?;
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            let (facts, after) = after.split_at_checked(len)?;
            wheels.insert(Sha256::from(*sha256), facts.to_vec());
            rest = after;
        }
        Some(wheels)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], self.program.bytes()].concat();
        for (sha256, facts) in &self.wheels {
            bytes.extend(sha256.bytes());
            bytes.extend((facts.len() as u64).to_le_bytes());
            bytes.extend(facts);
        }
        let sum = Sha256::of(&bytes);
        bytes.extend(sum.bytes());
        bytes
    }

    /// The same, for the facts of other wheels.
    pub(super) fn without_wheels(&self) -> Self {
        Self::new(self.program)
    }

    /// Takes the facts of a wheel over from another build.
    pub(super) fn take(&mut self, sha256: Sha256, earlier: &Self) {
        let facts = earlier.wheels.get(&sha256);
        self.wheels
            .extend(facts.map(|facts| (sha256, facts.clone())));
    }

    pub(super) fn add(&mut self, sha256: Sha256, wheel: &WheelFile) -> Result<()> {
        let contents = WheelContents {
            members: &wheel.members,
            devel: &wheel.devel,
        };
        let mut packed = zstd::Encoder::new(Vec::new(), LEVEL)?;
        let mut out = rmp_serde::Serializer::new(&mut packed).with_bytes(BytesMode::ForceIterables);
        contents.serialize(&mut out)?;
        self.wheels.insert(sha256, packed.finish()?);
        Ok(())
    }

    /// The facts of the wheel with this digest, if they are there and can be read.
    pub(super) fn wheel(&self, sha256: Sha256) -> Option<StoredWheel> {
        unpacked(self.wheels.get(&sha256)?).ok()
    }
}

fn unpacked(facts: &[u8]) -> Result<StoredWheel> {
    let mut plain = Vec::new();
    let source = zstd::Decoder::new(facts)?;
    source
        .take(LONGEST_WHEEL.saturating_add(1))
        .read_to_end(&mut plain)?;
    ensure!(
        plain.len() as u64 <= LONGEST_WHEEL,
        "facts of more than {LONGEST_WHEEL} bytes"
    );
    let mut from = rmp_serde::Deserializer::from_read_ref(&plain);
    Ok(StoredWheel::deserialize(&mut from)?)
}

/// The facts of the wheels of a place that need not be read, by their path there.
#[derive(Debug, Default)]
pub struct KnownWheels {
    wheels: BTreeMap<String, Sha256>,
    stored: Option<StoredFacts>,
}

impl KnownWheels {
    /// `wheels` are the files that have these digests for sure.
    pub fn new(wheels: BTreeMap<String, Sha256>, stored: StoredFacts) -> Self {
        Self {
            wheels,
            stored: Some(stored),
        }
    }

    pub(super) fn find(&self, path: &str) -> Option<(Sha256, StoredWheel)> {
        let sha256 = *self.wheels.get(path)?;
        Some((sha256, self.stored.as_ref()?.wheel(sha256)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::facts::{
        CheckedPackage, ContentFacts, DeviceCodeFacts, Elf, ElfFile, MemberKind,
    };

    fn program() -> Sha256 {
        Sha256::of(b"program")
    }

    fn wheel() -> WheelFile {
        let content = ContentFacts {
            len: 3,
            sha256: Some(Sha256::of(b"abc")),
            kept: Some(vec![0, 200, 255]),
            elf: Some(Elf::Read(Box::new(ElfFile {
                facts: crate::elf::ElfFacts::default(),
                faults: vec!["a fault".to_owned()],
                launches: None,
            }))),
            code: DeviceCodeFacts::Objects(["gfx942".parse().unwrap()].into()),
            imports: Some(Err("why".to_owned())),
        };
        WheelFile {
            package: CheckedPackage {
                file: "a.whl".to_owned(),
                size: 1,
                name: Err(String::new()),
                digest: None,
            },
            faults: Vec::new(),
            members: vec![MemberFacts {
                path: "a/b".to_owned(),
                kind: MemberKind::File,
                mode: 0o644,
                content: Ok(content),
            }],
            devel: None,
        }
    }

    fn stored() -> StoredFacts {
        let mut stored = StoredFacts::new(program());
        stored.add(Sha256::of(b"wheel"), &wheel()).unwrap();
        stored
    }

    #[test]
    fn every_byte_counts() {
        let bytes = stored().to_bytes();
        let found = StoredFacts::parse(&bytes, program());
        let members = found.wheel(Sha256::of(b"wheel")).unwrap().members;
        assert_eq!(format!("{members:?}"), format!("{:?}", wheel().members));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x20;
            for bytes in [&other, &bytes[..at]] {
                let found = StoredFacts::parse(bytes, program());
                assert!(found == StoredFacts::new(program()), "{at}");
            }
        }
    }

    proptest! {
        /// A program that writes the file can write its checksum, too.
        #[test]
        fn any_facts_with_a_checksum_are_read_or_refused(
            changes in proptest::collection::vec((57_usize..400, any::<u8>()), 1..20)
        ) {
            let mut bytes = stored().to_bytes();
            bytes.truncate(bytes.len() - DIGEST);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let sum = Sha256::of(&bytes);
            bytes.extend(sum.bytes());
            let found = StoredFacts::parse(&bytes, program());
            for sha256 in found.wheels.keys() {
                let _ = found.wheel(*sha256);
            }
        }

        #[test]
        fn any_unpacked_facts_are_read_or_refused(
            changes in proptest::collection::vec((0_usize..400, any::<u8>()), 1..20)
        ) {
            let stored = stored();
            let packed = stored.wheels.values().next().unwrap();
            let mut plain = zstd::decode_all(&packed[..]).unwrap();
            for (at, value) in changes {
                if let Some(byte) = plain.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = unpacked(&zstd::encode_all(&plain[..], 1).unwrap());
        }
    }
}
