//! The worker threads read, hash and compress members. Their results reach the sink in the order of
//! the tasks.

use std::{
    io::{self, Read, Write as _},
    mem,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, Receiver, SyncSender, TryRecvError},
    },
    thread,
};

use super::{
    Block, Output, PackTask, PackWork, Tasks,
    finished::{Buffer, FinishedTask, PackedPiece},
    sink::Sink,
};
use crate::{
    digest::{Hasher, Sha256},
    error::{Context as _, Error, Result, anyhow, ensure},
    wheel::{Deflater, WheelMember, deflate::BlockPosition},
};

/// The worker threads, and what they share.
pub(super) struct Crew<'a>(pub(super) &'a PackWork<'a>);

/// The tasks that no worker has taken yet. A worker locks the queue to take the next one.
struct TaskQueue<'a> {
    tasks: Tasks<'a>,
    /// The large member that the workers read, block by block, and the hash of what was read.
    reader: Box<dyn Read + Send>,
    hash: Arc<Mutex<Hasher>>,
    /// One slot per task that was taken, in the order of the tasks. The channel is bounded: a
    /// worker that sends to a full one waits for the writer, which bounds the memory.
    queue: SyncSender<Slot<'a>>,
}

/// Receives the result of one task.
type Slot<'a> = Receiver<Result<FinishedTask<'a>>>;

impl<'a> Crew<'a> {
    /// Does all tasks. The first error, in the order of the tasks, ends all threads.
    pub(super) fn run<W: Output>(&self, tasks: Tasks<'a>, sink: &mut Sink<W>) -> Result<()> {
        let jobs = self.0.settings.jobs.get();
        let (queue, slots) = mpsc::sync_channel(2 * jobs);
        let line = Mutex::new(TaskQueue {
            tasks: tasks.clone(),
            reader: Box::new(io::empty()),
            hash: Arc::default(),
            queue,
        });
        thread::scope(|scope| {
            // If the writer fails, this drops the receiver before the scope joins the threads. A
            // worker that waits to send into the full channel then gets an error and ends. With the
            // receiver outside of the scope, the join would wait forever.
            let slots = slots;
            for _ in tasks.clone().take(jobs) {
                thread::Builder::new()
                    .spawn_scoped(scope, || self.work(&line))
                    .context("failed to start a thread")?;
            }
            for task in tasks {
                let slot = slots.recv().map_err(|_| died())?;
                let done = wait(&slot, sink)?;
                self.0.stop.check()?;
                sink.take(&task, &done)?;
            }
            Ok(())
        })
    }

    /// Does the next tasks; returns if there is none.
    fn work(&self, line: &Mutex<TaskQueue<'a>>) -> Option<()> {
        let mut deflater = self.0.settings.compression.deflater();
        loop {
            // The lock is poisoned if a source panicked under it. The other workers then end as
            // well.
            let mut line = line.lock().ok()?;
            let task = line.tasks.next()?;
            // The slot is sent under the lock that the task was taken under. So slots are in the
            // order of the tasks, even if the results arrive in another order.
            let (reply, slot) = mpsc::channel();
            line.queue.send(slot).ok()?;
            let done = match task {
                PackTask::Batch(members) => {
                    drop(line);
                    self.batch(members, deflater.as_mut())
                }
                PackTask::Block(block) => self.block(&block, line, deflater.as_mut()),
            };
            // The receiver is gone if another task failed. That error is the one to report.
            let _ = reply.send(done);
        }
    }

    /// Reads and packs a block of a large member.
    fn block(
        &self,
        block: &Block,
        mut line: MutexGuard<TaskQueue>,
        deflater: Option<&mut Deflater>,
    ) -> Result<FinishedTask<'a>> {
        self.0.stop.check()?;
        // The block is read under the lock: the blocks come from one reader, which only one worker
        // at a time can use.
        if block.start == 0 {
            line.reader = self.open(block.member)?;
            line.hash = Arc::default();
        }
        let mut bytes = self.0.spare.take();
        self.read(block, &mut line.reader, &mut bytes)?;
        // A SHA-256 needs the blocks in their order. So the worker locks the hash before it unlocks
        // the queue: the next worker can read its block meanwhile, but waits here to hash it.
        let hash = Arc::clone(&line.hash);
        let mut hash = hash.lock().map_err(|_| died())?;
        drop(line);
        hash.write_all(&bytes)?;
        let is_last = block.place == BlockPosition::Last;
        let sha256 = is_last.then(|| mem::take(&mut *hash).finish().0);
        drop(hash);
        let mut out = self.0.spare.take();
        let packed =
            deflater.and_then(|deflater| deflater.block(&bytes, block.place, &mut out.room));
        let piece = PackedPiece::new(&bytes, packed, &mut out.room, 0);
        Ok(FinishedTask {
            pieces: vec![PackedPiece { sha256, ..piece }],
            bytes: out,
        })
    }

    /// Reads and packs consecutive members one by one, into one buffer. The buffer is large enough,
    /// because a member that compression would make longer is stored.
    fn batch(
        &self,
        members: Range<usize>,
        mut deflater: Option<&mut Deflater>,
    ) -> Result<FinishedTask<'a>> {
        let (mut bytes, mut out) = (self.0.spare.take(), self.0.spare.take());
        let mut pieces: Vec<PackedPiece> = Vec::with_capacity(members.len());
        for index in members {
            self.0.stop.check()?;
            // A member of a batch is at most one block long.
            let whole = Block {
                member: index,
                start: 0,
                len: usize::try_from(self.0.contents.members[index].len)?,
                place: BlockPosition::Last,
            };
            self.read(&whole, &mut self.open(index)?, &mut bytes)?;
            let start = pieces.last().map_or(0, |piece| piece.packed.end);
            let room = &mut out.room[start..];
            let packed = deflater
                .as_mut()
                .and_then(|deflater| deflater.member(&bytes, room));
            let piece = PackedPiece::new(&bytes, packed, room, start);
            let sha256 = Some(Sha256::of(&bytes));
            pieces.push(PackedPiece { sha256, ..piece });
        }
        Ok(FinishedTask { pieces, bytes: out })
    }

    fn open(&self, index: usize) -> Result<Box<dyn Read + Send>> {
        let path = &self.0.contents.members[index].path;
        (self.0.open)(index).with_context(|| format!("failed to open `{path}`"))
    }

    /// Reads a block into the buffer.
    fn read(&self, block: &Block, reader: &mut dyn Read, bytes: &mut Buffer) -> Result<()> {
        let WheelMember { path, len, .. } = &self.0.contents.members[block.member];
        // Ask for one byte more than the last block has. If there is one, the member is longer than
        // its local header will say.
        let more = usize::from(block.place == BlockPosition::Last);
        let room = &mut bytes.room[..block.len + more];
        let mut read = 0;
        while read < room.len() {
            match reader.read(&mut room[read..]) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("failed to read `{path}`"));
                }
            }
        }
        (self.0.progress)(read as u64);
        ensure!(read <= block.len, "`{path}` is longer than its {len} bytes");
        let end = block.start + read as u64;
        ensure!(
            read == block.len,
            "`{path}` ends after {end} of its {len} bytes"
        );
        bytes.len = read;
        Ok(())
    }
}

/// Waits for the result of a task. Meanwhile the sink hashes what it has not hashed yet.
fn wait<'a, W: Output>(slot: &Slot<'a>, sink: &mut Sink<W>) -> Result<FinishedTask<'a>> {
    loop {
        match slot.try_recv() {
            Ok(done) => return done,
            Err(TryRecvError::Disconnected) => return Err(died()),
            Err(TryRecvError::Empty) if sink.catch_up()? => {}
            Err(TryRecvError::Empty) => return slot.recv().map_err(|_| died())?,
        }
    }
}

/// The error of a thread that waited for another one that panicked. The panic has its own message.
fn died() -> Error {
    anyhow!("a thread that packs died")
}
