//! Verifies a plan: compares the file with its patched view, without using any code of the planner.
//!
//! `rules` holds for every file that loads. The functions here compare
//! two files: everything but the run path must be the same, except that tables may have moved.

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
    elf::{
        patch::{Patch, PatchedReader},
        source::{ReadAt, read_exact_at, text_at},
        tables::{
            DynamicEntry, ElfTables, MOVABLE, Section, Segment, contains, is_address, is_movable,
            last_value, overlaps,
        },
    },
    error::{Context as _, Result, bail},
};

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
/// behind `DT_STRSZ` (see `rules::string_offsets`).
pub(super) fn loadable(source: &dyn ReadAt) -> Result<()> {
    let raw = RawElf::read(source)?;
    let broken = [rules::loading(&raw), rules::string_offsets(&raw)?].concat();
    match broken.into_iter().next() {
        Some(broken) => bail!(broken),
        None => Ok(()),
    }
}

/// The rules that a file breaks. The output of a linker breaks none.
pub fn broken_rules(source: &dyn ReadAt) -> Result<Vec<String>> {
    rules::all(&RawElf::read(source)?)
}

/// The reasons why a kernel or a loader would refuse a program or library; empty if there are none.
pub fn faults(source: &dyn ReadAt) -> Result<Vec<String>> {
    let raw = RawElf::read(source)?;
    let rules = [rules::loading(&raw), rules::headers(&raw), rules::segments(&raw)?];
    Ok(rules.concat())
}

/// An error unless the patched file keeps everything that a loader and the usual tools rely on, and
/// has the run path `goal`.
pub(super) fn accept(before: &dyn ReadAt, patch: &Patch, goal: &str) -> Result<()> {
    let after = PatchedReader::new(before, patch.clone());
    let (old, new) = (RawElf::read(before)?, RawElf::read(&after)?);
    let known = rules::all(&old)?;
    let mut broken = rules::all(&new)?;
    // Defects that the file had before are accepted, as long as the edit does not make them worse.
    broken.retain(|rule| !known.contains(rule));
    broken.extend(segments(&old, &new)?);
    broken.extend(sections(&old, &new)?);
    broken.extend(dynamic(&old, &new)?);
    broken.extend(loaded_bytes(&old, &new, patch)?);
    broken.extend(rules::run_path(&new, goal)?);
    match broken.into_iter().next() {
        Some(rule) => bail!("the changed ELF file would be broken: {rule}"),
        None => Ok(()),
    }
}

/// The texts of the rules that are broken.
fn broken<const N: usize>(rules: [(bool, &str); N]) -> Vec<String> {
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, text)| text.to_owned()).collect()
}

/// Every `PT_LOAD` is the same, except that the last one may have grown, and at most one is new.
/// The stack, TLS, RELRO and exception segments are the same. The interpreter and the notes have
/// the same bytes, but may have moved.
fn segments(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let (before, after): (Vec<_>, Vec<_>) =
        (old.tables.loads().collect(), new.tables.loads().collect());
    let fixed = [PT_GNU_STACK, PT_TLS, PT_GNU_RELRO, PT_GNU_EH_FRAME];
    let is_named = |raw: &RawElf<'_>| raw.tables.first(PT_PHDR).is_some();
    let mut broken = broken([
        (header_but_table(old) != header_but_table(new), "the file header changed"),
        (
            after.len() < before.len() || after.len() > before.len().saturating_add(1),
            "segments are missing, or more than one is new",
        ),
        (!of_kinds(old, &fixed).eq(of_kinds(new, &fixed)), "a segment changed that must not"),
        (old.is_executable() && is_named(old) && !is_named(new), "an executable lost `PT_PHDR`"),
        (!have_same_notes(old, new)?, "a note or the interpreter changed"),
    ]);
    for (index, (one, other)) in before.iter().zip(&after).enumerate() {
        if one != other && !grew(one, other, index, old) {
            broken.push(format!("a loaded segment changed: {:#x}", one.address));
        }
    }
    Ok(broken)
}

/// The file header with zeros for the offset and the number of the program headers, which an edit
/// may change.
fn header_but_table(raw: &RawElf<'_>) -> [u8; 64] {
    let mut header = raw.tables.header;
    for place in [32..40, 56..58] {
        header.get_mut(place).unwrap_or_default().fill(0);
    }
    header
}

fn of_kinds<'a>(raw: &'a RawElf<'_>, kinds: &[u32]) -> impl Iterator<Item = &'a Segment> {
    raw.tables.segments.iter().filter(|it| kinds.contains(&it.kind))
}

fn have_same_notes(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<bool> {
    let small = [PT_INTERP, PT_NOTE, PT_GNU_PROPERTY];
    let mut same = of_kinds(old, &small).count() == of_kinds(new, &small).count();
    for (one, other) in of_kinds(old, &small).zip(of_kinds(new, &small)) {
        let moved =
            Segment { offset: one.offset, address: one.address, physical: one.physical, ..*other };
        same =
            same && moved == *one && same_bytes(old, one.offset, new, other.offset, one.file_size)?;
    }
    Ok(same)
}

/// Whether a segment grew in the allowed way: it is the last one, ended with the file, has no
/// `.bss`, and at most became writable.
fn grew(one: &Segment, other: &Segment, index: usize, old: &RawElf<'_>) -> bool {
    let is_last = old.tables.loads().next_back() == Some(one);
    let writable = if index == 0 { 0 } else { PF_W };
    let same_begin = Segment {
        flags: one.flags,
        file_size: one.file_size,
        memory_size: one.memory_size,
        ..*other
    } == *one;
    is_last
        && same_begin
        && (other.flags == one.flags || other.flags == one.flags | writable)
        && one.file().end == old.tables.len()
        && one.file_size == one.memory_size
        && other.file_size == other.memory_size
        && other.file_size > one.file_size
}

/// Every section has the same header and bytes. The strings may have grown, and loaded tables may
/// have moved.
fn sections(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    if old.tables.section_table_range() != new.tables.section_table_range() {
        broken.push("the section table changed".to_owned());
    }
    for (index, (one, other)) in old.tables.sections.iter().zip(&new.tables.sections).enumerate() {
        if one == other {
            continue;
        }
        let is_same =
            Section { address: one.address, offset: one.offset, size: one.size, ..other.clone() }
                == *one;
        let sized = match one.kind {
            SHT_STRTAB => other.size > one.size,
            SHT_DYNAMIC => true,
            _ => other.size == one.size,
        };
        let size = one.size.min(other.size);
        let bytes =
            one.kind == SHT_DYNAMIC || same_bytes(old, one.offset, new, other.offset, size)?;
        let align = one.align.max(1);
        let aligned = other.address % align == one.address % align;
        let is_loaded = one.is_loaded() && one.kind != SHT_NOBITS;
        if !(is_same && is_loaded && sized && bytes && aligned) {
            broken.push(format!("section {index} changed"));
        }
    }
    Ok(broken)
}

/// The dynamic table has the same entries in the same order, except for the run path and the
/// strings. Addresses may differ only if they lead to the same bytes.
fn dynamic(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let rest = |raw: &RawElf<'_>| -> Vec<DynamicEntry> {
        let changing = [DT_STRTAB, DT_STRSZ, DT_RPATH, DT_RUNPATH];
        let mut entries = raw.entries().to_vec();
        entries.retain(|entry| !changing.contains(&entry.tag));
        entries
    };
    let (one, other) = (rest(old), rest(new));
    if one.len() != other.len() {
        broken.push("the dynamic table lost or gained an entry".to_owned());
    }
    for (one, other) in one.iter().zip(&other) {
        let (tag, value) = (one.tag, one.value);
        let moved = is_movable(tag) && is_same_table(old, new, value, other.value);
        if tag != other.tag || (value != other.value && !moved) {
            broken.push(format!("a dynamic entry changed: {tag:#x}"));
        }
    }
    let (Some(one), Some(other)) = (old.strings(), new.strings()) else {
        return Ok(broken);
    };
    let len = one.end.saturating_sub(one.start);
    let grew = len <= other.end.saturating_sub(other.start);
    // If the strings are a section, `sections` has compared them already. They may be megabytes.
    let mut pairs = old.tables.sections.iter().zip(&new.tables.sections);
    let compared = pairs.any(|(before, after)| before.file() == one && after.file() == other);
    if !grew || !(compared || same_bytes(old, one.start, new, other.start, len)?) {
        broken.push("a dynamic string changed".to_owned());
    }
    Ok(broken)
}

/// Whether both addresses are the start of the same section, before and after. `sections` compares
/// its bytes.
fn is_same_table(old: &RawElf<'_>, new: &RawElf<'_>, before: u64, after: u64) -> bool {
    let mut pairs = old.tables.sections.iter().zip(&new.tables.sections);
    pairs.any(|(one, other)| {
        one.is_loaded() && one.address == before && other.address == after && !one.file().is_empty()
    })
}

/// The old places of moved tables to which no section, segment or dynamic entry refers any more.
/// Their bytes may change.
fn left<'a>(old: &'a RawElf<'_>, new: &'a RawElf<'_>) -> impl Iterator<Item = Range<u64>> {
    let pairs = old.tables.sections.iter().zip(&new.tables.sections);
    let moved = pairs.filter(|(one, other)| {
        one.offset != other.offset
            && one.is_loaded()
            && MOVABLE.iter().any(|(table, _)| *table == one.kind)
    });
    let moved = moved.map(|(one, _)| one);
    let left = moved.filter(|section| {
        let (place, memory) = (section.file(), section.memory());
        let mut sections = new.tables.sections.iter();
        let mut entries = new.entries().iter();
        !sections.any(|other| overlaps(&other.file(), &place))
            && !is_in_other_segment(new, &place)
            && !entries.any(|it| is_address(it.tag) && memory.contains(&it.value))
    });
    left.map(Section::file)
}

/// Whether a segment that is neither loaded nor the program headers refers to a part of the range.
fn is_in_other_segment(raw: &RawElf<'_>, range: &Range<u64>) -> bool {
    let mut others = raw.tables.segments.iter().filter(|it| it.is_meaningful());
    others.any(|segment| overlaps(&segment.file(), range))
}

/// The text of an old run path, if nothing else has its name there. A new one may be written over it.
fn old_run_path(old: &RawElf<'_>) -> Result<Vec<Range<u64>>> {
    let mut places = Vec::new();
    let Some(strings) = old.strings() else {
        return Ok(places);
    };
    let entries = old.entries().iter();
    for entry in entries.filter(|it| matches!(it.tag, DT_RPATH | DT_RUNPATH)) {
        let start = strings.start.saturating_add(entry.value);
        let text = text_at(old.tables.source, start, strings.end)?.unwrap_or_default();
        let len = text.len() as u64;
        let part = entry.value..entry.value.saturating_add(len);
        if !old.tables.is_named(old.entries(), &part)? {
            places.push(start..start.saturating_add(len));
        }
    }
    Ok(places)
}

/// No byte changes except in headers, in the dynamic table, in an old run path, and in the old places of
/// moved tables.
fn loaded_bytes(old: &RawElf<'_>, new: &RawElf<'_>, patch: &Patch) -> Result<Vec<String>> {
    let file_header = 0..64;
    let mut allowed: Vec<Range<u64>> = vec![
        file_header,
        new.tables.table_range(),
        old.tables.first(PT_DYNAMIC).map_or(0..0, Segment::file),
        old.tables.section_table_range(),
    ];
    allowed.extend(left(old, new));
    allowed.extend(old_run_path(old)?);
    let outside =
        patch.overlays().filter(|range| !allowed.iter().any(|place| contains(place, range)));
    let mut broken: Vec<String> =
        outside.map(|range| format!("bytes change that must not: at {:#x}", range.start)).collect();
    // The program header table may have grown over a note or `.interp`. `rules::sections` finds
    // this in files with section headers; the check here covers files without them.
    if is_in_other_segment(new, &new.tables.table_range()) {
        broken.push("the program headers lie in a segment of another kind".to_owned());
    }
    Ok(broken)
}

/// Whether two ranges have the same bytes. Compares 64 KiB at a time.
fn same_bytes(
    old: &RawElf<'_>,
    one: u64,
    new: &RawElf<'_>,
    other: u64,
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
        read_exact_at(old.tables.source, one.saturating_add(done), left)?;
        read_exact_at(new.tables.source, other.saturating_add(done), right)?;
        if left != right {
            return Ok(false);
        }
        done = done.saturating_add(left.len() as u64);
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
