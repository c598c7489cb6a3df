//! Where the last block of a raw deflate stream begins and where the stream ends, without inflating.
//!
//! Every code of a stream is one step of an automaton without branches, and several streams are
//! walked side by side: three take half the time of one after the other.

#![expect(
    clippy::cast_possible_truncation,
    reason = "what is cast is a table's place, a count of bits, or some bits of a number"
)]

use std::ops::Range;

/// The bits that one step looks at; whatever three steps take, 55 at most, is held at once.
const LITERAL_BITS: u32 = 10;
const DISTANCE_BITS: u32 = 7;
/// No code of deflate is longer.
const LONGEST: usize = 15;
/// The symbols of both codes.
const MOST: usize = 288 + 32;

/// Where the tables lie. 288 symbols need 1334 entries (`enough 288 10 15` of zlib); 32 need at most
/// 128 and three tables of 256.
const SIZE: usize = 4096;
const DISTANCES: usize = 1336;
const END: usize = SIZE - 1;
const FAULT: usize = SIZE - 2;

/// The order in which a dynamic block gives the lengths of its length codes.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// The shape of a stream, in bits from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    /// The header of the last block, whose first bit says that it is the last.
    pub(super) last_block: usize,
    /// The first bit that is not the stream's.
    pub(super) end: usize,
}

/// The outlines of streams; `None` when one of them is no stream.
pub(super) fn outlines<const N: usize>(streams: [&[u8]; N]) -> Option<[Outline; N]> {
    let mut lanes = streams.map(Lane::new);
    for lane in &mut lanes {
        lane.enter_block()?;
    }
    while lanes.iter().any(|lane| !lane.finished) {
        step(&mut lanes)?;
        for lane in &mut lanes {
            if lane.walk.at(FAULT) {
                return None;
            }
            if lane.walk.at(END) && !lane.finished {
                lane.enter_block()?;
            }
        }
    }
    Some(lanes.map(|lane| Outline {
        last_block: lane.last_block,
        end: lane.walk.position(),
    }))
}

/// Steps all lanes on until one of them is at the end of a block.
fn step<const N: usize>(lanes: &mut [Lane; N]) -> Option<()> {
    // Copies, which the compiler keeps in registers.
    let mut walks = lanes.each_ref().map(|lane| lane.walk);
    let tables = lanes.each_ref().map(|lane| &*lane.tables.0);
    let finished = lanes.each_ref().map(|lane| lane.finished);
    loop {
        for walk in &mut walks {
            walk.refill();
        }
        for _ in 0..3 {
            for (walk, table) in walks.iter_mut().zip(tables) {
                walk.step(table);
            }
        }
        // Beyond the end there is nothing but zeros, and no need to follow them far.
        if walks.iter().any(|walk| walk.next > walk.stream.len() + 8) {
            return None;
        }
        let mut moving = walks.iter().zip(finished).filter(|(_, finished)| !finished);
        if moving.any(|(walk, _)| walk.state >= next(FAULT, 0)) {
            break;
        }
    }
    for (lane, walk) in lanes.iter_mut().zip(walks) {
        lane.walk = walk;
    }
    Some(())
}

/// One stream on its way.
struct Lane<'a> {
    walk: Walk<'a>,
    tables: Tables,
    last_block: usize,
    /// Whether the block at hand says that it is the last.
    last: bool,
    finished: bool,
}

impl<'a> Lane<'a> {
    fn new(stream: &'a [u8]) -> Self {
        Self {
            walk: Walk::new(stream),
            tables: Tables::default(),
            last_block: 0,
            last: false,
            finished: false,
        }
    }

    /// Goes on to where the next block's symbols begin, or finishes.
    fn enter_block(&mut self) -> Option<()> {
        while !self.last {
            self.last_block = self.walk.position();
            self.walk.refill();
            self.last = self.walk.take(1) == 1;
            match self.walk.take(2) {
                0 => {
                    self.walk.skip_stored()?;
                    continue;
                }
                1 => self.tables.fixed()?,
                2 => self.tables.dynamic(&mut self.walk)?,
                _ => return None,
            }
            self.walk.state = next(0, LITERAL_BITS);
            return Some(());
        }
        self.finished = true;
        self.walk.state = next(END, 0);
        (!self.walk.is_past_end()).then_some(())
    }
}

/// What a table says: how many bits to drop (bits 0 to 5), which to look at next (6 to 15), and in
/// which table (16 and up).
type Entry = u32;

const fn next(table: usize, bits: u32) -> Entry {
    (table as u32) << 16 | ((1 << bits) - 1) << 6
}

/// A place in a stream, lowest bit first; beyond its end there are zeros.
#[derive(Clone, Copy)]
struct Walk<'a> {
    stream: &'a [u8],
    /// The next byte to take in.
    next: usize,
    held: u64,
    count: u32,
    state: Entry,
}

impl<'a> Walk<'a> {
    fn new(stream: &'a [u8]) -> Self {
        Self {
            stream,
            next: 0,
            held: 0,
            count: 0,
            state: next(END, 0),
        }
    }

    fn position(&self) -> usize {
        self.next * 8 - self.count as usize
    }

    fn is_past_end(&self) -> bool {
        self.position() > self.stream.len() * 8
    }

    fn at(&self, table: usize) -> bool {
        self.state >> 16 == table as u32
    }

    /// Holds at least 56 bits afterwards.
    #[inline]
    fn refill(&mut self) {
        if let Some(bytes) = self.stream.get(self.next..).and_then(<[u8]>::first_chunk) {
            // What goes beyond the count is the same bits again next time.
            self.held |= u64::from_le_bytes(*bytes) << self.count;
            self.next += ((63 - self.count) >> 3) as usize;
            self.count |= 0x38;
        } else {
            while self.count < 56 {
                let byte = self.stream.get(self.next).copied().unwrap_or(0);
                self.held |= u64::from(byte) << self.count;
                self.next += 1;
                self.count += 8;
            }
        }
    }

    #[inline]
    fn step(&mut self, table: &[Entry; SIZE]) {
        let bits = self.held as usize & (self.state >> 6 & 0x3FF) as usize;
        let place = (self.state >> 16) as usize + bits;
        // The remainder spares the check of a bound that always holds.
        self.state = table[place % SIZE];
        self.drop(self.state);
    }

    #[inline]
    fn drop(&mut self, entry: Entry) {
        self.held >>= entry & 63;
        self.count -= entry & 63;
    }

    fn take(&mut self, count: u32) -> usize {
        let value = self.held & !(u64::MAX << count);
        self.drop(count);
        value as usize
    }

    /// Steps over a stored block, whose three header bits are already taken.
    fn skip_stored(&mut self) -> Option<()> {
        let at = self.position().div_ceil(8);
        let head: &[u8; 4] = self.stream.get(at..)?.first_chunk()?;
        let len = u16::from_le_bytes([head[0], head[1]]);
        if len != !u16::from_le_bytes([head[2], head[3]]) {
            return None;
        }
        *self = Self {
            next: at + 4 + usize::from(len),
            ..Self::new(self.stream)
        };
        Some(())
    }
}

/// The codes of the block at hand: literals and lengths first, then distances.
struct Tables(Box<[Entry; SIZE]>);

impl Default for Tables {
    fn default() -> Self {
        let mut table = Box::new([next(FAULT, 0); SIZE]);
        table[END] = next(END, 0);
        Self(table)
    }
}

impl Tables {
    fn fixed(&mut self) -> Option<()> {
        let mut lengths = [8; 288];
        lengths[144..256].fill(9);
        lengths[256..280].fill(7);
        self.literals(&lengths)?;
        self.distances(&[5; 30])
    }

    /// Takes in the codes that a dynamic block begins with.
    fn dynamic(&mut self, walk: &mut Walk) -> Option<()> {
        let literals = 257 + walk.take(5);
        let total = literals + 1 + walk.take(5);
        let given = 4 + walk.take(4);
        let mut lengths = [0_u8; 19];
        for place in &ORDER[..given] {
            walk.refill();
            lengths[*place] = walk.take(3) as u8;
        }
        // No length code is longer than 7, so that each is one look; their place is free so far.
        self.build(&lengths, DISTANCES..FAULT, 7, |symbol| next(symbol, 0))?;
        let mut lengths = [0_u8; MOST];
        let mut at = 0;
        while at < total {
            walk.refill();
            walk.state = next(DISTANCES, 7);
            walk.step(&self.0);
            let (length, times) = match walk.state >> 16 {
                16 => (*lengths.get(at.checked_sub(1)?)?, 3 + walk.take(2)),
                17 => (0, 3 + walk.take(3)),
                18 => (0, 11 + walk.take(7)),
                length => (u8::try_from(length).ok()?, 1),
            };
            lengths.get_mut(at..at + times)?.fill(length);
            at += times;
        }
        self.literals(&lengths[..literals])?;
        (at == total).then_some(())?;
        self.distances(&lengths[literals..total])
    }

    fn literals(&mut self, lengths: &[u8]) -> Option<()> {
        self.build(lengths, 0..DISTANCES, LITERAL_BITS, |symbol| match symbol {
            0..256 => next(0, LITERAL_BITS),
            256 => next(END, 0),
            // The bits that follow the code of a length: none for the first eight and for 258.
            257..265 | 285 => next(DISTANCES, DISTANCE_BITS),
            265..285 => next(DISTANCES, DISTANCE_BITS) + (symbol as u32 - 261) / 4,
            _ => next(FAULT, 0),
        })
    }

    fn distances(&mut self, lengths: &[u8]) -> Option<()> {
        self.build(
            lengths,
            DISTANCES..FAULT,
            DISTANCE_BITS,
            |symbol| match symbol {
                0..30 => next(0, LITERAL_BITS) + (symbol as u32 / 2).saturating_sub(1),
                _ => next(FAULT, 0),
            },
        )
    }

    /// Lays out the code that the lengths define: a table of `bits` first, and behind it a smaller
    /// one for each prefix that is not a code yet.
    fn build(
        &mut self,
        lengths: &[u8],
        room: Range<usize>,
        bits: u32,
        then: impl Fn(usize) -> Entry,
    ) -> Option<()> {
        let tables = self.0.get_mut(room.clone())?;
        let mut left = [0_u32; LONGEST + 1];
        for length in lengths {
            *left.get_mut(usize::from(*length))? += 1;
        }
        let mut free = 1 << bits;
        tables[..free].fill(next(FAULT, 0));
        let (mut code, mut before, mut prefix, mut second) = (0_u32, 0, usize::MAX, 0..0);
        for symbol in by_length(lengths, &left) {
            let length = u32::from(lengths[symbol]);
            code <<= length - before;
            before = length;
            let reversed = (code.reverse_bits() >> (32 - length)) as usize;
            code += 1;
            // There may be no more codes than there is room for.
            (code <= 1 << length).then_some(())?;
            if length <= bits {
                let entry = then(symbol) + length;
                spread(&mut tables[..1 << bits], reversed, length, entry);
                continue;
            }
            if reversed % (1 << bits) != prefix {
                prefix = reversed % (1 << bits);
                let second_bits = second_bits(&left, length, bits);
                second = free..free + (1 << second_bits);
                free = second.end;
                tables[prefix] = next(room.start + second.start, second_bits) + bits;
            }
            let entry = then(symbol) + length - bits;
            let table = tables.get_mut(second.clone())?;
            spread(table, reversed >> bits, length - bits, entry);
            left[length as usize] -= 1;
        }
        Some(())
    }
}

/// The symbols that have a code, in the order of their codes.
fn by_length(lengths: &[u8], counts: &[u32; LONGEST + 1]) -> impl Iterator<Item = usize> + use<> {
    let mut places = [0; LONGEST + 1];
    for length in 1..LONGEST {
        places[length + 1] = places[length] + counts[length] as usize;
    }
    let mut order = [0_u16; MOST];
    let mut count = 0;
    for (symbol, length) in lengths
        .iter()
        .enumerate()
        .filter(|(_, length)| **length > 0)
    {
        let place = &mut places[usize::from(*length)];
        order[*place] = symbol as u16;
        *place += 1;
        count += 1;
    }
    order.into_iter().take(count).map(usize::from)
}

/// Puts an entry wherever a look begins with its code.
fn spread(table: &mut [Entry], code: usize, length: u32, entry: Entry) {
    for place in table.iter_mut().skip(code).step_by(1 << length) {
        *place = entry;
    }
}

/// How many bits a second table needs so that all codes with its prefix fit.
fn second_bits(left: &[u32; LONGEST + 1], length: u32, bits: u32) -> u32 {
    let mut own = length - bits;
    let mut used = left[length as usize];
    while used < 1 << own && own + bits < LONGEST as u32 {
        own += 1;
        used = (used << 1) + left[(own + bits) as usize];
    }
    own
}
