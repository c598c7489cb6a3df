//! Reads a wheel ([PEP 427](https://peps.python.org/pep-0427/)): first its directory ([`Outline`]),
//! then its members, in one stream or in portions that several threads read at the same time.
//!
//! A zip archive
//! ([APPNOTE 6.3](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT)) describes each
//! member twice, in its local header and in the central directory. Streaming readers use the local headers,
//! other readers the directory. Where they differ, installers disagree about the contents, so every
//! difference is reported.

use std::{
    cell::Cell,
    collections::BTreeMap,
    io::{self, BufRead, Read},
    ops::Range,
};

use flate2::{Decompress, FlushDecompress, Status};

use crate::{
    check::{
        facts::{CheckedPackage, ContentFacts, DevelTree, MemberFacts, WheelFile},
        observe::{
            BUFFER, PackageReader, ReadWatch, Walk,
            content::{self, Hold, Keep, SizeAndDigest},
            file_name, read_range,
            tarball::{self, ReadDevel},
        },
        path_facts::has_extension,
        sparse::NotKept,
    },
    index::is_of_others,
    policy::dist_info,
};
use rocwheel_base::{
    digest::{InspectReader, Sha256},
    error::{Context as _, Interrupted, Result, bail, ensure},
    io::buffered,
    parallel::ahead,
};
use rocwheel_wheel::{Directory, DirectoryEntry, LocalHeader, StorageMethod};

/// The least size of a portion, so that each is worth a stream of its own. A member is never split.
const PORTION: u64 = 16 << 20;
/// The least size of a member that is inflated on one thread and examined on another. Most of a set
/// is often one library, and its portion is all that is left to read then.
const LONG: u64 = 64 << 20;
/// The most contradictions reported for one archive. Further ones are only counted.
const MOST_CONTRADICTIONS: usize = 3;

thread_local! {
    /// The inflater of a thread, while it inflates nothing. With one of 48 KiB for each of 100,000 members or wheels,
    /// the freed inflaters would leave holes in memory between the facts that are kept.
    static INFLATER: Cell<Option<Decompress>> = const { Cell::new(None) };
}

/// What the end of a wheel says: its directory, or why the directory cannot be read.
#[derive(Debug, Default)]
pub struct Outline {
    file: String,
    size: u64,
    directory: Directory,
    /// Why nothing could be read, if so.
    pub unreadable: Option<String>,
    /// How much of a binary is examined.
    hold: Hold,
}

/// Consecutive members of a wheel, which are read in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    members: Range<usize>,
    bytes: Range<u64>,
    /// Whether to hash the bytes of the archive too, besides the bytes of each member.
    is_hashed: bool,
}

/// The facts of one portion.
#[derive(Debug, Default)]
pub struct PortionFacts {
    first: usize,
    members: Vec<MemberFacts>,
    devel: Option<DevelTree>,
    /// Contradictions between local headers and the directory.
    contradictions: Vec<String>,
    /// The digest of the whole archive, in the portion that hashes it.
    sha256: Option<Sha256>,
    error: Option<String>,
}

impl Portion {
    /// How much work it is to read the portion.
    pub fn weight(&self) -> u64 {
        let len = self.bytes.end.saturating_sub(self.bytes.start);
        // Hashing is about four times as fast as inflating.
        if self.members.is_empty() { len / 4 } else { len }
    }
}

impl Outline {
    pub fn read(file: &str, source: &dyn PackageReader) -> Self {
        let mut outline = Self {
            file: file.to_owned(),
            size: source.size(),
            hold: if is_of_others(file) { Hold::Nothing } else { Hold::WithoutCode },
            ..Self::default()
        };
        match Directory::read(outline.size, &mut |range| read_range(source, range)) {
            Ok(directory) => outline.directory = directory,
            Err(error) => outline.unreadable = Some(format!("{error:#}")),
        }
        outline
    }

    /// What the directory says of each member.
    pub fn entries(&self) -> &[DirectoryEntry] {
        &self.directory.entries
    }

    /// Some of the members, as portions that may be read at the same time. Neighbours share one.
    pub fn portions_of(&self, is_wanted: impl Fn(&DirectoryEntry) -> bool) -> Vec<Portion> {
        let mut portions: Vec<Portion> = Vec::new();
        for (index, entry) in self.directory.entries.iter().enumerate() {
            if !is_wanted(entry) {
                continue;
            }
            // In a hostile wheel the directory may begin before its members.
            let end = self.offset(index + 1).max(entry.at);
            // The first portion begins where the archive begins, so that bytes before the first member are reported.
            let begin = if index == 0 { self.directory.begin } else { entry.at };
            match portions.last_mut() {
                Some(last) if last.members.end == index && last.weight() < PORTION => {
                    last.members.end = index + 1;
                    last.bytes.end = end;
                }
                _ => portions.push(Portion {
                    members: index..index + 1,
                    bytes: begin..end,
                    is_hashed: false,
                }),
            }
        }
        portions
    }

    /// The whole wheel as one portion, which is also hashed: for a wheel in a store, because each of its
    /// bytes should be downloaded once.
    pub fn whole(&self) -> Portion {
        Portion { members: 0..self.directory.entries.len(), bytes: 0..self.size, is_hashed: true }
    }

    /// All members, split into portions that may be read at the same time, and one more without
    /// members if the whole wheel is to be hashed.
    pub fn portions(&self, is_hashed: bool) -> Vec<Portion> {
        let mut portions = self.portions_of(|_| true);
        portions.extend(is_hashed.then(|| Portion { members: 0..0, ..self.whole() }));
        portions
    }

    /// The offset of a member, or of the directory after the last one.
    fn offset(&self, member: usize) -> u64 {
        let entry = self.directory.entries.get(member);
        entry.map_or(self.directory.start, |entry| entry.at)
    }

    pub fn read_portion(
        &self,
        source: &dyn PackageReader,
        portion: &Portion,
        watch: &ReadWatch<'_>,
    ) -> Result<PortionFacts, Interrupted> {
        let mut facts = PortionFacts { first: portion.members.start, ..PortionFacts::default() };
        let read = self.read_members(&mut facts, source, portion, watch);
        facts.error = read.err().map(|error| format!("{error:#}"));
        watch.stop.check()?;
        Ok(facts)
    }

    fn read_members(
        &self,
        facts: &mut PortionFacts,
        source: &dyn PackageReader,
        portion: &Portion,
        watch: &ReadWatch<'_>,
    ) -> Result<()> {
        let stream = source.stream(portion.bytes.clone())?;
        // The portion of `portions(true)` that only hashes. In a wheel without members the whole portion has none either.
        if portion.members.is_empty() && !self.directory.entries.is_empty() {
            // The portions with the members report the progress.
            let progress = &|_| ();
            let watch = ReadWatch { progress, ..*watch };
            facts.sha256 = Walk::new(stream, 0, &watch).hashed().finish()?.sha256;
            return Ok(());
        }
        let unhashed = Walk::new(stream, portion.bytes.start, watch);
        let mut walk = if portion.is_hashed { unhashed.hashed() } else { unhashed };
        if portion.members.start == 0 {
            // The directory has reported bytes before the archive already.
            walk.skip_to(self.directory.begin)?;
        }
        // The end of the member before. After a damaged member it is unknown, so no gap can be reported.
        let mut at = Some(walk.at);
        let mut inflater = INFLATER.take().unwrap_or_else(|| Decompress::new(false));
        for member in portion.members.clone() {
            let entry = &self.directory.entries[member];
            facts.report_gap(at, entry.at, &format!("`{}`", entry.path));
            let count_before = facts.contradictions.len();
            let mut content = facts.read_member(&mut walk, &mut inflater, entry, self.hold);
            at = content.is_ok().then_some(walk.at);
            if content.as_ref().is_err_and(NotKept::is_cause_of) {
                // Something else than code was not held. Read the member again, and hold it whole. Only a
                // damaged or hostile file takes twice as long: no compiler makes such a file. The second
                // reading tells the contradictions again.
                facts.contradictions.truncate(count_before);
                let stream = source.stream(entry.at..entry.next)?;
                let mut again = Walk::new(stream, entry.at, watch);
                content = facts.read_member(&mut again, &mut inflater, entry, Hold::Whole);
                at = content.is_ok().then_some(again.at);
            }
            let content = content.map_err(|error| format!("{error:#}"));
            facts.members.push(member_facts(entry, content));
        }
        INFLATER.set(Some(inflater));
        facts.report_gap(at, self.offset(portion.members.end), "what follows");
        facts.sha256 = walk.finish()?.sha256;
        Ok(())
    }

    /// The files that say what a wheel is, such as METADATA, WHEEL and RECORD.
    pub fn descriptions(&self) -> Vec<Portion> {
        self.portions_of(|entry| is_kept(&entry.path, entry.len))
    }

    /// Combines the facts of all portions. A member that was not read has only its path, kind and length,
    /// which the directory says.
    pub fn finish(self, mut portions: Vec<PortionFacts>) -> WheelFile {
        // Threads finish in any order, but the first contradictions in the archive are shown.
        portions.sort_by_key(|portion| portion.first);
        let mut wheel = WheelFile {
            package: CheckedPackage {
                filename: file_name(&self.file),
                file: self.file,
                size: self.size,
                sha256: None,
            },
            unreadable: self.unreadable,
            contradictions: Vec::new(),
            members: Vec::new(),
            devel: None,
        };
        let mut contradictions = self.directory.contradictions;
        let mut errors = Vec::new();
        let mut read_members = BTreeMap::new();
        for portion in portions {
            read_members.extend((portion.first..).zip(portion.members));
            wheel.devel = wheel.devel.or(portion.devel);
            wheel.package.sha256 = wheel.package.sha256.or(portion.sha256);
            contradictions.extend(portion.contradictions);
            errors.extend(portion.error);
        }
        // Further contradictions often have the same cause as the first ones.
        let hidden_count = contradictions.len().saturating_sub(MOST_CONTRADICTIONS);
        contradictions.truncate(MOST_CONTRADICTIONS);
        if hidden_count > 0 {
            contradictions.push(format!("and {hidden_count} more contradictions"));
        }
        wheel.contradictions = self
            .directory
            .around
            .iter()
            .map(|len| format!("{len} bytes stand before the archive or after its end"))
            .chain(contradictions)
            .collect();
        wheel.members = if errors.is_empty() {
            let entries = self.directory.entries.iter().enumerate();
            entries
                .map(|(index, entry)| {
                    read_members.remove(&index).unwrap_or_else(|| {
                        let size = SizeAndDigest { len: entry.len, sha256: None };
                        let is_unread = entry.len > 0;
                        let content = ContentFacts { is_unread, ..content::plain(size, None) };
                        member_facts(entry, Ok(content))
                    })
                })
                .collect()
        } else {
            // The wheel is reported as unreadable. It shows only the members that were read.
            read_members.into_values().collect()
        };
        wheel.unreadable = wheel.unreadable.or(errors.into_iter().next());
        wheel
    }
}

impl PortionFacts {
    /// The members. Fails if the portion could not be read.
    pub fn into_members(self) -> Result<Vec<MemberFacts>> {
        match self.error {
            Some(error) => bail!("{error}"),
            None => Ok(self.members),
        }
    }

    /// Reports bytes between two members. Streaming readers would parse them, and other readers skip them.
    fn report_gap(&mut self, at: Option<u64>, next: u64, place: &str) {
        let len = next.saturating_sub(at.unwrap_or(next));
        if len > 0 {
            self.contradictions
                .push(format!("{len} bytes before {place} that belong to no member"));
        }
    }

    /// Reads the member at the offset of the stream.
    fn read_member(
        &mut self,
        walk: &mut Walk<'_>,
        inflater: &mut Decompress,
        entry: &DirectoryEntry,
        hold: Hold,
    ) -> Result<ContentFacts> {
        ensure!(walk.at <= entry.at, "it overlaps the member before it");
        walk.skip_to(entry.at)?;
        let header = read_exactly(walk, LocalHeader::LEN)?
            .first_chunk()
            .and_then(|bytes| LocalHeader::new(*bytes))
            .context("no local header where it should begin")?;
        let fields = read_exactly(walk, header.fields_len())?;
        let contradictions = entry.contradictions(&header, &fields);
        self.contradictions
            .extend(contradictions.iter().map(|fact| format!("`{}`: {fact}", entry.path)));
        ensure!(!entry.is_encrypted(), "it is encrypted");
        let end = walk.at.saturating_add(entry.packed);
        ensure!(end <= entry.next, "it overlaps what follows it");
        let watch = walk.watch;
        let mut packed = walk.by_ref().take(entry.packed);
        inflater.reset(false);
        let unpacked = Inflate { packed: &mut packed, inflater };
        let mut read = |data: &mut dyn BufRead| -> Result<_> {
            // The checksum of flate2 is ten times as slow, because zlib-rs has no fast one for these
            // processors.
            let mut crc = crc32fast::Hasher::new();
            let mut data = InspectReader::new(data, |bytes| crc.update(bytes));
            let content = self.read_data(&mut data, entry, hold, watch)?;
            Ok((content, crc.finalize()))
        };
        let (content, crc) = match StorageMethod::of(entry.method) {
            Some(StorageMethod::Stored) => read(&mut packed)?,
            Some(StorageMethod::Deflated) if entry.len >= LONG => {
                ahead(unpacked, |data| read(data))?
            }
            Some(StorageMethod::Deflated) => read(&mut buffered(unpacked, entry.len, BUFFER))?,
            None => {
                bail!("it is compressed by method {}, which installers need not know", entry.method)
            }
        };
        let unread = packed.limit();
        ensure!(unread == 0, "{unread} bytes behind the end of its data");
        ensure!(
            crc == entry.crc,
            "its checksum is {crc:08x}, and {:08x} in the directory of the archive",
            entry.crc
        );
        if entry.has_descriptor() {
            skip_descriptor(walk, entry.next)?;
        }
        Ok(content)
    }

    /// Reads the data of a member. Its path decides which facts are taken and whether bytes are
    /// kept.
    fn read_data(
        &mut self,
        data: &mut impl BufRead,
        entry: &DirectoryEntry,
        hold: Hold,
        watch: &ReadWatch<'_>,
    ) -> Result<ContentFacts> {
        // One byte more than the directory says shows that the data is too long. The bound is for data that
        // unpacks to any size.
        let bounded = data.take(entry.len.saturating_add(1));
        let keep = keep(&entry.path);
        if let Some(binaries) = watch.binaries {
            let content = content::read(bounded, entry.len, keep, Hold::ForCaller)?;
            if let Some(binary) = content.binary {
                binaries(&entry.path, binary);
            }
            return Ok(content.facts);
        }
        if tarball::is_devel(&entry.path) && hold != Hold::Nothing {
            let ReadDevel { tree, content } =
                tarball::read_devel(&entry.path, bounded, entry.len, hold)?;
            self.devel.get_or_insert(tree);
            return Ok(content);
        }
        Ok(content::read(bounded, entry.len, keep, hold)?.facts)
    }
}

/// The data of a deflated member.
struct Inflate<'a, R> {
    packed: R,
    inflater: &'a mut Decompress,
}

impl<R: BufRead> Read for Inflate<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let packed = self.packed.fill_buf()?;
            let is_end = packed.is_empty();
            let flush = if is_end { FlushDecompress::Finish } else { FlushDecompress::None };
            let taken_before = self.inflater.total_in();
            let made_before = self.inflater.total_out();
            let status = self.inflater.decompress(packed, buffer, flush);
            let taken = usize::try_from(self.inflater.total_in() - taken_before);
            self.packed.consume(taken.map_err(io::Error::other)?);
            let made = usize::try_from(self.inflater.total_out() - made_before)
                .map_err(io::Error::other)?;
            match status {
                Err(_) => return Err(io::Error::other("corrupt deflate stream")),
                Ok(status) if made > 0 || status == Status::StreamEnd || buffer.is_empty() => {
                    return Ok(made);
                }
                Ok(_) if is_end => return Err(io::Error::other("incomplete deflate stream")),
                Ok(_) => {}
            }
        }
    }
}

fn read_exactly(source: &mut impl Read, len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(len as u64).read_to_end(&mut bytes)?;
    ensure!(bytes.len() == len, "the archive is cut off");
    Ok(bytes)
}

fn member_facts(entry: &DirectoryEntry, content: Result<ContentFacts, String>) -> MemberFacts {
    MemberFacts { path: entry.path.clone(), kind: entry.kind, mode: entry.mode, content }
}

/// Skips the data descriptor after the data of a member.
///
/// No field says how long it is: its signature is optional, and its sizes have 32 or 64 bits. The
/// signature shows in the first bytes. The width of the sizes follows from `next`, the offset of the next
/// member or of the directory. The buffered bytes do not show the width: they may end anywhere.
fn skip_descriptor(walk: &mut Walk<'_>, next: u64) -> Result<()> {
    const MARK: &[u8] = b"PK\x07\x08";
    let len = next.saturating_sub(walk.at);
    let begin = read_exactly(walk, 12)?;
    let mark = if begin.starts_with(MARK) { 4 } else { 0 };
    let is_wide = len == mark as u64 + 20;
    read_exactly(walk, mark + if is_wide { 8 } else { 0 })?;
    Ok(())
}

/// Which members the rules need as bytes: lists, metadata, and the Python of the package itself.
pub(super) fn keep(path: &str) -> Keep {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let parent = parts.next().unwrap_or_default();
    let is_list = name == "RECORD" || name == "_devel_manifest.json" || parent == ".devel_links";
    // Our Python files are directly in a top-level directory. Python below `_rocm_sdk_core` and
    // the like belongs to ROCm's own tools.
    let is_source = has_extension(name, "py") || name == dist_info::TABLES;
    let is_our_source = is_source && !parent.starts_with('_') && parts.next().is_none();
    if is_list {
        Keep::List
    } else if parent.ends_with(".dist-info") || is_our_source {
        Keep::Text
    } else {
        Keep::Facts
    }
}

/// Whether the bytes of a member of this length are kept among its facts.
pub fn is_kept(path: &str, len: u64) -> bool {
    keep(path).is_for(len)
}

#[cfg(test)]
mod tests;
