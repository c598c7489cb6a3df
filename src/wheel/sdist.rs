//! Source distributions: `.tar.gz`, written the same everywhere and read with care.

use std::{
    collections::HashSet,
    io::{self, BufReader, Read, Write},
};

use flate2::{Compression, GzBuilder, bufread::GzDecoder};
use tar::{Archive, Builder, EntryType, Header};

use crate::{
    error::{Context as _, Result, ensure},
    relpath::{InvalidRelPath, RelPath},
};

#[cfg(test)]
mod tests;

/// Writes files below `top`, in their order, each directory before what is in it.
///
/// `epoch` is when all of them are said to have changed. The gzip header has neither a time nor a
/// name, and names no operating system.
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
        // Readers of tar disagree about line breaks.
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
                .with_context(|| format!("write `{directory}`"))?;
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
        .with_context(|| format!("write `{path}`"))?;
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

/// A path that does not fit, or that could be read as another encoding, has a header of its own.
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

/// The name for readers that pass over the header with the true one.
fn stand_in(path: &str) -> String {
    let tail = path.len().saturating_sub(90);
    path.char_indices()
        .filter(|(at, _)| *at >= tail)
        .map(|(_, c)| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// What an sdist holds, as far as anyone asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdistContents {
    /// The directory that everything lies in, `rocm-7.13.0`.
    pub top: RelPath,
    /// The files below it, in the order of the archive.
    pub files: Vec<RelPath>,
    /// The bytes of PKG-INFO.
    pub pkg_info: Vec<u8>,
}

/// Why a file is not an sdist.
#[derive(Debug, thiserror::Error)]
pub enum SdistError {
    #[error("not a `.tar.gz` that can be read to its end")]
    Io(#[from] io::Error),
    #[error("more than {0} bytes when unpacked")]
    TooLong(u64),
    #[error("a member that must not be extracted")]
    Name(#[from] InvalidRelPath),
    #[error("a member that is neither a file nor a directory: `{0}`")]
    Kind(RelPath),
    #[error("two members of one name: `{0}`")]
    Twice(RelPath),
    #[error("an sdist has one directory at its top, and nothing beside it: `{0}`")]
    Top(RelPath),
    #[error("no `PKG-INFO` in the directory at the top")]
    NoPkgInfo,
}

/// Unpacks an sdist to the end without keeping more than PKG-INFO, and no more of it than `limit`.
pub fn read_sdist(reader: impl Read, limit: u64) -> Result<SdistContents, SdistError> {
    let mut tar = GzDecoder::new(BufReader::new(reader)).take(limit);
    let read = read_tar(&mut tar);
    // A limit in the middle of a member looks like an archive that is cut short.
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
    // The end of the gzip stream has the checksum.
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
