//! Reads the central directory of a zip archive
//! ([APPNOTE 6.3](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT)).
//!
//! Libraries for zip hide what the checks need: every bit of the mode, names as raw bytes, and
//! fields that contradict each other. Where fields disagree, installers may read different files
//! from one archive; each contradiction becomes an [`ArchiveFault`].

use itertools::Itertools as _;

use crate::{
    check::{
        facts::{ArchiveFault, ContentFacts, MemberFacts, MemberKind},
        observe::{PackageReader, bytes},
    },
    error::{Context as _, Result, bail, ensure},
};

/// The size of the end record without its comment.
const END: usize = 22;
const END_MAGIC: &[u8] = b"PK\x05\x06";
const END64: u64 = 56;
const END64_MAGIC: &[u8] = b"PK\x06\x06";
const LOCATOR: usize = 20;
const LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
const ENTRY: usize = 46;
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
/// How far from the end of the file the end record is searched: its comment has up to 64 KiB, and
/// there may be junk after it.
const LONGEST_END: u64 = 256 << 10;
/// The largest directory that is read into memory: that of a million members with long names.
const LONGEST_DIRECTORY: u64 = 256 << 20;

/// What the end of a wheel says: its directory, or why that cannot be read.
#[derive(Debug, Default)]
pub struct Outline {
    pub(super) file: String,
    pub(super) size: u64,
    /// Sorted by their offset in the file.
    pub(super) entries: Vec<DirectoryEntry>,
    pub(super) faults: Vec<ArchiveFault>,
    /// Contradictions in the directory.
    pub(super) told: Vec<String>,
    /// The offset at which the archive begins; not 0 if there is junk before it.
    pub(super) begin: u64,
    /// The offset of the directory, where the members end.
    pub(super) start: u64,
}

/// The entry of one member in the directory.
#[derive(Debug)]
pub struct DirectoryEntry {
    /// The raw bytes of the name.
    pub(super) name: Vec<u8>,
    pub path: String,
    pub(super) flags: u64,
    pub(super) method: u64,
    /// Time and date as the four raw bytes.
    pub(super) time: u64,
    pub crc: u64,
    pub packed: u64,
    pub len: u64,
    /// The offset of its local header in the file.
    pub(super) at: u64,
    pub mode: u32,
    pub kind: MemberKind,
}

/// The end record, or the ZIP64 end record if there is one.
struct EndOfDirectory {
    /// The offset of this record, where the directory ends.
    at: u64,
    count: u64,
    len: u64,
    offset: u64,
}

impl Outline {
    pub fn read(file: &str, source: &dyn PackageReader) -> Self {
        let mut this = Self::default();
        if let Err(error) = this.read_directory(source) {
            this = Self {
                faults: vec![ArchiveFault::Unreadable(format!("{error:#}"))],
                ..Self::default()
            };
        }
        (this.file, this.size) = (file.to_owned(), source.size());
        this
    }

    fn read_directory(&mut self, source: &dyn PackageReader) -> Result<()> {
        let end = self.end(source)?;
        // The directory ends where the end record begins, so its real offset follows from its
        // length. The offset in the record is relative to the begin of the archive; the difference
        // is the number of bytes before the archive.
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
        if before > 0 {
            self.faults.push(ArchiveFault::Around(before));
        }
        let len = end.len;
        ensure!(len <= LONGEST_DIRECTORY, "a directory of {len} bytes");
        (self.begin, self.start) = (before, start);
        self.read_entries(&bytes(source, start..end.at)?)?;
        let (count, said) = (self.entries.len(), end.count);
        if count as u64 != said {
            self.told.push(format!(
                "{count} members in the directory, and {said} in the end record"
            ));
        }
        let paths = self.entries.iter().map(|entry| &entry.path).duplicates();
        let twice = paths.map(|path| format!("`{path}` is there twice"));
        self.told.extend(twice);
        self.entries.sort_by_key(|entry| entry.at);
        Ok(())
    }

    /// Finds the end record, which must be at the end of the file.
    fn end(&mut self, source: &dyn PackageReader) -> Result<EndOfDirectory> {
        let len = source.size();
        let tail_at = len.saturating_sub(LONGEST_END);
        let tail = bytes(source, tail_at..len)?;
        // A comment may contain the magic bytes too. Take the last match, like most readers.
        let mut windows = tail.windows(END_MAGIC.len());
        let found = windows.rposition(|window| window == END_MAGIC);
        let place = found.context("no end record: not a zip archive, or one that is cut off")?;
        let (before, record) = tail.split_at(place);
        ensure!(record.len() >= END, "its end record is cut off");
        if record.len() > END {
            let after = (record.len() - END) as u64;
            self.faults.push(ArchiveFault::Around(after));
        }
        let is_one = half(record, 4) == half(record, 6) && half(record, 8) == half(record, 10);
        ensure!(is_one, "an archive of several parts");
        let plain = EndOfDirectory {
            at: tail_at + place as u64,
            count: half(record, 10),
            len: word(record, 12),
            offset: word(record, 16),
        };
        let locator = before.len().checked_sub(LOCATOR);
        let locator = locator.and_then(|at| before.get(at..));
        let Some(locator) = locator.filter(|bytes| bytes.starts_with(LOCATOR_MAGIC)) else {
            let is_large =
                plain.count == 0xffff || plain.len == SATURATED || plain.offset == SATURATED;
            ensure!(
                !is_large,
                "its end record points to a ZIP64 record, and there is none"
            );
            return Ok(plain);
        };
        let large = large_end(source, plain.at, number(locator, 8, 8))?;
        let agree = |plain: u64, large: u64, most: u64| plain == large || plain == most;
        if !agree(plain.count, large.count, 0xffff)
            || !agree(plain.len, large.len, SATURATED)
            || !agree(plain.offset, large.offset, SATURATED)
        {
            self.told.push("its two end records disagree".to_owned());
        }
        Ok(large)
    }

    fn read_entries(&mut self, mut directory: &[u8]) -> Result<()> {
        while !directory.is_empty() {
            let count = self.entries.len();
            let is_whole = directory.len() >= ENTRY && directory.starts_with(ENTRY_MAGIC);
            ensure!(is_whole, "its directory is damaged after {count} members");
            let (header, fields) = directory.split_at(ENTRY);
            let [name, extra, comment] = [28, 30, 32].map(|at| usize_of(half(header, at)));
            let rest = fields.get(name + extra + comment..);
            let rest =
                rest.with_context(|| format!("its directory is cut off after {count} members"))?;
            let (name, fields) = fields.split_at(name);
            let extra = &fields[..extra];
            let entry = DirectoryEntry::new(header, name, extra, self.begin, &mut self.told);
            self.entries.push(entry);
            directory = rest;
        }
        Ok(())
    }
}

/// Reads the ZIP64 end record. The locator right before the plain end record points to it.
fn large_end(source: &dyn PackageReader, plain: u64, offset: u64) -> Result<EndOfDirectory> {
    let locator = plain.saturating_sub(LOCATOR as u64);
    // If there are bytes before the archive, the offset in the locator is too low by their number.
    // So take the record right before the locator, and use the offset only as a bound.
    let at = locator.saturating_sub(END64);
    ensure!(
        offset <= at,
        "its ZIP64 record lies outside: {offset} of {at}"
    );
    let record = bytes(source, at..locator)?;
    ensure!(
        record.starts_with(END64_MAGIC) && number(&record, 4, 8) == END64 - 12,
        "its ZIP64 record is not before its locator"
    );
    Ok(EndOfDirectory {
        at,
        count: number(&record, 32, 8),
        len: number(&record, 40, 8),
        offset: number(&record, 48, 8),
    })
}

impl DirectoryEntry {
    pub(super) fn facts(&self, content: Result<ContentFacts, String>) -> MemberFacts {
        MemberFacts {
            path: self.path.clone(),
            kind: self.kind,
            mode: self.mode,
            content,
        }
    }

    fn new(header: &[u8], name: &[u8], extra: &[u8], before: u64, told: &mut Vec<String>) -> Self {
        const UTF8: u64 = 1 << 11;
        let path = String::from_utf8_lossy(name).into_owned();
        let flags = half(header, 8);
        if str::from_utf8(name).is_err() || (flags & UTF8 == 0 && !name.is_ascii()) {
            told.push(format!(
                "a name that readers decode in different ways: {path:?}"
            ));
        }
        // The header has packed size, size, offset. The ZIP64 field has size, packed size, offset.
        let plain = [24, 20, 42].map(|at| word(header, at));
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
            at: at.saturating_add(before),
            mode: u32::try_from(mode & 0o7777).unwrap_or(0),
            kind,
        }
    }
}

const SATURATED: u64 = 0xffff_ffff;

/// Replaces the saturated values (`0xffffffff`) in `fields` by those of the ZIP64 extra field.
///
/// A ZIP64 field without a saturated value is an error: some readers use its values, others ignore
/// them, so they would read different members.
pub(super) fn large_fields<const N: usize>(
    mut extra: &[u8],
    mut fields: [u64; N],
) -> Result<[u64; N], &'static str> {
    const ZIP64: u64 = 1;
    /// The Unicode path field: a second name of the member, which some readers use instead.
    const NAME: u64 = 0x7075;
    let mut large: Option<&[u8]> = None;
    while !extra.is_empty() {
        let end = usize_of(half(extra, 2)) + 4;
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
    let saturated = fields.iter_mut().filter(|field| **field == SATURATED);
    let mut saturated = saturated.peekable();
    match (large, saturated.peek().is_some()) {
        (None, false) => return Ok(fields),
        (None, true) => return Err("a size that needs a ZIP64 field, and there is none"),
        (Some(_), false) => return Err("a ZIP64 field, although no size needs one"),
        (Some(_), true) => {}
    }
    let mut large = large.unwrap_or_default();
    for field in saturated {
        let Some((value, rest)) = large.split_first_chunk() else {
            return Err("a ZIP64 field that is too short");
        };
        *field = u64::from_le_bytes(*value);
        large = rest;
    }
    if large.is_empty() {
        Ok(fields)
    } else {
        Err("a ZIP64 field that is too long")
    }
}

pub(super) fn half(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 2)
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 4)
}

/// A little-endian number; 0 if it is not within the bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default().iter();
    bytes
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The value of a field of two bytes as a length.
pub(super) fn usize_of(half: u64) -> usize {
    usize::try_from(half).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_64_bits_stand_in_for_those_that_are_saturated() {
        let field = |values: &[u64]| {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            let len = u16::try_from(bytes.len()).unwrap().to_le_bytes();
            [&[9, 0, 1, 0, 7, 1, 0][..], &len, &bytes].concat()
        };
        assert_eq!(
            large_fields(&field(&[5 << 32]), [7, SATURATED]),
            Ok([7, 5 << 32])
        );
        assert_eq!(large_fields(&[], [1, 2]), Ok([1, 2]));
        let refused = [
            large_fields(&[], [SATURATED]),
            large_fields(&field(&[]), [SATURATED]),
            large_fields(&field(&[1, 2]), [SATURATED]),
            large_fields(&field(&[1]), [1]),
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
        two ZIP64 fields
        an extra field that runs over
        a second name in an extra field
        ");
    }
}
