//! [`HeldBinary`]: a host binary that comes as a stream and needs random access to be examined.
//!
//! Nothing that is examined lies in machine code, of the host or of a device, and code is most of a
//! large binary: 99 % of rocSPARSE. So it is left out. Where it lies is guessed from the first bytes
//! of the binary and of its bundles, and an examination that reads code nevertheless is noticed: the
//! binary has to be read again then, and held as a whole.

use std::{cell::Cell, collections::BTreeMap, io, ops::Range};

use crate::{
    check::sparse::{KeptParts, kept_from},
    elf::{self, ReadAt},
    kpack::bundle,
    spool::Spool,
};

/// Less code than this is not worth a gap.
const LEAST: u64 = 16 << 10;
/// Where a bundle may begin: linkers lay it at a page, and files for Windows have a smaller grain.
const GRAIN: usize = 512;
/// Limits for hostile files: the places of code that are known ahead, of which a bundle has some
/// dozens, and the bundles that cannot be read.
const MOST_PLACES: usize = 1 << 14;
const MOST_FAILED: usize = 1 << 10;

pub(super) struct HeldBinary {
    bytes: Spool,
    parts: KeptParts,
    len: u64,
    /// Whether code is left out.
    is_sparse: bool,
    /// Where code lies from here on: start and end.
    code: BTreeMap<u64, u64>,
    /// The end of the last bundle that was found. No other one begins before it.
    bundle_end: u64,
    failed: usize,
    has_missed: Cell<bool>,
}

impl HeldBinary {
    /// Holds at most `memory` bytes in memory, and more in a temporary file.
    pub(super) fn whole(memory: usize) -> Self {
        Self {
            bytes: Spool::new(memory),
            parts: Vec::new(),
            len: 0,
            is_sparse: false,
            code: BTreeMap::new(),
            bundle_end: 0,
            failed: 0,
            has_missed: Cell::new(false),
        }
    }

    /// The same, without code.
    pub(super) fn sparse(memory: usize) -> Self {
        Self {
            is_sparse: true,
            ..Self::whole(memory)
        }
    }

    /// Appends the next bytes. Bundles are found only as far as their first bytes are in one chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        if self.is_sparse {
            self.find_code(chunk);
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            let (is_code, count) = self.next_part(rest.len());
            let (part, more) = rest.split_at(count);
            if !is_code {
                let place = self.bytes.size();
                let last = self.parts.last();
                // A part goes on if nothing was left out since it began.
                if last.is_none_or(|(at, from)| self.len - at != place - from) {
                    self.parts.push((self.len, place));
                }
                self.bytes.push(part)?;
            }
            self.len += count as u64;
            rest = more;
        }
        Ok(())
    }

    /// Whether the next bytes are code, and how many of them, at most `len`.
    fn next_part(&self, len: usize) -> (bool, usize) {
        let up_to = |end: u64| usize::try_from(end - self.len).unwrap_or(len).min(len);
        let mut before = self.code.range(..=self.len);
        match before.next_back() {
            Some((_, end)) if *end > self.len => (true, up_to(*end)),
            _ => {
                let next = self.code.range(self.len..).next();
                (false, next.map_or(len, |(start, _)| up_to(*start)))
            }
        }
    }

    fn find_code(&mut self, chunk: &[u8]) {
        let at = self.len;
        self.code.retain(|_, end| *end > at);
        if at == 0 {
            self.add_code(0, elf::code_segments(chunk));
        }
        let first = usize::try_from(at.next_multiple_of(GRAIN as u64) - at).unwrap_or(0);
        for inside in (first..chunk.len()).step_by(GRAIN) {
            let (start, begin) = (at + inside as u64, &chunk[inside..]);
            let is_new = start >= self.bundle_end && self.failed < MOST_FAILED;
            if is_new && bundle::is_bundle(begin) {
                let places = bundle::code_places(begin);
                let end = places.iter().map(|place| place.end).max();
                self.bundle_end = start.saturating_add(end.unwrap_or(0));
                self.failed += usize::from(end.is_none());
                self.add_code(start, places);
            }
        }
    }

    fn add_code(&mut self, start: u64, places: Vec<Range<u64>>) {
        for place in places {
            let (from, to) = (start.checked_add(place.start), start.checked_add(place.end));
            if let (Some(from), Some(to)) = (from, to)
                && to.saturating_sub(from) >= LEAST
                && self.code.len() < MOST_PLACES
            {
                let end = self.code.entry(from).or_insert(to);
                *end = to.max(*end);
            }
        }
    }

    /// Whether a byte was asked for that was left out.
    pub(super) fn has_missed(&self) -> bool {
        self.has_missed.get()
    }

    /// The bytes; only those that are held, if some were left out.
    pub(super) fn into_bytes(self) -> Spool {
        self.bytes
    }
}

impl ReadAt for HeldBinary {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || offset >= self.len {
            return Ok(0);
        }
        let Some(place) = kept_from(&self.parts, self.bytes.size(), offset) else {
            self.has_missed.set(true);
            return Err(io::Error::other("code that was left out"));
        };
        let left = usize::try_from(place.end - place.start).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        self.bytes.read_at(place.start, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        elf::write::{DeviceRelocations, SharedObject},
        kpack::bundle::write::{compress, raw},
    };

    /// Bytes that do not compress.
    fn noise(len: usize) -> Vec<u8> {
        let noise = |at: usize| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29).to_le_bytes()[0];
        (0..len).map(noise).collect()
    }

    /// A library with one bundle.
    fn library(bundle: &[u8]) -> Vec<u8> {
        SharedObject::new("libfat.so.1")
            .function("fat", 1)
            .device_code(bundle, &[0], DeviceRelocations::Rela)
            .build()
    }

    fn held(bytes: &[u8]) -> HeldBinary {
        let mut held = HeldBinary::sparse(usize::MAX);
        for chunk in bytes.chunks(64 << 10) {
            held.push(chunk).unwrap();
        }
        assert_eq!(held.len(), bytes.len() as u64);
        held
    }

    fn code(file: &dyn ReadAt) -> String {
        format!("{:?}", crate::check::observe::code::of_host(file, false))
    }

    #[test]
    fn the_code_of_a_library_is_found_without_holding_it() {
        let plain = raw(&[("gfx942", noise(5 << 20)), ("gfx1100", noise(90_000))]);
        let packed = |version| compress(&plain, version, "zstd").unwrap();
        // How much is held: of a compressed bundle its first bytes, and all of version 1.
        for (bundle, most) in [
            (plain.clone(), 100 << 10),
            (packed(2), 3 << 20),
            (packed(3), 3 << 20),
            (packed(1), 6 << 20),
        ] {
            let bytes = library(&bundle);
            let sparse = held(&bytes);
            assert_eq!(code(&sparse), code(&bytes));
            assert!(!sparse.has_missed());
            assert!(sparse.bytes.size() < most, "{}", sparse.bytes.size());
        }
    }

    #[test]
    fn a_read_of_what_was_left_out_is_noticed() {
        let bytes = library(&raw(&[("gfx942", noise(90_000))]));
        let magic = bytes.windows(8).position(|it| it == b"__CLANG_").unwrap();
        let sparse = held(&bytes);
        let mut buffer = [0; 64];
        sparse.read_at(magic as u64 + 4000, &mut buffer).unwrap();
        assert!(!sparse.has_missed());
        sparse
            .read_at(magic as u64 + 9000, &mut buffer)
            .unwrap_err();
        assert!(sparse.has_missed());
        let mut after = [0; 64];
        let end = bytes.len() - 64;
        assert_eq!(sparse.read_at(end as u64, &mut after).unwrap(), 64);
        assert_eq!(after, bytes[end..]);
    }

    #[test]
    fn hostile_bundles_take_little_memory_and_time() {
        // Every grain begins like a bundle with more entries than any has.
        let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
        bundle.extend(u64::MAX.to_le_bytes());
        bundle.resize(GRAIN, 0);
        let held = held(&bundle.repeat(20_000));
        assert_eq!(held.bytes.size(), held.len());
        assert_eq!((held.failed, held.code.len()), (MOST_FAILED, 0));
    }
}
