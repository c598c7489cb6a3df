//! Writes tar archives: ustar with pax extended headers, as [POSIX] defines them. The length is
//! known before the first byte, and the bytes depend on the plan alone.
//!
//! [POSIX]: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html

use std::{
    io::{self, Read},
    sync::Arc,
};

use tar::{EntryType, Header};

use crate::tar::{BLOCK, padding, read_some};
use rocwheel_base::{
    error::{Context, Result, ensure},
    relpath::RelPath,
};

/// The largest value of an eleven-digit octal field of a header. Larger sizes need a pax record.
const OCTAL_MAX: u64 = 0o777_7777_7777;
/// The length of the name fields of a header. Longer names need a pax record.
const NAME_MAX: usize = 100;
/// An archive ends with two blocks of zeros.
const END: usize = 1024;

/// One member of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry {
    /// Where it is unpacked.
    pub path: RelPath,
    /// What it is.
    pub kind: TarKind,
}

/// The type of a member, with what only this type has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TarKind {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// The number of bytes, which are read later and must be as many.
        len: u64,
        /// Whether it may be executed. All files have one of two modes.
        executable: bool,
    },
    /// With its target, as `readlink` returns it.
    Symlink(String),
    /// The path of an earlier file of the same archive.
    Hardlink(RelPath),
}

/// The members of an archive in order, and the length of the archive.
///
/// The bytes are reproducible: modes are 644 or 755, the owner is 0, all members have the same
/// time, and nothing comes from the machine.
#[derive(Clone, Debug)]
pub struct TarPlan {
    entries: Arc<[TarEntry]>,
    mtime: u64,
    /// The exact number of bytes that [`TarPlan::stream`] returns.
    pub len: u64,
}

impl TarPlan {
    /// All members get the modification time `mtime`, in seconds since the Unix epoch.
    pub fn new(entries: Vec<TarEntry>, mtime: u64) -> Result<Self> {
        ensure!(mtime <= OCTAL_MAX, "a time that no tar header can hold: {mtime}");
        // The sizes of two members may add up to more than 2^64.
        let mut len = END as u128;
        for entry in &entries {
            if let TarKind::Symlink(target) = &entry.kind {
                ensure!(
                    !target.is_empty() && !target.contains('\0'),
                    "link `{}` leads nowhere: {target:?}",
                    entry.path
                );
            }
            let content = content_len(entry);
            len += render_headers(entry, mtime).len() as u128;
            len += u128::from(content) + u128::from(padding(content));
        }
        let len = u64::try_from(len)
            .context("the members of the archive add up to more than a tar can hold")?;
        Ok(Self { len, entries: entries.into(), mtime })
    }

    /// The members, in the order in which they are written.
    pub fn entries(&self) -> &[TarEntry] {
        &self.entries
    }

    /// The archive as a stream. The content of the file at an index of the members is read from
    /// `open(index)`.
    ///
    /// If a file is shorter or longer than its entry says, the stream ends with an error.
    pub fn stream<R: Read, O: FnMut(usize) -> Result<R>>(&self, open: O) -> impl Read + use<R, O> {
        TarStream { plan: self.clone(), open, next: 0, ready: io::Cursor::default(), file: None }
    }
}

/// The bytes of a [`TarPlan`].
struct TarStream<O, R> {
    plan: TarPlan,
    open: O,
    /// The entry to begin next. One past the last means that the end mark is next.
    next: usize,
    /// Headers, padding and the end mark that were not read yet.
    ready: io::Cursor<Vec<u8>>,
    /// The content of the entry before `next`, if that is a file.
    file: Option<io::Take<R>>,
}

impl<R: Read, O: FnMut(usize) -> Result<R>> TarStream<O, R> {
    /// Writes the next header to `ready`, and opens the file that follows it.
    fn begin_entry(&mut self) -> io::Result<()> {
        self.ready = io::Cursor::new(match self.plan.entries.get(self.next) {
            None => vec![0; END],
            Some(entry) => {
                if let TarKind::File { len, .. } = entry.kind {
                    let content = (self.open)(self.next)
                        .with_context(|| format!("failed to read `{}`", entry.path))
                        .map_err(io::Error::other)?;
                    self.file = Some(content.take(len));
                }
                render_headers(entry, self.plan.mtime)
            }
        });
        self.next += 1;
        Ok(())
    }

    /// Checks that the file ends after all planned bytes, and pads it. The header with the planned length
    /// is written already, so a file that has changed cannot be written any more.
    fn end_file(&mut self, file: io::Take<R>) -> io::Result<()> {
        let entry = &self.plan.entries[self.next - 1];
        let len = content_len(entry);
        let missing = file.limit();
        let how = match read_some(&mut file.into_inner(), &mut [0])? {
            0 if missing == 0 => {
                let padding = usize::try_from(padding(len)).unwrap_or(0);
                self.ready = io::Cursor::new(vec![0; padding]);
                return Ok(());
            }
            0 => "fewer",
            _ => "more",
        };
        let message = format!("`{}` has {how} bytes than planned: {len}", entry.path);
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }
}

impl<R: Read, O: FnMut(usize) -> Result<R>> Read for TarStream<O, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            // The header of a file stands in `ready` while the file is open, so it comes first.
            let mut count = self.ready.read(buf)?;
            if count == 0
                && let Some(file) = &mut self.file
            {
                count = read_some(file, buf)?;
            }
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            match self.file.take() {
                Some(file) => self.end_file(file)?,
                None if self.next <= self.plan.entries.len() => self.begin_entry()?,
                None => return Ok(0),
            }
        }
    }
}

fn content_len(entry: &TarEntry) -> u64 {
    match entry.kind {
        TarKind::File { len, .. } => len,
        _ => 0,
    }
}

/// Renders the header of an entry. If its fields cannot hold a name or the size, a pax header comes
/// first.
fn render_headers(entry: &TarEntry, mtime: u64) -> Vec<u8> {
    let (kind, mode, len, link) = match &entry.kind {
        TarKind::Directory => (EntryType::Directory, 0o755, 0, ""),
        TarKind::File { len, executable } => {
            let mode = if *executable { 0o755 } else { 0o644 };
            (EntryType::Regular, mode, *len, "")
        }
        TarKind::Symlink(target) => (EntryType::Symlink, 0o777, 0, target.as_str()),
        TarKind::Hardlink(path) => (EntryType::Link, 0o644, 0, path.as_str()),
    };
    let slash = if kind.is_dir() { "/" } else { "" };
    let name = format!("{}{slash}", entry.path);

    let mut records: Vec<u8> = [
        ("path", name.clone(), !fits_field(&name)),
        ("linkpath", link.to_owned(), !fits_field(link)),
        ("size", len.to_string(), len > OCTAL_MAX),
    ]
    .into_iter()
    .filter(|(_, _, is_needed)| *is_needed)
    .flat_map(|(key, value, _)| render_record(key, &value).into_bytes())
    .collect();

    // A pax header is a separate member: a header block, and the records padded to full blocks.
    // It overrides fields of the next header only.
    let mut out = Vec::new();
    if !records.is_empty() {
        let records_len = records.len() as u64;
        let pax = header(EntryType::XHeader, 0o644, records_len, mtime, "././@PaxHeader", "");
        out.extend_from_slice(pax.as_bytes());
        out.append(&mut records);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    // If the size field cannot hold the size, the pax record overrides the field. With 0 in the field, a
    // reader without pax support sees an empty file.
    let plain_len = if len > OCTAL_MAX { 0 } else { len };
    out.extend_from_slice(header(kind, mode, plain_len, mtime, &name, link).as_bytes());
    out
}

fn header(kind: EntryType, mode: u32, len: u64, mtime: u64, name: &str, link: &str) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(len);
    header.set_mtime(mtime);
    fill_field(&mut header.as_old_mut().name, name);
    fill_field(&mut header.as_old_mut().linkname, link);
    // Last, because it is the sum of all other fields.
    header.set_cksum();
    header
}

fn fits_field(name: &str) -> bool {
    name.len() <= NAME_MAX && name.is_ascii()
}

/// Writes as much of a name as fits. A pax record has the full name.
fn fill_field(field: &mut [u8; NAME_MAX], name: &str) {
    for (byte, char) in field.iter_mut().zip(name.chars()) {
        *byte = u8::try_from(char).ok().filter(u8::is_ascii).unwrap_or(b'?');
    }
}

/// Renders a pax record such as `30 path=…\n`. The number is the length of the whole record, with the
/// digits of the number, so it is found by iteration.
fn render_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len() + 1;
    while len.to_string().len() + rest.len() != len {
        len = len.to_string().len() + rest.len();
    }
    format!("{len}{rest}")
}

#[cfg(test)]
mod tests;
