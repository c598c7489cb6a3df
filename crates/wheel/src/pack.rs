//! Writes the members of a wheel: several threads compress, one writer writes in the order of the
//! members.
//!
//! A task is one block of a large member, or a batch of small members. Each thread has one task,
//! and at most two finished tasks per thread wait for the writer. So memory is about five blocks
//! per thread, and does not depend on the size of the members.

use std::{
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    mem,
    num::NonZeroUsize,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use itertools::Itertools as _;

use super::{
    Deflater, Record, StorageMethod, WheelCompression, WheelMember, ZipWriter,
    deflate::{BlockPosition, plain_blocks},
    source::{KeptMember, MemberReader, SourceMember},
    writer::{FinishedZip, OpenMember, ZipStart},
};
use crate::tar::read_some;
use rocwheel_base::{
    digest::{HashedStart, Hasher, Sha256},
    error::{Context as _, Result, Stop, bail, ensure},
    parallel::{self, Limits},
    relpath::RelPath,
};

#[cfg(test)]
mod tests;

/// How to write a wheel: timestamp, compression, number of threads.
#[derive(Clone, Copy, Debug)]
pub struct PackSettings {
    /// The timestamp of every member, in seconds since 1970.
    pub time: u64,
    /// How members are compressed. The bytes of a wheel depend on it.
    pub compression: WheelCompression,
    /// How many threads compress. The wheel has the same bytes for any number.
    pub jobs: NonZeroUsize,
    /// Members longer than this are compressed in blocks. The bytes of a wheel depend on it.
    pub block: NonZeroUsize,
}

/// 1980-01-01 in seconds since 1970: the earliest timestamp of the ZIP format (APPNOTE 6.3, MS-DOS
/// date).
pub const FIRST_DAY: u64 = 315_532_800;

impl PackSettings {
    /// The timestamp and the blocks that wheels have if nothing else is asked for.
    pub fn new(compression: WheelCompression, jobs: NonZeroUsize) -> Self {
        Self { time: FIRST_DAY, compression, jobs, block: BLOCK }
    }
}

/// The directory for the lists of symlinks of a device wheel of ROCm.
pub const DEVEL_LINKS: &str = ".devel_links";

/// The order of the members of a wheel: by path, but lists of symlinks come behind other files, then
/// licence texts, then other metadata. Another order would change the bytes of every device package.
pub fn sort_key(path: &RelPath) -> (u8, RelPath) {
    let top = path.components().next().unwrap_or_default();
    let below = path.as_str().get(top.len()..).unwrap_or_default();
    let is_metadata = top.ends_with(".dist-info");
    let group = match path.parent() {
        _ if is_metadata && below.starts_with("/licenses/") => 2,
        _ if is_metadata => 3,
        // `.devel_links/gfx942.json`
        Some(directory) if directory.file_name() == DEVEL_LINKS => 1,
        _ => 0,
    };
    (group, path.clone())
}

/// A wheel to write. Its members and texts are in the order in which they are written.
pub struct WheelWork<'a> {
    /// What the wheel has, without the files in `.dist-info`.
    pub members: &'a [WheelMember],
    /// Opens a member by its index.
    pub open: &'a Open<'a>,
    /// By index, the members whose compressed bytes are copied from another wheel; they are not
    /// opened. Empty if there are none.
    pub kept: &'a [Option<KeptMember>],
    /// Paths and texts of the files in `.dist-info`, without RECORD.
    pub texts: &'a [(RelPath, String)],
    /// The path of RECORD. The writer makes its text, and writes it as the last member.
    pub record: &'a RelPath,
    /// How it is written.
    pub settings: &'a PackSettings,
    /// Ends the work early when the user interrupts.
    pub stop: &'a Stop,
    /// Called from any thread with the number of bytes that were read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Opens a member by its index.
pub type Open<'a> = dyn Fn(usize) -> Result<MemberReader> + Sync + 'a;

/// The default block: 4.5 MiB. Larger blocks compress hardly better, see docs/measuring.md.
pub const BLOCK: NonZeroUsize = NonZeroUsize::new(9 << 19).expect("not zero");
/// The size of the write buffer, which collects headers and small members.
const BUFFER: usize = 256 << 10;
/// How much of a member of another wheel is copied at a time.
const COPIED: usize = 128 << 10;

/// A wheel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenWheel {
    /// The size of the wheel in bytes.
    pub len: u64,
    /// The members, the texts, and RECORD itself, as written.
    pub record: Record,
    /// CRC-32 of all bytes that were written.
    crc: u32,
    start: ZipStart,
}

/// The digest of a wheel that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelDigest {
    /// The digest of the whole file.
    pub sha256: Sha256,
    /// The beginning of the wheel. `None` if it has no large member.
    pub start: Option<HashedStart>,
}

impl WrittenWheel {
    /// Reads the file that was written, mostly from the page cache, for its digest. Fails if it has
    /// other bytes than were written: no other program may write to it.
    ///
    /// `known` is the beginning of a wheel that members were taken from. If this wheel begins with the same bytes, only
    /// the rest is read.
    pub fn digest(
        &self,
        mut file: impl Read + Seek,
        known: Option<&HashedStart>,
    ) -> Result<WheelDigest> {
        let ZipStart { len: start_len, crc: start_crc } = self.start;
        let known = known.filter(|known| (known.len, known.crc) == (start_len, start_crc));
        let (mut start, mut hasher) = match known.and_then(|known| Some((known, known.hasher()?))) {
            Some((known, hasher)) => (Some(known.clone()), hasher),
            None => (None, Hasher::default()),
        };
        let mut at = start.as_ref().map_or(0, |start| start.len);
        let mut crc = match at {
            0 => crc32fast::Hasher::new(),
            len => crc32fast::Hasher::new_with_initial_len(start_crc, len),
        };
        file.seek(SeekFrom::Start(at))?;
        let mut buffer = vec![0; BUFFER];
        loop {
            // The bytes up to the end of the last large member come first, and then those behind it.
            let room = match start_len.saturating_sub(at) {
                0 => BUFFER,
                left => usize::try_from(left).map_or(BUFFER, |left| left.min(BUFFER)),
            };
            let read = read_some(&mut file, &mut buffer[..room])?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            crc.update(&buffer[..read]);
            at += read as u64;
            if at == start_len {
                start = Some(HashedStart::new(&hasher, start_crc));
            }
        }
        let (sha256, len) = hasher.finish();
        ensure!(
            (len, crc.finalize()) == (self.len, self.crc),
            "another program wrote to the file while it was written"
        );
        Ok(WheelDigest { sha256, start })
    }
}

/// What a wheel consists of, in the order in which it is written.
#[derive(Clone, Copy, Debug)]
pub struct WheelContents<'a> {
    /// The files, without those in `.dist-info`.
    pub members: &'a [SourceMember],
    /// Paths and texts of the files in `.dist-info`, without RECORD.
    pub texts: &'a [(RelPath, String)],
    /// The path of RECORD, which is made of all others and written last.
    pub record: &'a RelPath,
}

/// Writes a wheel. Each source is opened and read once.
pub fn write_contents(
    out: impl Write + Seek,
    contents: &WheelContents<'_>,
    settings: &PackSettings,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<WrittenWheel> {
    let &WheelContents { members: sources, texts, record } = contents;
    let members: Vec<WheelMember> = sources
        .iter()
        .map(|member| WheelMember {
            path: member.path.clone(),
            executable: member.executable,
            len: member.source.member_len(),
        })
        .collect();
    let kept: Vec<_> = sources.iter().map(|member| member.source.as_kept().cloned()).collect();
    let work = WheelWork {
        members: &members,
        open: &|index| sources[index].source.open(),
        kept: &kept,
        texts,
        record,
        settings,
        stop,
        progress,
    };
    write_wheel(out, &work)
}

/// Writes a wheel whose members are opened by their index.
pub fn write_wheel(out: impl Write + Seek, wheel: &WheelWork<'_>) -> Result<WrittenWheel> {
    let members = wheel.members.iter().map(|member| &member.path);
    let texts = wheel.texts.iter().map(|(path, _)| path);
    let mut paths = members.chain(texts).chain([wheel.record]).duplicates();
    if let Some(path) = paths.next() {
        bail!("two members of one name: `{path}`");
    }
    let PackSettings { block, jobs, compression, .. } = *wheel.settings;
    let buffers = BlockBuffers { len: block.get(), free: Mutex::default() };
    let read = ReadTasks {
        wheel,
        buffers: &buffers,
        tasks: Tasks::new(wheel.members, wheel.kept, block),
        reader: Box::new(io::empty()),
        hash: Hasher::default(),
    };
    let limits = Limits { jobs, room: 2 * jobs.get() as u64, stop: wheel.stop };
    let mut writer = WheelWriter::new(out, wheel);
    parallel::ordered(
        read.map(|task| (1, task)),
        limits,
        || compression.deflater(),
        |deflater, task| wheel.pack(task?, deflater.as_mut(), &buffers),
        |(task, pieces)| {
            writer.write(&task, &pieces)?;
            if let PackTask::Block(_) = task {
                let as_read = pieces.into_iter().filter(|it| it.method == StorageMethod::Stored);
                as_read.for_each(|piece| buffers.give(piece.bytes));
            }
            Ok(())
        },
    )?;
    writer.finish()
}

/// The buffers of blocks, which are used again: an allocator keeps the room of those that were freed, and gives it to
/// blocks of other sizes only in part.
struct BlockBuffers {
    /// The longest block.
    len: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockBuffers {
    fn free(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer with room for one byte more than the longest block.
    fn take(&self) -> Vec<u8> {
        let free = self.free().pop();
        free.unwrap_or_else(|| Vec::with_capacity(self.len.saturating_add(1)))
    }

    /// Takes a buffer back, unless its bytes were moved out of it.
    fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > self.len {
            buffer.clear();
            self.free().push(buffer);
        }
    }
}

/// A member that was packed as a whole, or a block of a large one.
struct PackedPiece {
    crc: crc32fast::Hasher,
    /// The SHA-256 of the whole member. Of its blocks, only the last one has it.
    sha256: Option<Sha256>,
    method: StorageMethod,
    bytes: Vec<u8>,
}

impl PackedPiece {
    /// Packs a member or a block. If that would not make it shorter, the bytes are moved out of the buffer.
    fn new(
        bytes: &mut Vec<u8>,
        sha256: Option<Sha256>,
        deflater: Option<&mut Deflater>,
        place: BlockPosition,
    ) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes);
        let packed = deflater.and_then(|deflater| deflater.pack(bytes, place));
        Self {
            crc,
            sha256,
            method: packed.as_ref().map_or(StorageMethod::Stored, |_| StorageMethod::Deflated),
            bytes: packed.unwrap_or_else(|| mem::take(bytes)),
        }
    }
}

impl WheelWork<'_> {
    /// Packs what is still to be packed of a task.
    fn pack(
        &self,
        (task, block): (PackTask, Option<ReadBlock>),
        mut deflater: Option<&mut Deflater>,
        buffers: &BlockBuffers,
    ) -> Result<(PackTask, Vec<PackedPiece>)> {
        let mut pieces = Vec::new();
        match (&task, block) {
            (PackTask::Block(block), Some(ReadBlock { mut bytes, sha256 })) => {
                pieces.push(PackedPiece::new(&mut bytes, sha256, deflater, block.place));
                buffers.give(bytes);
            }
            (PackTask::Batch(members), _) => {
                let mut bytes = Vec::new();
                for index in members.clone() {
                    // A member of a batch is at most one block long.
                    let whole = Block {
                        member: index,
                        start: 0,
                        len: usize::try_from(self.members[index].len)?,
                        place: BlockPosition::Last,
                    };
                    self.read(&whole, self.open(index)?, &mut bytes)?;
                    let sha256 = Some(Sha256::of(&bytes));
                    let deflater = deflater.as_deref_mut();
                    pieces.push(PackedPiece::new(&mut bytes, sha256, deflater, whole.place));
                }
            }
            _ => {}
        }
        Ok((task, pieces))
    }

    fn open(&self, index: usize) -> Result<MemberReader> {
        let path = &self.members[index].path;
        (self.open)(index).with_context(|| format!("failed to open `{path}`"))
    }

    /// Reads a member or a block into a buffer, in place of what is in it.
    fn read(&self, block: &Block, reader: impl Read, bytes: &mut Vec<u8>) -> Result<()> {
        let WheelMember { path, len, .. } = &self.members[block.member];
        // Ask for one byte more than the last block has. If there is one, the member is longer than
        // its local header will say.
        let more = usize::from(block.place == BlockPosition::Last);
        bytes.clear();
        bytes.reserve_exact(block.len + more);
        reader
            .take((block.len + more) as u64)
            .read_to_end(bytes)
            .with_context(|| format!("failed to read `{path}`"))?;
        let read = bytes.len();
        (self.progress)(read as u64);
        ensure!(read <= block.len, "`{path}` is longer than its {len} bytes");
        let end = block.start + read as u64;
        ensure!(read == block.len, "`{path}` ends after {end} of its {len} bytes");
        Ok(())
    }
}

/// The tasks. The blocks of a large member come with their bytes: they are from one reader, and its
/// hash needs them in their order.
struct ReadTasks<'a> {
    wheel: &'a WheelWork<'a>,
    buffers: &'a BlockBuffers,
    tasks: Tasks<'a>,
    reader: MemberReader,
    hash: Hasher,
}

struct ReadBlock {
    bytes: Vec<u8>,
    /// The digest of the whole member, with its last block.
    sha256: Option<Sha256>,
}

impl ReadTasks<'_> {
    fn read(&mut self, block: &Block) -> Result<ReadBlock> {
        if block.start == 0 {
            self.reader = self.wheel.open(block.member)?;
        }
        let mut bytes = self.buffers.take();
        self.wheel.read(block, &mut self.reader, &mut bytes)?;
        self.hash.update(&bytes);
        let is_last = block.place == BlockPosition::Last;
        let sha256 = is_last.then(|| mem::take(&mut self.hash).finish().0);
        Ok(ReadBlock { bytes, sha256 })
    }
}

impl Iterator for ReadTasks<'_> {
    type Item = Result<(PackTask, Option<ReadBlock>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let task = self.tasks.next()?;
        let block = match &task {
            PackTask::Block(block) => self.read(block).map(Some),
            _ => Ok(None),
        };
        Some(block.map(|block| (task, block)))
    }
}

/// The unit of work of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PackTask {
    /// A member to copy. The writer does it, no worker.
    Copy(usize),
    /// Consecutive members that are together at most one block long.
    Batch(Range<usize>),
    Block(Block),
}

/// A piece of a member that is longer than a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    member: usize,
    /// The offset of the block in the member.
    start: u64,
    len: usize,
    place: BlockPosition,
}

/// An iterator over the tasks, in order. It is lazy, because a member may have billions of blocks.
///
/// Only the lengths of the members decide, so the bytes of a wheel do not depend on the machine or
/// the number of threads.
#[derive(Clone, Debug)]
struct Tasks<'a> {
    members: &'a [WheelMember],
    kept: &'a [Option<KeptMember>],
    block: NonZeroUsize,
    next: usize,
    /// How many blocks of the next member were returned already.
    cut: u64,
}

/// The most members in a batch. Without it, any number of empty members would be one task.
const BATCH: usize = 256;

impl<'a> Tasks<'a> {
    fn new(
        members: &'a [WheelMember],
        kept: &'a [Option<KeptMember>],
        block: NonZeroUsize,
    ) -> Self {
        Self { members, kept, block, next: 0, cut: 0 }
    }

    /// The next block of a large member.
    ///
    /// All blocks of a member have the same length, or differ by one byte. A short last block would
    /// compress worse than the others.
    fn block(&mut self, len: u64) -> Block {
        let count = len.div_ceil(self.block.get() as u64);
        let short = len / count;
        let longer = len % count;
        let member = self.next;
        let index = self.cut;
        let mut place = BlockPosition::Inner;
        self.cut += 1;
        if self.cut == count {
            place = BlockPosition::Last;
            self.next += 1;
            self.cut = 0;
        }
        Block {
            member,
            start: index * short + index.min(longer),
            // At most the block length, which is a `usize`.
            len: usize::try_from(short + u64::from(index < longer)).unwrap_or(self.block.get()),
            place,
        }
    }

    fn is_kept(&self, index: usize) -> bool {
        self.kept.get(index).is_some_and(Option::is_some)
    }

    /// The next members that fit into one block together.
    fn batch(&mut self) -> Range<usize> {
        let mut room = self.block.get() as u64;
        let start = self.next;
        for member in self.members.iter().skip(start).take(BATCH) {
            let Some(left) = room.checked_sub(member.len) else {
                break;
            };
            if self.is_kept(self.next) {
                break;
            }
            room = left;
            self.next += 1;
        }
        start..self.next
    }
}

impl Iterator for Tasks<'_> {
    type Item = PackTask;

    fn next(&mut self) -> Option<PackTask> {
        let member = self.members.get(self.next)?;
        if self.is_kept(self.next) {
            self.next += 1;
            return Some(PackTask::Copy(self.next - 1));
        }
        Some(if member.len > self.block.get() as u64 {
            PackTask::Block(self.block(member.len))
        } else {
            PackTask::Batch(self.batch())
        })
    }
}

/// Appends what the threads packed in the order of the tasks, then the texts of `.dist-info` and
/// RECORD.
///
/// A large member is written before its CRC and its packed length are known, and its local header is
/// completed at the end. Nor is it known whether it will shrink. So, unless nothing is compressed, it
/// is always deflated, and a block that does not shrink becomes stored blocks of the deflate stream
/// ([RFC 1951](https://www.rfc-editor.org/rfc/rfc1951)), which make it 0.008 % longer.
struct WheelWriter<'a, W: Write + Seek> {
    zip: ZipWriter<BufWriter<W>>,
    work: &'a WheelWork<'a>,
    /// A large member of which some blocks are written, and its CRC so far.
    open: Option<(OpenMember, crc32fast::Hasher)>,
    record: Record,
}

impl<'a, W: Write + Seek> WheelWriter<'a, W> {
    fn new(out: W, work: &'a WheelWork<'a>) -> Self {
        let out = BufWriter::with_capacity(BUFFER, out);
        Self {
            zip: ZipWriter::new(out, work.settings.time),
            work,
            open: None,
            record: Record::default(),
        }
    }

    /// Writes the result of a task.
    fn write(&mut self, task: &PackTask, pieces: &[PackedPiece]) -> Result<()> {
        match task {
            PackTask::Copy(index) => self.copy(*index)?,
            PackTask::Batch(members) => {
                for (member, piece) in self.work.members[members.clone()].iter().zip(pieces) {
                    self.add(member, piece)?;
                }
            }
            PackTask::Block(block) => {
                for piece in pieces {
                    self.block(block, piece)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the compressed bytes of a member of another wheel.
    fn copy(&mut self, index: usize) -> Result<()> {
        let WheelMember { path, len, .. } = &self.work.members[index];
        let kept =
            self.work.kept.get(index).and_then(Option::as_ref).context("no member to copy")?;
        // RECORD of the new wheel needs it, and only inflating the bytes could tell.
        let sha256 = kept.sha256.with_context(|| format!("RECORD has no digest of `{path}`"))?;
        let stored = &kept.stored;
        let mut left = stored.bytes.end - stored.bytes.start;
        self.zip.announce(&self.work.members[index], stored.method, stored.crc, left)?;
        let context = || format!("failed to take `{path}` over from another wheel");
        let mut bytes = kept.open_packed().with_context(context)?;
        let mut buffer = vec![0; usize::try_from(left).map_or(COPIED, |len| len.min(COPIED))];
        while left > 0 {
            self.work.stop.check()?;
            let read = read_some(&mut bytes, &mut buffer).with_context(context)?;
            ensure!(read > 0, "the wheel that `{path}` is taken from became shorter");
            self.zip.append(&buffer[..read])?;
            left = left.saturating_sub(read as u64);
        }
        (self.work.progress)(*len);
        self.record.push(path.clone(), Some((sha256, stored.len)));
        Ok(())
    }

    /// Writes the texts, RECORD and the central directory.
    fn finish(mut self) -> Result<WrittenWheel> {
        let mut deflater = self.work.settings.compression.deflater();
        for (path, text) in self.work.texts {
            let sha256 = Sha256::of(text.as_bytes());
            self.text(path, text, Some(sha256), deflater.as_mut())?;
        }
        let path = self.work.record;
        self.record.push(path.clone(), None);
        let text = self.record.to_string();
        self.text(path, &text, None, deflater.as_mut())?;
        let FinishedZip { len, crc, start, .. } = self.zip.finish()?;
        Ok(WrittenWheel { len, record: self.record, crc, start })
    }

    fn text(
        &mut self,
        path: &RelPath,
        text: &str,
        sha256: Option<Sha256>,
        deflater: Option<&mut Deflater>,
    ) -> Result<()> {
        let member = WheelMember { path: path.clone(), executable: false, len: text.len() as u64 };
        let mut text = text.as_bytes().to_vec();
        let piece = PackedPiece::new(&mut text, sha256, deflater, BlockPosition::Last);
        self.add(&member, &piece)
    }

    fn add(&mut self, member: &WheelMember, piece: &PackedPiece) -> Result<()> {
        let crc = piece.crc.clone().finalize();
        self.zip.add(member, piece.method, crc, &piece.bytes)?;
        if let Some(sha256) = piece.sha256 {
            let content = Some((sha256, member.len));
            self.record.push(member.path.clone(), content);
        }
        Ok(())
    }

    fn block(&mut self, block: &Block, piece: &PackedPiece) -> Result<()> {
        let member = &self.work.members[block.member];
        let method = match self.work.settings.compression {
            WheelCompression::Store => StorageMethod::Stored,
            WheelCompression::Deflate(_) => StorageMethod::Deflated,
        };
        let (open, mut crc) = match self.open.take() {
            Some(begun) => begun,
            None => (self.zip.begin(member)?, crc32fast::Hasher::new()),
        };
        crc.combine(&piece.crc);
        if method == piece.method {
            self.zip.append(&piece.bytes)?;
        } else {
            for (head, chunk) in plain_blocks(&piece.bytes, block.place) {
                self.zip.append(&head)?;
                self.zip.append(chunk)?;
            }
        }
        match piece.sha256 {
            None => self.open = Some((open, crc)),
            Some(sha256) => {
                self.zip.end(open, method, crc.finalize())?;
                let content = Some((sha256, member.len));
                self.record.push(member.path.clone(), content);
            }
        }
        Ok(())
    }
}
