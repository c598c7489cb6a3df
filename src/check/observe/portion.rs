//! Reads consecutive members of a wheel in one stream: local headers and data
//! ([APPNOTE 6.3](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT)).
//!
//! A zip archive describes each member twice, in its local header and in the central directory.
//! Streaming readers use the first, others the second; where they differ, installers disagree about
//! the contents, so every difference is reported.

use std::io::{self, BufRead, Read};

use flate2::bufread::DeflateDecoder;

use crate::{
    check::{
        facts::{ContentFacts, DevelTree, MemberFacts},
        observe::{
            content::{self, Keep},
            devel::{self, ArchivePacking},
            directory::{DirectoryEntry, half, large_fields, word},
            source::Walk,
        },
        path_facts::has_extension,
    },
    error::{Result, ensure},
};

const LOCAL: usize = 30;
const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
/// The sizes are in a data descriptor after the data, not in the local header.
const DESCRIPTOR: u16 = 1 << 3;

/// The facts of the members of one portion.
#[derive(Debug, Default)]
pub(super) struct PortionContent {
    pub(super) members: Vec<MemberFacts>,
    pub(super) devel: Option<DevelTree>,
    /// Contradictions between local headers and the directory.
    pub(super) told: Vec<String>,
}

impl PortionContent {
    /// Reads the members up to `end`, the offset of the next portion or of the directory.
    pub(super) fn read(walk: &mut Walk<'_>, entries: &[DirectoryEntry], end: u64) -> Self {
        let mut found = Self::default();
        // The end of the member before, if it is known. After a damaged member it is not, so no gap
        // can be reported.
        let mut at = Some(walk.at());
        for entry in entries {
            found.gap(at, entry.at, || format!("`{}`", entry.path));
            let content = found.content(walk, entry);
            at = content.is_ok().then(|| walk.at());
            found.members.push(MemberFacts {
                path: entry.path.clone(),
                kind: entry.kind,
                mode: entry.mode,
                crc: entry.crc,
                content: content.map_err(|error| format!("{error:#}")),
            });
        }
        found.gap(at, end, || "what follows".to_owned());
        found
    }

    /// Reports bytes between two members. Streaming readers would parse them, others skip them.
    fn gap(&mut self, at: Option<u64>, next: u64, place: impl Fn() -> String) {
        let len = next.saturating_sub(at.unwrap_or(next));
        if len > 0 {
            let place = place();
            self.told.push(format!(
                "{len} bytes before {place} that belong to no member"
            ));
        }
    }

    fn content(&mut self, walk: &mut Walk<'_>, entry: &DirectoryEntry) -> Result<ContentFacts> {
        ensure!(walk.at() <= entry.at, "it overlaps the member before it");
        walk.skip_to(entry.at)?;
        let header = exactly(walk, LOCAL)?;
        ensure!(
            header.starts_with(LOCAL_MAGIC),
            "no local header where it should begin"
        );
        let name = exactly(walk, usize::from(half(&header, 26)))?;
        let extra = exactly(walk, usize::from(half(&header, 28)))?;
        let facts = contradictions(entry, &header, &name, &extra);
        self.told.extend(
            facts
                .into_iter()
                .map(|fact| format!("`{}`: {fact}", entry.path)),
        );
        ensure!(entry.flags & ENCRYPTED == 0, "it is encrypted");
        let mut packed = Read::take(&mut *walk, entry.packed);
        let (content, devel, crc) = {
            let mut data = ChecksumReader::new(unpacked(&mut packed, entry)?);
            let (content, devel) = read(&mut data, entry)?;
            (content, devel, data.crc.finalize())
        };
        let rest = packed.limit();
        ensure!(rest == 0, "{rest} bytes behind the end of its data");
        ensure!(
            crc == entry.crc,
            "its checksum is {crc:08x}, and {:08x} in the directory of the archive",
            entry.crc
        );
        if entry.flags & DESCRIPTOR != 0 {
            descriptor(walk)?;
        }
        self.devel = self.devel.take().or(devel);
        Ok(content)
    }
}

/// Reads the data of a member. Its path decides which facts are taken and whether bytes are kept.
fn read(data: &mut impl Read, entry: &DirectoryEntry) -> Result<(ContentFacts, Option<DevelTree>)> {
    if let Some(packing) = ArchivePacking::of(&entry.path) {
        let (tree, content) = devel::read(&entry.path, packing, data, entry.len)?;
        return Ok((content, Some(tree)));
    }
    // Read at most one byte more than the directory says: enough to notice data that is too long,
    // and a bound for data that unpacks to any size.
    let data = data.take(entry.len.saturating_add(1));
    let content = content::read(data, entry.len, keep(&entry.path))?;
    Ok((content, None))
}

fn exactly(source: &mut impl Read, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(len as u64).read_to_end(&mut bytes)?;
    ensure!(bytes.len() == len, "the archive is cut off");
    Ok(bytes)
}

/// The differences between the local header of a member and its entry in the directory.
fn contradictions(entry: &DirectoryEntry, header: &[u8], name: &[u8], extra: &[u8]) -> Vec<String> {
    let mut facts = Vec::new();
    if name != entry.name {
        let name = String::from_utf8_lossy(name);
        facts.push(format!("its local header names it {name:?}"));
    }
    if half(header, 8) != entry.method {
        facts.push("another compression in its local header".to_owned());
    }
    if word(header, 10) != entry.time {
        facts.push("another time in its local header".to_owned());
    }
    if half(header, 6) != entry.flags {
        facts.push("other flags in its local header".to_owned());
    }
    let sizes = [22, 18].map(|at| u64::from(word(header, at)));
    match large_fields(extra, sizes) {
        Err(why) => facts.push(why.to_owned()),
        Ok([len, packed]) if entry.flags & DESCRIPTOR == 0 => {
            if (len, packed, word(header, 14)) != (entry.len, entry.packed, entry.crc) {
                facts.push("other sizes or another checksum in its local header".to_owned());
            }
        }
        Ok(_) => {}
    }
    facts
}

fn unpacked<'a>(
    packed: impl BufRead + 'a,
    entry: &DirectoryEntry,
) -> io::Result<Box<dyn Read + 'a>> {
    match entry.method {
        STORED => Ok(Box::new(packed)),
        DEFLATED => Ok(Box::new(DeflateDecoder::new(packed))),
        other => Err(io::Error::other(format!(
            "it is compressed by method {other}, which installers need not know"
        ))),
    }
}

/// Skips the data descriptor after the data of a member.
///
/// Nothing says how long it is: its signature is optional, and its sizes have 32 or 64 bits. The
/// signature shows in the first bytes. The width follows from where the next record, which begins
/// with `PK`, is.
fn descriptor(walk: &mut Walk<'_>) -> Result<()> {
    const MARK: &[u8] = b"PK\x07\x08";
    let ready = walk.fill_buf()?;
    let mark = if ready.starts_with(MARK) { 4 } else { 0 };
    // The descriptor is followed by the next member or by the directory; both begin with `PK`.
    let is_next = |at: usize| ready.get(at..).is_some_and(|rest| rest.starts_with(b"PK"));
    let len = if is_next(mark + 20) && !is_next(mark + 12) {
        20
    } else {
        12
    };
    exactly(walk, mark + len)?;
    Ok(())
}

/// Computes the CRC-32 of all bytes read through it.
struct ChecksumReader<R> {
    inner: R,
    crc: crc32fast::Hasher,
}

impl<R: Read> ChecksumReader<R> {
    fn new(inner: R) -> Self {
        let crc = crc32fast::Hasher::new();
        Self { inner, crc }
    }
}

impl<R: Read> Read for ChecksumReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Which members the rules need as bytes: lists, metadata, and the Python of the package itself.
fn keep(path: &str) -> Keep {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let parent = parts.next().unwrap_or_default();
    let is_list = name == "RECORD" || name == "_devel_manifest.json" || parent == ".devel_links";
    // Our Python files are directly in a top-level directory. Python below `_rocm_sdk_core` and
    // the like belongs to ROCm's own tools.
    let is_own = has_extension(name, "py") && !parent.starts_with('_') && parts.next().is_none();
    match parent.ends_with(".dist-info") || is_own {
        _ if is_list => Keep::List,
        true => Keep::Text,
        false => Keep::Facts,
    }
}
