//! Compares a file before and after an edit: everything but the run path must be the same, except
//! that tables may have moved.

use std::{io, ops::Range};

use goblin::elf::{
    dynamic::{
        DT_FINI, DT_FINI_ARRAY, DT_GNU_HASH, DT_HASH, DT_INIT, DT_INIT_ARRAY, DT_JMPREL, DT_PLTGOT,
        DT_PREINIT_ARRAY, DT_REL, DT_RELA, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, DT_SYMTAB,
        DT_TLSDESC_PLT, DT_VERDEF, DT_VERNEED, DT_VERSYM,
    },
    program_header::{
        PF_W, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_GNU_RELRO, PT_GNU_STACK, PT_INTERP,
        PT_LOAD, PT_NOTE, PT_NULL, PT_PHDR, PT_TLS,
    },
    section_header::{
        SHT_DYNAMIC, SHT_DYNSYM, SHT_GNU_HASH, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM,
        SHT_HASH, SHT_NOBITS, SHT_STRTAB,
    },
};

use crate::{
    elf::{
        check::{RawElf, rules::string_place},
        patch::Patch,
        source::read_exact_at,
        tables::{DynamicEntry, Section, Segment, overlaps},
    },
    error::Result,
};

/// The tables that may move if the new address has the same bytes: the type of their section, and
/// the tag through which alone the loader finds them. It also finds the strings, which may grow.
const MOVABLE: [(u32, u64); 7] = [
    (SHT_HASH, DT_HASH),
    (SHT_GNU_HASH, DT_GNU_HASH),
    (SHT_DYNSYM, DT_SYMTAB),
    (SHT_GNU_VERSYM, DT_VERSYM),
    (SHT_GNU_VERNEED, DT_VERNEED),
    (SHT_GNU_VERDEF, DT_VERDEF),
    (SHT_STRTAB, DT_STRTAB),
];
const DT_RELR: u64 = 36;
/// All other tags that hold an address.
const OTHER_ADDRESSES: [u64; 11] = [
    DT_PLTGOT,
    DT_RELA,
    DT_INIT,
    DT_FINI,
    DT_REL,
    DT_JMPREL,
    DT_INIT_ARRAY,
    DT_FINI_ARRAY,
    DT_PREINIT_ARRAY,
    DT_RELR,
    DT_TLSDESC_PLT,
];
/// Every `PT_LOAD` is the same, except that the last one may have grown, and at most one is new.
/// The stack, TLS, RELRO and exception segments are the same.
pub(super) fn segments(old: &RawElf<'_>, new: &RawElf<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    if header_but_table(old) != header_but_table(new) {
        broken.push("the file header changed".to_owned());
    }
    let (before, after): (Vec<_>, Vec<_>) = (old.loads().collect(), new.loads().collect());
    if after.len() < before.len() || after.len() > before.len().saturating_add(1) {
        broken.push("segments are missing, or more than one is new".to_owned());
    }
    for (index, (one, other)) in before.iter().zip(&after).enumerate() {
        if one != other && !grew(one, other, index, old) {
            broken.push(format!("a loaded segment changed: {:#x}", one.address));
        }
    }
    let fixed = [PT_GNU_STACK, PT_TLS, PT_GNU_RELRO, PT_GNU_EH_FRAME];
    if !of_kinds(old, &fixed).eq(of_kinds(new, &fixed)) {
        broken.push("a segment changed that must not".to_owned());
    }
    let is_named = |raw: &RawElf<'_>| raw.first(PT_PHDR).is_some();
    if old.is_executable(old.entries()) && is_named(old) && !is_named(new) {
        broken.push("an executable lost `PT_PHDR`".to_owned());
    }
    broken
}

/// The file header with zeros for the offset and the number of the program headers, which an edit
/// may change.
fn header_but_table(raw: &RawElf<'_>) -> [u8; 64] {
    let mut header = raw.header;
    for place in [32..40, 56..58] {
        header.get_mut(place).unwrap_or_default().fill(0);
    }
    header
}

fn of_kinds<'a>(raw: &'a RawElf<'_>, kinds: &[u32]) -> impl Iterator<Item = &'a Segment> {
    raw.segments.iter().filter(|it| kinds.contains(&it.kind))
}

/// The interpreter and the notes have the same bytes. They may have moved.
pub(super) fn small_segments(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Option<String>> {
    let small = [PT_INTERP, PT_NOTE, PT_GNU_PROPERTY];
    let mut same = of_kinds(old, &small).count() == of_kinds(new, &small).count();
    for (one, other) in of_kinds(old, &small).zip(of_kinds(new, &small)) {
        let moved = Segment {
            offset: one.offset,
            address: one.address,
            physical: one.physical,
            ..*other
        };
        same = same
            && moved == *one
            && same_bytes((old, one.offset), (new, other.offset), one.file_size)?;
    }
    Ok((!same).then(|| "a note or the interpreter changed".to_owned()))
}

/// Whether a segment grew in the allowed way: it is the last one, ended with the file, has no
/// `.bss`, and at most became writable.
fn grew(one: &Segment, other: &Segment, index: usize, old: &RawElf<'_>) -> bool {
    let is_last = old.loads().next_back() == Some(one);
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
        && one.file().end == old.len()
        && one.file_size == one.memory_size
        && other.file_size == other.memory_size
        && other.file_size > one.file_size
}

/// Every section has the same header and bytes. The strings may have grown, and loaded tables may
/// have moved.
pub(super) fn sections(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    if old.section_table_range() != new.section_table_range() {
        broken.push("the section table changed".to_owned());
    }
    for (index, (one, other)) in old.sections.iter().zip(&new.sections).enumerate() {
        if one == other {
            continue;
        }
        let is_same = Section {
            address: one.address,
            offset: one.offset,
            size: one.size,
            ..other.clone()
        } == *one;
        let sized = match one.kind {
            SHT_STRTAB => other.size > one.size,
            SHT_DYNAMIC => true,
            _ => other.size == one.size,
        };
        let size = one.size.min(other.size);
        let bytes =
            one.kind == SHT_DYNAMIC || same_bytes((old, one.offset), (new, other.offset), size)?;
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
pub(super) fn dynamic(old: &RawElf<'_>, new: &RawElf<'_>) -> Result<Vec<String>> {
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
    let (Some(one), Some(other)) = (string_place(old), string_place(new)) else {
        return Ok(broken);
    };
    let len = one.1.saturating_sub(one.0);
    let grew = len <= other.1.saturating_sub(other.0);
    // If the strings are a section, `sections` has compared them already. They may be megabytes.
    let mut pairs = old.sections.iter().zip(&new.sections);
    let compared = pairs.any(|(before, after)| {
        before.file() == (one.0..one.1) && after.file() == (other.0..other.1)
    });
    if !grew || !(compared || same_bytes((old, one.0), (new, other.0), len)?) {
        broken.push("a dynamic string changed".to_owned());
    }
    Ok(broken)
}

/// Whether both addresses are the start of the same section, before and after. `sections` compares
/// its bytes.
fn is_same_table(old: &RawElf<'_>, new: &RawElf<'_>, before: u64, after: u64) -> bool {
    let mut pairs = old.sections.iter().zip(&new.sections);
    pairs.any(|(one, other)| {
        one.is_loaded() && one.address == before && other.address == after && !one.file().is_empty()
    })
}

/// The old places of moved tables to which no section, segment or dynamic entry refers any more.
/// Their bytes may change.
fn left<'a>(old: &'a RawElf<'_>, new: &'a RawElf<'_>) -> impl Iterator<Item = Range<u64>> {
    let pairs = old.sections.iter().zip(&new.sections);
    let moved = pairs.filter(|(one, other)| {
        one.offset != other.offset
            && one.is_loaded()
            && MOVABLE.iter().any(|(table, _)| *table == one.kind)
    });
    let is_left = |section: &&Section| {
        let place = section.file();
        let memory = section.memory();
        let mut sections = new.sections.iter();
        let refers = |it: &DynamicEntry| {
            (is_movable(it.tag) || OTHER_ADDRESSES.contains(&it.tag)) && memory.contains(&it.value)
        };
        let mut entries = new.entries().iter();
        !sections.any(|other| overlaps(&other.file(), &place))
            && !is_in_other_segment(new, &place)
            && !entries.any(refers)
    };
    let moved = moved.map(|(one, _)| one);
    moved.filter(is_left).map(Section::file)
}

/// Whether a segment that is neither loaded nor the program headers refers to a part of the range.
fn is_in_other_segment(raw: &RawElf<'_>, range: &Range<u64>) -> bool {
    raw.segments.iter().any(|segment| {
        !matches!(segment.kind, PT_LOAD | PT_PHDR | PT_NULL) && overlaps(&segment.file(), range)
    })
}

fn is_movable(tag: u64) -> bool {
    MOVABLE.iter().any(|(_, movable)| *movable == tag)
}

/// No byte changes except in headers, in the dynamic table, and in the old places of moved tables.
pub(super) fn loaded_bytes(old: &RawElf<'_>, new: &RawElf<'_>, patch: &Patch) -> Vec<String> {
    let file_header = 0..64;
    let mut allowed: Vec<Range<u64>> = vec![
        file_header,
        new.table_range(),
        old.first(PT_DYNAMIC).map_or(0..0, Segment::file),
        old.section_table_range(),
    ];
    allowed.extend(left(old, new));
    let outside = patch.overlays().filter(|range| {
        let mut allowed = allowed.iter();
        !allowed.any(|place| place.start <= range.start && range.end <= place.end)
    });
    let mut broken: Vec<String> = outside
        .map(|range| format!("bytes change that must not: at {:#x}", range.start))
        .collect();
    // The program header table may have grown over a note or `.interp`. `rules::sections` finds
    // this in files with section headers; the check here covers files without them.
    if is_in_other_segment(new, &new.table_range()) {
        broken.push("the program headers lie in a segment of another kind".to_owned());
    }
    broken
}

/// Whether two ranges have the same bytes. Compares 64 KiB at a time.
fn same_bytes(
    (old, one): (&RawElf<'_>, u64),
    (new, other): (&RawElf<'_>, u64),
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
        read_exact_at(old.source, one.saturating_add(done), left)?;
        read_exact_at(new.source, other.saturating_add(done), right)?;
        if left != right {
            return Ok(false);
        }
        done = done.saturating_add(left.len() as u64);
    }
    Ok(true)
}
