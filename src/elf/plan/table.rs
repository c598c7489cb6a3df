//! The [dynamic table](https://www.sco.com/developers/gabi/latest/ch5.dynamic.html#dynamic_section)
//! and its spare entries.

use goblin::elf::{
    dynamic::{DT_NULL, DT_RPATH, DT_RUNPATH},
    program_header::PT_DYNAMIC,
};

use crate::elf::{
    ElfError, ReadAt,
    image::{DynamicEntry, ElfImage},
    patch::Replacement,
};

const ENTRY: usize = 16;

pub(super) struct DynamicTable {
    pub(super) offset: u64,
    /// All entries before the terminating `DT_NULL`.
    pub(super) entries: Vec<DynamicEntry>,
    /// Number of unused entries behind the terminating one. GNU ld reserves some; lld does not.
    spare: usize,
}

impl DynamicTable {
    /// Reads the table; `None` if the file is not dynamically linked.
    pub(super) fn read<R: ReadAt + ?Sized>(
        image: &ElfImage<'_, R>,
    ) -> Result<Option<Self>, ElfError> {
        let Some(place) = image.segment(PT_DYNAMIC) else {
            return Ok(None);
        };
        let bytes = image.dynamic_bytes()?;
        let (slots, _) = bytes.as_chunks::<ENTRY>();
        let slots: Vec<DynamicEntry> = slots.iter().map(entry).collect();
        let Some(used) = slots.iter().position(|entry| entry.tag == DT_NULL) else {
            return Err(ElfError::damaged("the dynamic table has no end"));
        };
        let is_spare = |entry: &&DynamicEntry| entry.tag == DT_NULL && entry.value == 0;
        let spare = slots.iter().skip(used.saturating_add(1));
        Ok(Some(Self {
            offset: place.p_offset,
            spare: spare.take_while(is_spare).count(),
            entries: slots.into_iter().take(used).collect(),
        }))
    }

    /// The value of a tag. If the tag is repeated, the loader uses the last one.
    pub(super) fn last(&self, tag: u64) -> Option<u64> {
        let mut found = self.entries.iter().rev();
        found
            .find(|entry| entry.tag == tag)
            .map(|entry| entry.value)
    }

    pub(super) fn run_paths(&self) -> Vec<DynamicEntry> {
        let entries = self.entries.iter().copied();
        entries.filter(|entry| is_run_path(*entry)).collect()
    }

    /// The entries with one `DT_RPATH` instead of all run paths, or with no run path for `None`.
    ///
    /// There is never a `DT_RUNPATH` beside it: glibc ignores `DT_RPATH` if a file has both.
    pub(super) fn with_run_path(&self, place: Option<u64>) -> Vec<DynamicEntry> {
        let rpath = place.map(|value| DynamicEntry {
            tag: DT_RPATH,
            value,
        });
        let first = self.entries.iter().position(|entry| is_run_path(*entry));
        let first = first.unwrap_or(self.entries.len());
        let (before, after) = self.entries.split_at_checked(first).unwrap_or_default();
        let rest = after.iter().filter(|entry| !is_run_path(**entry));
        before
            .iter()
            .copied()
            .chain(rpath)
            .chain(rest.copied())
            .collect()
    }

    pub(super) fn fits(&self, entries: &[DynamicEntry]) -> bool {
        entries.len() <= self.entries.len().saturating_add(self.spare)
    }

    /// Overwrites the table in place. Unused entries become zeros, which is `DT_NULL`.
    pub(super) fn overlay(&self, entries: &[DynamicEntry]) -> Replacement {
        let mut bytes = to_bytes(entries);
        let used = self.entries.len().max(entries.len()).saturating_add(1);
        bytes.resize(used.saturating_mul(ENTRY), 0);
        Replacement::bytes(self.offset, bytes)
    }
}

pub(super) fn to_bytes(entries: &[DynamicEntry]) -> Vec<u8> {
    let pairs = entries.iter().flat_map(|entry| [entry.tag, entry.value]);
    pairs.flat_map(u64::to_le_bytes).collect()
}

fn is_run_path(entry: DynamicEntry) -> bool {
    matches!(entry.tag, DT_RPATH | DT_RUNPATH)
}

fn entry(bytes: &[u8; ENTRY]) -> DynamicEntry {
    let half = |at: usize| {
        let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
        u64::from_le_bytes(bytes.copied().unwrap_or_default())
    };
    DynamicEntry {
        tag: half(0),
        value: half(8),
    }
}
