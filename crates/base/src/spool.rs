//! [`Spool`] buffers bytes that are read a second time: the first of them in memory, and the rest in a
//! temporary file.

use std::io::{self, Read as _, Write as _};

use fs_err::File;
#[cfg(unix)]
use fs_err::os::unix::fs::FileExt as _;
#[cfg(windows)]
use fs_err::os::windows::fs::FileExt as _;

/// An append-only buffer with random access. Its temporary file has no name, and the system deletes
/// it when the process ends.
#[derive(Debug)]
pub struct Spool {
    /// The maximum number of bytes in memory.
    most: usize,
    memory: Vec<u8>,
    file: Option<File>,
    len: u64,
}

impl io::Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Spool {
    /// An empty buffer that keeps at most `most` bytes in memory.
    pub fn new(most: usize) -> Self {
        Self { most, memory: Vec::new(), file: None, len: 0 }
    }

    /// Appends bytes. Fails if the temporary file cannot be made or written.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.len = self.len.saturating_add(bytes.len() as u64);
        if self.file.is_none() && self.memory.len().saturating_add(bytes.len()) <= self.most {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::from_parts(tempfile::tempfile()?, "a temporary file")),
        };
        file.write_all(bytes)
    }

    /// How many bytes were appended.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// All bytes, if they are still in memory; `None` once there is a temporary file.
    pub fn into_memory(self) -> Option<Vec<u8>> {
        self.file.is_none().then_some(self.memory)
    }

    /// Reads up to `buffer.len()` bytes at an offset; fewer at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let in_memory = self.memory.len() as u64;
        let Some(file) = self.file.as_ref().filter(|_| offset >= in_memory) else {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            return self.memory.get(start..).unwrap_or_default().read(buffer);
        };
        let offset = offset.saturating_sub(in_memory);
        #[cfg(unix)]
        return file.read_at(buffer, offset);
        #[cfg(windows)]
        return file.seek_read(buffer, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_wherever_they_are() {
        for most in [0, 5, 10, 100] {
            let mut spool = Spool::new(most);
            for chunk in [b"abc", b"def", b"ghi"] {
                spool.push(chunk).unwrap();
            }
            assert_eq!(spool.size(), 9);
            let mut buffer = [0; 4];
            for (start, expected) in [(2, "cdef"), (7, "hi"), (9, "")] {
                let mut read = Vec::new();
                while let count @ 1.. =
                    spool.read_at(start + read.len() as u64, &mut buffer).unwrap()
                {
                    read.extend(&buffer[..count]);
                }
                assert!(read.starts_with(expected.as_bytes()), "{most}");
            }
            let kept = (most > 9).then(|| b"abcdefghi".to_vec());
            assert_eq!(spool.into_memory(), kept);
        }
    }
}
