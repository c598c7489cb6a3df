//! The threads: they read, hash and compress, and what is done reaches the sink in its order.

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

/// The threads, and what they work on.
pub(super) struct Crew<'a>(pub(super) &'a PackWork<'a>);

/// Where the workers take their tasks, one at a time.
struct TaskQueue<'a> {
    tasks: Tasks<'a>,
    source: LargeMember,
    /// A place for each task, in order. Waiting for room here is what bounds the memory.
    queue: SyncSender<Slot<'a>>,
}

/// What becomes of a task.
type Slot<'a> = Receiver<Result<FinishedTask<'a>>>;

/// The large member that is being read.
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

/// A task that is ready to be done by one worker alone.
enum Job<'a> {
    Batch(Range<usize>),
    Block {
        bytes: Buffer<'a>,
        place: BlockPosition,
        sha256: Option<Sha256>,
    },
}

impl<'a> Crew<'a> {
    /// Does all tasks. The first error in their order ends all threads.
    pub(super) fn run<W: Output>(&self, tasks: Tasks<'a>, sink: &mut Sink<W>) -> Result<()> {
        let jobs = self.0.settings.jobs.get();
        let (queue, slots) = mpsc::sync_channel(2 * jobs);
        let line = Mutex::new(TaskQueue {
            tasks: tasks.clone(),
            source: LargeMember::new(Box::new(io::empty())),
            queue,
        });
        thread::scope(|scope| {
            // Dropped before the threads are waited for: whoever waits for room then stops.
            let slots = slots;
            for _ in tasks.clone().take(jobs) {
                thread::Builder::new()
                    .spawn_scoped(scope, || self.work(&line))
                    .context("start a thread")?;
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
            // No one listens any more when another task failed.
            let _ = reply.send(done);
        }
    }

    /// The next job, and where its result goes. The block of a large member is read here, because
    /// only one worker at a time can.
    fn next(
        &self,
        line: &Mutex<TaskQueue<'a>>,
    ) -> Option<(Sender<Result<FinishedTask<'a>>>, Result<Job<'a>>)> {
        // The lock is poisoned when a source panicked, and that ends the others too.
        let mut line = line.lock().ok()?;
        let task = line.tasks.next()?;
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
        // The lock for the hash is taken before that of the line is given back, so that blocks
        // are hashed in their order while the next one is read.
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
        // One byte more shows whether the last block is the last.
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

    /// Members that follow each other, read and packed one by one: what comes of them lies in one
    /// buffer, since it is no longer than they are.
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
        // A member of a batch is no longer than a block.
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
            .with_context(|| format!("open `{}`", self.0.contents.members[index].path))
    }

    /// Reads until the room is full or the source at its end; says how much that was.
    fn fill(&self, reader: &mut dyn Read, room: &mut [u8], path: &RelPath) -> Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match reader.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| format!("read `{path}`")),
            }
        }
        (self.0.progress)(filled as u64);
        Ok(filled)
    }
}

/// The result of a task. While it is not there yet, the sink has time for itself.
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

/// A panic that shows of itself; this is what the other threads make of it.
fn died() -> Error {
    anyhow!("a thread that packs died")
}
