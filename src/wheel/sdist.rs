//! Source distributions, `.tar.gz` ([PEP 625](https://peps.python.org/pep-0625/)): writes them with
//! the same bytes on every machine, and reads untrusted ones.

use std::{
    collections::HashSet,
    io::{self, BufReader, Read, Write},
};

use flate2::{Compression, GzBuilder, bufread::GzDecoder};
use tar::{Archive, Builder, EntryType, Header};

use crate::{
    error::{Context as _, Invalid, Result, ensure},
    relpath::RelPath,
};

#[cfg(test)]
mod tests;

/// Writes files below directory `top`, in their order. Each directory is listed before its
/// contents.
///
/// All members have the modification time `epoch`. The gzip header has no time, no file name and no
/// operating system, so that the same files give the same archive.
pub fn write_sdist(
    out: impl Write,
    top: &RelPath,
    files: &[(RelPath, Vec<u8>)],
    epoch: u64,
) -> Result<()> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(out, Compression::best());
    let mut tar = Builder::new(gzip);
    let mut made = HashSet::new();
    for (path, content) in files {
        let path = top.join(path);
        // Implementations of tar do not agree on names with line breaks.
        ensure!(
            !path.as_str().contains(char::is_control),
            "a control character in a name: {:?}",
            path.as_str()
        );
        for directory in path.ancestors() {
            if made.insert(directory.clone()) {
                append(
                    &mut tar,
                    &format!("{directory}/"),
                    header(DIRECTORY, 0o755, &[], epoch),
                    &[],
                )
                .with_context(|| format!("failed to write `{directory}`"))?;
            }
        }
        ensure!(
            made.insert(path.clone()),
            "two members of one name: `{path}`"
        );
        append(
            &mut tar,
            path.as_str(),
            header(EntryType::Regular, 0o644, content, epoch),
            content,
        )
        .with_context(|| format!("failed to write `{path}`"))?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(())
}

const DIRECTORY: EntryType = EntryType::Directory;

fn header(kind: EntryType, mode: u32, content: &[u8], epoch: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    header.set_mtime(epoch);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Appends a member. A name that is too long for the ustar header, or that is not ASCII, gets a
/// [pax header](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html) with the
/// name in UTF-8.
fn append(
    tar: &mut Builder<impl Write>,
    path: &str,
    header: Header,
    content: &[u8],
) -> io::Result<()> {
    let mut named = header.clone();
    if !path.is_ascii() || named.set_path(path).is_err() {
        tar.append_pax_extensions([("path", path.as_bytes())])?;
        named = header;
        named.set_path(stand_in(path))?;
    }
    named.set_cksum();
    tar.append(&named, content)
}

/// The name in the ustar header of a member that has a pax header: only readers that do not know
/// pax use it.
fn stand_in(path: &str) -> String {
    let tail = path.len().saturating_sub(90);
    path.char_indices()
        .filter(|(at, _)| *at >= tail)
        .map(|(_, c)| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// The facts of an sdist that `check` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdistContents {
    /// The only top directory, `rocm-7.13.0`.
    pub top: RelPath,
    /// The files in `top`, in the order of the archive.
    pub files: Vec<RelPath>,
    /// The contents of PKG-INFO.
    pub pkg_info: Vec<u8>,
}

/// Error of reading an sdist.
#[derive(Debug, thiserror::Error)]
pub enum SdistError {
    #[error("not a `.tar.gz` that can be read to its end")]
    Io(#[from] io::Error),
    #[error("more than {0} bytes when unpacked")]
    TooLong(u64),
    #[error("a member that must not be extracted")]
    Name(#[from] Invalid),
    #[error("a member that is neither a file nor a directory: `{0}`")]
    Kind(RelPath),
    #[error("two members of one name: `{0}`")]
    Twice(RelPath),
    #[error("an sdist has one directory at its top, and nothing beside it: `{0}`")]
    Top(RelPath),
    #[error("no `PKG-INFO` in the directory at the top")]
    NoPkgInfo,
}

/// Reads a whole sdist, but keeps only PKG-INFO in memory. Fails if the unpacked archive is longer
/// than `limit`.
pub fn read_sdist(reader: impl Read, limit: u64) -> Result<SdistContents, SdistError> {
    let mut tar = GzDecoder::new(BufReader::new(reader)).take(limit);
    let read = read_tar(&mut tar);
    // Test the limit first: an archive cut off by it fails with an error about a broken archive.
    if tar.limit() == 0 {
        return Err(SdistError::TooLong(limit));
    }
    read
}

fn read_tar(tar: &mut impl Read) -> Result<SdistContents, SdistError> {
    let mut top: Option<RelPath> = None;
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    let mut pkg_info = None;
    let mut archive = Archive::new(tar.by_ref());
    for entry in archive.entries()? {
        let mut entry = entry?;
        let is_directory = match entry.header().entry_type() {
            EntryType::XGlobalHeader => continue,
            kind => kind.is_dir(),
        };
        let path = entry_path(&entry.path_bytes())?;
        if !is_directory && !entry.header().entry_type().is_file() {
            return Err(SdistError::Kind(path));
        }
        let own = path.ancestors().next().unwrap_or_else(|| path.clone());
        let is_beside = top.as_ref().is_some_and(|top| *top != own);
        if is_beside || (!is_directory && own == path) {
            return Err(SdistError::Top(path));
        }
        let below = path.strip_prefix(&own);
        top = Some(own);
        let Some(below) = below.filter(|_| !is_directory) else {
            continue;
        };
        if !seen.insert(below.clone()) {
            return Err(SdistError::Twice(path));
        }
        if below.as_str() == "PKG-INFO" {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            pkg_info = Some(bytes);
        }
        files.push(below);
    }
    // Read on to the end of the gzip stream, where its checksum is verified.
    io::copy(tar, &mut io::sink())?;
    Ok(SdistContents {
        top: top.ok_or(SdistError::NoPkgInfo)?,
        files,
        pkg_info: pkg_info.ok_or(SdistError::NoPkgInfo)?,
    })
}

fn entry_path(bytes: &[u8]) -> Result<RelPath, SdistError> {
    let text = str::from_utf8(bytes).map_err(io::Error::other)?;
    let text = text.strip_suffix('/').unwrap_or(text);
    Ok(text.strip_prefix("./").unwrap_or(text).parse()?)
}
