//! A stream that is read on a thread of its own, ahead of the one that uses it.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, Scope},
};

/// How much of a stream is read before a thread is started for the rest. For a short stream, that
/// would take longer than it saves.
const SHORT: usize = 4 << 20;
/// The buffers that go round between the two threads.
const BUFFERS: usize = 4;
const BUFFER: usize = 512 << 10;

const NO_THREAD: &str = "failed to start a thread";

/// Reads `source` ahead of `consume`, with at most 2 MiB under way. So each works while the other
/// one does: one downloads and another decompresses, or one decompresses and another writes.
///
/// `source` may have been read further than `consume` did. When `consume` returns, at most the read
/// that is under way is waited for.
pub fn ahead<R: Read + Send, T>(source: R, consume: impl FnOnce(&mut (dyn Read + Send)) -> T) -> T {
    thread::scope(|scope| {
        consume(&mut ReadAhead {
            source: Some(source),
            left: SHORT,
            scope,
            rest: None,
        })
    })
}

struct ReadAhead<'scope, 'env, R> {
    /// `None` once its thread has it, or could not be started.
    source: Option<R>,
    /// How much is read before that.
    left: usize,
    scope: &'scope Scope<'scope, 'env>,
    rest: Option<Rest>,
}

/// What a thread reads.
struct Rest {
    full: mpsc::Receiver<Filled>,
    empty: mpsc::Sender<Vec<u8>>,
    current: Filled,
    at: usize,
    /// Whether the reader is gone.
    is_over: Arc<AtomicBool>,
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A buffer, how much of it was read, and how the last read ended. The end of the stream is a buffer
/// without bytes.
struct Filled {
    buffer: Vec<u8>,
    len: usize,
    end: io::Result<()>,
}

impl<'scope, R: Read + Send + 'scope> ReadAhead<'scope, '_, R> {
    fn start(&self, source: R) -> io::Result<Rest> {
        let (sender, full) = mpsc::channel();
        let (empty, empties) = mpsc::channel::<Vec<u8>>();
        for _ in 1..BUFFERS {
            // Cannot fail: the receiver is here.
            let _ = empty.send(vec![0; BUFFER]);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let read = move || {
            let mut source = source;
            for buffer in empties {
                let filled = filled(&mut source, buffer, &ends);
                let is_last = filled.len == 0 || filled.end.is_err();
                if sender.send(filled).is_err() || is_last {
                    return;
                }
            }
        };
        thread::Builder::new()
            .spawn_scoped(self.scope, read)
            .map_err(|error| io::Error::other(format!("{NO_THREAD}: {error}")))?;
        Ok(Rest {
            full,
            empty,
            current: Filled {
                buffer: vec![0; BUFFER],
                len: 0,
                end: Ok(()),
            },
            at: 0,
            is_over,
        })
    }
}

/// Fills a buffer as far as the source goes, unless the reader is gone.
fn filled(source: &mut impl Read, mut buffer: Vec<u8>, is_over: &AtomicBool) -> Filled {
    let mut len = 0;
    while len < buffer.len() && !is_over.load(Ordering::Relaxed) {
        match source.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let end = Err(error);
                return Filled { buffer, len, end };
            }
        }
    }
    let end = Ok(());
    Filled { buffer, len, end }
}

impl Rest {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len {
            std::mem::replace(&mut self.current.end, Ok(()))?;
            // The thread has ended: after the last buffer, or by a panic that the scope passes on.
            let Ok(next) = self.full.recv() else {
                return Ok(0);
            };
            let last = std::mem::replace(&mut self.current, next);
            self.at = 0;
            // Fails once the thread has ended, and needs no more buffers.
            let _ = self.empty.send(last.buffer);
        }
        let read = (&self.current.buffer[self.at..self.current.len]).read(buf)?;
        self.at += read;
        Ok(read)
    }
}

impl<'scope, R: Read + Send + 'scope> Read for ReadAhead<'scope, '_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(source) = self.source.as_mut().filter(|_| self.left > 0) {
            let read = source.read(buf)?;
            self.left = self.left.saturating_sub(read);
            return Ok(read);
        }
        if let Some(source) = self.source.take() {
            self.rest = Some(self.start(source)?);
        }
        match &mut self.rest {
            Some(rest) => rest.read(buf),
            // It has failed before. The source is lost, and not at its end.
            None => Err(io::Error::other(NO_THREAD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Ends with an error.
    struct Broken<'a>(&'a [u8]);

    impl Read for Broken<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf) {
                Ok(0) => Err(io::Error::other("cut")),
                other => other,
            }
        }
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..=250).cycle().take(len).collect()
    }

    #[test]
    fn the_bytes_are_those_of_the_source_for_any_length() {
        let edge = SHORT + BUFFER;
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, edge, edge + 1, 3 * edge] {
            let (bytes, mut read) = (bytes(len), Vec::new());
            let ended = ahead(bytes.as_slice(), |it| {
                it.read_to_end(&mut read).unwrap();
                it.read(&mut [0]).unwrap()
            });
            assert!(read == bytes && ended == 0, "{len}");
        }
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it() {
        for len in [9, SHORT + 9, SHORT + BUFFER, SHORT + 7 * BUFFER + 9] {
            let (bytes, mut read) = (bytes(len), Vec::new());
            let error = ahead(Broken(&bytes), |it| it.read_to_end(&mut read).unwrap_err());
            assert_eq!((error.to_string().as_str(), read.len()), ("cut", len));
        }
    }

    #[test]
    fn a_consumer_that_ends_early_ends_the_thread() {
        let read = ahead(io::repeat(7), |it| {
            io::copy(&mut it.take(3 * SHORT as u64), &mut io::sink()).unwrap()
        });
        assert_eq!(read, 3 * SHORT as u64);
    }

    /// A host that sends a byte now and then would keep a failed command busy for minutes.
    #[test]
    fn a_consumer_that_ends_does_not_wait_for_a_buffer_to_be_full() {
        /// Slow once these bytes are read.
        struct Slow(usize, usize);
        impl Read for Slow {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                if self.0 > 0 {
                    let len = buf.len().min(self.0);
                    self.0 -= len;
                    return Ok(len);
                }
                thread::sleep(Duration::from_millis(1));
                self.1 += 1;
                assert!(self.1 < 5000, "it is read on");
                Ok(1)
            }
        }
        let read = ahead(Slow(SHORT + BUFFER, 0), |it| {
            io::copy(&mut it.take(SHORT as u64 + 1), &mut io::sink()).unwrap()
        });
        assert_eq!(read, SHORT as u64 + 1);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_the_source_is_passed_on() {
        struct Panics(usize);
        impl Read for Panics {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(buf.len()).expect("the source");
                Ok(buf.len())
            }
        }
        ahead(Panics(3 * SHORT), |it| io::copy(it, &mut io::sink())).unwrap();
    }
}
