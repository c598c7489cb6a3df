//! The headers of a file, validated for planning: every range lies within the file, and addresses
//! are small enough that the planner can add them without an overflow.

use std::ops::Range;

use derive_more::Deref;
use goblin::elf::{
    dynamic::{DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB},
    program_header::PT_DYNAMIC,
    section_header::SHT_STRTAB,
};

use crate::{
    elf::{
        image::ElfImage,
        patch::Replacement,
        source::{read_exact_at, text_at},
        tables::{DynamicEntry, ENTRY, ElfTables, SEGMENT, Section, Segment, last_value},
    },
    error::{Context as _, Result, bail, ensure},
};

/// The end of the user addresses of x86-64. Sums of several addresses below it do not overflow.
const CEILING: u64 = 1 << 47;
/// The kernel refuses a program header table of more than 64 KiB, which is 1170 entries.
const MAX_SEGMENTS: usize = 1170;

#[derive(Deref)]
pub(super) struct ElfParts<'a> {
    #[deref]
    tables: ElfTables<'a>,
    /// The offset of the dynamic table in the file.
    pub(super) dynamic: u64,
    /// All entries of the dynamic table before the terminating `DT_NULL`.
    pub(super) entries: Vec<DynamicEntry>,
    /// Number of unused entries behind the terminating one. GNU ld reserves some; lld does not.
    spare: usize,
    /// The range of the dynamic strings in the file.
    pub(super) strings: Range<u64>,
}

impl<'a> ElfParts<'a> {
    pub(super) fn new(image: ElfImage<'a>) -> Result<Self> {
        let bytes = image.dynamic_bytes()?;
        let tables = image.tables;
        let (slots, _) = bytes.as_chunks::<ENTRY>();
        let slots: Vec<DynamicEntry> = slots.iter().map(DynamicEntry::parse).collect();
        let used = slots.iter().position(|entry| entry.tag == DT_NULL);
        let used = used.context("the dynamic table has no end")?;
        let (entries, end) = slots.split_at_checked(used).unwrap_or_default();
        let spare = end.iter().skip(1);
        ensure_bounded(&tables)?;
        Ok(Self {
            dynamic: tables.first(PT_DYNAMIC).map_or(0, |place| place.offset),
            spare: spare
                .take_while(|it| it.tag == DT_NULL && it.value == 0)
                .count(),
            entries: entries.to_vec(),
            strings: strings(&tables, entries)?,
            tables,
        })
    }

    /// The dynamic string at an offset in the string table.
    pub(super) fn string(&self, offset: u64) -> Result<Vec<u8>> {
        let start = self.strings.start.saturating_add(offset);
        let text = text_at(self.source, start, self.strings.end)?;
        text.context("the dynamic string has no end")
    }

    pub(super) fn run_paths(&self) -> impl Iterator<Item = DynamicEntry> {
        self.entries.iter().copied().filter(is_run_path)
    }

    /// The entries with one `DT_RPATH` instead of all run paths, or with no run path for `None`.
    ///
    /// There is never a `DT_RUNPATH` beside it: glibc ignores `DT_RPATH` if a file has both.
    pub(super) fn with_run_path(&self, place: Option<u64>) -> Vec<DynamicEntry> {
        let first = self.entries.iter().position(is_run_path);
        let mut entries = self.entries.clone();
        entries.retain(|entry| !is_run_path(entry));
        if let Some(value) = place {
            let tag = DT_RPATH;
            entries.insert(first.unwrap_or(entries.len()), DynamicEntry { tag, value });
        }
        entries
    }

    /// Whether these entries fit into the dynamic table.
    pub(super) fn fits(&self, entries: &[DynamicEntry]) -> bool {
        entries.len() <= self.entries.len() + self.spare
    }

    /// Overwrites the dynamic table in place. Unused entries become zeros, which is `DT_NULL`.
    pub(super) fn overlay(&self, entries: &[DynamicEntry]) -> Replacement {
        let mut bytes = to_bytes(entries);
        let used = self.entries.len().max(entries.len()) + 1;
        bytes.resize(used * ENTRY, 0);
        Replacement::bytes(self.dynamic, bytes)
    }

    /// The highest address of all loaded segments, with their `.bss`.
    pub(super) fn address_end(&self) -> u64 {
        let ends = self.loads().map(|load| load.memory().end);
        ends.max().unwrap_or(0)
    }

    /// The program header table, with room for `more` entries.
    pub(super) fn headers(&self, more: u64) -> Range<u64> {
        let table = self.table_range();
        table.start..table.end + more * SEGMENT
    }

    /// The loaded segment that contains a whole range of the file.
    pub(super) fn load_of(&self, range: &Range<u64>) -> Option<&Segment> {
        self.loads().find(|load| load.covers(range))
    }

    /// The ranges of the file that belong to sections.
    pub(super) fn section_files(&self) -> impl Iterator<Item = Range<u64>> {
        let files = self.sections.iter().map(Section::file);
        files.filter(|file| !file.is_empty())
    }

    /// The index of the section of the dynamic strings; `None` if the file has no section headers.
    pub(super) fn string_section(&self) -> Result<Option<usize>> {
        if self.sections.is_empty() {
            return Ok(None);
        }
        let address = last_value(&self.entries, DT_STRTAB);
        let found = self
            .sections
            .iter()
            .position(|it| it.kind == SHT_STRTAB && it.is_loaded() && Some(it.address) == address);
        let index = found.context("no section holds the dynamic strings")?;
        Ok(Some(index))
    }
}

/// Whether bytes outside of all sections are unused: only zeros, or only `X`, with which patchelf
/// overwrites the old place of a section that it has moved.
pub(super) fn is_filler(bytes: &[u8]) -> bool {
    let mut fillers = [0, b'X'].iter();
    fillers.any(|filler| bytes.iter().all(|byte| byte == filler))
}

pub(super) fn to_bytes(entries: &[DynamicEntry]) -> Vec<u8> {
    let pairs = entries.iter().flat_map(|entry| [entry.tag, entry.value]);
    pairs.flat_map(u64::to_le_bytes).collect()
}

fn is_run_path(entry: &DynamicEntry) -> bool {
    matches!(entry.tag, DT_RPATH | DT_RUNPATH)
}

/// Refuses headers whose ranges the planner could not add and compare safely.
fn ensure_bounded(tables: &ElfTables<'_>) -> Result<()> {
    let len = tables.len();
    let is_within = |range: &Range<u64>, end: u64| range.start <= range.end && range.end <= end;
    ensure!(
        tables.segments.len() <= MAX_SEGMENTS,
        "{} program headers, which is more than the kernel takes",
        tables.segments.len()
    );
    ensure!(
        len <= CEILING && tables.table() <= len && tables.section_table() <= len,
        "a table lies outside the file"
    );
    for (index, segment) in tables.segments.iter().enumerate() {
        ensure!(
            is_within(&segment.file(), len) && is_within(&segment.memory(), CEILING),
            "a segment lies outside the file or memory: number {index}"
        );
    }
    for (index, section) in tables.sections.iter().enumerate() {
        let file = section.file();
        ensure!(
            (file.is_empty() || is_within(&file, len)) && is_within(&section.memory(), CEILING),
            "a section lies outside the file or memory: number {index}"
        );
    }
    Ok(())
}

/// The range of the dynamic strings in the file.
///
/// The last byte must be NUL. Otherwise the loader would read the last string beyond the table, and
/// get another string once the table is copied.
fn strings(tables: &ElfTables<'_>, entries: &[DynamicEntry]) -> Result<Range<u64>> {
    let [address, size] = [DT_STRTAB, DT_STRSZ].map(|tag| {
        let values = entries.iter().filter(|entry| entry.tag == tag);
        values.map(|entry| entry.value).collect::<Vec<u64>>()
    });
    let (address, size) = match (address.as_slice(), size.as_slice()) {
        ([address], [size]) => (*address, *size),
        ([], _) | (_, []) => bail!("the dynamic table names no strings"),
        _ => bail!("the dynamic table names its strings twice"),
    };
    let start = tables.place(address, size).filter(|_| size > 0);
    let start = start.context("the dynamic string table is in no segment")?;
    let end = start.saturating_add(size);
    let mut last = [0];
    read_exact_at(tables.source, end.saturating_sub(1), &mut last)?;
    ensure!(last == [0], "the dynamic string table has no end");
    Ok(start..end)
}
