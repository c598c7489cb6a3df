//! Deflate in pieces: whole members at once, and large ones in blocks that join to one stream.
//!
//! The blocks of a member have nothing in common, so that all cores work on it; with streams of 3 MiB
//! that costs 0.1 % of the size.

use std::{fmt, str::FromStr};

use libdeflater::{CompressionLvl, Compressor};

use outline::{Outline, outlines};

mod outline;
#[cfg(test)]
mod tests;

/// How hard to try: 1 is fast, 12 is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

/// Why a text is not a `Level`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a level is a number from 1 to 12, not {text:?}")]
pub struct InvalidLevel {
    text: String,
}

impl Default for Level {
    /// See docs/performance.md.
    fn default() -> Self {
        Self(5)
    }
}

impl FromStr for Level {
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the members of a wheel are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Store,
    Deflate(Level),
}

/// Why a text is not a `Compression`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a compression is `store` or a level from 1 to 12, not {text:?}")]
pub struct InvalidCompression {
    text: String,
}

impl Default for Compression {
    fn default() -> Self {
        Self::Deflate(Level::default())
    }
}

impl FromStr for Compression {
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

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.pad("store"),
            Self::Deflate(level) => level.fmt(f),
        }
    }
}

/// Where in its member a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Inner,
    Last,
}

/// What compressing is good for: whatever does not shrink is better left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Not worth it.
    Plain,
    Deflated(Vec<u8>),
}

/// A compressor, used again and again. What it makes depends on the bytes and the level only.
pub struct Deflater {
    compressor: Compressor,
    sampler: Compressor,
    scratch: Vec<u8>,
}

impl Deflater {
    pub fn new(level: Level) -> Self {
        let compressor = |level| Compressor::new(CompressionLvl::new(level).unwrap_or_default());
        Self {
            compressor: compressor(level.0.into()),
            sampler: compressor(1),
            scratch: Vec::new(),
        }
    }

    /// A member as one stream.
    pub fn member(&mut self, bytes: &[u8]) -> Packed {
        if !self.shrinks(bytes) {
            return Packed::Plain;
        }
        let room = room(&mut self.scratch, bytes.len());
        match self.compressor.deflate_compress(bytes, room) {
            Ok(len) => Packed::Deflated(self.scratch[..len].to_vec()),
            Err(_) => Packed::Plain,
        }
    }

    /// A block as a part of its member's stream: it begins and ends on a byte, and only the last
    /// one ends the stream.
    pub fn block(&mut self, bytes: &[u8], place: Place) -> Packed {
        if !self.shrinks(bytes) {
            return Packed::Plain;
        }
        let room = room(&mut self.scratch, bytes.len());
        let mut ends = [0; 4];
        for (index, part) in thirds(bytes).into_iter().enumerate() {
            let start = ends[index];
            match self.compressor.deflate_compress(part, &mut room[start..]) {
                Ok(len) => ends[index + 1] = start + len,
                Err(_) => return Packed::Plain,
            }
        }
        let streams = [0, 1, 2].map(|index| &self.scratch[ends[index]..ends[index + 1]]);
        let Some(outlines) = outlines(streams) else {
            return Packed::Plain;
        };
        let mut packed = Vec::with_capacity(ends[3] + 3 * (1 + MARKER.len()));
        for (index, (stream, outline)) in streams.into_iter().zip(outlines).enumerate() {
            let start = packed.len();
            packed.extend_from_slice(stream);
            if index < 2 || place == Place::Inner {
                leave_open(&mut packed, start, outline);
            }
        }
        if packed.len() < bytes.len() {
            Packed::Deflated(packed)
        } else {
            Packed::Plain
        }
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

/// Parts of a block: the outlines of three streams at once cost half of what they do in turn.
fn thirds(bytes: &[u8]) -> [&[u8]; 3] {
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 2);
    [first, second, third]
}

/// Room for less than the bytes are: a saving of 3 % is the least that inflating is worth.
fn room(scratch: &mut Vec<u8>, len: usize) -> &mut [u8] {
    let room = len - len.div_ceil(32);
    if scratch.len() < room {
        scratch.resize(room, 0);
    }
    &mut scratch[..room]
}

/// One sample is taken out of each stride.
const STRIDE: usize = 512 << 10;
const SAMPLE: usize = 4 << 10;

/// An empty stored block without its three header bits: what brings a stream to a whole byte.
const MARKER: [u8; 4] = [0, 0, 0xFF, 0xFF];

/// Lets the stream that begins at `start` go on: its last block is none any more.
fn leave_open(packed: &mut Vec<u8>, start: usize, outline: Outline) {
    if let Some(byte) = packed.get_mut(start + outline.last_block / 8) {
        *byte &= !(1 << (outline.last_block % 8));
    }
    match outline.end % 8 {
        0 => return,
        // The bits that are left, which are zeros, hold the header of a stored block.
        1..=5 => {}
        _ => packed.push(0),
    }
    packed.extend_from_slice(&MARKER);
}

/// A plain block as a part of a stream: headers, and what follows each.
pub fn plain_blocks(bytes: &[u8], place: Place) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    let count = bytes.len().div_ceil(usize::from(u16::MAX));
    bytes
        .chunks(u16::MAX.into())
        .enumerate()
        .map(move |(index, chunk)| {
            let last = place == Place::Last && index + 1 == count;
            // A chunk is no longer than fits.
            let len = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
            let ([low, high], [not_low, not_high]) = (len.to_le_bytes(), (!len).to_le_bytes());
            ([u8::from(last), low, high, not_low, not_high], chunk)
        })
}
