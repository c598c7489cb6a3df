//! Deflate in pieces: whole members at once, and large ones in blocks that join to one stream.
//!
//! The blocks of a member have nothing in common, so that all cores work on it; with blocks of 4.5
//! MiB that costs next to nothing of the size.

use std::{fmt, str::FromStr};

use libdeflater::{CompressionLvl, Compressor};

use last_block::{Ending, Finder};

mod blocks;
mod last_block;
#[cfg(test)]
mod tests;

/// How hard to try: 1 is fast, 12 is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompressionLevel(u8);

/// Why a text is not a `CompressionLevel`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a level is a number from 1 to 12, not {text:?}")]
pub struct InvalidLevel {
    text: String,
}

impl Default for CompressionLevel {
    /// See docs/performance.md.
    fn default() -> Self {
        Self(5)
    }
}

impl FromStr for CompressionLevel {
    type Err = InvalidLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = !text.starts_with(['+', '0']);
        text.parse()
            .ok()
            .filter(|level| plain && (1..=12).contains(level))
            .map(Self)
            .ok_or_else(|| InvalidLevel {
                text: text.to_owned(),
            })
    }
}

impl fmt::Display for CompressionLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the members of a wheel are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WheelCompression {
    Store,
    Deflate(CompressionLevel),
}

/// Why a text is not a `WheelCompression`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a compression is `store` or a level from 1 to 12, not {text:?}")]
pub struct InvalidCompression {
    text: String,
}

impl Default for WheelCompression {
    fn default() -> Self {
        Self::Deflate(CompressionLevel::default())
    }
}

impl FromStr for WheelCompression {
    type Err = InvalidCompression;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "store" => Ok(Self::Store),
            level => level
                .parse()
                .map(Self::Deflate)
                .map_err(|InvalidLevel { text }| InvalidCompression { text }),
        }
    }
}

impl fmt::Display for WheelCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.pad("store"),
            Self::Deflate(level) => level.fmt(f),
        }
    }
}

/// Where in its member a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPosition {
    Inner,
    Last,
}

/// A compressor, used again and again. What it makes depends on the bytes and the level only.
pub struct Deflater {
    compressor: Compressor,
    sampler: Compressor,
    finder: Finder,
}

impl Deflater {
    pub fn new(level: CompressionLevel) -> Self {
        let compressor = |level| Compressor::new(CompressionLvl::new(level).unwrap_or_default());
        Self {
            compressor: compressor(level.0.into()),
            sampler: compressor(1),
            finder: Finder::default(),
        }
    }

    /// How much room packing takes, which may be more than what is packed.
    pub const fn room(len: usize) -> usize {
        len + GAP
    }

    /// Packs a member as one stream, whose length this is. Nothing when it is not worth it, or when
    /// there is less than its room.
    pub fn member(&mut self, bytes: &[u8], room: &mut [u8]) -> Option<usize> {
        if !self.shrinks(bytes) {
            return None;
        }
        let room = room.get_mut(..worth(bytes.len()))?;
        self.compressor.deflate_compress(bytes, room).ok()
    }

    /// Packs a block as a part of its member's stream: it begins and ends on a byte, and only the
    /// last one ends the stream.
    pub fn block(&mut self, bytes: &[u8], place: BlockPosition, room: &mut [u8]) -> Option<usize> {
        if !self.shrinks(bytes) {
            return None;
        }
        let stream = room.get_mut(..worth(bytes.len()))?;
        let len = self.compressor.deflate_compress(bytes, stream).ok()?;
        if place == BlockPosition::Last {
            return Some(len);
        }
        let ending = self.finder.find(&room[..len], bytes)?;
        let len = len + leave_open(room.get_mut(..len + GAP)?, ending);
        (len < bytes.len()).then_some(len)
    }

    /// Whether bytes look as if they shrink. Much of what is shipped was compressed before.
    fn shrinks(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() < STRIDE {
            return true;
        }
        let mut room = [0; SAMPLE];
        let samples = bytes
            .chunks_exact(STRIDE)
            .map(|stride| &stride[(STRIDE - SAMPLE) / 2..][..SAMPLE]);
        let (mut before, mut after) = (0, 0);
        for sample in samples {
            before += sample.len();
            after += self
                .sampler
                .deflate_compress(sample, &mut room)
                .unwrap_or(SAMPLE);
        }
        after < before - before / 32
    }
}

/// The most that may come of packing: a saving of 3 % is the least that inflating is worth.
fn worth(len: usize) -> usize {
    len - len.div_ceil(32)
}

/// One sample is taken out of each stride.
const STRIDE: usize = 512 << 10;
const SAMPLE: usize = 4 << 10;

/// An empty stored block without its three header bits: what brings a stream to a whole byte.
const MARKER: [u8; 4] = [0, 0, 0xFF, 0xFF];

/// What a stream may grow by when it is left open.
const GAP: usize = 1 + MARKER.len();

/// Lets a stream go on, whose last block is none any more; says what it grew by.
fn leave_open(stream: &mut [u8], ending: Ending) -> usize {
    stream[ending.last_block / 8] &= !(1 << (ending.last_block % 8));
    let zeros = match ending.end % 8 {
        0 => return 0,
        // The bits that are left, which are zeros, hold the header of a stored block.
        1..=5 => 0,
        _ => 1,
    };
    let end = ending.end.div_ceil(8);
    stream[end..][..zeros].fill(0);
    stream[end + zeros..][..MARKER.len()].copy_from_slice(&MARKER);
    zeros + MARKER.len()
}

/// A plain block as a part of a stream: headers, and what follows each.
pub fn plain_blocks(bytes: &[u8], place: BlockPosition) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    let count = bytes.len().div_ceil(usize::from(u16::MAX));
    bytes
        .chunks(u16::MAX.into())
        .enumerate()
        .map(move |(index, chunk)| {
            let last = place == BlockPosition::Last && index + 1 == count;
            // A chunk is no longer than fits.
            let len = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
            let ([low, high], [not_low, not_high]) = (len.to_le_bytes(), (!len).to_le_bytes());
            ([u8::from(last), low, high, not_low, not_high], chunk)
        })
}
