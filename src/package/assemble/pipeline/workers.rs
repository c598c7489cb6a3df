//! The worker threads read, hash and compress members. Their results reach the sink in the order of
//! the tasks.

use std::{
    io::{self, Read, Write as _},
    mem,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, Receiver, Sender, SyncSender, TryRecvError},
    },
    thread,
};

use super::{
    Output, PackWork,
    buffer::Buffer,
    finished::{FinishedTask, PackedBlock, Small},
    sink::Sink,
    tasks::{Block, PackTask, Tasks},
};
use crate::{
    digest::{Hasher, Sha256},
    error::{Context as _, Error, Result, anyhow, ensure},
    relpath::RelPath,
    wheel::{
        deflate::{BlockPosition, Deflater, WheelCompression},
        writer::{StorageMethod, WheelMember},
    },
};

/// The worker threads, and what they share.
pub(super) struct Crew<'a>(pub(super) &'a PackWork<'a>);

/// The tasks that no worker has taken yet. A worker locks the queue to take the next one.
struct TaskQueue<'a> {
    tasks: Tasks<'a>,
    source: LargeMember,
    /// One slot per task that was taken, in the order of the tasks. The channel is bounded: a
    /// worker that sends to a full one waits for the writer, which bounds the memory.
    queue: SyncSender<Slot<'a>>,
}

/// Receives the result of one task.
type Slot<'a> = Receiver<Result<FinishedTask<'a>>>;

/// The large member that the workers read, block by block.
struct LargeMember {
    reader: Box<dyn Read + Send>,
    hash: Arc<Mutex<Hasher>>,
}

impl LargeMember {
    fn new(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            hash: Arc::default(),
        }
    }
}

/// A task that a worker can do without the lock of the queue.
enum Job<'a> {
    Batch(Range<usize>),
    Block {
        bytes: Buffer<'a>,
        place: BlockPosition,
        sha256: Option<Sha256>,
    },
}

impl<'a> Crew<'a> {
    /// Does all tasks. The first error, in the order of the tasks, ends all threads.
    pub(super) fn run<W: Output>(&self, tasks: Tasks<'a>, sink: &mut Sink<W>) -> Result<()> {
        let jobs = self.0.settings.jobs.get();
        let (queue, slots) = mpsc::sync_channel(2 * jobs);
        let line = Mutex::new(TaskQueue {
            tasks: tasks.clone(),
            source: LargeMember::new(Box::new(io::empty())),
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
                sink.take(&task, done)?;
            }
            Ok(())
        })
    }

    fn work(&self, line: &Mutex<TaskQueue<'a>>) {
        let mut deflater = match self.0.settings.compression {
            WheelCompression::Store => None,
            WheelCompression::Deflate(level) => Some(Deflater::new(level)),
        };
        while let Some((reply, job)) = self.next(line) {
            let done = job.and_then(|job| self.perform(job, deflater.as_mut()));
            // The receiver is gone if another task failed. That error is the one to report.
            let _ = reply.send(done);
        }
    }

    /// Takes the next task; returns it as a job, with the sender for its result.
    ///
    /// A block of a large member is read here, under the lock: the blocks come from one reader,
    /// which only one worker at a time can use.
    fn next(
        &self,
        line: &Mutex<TaskQueue<'a>>,
    ) -> Option<(Sender<Result<FinishedTask<'a>>>, Result<Job<'a>>)> {
        // The lock is poisoned if a source panicked under it. The other workers then end as well.
        let mut line = line.lock().ok()?;
        let task = line.tasks.next()?;
        // The slot is sent under the lock that the task was taken under. So slots are in the order
        // of the tasks, even if the results arrive in another order.
        let (reply, slot) = mpsc::channel();
        line.queue.send(slot).ok()?;
        let job = self
            .0
            .stop
            .check()
            .map_err(Into::into)
            .and_then(|()| match task {
                PackTask::Batch(members) => Ok(Job::Batch(members)),
                PackTask::Block(block) => self.read(&block, line),
            });
        Some((reply, job))
    }

    fn read(&self, block: &Block, mut line: MutexGuard<TaskQueue>) -> Result<Job<'a>> {
        let bytes = self.read_block(block, &mut line.source)?;
        // A SHA-256 needs the blocks in their order. So the worker locks the hash before it unlocks
        // the queue: the next worker can read its block meanwhile, but waits here to hash it.
        let hash = Arc::clone(&line.source.hash);
        let mut hash = hash.lock().map_err(|_| died())?;
        drop(line);
        hash.write_all(&bytes)?;
        let sha256 = (block.place == BlockPosition::Last).then(|| mem::take(&mut *hash).finish().0);
        Ok(Job::Block {
            bytes,
            place: block.place,
            sha256,
        })
    }

    fn read_block(&self, block: &Block, source: &mut LargeMember) -> Result<Buffer<'a>> {
        let WheelMember { path, len, .. } = &self.0.contents.members[block.member];
        if block.start == 0 {
            *source = LargeMember::new(self.open(block.member)?);
        }
        // Ask for one byte more than the last block has. If there is one, the member is longer than
        // its local header will say.
        let more = usize::from(block.place == BlockPosition::Last);
        let mut bytes = self.0.spare.take();
        let room = &mut bytes.room()[..block.len + more];
        let read = self.fill(&mut source.reader, room, path)?;
        ensure!(read <= block.len, "`{path}` is longer than its {len} bytes");
        let end = block.start + read as u64;
        ensure!(
            read == block.len,
            "`{path}` ends after {end} of its {len} bytes"
        );
        bytes.set_len(read);
        Ok(bytes)
    }

    fn perform(&self, job: Job<'a>, deflater: Option<&mut Deflater>) -> Result<FinishedTask<'a>> {
        match job {
            Job::Batch(members) => self.batch(members, deflater),
            Job::Block {
                bytes,
                place,
                sha256,
            } => {
                let mut crc = crc32fast::Hasher::new();
                crc.update(&bytes);
                let (method, bytes) = self.block(bytes, place, deflater);
                Ok(FinishedTask::Block(PackedBlock {
                    crc,
                    sha256,
                    method,
                    bytes,
                }))
            }
        }
    }

    fn block(
        &self,
        bytes: Buffer<'a>,
        place: BlockPosition,
        deflater: Option<&mut Deflater>,
    ) -> (StorageMethod, Buffer<'a>) {
        let Some(deflater) = deflater else {
            return (StorageMethod::Stored, bytes);
        };
        let mut packed = self.0.spare.take();
        match deflater.block(&bytes, place, packed.room()) {
            Some(len) => {
                packed.set_len(len);
                (StorageMethod::Deflated, packed)
            }
            None => (StorageMethod::Stored, bytes),
        }
    }

    /// Reads and packs consecutive members one by one, into one buffer. The buffer is large enough,
    /// because a member that compression would make longer is stored.
    fn batch(
        &self,
        members: Range<usize>,
        mut deflater: Option<&mut Deflater>,
    ) -> Result<FinishedTask<'a>> {
        let (mut bytes, mut out) = (self.0.spare.take(), self.0.spare.take());
        let mut done = Vec::with_capacity(members.len());
        let mut start = 0;
        for index in members {
            self.0.stop.check()?;
            self.read_whole(index, &mut bytes)?;
            let room = &mut out.room()[start..];
            let packed = deflater
                .as_mut()
                .and_then(|deflater| deflater.member(&bytes, room));
            if packed.is_none() {
                room[..bytes.len()].copy_from_slice(&bytes);
            }
            let end = start + packed.unwrap_or(bytes.len());
            done.push(Small {
                crc: crc32fast::hash(&bytes),
                sha256: Sha256::of(&bytes),
                method: packed.map_or(StorageMethod::Stored, |_| StorageMethod::Deflated),
                packed: start..end,
            });
            start = end;
        }
        out.set_len(start);
        Ok(FinishedTask::Batch(done, out))
    }

    fn read_whole(&self, index: usize, bytes: &mut Buffer) -> Result<()> {
        let WheelMember { path, len, .. } = &self.0.contents.members[index];
        // A member of a batch is at most one block long, so the buffer has room for one byte more.
        let most = usize::try_from(*len)?;
        let read = self.fill(&mut self.open(index)?, &mut bytes.room()[..=most], path)?;
        ensure!(read <= most, "`{path}` is longer than its {len} bytes");
        ensure!(
            read == most,
            "`{path}` ends after {read} of its {len} bytes"
        );
        bytes.set_len(read);
        Ok(())
    }

    fn open(&self, index: usize) -> Result<Box<dyn Read + Send>> {
        (self.0.open)(index)
            .with_context(|| format!("failed to open `{}`", self.0.contents.members[index].path))
    }

    /// Reads until `room` is full or the source ends. Returns the number of bytes read.
    fn fill(&self, reader: &mut dyn Read, room: &mut [u8], path: &RelPath) -> Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match reader.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("failed to read `{path}`"));
                }
            }
        }
        (self.0.progress)(filled as u64);
        Ok(filled)
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
