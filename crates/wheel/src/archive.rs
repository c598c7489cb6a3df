//! [`Archive`]: a wheel that any tool made ([PEP 427](https://peps.python.org/pep-0427/)), as far as it is
//! needed to read single members and to write it again.
//!
//! A wheel is untrusted input: sizes are not believed, names are validated, what is kept in memory has a
//! limit, and an archive that installers would read in different ways is refused.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
};

use flate2::bufread::DeflateDecoder;
use time::{Date, Month};

use super::{
    Record,
    directory::{Directory, DirectoryEntry, LocalHeader, MemberKind},
    name::VariantLabel,
    variant::{VARIANT_JSON, VariantDocument},
    writer::StorageMethod,
};
use rocwheel_base::{
    error::{Context as _, Result, bail, ensure},
    io::buffered,
    relpath::RelPath,
};

const BUFFER: usize = 128 << 10;

/// A member of a wheel, without the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMember {
    /// The uncompressed size.
    pub len: u64,
    /// The CRC-32 of the uncompressed bytes, as the directory of the archive states it. It is not
    /// checked before the bytes are read.
    pub crc: u32,
    /// How it is compressed.
    pub method: StorageMethod,
    /// Whether it may be executed once it is installed.
    pub executable: bool,
    /// Where its compressed bytes are in the wheel.
    pub bytes: Range<u64>,
}

/// The members of a wheel by their paths.
#[derive(Clone, Debug)]
pub struct Archive {
    /// All files, without entries for directories.
    pub members: BTreeMap<RelPath, StoredMember>,
    /// The directory of its metadata: `rocm_sdk_core-7.14.0.dist-info`.
    pub dist_info: RelPath,
    /// The time of METADATA, in seconds since 1970. All members of our wheels have the same.
    pub time: u64,
}

/// Reads METADATA as it is; an index serves the same bytes beside the wheel
/// ([PEP 658](https://peps.python.org/pep-0658/)). Fails if it is longer than `limit`.
///
/// Reads the directory of the archive and METADATA only. The directory is at the end of the file, so a
/// remote wheel needs only a few requests.
pub fn read_metadata(wheel: impl Read + Seek, limit: u64) -> Result<Vec<u8>> {
    read_dist_info(wheel, "METADATA", limit)
}

/// Reads RECORD, and of the rest only the directory of the archive.
pub fn read_record(wheel: impl Read + Seek) -> Result<Record> {
    Record::parse(&read_dist_info(wheel, "RECORD", RECORD_LIMIT)?)
}

/// What the label of a variant wheel means, and of the rest only the directory of the archive.
pub fn read_variant(wheel: impl Read + Seek, label: &VariantLabel) -> Result<VariantDocument> {
    VariantDocument::of_wheel(&read_dist_info(wheel, VARIANT_JSON, VARIANT_LIMIT)?, label)
}

/// Reads a file of the metadata, and RECORD, and of the rest only the directory of the archive. `None` if there is no such
/// file.
pub fn read_with_record(
    mut wheel: impl Read + Seek,
    name: &str,
    limit: u64,
) -> Result<Option<(Vec<u8>, Record)>> {
    let directory = directory(&mut wheel)?;
    let (files, dist_info) = files(&directory)?;
    if !files.contains_key(&dist_info.join(&name.parse()?)) {
        return Ok(None);
    }
    let bytes = read_dist_info(&mut wheel, name, limit)?;
    Ok(Some((bytes, read_record(wheel)?)))
}

/// The longest `variant.json` that is read. It has one label.
pub const VARIANT_LIMIT: u64 = 1 << 20;

/// The longest RECORD that is read. It has about 150 bytes for each file.
const RECORD_LIMIT: u64 = 256 << 20;

fn read_dist_info(mut wheel: impl Read + Seek, name: &str, limit: u64) -> Result<Vec<u8>> {
    let directory = directory(&mut wheel)?;
    let (files, dist_info) = files(&directory)?;
    let path = dist_info.join(&name.parse()?);
    let entry = files.get(&path).with_context(|| format!("no `{path}` in the wheel"))?;
    StoredMember::read(&mut wheel, entry)?.whole(wheel, &path, limit)
}

/// The directory of a wheel, in which nothing contradicts anything else.
fn directory(wheel: &mut (impl Read + Seek)) -> Result<Directory> {
    let size = wheel.seek(SeekFrom::End(0))?;
    let mut read = |range: Range<u64>| {
        wheel.seek(SeekFrom::Start(range.start))?;
        let len = usize::try_from(range.end.saturating_sub(range.start));
        let mut bytes = vec![0; len.map_err(io::Error::other)?];
        wheel.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let directory = Directory::read(size, &mut read).context("not a wheel that can be read")?;
    if let Some(bytes) = directory.around.first() {
        bail!("{bytes} bytes around the archive, in which other readers could find another one");
    }
    if let Some(what) = directory.contradictions.first() {
        bail!("readers could understand the archive in different ways: {what}");
    }
    Ok(directory)
}

/// The files of a directory by their paths, each of which an installer accepts, and the directory of the
/// metadata.
fn files(directory: &Directory) -> Result<(BTreeMap<RelPath, &DirectoryEntry>, RelPath)> {
    let mut files = BTreeMap::new();
    let mut dist_infos = Vec::new();
    for entry in &directory.entries {
        if entry.kind == MemberKind::Directory {
            continue;
        }
        let path: RelPath = entry.path.parse().context("a member that must not be extracted")?;
        ensure!(
            StorageMethod::of(entry.method).is_some()
                && !entry.is_encrypted()
                && entry.kind == MemberKind::File,
            "a member that an installer cannot read: `{path}`"
        );
        let top = path.ancestors().next();
        dist_infos.extend(top.filter(|top| top.as_str().ends_with(".dist-info")));
        files.insert(path, entry);
    }
    dist_infos.sort_unstable();
    dist_infos.dedup();
    match &dist_infos[..] {
        [dist_info] => Ok((files, dist_info.clone())),
        several => bail!("a wheel has one `.dist-info` directory: found {}", several.len()),
    }
}

/// A time of MS-DOS in seconds since 1970. `None` if no calendar has it.
fn seconds(time: u32) -> Option<u64> {
    let field = |at: u32, bits: u32| u8::try_from(time >> at & ((1 << bits) - 1)).ok();
    let month = Month::try_from(field(21, 4)?).ok()?;
    let year = 1980 + i32::from(field(25, 7)?);
    let day = Date::from_calendar_date(year, month, field(16, 5)?).ok()?;
    let time = day.with_hms(field(11, 5)?, field(5, 6)?, field(0, 5)? * 2).ok()?;
    u64::try_from(time.assume_utc().unix_timestamp()).ok()
}

impl Archive {
    /// Reads the directory of the archive and the header of each member, and no contents. Fails if two
    /// readers could see different wheels.
    pub fn read(mut wheel: impl Read + Seek) -> Result<Self> {
        let directory = directory(&mut wheel)?;
        let (files, dist_info) = files(&directory)?;
        let metadata = dist_info.join(&"METADATA".parse()?);
        let time = files.get(&metadata).and_then(|it| seconds(it.time));
        // A local header and what follows it are read at once.
        let mut wheel = BufReader::with_capacity(512, wheel);
        let members = files
            .into_iter()
            .map(|(path, entry)| Ok((path, StoredMember::read(&mut wheel, entry)?)));
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            time: time.unwrap_or_default(),
            dist_info,
        })
    }

    /// The content of a member, of which at most `limit` bytes are read. `None` if there is no such member.
    pub fn bytes(
        &self,
        wheel: impl Read + Seek,
        path: &RelPath,
        limit: u64,
    ) -> Result<Option<Vec<u8>>> {
        let member = self.members.get(path);
        member.map(|it| it.whole(wheel, path, limit)).transpose()
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
    /// Reads the local header of a member: only it says where the compressed bytes begin.
    fn read(wheel: &mut (impl Read + Seek), entry: &DirectoryEntry) -> Result<Self> {
        let path = &entry.path;
        let mut header = [0; LocalHeader::LEN];
        wheel.seek(SeekFrom::Start(entry.at))?;
        wheel.read_exact(&mut header)?;
        let header =
            LocalHeader::new(header).with_context(|| format!("no local header of `{path}`"))?;
        let mut fields = vec![0; header.fields_len()];
        wheel.read_exact(&mut fields)?;
        if let Some(what) = entry.contradictions(&header, &fields).first() {
            bail!("readers could understand the archive in different ways: `{path}`: {what}");
        }
        let start = entry.at + (LocalHeader::LEN + fields.len()) as u64;
        let end = start.saturating_add(entry.packed);
        ensure!(end <= entry.next, "`{path}` overlaps what follows it");
        Ok(Self {
            len: entry.len,
            crc: entry.crc,
            method: StorageMethod::of(entry.method).context("an unknown method")?,
            executable: entry.mode & 0o111 != 0,
            bytes: start..end,
        })
    }

    /// Reads the content, from the wheel at its first byte.
    pub fn content<'a>(&self, mut wheel: impl Read + Seek + 'a) -> io::Result<Box<dyn Read + 'a>> {
        wheel.seek(SeekFrom::Start(self.bytes.start))?;
        let packed = wheel.take(self.bytes.end.saturating_sub(self.bytes.start));
        Ok(match self.method {
            StorageMethod::Stored => Box::new(packed),
            StorageMethod::Deflated => {
                let packed = buffered(packed, self.bytes.end - self.bytes.start, BUFFER);
                Box::new(DeflateDecoder::new(packed))
            }
        })
    }

    /// The whole content. It is an error if it is longer than `limit`, or another one than the archive
    /// says.
    fn whole(&self, wheel: impl Read + Seek, path: &RelPath, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // The length in the archive may be false, so count what is really read.
        let content = self.content(wheel)?;
        content.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        ensure!(bytes.len() as u64 <= limit, "`{path}` has more than {limit} bytes");
        ensure!(
            bytes.len() as u64 == self.len && crc32fast::hash(&bytes) == self.crc,
            "`{path}` is not what the archive says"
        );
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use itertools::Itertools as _;
    use proptest::prelude::*;

    use super::*;
    use crate::{WheelMember, ZipWriter};
    use rocwheel_test_files::contents::prose;

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
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
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
        let mut cut = good.clone();
        cut[len - 2] = 126;
        let messages = [
            refusal([b"#!/bin/sh\n", &good[..]].concat()),
            refusal([&good[..], b"\0"].concat()),
            refusal([&good[..], &good[..]].concat()),
            refusal(comment),
            refusal(cut),
            refusal(twice),
            refusal(patched(&good, LOCAL, 14, &[7])),
            refusal(patched(&good, LOCAL, 10, &[7])),
            refusal(patched(&good, LOCAL, 30, b"y")),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        10 bytes around the archive, in which other readers could find another one
        1 bytes around the archive, in which other readers could find another one
        3474 bytes around the archive, in which other readers could find another one
        3 bytes around the archive, in which other readers could find another one
        readers could understand the archive in different ways: its end record has a comment of 126 bytes, which is cut off
        readers could understand the archive in different ways: `x/__init__.py` is there twice
        readers could understand the archive in different ways: `x-1.dist-info/METADATA`: other sizes or another checksum in its local header
        readers could understand the archive in different ways: `x-1.dist-info/METADATA`: another time in its local header
        readers could understand the archive in different ways: `x-1.dist-info/METADATA`: its local header names it "y-1.dist-info/METADATA"
        "#);
    }

    #[test]
    fn members_that_overlap_are_refused() {
        const EMPTY: &str = "x/empty";
        const META: &str = "x-1.dist-info/METADATA";
        // The data of the first member are the local header of the second one.
        let second = archive(&[(EMPTY, Vec::new())]);
        let header = second[..LocalHeader::LEN + EMPTY.len()].to_vec();
        let inside = u32::try_from(LocalHeader::LEN + "x/a".len()).unwrap();
        let mut within = archive(&[("x/a", header), (EMPTY, Vec::new()), (META, METADATA.into())]);
        let entry = within.windows(4).positions(|it| it == CENTRAL).nth(1).unwrap();
        within[entry + 42..][..4].copy_from_slice(&inside.to_le_bytes());
        // The data of the last member end within the directory.
        let longer = u8::try_from(METADATA.len() + 20).unwrap();
        let mut beyond = archive(&[(META, METADATA.into())]);
        for (magic, at) in [(LOCAL, 18), (LOCAL, 22), (CENTRAL, 20), (CENTRAL, 24)] {
            beyond = patched(&beyond, magic, at, &[longer]);
        }
        let messages = [refusal(within), refusal(beyond)];
        insta::assert_snapshot!(messages.join("\n"), @"
        readers could understand the archive in different ways: `x/a` overlaps what follows it
        readers could understand the archive in different ways: `x-1.dist-info/METADATA` overlaps what follows it
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
            refusal(both(6, &[1, 8])),
            refusal(patched(&good, CENTRAL, 38, &(0o120_777_u32 << 16).to_le_bytes())),
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
        not a wheel that can be read: no end record: not a zip archive, or one that is cut off
        not a wheel that can be read: no end record: not a zip archive, or one that is cut off
        not a wheel that can be read: no end record: not a zip archive, or one that is cut off
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
