//! Compresses members of wheels with deflate ([RFC 1951]): small ones in one call, large ones in
//! blocks that are joined to one stream.
//!
//! The blocks of a member do not refer to each other, so all cores can compress one member at the
//! same time. With blocks of 4.5 MiB, that makes the stream hardly any larger.
//!
//! [RFC 1951]: https://www.rfc-editor.org/rfc/rfc1951

use std::{mem, str::FromStr};

use derive_more::Display;
use libdeflater::{CompressionLvl, Compressor};

use last_block::{Ending, Finder};
use rocwheel_base::error::{Context as _, Error, Result};

mod last_block;
#[cfg(test)]
mod tests;

/// Whether the members of a wheel are compressed.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub enum WheelCompression {
    /// Nothing is compressed.
    #[display("store")]
    Store,
    /// With a level: 1 is the fastest, 12 gives the smallest wheels.
    Deflate(i32),
}

/// Raise this with every change that gives the same bytes another stream: another libdeflate, other
/// samples, another `BLOCK`. A test holds the digests of some streams.
///
/// WHEEL names it, so that a comparison of two wheels knows whether they were packed in the same way.
const REVISION: u32 = 3;

impl Default for WheelCompression {
    /// The measurements are in docs/measuring.md.
    fn default() -> Self {
        Self::Deflate(5)
    }
}

impl FromStr for WheelCompression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "store" {
            return Ok(Self::Store);
        }
        let level = text.parse().ok().filter(|level| (1..=12).contains(level));
        let level = level.filter(|_| !text.starts_with(['+', '0']));
        let level = level.with_context(|| {
            format!("a compression is `store` or a level from 1 to 12, not {text:?}")
        });
        Ok(Self::Deflate(level?))
    }
}

impl WheelCompression {
    /// How members are compressed. Wheels with the same text have the same compressed bytes for the
    /// same member.
    pub fn recipe(self) -> String {
        match self {
            Self::Store => "store".to_owned(),
            Self::Deflate(level) => format!("deflate level {level}, revision {REVISION}"),
        }
    }

    /// How the members of a wheel are compressed, by its `Generator`: `rocwheel (0.1.0; deflate level 5,
    /// revision 3)`. `None` if another program made it, or a rocwheel that compressed otherwise.
    pub fn of_generator(generator: &str) -> Option<Self> {
        let versions = generator.strip_prefix("rocwheel (")?.strip_suffix(')')?;
        let (_, recipe) = versions.split_once("; ")?;
        let mut all = (1..=12).map(Self::Deflate).chain([Self::Store]);
        all.find(|compression| compression.recipe() == recipe)
    }

    /// A compressor; `None` if nothing is compressed.
    pub fn deflater(self) -> Option<Deflater> {
        let Self::Deflate(level) = self else {
            return None;
        };
        let compressor = |level| Compressor::new(CompressionLvl::new(level).unwrap_or_default());
        Some(Deflater {
            binary: compressor(level),
            text: compressor(text_level(level)),
            sampler: compressor(1),
            finder: Finder::default(),
            room: Vec::new(),
        })
    }
}

/// The level for text. A tar of headers is 3 % larger at level 5 of libdeflate than at level 6 of
/// zlib, and 1 % smaller at level 7. From level 10 on libdeflate takes several times as long, so
/// only a user who asks for such a level gets it.
fn text_level(level: i32) -> i32 {
    level.max((level + 2).min(9))
}

/// Whether a block is the last of its member, and so has to end the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPosition {
    /// Another block follows.
    Inner,
    /// The stream ends with this block.
    Last,
}

/// A compressor, reused for many members. Its output depends only on the bytes and the level.
pub struct Deflater {
    binary: Compressor,
    text: Compressor,
    sampler: Compressor,
    finder: Finder,
    /// The room of the longest block so far.
    room: Vec<u8>,
}

impl Deflater {
    /// The size of the buffer that [`Deflater::block`] needs for `len` bytes. It is larger than
    /// `len`, because joining streams can add `GAP` bytes.
    pub const fn room(len: usize) -> usize {
        len + GAP
    }

    /// Compresses a block of a member. `None` if it would save too little.
    ///
    /// The room for the result is kept for the next block: to clear as many bytes as were read takes longer than to
    /// copy the compressed ones, and a block that waits to be written has no empty room behind it.
    pub(crate) fn pack(&mut self, bytes: &[u8], place: BlockPosition) -> Option<Vec<u8>> {
        let mut room = mem::take(&mut self.room);
        room.resize(room.len().max(Self::room(bytes.len())), 0);
        let len = self.block(bytes, place, &mut room);
        let packed = len.map(|len| room[..len].to_vec());
        self.room = room;
        packed
    }

    /// Compresses a block of a member into `room`, and returns the compressed length. The output
    /// ends on a byte boundary, and only the last block ends the stream, so the outputs of all
    /// blocks can simply be concatenated. `None` if it would save too little, or if `room` is too
    /// small.
    pub fn block(&mut self, bytes: &[u8], place: BlockPosition, room: &mut [u8]) -> Option<usize> {
        if !self.shrinks(bytes) {
            return None;
        }
        let stream = room.get_mut(..worth(bytes.len()))?;
        let compressor = if is_text(bytes) { &mut self.text } else { &mut self.binary };
        let len = compressor.deflate_compress(bytes, stream).ok()?;
        if place == BlockPosition::Last {
            return Some(len);
        }
        let ending = self.finder.find(&room[..len], bytes)?;
        let len = len + leave_open(room.get_mut(..len + GAP)?, ending);
        (len < bytes.len()).then_some(len)
    }

    /// Compresses small samples to predict whether all bytes are worth it. Much of what ships in
    /// ROCm is compressed already.
    fn shrinks(&mut self, bytes: &[u8]) -> bool {
        let mut room = [0; SAMPLE];
        let before = samples(bytes).len() * SAMPLE;
        let enough = before - before / 32;
        let mut after = before;
        for sample in samples(bytes) {
            // Samples that are not compressed yet count as if they did not shrink. For most blocks
            // the first sample decides.
            if after < enough {
                return true;
            }
            let packed = self.sampler.deflate_compress(sample, &mut room);
            after -= SAMPLE - packed.unwrap_or(SAMPLE);
        }
        before == 0 || after < enough
    }
}

/// One sample from the middle of each whole stride.
fn samples(bytes: &[u8]) -> impl ExactSizeIterator<Item = &[u8]> {
    let strides = bytes.chunks_exact(STRIDE);
    strides.map(|stride| &stride[(STRIDE - SAMPLE) / 2..][..SAMPLE])
}

/// Whether almost all bytes of the samples are ASCII text. A text that is shorter than a sample
/// counts as binary, because all levels compress it about equally. Zeros count as neither: a tar of
/// texts has some, and so has a binary.
fn is_text(bytes: &[u8]) -> bool {
    let short = bytes.get(..SAMPLE).filter(|_| bytes.len() < STRIDE);
    let mut text = 0;
    let mut binary = 0;
    for byte in samples(bytes).chain(short).flatten() {
        match byte {
            0 => {}
            b' '..=b'~' | b'\t' | b'\n' | b'\r' => text += 1,
            _ => binary += 1,
        }
    }
    binary * 32 < text
}

/// The largest accepted output. Saving less than 3 % is not worth the time to inflate.
fn worth(len: usize) -> usize {
    len - len.div_ceil(32)
}

/// One sample is taken from the middle of each stride.
const STRIDE: usize = 512 << 10;
const SAMPLE: usize = 4 << 10;

/// `LEN` and `NLEN` of an empty stored block. With its three header bits before them, the block
/// pads a stream to a byte boundary.
const MARKER: [u8; 4] = [0, 0, 0xFF, 0xFF];

/// The most bytes that [`leave_open`] appends.
const GAP: usize = 1 + MARKER.len();

/// Makes the last block of a stream an inner one, so that another stream may follow. Returns the
/// number of bytes that were appended.
fn leave_open(stream: &mut [u8], ending: Ending) -> usize {
    // Clear BFINAL, the bit that makes a block the last one (RFC 1951, section 3.2.3). The stream
    // then ends at any bit, but the next one starts at a byte. An empty stored block fills the gap:
    // header `000`, zeros up to the next byte, then `LEN` and `NLEN`. This is what zlib calls a
    // sync flush.
    stream[ending.last_block / 8] &= !(1 << (ending.last_block % 8));
    let zeros = match ending.end % 8 {
        0 => return 0,
        // The last byte has at least three bits left, and they are zero: they are the header.
        1..=5 => 0,
        _ => 1,
    };
    let end = ending.end.div_ceil(8);
    stream[end..][..zeros].fill(0);
    stream[end + zeros..][..MARKER.len()].copy_from_slice(&MARKER);
    zeros + MARKER.len()
}

/// Splits the bytes of a block into stored blocks of deflate: for each, its header and its
/// contents. Used for a block that is not worth compressing, inside of a member that is.
pub(crate) fn plain_blocks(
    bytes: &[u8],
    place: BlockPosition,
) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    let count = bytes.len().div_ceil(usize::from(u16::MAX));
    bytes.chunks(u16::MAX.into()).enumerate().map(move |(index, chunk)| {
        let last = place == BlockPosition::Last && index + 1 == count;
        // `chunks` makes no chunk longer than `u16::MAX`.
        let len = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
        let [low, high] = len.to_le_bytes();
        let [not_low, not_high] = (!len).to_le_bytes();
        ([u8::from(last), low, high, not_low, not_high], chunk)
    })
}
