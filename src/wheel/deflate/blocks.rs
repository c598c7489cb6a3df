//! A minimal decoder for deflate blocks ([RFC 1951]), starting at any bit. It does not produce the
//! bytes: it only finds where blocks end. `last_block` uses it.
//!
//! [RFC 1951]: https://www.rfc-editor.org/rfc/rfc1951

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is cast is some bits of a number"
)]

/// The longest Huffman code of deflate, in bits.
const LONGEST: usize = 15;
/// Number of symbols in the alphabet of literals and lengths, and in that of distances.
const LITERALS: usize = 288;
const DISTANCES: usize = 32;

/// The order of the code length codes in a dynamic block (RFC 1951, section 3.2.7).
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// A position in a stream, in bits, the lowest bit of a byte first. Beyond the end it reads zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits<'a> {
    stream: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(stream: &'a [u8], at: usize) -> Self {
        Self { stream, at }
    }

    /// The next bits, at least 57 of them.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
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
    pub(super) fn take(&mut self, count: usize) -> usize {
        let value = self.peek() & !(u64::MAX << count);
        self.at += count;
        value as usize
    }

    pub(super) fn is_past_end(&self) -> bool {
        self.at > self.stream.len() * 8
    }

    /// Skips a stored block. Its three header bits have been read before.
    pub(super) fn skip_stored(&mut self) -> Option<()> {
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
        let used: usize = (1..=bits)
            .map(|length| counts[length] << (bits - length))
            .sum();
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
            for place in self.table[..1 << bits]
                .iter_mut()
                .skip(first)
                .step_by(1 << length)
            {
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
pub(super) enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
    End,
}

/// The Huffman codes of a block, with their tables reused from block to block.
#[derive(Default)]
pub(super) struct Codes {
    lengths: HuffmanTable,
    literals: HuffmanTable,
    distances: HuffmanTable,
}

impl Codes {
    /// The codes of a block with fixed codes (RFC 1951, section 3.2.6).
    pub(super) fn set_fixed(&mut self) -> Option<()> {
        let mut lengths = [8; LITERALS];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        self.literals.set(&lengths)?;
        self.distances.set(&[5; DISTANCES])
    }

    /// Reads the codes of a dynamic block. Its three header bits have been read before.
    pub(super) fn set_dynamic(&mut self, bits: &mut Bits) -> Option<()> {
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
    pub(super) fn next(&self, bits: &mut Bits) -> Option<Symbol> {
        let symbol = self.literals.next(bits);
        if symbol < 256 {
            return Some(Symbol::Literal(symbol as u8));
        }
        let length = match symbol - 256 {
            0 => return Some(Symbol::End),
            code @ 1..9 => code + 2,
            code @ 9..29 => {
                let (code, more) = (code - 1, (code - 1) / 4 - 1);
                ((4 + code % 4) << more) + 3 + bits.take(more)
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
    pub(super) fn skip(&self, bits: &mut Bits) -> Option<()> {
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
pub(super) fn may_be_dynamic(bits: Bits) -> bool {
    let mut bits = Bits {
        at: bits.at + 13,
        ..bits
    };
    let given = 4 + bits.take(4);
    let mut lengths = bits.peek() & !(u64::MAX << (3 * given));
    let mut used = 0;
    while lengths > 0 && used <= 128 {
        used += PARTS[lengths as usize % PARTS.len()];
        lengths >>= 3;
    }
    used == 128
}
