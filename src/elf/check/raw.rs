//! What the verification reads of a file, without goblin: see `elf::tables`.

use std::{
    io,
    ops::{Deref, Range},
};

use crate::elf::{ElfError, ReadAt, source::read_exact_at, tables::ElfTables};

/// The headers and the dynamic table of a file. `dynamic` is `None` if there is no table, or if it
/// is not terminated.
#[derive(Debug)]
pub(super) struct RawElf {
    tables: ElfTables,
    pub(super) dynamic: Option<Vec<(u64, u64)>>,
}

impl Deref for RawElf {
    type Target = ElfTables;

    fn deref(&self) -> &ElfTables {
        &self.tables
    }
}

impl RawElf {
    pub(super) fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, ElfError> {
        let tables = ElfTables::read(source)?;
        let dynamic = tables.dynamic(source)?;
        Ok(Self { tables, dynamic })
    }

    /// The file header with zeros for the offset and the number of the program headers, which an
    /// edit may change.
    pub(super) fn header_but_table(&self) -> [u8; 64] {
        let mut header = self.header;
        for place in [32..40, 56..58] {
            header.get_mut(place).unwrap_or_default().fill(0);
        }
        header
    }

    pub(super) fn table_range(&self) -> Range<u64> {
        self.table()..step(self.table(), self.segments.len() as u64, 56)
    }

    pub(super) fn section_table_range(&self) -> Range<u64> {
        self.section_table()..step(self.section_table(), self.sections.len() as u64, 64)
    }

    pub(super) fn value(&self, wanted: u64) -> Option<u64> {
        let entries = self.dynamic.as_deref().unwrap_or_default();
        let mut found = entries.iter().rev();
        found
            .find(|(tag, _)| *tag == wanted)
            .map(|(_, value)| *value)
    }
}

/// Whether two ranges have the same bytes. Compares 64 KiB at a time.
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

/// The string at `start` without its NUL; `None` if there is no NUL before `end`.
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

fn step(start: u64, index: u64, size: u64) -> u64 {
    start.saturating_add(index.saturating_mul(size))
}
