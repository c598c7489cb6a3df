//! Finds the last block of a deflate stream ([RFC 1951]).
//!
//! To join streams, the first bit of the last block of each stream has to be cleared: it says that
//! no block follows. libdeflate produces only complete streams and does not report where their last
//! blocks begin; compressors that can leave a stream open are slower. Decoding all blocks up to the
//! last takes a tenth of the time of compressing them. So the last block is searched backwards from
//! the end, and a candidate is accepted only if it decodes to the end of the uncompressed bytes.
//!
//! [RFC 1951]: https://www.rfc-editor.org/rfc/rfc1951

use super::blocks::{Bits, Codes, Symbol, may_be_dynamic};

/// The end of a stream; positions are in bits from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Position of the header of the last block. Its first bit is BFINAL.
    pub(super) last_block: usize,
    /// Position behind the last bit of the stream. The bits up to the next byte are padding.
    pub(super) end: usize,
}

/// How many bytes at the end of a stream are searched. A block of libdeflate contains at most 300
/// KB, and its output is never longer than that.
const SEARCHED: usize = 320 << 10;
/// How many uncompressed bytes a candidate must decode to. Fewer could match by chance.
const ENOUGH: usize = 64;
/// How many symbols of a candidate are compared with the uncompressed bytes.
const COMPARED: usize = 1024;

/// Finds the last blocks of many streams, reusing its buffers.
#[derive(Default)]
pub(super) struct Finder {
    codes: Codes,
    first: Vec<Symbol>,
}

impl Finder {
    /// Finds the end of a stream, given the bytes that were compressed to it. Tries the fast way
    /// first; `None` if the stream is invalid or has an incomplete code.
    pub(super) fn find(&mut self, stream: &[u8], bytes: &[u8]) -> Option<Ending> {
        self.search(stream, bytes).or_else(|| self.walk(stream))
    }

    /// Searches backwards for a last block with dynamic codes.
    pub(super) fn search(&mut self, stream: &[u8], bytes: &[u8]) -> Option<Ending> {
        let lowest = stream.len().saturating_sub(SEARCHED);
        let mut at = stream.len();
        while at > lowest {
            at = at.saturating_sub(WINDOW / 8).max(lowest);
            let mut places = likely(Bits::new(stream, at * 8).peek());
            while let Some(last) = places.checked_ilog2() {
                places &= !(1 << last);
                let last_block = at * 8 + last as usize;
                if let Some(end) = self.dynamic(stream, last_block, bytes) {
                    return Some(Ending { last_block, end });
                }
            }
        }
        None
    }

    /// Decodes the dynamic block at bit `at`. Returns where it ends if it ends the stream and
    /// matches the end of `bytes`.
    fn dynamic(&mut self, stream: &[u8], at: usize, bytes: &[u8]) -> Option<usize> {
        if !may_be_dynamic(Bits::new(stream, at)) {
            return None;
        }
        let mut bits = Bits::new(stream, at + 3);
        self.codes.set_dynamic(&mut bits)?;
        self.first.clear();
        let mut len = 0;
        loop {
            let symbol = self.codes.next(&mut bits)?;
            len += match symbol {
                Symbol::End => break,
                Symbol::Literal(_) => 1,
                Symbol::Match { length, .. } => length,
            };
            if self.first.len() < COMPARED {
                self.first.push(symbol);
            }
            if bits.is_past_end() {
                return None;
            }
        }
        let start = bytes.len().checked_sub(len)?;
        let is_last = bits.at.div_ceil(8) == stream.len() && len >= ENOUGH;
        (is_last && holds(&self.first, bytes, start)).then_some(bits.at)
    }

    /// Decodes all blocks from the first on. Slow, but finds every kind of last block.
    pub(super) fn walk(&mut self, stream: &[u8]) -> Option<Ending> {
        let mut bits = Bits::new(stream, 0);
        loop {
            let last_block = bits.at;
            let is_last = bits.take(1) == 1;
            match bits.take(2) {
                0 => bits.skip_stored()?,
                1 => {
                    self.codes.set_fixed()?;
                    self.codes.skip(&mut bits)?;
                }
                2 => {
                    self.codes.set_dynamic(&mut bits)?;
                    self.codes.skip(&mut bits)?;
                }
                _ => return None,
            }
            if bits.is_past_end() {
                return None;
            }
            if is_last {
                let end = bits.at;
                return Some(Ending { last_block, end });
            }
        }
    }
}

/// How many candidate positions are tested at once.
const WINDOW: usize = 48;

/// The positions in a window where a last dynamic block may begin, as a bit mask. Such a block has
/// BFINAL = 1, type 2 (bits 0, 1), and two five-bit counts HLIT and HDIST that are less than 30.
fn likely(word: u64) -> u64 {
    let bit = |index: u32| word >> index;
    let too_large = |index: u32| bit(index) & bit(index + 1) & bit(index + 2) & bit(index + 3);
    let starts = word & !bit(1) & bit(2) & !too_large(4) & !too_large(9);
    starts & !(u64::MAX << WINDOW)
}

/// Whether these symbols decode to the bytes from `start` on.
fn holds(symbols: &[Symbol], bytes: &[u8], start: usize) -> bool {
    let mut at = start;
    symbols.iter().all(|symbol| match *symbol {
        Symbol::End => true,
        Symbol::Literal(byte) => {
            at += 1;
            bytes.get(at - 1) == Some(&byte)
        }
        Symbol::Match { length, distance } => {
            at += length;
            let again = (at - length).checked_sub(distance);
            let again = again.and_then(|again| bytes.get(again..again + length));
            again.is_some_and(|again| bytes.get(at - length..at) == Some(again))
        }
    })
}
