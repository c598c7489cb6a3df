//! Writes the members of a wheel: several workers compress, one writer writes in the order of the
//! members.
//!
//! A task is one block of a large member, or a batch of small members. Each worker has one task,
//! and at most two finished tasks per worker wait for the writer. So memory is about five blocks
//! per worker, and does not depend on the size of the members.

use std::{
    io::{self, Read, Write as _},
    mem,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, Receiver, SyncSender, TryRecvError},
    },
    thread,
};

use itertools::Itertools as _;

use super::{AssembleSettings, earlier::TakenMember};
use crate::{
    archive::read_full,
    digest::{Hasher, Sha256},
    error::{Context as _, Error, Result, Stop, anyhow, bail, ensure},
    relpath::RelPath,
    wheel::{Deflater, Record, StorageMethod, WheelMember, deflate::BlockPosition},
};

pub use output::Output;
use sink::Sink;
use tasks::{Block, PackTask, Tasks};

mod output;
mod sink;
mod tasks;
#[cfg(test)]
mod tests;

/// A wheel to write. Its members and texts are in the order in which they are written.
pub struct WheelWork<'a> {
    pub members: &'a [WheelMember],
    /// Opens a member by its index. It may be called twice, and must give the same bytes then.
    pub open: &'a Open<'a>,
    /// By index, the members whose compressed bytes are copied from an earlier wheel; they are not
    /// opened. Empty if there are none.
    pub taken: &'a [Option<TakenMember>],
    /// Paths and texts of the files in `.dist-info`, without RECORD.
    pub texts: &'a [(RelPath, String)],
    /// The path of RECORD. The pipeline computes its text and writes it as the last member.
    pub record: &'a RelPath,
    pub settings: &'a AssembleSettings,
    pub stop: &'a Stop,
    /// Workers call it with the number of bytes that they have read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Opens a member by its index.
pub type Open<'a> = dyn Fn(usize) -> Result<OpenedMember> + Sync + 'a;

pub type OpenedMember = Box<dyn Read + Send>;

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

/// Writes a wheel. Each member is opened and read once. A large member is opened a second time only
/// if the writer changes its method (stored or deflated) after some blocks are written.
pub fn write_wheel<W: Output>(out: &mut W, wheel: &WheelWork<'_>) -> Result<WrittenWheel> {
    let members = wheel.members.iter().map(|member| &member.path);
    let texts = wheel.texts.iter().map(|(path, _)| path);
    let mut paths = members.chain(texts).chain([wheel.record]).duplicates();
    if let Some(path) = paths.next() {
        bail!("two members of one name: `{path}`");
    }
    let spare = Spare {
        // One byte more than a block: if it can be filled, the member is longer than planned.
        size: Deflater::room(wheel.settings.block.get() + 1),
        buffers: Mutex::default(),
    };
    let mut sink = Sink::new(out, wheel);
    Workers { wheel, spare }.run(&mut sink)?;
    sink.finish()
}

/// The members of a batch or one block of a large member, and a buffer with their packed bytes.
type FinishedTask = (Vec<PackedPiece>, Box<[u8]>);

/// A member that was packed as a whole, or a block of a large one.
struct PackedPiece {
    crc: crc32fast::Hasher,
    /// The SHA-256 of the whole member. Of its blocks, only the last one has it.
    sha256: Option<Sha256>,
    method: StorageMethod,
    /// The range of its packed bytes in the buffer.
    packed: Range<usize>,
}

impl PackedPiece {
    /// Describes bytes that are at `start` of a buffer: packed to this length, or as they are.
    fn new(bytes: &[u8], sha256: Option<Sha256>, packed: Option<usize>, start: usize) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes);
        Self {
            crc,
            sha256,
            method: packed.map_or(StorageMethod::Stored, |_| StorageMethod::Deflated),
            packed: start..start + packed.unwrap_or(bytes.len()),
        }
    }
}

/// Unused buffers of one size, as many as were ever in use at the same time. To allocate fresh
/// memory for each block takes as long as to hash the block.
struct Spare {
    size: usize,
    buffers: Mutex<Vec<Box<[u8]>>>,
}

impl Spare {
    fn take(&self) -> Box<[u8]> {
        let used = self.buffers.lock().ok().and_then(|mut it| it.pop());
        // The allocator gives zeroed pages lazily: what is never written takes no memory.
        used.unwrap_or_else(|| vec![0; self.size].into())
    }

    fn give(&self, buffer: Box<[u8]>) {
        if let Ok(mut buffers) = self.buffers.lock() {
            buffers.push(buffer);
        }
    }
}

/// The worker threads, and what they share.
struct Workers<'a> {
    wheel: &'a WheelWork<'a>,
    spare: Spare,
}

/// The tasks that no worker has taken yet. A worker locks the queue to take the next one.
struct TaskQueue<'a> {
    tasks: Tasks<'a>,
    /// The large member that the workers read, block by block, and the hash of what was read.
    reader: Box<dyn Read + Send>,
    hash: Arc<Mutex<Hasher>>,
    /// One ticket per task that was taken, in the order of the tasks. The channel is bounded: a
    /// worker that sends to a full one waits for the writer, which bounds the memory.
    tickets: SyncSender<Ticket>,
}

/// Receives the result of one task.
type Ticket = Receiver<Result<FinishedTask>>;

impl<'a> Workers<'a> {
    /// Does all tasks. The first error, in the order of the tasks, ends all threads.
    fn run<W: Output>(&self, sink: &mut Sink<W>) -> Result<()> {
        let AssembleSettings { block, jobs, .. } = *self.wheel.settings;
        let tasks = Tasks::new(self.wheel.members, self.wheel.taken, block);
        let jobs = jobs.get();
        let (sender, tickets) = mpsc::sync_channel(2 * jobs);
        let queue = Mutex::new(TaskQueue {
            tasks: tasks.clone(),
            reader: Box::new(io::empty()),
            hash: Arc::default(),
            tickets: sender,
        });
        thread::scope(|scope| {
            // If the writer fails, this drops the receiver before the scope joins the threads. A
            // worker that waits to send into the full channel then gets an error and ends. With the
            // receiver outside of the scope, the join would wait forever.
            let tickets = tickets;
            let packing = tasks.clone().filter(PackTask::is_packing);
            for _ in packing.take(jobs) {
                thread::Builder::new()
                    .spawn_scoped(scope, || self.work(&queue))
                    .context("failed to start a thread")?;
            }
            for task in tasks {
                if let PackTask::Copy(index) = task {
                    sink.copy(index)?;
                    continue;
                }
                let ticket = tickets.recv().map_err(|_| died())?;
                let (pieces, bytes) = wait(&ticket, sink)?;
                self.wheel.stop.check()?;
                sink.take(&task, &pieces, &bytes)?;
                self.spare.give(bytes);
            }
            Ok(())
        })
    }

    /// Does the next tasks; returns if there is none.
    fn work(&self, queue: &Mutex<TaskQueue<'a>>) -> Option<()> {
        let mut deflater = self.wheel.settings.compression.deflater();
        loop {
            // The lock is poisoned if a source panicked under it. The other workers then end as
            // well.
            let mut queue = queue.lock().ok()?;
            let task = queue.tasks.find(PackTask::is_packing)?;
            // The ticket is sent under the lock that the task was taken under. So tickets are in the
            // order of the tasks, even if the results arrive in another order.
            let (reply, ticket) = mpsc::channel();
            queue.tickets.send(ticket).ok()?;
            let done = match task {
                PackTask::Batch(members) => {
                    drop(queue);
                    self.batch(members, deflater.as_mut())
                }
                PackTask::Block(block) => self.block(&block, queue, deflater.as_mut()),
                PackTask::Copy(_) => continue,
            };
            // The receiver is gone if another task failed. That error is the one to report.
            let _ = reply.send(done);
        }
    }

    /// Reads and packs a block of a large member.
    fn block(
        &self,
        block: &Block,
        mut queue: MutexGuard<TaskQueue>,
        deflater: Option<&mut Deflater>,
    ) -> Result<FinishedTask> {
        self.wheel.stop.check()?;
        // The block is read under the lock: the blocks come from one reader, which only one worker
        // at a time can use.
        if block.start == 0 {
            queue.reader = self.open(block.member)?;
            queue.hash = Arc::default();
        }
        let mut room = self.spare.take();
        let bytes = self.read(block, &mut queue.reader, &mut room)?;
        // A SHA-256 needs the blocks in their order. So the worker locks the hash before it unlocks
        // the queue: the next worker can read its block meanwhile, but waits here to hash it.
        let hash = Arc::clone(&queue.hash);
        let mut hash = hash.lock().map_err(|_| died())?;
        drop(queue);
        hash.write_all(bytes)?;
        let is_last = block.place == BlockPosition::Last;
        let sha256 = is_last.then(|| mem::take(&mut *hash).finish().0);
        drop(hash);
        let mut out = self.spare.take();
        let packed = deflater.and_then(|it| it.block(bytes, block.place, &mut out));
        let piece = PackedPiece::new(bytes, sha256, packed, 0);
        // Bytes that do not shrink are written from the buffer that they were read into, without a
        // copy.
        if packed.is_none() {
            mem::swap(&mut room, &mut out);
        }
        self.spare.give(room);
        Ok((vec![piece], out))
    }

    /// Reads and packs consecutive members one by one, into one buffer. The buffer is large enough,
    /// because a member that compression would make longer is stored.
    fn batch(
        &self,
        members: Range<usize>,
        mut deflater: Option<&mut Deflater>,
    ) -> Result<FinishedTask> {
        let (mut room, mut out) = (self.spare.take(), self.spare.take());
        let (mut pieces, mut start) = (Vec::with_capacity(members.len()), 0);
        for index in members {
            self.wheel.stop.check()?;
            // A member of a batch is at most one block long.
            let whole = Block {
                member: index,
                start: 0,
                len: usize::try_from(self.wheel.members[index].len)?,
                place: BlockPosition::Last,
            };
            let bytes = self.read(&whole, self.open(index)?, &mut room)?;
            let out = &mut out[start..];
            let packed = deflater
                .as_mut()
                .and_then(|it| it.block(bytes, BlockPosition::Last, out));
            if packed.is_none() {
                out[..bytes.len()].copy_from_slice(bytes);
            }
            let piece = PackedPiece::new(bytes, Some(Sha256::of(bytes)), packed, start);
            start = piece.packed.end;
            pieces.push(piece);
        }
        self.spare.give(room);
        Ok((pieces, out))
    }

    fn open(&self, index: usize) -> Result<Box<dyn Read + Send>> {
        let path = &self.wheel.members[index].path;
        (self.wheel.open)(index).with_context(|| format!("failed to open `{path}`"))
    }

    /// Reads a block to the start of a buffer, and returns it.
    fn read<'b>(
        &self,
        block: &Block,
        mut reader: impl Read,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8]> {
        let WheelMember { path, len, .. } = &self.wheel.members[block.member];
        // Ask for one byte more than the last block has. If there is one, the member is longer than
        // its local header will say.
        let more = usize::from(block.place == BlockPosition::Last);
        let room = &mut buffer[..block.len + more];
        let read = read_full(&mut reader, room);
        let read = read.with_context(|| format!("failed to read `{path}`"))?;
        (self.wheel.progress)(read as u64);
        ensure!(read <= block.len, "`{path}` is longer than its {len} bytes");
        let end = block.start + read as u64;
        ensure!(
            read == block.len,
            "`{path}` ends after {end} of its {len} bytes"
        );
        Ok(&buffer[..read])
    }
}

/// Waits for the result of a task. Meanwhile the sink hashes what it has not hashed yet.
fn wait<W: Output>(ticket: &Ticket, sink: &mut Sink<W>) -> Result<FinishedTask> {
    loop {
        match ticket.try_recv() {
            Ok(done) => return done,
            Err(TryRecvError::Disconnected) => return Err(died()),
            Err(TryRecvError::Empty) if sink.output().catch_up()? => {}
            Err(TryRecvError::Empty) => return ticket.recv().map_err(|_| died())?,
        }
    }
}

/// The error of a thread that waited for another one that panicked. The panic has its own message.
fn died() -> Error {
    anyhow!("a thread that packs died")
}
