//! Reads the archive of the development files (`_devel.tar`) inside a wheel, in one pass: its
//! entries and the facts of its files, while the archive itself is hashed.

use std::io::{self, Read, Write as _};

use crate::{
    archive::{ArchiveFormat, Decompressor, TarKind, TarReader},
    check::{
        facts::{ContentFacts, DevelEntry, DevelTree},
        observe::content,
    },
    digest::Hasher,
    error::{Result, ensure},
};

/// The memory that the list of entries may take; an SDK has 100,000. Tar headers compress so well
/// that a small hostile wheel could otherwise hold enough entries to fill the memory.
const MOST_HELD: u64 = 1 << 30;
/// The memory of one entry, without its path and link target.
const ENTRY: u64 = size_of::<DevelEntry>() as u64;

/// The compression of the archive.
#[derive(Clone, Copy)]
pub(super) enum ArchivePacking {
    Plain,
    Compressed(ArchiveFormat),
}

impl ArchivePacking {
    /// The packing of the archive of the development files, if this is its path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (_, name) = path.split_once('/')?;
        match name {
            "_devel.tar" => Some(Self::Plain),
            "_devel.tar.xz" => Some(Self::Compressed(ArchiveFormat::TarXz)),
            _ => None,
        }
    }

    fn open<'a>(self, source: impl Read + 'a) -> Result<TarReader<Box<dyn Read + 'a>>> {
        let plain: Box<dyn Read + 'a> = match self {
            Self::Plain => Box::new(source),
            Self::Compressed(format) => Box::new(Decompressor::new(format, source)?),
        };
        Ok(TarReader::new(plain, u64::MAX))
    }
}

/// Reads the entries and hashes the archive. A damaged archive is not an error: the rest is hashed,
/// and `fault` of the tree says what is wrong.
pub(super) fn read(
    member: &str,
    packing: ArchivePacking,
    source: impl Read,
    len: u64,
) -> io::Result<(DevelTree, ContentFacts)> {
    let mut tree = DevelTree {
        member: member.to_owned(),
        entries: Vec::new(),
        fault: None,
    };
    let mut source = HashedReader {
        inner: source.take(len.saturating_add(1)),
        hasher: Hasher::default(),
    };
    let walked = walk(packing, &mut source, &mut tree.entries, MOST_HELD);
    tree.fault = walked.err().map(|error| format!("{error:#}"));
    io::copy(&mut source, &mut io::sink())?;
    let (sha256, found) = source.hasher.finish();
    if found != len {
        return Err(io::Error::other(format!(
            "it has {found} bytes, and {len} in the directory of the archive"
        )));
    }
    let content = ContentFacts {
        len,
        sha256,
        kept: None,
        elf: None,
        code: None,
        windows: None,
    };
    Ok((tree, content))
}

fn walk(
    packing: ArchivePacking,
    source: impl Read,
    entries: &mut Vec<DevelEntry>,
    most: u64,
) -> Result<()> {
    let mut tar = packing.open(source)?;
    let mut held = 0_u64;
    while let Some(entry) = tar.next_entry()? {
        let target = match &entry.kind {
            TarKind::Symlink(text) => text.as_str(),
            TarKind::Hardlink(path) => path.as_str(),
            TarKind::Directory | TarKind::File { .. } => "",
        };
        for len in [entry.path.as_str().len(), target.len()] {
            held = held.saturating_add(len as u64);
        }
        held = held.saturating_add(ENTRY);
        ensure!(held <= most, "entries that take more than {most} bytes");
        let (elf, sha256) = match entry.kind {
            TarKind::File { .. } => {
                let mut file = HashedReader {
                    inner: &mut tar,
                    hasher: Hasher::default(),
                };
                let elf = content::elf(&mut file)?;
                io::copy(&mut file, &mut io::sink())?;
                (elf, Some(file.hasher.finish().0))
            }
            _ => (None, None),
        };
        entries.push(DevelEntry { entry, elf, sha256 });
    }
    Ok(())
}

struct HashedReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher
            .write_all(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{TarEntry, TarPlan};

    #[test]
    fn entries_take_no_more_memory_than_those_of_any_sdk() {
        let entry = |index: usize| TarEntry {
            path: index.to_string().parse().unwrap(),
            kind: TarKind::Symlink("x".to_owned()),
        };
        let plan = TarPlan::new((0..9).map(entry).collect(), 0).unwrap();
        let walked = |most| {
            let tar = plan.stream(|_| Ok(io::empty()));
            let mut entries = Vec::new();
            let walked = walk(ArchivePacking::Plain, tar, &mut entries, most);
            (walked.map_err(|error| error.to_string()), entries.len())
        };
        let nine = 9 * (ENTRY + 2);
        assert_eq!(walked(nine), (Ok(()), 9));
        let refused = format!("entries that take more than {} bytes", nine - 1);
        assert_eq!(walked(nine - 1), (Err(refused), 8));
    }
}
