//! The archive of the development files, walked through while it passes.

use std::io::{self, Read, Write as _};

use crate::{
    archive::{Decompressor, Format, TarKind, TarReader},
    audit::{
        facts::{Content, DevelEntry, DevelTree},
        observe::content::{self, Again},
    },
    digest::Hasher,
    error::{Result, ensure},
};

/// How the archive is packed.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    Plain,
    Compressed(Format),
}

impl Packing {
    /// The packing of the archive of the development files, if this is its path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (_, name) = path.split_once('/')?;
        match name {
            "_devel.tar" => Some(Self::Plain),
            "_devel.tar.xz" => Some(Self::Compressed(Format::TarXz)),
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

/// Walks through the archive while it is hashed. The bytes count as read whatever is in them.
pub(super) fn read(
    member: &str,
    packing: Packing,
    source: impl Read,
    len: u64,
    again: Again<'_>,
) -> io::Result<(DevelTree, Content)> {
    let mut tree = DevelTree {
        member: member.to_owned(),
        entries: Vec::new(),
        fault: None,
    };
    let mut source = Hashed {
        inner: source.take(len.saturating_add(1)),
        hasher: Hasher::default(),
    };
    let walked = walk(packing, &mut source, &mut tree.entries, again);
    tree.fault = walked.err().map(|error| format!("{error:#}"));
    io::copy(&mut source, &mut io::sink())?;
    let (sha256, found) = source.hasher.finish();
    if found != len {
        return Err(io::Error::other(format!(
            "it has {found} bytes, and {len} in the directory of the archive"
        )));
    }
    let content = Content {
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
    packing: Packing,
    source: impl Read,
    entries: &mut Vec<DevelEntry>,
    again: Again<'_>,
) -> Result<()> {
    let mut tar = packing.open(source)?;
    while let Some(entry) = tar.next_entry()? {
        let index = entries.len();
        let elf = match entry.kind {
            TarKind::File { len, .. } => {
                content::elf(&mut tar, len, &|| reopen(packing, again, index))?
            }
            _ => None,
        };
        entries.push(DevelEntry { entry, elf });
    }
    Ok(())
}

/// The bytes of a file in the archive, once more.
fn reopen<'a>(packing: Packing, again: Again<'a>, index: usize) -> io::Result<Box<dyn Read + 'a>> {
    let open = || -> Result<TarReader<Box<dyn Read + 'a>>> {
        let mut tar = packing.open(again()?)?;
        for _ in 0..=index {
            ensure!(
                tar.next_entry()?.is_some(),
                "the archive changed while it was read"
            );
        }
        Ok(tar)
    };
    Ok(Box::new(open().map_err(io::Error::other)?))
}

struct Hashed<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher
            .write_all(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}
