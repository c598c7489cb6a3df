//! Bytes for tests: of the two kinds that matter to a compressor, and a huge file in memory.

use std::{
    collections::HashMap,
    io::{self, Read, Seek, SeekFrom, Write},
};

const PAGE: usize = 1 << 20;
static ZEROS: [u8; PAGE] = [0; PAGE];

/// A huge file in memory: pages that are all zeros are not kept.
#[derive(Default)]
pub struct SparseWheel {
    pages: HashMap<u64, Vec<u8>>,
    len: u64,
    at: u64,
}

impl SparseWheel {
    /// The number of the current page, the offset in it, and how many of `len` bytes it has.
    fn span(&self, len: usize) -> (u64, usize, usize) {
        let place = usize::try_from(self.at % PAGE as u64).unwrap();
        (self.at / PAGE as u64, place, len.min(PAGE - place))
    }
}

impl Write for SparseWheel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (page, place, len) = self.span(bytes.len());
        if self.pages.contains_key(&page) || bytes[..len] != ZEROS[..len] {
            let page = self.pages.entry(page).or_insert_with(|| ZEROS.to_vec());
            page[place..place + len].copy_from_slice(&bytes[..len]);
        }
        self.at += len as u64;
        self.len = self.len.max(self.at);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SparseWheel {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(self.at)).unwrap();
        let (page, place, len) = self.span(bytes.len().min(left));
        let page = self.pages.get(&page).map_or(&ZEROS[..], Vec::as_slice);
        bytes[..len].copy_from_slice(&page[place..place + len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for SparseWheel {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => self.len.checked_add_signed(by).unwrap(),
            SeekFrom::Current(by) => self.at.checked_add_signed(by).unwrap(),
        };
        Ok(self.at)
    }
}

/// Pseudo-random bytes, which no compressor makes shorter.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}

/// Words in random order, so that deflate produces literals, matches and distances of every kind.
pub fn prose(len: usize, seed: u64) -> Vec<u8> {
    let words: Vec<Vec<u8>> = noise(64, seed)
        .iter()
        .map(|size| noise(usize::from(size % 13) + 1, u64::from(*size)))
        .collect();
    let mut text = Vec::with_capacity(len + 16);
    for byte in noise(len, seed + 1) {
        if text.len() >= len {
            break;
        }
        text.extend_from_slice(&words[usize::from(byte % 64)]);
        if byte >= 250 {
            text.extend(std::iter::repeat_n(byte, usize::from(byte) * 3));
        }
    }
    text.truncate(len);
    text
}
