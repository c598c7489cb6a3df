//! `ZipWriter` writes a zip archive, one member after the other. The bytes of members are
//! compressed by the caller.
//!
//! Every local header has the sizes and the CRC of its member. For a large member they are known
//! only after its last byte, so the writer seeks back and fills them in. The format would allow a
//! data descriptor behind the bytes instead, but a reader that gets the archive as a stream needs
//! the sizes before the bytes.
//!
//! The same members give the same archive on every machine. ZIP64 fields are used only for numbers
//! that do not fit into the old fields.
//!
//! The format is specified in [APPNOTE.TXT] 6.3.
//!
//! [APPNOTE.TXT]: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT

use std::io::{self, Seek, SeekFrom, Write};

use time::UtcDateTime;

use rocwheel_base::relpath::RelPath;

#[cfg(test)]
mod tests;

/// Compression method of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMethod {
    /// The bytes as they are.
    Stored = 0,
    /// A raw deflate stream.
    Deflated = 8,
}

impl StorageMethod {
    /// The method with a number. `None` for methods that installers need not know.
    pub fn of(number: u16) -> Option<Self> {
        [Self::Stored, Self::Deflated].into_iter().find(|it| *it as u16 == number)
    }
}

/// A member as it will be installed: path, mode and uncompressed length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelMember {
    /// Its path in the wheel.
    pub path: RelPath,
    /// Whether it may be executed once it is installed.
    pub executable: bool,
    /// The uncompressed size.
    pub len: u64,
}

/// A time in the format of MS-DOS: one number, with the date in the upper half.
///
/// The time is given in seconds since 1970, and clamped to the range of the format: 1980-01-01
/// 00:00:00 to 2107-12-31 23:59:58.
fn dos_time(seconds: u64) -> u32 {
    let seconds = seconds.clamp(315_532_800, 4_354_819_198).cast_signed();
    let at = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::UNIX_EPOCH);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.as_hms();
    let year = (year - 1980).cast_unsigned();
    let date = year << 9 | u32::from(u8::from(month)) << 5 | u32::from(day);
    let time = u32::from(hour) << 11 | u32::from(minute) << 5 | u32::from(second) >> 1;
    date << 16 | time
}

/// A zip archive that is being written to `W`, which must be empty at first.
#[derive(Debug)]
pub struct ZipWriter<W> {
    out: W,
    at: u64,
    time: u32,
    entries: Vec<OpenMember>,
    /// CRC-32 of what was written, from its start or from the first byte of the open member.
    crc: crc32fast::Hasher,
    start: ZipStart,
}

/// The first bytes of an archive, to the end of its last large member. What changes when a wheel gets another version
/// are small members, and most of them come behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZipStart {
    /// How many bytes these are: 0 if no member is large.
    pub len: u64,
    /// Their CRC-32.
    pub crc: u32,
}

/// How many bytes a large member has at least, as they are compressed.
const LARGE: u64 = 4 << 20;

/// A finished archive: where it is, its length, and the CRC-32 of all of its bytes.
#[derive(Debug)]
pub struct FinishedZip<W> {
    /// What was written to, positioned at its end.
    pub out: W,
    /// How many bytes the archive has.
    pub len: u64,
    /// The CRC-32 of all of its bytes.
    pub crc: u32,
    /// Its first bytes.
    pub start: ZipStart,
}

/// A member: its header is written, and its bytes are appended one after the other.
#[derive(Debug)]
#[must_use = "a member that does not end is not in the archive"]
pub struct OpenMember {
    member: WheelMember,
    method: StorageMethod,
    /// CRC-32 of the uncompressed bytes.
    crc: u32,
    packed: u64,
    /// The offset of the local header, and that of the compressed bytes.
    offset: u64,
    data: u64,
    /// Whether the local header has the ZIP64 field.
    is_zip64: bool,
    /// CRC-32 of the archive before the local header.
    before: crc32fast::Hasher,
}

impl<W: Write + Seek> ZipWriter<W> {
    /// All members get the modification time `seconds`, since 1970.
    pub fn new(out: W, seconds: u64) -> Self {
        Self {
            out,
            at: 0,
            time: dos_time(seconds),
            entries: Vec::new(),
            crc: crc32fast::Hasher::new(),
            start: ZipStart::default(),
        }
    }

    /// Adds a member whose compressed bytes are all in memory.
    pub fn add(
        &mut self,
        member: &WheelMember,
        method: StorageMethod,
        crc: u32,
        packed: &[u8],
    ) -> io::Result<()> {
        self.announce(member, method, crc, packed.len() as u64)?;
        self.append(packed)
    }

    /// Adds a member of which everything is known but the compressed bytes. The caller must pass
    /// all of them to [`ZipWriter::append`] next.
    pub fn announce(
        &mut self,
        member: &WheelMember,
        method: StorageMethod,
        crc: u32,
        packed: u64,
    ) -> io::Result<()> {
        let open = OpenMember {
            method,
            crc,
            packed,
            is_zip64: is_long(packed) || is_long(member.len),
            ..self.entry(member)?
        };
        self.append(&open.header(self.time, false))?;
        self.entries.push(open);
        Ok(())
    }

    /// Begins a member whose compressed bytes follow by [`ZipWriter::append`].
    ///
    /// Whether the local header needs the ZIP64 field must follow from the uncompressed length: with
    /// another answer in [`ZipWriter::end`], the header would overwrite the first bytes of the member.
    pub fn begin(&mut self, member: &WheelMember) -> io::Result<OpenMember> {
        let mut open = self.entry(member)?;
        open.is_zip64 = is_long(most_packed(member.len));
        open.before = self.crc.clone();
        self.append(&open.header(self.time, false))?;
        self.crc = crc32fast::Hasher::new();
        open.data = self.at;
        Ok(open)
    }

    /// Appends compressed bytes to the member that was announced or begun last.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.crc.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Ends a member: writes its local header again, now with sizes, CRC and method.
    pub fn end(&mut self, mut open: OpenMember, method: StorageMethod, crc: u32) -> io::Result<()> {
        open.packed = self.at - open.data;
        if is_long(open.packed) && !open.is_zip64 {
            let WheelMember { path, len, .. } = &open.member;
            let message = format!("`{path}` of {len} bytes takes {}", open.packed);
            return Err(invalid(message));
        }
        open.method = method;
        open.crc = crc;
        let header = open.header(self.time, false);
        self.out.seek(SeekFrom::Start(open.offset))?;
        self.out.write_all(&header)?;
        self.out.seek(SeekFrom::Start(self.at))?;
        open.before.update(&header);
        open.before.combine(&self.crc);
        self.crc = std::mem::take(&mut open.before);
        self.entries.push(open);
        Ok(())
    }

    /// Writes the central directory.
    pub fn finish(mut self) -> io::Result<FinishedZip<W>> {
        self.note_start();
        let start = self.at;
        let entries = std::mem::take(&mut self.entries);
        for entry in &entries {
            self.append(&entry.header(self.time, true))?;
        }
        self.append(&directory_end(entries.len(), start, self.at - start))?;
        self.out.flush()?;
        let crc = self.crc.finalize();
        Ok(FinishedZip { out: self.out, len: self.at, crc, start: self.start })
    }

    /// Notes the end of a large member, before anything follows it.
    fn note_start(&mut self) {
        if self.entries.last().is_some_and(|member| member.packed >= LARGE) {
            self.start = ZipStart { len: self.at, crc: self.crc.clone().finalize() };
        }
    }

    fn entry(&mut self, member: &WheelMember) -> io::Result<OpenMember> {
        self.note_start();
        let path = &member.path;
        if path.as_str().len() > usize::from(u16::MAX) {
            return Err(invalid(format!("a name too long for an archive: `{path}`")));
        }
        Ok(OpenMember {
            member: member.clone(),
            method: StorageMethod::Stored,
            crc: 0,
            packed: 0,
            offset: self.at,
            data: self.at,
            is_zip64: false,
            before: crc32fast::Hasher::new(),
        })
    }
}

/// The most bytes that a member takes: a deflate stream may consist of stored blocks, each with a
/// header of five bytes and mostly 65,535 bytes of content. zipfile of Python also adds a reserve.
const fn most_packed(len: u64) -> u64 {
    len.saturating_add(len / 8192)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// "Made by" Unix, on every machine: the external attributes then have the mode of Unix.
const UNIX: u16 = 3 << 8;
const VERSION: u16 = 20;
const VERSION_ZIP64: u16 = 45;
/// Flag for names in UTF-8. Names in ASCII do not get it, as with other tools.
const UTF_8: u16 = 0x800;
const ZIP64: u16 = 1;

impl OpenMember {
    /// The local header, or the one in the central directory. They have mostly the same fields.
    fn header(&self, time: u32, is_central: bool) -> Vec<u8> {
        let name = self.member.path.as_str();
        let sizes = [self.packed, self.member.len];
        let mut old = sizes.map(short);
        let mut long = vec![self.member.len, self.packed, self.offset];
        if is_central {
            long.retain(|number| is_long(*number));
        } else if self.is_zip64 {
            // APPNOTE 4.5.3: the ZIP64 field of a local header must have both sizes.
            old = [u32::MAX; 2];
            long.pop();
        } else {
            long.clear();
        }
        let mut zip64 = Fields::default();
        let mut version = VERSION;
        if !long.is_empty() {
            version = VERSION_ZIP64;
            zip64.u16(ZIP64).u16(long.iter().map(|_| 8).sum());
            for number in long {
                zip64.u64(number);
            }
        }
        let mut header = Fields::default();
        if is_central {
            header.u32(0x0201_4B50).u16(UNIX | version);
        } else {
            header.u32(0x0403_4B50);
        }
        let flags = if name.is_ascii() { 0 } else { UTF_8 };
        header.u16(version).u16(flags).u16(self.method as u16);
        header.u32(time).u32(self.crc).u32(old[0]).u32(old[1]);
        // `entry` refuses longer names, and the ZIP64 field has at most 28 bytes.
        for part in [name.as_bytes(), &zip64.0] {
            header.u16(u16::try_from(part.len()).unwrap_or(u16::MAX));
        }
        if is_central {
            // Three zeros: comment length, disk number, internal attributes. The external
            // attributes that follow have the mode of Unix in their upper half: installers read
            // from it that a member is executable.
            let is_run = self.member.executable;
            let offset = short(self.offset);
            let mode = if is_run { 0o100_755 } else { 0o100_644 };
            header.u16(0).u16(0).u16(0).u32(mode << 16).u32(offset);
        }
        header.bytes(name.as_bytes()).bytes(&zip64.0);
        header.0
    }
}

/// The end of central directory record, after its ZIP64 variant and locator if they are needed.
fn directory_end(entries: usize, start: u64, len: u64) -> Vec<u8> {
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    let mut end = Fields::default();
    if count == u16::MAX || is_long(start) || is_long(len) {
        let entries = entries as u64;
        end.u32(0x0606_4B50).u64(44);
        end.u16(UNIX | VERSION_ZIP64).u16(VERSION_ZIP64);
        end.u32(0).u32(0).u64(entries).u64(entries);
        end.u64(len).u64(start);
        end.u32(0x0706_4B50).u32(0).u64(start + len).u32(1);
    }
    end.u32(0x0605_4B50).u16(0).u16(0).u16(count).u16(count);
    end.u32(short(len)).u32(short(start)).u16(0);
    end.0
}

/// A number for a 32-bit field. The largest value means that the ZIP64 field has the number.
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn is_long(number: u64) -> bool {
    short(number) == u32::MAX
}

/// Fields of a header, in little-endian order.
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
}
