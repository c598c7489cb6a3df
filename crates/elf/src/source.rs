//! `ReadAt`: reading bytes at an offset, which is all that the ELF code needs of a file.

use std::{
    io::{self, BufRead as _, BufReader, Read},
    sync::Arc,
};

use rocwheel_base::{io::FileAt, spool::Spool};

/// Bytes of a known length that can be read at any offset.
#[expect(
    clippy::len_without_is_empty,
    reason = "no caller asks whether a file is empty: it reads the header, and that fails"
)]
pub trait ReadAt {
    /// The number of bytes. It must not change while the file is read.
    fn len(&self) -> u64;

    /// Reads at most `buffer.len()` bytes. Like `Read::read`, it may return fewer, and returns 0
    /// only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for FileAt {
    fn len(&self) -> u64 {
        self.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
}

impl ReadAt for Spool {
    fn len(&self) -> u64 {
        self.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, buffer)
    }
}

impl ReadAt for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.get(start..).unwrap_or_default().read(buffer)
    }
}

impl ReadAt for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn len(&self) -> u64 {
        T::len(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        T::read_at(self, offset, buffer)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn len(&self) -> u64 {
        T::len(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        T::read_at(self, offset, buffer)
    }
}

/// Reads a source as a stream.
pub struct ReadFrom<R> {
    /// What is read.
    pub source: R,
    /// The offset of the next byte.
    pub offset: u64,
}

impl<R> ReadFrom<R> {
    /// Reads from `offset` to the end.
    pub fn new(source: R, offset: u64) -> Self {
        Self { source, offset }
    }
}

impl<R: ReadAt> Read for ReadFrom<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read_at(self.offset, buffer)?;
        self.offset = self.offset.saturating_add(count as u64);
        Ok(count)
    }
}

/// Fills the whole buffer. It is an error if the file ends before the buffer is full.
pub fn read_exact_at(source: &dyn ReadAt, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    ReadFrom::new(source, offset).read_exact(buffer).map_err(|error| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let end = source.len();
            return io::Error::new(error.kind(), format!("the file ends early, at {end}"));
        }
        error
    })
}

/// Reads the string at `start`, without its NUL; `None` if there is no NUL before `end`.
pub(super) fn read_string_at(
    source: &dyn ReadAt,
    start: u64,
    end: u64,
) -> io::Result<Option<Vec<u8>>> {
    let bytes = ReadFrom::new(source, start).take(end.saturating_sub(start));
    let mut string = Vec::new();
    // A small buffer: most strings are short, and what is behind them is not wanted.
    BufReader::with_capacity(256, bytes).read_until(0, &mut string)?;
    Ok(string.pop_if(|byte| *byte == 0).map(|_| string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_is_short_and_never_a_panic() {
        let bytes = b"abcdef".to_vec();
        let mut buffer = [0; 4];
        assert_eq!(bytes.read_at(4, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer[..2], b"ef");
        assert_eq!(bytes.read_at(u64::MAX, &mut buffer).unwrap(), 0);
        let error = read_exact_at(&bytes, 4, &mut buffer).unwrap_err();
        assert_eq!(error.to_string(), "the file ends early, at 6");
    }
}
