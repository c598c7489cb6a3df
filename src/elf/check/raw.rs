//! A second, plain reader of 64-bit little-endian ELF files.

use std::{io, ops::Range};

use crate::elf::{
    ElfError, ReadAt,
    source::read_exact_at,
    tables::{DYNAMIC, LOAD, Section, Segment, half, long},
};

#[derive(Debug)]
pub(super) struct RawElf {
    pub(super) len: u64,
    pub(super) fixed: bool,
    /// The file header without the place and the number of the program headers.
    pub(super) header: [u8; 64],
    pub(super) table: u64,
    pub(super) section_table: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) sections: Vec<Section>,
    /// Tags and values up to the end mark; `None` without one.
    pub(super) dynamic: Option<Vec<(u64, u64)>>,
}

impl RawElf {
    /// Where a program begins.
    pub(super) fn entry(&self) -> u64 {
        long(&self.header, 24)
    }

    pub(super) fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, ElfError> {
        let header: [u8; 64] = bytes(source, 0)?;
        let mut raw = Self {
            len: source.len(),
            fixed: half(&header, 16) == 2,
            header: without_table(header),
            table: long(&header, 32),
            section_table: long(&header, 40),
            segments: Vec::new(),
            sections: Vec::new(),
            dynamic: None,
        };
        for index in 0..u64::from(half(&header, 56)) {
            let entry: [u8; 56] = bytes(source, step(raw.table, index, 56))?;
            raw.segments.push(Segment::parse(&entry));
        }
        if raw.section_table != 0 {
            for index in 0..u64::from(half(&header, 60)) {
                let entry: [u8; 64] = bytes(source, step(raw.section_table, index, 64))?;
                raw.sections.push(Section::parse(&entry));
            }
        }
        raw.dynamic = raw.read_dynamic(source)?;
        Ok(raw)
    }

    pub(super) fn loads(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.kind == LOAD)
    }

    pub(super) fn first(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    pub(super) fn table_range(&self) -> Range<u64> {
        self.table..step(self.table, self.segments.len() as u64, 56)
    }

    pub(super) fn section_table_range(&self) -> Range<u64> {
        self.section_table..step(self.section_table, self.sections.len() as u64, 64)
    }

    pub(super) fn value(&self, wanted: u64) -> Option<u64> {
        let entries = self.dynamic.as_deref().unwrap_or_default();
        let mut found = entries.iter().rev();
        found
            .find(|(tag, _)| *tag == wanted)
            .map(|(_, value)| *value)
    }

    /// Where an address is in the file, if so many bytes from there on are.
    pub(super) fn place(&self, address: u64, len: u64) -> Option<u64> {
        self.loads().find_map(|load| {
            let inside = address.checked_sub(load.address)?;
            let rest = load.file_size.checked_sub(inside)?;
            (rest >= len).then(|| load.offset.saturating_add(inside))
        })
    }

    fn read_dynamic(
        &self,
        source: &(impl ReadAt + ?Sized),
    ) -> Result<Option<Vec<(u64, u64)>>, ElfError> {
        let Some(place) = self.first(DYNAMIC) else {
            return Ok(None);
        };
        let mut entries = Vec::new();
        for index in 0..place.file_size / 16 {
            let entry: [u8; 16] = bytes(source, step(place.offset, index, 16))?;
            if long(&entry, 0) == 0 {
                return Ok(Some(entries));
            }
            entries.push((long(&entry, 0), long(&entry, 8)));
        }
        Ok(None)
    }
}

/// Whether two ranges of two files hold the same bytes.
pub(super) fn same_bytes(
    one: (&(impl ReadAt + ?Sized), u64),
    other: (&(impl ReadAt + ?Sized), u64),
    len: u64,
) -> io::Result<bool> {
    let mut buffers = [vec![0; 1 << 16], vec![0; 1 << 16]];
    let mut done = 0_u64;
    while done < len {
        let count = usize::try_from(len.saturating_sub(done)).unwrap_or(usize::MAX);
        let [left, right] = &mut buffers;
        let count = count.min(left.len());
        let left = left.get_mut(..count).unwrap_or_default();
        let right = right.get_mut(..count).unwrap_or_default();
        read_exact_at(one.0, one.1.saturating_add(done), left)?;
        read_exact_at(other.0, other.1.saturating_add(done), right)?;
        if left != right {
            return Ok(false);
        }
        done = done.saturating_add(count as u64);
    }
    Ok(true)
}

/// The text up to a NUL; `None` when none comes before `end`.
pub(super) fn text(
    source: &(impl ReadAt + ?Sized),
    start: u64,
    end: u64,
) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    let mut at = start;
    while at < end {
        let count = usize::try_from(end.saturating_sub(at))
            .unwrap_or(256)
            .min(256);
        let chunk = buffer.get_mut(..count).unwrap_or_default();
        read_exact_at(source, at, chunk)?;
        match chunk.iter().position(|byte| *byte == 0) {
            Some(nul) => {
                text.extend(chunk.iter().take(nul));
                return Ok(Some(text));
            }
            None => text.extend_from_slice(chunk),
        }
        at = at.saturating_add(count as u64);
    }
    Ok(None)
}

fn without_table(mut header: [u8; 64]) -> [u8; 64] {
    for place in [32..40, 56..58] {
        header.get_mut(place).unwrap_or_default().fill(0);
    }
    header
}

fn step(start: u64, index: u64, size: u64) -> u64 {
    start.saturating_add(index.saturating_mul(size))
}

fn bytes<const N: usize>(source: &(impl ReadAt + ?Sized), offset: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    read_exact_at(source, offset, &mut bytes)?;
    Ok(bytes)
}
