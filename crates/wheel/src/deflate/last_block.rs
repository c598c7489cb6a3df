//! Finds the last block of a deflate stream ([RFC 1951]).
//!
//! To join streams, the first bit of the last block of each stream has to be cleared: it says that
//! no block follows. libdeflate produces only complete streams and does not report where their last
//! blocks begin; compressors that can leave a stream open are slower. Decoding all blocks up to the
//! last takes a tenth of the time of compressing them. So the last block is searched backwards from
//! the end, and a candidate is accepted only if it decodes to the end of the uncompressed bytes.
//!
//! [RFC 1951]: https://www.rfc-editor.org/rfc/rfc1951

#![expect(clippy::cast_possible_truncation, reason = "what is cast is some bits of a number")]

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
            let earlier = (at - length)
                .checked_sub(distance)
                .and_then(|start| bytes.get(start..start + length));
            earlier.is_some_and(|earlier| bytes.get(at - length..at) == Some(earlier))
        }
    })
}

// A minimal decoder for deflate blocks, starting at any bit. It does not produce the bytes: it only
// finds where blocks end.

/// The longest Huffman code of deflate, in bits.
const LONGEST: usize = 15;
/// Number of symbols in the alphabet of literals and lengths.
const LITERALS: usize = 288;
/// Number of symbols in the alphabet of distances.
const DISTANCES: usize = 32;

/// The order of the code length codes in a dynamic block (RFC 1951, section 3.2.7).
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A position in a stream, in bits, the lowest bit of a byte first. Beyond the end it reads zeros.
#[derive(Clone, Copy, Debug)]
struct Bits<'a> {
    stream: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(stream: &'a [u8], at: usize) -> Self {
        Self { stream, at }
    }

    /// The next bits, at least 57 of them.
    #[inline]
    fn peek(&self) -> u64 {
        let rest = self.stream.get(self.at / 8..).unwrap_or_default();
        let word = rest.first_chunk().map_or_else(
            || {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(last)
            },
            |word| u64::from_le_bytes(*word),
        );
        word >> (self.at % 8)
    }

    #[inline]
    fn take(&mut self, count: usize) -> usize {
        let value = self.peek() & !(u64::MAX << count);
        self.at += count;
        value as usize
    }

    fn is_past_end(&self) -> bool {
        self.at > self.stream.len() * 8
    }

    /// Skips a stored block. Its three header bits have been read before.
    fn skip_stored(&mut self) -> Option<()> {
        let start = self.at.div_ceil(8);
        let [low, high, not_low, not_high] = *self.stream.get(start..)?.first_chunk()?;
        let len = u16::from_le_bytes([low, high]);
        let is_sound = len == !u16::from_le_bytes([not_low, not_high]);
        self.at = (start + 4 + usize::from(len)) * 8;
        is_sound.then_some(())
    }
}

/// A Huffman code as one lookup table. The index are the next bits of the stream; an entry has the
/// symbol (upper bits) and the length of its code (lower four bits).
#[derive(Default)]
struct HuffmanTable {
    table: Vec<u16>,
    mask: u64,
}

impl HuffmanTable {
    /// Builds the table from code lengths; `None` if the code is incomplete. Encoders usually write
    /// complete codes. For a stream with another one, the caller finds no last block, and leaves
    /// the bytes uncompressed.
    fn set(&mut self, lengths: &[u8]) -> Option<()> {
        let mut counts = [0_usize; LONGEST + 1];
        for length in lengths {
            *counts.get_mut(usize::from(*length))? += 1;
        }
        let bits = (1..=LONGEST).rfind(|length| counts[*length] > 0)?;
        let used: usize = (1..=bits).map(|length| counts[length] << (bits - length)).sum();
        if used != 1 << bits {
            return None;
        }
        let mut codes = [0_usize; LONGEST + 2];
        for length in 1..=bits {
            codes[length + 1] = (codes[length] + counts[length]) << 1;
        }
        self.table.resize(1 << bits, 0);
        self.mask = (1 << bits) - 1;
        for (symbol, length) in lengths.iter().enumerate() {
            let length = usize::from(*length);
            if length == 0 {
                continue;
            }
            let code = codes[length] as u16;
            codes[length] += 1;
            let first = usize::from(code.reverse_bits()) >> (16 - length);
            let entry = (symbol << 4 | length) as u16;
            for place in self.table[..1 << bits].iter_mut().skip(first).step_by(1 << length) {
                *place = entry;
            }
        }
        Some(())
    }

    #[inline]
    fn next(&self, bits: &mut Bits) -> usize {
        let entry = self.table[(bits.peek() & self.mask) as usize];
        bits.at += usize::from(entry & 15);
        usize::from(entry >> 4)
    }
}

/// A decoded symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
    End,
}

/// The Huffman codes of a block, with their tables reused from block to block.
#[derive(Default)]
struct Codes {
    lengths: HuffmanTable,
    literals: HuffmanTable,
    distances: HuffmanTable,
}

impl Codes {
    /// The codes of a block with fixed codes (RFC 1951, section 3.2.6).
    fn set_fixed(&mut self) -> Option<()> {
        let mut lengths = [8; LITERALS];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        self.literals.set(&lengths)?;
        self.distances.set(&[5; DISTANCES])
    }

    /// Reads the codes of a dynamic block. Its three header bits have been read before.
    fn set_dynamic(&mut self, bits: &mut Bits) -> Option<()> {
        let literals = 257 + bits.take(5);
        let total = literals + 1 + bits.take(5);
        let given = 4 + bits.take(4);
        let mut lengths = [0; ORDER.len()];
        for place in &ORDER[..given] {
            lengths[*place] = bits.take(3) as u8;
        }
        self.lengths.set(&lengths)?;
        let mut lengths = [0_u8; LITERALS + DISTANCES];
        let mut at = 0;
        while at < total {
            let (length, times) = match self.lengths.next(bits) {
                16 => (*lengths.get(at.checked_sub(1)?)?, 3 + bits.take(2)),
                17 => (0, 3 + bits.take(3)),
                18 => (0, 11 + bits.take(7)),
                length => (length as u8, 1),
            };
            lengths.get_mut(at..at + times)?.fill(length);
            at += times;
        }
        let is_whole = at == total && lengths[256] > 0;
        is_whole.then_some(())?;
        self.literals.set(&lengths[..literals])?;
        self.distances.set(&lengths[literals..total])
    }

    /// Decodes the next symbol; `None` if the code has a meaningless value.
    #[inline]
    fn next(&self, bits: &mut Bits) -> Option<Symbol> {
        let symbol = self.literals.next(bits);
        if symbol < 256 {
            return Some(Symbol::Literal(symbol as u8));
        }
        let length = match symbol - 256 {
            0 => return Some(Symbol::End),
            code @ 1..9 => code + 2,
            code @ 9..29 => {
                // Four codes for each number of extra bits, from the code 9 on.
                let index = code - 1;
                let more = index / 4 - 1;
                ((4 + index % 4) << more) + 3 + bits.take(more)
            }
            29 => 258,
            _ => return None,
        };
        let distance = match self.distances.next(bits) {
            code @ 0..2 => code + 1,
            code @ 2..30 => {
                let more = code / 2 - 1;
                ((2 + code % 2) << more) + 1 + bits.take(more)
            }
            _ => return None,
        };
        Some(Symbol::Match { length, distance })
    }

    /// Skips the rest of the block.
    fn skip(&self, bits: &mut Bits) -> Option<()> {
        while self.next(bits)? != Symbol::End {
            if bits.is_past_end() {
                return None;
            }
        }
        Some(())
    }
}

/// What a code of each length adds to a Kraft sum, in units of 1/128.
const PARTS: [u32; 8] = [0, 64, 32, 16, 8, 4, 2, 1];

/// Cheap test before decoding: whether a dynamic block can begin at `bits`. The code of its code
/// lengths has to be complete, that is, its Kraft sum has to be 1. Most random positions fail here.
#[inline]
fn may_be_dynamic(bits: Bits) -> bool {
    let mut bits = Bits { at: bits.at + 13, ..bits };
    let given = 4 + bits.take(4);
    let mut lengths = bits.peek() & !(u64::MAX << (3 * given));
    let mut used = 0;
    while lengths > 0 && used <= 128 {
        used += PARTS[lengths as usize % PARTS.len()];
        lengths >>= 3;
    }
    used == 128
}
