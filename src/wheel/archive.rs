//! [`Archive`]: a wheel that any tool made, as far as it is needed to write it again: its members, and
//! where their compressed bytes are.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
};

use flate2::bufread::DeflateDecoder;
use zip::CompressionMethod;

use super::{reader::OpenWheel, writer::StorageMethod};
use crate::{
    error::{Result, ensure},
    relpath::RelPath,
};

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

/// The members of a wheel by their paths. The reader refuses what installers would read in different
/// ways.
#[derive(Clone, Debug)]
pub struct Archive {
    pub members: BTreeMap<RelPath, StoredMember>,
    /// The directory of its metadata: `rocm_sdk_core-7.14.0.dist-info`.
    pub dist_info: RelPath,
    /// The time of METADATA, in seconds since 1970. All members of our wheels have the same.
    pub time: u64,
}

impl Archive {
    pub fn read(wheel: impl Read + Seek) -> Result<Self> {
        OpenWheel::new(wheel)?.members()
    }

    /// The content of a member, of which at most `limit` bytes are read. `None` if there is no such member.
    pub fn bytes(
        &self,
        wheel: impl Read + Seek,
        path: &RelPath,
        limit: u64,
    ) -> Result<Option<Vec<u8>>> {
        let Some(member) = self.members.get(path) else {
            return Ok(None);
        };
        ensure!(member.len <= limit, "`{path}` has more than {limit} bytes");
        let mut bytes = Vec::new();
        let content = member.content(wheel)?;
        content
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        ensure!(
            bytes.len() as u64 == member.len,
            "`{path}` has another length than the archive says"
        );
        Ok(Some(bytes))
    }

    /// Whether a member is RECORD, which is always written again, or a signature of it.
    pub fn is_record(&self, path: &RelPath) -> bool {
        let name = path.as_str().strip_prefix(self.dist_info.as_str());
        matches!(name, Some("/RECORD" | "/RECORD.jws" | "/RECORD.p7s"))
    }

    /// The path of a member in a wheel whose metadata are in another directory: the directories of
    /// metadata and data have the version in their names.
    pub fn renamed(&self, path: &RelPath, dist_info: &RelPath) -> Result<RelPath> {
        let data = |it: &RelPath| it.as_str().replace(".dist-info", ".data");
        let Some((top, rest)) = path.as_str().split_once('/') else {
            return Ok(path.clone());
        };
        Ok(if top == self.dist_info.as_str() {
            format!("{dist_info}/{rest}").parse()?
        } else if top == data(&self.dist_info) {
            format!("{}/{rest}", data(dist_info)).parse()?
        } else {
            path.clone()
        })
    }
}

impl StoredMember {
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
