//! Reads tar archives from untrusted sources. Each member is checked before it is returned.
//!
//! The `tar` crate parses the fields of headers. The loop over the members is written here, because the
//! crate reads extension headers of any size into memory, and accepts a stream without an end mark
//! as complete.

use std::io::{self, Read};

use tar::Header;

use crate::tar::{BLOCK, TarEntry, TarKind, padding, read_some};
use rocwheel_base::{
    error::{Context, Result, bail, ensure},
    relpath::RelPath,
};

/// The longest path that operating systems open.
const NAME_MAX: usize = 4096;
/// The limit for an extension header: far longer than any name, and small enough to hold in memory.
const MAX_EXTENSION: u64 = 1 << 20;

/// Iterates over the members of a tar: `next_entry` returns a member, and `Read` its content.
pub struct TarReader<R> {
    /// The bytes of the uncompressed archive.
    pub source: R,
    /// How many bytes the uncompressed tar may have.
    max_len: u64,
    /// How many bytes have been read.
    at: u64,
    /// Bytes of the current file that were not read yet. Padding to a full block follows them.
    due: u64,
    ended: bool,
}

impl<R: Read> TarReader<R> {
    /// Reads an uncompressed archive. More than `max_len` bytes are an error, so that a small archive
    /// cannot fill a disk.
    pub fn new(source: R, max_len: u64) -> Self {
        Self { source, max_len, at: 0, due: 0, ended: false }
    }

    /// The next member, after skipping the rest of the current member.
    ///
    /// Returns `None` only after a complete end mark with nothing but zeros behind it. A stream
    /// that just stops may have been cut off, and is an error.
    pub fn next_entry(&mut self) -> Result<Option<TarEntry>> {
        if self.ended {
            return Ok(None);
        }
        let mut extension = Extension::default();
        self.skip_content()?;
        loop {
            let start = self.at;
            let block = self.read_block()?;
            if block == [0; BLOCK] {
                ensure!(
                    extension == Extension::default(),
                    "the tar announces a member and ends instead"
                );
                self.read_end()?;
                return Ok(None);
            }
            let header = Header::from_byte_slice(&block);
            let entry = self
                .take_header(header, &mut extension)
                .with_context(|| format!("failed to read the tar header at byte {start}"))?;
            let Some(entry) = entry else { continue };
            // Refused here, before a byte of the content is read and written.
            if let TarKind::File { len, .. } = entry.kind {
                let end = self.at.checked_add(len);
                ensure!(
                    end.is_some_and(|end| end <= self.max_len),
                    "`{}` has {len} bytes, and takes the archive beyond {} bytes",
                    entry.path,
                    self.max_len
                );
                self.due = len;
            }
            return Ok(Some(entry));
        }
    }

    /// Parses a header. Returns a member, or `None` for an extension header, whose content is added
    /// to `extension` for the next member.
    fn take_header(
        &mut self,
        header: &Header,
        extension: &mut Extension,
    ) -> Result<Option<TarEntry>> {
        verify_checksum(header)?;
        let len = parse_size(header)?;
        let kind = header.entry_type().as_byte();
        if !matches!(kind, b'x' | b'g' | b'L' | b'K') {
            return parse_member(header, len, std::mem::take(extension));
        }
        ensure!(
            len <= MAX_EXTENSION,
            "an extension header of {len} bytes, but at most {MAX_EXTENSION} are allowed"
        );
        let mut content = vec![0; usize::try_from(len)?];
        self.due = len;
        self.read_exact(&mut content)?;
        self.skip_content()?;
        extension.add(kind, &content)?;
        Ok(None)
    }

    /// Skips the rest of the content and its padding. Headers begin at multiples of a block, so the
    /// padding follows from the offset in the stream, also if the content was read in part.
    fn skip_content(&mut self) -> Result<()> {
        let end = self.at.saturating_add(self.due);
        self.due = self.due.saturating_add(padding(end));
        io::copy(self, &mut io::sink())?;
        Ok(())
    }

    fn read_block(&mut self) -> Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        self.due = BLOCK as u64;
        self.read_exact(&mut block)?;
        Ok(block)
    }

    /// Reads the rest after a block of zeros: a second block of zeros, and then only zeros. Other data
    /// could be a second archive, which this reader would ignore and other readers would extract.
    fn read_end(&mut self) -> Result<()> {
        ensure!(
            self.read_block()? == [0; BLOCK],
            "half an end mark at byte {} of the tar",
            self.at - 2 * BLOCK as u64
        );
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let count = self.read_source(&mut chunk)?;
            if count == 0 {
                self.ended = true;
                return Ok(());
            }
            let is_zero = chunk.iter().take(count).all(|byte| *byte == 0);
            ensure!(is_zero, "something follows the end of the tar");
        }
    }

    fn read_source(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = read_some(&mut self.source, buf)?;
        self.at += count as u64;
        // Every byte counts, also of padding and of the end: a small compressed archive may hold zeros
        // without an end.
        if self.at > self.max_len {
            let message = format!("the archive goes beyond {} bytes", self.max_len);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }
}

/// The content of the current file. It has exactly the announced length, or reading fails.
impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.due).map_or(buf.len(), |due| due.min(buf.len()));
        if most == 0 {
            return Ok(0);
        }
        let count = self.read_source(&mut buf[..most])?;
        if count == 0 {
            let message = format!("the tar is cut off at byte {}", self.at);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.due -= count as u64;
        Ok(count)
    }
}

fn verify_checksum(header: &Header) -> Result<()> {
    // The bytes of the checksum field itself count as spaces.
    let sum: u32 = header
        .as_bytes()
        .iter()
        .enumerate()
        .map(|(at, byte)| u32::from(if (148..156).contains(&at) { b' ' } else { *byte }))
        .sum();
    let stated = header.cksum().ok().context("this is not a tar header")?;
    ensure!(sum == stated, "its checksum is {stated}, and should be {sum}");
    Ok(())
}

/// Parses the size in a header. It may be stored in base 256, in eleven bytes. The `tar` crate reads only
/// the last eight bytes and would take 2^64 for 0. The content would then be parsed as headers,
/// so that a file could smuggle members in.
fn parse_size(header: &Header) -> Result<u64> {
    let [first, high @ .., _, _, _, _, _, _, _, _] = &header.as_old().size;
    let is_binary = first & 0x80 != 0;
    ensure!(
        !is_binary || (*first == 0x80 && high.iter().all(|&byte| byte == 0)),
        "its size is negative, or 2^64 bytes and more"
    );
    Ok(header.entry_size()?)
}

/// Builds the entry of a member. `None` for the root directory `./`, the first member of the
/// archives that `tar -C DIR .` writes.
fn parse_member(header: &Header, len: u64, extension: Extension) -> Result<Option<TarEntry>> {
    let name = match extension.path {
        Some(name) => name,
        None => parse_name(&header.path_bytes())?,
    };
    let kind = header.entry_type().as_byte();
    let is_root = name.starts_with('.') && matches!(from_root(&name), "" | ".");
    if kind == b'5' && is_root {
        ensure!(len == 0, "`{name}` is no file, and has {len} bytes");
        return Ok(None);
    }
    let below_root = from_root(&name);
    // Archivers write a slash behind the names of directories only.
    let path: RelPath = match kind {
        b'5' => below_root.strip_suffix('/').unwrap_or(below_root).parse()?,
        _ => below_root.parse()?,
    };
    let len = choose_len(len, extension.size).with_context(|| format!("`{path}`"))?;
    let link = || match extension.link {
        Some(link) => Ok(link),
        None => parse_name(&header.link_name_bytes().unwrap_or_default()),
    };
    let kind = match kind {
        0 | b'0' => {
            let executable = header.mode()? & 0o111 != 0;
            TarKind::File { len, executable }
        }
        b'1' => TarKind::Hardlink(
            from_root(&link()?).parse().with_context(|| format!("failed to hard link `{path}`"))?,
        ),
        b'2' => {
            let target = link()?;
            ensure!(!target.is_empty(), "link `{path}` has no target");
            ensure!(!target.contains('\0'), "link `{path}` has a NUL: {target:?}");
            TarKind::Symlink(target)
        }
        b'5' => TarKind::Directory,
        b'3' => bail!("`{path}` is a character device"),
        b'4' => bail!("`{path}` is a block device"),
        b'6' => bail!("`{path}` is a named pipe"),
        b'7' => bail!("`{path}` is a contiguous file"),
        b'S' => bail!("`{path}` is a sparse file"),
        other => bail!("`{path}` is of an unknown kind: {:?}", char::from(other)),
    };
    // Readers disagree whether content follows such a header. What one of them skips, another one would
    // parse as the next members.
    if !matches!(kind, TarKind::File { .. }) {
        ensure!(len == 0, "`{path}` is no file, and has {len} bytes");
    }
    Ok(Some(TarEntry { path, kind }))
}

/// Strips the leading `./` of the names that `tar -C DIR .` writes.
fn from_root(name: &str) -> &str {
    name.trim_start_matches("./")
}

fn parse_name(bytes: &[u8]) -> Result<String> {
    ensure!(
        bytes.len() <= NAME_MAX,
        "a name of {} bytes, but at most {NAME_MAX} are allowed",
        bytes.len()
    );
    std::str::from_utf8(bytes).ok().map(str::to_owned).with_context(|| {
        let shown = String::from_utf8_lossy(bytes);
        format!("a name that is not UTF-8: {shown:?}")
    })
}

/// Chooses between the size in a header and the size in its pax header, if it has one. The field of the
/// header then has the same value, 0, or the largest value that it can hold; anything else is a
/// contradiction, which other readers may resolve differently.
fn choose_len(plain: u64, extended: Option<u64>) -> Result<u64> {
    const MOST: u64 = 0o777_7777_7777;
    match extended {
        None => Ok(plain),
        Some(len) if plain == len || plain == 0 || plain == MOST => Ok(len),
        Some(len) => bail!("its header says {plain} bytes, its extension {len}"),
    }
}

/// Values of extension headers (pax records and GNU long names), which override the values in the header
/// of the next member.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extension {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
}

impl Extension {
    fn add(&mut self, kind: u8, content: &[u8]) -> Result<()> {
        let long_name = || parse_name(content.strip_suffix(b"\0").unwrap_or(content));
        match kind {
            b'L' => return set_once(&mut self.path, "path", long_name()),
            b'K' => return set_once(&mut self.link, "linkpath", long_name()),
            _ => {}
        }
        let mut records = content;
        while !records.is_empty() {
            let record = next_record(records).context("not a list of pax records")?;
            self.add_record(kind == b'g', record.key, record.value)?;
            records = record.rest;
        }
        Ok(())
    }

    fn add_record(&mut self, is_global: bool, key: &[u8], value: &[u8]) -> Result<()> {
        let is_sparse = key.starts_with(b"GNU.sparse.");
        // No archiver gives all members the same path, link target or size.
        let decides = is_sparse || matches!(key, b"path" | b"linkpath" | b"size");
        ensure!(!is_global || !decides, "a global header with `{}`", String::from_utf8_lossy(key));
        ensure!(!is_sparse, "the next member is a sparse file");
        match key {
            b"path" => set_once(&mut self.path, "path", parse_name(value)),
            b"linkpath" => set_once(&mut self.link, "linkpath", parse_name(value)),
            b"size" => set_once(&mut self.size, "size", parse_number(value)),
            // Owners, times and attributes are not kept.
            _ => Ok(()),
        }
    }
}

/// Sets a value that is not set yet. If a key has two values, some readers take the first and others the
/// last. A checked archive must not look different to another reader, so the second value is an error.
fn set_once<T>(slot: &mut Option<T>, key: &str, value: Result<T>) -> Result<()> {
    ensure!(slot.is_none(), "two values for `{key}`");
    *slot = Some(value?);
    Ok(())
}

fn parse_number(value: &[u8]) -> Result<u64> {
    // Only digits: `parse` would take a sign too, and other readers need not.
    std::str::from_utf8(value)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("not a size: {:?}", String::from_utf8_lossy(value)))
}

/// A pax record, and the records behind it.
struct PaxRecord<'a> {
    key: &'a [u8],
    value: &'a [u8],
    rest: &'a [u8],
}

/// The first `LENGTH KEY=VALUE\n` record.
///
/// Records are split by their lengths and not at line feeds, because a value may contain line
/// feeds.
fn next_record(records: &[u8]) -> Option<PaxRecord<'_>> {
    let digits = records.iter().position(|byte| *byte == b' ')?;
    let len = std::str::from_utf8(records.get(..digits)?).ok()?.parse().ok()?;
    let (record, rest) = records.split_at_checked(len)?;
    let pair = record.get(digits + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (key, value) = pair.split_at_checked(equals)?;
    Some(PaxRecord { key, value: value.get(1..)?, rest })
}

#[cfg(test)]
mod tests;
