//! Writes the members of a wheel: several workers compress, one writer writes in the order of the
//! members.
//!
//! A task is one block of a large member, or a batch of small members. Each worker has one task,
//! and at most two finished tasks per worker wait for the writer. So memory is about five blocks
//! per worker, and does not depend on the size of the members.

use std::{
    io::{self, Read, Seek, Write},
    num::NonZeroUsize,
    ops::Range,
};

use itertools::Itertools as _;

use crate::{
    digest::Sha256,
    error::{Result, Stop, bail},
    relpath::RelPath,
    wheel::{Deflater, Record, Timestamp, WheelCompression, WheelMember, deflate::BlockPosition},
};

use finished::Spare;
use sink::Sink;
use workers::Crew;

mod finished;
mod sink;
#[cfg(test)]
mod tests;
mod workers;

/// The contents of a wheel, in the order in which they are written.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// [`Open`] gets the index of a member in this slice.
    pub members: &'a [WheelMember],
    /// Paths and texts of the files in `.dist-info`, without RECORD.
    pub texts: &'a [(RelPath, String)],
    /// The path of RECORD. The pipeline computes its text and writes it as the last member.
    pub record: &'a RelPath,
}

#[derive(Clone, Copy, Debug)]
pub struct PackSettings {
    pub compression: WheelCompression,
    pub time: Timestamp,
    /// How many threads compress. The bytes of the wheel are the same for any number.
    pub jobs: NonZeroUsize,
    /// Members longer than this are compressed in blocks. The bytes of the wheel depend on it.
    pub block: NonZeroUsize,
}

/// The default block: 4.5 MiB. Larger blocks compress hardly better, see docs/performance.md.
pub const BLOCK: NonZeroUsize = NonZeroUsize::new(9 << 19).expect("not zero");

/// A finished wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenWheel {
    pub len: u64,
    pub sha256: Sha256,
    /// The members, the texts, and RECORD itself, as written.
    pub record: Record,
}

/// Opens a member by its index. A member may be opened twice, and must have the same bytes then.
pub type Open<'a> = dyn Fn(usize) -> Result<Box<dyn Read + Send>> + Sync + 'a;

/// What the workers and the writer share.
struct PackWork<'a> {
    contents: &'a Contents<'a>,
    open: &'a Open<'a>,
    settings: &'a PackSettings,
    stop: &'a Stop,
    progress: &'a (dyn Fn(u64) + Sync),
    spare: Spare,
}

/// The file of a wheel. It is written from its start, read back to hash what was written twice, and
/// truncated if compression made a member longer.
pub trait Output: Read + Write + Seek {
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

impl Output for fs_err::File {
    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Writes a wheel. Each member is opened and read once. A large member is opened a second time only
/// if the writer changes its method (stored or deflated) after some blocks are written.
///
/// Workers call `progress` with the number of bytes that they have read since the last call.
pub fn write_wheel<W: Output>(
    out: &mut W,
    contents: &Contents,
    open: &Open,
    settings: &PackSettings,
    stop: &Stop,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<WrittenWheel> {
    let members = contents.members.iter().map(|member| &member.path);
    let texts = contents.texts.iter().map(|(path, _)| path);
    let mut paths = members.chain(texts).chain([contents.record]).duplicates();
    if let Some(path) = paths.next() {
        bail!("two members of one name: `{path}`");
    }
    let tasks = Tasks {
        members: contents.members,
        block: settings.block,
        next: 0,
        cut: 0,
    };
    let work = PackWork {
        contents,
        open,
        settings,
        stop,
        progress,
        // One byte more than a block: if it can be filled, the member is longer than planned.
        spare: Spare::new(Deflater::room(settings.block.get() + 1)),
    };
    let mut sink = Sink::new(out, &work);
    Crew(&work).run(tasks, &mut sink)?;
    sink.finish()
}

/// The unit of work of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PackTask {
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
    block: NonZeroUsize,
    next: usize,
    /// How many blocks of the next member were returned already.
    cut: u64,
}

/// The most members in a batch. Without it, any number of empty members would be one task.
const BATCH: usize = 256;

impl Tasks<'_> {
    /// The next block of a large member.
    ///
    /// All blocks of a member have the same length, or differ by one byte. A short last block would
    /// compress worse than the others.
    fn block(&mut self, len: u64) -> Block {
        let count = len.div_ceil(self.block.get() as u64);
        let (short, longer) = (len / count, len % count);
        let (member, index) = (self.next, self.cut);
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

    /// The next members that fit into one block together.
    fn batch(&mut self) -> Range<usize> {
        let mut room = self.block.get() as u64;
        let start = self.next;
        for member in self.members.iter().skip(start).take(BATCH) {
            let Some(left) = room.checked_sub(member.len) else {
                break;
            };
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
        Some(if member.len > self.block.get() as u64 {
            PackTask::Block(self.block(member.len))
        } else {
            PackTask::Batch(self.batch())
        })
    }
}
