//! [`Directory`]: the central directory of a zip archive
//! ([APPNOTE 6.3](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT)).
//!
//! Libraries for zip hide what has to be known about a wheel from outside: every bit of the mode, names as
//! raw bytes, and fields that contradict each other. Where fields disagree, installers may read different
//! files from one archive. So each contradiction is a fact here: [`Archive`](super::Archive) refuses an
//! archive with one, and `check` reports them all.

use std::{io, iter, ops::Range};

use itertools::Itertools as _;

use rocwheel_base::error::{Context as _, Result, bail, ensure};

/// The size of the end record without its comment.
const END: usize = 22;
const END_MAGIC: &[u8] = b"PK\x05\x06";
const END64: u64 = 56;
const END64_MAGIC: &[u8] = b"PK\x06\x06";
const LOCATOR: usize = 20;
const LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
const ENTRY: usize = 46;
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
/// Where the end record usually is, and how far from the end of the file it is searched: its comment has
/// up to 64 KiB, and there may be junk after it.
const USUAL_END: u64 = 1 << 10;
const LONGEST_END: u64 = 256 << 10;
/// The largest directory that is read into memory: the most members with long names. A hostile directory
/// could have many more members without names, each of which takes more memory than in the file.
const LONGEST_DIRECTORY: u64 = 256 << 20;
/// The most members of an archive: ten times as many as the largest framework has. Each takes some hundred bytes of
/// memory, and some kilobytes of facts about it.
const MOST_MEMBERS: usize = 1 << 18;
/// The contradictions that are kept of one archive. A hostile one has some for each member.
const MOST_CONTRADICTIONS: usize = 1_000;
const ENCRYPTED: u16 = 1;
/// The sizes are in a data descriptor after the data, not in the local header.
const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
/// A field of 32 bits whose number is in a ZIP64 field.
const SATURATED: u64 = 0xffff_ffff;

/// Reads a range of the archive as a whole.
pub type ReadRange<'a> = dyn FnMut(Range<u64>) -> io::Result<Vec<u8>> + 'a;

/// What the end of an archive says about its members.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Sorted by their offsets in the file.
    pub entries: Vec<DirectoryEntry>,
    /// The offset at which the archive begins; not 0 if there is junk before it.
    pub begin: u64,
    /// The offset of the directory, where the members end.
    pub start: u64,
    /// How many bytes there are before the archive, and behind it.
    pub around: Vec<u64>,
    /// What two readers of the archive may understand differently, each as a sentence. Empty for a
    /// sound archive.
    pub contradictions: Vec<String>,
}

/// The entry of one member.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// The raw bytes of the name.
    name: Vec<u8>,
    /// The name as text. What is not UTF-8 is replaced, so this may be the path of no member.
    pub path: String,
    flags: u16,
    /// The compression method: 0 is stored, 8 is deflated. Others are possible here.
    pub method: u16,
    /// Time and date in the format of MS-DOS.
    pub time: u32,
    /// The CRC-32 that the directory states.
    pub crc: u32,
    /// The compressed size that the directory states.
    pub packed: u64,
    /// The uncompressed size that the directory states.
    pub len: u64,
    /// The offset of its local header in the file.
    pub at: u64,
    /// The offset of what follows it: the next member, or the directory.
    pub next: u64,
    /// The permissions; 0 if the archive does not say them.
    pub mode: u32,
    /// What an installer would make of it.
    pub kind: MemberKind,
}

/// The type of a member, from its mode and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// A directory, whose name ends in `/`.
    Directory,
    /// A symlink, whose content is its target. No installer makes one of a wheel.
    Symlink,
    /// A device, a socket or another thing that no installer makes.
    Special,
}

/// The end record, or the ZIP64 end record if there is one.
struct EndOfDirectory {
    /// The offset of this record, where the directory ends.
    at: u64,
    count: u64,
    len: u64,
    offset: u64,
}

impl Directory {
    /// Reads the directory of a file of this size.
    pub fn read(size: u64, read: &mut ReadRange<'_>) -> Result<Self> {
        let mut directory = Self::default();
        let end = directory.end(size, read)?;
        // The directory ends where the end record begins, so its real offset follows from its length.
        // The offset in the record is relative to the begin of the archive; the difference is the number
        // of bytes before the archive.
        let start = end.at.checked_sub(end.len);
        let before = start.and_then(|start| start.checked_sub(end.offset));
        let (Some(start), Some(before)) = (start, before) else {
            bail!(
                "its end record says that the directory has {} bytes at {}, before byte {}",
                end.len,
                end.offset,
                end.at
            );
        };
        directory.around.extend((before > 0).then_some(before));
        let len = end.len;
        ensure!(len <= LONGEST_DIRECTORY, "a directory of {len} bytes");
        directory.begin = before;
        directory.start = start;
        directory.read_entries(&read(start..end.at)?)?;
        let count = directory.entries.len();
        if count as u64 != end.count {
            directory.contradictions.push(format!(
                "{count} members in the directory, and {} in the end record",
                end.count
            ));
        }
        let twice = directory
            .entries
            .iter()
            .map(|entry| &entry.path)
            .duplicates()
            .take(MOST_CONTRADICTIONS)
            .map(|path| format!("`{path}` is there twice"));
        directory.contradictions.extend(twice);
        directory.find_neighbours();
        directory.contradictions.truncate(MOST_CONTRADICTIONS);
        Ok(directory)
    }

    /// Sorts the members by their offsets. Readers of a stream and readers of the directory find the same
    /// members only if none begins within another one, and none runs into the directory. The extra field
    /// of a local header may make a member longer than is known here.
    fn find_neighbours(&mut self) {
        self.entries.sort_by_key(|entry| entry.at);
        let mut next = self.start;
        for entry in self.entries.iter_mut().rev() {
            entry.next = next;
            next = entry.at;
        }
        let overlaps = self
            .entries
            .iter()
            .filter(|it| it.least_end() > it.next)
            .take(MOST_CONTRADICTIONS)
            .map(|it| format!("`{}` overlaps what follows it", it.path));
        self.contradictions.extend(overlaps);
    }

    /// Finds the end record, which must be at the end of the file.
    fn end(&mut self, size: u64, read: &mut ReadRange<'_>) -> Result<EndOfDirectory> {
        // A comment may contain the magic bytes too. Take the last match, like most readers.
        let find =
            |tail: &[u8]| tail.windows(END_MAGIC.len()).rposition(|window| window == END_MAGIC);
        let mut tail = read(size.saturating_sub(USUAL_END)..size)?;
        if find(&tail).is_none_or(|at| at < LOCATOR) {
            tail = read(size.saturating_sub(LONGEST_END)..size)?;
        }
        let place =
            find(&tail).context("no end record: not a zip archive, or one that is cut off")?;
        let (before, record) = tail.split_at(place);
        ensure!(record.len() >= END, "its end record is cut off");
        if record.len() > END {
            self.around.push((record.len() - END) as u64);
        }
        let stated = usize::from(half(record, 20));
        if stated > record.len() - END {
            // Python reads such an archive as far as it goes, and other readers refuse it.
            let cut = format!("its end record has a comment of {stated} bytes, which is cut off");
            self.contradictions.push(cut);
        }
        let is_one = half(record, 4) == half(record, 6) && half(record, 8) == half(record, 10);
        ensure!(is_one, "an archive of several parts");
        let plain = EndOfDirectory {
            at: size - record.len() as u64,
            count: half(record, 10).into(),
            len: word(record, 12).into(),
            offset: word(record, 16).into(),
        };
        let last = before.last_chunk::<LOCATOR>();
        let Some(locator) = last.filter(|bytes| bytes.starts_with(LOCATOR_MAGIC)) else {
            let is_large =
                plain.count == 0xffff || plain.len == SATURATED || plain.offset == SATURATED;
            ensure!(!is_large, "its end record points to a ZIP64 record, and there is none");
            return Ok(plain);
        };
        let large = large_end(read, plain.at, long(locator, 8))?;
        let agree = |plain: u64, large: u64, most: u64| plain == large || plain == most;
        if !agree(plain.count, large.count, 0xffff)
            || !agree(plain.len, large.len, SATURATED)
            || !agree(plain.offset, large.offset, SATURATED)
        {
            let disagree = "its two end records disagree".to_owned();
            self.contradictions.push(disagree);
        }
        Ok(large)
    }

    fn read_entries(&mut self, mut directory: &[u8]) -> Result<()> {
        while !directory.is_empty() {
            let count = self.entries.len();
            ensure!(count < MOST_MEMBERS, "more than {MOST_MEMBERS} members");
            let is_whole = directory.len() >= ENTRY && directory.starts_with(ENTRY_MAGIC);
            ensure!(is_whole, "its directory is damaged after {count} members");
            let (header, fields) = directory.split_at(ENTRY);
            let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(half(header, at)));
            let rest = fields
                .get(name + extra + comment..)
                .with_context(|| format!("its directory is cut off after {count} members"))?;
            let (name, fields) = fields.split_at(name);
            let entry = DirectoryEntry::new(header, name, &fields[..extra], self);
            self.entries.push(entry);
            self.contradictions.truncate(MOST_CONTRADICTIONS);
            directory = rest;
        }
        Ok(())
    }
}

/// Reads the ZIP64 end record. The locator right before the plain end record points to it.
fn large_end(read: &mut ReadRange<'_>, plain: u64, offset: u64) -> Result<EndOfDirectory> {
    let locator = plain.saturating_sub(LOCATOR as u64);
    // If there are bytes before the archive, the offset in the locator is too low by their number.
    // So take the record right before the locator, and use the offset only as a bound.
    let at = locator.saturating_sub(END64);
    ensure!(offset <= at, "its ZIP64 record lies outside: {offset} of {at}");
    let record = read(at..locator)?;
    ensure!(
        record.starts_with(END64_MAGIC) && long(&record, 4) == END64 - 12,
        "its ZIP64 record is not before its locator"
    );
    Ok(EndOfDirectory {
        at,
        count: long(&record, 32),
        len: long(&record, 40),
        offset: long(&record, 48),
    })
}

impl DirectoryEntry {
    fn new(header: &[u8], name: &[u8], extra: &[u8], directory: &mut Directory) -> Self {
        let told = &mut directory.contradictions;
        let path = String::from_utf8_lossy(name).into_owned();
        let flags = half(header, 8);
        if str::from_utf8(name).is_err() || (flags & UTF8 == 0 && !name.is_ascii()) {
            told.push(format!("a name that readers decode in different ways: {path:?}"));
        }
        // The header has packed size, size, offset. The ZIP64 field has size, packed size, offset.
        let plain = [24, 20, 42].map(|at| word(header, at).into());
        // A ZIP64 field may also have the number of the disk, which has 32 bits. It is not read: a
        // field of that length is reported as too long.
        let [len, packed, at] = large_fields(extra, plain).unwrap_or_else(|why| {
            told.push(format!("`{path}`: {why}"));
            plain
        });
        let is_unix = half(header, 4) >> 8 == 3;
        let mode = if is_unix { half(header, 40) } else { 0 };
        let kind = match mode & 0o170_000 {
            0o120_000 => MemberKind::Symlink,
            _ if path.ends_with('/') => MemberKind::Directory,
            0 | 0o100_000 => MemberKind::File,
            _ => MemberKind::Special,
        };
        Self {
            name: name.to_vec(),
            path,
            flags,
            method: half(header, 10),
            time: word(header, 12),
            crc: word(header, 16),
            packed,
            len,
            at: at.saturating_add(directory.begin),
            next: directory.start,
            mode: u32::from(mode & 0o7777),
            kind,
        }
    }

    /// The least offset at which its data ends.
    fn least_end(&self) -> u64 {
        let header = (LocalHeader::LEN + self.name.len()) as u64;
        self.at.saturating_add(header).saturating_add(self.packed)
    }

    /// Whether a password is needed. No installer asks for one.
    pub fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    /// Whether its sizes follow its data, and are not in its local header.
    pub fn has_descriptor(&self) -> bool {
        self.flags & DESCRIPTOR != 0
    }

    /// Compares this entry with the local header. Streaming readers use the local header, others the
    /// directory. `fields` are what follows a header: the name and the extra field.
    pub fn contradictions(&self, header: &LocalHeader, fields: &[u8]) -> Vec<String> {
        let (name, extra) = fields.split_at_checked(header.name_len()).unwrap_or((fields, &[]));
        let header = &header.0;
        let mut facts = Vec::new();
        if name != self.name {
            let name = String::from_utf8_lossy(name);
            facts.push(format!("its local header names it {name:?}"));
        }
        let differences = [
            (half(header, 8) != self.method, "another compression"),
            (word(header, 10) != self.time, "another time"),
            (half(header, 6) != self.flags, "other flags"),
        ];
        let other = differences.iter().filter(|it| it.0);
        facts.extend(other.map(|(_, what)| format!("{what} in its local header")));
        match large_fields(extra, [22, 18].map(|at| word(header, at).into())) {
            Err(why) => facts.push(why.to_owned()),
            Ok([len, packed]) => {
                let is_same = (len, packed, word(header, 14)) == (self.len, self.packed, self.crc);
                if !self.has_descriptor() && !is_same {
                    facts.push("other sizes or another checksum in its local header".to_owned());
                }
            }
        }
        facts
    }
}

/// The header before the data of a member.
pub struct LocalHeader([u8; Self::LEN]);

impl LocalHeader {
    /// The size of its fixed part, in bytes.
    pub const LEN: usize = 30;

    /// `None` if the bytes are no such header.
    pub fn new(bytes: [u8; Self::LEN]) -> Option<Self> {
        bytes.starts_with(LOCAL_MAGIC).then_some(Self(bytes))
    }

    fn name_len(&self) -> usize {
        half(&self.0, 26).into()
    }

    /// The length of the name and the extra field, which stand between it and the data.
    pub fn fields_len(&self) -> usize {
        self.name_len() + usize::from(half(&self.0, 28))
    }
}

/// Replaces the saturated values (`0xffffffff`) in `fields` by the values of the ZIP64 extra field.
///
/// A ZIP64 field without a saturated value must have the same values: some readers use the values of the
/// field, others ignore them. Bazel writes such a field into each local header, as in the wheels of protobuf.
fn large_fields<const N: usize>(
    mut extra: &[u8],
    mut fields: [u64; N],
) -> Result<[u64; N], &'static str> {
    const ZIP64: u16 = 1;
    /// The Unicode path field: a second name of the member, which some readers use instead.
    const NAME: u16 = 0x7075;
    let mut large: Option<&[u8]> = None;
    while !extra.is_empty() {
        let end = usize::from(half(extra, 2)) + 4;
        let (Some(field), Some(rest)) = (extra.get(4..end), extra.get(end..)) else {
            return Err("an extra field that runs over");
        };
        match half(extra, 0) {
            ZIP64 if large.is_some() => return Err("two ZIP64 fields"),
            ZIP64 => large = Some(field),
            NAME => return Err("a second name in an extra field"),
            _ => {}
        }
        extra = rest;
    }
    let is_saturated = fields.contains(&SATURATED);
    let mut values = match (large, is_saturated) {
        (None, false) => return Ok(fields),
        (None, true) => return Err("a size that needs a ZIP64 field, and there is none"),
        (Some(field), false) => {
            let (values, rest) = field.as_chunks();
            let is_same =
                iter::zip(values, fields).all(|(it, plain)| u64::from_le_bytes(*it) == plain);
            let is_known = rest.is_empty() && (1..=N).contains(&values.len());
            return if is_same && is_known {
                Ok(fields)
            } else {
                Err("a ZIP64 field, although no size needs one")
            };
        }
        (Some(field), true) => field,
    };
    for field in fields.iter_mut().filter(|field| **field == SATURATED) {
        let Some((value, rest)) = values.split_first_chunk() else {
            return Err("a ZIP64 field that is too short");
        };
        *field = u64::from_le_bytes(*value);
        values = rest;
    }
    if values.is_empty() { Ok(fields) } else { Err("a ZIP64 field that is too long") }
}

/// A little-endian number; 0 if it is not within the bytes.
fn half(bytes: &[u8], at: usize) -> u16 {
    let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk);
    chunk.map_or(0, |it| u16::from_le_bytes(*it))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk);
    chunk.map_or(0, |it| u32::from_le_bytes(*it))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk);
    chunk.map_or(0, |it| u64::from_le_bytes(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_more_members_than_any_package_is_refused() {
        let mut entry = [0; ENTRY + 1];
        entry[..4].copy_from_slice(ENTRY_MAGIC);
        entry[28] = 1;
        entry[ENTRY] = b'a';
        let mut directory = Directory::default();
        directory.read_entries(&entry.repeat(MOST_MEMBERS)).unwrap();
        let error = Directory::default().read_entries(&entry.repeat(MOST_MEMBERS + 1)).unwrap_err();
        insta::assert_snapshot!(error, @"more than 262144 members");
    }

    #[test]
    fn sizes_of_64_bits_stand_in_for_those_that_are_saturated() {
        let field = |values: &[u64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let len = u16::try_from(bytes.len()).unwrap().to_le_bytes();
            [&[9, 0, 1, 0, 7, 1, 0][..], &len, &bytes].concat()
        };
        assert_eq!(large_fields(&field(&[5 << 32]), [7, SATURATED]), Ok([7, 5 << 32]));
        assert_eq!(large_fields(&[], [1, 2]), Ok([1, 2]));
        assert_eq!(large_fields(&field(&[1, 2]), [1, 2]), Ok([1, 2]));
        let refused = [
            large_fields(&[], [SATURATED]),
            large_fields(&field(&[]), [SATURATED]),
            large_fields(&field(&[1, 2]), [SATURATED]),
            large_fields(&field(&[2]), [1]),
            large_fields(&field(&[]), [1]),
            large_fields(&field(&[1, 2]), [1]),
            large_fields(&[field(&[1]), field(&[1])].concat(), [SATURATED]),
            large_fields(&[1, 0, 9, 0, 0], [1]),
            large_fields(&[0x75, 0x70, 1, 0, b'a'], [1]),
        ];
        let messages = refused.map(|refused| refused.unwrap_err());
        insta::assert_snapshot!(messages.join("\n"), @"
        a size that needs a ZIP64 field, and there is none
        a ZIP64 field that is too short
        a ZIP64 field that is too long
        a ZIP64 field, although no size needs one
        a ZIP64 field, although no size needs one
        a ZIP64 field, although no size needs one
        two ZIP64 fields
        an extra field that runs over
        a second name in an extra field
        ");
    }
}
