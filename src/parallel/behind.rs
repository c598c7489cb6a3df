//! A SHA-256 that is computed on a thread of its own, behind the one that writes the bytes.

use std::{
    io::{self, Write},
    mem,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use crate::digest::{Hasher, Sha256};

/// How much is hashed before a thread is started for the rest. For a short stream, that would take
/// longer than it saves.
const SHORT: usize = 4 << 20;
/// The buffers that go round between the two threads. They are small, so that what one thread has
/// copied is still in the cache of the processor when the other one reads it.
const BUFFERS: usize = 4;
const BUFFER: usize = 128 << 10;

/// Hashes the bytes that are written to it.
///
/// To copy bytes and to hash them takes about as long. On two cores both are done at the same time.
pub struct HashBehind {
    /// Of what no thread has hashed.
    hasher: Hasher,
    /// How much is hashed without a thread.
    left: usize,
    rest: Option<HashThread>,
}

/// What a thread hashes.
struct HashThread {
    full: mpsc::Sender<HashStep>,
    empty: mpsc::Receiver<Vec<u8>>,
    thread: JoinHandle<Hasher>,
}

enum HashStep {
    Bytes(Vec<u8>),
    /// Asks for a copy of the hash.
    Fork(mpsc::Sender<Hasher>),
}

impl HashBehind {
    /// Without a thread, if the one that writes waits for others most of the time.
    pub fn new(has_thread: bool) -> Self {
        Self {
            hasher: Hasher::default(),
            left: if has_thread { SHORT } else { usize::MAX },
            rest: None,
        }
    }

    /// Goes on with a hash of bytes that come before all others.
    pub fn go_on(&mut self, hasher: Hasher) {
        self.hasher = hasher;
    }

    /// The hash of the bytes so far, for another end.
    pub fn fork(&self) -> io::Result<Hasher> {
        let Some(rest) = &self.rest else {
            return Ok(self.hasher.clone());
        };
        let (reply, forked) = mpsc::channel();
        let asked = rest.full.send(HashStep::Fork(reply));
        asked.map_err(|_| died())?;
        forked.recv().map_err(|_| died())
    }

    /// The digest and the number of bytes.
    pub fn finish(self) -> io::Result<(Sha256, u64)> {
        let Some(HashThread { full, thread, .. }) = self.rest else {
            return Ok(self.hasher.finish());
        };
        drop(full);
        Ok(thread.join().map_err(|_| died())?.finish())
    }

    /// Starts the thread. Without one, this goes on as it began.
    fn start(&mut self) {
        let (full, to_hash) = mpsc::channel();
        let (give_back, empty) = mpsc::channel();
        for _ in 0..BUFFERS {
            // Cannot fail: the receiver is here.
            let _ = give_back.send(Vec::with_capacity(BUFFER));
        }
        let mut hasher = mem::take(&mut self.hasher);
        let begun = hasher.clone();
        let hash = move || {
            for step in to_hash {
                // In both cases the writer may have ended already.
                match step {
                    HashStep::Bytes(bytes) => {
                        hasher.update(&bytes);
                        let _ = give_back.send(bytes);
                    }
                    HashStep::Fork(reply) => drop(reply.send(hasher.clone())),
                }
            }
            hasher
        };
        let Ok(thread) = thread::Builder::new().spawn(hash) else {
            (self.hasher, self.left) = (begun, usize::MAX);
            return;
        };
        self.rest = Some(HashThread {
            full,
            empty,
            thread,
        });
    }
}

impl Write for HashBehind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.rest.is_none() && bytes.len() > self.left {
            self.start();
        }
        let Some(rest) = &self.rest else {
            self.left = self.left.saturating_sub(bytes.len());
            return self.hasher.write(bytes);
        };
        let mut buffer = rest.empty.recv().map_err(|_| died())?;
        let part = &bytes[..bytes.len().min(BUFFER)];
        buffer.clear();
        buffer.extend_from_slice(part);
        rest.full
            .send(HashStep::Bytes(buffer))
            .map_err(|_| died())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The error of a writer whose thread panicked. The panic has its own message.
fn died() -> io::Error {
    io::Error::other("a thread that hashes died")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_all_bytes_in_their_order() {
        let bytes: Vec<u8> = (0..9 << 20).map(|at: u32| at.to_le_bytes()[1]).collect();
        for len in [0, 1, SHORT, SHORT + 1, bytes.len()] {
            let bytes = &bytes[..len];
            for (has_thread, step) in [(true, 1 << 20), (true, 1000), (false, 1 << 20)] {
                let mut hash = HashBehind::new(has_thread);
                let (head, tail) = bytes.split_at(len - len / 3);
                for part in head.chunks(step) {
                    hash.write_all(part).unwrap();
                }
                let mut other = hash.fork().unwrap();
                for part in tail.chunks(step) {
                    hash.write_all(part).unwrap();
                }
                other.update(b"another end");
                let both = [head, b"another end"].concat();
                assert_eq!(other.finish(), (Sha256::of(&both), both.len() as u64));
                assert_eq!(hash.rest.is_some(), has_thread && len > SHORT);
                assert_eq!(hash.finish().unwrap(), (Sha256::of(bytes), len as u64));
            }
        }
    }
}
