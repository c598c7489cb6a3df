//! `ZipWriter`: a zip archive, member after member, from bytes that are compressed already.
//!
//! Sizes stand in the local header, which for a streamed member is completed once they are known.
//! Nothing depends on the machine, and ZIP64 is used only where the old fields cannot say it.
//!
//! The format is that of [APPNOTE.TXT](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT).
//! Its data descriptors, which would come after a member's bytes, are not used: a reader that gets
//! the archive as a stream needs the sizes before the bytes.

use std::io::{self, Seek, SeekFrom, Write};

use crate::relpath::RelPath;

#[cfg(test)]
mod tests;

/// What an installer makes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileMode {
    /// 0644
    Regular,
    /// 0755
    Executable,
}

/// How the bytes of a member are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMethod {
    Stored,
    Deflated,
}

/// A member before it is packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelMember {
    pub path: RelPath,
    pub mode: FileMode,
    pub len: u64,
}

/// When all members are said to have changed, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1980-01-01 00:00:00, the first that the format knows.
    pub const FIRST: Self = Self(315_532_800);
    /// 2107-12-31 23:59:58.
    pub const LAST: Self = Self(4_354_819_198);

    /// What lies outside of what the format knows moves to its edge.
    pub fn from_epoch(seconds: u64) -> Self {
        Self(seconds.clamp(Self::FIRST.0, Self::LAST.0))
    }

    /// Time and date as the headers hold them: one number, with the date above.
    fn dos(self) -> u32 {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        // A year that begins in March has its leap day at the end, so that months are a line.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (year, month) = match month {
            0..10 => (year + era * 400, month + 3),
            _ => (year + era * 400 + 1, month - 9),
        };
        let date = (year - 1980) << 9 | month << 5 | day;
        short(date << 16 | hour << 11 | minute << 5 | second >> 1)
    }
}

/// An archive that grows at the end of `W`, which it has from its first byte on.
#[derive(Debug)]
pub struct ZipWriter<W> {
    out: W,
    at: u64,
    time: Timestamp,
    entries: Vec<WrittenEntry>,
}

/// A member whose bytes are on their way.
#[derive(Debug)]
#[must_use = "a member that does not end is not in the archive"]
pub struct Begun {
    entry: WrittenEntry,
    data: u64,
}

#[derive(Debug)]
struct WrittenEntry {
    member: WheelMember,
    path_len: u16,
    method: StorageMethod,
    /// Of the bytes as they were before they were packed.
    crc: u32,
    packed: u64,
    offset: u64,
}

impl<W: Write + Seek> ZipWriter<W> {
    pub fn new(out: W, time: Timestamp) -> Self {
        Self {
            out,
            at: 0,
            time,
            entries: Vec::new(),
        }
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The inside, to be left as it was found.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Adds a member whose packed bytes are at hand.
    pub fn add(
        &mut self,
        member: &WheelMember,
        method: StorageMethod,
        crc: u32,
        packed: &[u8],
    ) -> io::Result<()> {
        let mut entry = self.entry(member)?;
        entry.method = method;
        entry.crc = crc;
        entry.pack(packed.len() as u64)?;
        self.append(&entry.local_header(self.time))?;
        self.append(packed)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Begins a member whose packed bytes, no more than it has, are then appended.
    pub fn begin(&mut self, member: &WheelMember) -> io::Result<Begun> {
        let entry = self.entry(member)?;
        self.append(&entry.local_header(self.time))?;
        Ok(Begun {
            entry,
            data: self.at,
        })
    }

    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// The packed bytes so far.
    pub fn packed(&self, begun: &Begun) -> u64 {
        self.at - begun.data
    }

    /// Goes back to where the member's bytes begin. What was written stays where it is not
    /// written over.
    pub fn again(&mut self, begun: &Begun) -> io::Result<()> {
        self.seek(begun.data)
    }

    /// Ends a member: its header gets what was not known when it was begun.
    pub fn end(&mut self, begun: Begun, method: StorageMethod, crc: u32) -> io::Result<()> {
        let end = self.at;
        let mut entry = begun.entry;
        entry.pack(end - begun.data)?;
        entry.method = method;
        entry.crc = crc;
        let header = entry.local_header(self.time);
        self.seek(entry.offset)?;
        self.append(&header)?;
        self.seek(end)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Writes the directory; gives the inside back, and the length of the archive.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let start = self.at;
        for entry in std::mem::take(&mut self.entries) {
            self.append(&entry.central_header(self.time))?;
            self.entries.push(entry);
        }
        let directory = DirectoryExtent {
            count: self.entries.len() as u64,
            start,
            len: self.at - start,
        };
        self.append(&directory.end())?;
        self.out.flush()?;
        Ok((self.out, self.at))
    }

    fn entry(&self, member: &WheelMember) -> io::Result<WrittenEntry> {
        let path = &member.path;
        let path_len = u16::try_from(path.as_str().len())
            .map_err(|_| invalid(format!("a name too long for an archive: `{path}`")))?;
        Ok(WrittenEntry {
            member: member.clone(),
            path_len,
            method: StorageMethod::Stored,
            crc: 0,
            packed: 0,
            offset: self.at,
        })
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        self.at = self.out.seek(SeekFrom::Start(to))?;
        Ok(())
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The host whose attributes the headers have: Unix, on every machine.
const UNIX: u16 = 3 << 8;
const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;
/// Names are UTF-8; plain ASCII is left unmarked, as other tools do.
const UTF_8: u16 = 0x800;
const ZIP64: u16 = 1;

impl WrittenEntry {
    /// A member that grew would be held better as it is, and ZIP64 is decided by its length alone.
    fn pack(&mut self, packed: u64) -> io::Result<()> {
        let WheelMember { path, len, .. } = &self.member;
        if packed > *len {
            let message = format!("`{path}` of {len} bytes takes {packed}");
            return Err(invalid(message));
        }
        self.packed = packed;
        Ok(())
    }

    fn sizes(&self) -> [u64; 2] {
        [self.member.len, self.packed]
    }

    fn local_header(&self, time: Timestamp) -> Vec<u8> {
        // ZIP64 has both sizes here or none.
        let long = if self.sizes().into_iter().any(is_long) {
            self.sizes().to_vec()
        } else {
            Vec::new()
        };
        let [len, packed] = if long.is_empty() {
            self.sizes().map(short)
        } else {
            [u32::MAX; 2]
        };
        let mut header = Fields::default();
        header.u32(0x0403_4B50);
        self.write_facts(&mut header, time, [packed, len], &long);
        header.bytes(self.member.path.as_str().as_bytes());
        header.zip64(&long);
        header.0
    }

    fn central_header(&self, time: Timestamp) -> Vec<u8> {
        let [len, packed] = self.sizes();
        let mut long = vec![len, packed, self.offset];
        long.retain(|number| is_long(*number));
        let mode: u32 = match self.member.mode {
            FileMode::Regular => 0o100_644,
            FileMode::Executable => 0o100_755,
        };
        let mut header = Fields::default();
        header.u32(0x0201_4B50).u16(UNIX | version(&long));
        self.write_facts(&mut header, time, [packed, len].map(short), &long);
        // The length of the comment, the disk, and the internal attributes. The external attributes
        // that follow have the mode of Unix in their upper half, which is how installers learn that
        // a member is a program.
        header.u16(0).u16(0).u16(0);
        header.u32(mode << 16).u32(short(self.offset));
        header.bytes(self.member.path.as_str().as_bytes());
        header.zip64(&long);
        header.0
    }

    /// What both headers have in the middle.
    fn write_facts(&self, header: &mut Fields, time: Timestamp, sizes: [u32; 2], long: &[u64]) {
        let name = self.member.path.as_str();
        header.u16(version(long));
        header.u16(if name.is_ascii() { 0 } else { UTF_8 });
        header.u16(match self.method {
            StorageMethod::Stored => 0,
            StorageMethod::Deflated => 8,
        });
        header.u32(time.dos()).u32(self.crc);
        header.u32(sizes[0]).u32(sizes[1]);
        header.u16(self.path_len).u16(zip64_len(long));
    }
}

/// Where the directory is, and how much there is of it.
struct DirectoryExtent {
    count: u64,
    start: u64,
    len: u64,
}

impl DirectoryExtent {
    /// The last bytes of the archive.
    fn end(&self) -> Vec<u8> {
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let mut end = Fields::default();
        if count == u16::MAX || is_long(self.start) || is_long(self.len) {
            end.u32(0x0606_4B50).u64(44);
            end.u16(UNIX | VERSION_ZIP64)
                .u16(VERSION_ZIP64)
                .u32(0)
                .u32(0);
            end.u64(self.count).u64(self.count);
            end.u64(self.len).u64(self.start);
            end.u32(0x0706_4B50)
                .u32(0)
                .u64(self.start + self.len)
                .u32(1);
        }
        end.u32(0x0605_4B50).u16(0).u16(0).u16(count).u16(count);
        end.u32(short(self.len)).u32(short(self.start)).u16(0);
        end.0
    }
}

/// A number as an old field has it, whose largest value says that ZIP64 has the number.
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn is_long(number: u64) -> bool {
    short(number) == u32::MAX
}

/// The version a reader needs when these numbers do not fit.
fn version(long: &[u64]) -> u16 {
    if long.is_empty() {
        VERSION
    } else {
        VERSION_ZIP64
    }
}

/// The length of the extra field for these numbers.
fn zip64_len(long: &[u64]) -> u16 {
    if long.is_empty() {
        0
    } else {
        4 + long.iter().map(|_| 8).sum::<u16>()
    }
}

/// Bytes of a header, lowest first.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, number: u16) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    /// The extra field for numbers that do not fit, when there are any.
    fn zip64(&mut self, long: &[u64]) {
        if !long.is_empty() {
            self.u16(ZIP64).u16(zip64_len(long) - 4);
        }
        for number in long {
            self.u64(*number);
        }
    }
}
