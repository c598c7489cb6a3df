//! Opens a wheel, and reads its METADATA ([PEP 427](https://peps.python.org/pep-0427/)).
//!
//! A wheel is untrusted input: sizes are not believed, names are validated, and what is kept in
//! memory has a limit.

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Seek, SeekFrom},
};

use time::{Date, Month};
use zip::{CompressionMethod, DateTime, ZipArchive, read::ZipFileEntry};

use super::archive::{Archive, StoredMember, method};
use crate::{
    error::{Context as _, Result, bail, ensure},
    relpath::RelPath,
};

/// Reads METADATA as it is; an index serves the same bytes beside the wheel
/// ([PEP 658](https://peps.python.org/pep-0658/)). Fails if it is longer than `limit`.
///
/// Reads the central directory and METADATA only. The directory is at the end of the file, so a
/// remote wheel needs only a few requests.
pub fn read_metadata(reader: impl Read + Seek, limit: u64) -> Result<Vec<u8>> {
    OpenWheel::new(reader)?.text("METADATA", limit)
}

/// The time of a member in seconds since 1970. `None` if no calendar has it.
fn seconds(time: DateTime) -> Option<u64> {
    let month = Month::try_from(time.month()).ok()?;
    let day = Date::from_calendar_date(time.year().into(), month, time.day()).ok()?;
    let time = day
        .with_hms(time.hour(), time.minute(), time.second())
        .ok()?;
    u64::try_from(time.assume_utc().unix_timestamp()).ok()
}

/// A wheel in which every member has a name that an installer accepts, once.
pub(super) struct OpenWheel<R> {
    archive: ZipArchive<R>,
    places: HashMap<RelPath, usize>,
    dist_info: RelPath,
}

impl<R: Read + Seek> OpenWheel<R> {
    pub(super) fn new(mut reader: R) -> Result<Self> {
        check_end(&mut reader)?;
        let archive = ZipArchive::new(reader);
        let archive = archive.context("not a zip archive that can be trusted")?;
        ensure!(
            archive.offset() == 0,
            "an archive that does not begin with the first byte of the file"
        );
        ensure!(!archive.has_duplicate_names(), "two members of one name");
        let (mut places, mut found) = (HashMap::new(), Vec::new());
        for index in 0..archive.len() {
            let entry = archive.by_index_data(index)?;
            if entry.is_dir() {
                continue;
            }
            let path: RelPath = entry
                .name()?
                .parse()
                .context("a member that must not be extracted")?;
            let is_packed = !matches!(
                entry.compression(),
                CompressionMethod::Stored | CompressionMethod::Deflated
            );
            ensure!(
                !is_packed && !entry.encrypted() && !entry.is_symlink(),
                "a member that an installer cannot read: `{path}`"
            );
            let top = path.ancestors().next();
            found.extend(top.filter(|top| top.as_str().ends_with(".dist-info")));
            // The archive compares the bytes of names. Here, two encodings of one name are the same.
            ensure!(
                places.insert(path, index).is_none(),
                "two members of one name"
            );
        }
        found.sort_unstable();
        found.dedup();
        let [dist_info] = &found[..] else {
            bail!(
                "a wheel has one `.dist-info` directory: found {}",
                found.len()
            );
        };
        let dist_info = dist_info.clone();
        Ok(Self {
            archive,
            places,
            dist_info,
        })
    }

    /// Reads a file of the `.dist-info` directory. Fails if it is longer than `limit`.
    pub(super) fn text(&mut self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let path = self.dist_info.join(&name.parse()?);
        let index = self.places.get(&path).copied();
        let index = index.with_context(|| format!("no `{path}` in the wheel"))?;
        let mut bytes = Vec::new();
        // The length in the central directory may be false, so count what is really read.
        let entry = self.archive.by_index(index)?;
        entry
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)?;
        ensure!(
            bytes.len() as u64 <= limit,
            "`{path}` has more than {limit} bytes"
        );
        Ok(bytes)
    }

    /// All members, with the places of their compressed bytes. The local header of each is read, since
    /// only it says where they begin.
    pub(super) fn members(mut self) -> Result<Archive> {
        let mut members = BTreeMap::new();
        for (path, index) in &self.places {
            let entry = self.archive.by_index_raw(*index)?;
            let packed = entry.compressed_size();
            let start = entry.data_start();
            let bytes = start.and_then(|start| Some(start..start.checked_add(packed)?));
            let member = StoredMember {
                len: entry.size(),
                crc: entry.crc32(),
                method: method(entry.compression()),
                executable: entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0),
                bytes: bytes.context("a member beyond the end of any file")?,
            };
            members.insert(path.clone(), member);
        }
        let metadata = self.dist_info.join(&"METADATA".parse()?);
        let entry = self.entry(&metadata)?;
        let time = entry.and_then(|it| seconds(it.last_modified()?));
        Ok(Archive {
            members,
            time: time.unwrap_or_default(),
            dist_info: self.dist_info,
        })
    }

    /// What the central directory says about a member; `None` if it has no such member.
    pub(super) fn entry(&self, path: &RelPath) -> Result<Option<ZipFileEntry<'_>>> {
        let index = self.places.get(path);
        let entry = index.map(|index| self.archive.by_index_data(*index));
        Ok(entry.transpose()?)
    }
}

/// Checks that the end of central directory record, without a comment, is the end of the file.
/// Installers search for this record in different ways: with data or a comment behind it, two of
/// them could find different records, and so install different files.
fn check_end(reader: &mut (impl Read + Seek)) -> Result<()> {
    let mut end = [0; 22];
    let found = reader
        .seek(SeekFrom::End(-22))
        .and_then(|_| reader.read_exact(&mut end));
    // A file that is too short for the record is not an error here: opening the archive fails and
    // has the better message.
    ensure!(
        found.is_err() || (end.starts_with(b"PK\x05\x06") && end.ends_with(&[0, 0])),
        "an archive that does not end with the last byte of the file"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::wheel::{StorageMethod, WheelMember, ZipWriter, specimen::prose};

    const METADATA: &str = "Metadata-Version: 2.4\nName: x\nVersion: 1\n";

    /// What is in the wheel of the tests.
    fn files() -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("x/__init__.py", Vec::new()),
            ("x/lib.so", prose(3_000, 1)),
            ("x/é, \"q\"", b"odd".to_vec()),
            ("x-1.dist-info/METADATA", METADATA.into()),
        ]
    }

    fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::default(), 0);
        for (name, content) in files {
            let member = WheelMember {
                path: name.parse().unwrap(),
                executable: false,
                len: content.len() as u64,
            };
            let crc = crc32fast::hash(content);
            let written = writer.add(&member, StorageMethod::Stored, crc, content);
            written.unwrap();
        }
        writer.finish().unwrap().out.into_inner()
    }

    fn good() -> Vec<u8> {
        archive(&files())
    }

    fn read(bytes: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        read_metadata(Cursor::new(bytes.as_ref()), 1_000)
    }

    fn refusal(bytes: impl AsRef<[u8]>) -> String {
        format!("{:#}", read(bytes).unwrap_err())
    }

    /// The bytes with every occurrence of some of them replaced by as many others.
    fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
        assert_eq!(from.len(), to.len());
        let mut bytes = bytes.to_vec();
        let places: Vec<usize> = (0..bytes.len())
            .filter(|at| bytes[*at..].starts_with(from))
            .collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        bytes
    }

    /// The bytes with a number changed in each header of one kind: the local ones or the central ones.
    fn patched(bytes: &[u8], signature: [u8; 4], at: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for place in 0..bytes.len() {
            if bytes[place..].starts_with(&signature) {
                bytes[place + at..][..value.len()].copy_from_slice(value);
            }
        }
        bytes
    }

    const LOCAL: [u8; 4] = *b"PK\x03\x04";
    const CENTRAL: [u8; 4] = *b"PK\x01\x02";

    #[test]
    fn metadata_is_read_as_it_is_up_to_a_limit() {
        assert_eq!(read(good()).unwrap(), METADATA.as_bytes());
        let short = read_metadata(Cursor::new(good()), 40).unwrap_err();
        let none = archive(&[("x-1.dist-info/RECORD", Vec::new())]);
        insta::assert_snapshot!(format!("{short}\n{}", refusal(none)), @"
        `x-1.dist-info/METADATA` has more than 40 bytes
        no `x-1.dist-info/METADATA` in the wheel
        ");
    }

    #[test]
    fn an_archive_that_readers_could_understand_in_two_ways_is_refused() {
        let good = good();
        let twice = archive(&[files(), files()[..1].to_vec()].concat());
        let mut comment = good.clone();
        let len = comment.len();
        comment[len - 2] = 3;
        comment.extend(b"PK!");
        let messages = [
            refusal([b"#!/bin/sh\n", &good[..]].concat()),
            refusal([&good[..], b"\0"].concat()),
            refusal([&good[..], &good[..]].concat()),
            refusal(comment),
            refusal(twice),
        ];
        insta::assert_snapshot!(messages.join("\n"), @"
        an archive that does not begin with the first byte of the file
        an archive that does not end with the last byte of the file
        an archive that does not begin with the first byte of the file
        an archive that does not end with the last byte of the file
        two members of one name
        ");
    }

    #[test]
    fn a_member_that_an_installer_must_not_extract_is_refused() {
        let good = good();
        let both =
            |at, value: &[u8]| patched(&patched(&good, LOCAL, at, value), CENTRAL, at + 2, value);
        let messages = [
            refusal(replaced(&good, b"x/lib.so", b"../ib.so")),
            refusal(replaced(&good, b"x/lib.so", b"/etc/pwd")),
            refusal(replaced(&good, b"x/lib.so", b"x\\lib.so")),
            refusal(replaced(&good, b"x/lib.so", b"C:lib.\0o")),
            refusal(both(8, &[12, 0])),
            refusal(both(6, &[1, 0])),
            refusal(patched(
                &good,
                CENTRAL,
                38,
                &(0o120_777_u32 << 16).to_le_bytes(),
            )),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        a member that must not be extracted: a path with `..`: "../ib.so"
        a member that must not be extracted: an absolute path: "/etc/pwd"
        a member that must not be extracted: a backslash in a path: "x\\lib.so"
        a member that must not be extracted: a NUL in a path: "C:lib.\0o"
        a member that an installer cannot read: `x/__init__.py`
        a member that an installer cannot read: `x/__init__.py`
        a member that an installer cannot read: `x/__init__.py`
        "#);
    }

    #[test]
    fn what_is_no_wheel_is_refused_in_words() {
        let messages = [
            refusal(b""),
            refusal(b"not a zip"),
            refusal(vec![0; 1_000]),
            refusal(archive(&[])),
            refusal(archive(&[("x/a", Vec::new()), ("a.dist-info", Vec::new())])),
            refusal(archive(&[
                ("a.dist-info/METADATA", Vec::new()),
                ("b.dist-info/METADATA", Vec::new()),
            ])),
        ];
        insta::assert_snapshot!(messages.join("\n"), @"
        not a zip archive that can be trusted: invalid Zip archive: Could not find EOCD
        not a zip archive that can be trusted: invalid Zip archive: Could not find EOCD
        an archive that does not end with the last byte of the file
        a wheel has one `.dist-info` directory: found 0
        a wheel has one `.dist-info` directory: found 0
        a wheel has one `.dist-info` directory: found 2
        ");
    }

    #[test]
    fn a_wheel_cut_short_anywhere_is_refused() {
        let good = good();
        for len in 0..good.len() {
            assert!(read(&good[..len]).is_err(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wheel_or_an_error(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
            let mut bytes = good();
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            let _ = read(bytes);
        }
    }
}
