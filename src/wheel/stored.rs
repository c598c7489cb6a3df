//! [`StoredMember`]: where the compressed bytes of a member are in a wheel that any tool made.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
};

use flate2::bufread::DeflateDecoder;
use zip::CompressionMethod;

use super::writer::StorageMethod;
use crate::relpath::RelPath;

const BUFFER: usize = 128 << 10;

/// A member of a wheel, without the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMember {
    pub len: u64,
    pub crc: u32,
    pub method: StorageMethod,
    /// Whether it may be executed once it is installed.
    pub executable: bool,
    /// Where its compressed bytes are in the wheel.
    pub bytes: Range<u64>,
}

/// A wheel that any tool made, as far as it is needed to write it again.
#[derive(Clone, Debug)]
pub struct ZippedWheel {
    pub members: BTreeMap<RelPath, StoredMember>,
    /// The members that installers make executable.
    pub executable: BTreeSet<RelPath>,
    /// The directory of its metadata: `rocm_sdk_core-7.14.0.dist-info`.
    pub dist_info: RelPath,
    /// The time of METADATA, in seconds since 1970. All members of our wheels have the same.
    pub time: u64,
}

impl StoredMember {
    /// Whether it can be copied as it is: [`ZipWriter`](super::ZipWriter) writes no member that is
    /// longer compressed than not.
    pub fn is_short(&self) -> bool {
        self.bytes.end.saturating_sub(self.bytes.start) <= self.len
    }

    /// Reads the content, from the wheel at its first byte.
    pub fn content<'a>(&self, mut wheel: impl Read + Seek + 'a) -> io::Result<Box<dyn Read + 'a>> {
        wheel.seek(SeekFrom::Start(self.bytes.start))?;
        let packed = wheel.take(self.bytes.end.saturating_sub(self.bytes.start));
        Ok(match self.method {
            StorageMethod::Stored => Box::new(packed),
            StorageMethod::Deflated => {
                let packed = BufReader::with_capacity(BUFFER, packed);
                Box::new(DeflateDecoder::new(packed).take(self.len))
            }
        })
    }
}

/// The reader of wheels refuses all other methods.
pub(super) fn method(compression: CompressionMethod) -> StorageMethod {
    match compression {
        CompressionMethod::Stored => StorageMethod::Stored,
        _ => StorageMethod::Deflated,
    }
}
