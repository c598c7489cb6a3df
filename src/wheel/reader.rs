//! `WheelReader` reads a wheel and verifies it against its RECORD
//! ([PEP 427](https://peps.python.org/pep-0427/)).
//!
//! A wheel is untrusted input: sizes are not believed, names are validated, and everything that is
//! kept in memory has a limit.

use std::{
    collections::HashMap,
    io::{self, Read, Seek, SeekFrom, Write as _},
};

use zip::{CompressionMethod, ZipArchive, read::ZipFileEntry, result::ZipError};

use crate::{
    digest::{Hasher, Sha256},
    error::Invalid,
    relpath::RelPath,
    wheel::{
        metadata::{InvalidMetadata, Metadata},
        record::{InvalidRecord, Mismatch, Record},
        writer::{FileMode, WheelMember},
    },
};

#[cfg(test)]
mod tests;

/// A wheel whose central directory was read and is valid.
#[derive(Debug)]
pub struct WheelReader<R> {
    archive: ZipArchive<R>,
    members: Vec<WheelMember>,
    /// The index of each file in the archive. It differs from that in `members`, because archives
    /// also have entries for directories.
    places: HashMap<RelPath, usize>,
    dist_info: RelPath,
}

/// Why a file is not a valid wheel.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    #[error("not a zip archive that can be trusted")]
    Archive(#[from] ZipError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("an archive that does not begin with the first byte of the file")]
    Before,
    #[error("an archive that does not end with the last byte of the file")]
    Behind,
    #[error("two members of one name")]
    Twice,
    #[error("a member that must not be extracted")]
    Name(#[from] Invalid),
    #[error("a member that an installer cannot read: `{path}` is {what}")]
    Unsupported { path: RelPath, what: &'static str },
    #[error("a wheel has one `.dist-info` directory: found {}", list(.0))]
    DistInfo(Vec<String>),
    #[error("no `{0}` in the wheel")]
    Missing(RelPath),
    #[error("`{path}` has more than {limit} bytes")]
    TooLong { path: RelPath, limit: u64 },
    #[error(transparent)]
    Metadata(#[from] InvalidMetadata),
    #[error(transparent)]
    Record(#[from] InvalidRecord),
}

/// A difference between a wheel and its RECORD.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("`{0}` is in RECORD, but not in the wheel")]
    Missing(RelPath),
    #[error("`{0}` is in the wheel, but not in RECORD")]
    Unlisted(RelPath),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error("`{path}` cannot be read to its end")]
    Unreadable {
        path: RelPath,
        #[source]
        reason: io::Error,
    },
}

/// Size limit for the text files of a wheel. RECORD is the largest, with about 100 bytes per file.
const TEXT: u64 = 64 << 20;

impl<R: Read + Seek> WheelReader<R> {
    /// Reads the central directory and compares it with the local header of each member.
    pub fn new(reader: R) -> Result<Self, WheelError> {
        let mut archive = archive(reader)?;
        archive.validate_header_consistency()?;
        Self::of(archive)
    }

    /// Reads the central directory only. It is at the end of the file, so a remote wheel needs only
    /// a few requests before its metadata can be read.
    pub fn from_directory(reader: R) -> Result<Self, WheelError> {
        Self::of(archive(reader)?)
    }

    fn of(archive: ZipArchive<R>) -> Result<Self, WheelError> {
        let mut members = Vec::new();
        let mut places = HashMap::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_data(index)?;
            if entry.is_dir() {
                continue;
            }
            let member = member(&entry)?;
            // The check for duplicates in `archive` compares bytes. Here, two encodings of one name
            // are the same name.
            if places.insert(member.path.clone(), index).is_some() {
                return Err(WheelError::Twice);
            }
            members.push(member);
        }
        Ok(Self {
            dist_info: dist_info(&members)?,
            archive,
            members,
            places,
        })
    }

    /// The files in the order of the archive, without directories.
    pub fn members(&self) -> &[WheelMember] {
        &self.members
    }

    /// The `.dist-info` directory.
    pub fn dist_info(&self) -> &RelPath {
        &self.dist_info
    }

    /// Reads a member. Fails if it is longer than `limit`.
    pub fn read(&mut self, path: &RelPath, limit: u64) -> Result<Vec<u8>, WheelError> {
        let mut bytes = Vec::new();
        // The length in the central directory may be false, so count what is really read.
        self.open(path)?
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(WheelError::TooLong {
                path: path.clone(),
                limit,
            });
        }
        Ok(bytes)
    }

    /// Reads a file of the `.dist-info` directory.
    pub fn read_dist_info(&mut self, name: &str) -> Result<Vec<u8>, WheelError> {
        let path = self.own(name)?;
        self.read(&path, TEXT)
    }

    /// Reads METADATA as it is; an index serves the same bytes beside the wheel
    /// ([PEP 658](https://peps.python.org/pep-0658/)).
    pub fn metadata_bytes(&mut self) -> Result<Vec<u8>, WheelError> {
        self.read_dist_info("METADATA")
    }

    pub fn metadata(&mut self) -> Result<Metadata, WheelError> {
        Ok(Metadata::parse(&self.metadata_bytes()?)?)
    }

    pub fn record(&mut self) -> Result<Record, WheelError> {
        Ok(Record::parse(&self.read_dist_info("RECORD")?)?)
    }

    /// SHA-256 and length of a member. It reads at most one byte more than the stated length.
    pub fn digest(&mut self, member: &WheelMember) -> Result<(Sha256, u64), WheelError> {
        let mut source = self.open(&member.path)?.take(member.len.saturating_add(1));
        let mut hasher = Hasher::default();
        io::copy(&mut source, &mut hasher)?;
        hasher.flush()?;
        Ok(hasher.finish())
    }

    /// Compares every member with RECORD and returns all differences, not only the first.
    pub fn verify(&mut self) -> Result<Vec<Fault>, WheelError> {
        let record = self.record()?;
        let own = self.own("RECORD")?;
        let mut faults = Vec::new();
        let mut rows: HashMap<&RelPath, _> =
            record.rows().iter().map(|row| (&row.path, row)).collect();
        for member in self.members.clone() {
            let Some(row) = rows.remove(&member.path) else {
                faults.extend(
                    (!is_signature(&member.path, &own)).then_some(Fault::Unlisted(member.path)),
                );
                continue;
            };
            if member.path == own {
                continue;
            }
            match self.digest(&member) {
                Ok((digest, len)) => faults.extend(row.verify(digest, len).err().map(Fault::from)),
                Err(WheelError::Io(reason)) => faults.push(Fault::Unreadable {
                    path: member.path,
                    reason,
                }),
                Err(error) => return Err(error),
            }
        }
        let missing = record
            .rows()
            .iter()
            .filter(|row| rows.contains_key(&row.path));
        faults.extend(missing.map(|row| Fault::Missing(row.path.clone())));
        Ok(faults)
    }

    fn open(&mut self, path: &RelPath) -> Result<impl Read, WheelError> {
        let index = self
            .places
            .get(path)
            .ok_or_else(|| WheelError::Missing(path.clone()))?;
        Ok(self.archive.by_index(*index)?)
    }

    fn own(&self, name: &str) -> Result<RelPath, WheelError> {
        Ok(self.dist_info.join(&name.parse()?))
    }
}

fn archive<R: Read + Seek>(mut reader: R) -> Result<ZipArchive<R>, WheelError> {
    check_end(&mut reader)?;
    let archive = ZipArchive::new(reader)?;
    if archive.offset() != 0 {
        return Err(WheelError::Before);
    }
    if archive.has_duplicate_names() {
        return Err(WheelError::Twice);
    }
    Ok(archive)
}

/// Checks that the end of central directory record, without a comment, is the end of the file.
/// Installers search for this record in different ways: with data or a comment behind it, two of
/// them could find different records, and so install different files.
fn check_end(reader: &mut (impl Read + Seek)) -> Result<(), WheelError> {
    let mut end = [0; 22];
    let found = reader
        .seek(SeekFrom::End(-22))
        .and_then(|_| reader.read_exact(&mut end));
    // A file that is too short for the record is not an error here: opening the archive fails and
    // has the better message.
    if found.is_ok() && !(end.starts_with(b"PK\x05\x06") && end.ends_with(&[0, 0])) {
        return Err(WheelError::Behind);
    }
    Ok(())
}

fn member(entry: &ZipFileEntry) -> Result<WheelMember, WheelError> {
    let path: RelPath = entry.name()?.parse()?;
    let what = if entry.encrypted() {
        "encrypted"
    } else if entry.is_symlink() {
        "a link"
    } else if !matches!(
        entry.compression(),
        CompressionMethod::Stored | CompressionMethod::Deflated
    ) {
        "neither stored nor deflated"
    } else {
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        return Ok(WheelMember {
            path,
            mode: if executable {
                FileMode::Executable
            } else {
                FileMode::Regular
            },
            len: entry.size(),
        });
    };
    Err(WheelError::Unsupported { path, what })
}

fn dist_info(members: &[WheelMember]) -> Result<RelPath, WheelError> {
    let mut found: Vec<RelPath> = members
        .iter()
        .filter_map(|member| member.path.ancestors().next())
        .filter(|top| matches!(top.as_str().rsplit_once('.'), Some((_, "dist-info"))))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        last => Err(WheelError::DistInfo(
            found.iter().chain(&last).map(RelPath::to_string).collect(),
        )),
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Whether a file is a signature of RECORD (`RECORD.jws`, `RECORD.p7s`), which RECORD cannot list.
fn is_signature(path: &RelPath, record: &RelPath) -> bool {
    let rest = path.as_str().strip_prefix(record.as_str());
    matches!(rest, Some(".jws" | ".p7s"))
}
