//! Verifies a plan: compares the file with its patched view, without using any code of the planner.
//!
//! The rules in `rules` hold for every file that loads. The functions here compare two files:
//! everything but the run path must be the same, except that tables may have moved.

mod loader_tables;
mod rules;

use std::{io, ops::Range};

use goblin::elf::{
    dynamic::{DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB},
    program_header::{
        PF_W, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP,
        PT_NOTE, PT_PHDR, PT_TLS,
    },
    section_header::{SHT_DYNAMIC, SHT_NOBITS, SHT_STRTAB},
};

use crate::{
    ElfError,
    patch::{Patch, PatchedReader},
    source::{ReadAt, read_exact_at, read_string_at},
    tables::{
        DynamicEntry, ElfTables, MOVABLE, Section, Segment, contains, is_address, is_movable,
        last_value, overlaps,
    },
};
use rocwheel_base::error::{Context as _, Result, bail};

/// The headers and the dynamic table of a file. `dynamic` is `None` if there is no table, or if it
/// is not terminated.
struct RawElf<'a> {
    tables: ElfTables<'a>,
    dynamic: Option<Vec<DynamicEntry>>,
}

impl<'a> RawElf<'a> {
    fn read(source: &'a dyn ReadAt) -> Result<Self> {
        let tables = ElfTables::read(source)?.context("not an ELF file")?;
        let dynamic = tables.dynamic()?;
        Ok(Self { tables, dynamic })
    }

    fn entries(&self) -> &[DynamicEntry] {
        self.dynamic.as_deref().unwrap_or_default()
    }

    fn value(&self, tag: u64) -> Option<u64> {
        last_value(self.entries(), tag)
    }

    fn is_executable(&self) -> bool {
        self.tables.is_executable(self.entries())
    }

    /// The dynamic strings in the file.
    fn strings(&self) -> Option<Range<u64>> {
        let size = self.value(DT_STRSZ)?;
        let start = self.tables.place(self.value(DT_STRTAB)?, size)?;
        Some(start..start.saturating_add(size))
    }
}

/// An error if the file cannot be loaded even before the edit, or loads only by luck: with strings
/// behind `DT_STRSZ` (see `rules::check_string_offsets`).
pub(super) fn ensure_loadable(source: &dyn ReadAt) -> Result<()> {
    let raw = RawElf::read(source)?;
    let broken = [rules::check_loads(&raw), rules::check_string_offsets(&raw)?].concat();
    match broken.into_iter().next() {
        Some(rule) => bail!(rule),
        None => Ok(()),
    }
}

/// The rules that a file breaks. The output of a linker breaks none.
pub fn broken_rules(source: &dyn ReadAt) -> Result<Vec<String>, ElfError> {
    Ok(rules::check_all(&RawElf::read(source)?)?)
}

/// The reasons why a kernel or a loader would refuse a program or library; empty if there are none.
pub fn faults(source: &dyn ReadAt) -> Result<Vec<String>, ElfError> {
    let raw = RawElf::read(source)?;
    let mut faults =
        [rules::check_loads(&raw), rules::check_headers(&raw), rules::check_loadable(&raw)?]
            .concat();
    // Where the tables are follows from the segments.
    if faults.is_empty() {
        faults.extend(loader_tables::check_loader_tables(&raw)?);
    }
    Ok(faults)
}

/// An error unless the patched file keeps everything that a loader and the usual tools rely on, and
/// has the run path `goal`.
pub(super) fn ensure_only_run_path_changed(
    before: &dyn ReadAt,
    patch: &Patch,
    goal: &str,
) -> Result<()> {
    let after = PatchedReader::new(before, patch.clone());
    let old = RawElf::read(before)?;
    let new = RawElf::read(&after)?;
    let known = rules::check_all(&old)?;
    let mut broken = rules::check_all(&new)?;
    // Defects that the file had before are accepted, as long as the edit does not make them worse.
    broken.retain(|rule| !known.contains(rule));
    broken.extend(compare_segments(&old, &new)?);
    broken.extend(compare_sections(&old, &new)?);
    broken.extend(compare_dynamic_tables(&old, &new)?);
    broken.extend(check_overlays(&old, &new, patch)?);
    broken.extend(rules::check_run_path(&new, goal)?);
    match broken.into_iter().next() {
        Some(rule) => bail!("the changed ELF file would be broken: {rule}"),
        None => Ok(()),
    }
}

/// The texts of the rules that are broken.
fn texts_of_broken<const N: usize>(rules: [(bool, &str); N]) -> Vec<String> {
    rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, text)| text.to_owned()).collect()
}

/// Every `PT_LOAD` is the same, except that the last one may have grown, and at most one is new.
/// The stack, TLS, RELRO and exception segments are the same. The interpreter and the notes have
/// the same bytes, but may have moved.
fn compare_segments(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let old_loads: Vec<_> = old.tables.loads().collect();
    let new_loads: Vec<_> = new.tables.loads().collect();
    let fixed = [PT_GNU_STACK, PT_TLS, PT_GNU_RELRO, PT_GNU_EH_FRAME];
    let has_phdr = |raw: &RawElf<'_>| raw.tables.first(PT_PHDR).is_some();
    let mut broken = texts_of_broken([
        (header_without_table(old) != header_without_table(new), "the file header changed"),
        (
            new_loads.len() < old_loads.len()
                || new_loads.len() > old_loads.len().saturating_add(1),
            "segments are missing, or more than one is new",
        ),
        (
            !segments_of_kinds(old, &fixed).eq(segments_of_kinds(new, &fixed)),
            "a segment changed that must not",
        ),
        // A position-independent program computes its load address from `PT_PHDR`.
        (old.is_executable() && has_phdr(old) && !has_phdr(new), "an executable lost `PT_PHDR`"),
        (!have_same_notes(old, new)?, "a note or the interpreter changed"),
    ]);
    for (index, (old_load, new_load)) in old_loads.iter().zip(&new_loads).enumerate() {
        if old_load != new_load && !may_grow_to(old_load, new_load, index, old) {
            broken.push(format!("a loaded segment changed: {:#x}", old_load.address));
        }
    }
    Ok(broken)
}

/// The file header with zeros for the offset and the number of the program headers, which an edit
/// may change.
fn header_without_table(raw: &RawElf<'_>) -> [u8; 64] {
    let mut header = raw.tables.header;
    for field in [32..40, 56..58] {
        header.get_mut(field).unwrap_or_default().fill(0);
    }
    header
}

fn segments_of_kinds<'a>(raw: &'a RawElf<'_>, kinds: &[u32]) -> impl Iterator<Item = &'a Segment> {
    raw.tables.segments.iter().filter(|segment| kinds.contains(&segment.kind))
}

/// Whether the notes and the interpreter are the same, at any place.
fn have_same_notes(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<bool> {
    let kinds = [PT_INTERP, PT_NOTE, PT_GNU_PROPERTY];
    if segments_of_kinds(old, &kinds).count() != segments_of_kinds(new, &kinds).count() {
        return Ok(false);
    }
    for (before, after) in segments_of_kinds(old, &kinds).zip(segments_of_kinds(new, &kinds)) {
        let moved_back = Segment {
            offset: before.offset,
            address: before.address,
            physical: before.physical,
            ..*after
        };
        if moved_back != *before
            || !have_same_bytes((old, before.offset), (new, after.offset), before.file_size)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a segment grew in the allowed way: it is the last loaded segment, ended with the file, has no
/// `.bss`, and at most became writable.
fn may_grow_to(before: &Segment, after: &Segment, index: usize, old: &RawElf<'_>) -> bool {
    let is_last = old.tables.loads().next_back() == Some(before);
    // The first segment has the file header, which must stay read-only.
    let writable = if index == 0 { 0 } else { PF_W };
    let shrunk_back = Segment {
        flags: before.flags,
        file_size: before.file_size,
        memory_size: before.memory_size,
        ..*after
    };
    is_last
        && shrunk_back == *before
        && (after.flags == before.flags || after.flags == before.flags | writable)
        && before.file().end == old.tables.file_len()
        && before.file_size == before.memory_size
        && after.file_size == after.memory_size
        && after.file_size > before.file_size
}

/// Every section has the same header and bytes. The strings may have grown, and loaded tables may
/// have moved.
fn compare_sections(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    if old.tables.section_table_range() != new.tables.section_table_range() {
        broken.push("the section table changed".to_owned());
    }
    let pairs = old.tables.sections.iter().zip(&new.tables.sections);
    for (index, (before, after)) in pairs.enumerate() {
        if before == after {
            continue;
        }
        let moved_back = Section {
            address: before.address,
            offset: before.offset,
            size: before.size,
            ..after.clone()
        };
        let has_right_size = match before.kind {
            SHT_STRTAB => after.size > before.size,
            // `compare_dynamic_tables` compares its entries.
            SHT_DYNAMIC => true,
            _ => after.size == before.size,
        };
        let size = before.size.min(after.size);
        let has_same_bytes = before.kind == SHT_DYNAMIC
            || have_same_bytes((old, before.offset), (new, after.offset), size)?;
        let align = before.align.max(1);
        let is_aligned = after.address % align == before.address % align;
        let is_loaded = before.is_loaded() && before.kind != SHT_NOBITS;
        let is_same = moved_back == *before;
        if !(is_same && is_loaded && has_right_size && has_same_bytes && is_aligned) {
            broken.push(format!("section {index} changed"));
        }
    }
    Ok(broken)
}

/// The dynamic table has the same entries in the same order, except for the run path and the
/// strings. Addresses may differ only if they lead to the same bytes.
fn compare_dynamic_tables(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let fixed_entries = |raw: &RawElf<'_>| -> Vec<DynamicEntry> {
        let changing = [DT_STRTAB, DT_STRSZ, DT_RPATH, DT_RUNPATH];
        let mut entries = raw.entries().to_vec();
        entries.retain(|entry| !changing.contains(&entry.tag));
        entries
    };
    let old_entries = fixed_entries(old);
    let new_entries = fixed_entries(new);
    if old_entries.len() != new_entries.len() {
        broken.push("the dynamic table lost or gained an entry".to_owned());
    }
    for (before, after) in old_entries.iter().zip(&new_entries) {
        let tag = before.tag;
        let is_moved = is_movable(tag) && is_same_table(old, new, before.value, after.value);
        if tag != after.tag || (before.value != after.value && !is_moved) {
            broken.push(format!("a dynamic entry changed: {tag:#x}"));
        }
    }
    // `rules` reports strings that are in no segment.
    let (Some(before), Some(after)) = (old.strings(), new.strings()) else {
        return Ok(broken);
    };
    let len = before.end.saturating_sub(before.start);
    let is_long_enough = len <= after.end.saturating_sub(after.start);
    // If the strings are a section, `compare_sections` has compared them already. They may be megabytes.
    let mut sections = old.tables.sections.iter().zip(&new.tables.sections);
    let is_compared = sections.any(|(old_section, new_section)| {
        old_section.file() == before && new_section.file() == after
    });
    if !is_long_enough
        || !(is_compared || have_same_bytes((old, before.start), (new, after.start), len)?)
    {
        broken.push("a dynamic string changed".to_owned());
    }
    Ok(broken)
}

/// Whether two addresses are the start of the same section, `before` in the old file and `after` in the
/// new file. `compare_sections` compares the bytes of the section.
fn is_same_table(old: &RawElf<'_>, new: &RawElf<'_>, before: u64, after: u64) -> bool {
    let mut sections = old.tables.sections.iter().zip(&new.tables.sections);
    sections.any(|(old_section, new_section)| {
        old_section.is_loaded()
            && old_section.address == before
            && new_section.address == after
            && !old_section.file().is_empty()
    })
}

/// The old places of moved tables to which no section, segment or dynamic entry refers any more.
/// Their bytes may change.
///
/// The planner has the same rule (`PlanDraft::is_unused`). It is written twice on purpose: a check that
/// called the planner could not find an error in it.
fn unused_places<'a>(old: &'a RawElf<'_>, new: &'a RawElf<'_>) -> impl Iterator<Item = Range<u64>> {
    let is_used = |section: &Section| {
        let file = section.file();
        let memory = section.memory();
        let mut sections = new.tables.sections.iter();
        let mut entries = new.entries().iter();
        sections.any(|other| overlaps(&other.file(), &file))
            || is_in_other_segment(new, &file)
            || entries.any(|entry| is_address(entry.tag) && memory.contains(&entry.value))
    };
    old.tables
        .sections
        .iter()
        .zip(&new.tables.sections)
        .filter(|(before, after)| {
            before.offset != after.offset
                && before.is_loaded()
                && MOVABLE.iter().any(|(table, _)| *table == before.kind)
        })
        .map(|(before, _)| before)
        .filter(move |section| !is_used(section))
        .map(Section::file)
}

/// Whether a segment that is neither loaded nor the program headers refers to a part of the range.
fn is_in_other_segment(raw: &RawElf<'_>, range: &Range<u64>) -> bool {
    let mut segments = raw.tables.segments.iter().filter(|segment| segment.is_meaningful());
    segments.any(|segment| overlaps(&segment.file(), range))
}

/// The texts of the old run paths in which nothing else has its name. The new run path may be written
/// over such a text.
fn old_run_paths(old: &RawElf<'_>) -> Result<Vec<Range<u64>>> {
    let mut places = Vec::new();
    let Some(strings) = old.strings() else {
        return Ok(places);
    };
    for entry in old.entries() {
        if !matches!(entry.tag, DT_RPATH | DT_RUNPATH) {
            continue;
        }
        let start = strings.start.saturating_add(entry.value);
        let run_path = read_string_at(old.tables.source, start, strings.end)?.unwrap_or_default();
        let len = run_path.len() as u64;
        let part = entry.value..entry.value.saturating_add(len);
        if !old.tables.is_named(old.entries(), &part)? {
            places.push(start..start.saturating_add(len));
        }
    }
    Ok(places)
}

/// No byte changes except in headers, in the dynamic table, in an old run path, and in the old places of
/// moved tables.
fn check_overlays(old: &RawElf<'_>, new: &RawElf<'_>, patch: &Patch) -> Result<Vec<String>> {
    let file_header = 0..64;
    let mut allowed: Vec<Range<u64>> = vec![
        file_header,
        new.tables.segment_table_range(),
        old.tables.first(PT_DYNAMIC).map_or(0..0, Segment::file),
        old.tables.section_table_range(),
    ];
    allowed.extend(unused_places(old, new));
    allowed.extend(old_run_paths(old)?);
    let mut broken: Vec<String> = patch
        .overlays()
        .filter(|range| !allowed.iter().any(|place| contains(place, range)))
        .map(|range| format!("bytes change that must not: at {:#x}", range.start))
        .collect();
    // The program header table may have grown over a note or `.interp`. `rules::check_sections` finds
    // this in files with section headers; the check here covers files without them.
    if is_in_other_segment(new, &new.tables.segment_table_range()) {
        broken.push("the program headers lie in a segment of another kind".to_owned());
    }
    Ok(broken)
}

/// Whether two ranges have the same bytes. Each begins at an offset in a file. Compares 64 KiB at a time.
fn have_same_bytes(
    (old, old_start): (&RawElf<'_>, u64),
    (new, new_start): (&RawElf<'_>, u64),
    len: u64,
) -> io::Result<bool> {
    let mut buffers = [vec![0; 1 << 16], vec![0; 1 << 16]];
    let mut done = 0_u64;
    while done < len {
        let rest = usize::try_from(len.saturating_sub(done)).unwrap_or(usize::MAX);
        let [left, right] = buffers.each_mut().map(|buffer| {
            let count = buffer.len().min(rest);
            buffer.get_mut(..count).unwrap_or_default()
        });
        read_exact_at(old.tables.source, old_start.saturating_add(done), left)?;
        read_exact_at(new.tables.source, new_start.saturating_add(done), right)?;
        if left != right {
            return Ok(false);
        }
        done = done.saturating_add(left.len() as u64);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
