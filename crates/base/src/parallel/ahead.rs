//! A stream that is read on a thread of its own, ahead of the one that uses it.

use std::{
    io::{self, BufRead, Cursor, Read},
    sync::mpsc,
    thread,
};

/// How much of a stream is read before a thread is started for the rest. For a shorter stream, the
/// thread would take longer than it saves.
const SHORT: usize = 256 << 10;
/// The chunks that wait for the consumer, and the size of one.
const CHUNKS: usize = 4;
const CHUNK: usize = 128 << 10;

/// Reads `source` ahead of `consume`, with at most 1 MiB under way. So each works while the other
/// one does: one downloads and another decompresses, or one decompresses and another writes.
///
/// `source` may have been read further than `consume` did. When `consume` returns, at most the read
/// that is under way is waited for.
pub fn ahead<R: Read + Send, T>(
    mut source: R,
    consume: impl FnOnce(&mut (dyn BufRead + Send)) -> T,
) -> T {
    let (sender, chunks) = mpsc::sync_channel(CHUNKS);
    thread::scope(|scope| {
        let mut first = Vec::new();
        match source.by_ref().take(SHORT as u64).read_to_end(&mut first) {
            Ok(SHORT) => {
                let sender_of_thread = sender.clone();
                let reader = move || while pass_on(&mut source, &sender_of_thread) {};
                if let Err(error) = thread::Builder::new().spawn_scoped(scope, reader) {
                    let why = format!("failed to start a thread: {error}");
                    let _ = sender.send(Err(io::Error::other(why)));
                }
            }
            Ok(_) => {}
            // Cannot fail: the channel has room, and the receiver is here. So it is below.
            Err(error) => drop(sender.send(Err(error))),
        }
        drop(sender);
        // It owns the receiver: without it the thread ends.
        consume(&mut ReadAhead { chunks, current: Cursor::new(first) })
    })
}

/// Reads the next chunk. False if there is none, or if the consumer is gone.
fn pass_on(source: &mut impl Read, chunks: &mpsc::SyncSender<io::Result<Vec<u8>>>) -> bool {
    let mut chunk = vec![0; CHUNK];
    match source.read(&mut chunk) {
        Ok(0) => false,
        Ok(read) => {
            chunk.truncate(read);
            chunks.send(Ok(chunk)).is_ok()
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
        Err(error) => {
            let _ = chunks.send(Err(error));
            false
        }
    }
}

struct ReadAhead {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    current: Cursor<Vec<u8>>,
}

impl BufRead for ReadAhead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.fill_buf()?.is_empty() {
            // The thread has ended: at the end of the stream, or by a panic that the scope passes on.
            let Ok(chunk) = self.chunks.recv() else {
                break;
            };
            self.current = Cursor::new(chunk?);
        }
        self.current.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.current.consume(amount);
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
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
        let edge = SHORT + CHUNK;
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
        for len in [9, SHORT + 9, SHORT + CHUNK, SHORT + 7 * CHUNK + 9] {
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
        let read = ahead(Slow(SHORT + CHUNK, 0), |it| {
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
