//! Where the last block of a deflate stream begins (RFC 1951).
//!
//! Streams that are to be joined must not end: the first bit of a block says whether it is the last,
//! and that bit has to be cleared. libdeflate only makes whole streams, and does not say where their
//! last blocks begin; no compressor that leaves a stream open is as fast. To walk there through all blocks takes a tenth
//! of the time of packing them; so it is looked for from behind, and believed when what it holds
//! is the end of what was packed.

use super::blocks::{Bits, Codes, Symbol, may_be_dynamic, stored_len};

/// The shape of a stream, in bits from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// The header of the last block, whose first bit says that it is the last.
    pub(super) last_block: usize,
    /// The first bit that is not the stream's.
    pub(super) end: usize,
}

/// How much of a stream's end is searched: libdeflate has no block of more than 300 KB, and nothing
/// that it packs gets longer.
const SEARCHED: usize = 320 << 10;
/// How many bytes have to agree: fewer could by chance.
const ENOUGH: usize = 64;
/// How many symbols are compared.
const COMPARED: usize = 1024;

/// Finds the ends of streams, one after the other.
#[derive(Default)]
pub(super) struct Finder {
    codes: Codes,
    first: Vec<Symbol>,
}

impl Finder {
    /// The ending of a stream that these bytes were packed to; `None` when it is no stream.
    pub(super) fn find(&mut self, stream: &[u8], bytes: &[u8]) -> Option<Ending> {
        stored(stream, bytes)
            .or_else(|| self.search(stream, bytes))
            .or_else(|| self.walk(stream))
    }

    /// The last block, if it has codes of its own.
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

    /// Where the block that begins here ends, if it is the last one of what was packed.
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

    /// The same, from the first block on.
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

/// The last block, if it is a stored one.
pub(super) fn stored(stream: &[u8], bytes: &[u8]) -> Option<Ending> {
    let most = stream.len().min(bytes.len()).min(u16::MAX.into());
    let len = (ENOUGH..=most).find(|len| {
        let (head, content) = stream.split_at(stream.len() - len);
        head.last_chunk()
            .is_some_and(|head| stored_len(*head) == Some(*len))
            && bytes.ends_with(content)
    })?;
    // In front of the length is the header: 1, 00, and zeros up to a whole byte.
    let before = stream.get(..stream.len() - len - 4)?;
    let (last, rest) = before.split_last()?;
    let next_to_last = rest.last().map_or(0, |byte| u16::from(*byte));
    let header = (u16::from(*last) << 8 | next_to_last).checked_ilog2()? as usize;
    (6..=13).contains(&header).then_some(Ending {
        last_block: (before.len() * 8 + header).checked_sub(16)?,
        end: stream.len() * 8,
    })
}

/// How many bits are looked at at once.
const WINDOW: usize = 48;

/// Where in a window a last block with codes of its own may begin: it says 1, 01, and two numbers of
/// five bits that are less than 30.
fn likely(word: u64) -> u64 {
    let bit = |index: u32| word >> index;
    let too_large = |index: u32| bit(index) & bit(index + 1) & bit(index + 2) & bit(index + 3);
    let starts = word & !bit(1) & bit(2) & !too_large(4) & !too_large(9);
    starts & !(u64::MAX << WINDOW)
}

/// Whether these symbols stand for the bytes from `start` on.
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
