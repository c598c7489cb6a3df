//! Compares a file before and after an edit: everything but the run path must be the same, except
//! that tables may have moved.

use std::ops::Range;

use crate::elf::{
    ElfError, ReadAt,
    check::{
        raw::{RawElf, same_bytes},
        rules::{is_executable, string_place},
    },
    patch::Patch,
    tables::{
        ALLOC, DYNAMIC, EH_FRAME, INTERP, LOAD, NOBITS, NOTE, PHDR, PROPERTY, RELRO, STACK, STRTAB,
        Section, Segment, TLS,
    },
};

const WRITE: u32 = 2;
const SECTION_DYNAMIC: u32 = 6;
const STRING_TABLE: u64 = 5;
const STRING_SIZE: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
/// `DT_HASH`, `DT_GNU_HASH`, `DT_SYMTAB`, `DT_VERSYM`, `DT_VERNEED`, `DT_VERDEF`. The loader finds
/// these tables through the tags alone, so they may move if the new address has the same bytes.
const MOVABLE: [u64; 6] = [4, 0x6fff_fef5, 6, 0x6fff_fff0, 0x6fff_fffe, 0x6fff_fffc];
/// All other tags that hold an address: `DT_PLTGOT`, `DT_RELA`, `DT_INIT`, `DT_FINI`, `DT_REL`,
/// `DT_JMPREL`, `DT_INIT_ARRAY`, `DT_FINI_ARRAY`, `DT_PREINIT_ARRAY`, `DT_RELR` and
/// `DT_TLSDESC_PLT`.
const OTHER_ADDRESSES: [u64; 11] = [3, 7, 12, 13, 17, 23, 25, 26, 32, 36, 0x6fff_fef6];
/// The section types of the strings and of the tables of `MOVABLE`.
const TABLES: [u32; 7] = [
    STRTAB,
    5,
    11,
    0x6fff_fff6,
    0x6fff_ffff,
    0x6fff_fffe,
    0x6fff_fffd,
];

/// Every `PT_LOAD` is the same, except that the last one may have grown, and at most one is new.
/// The stack, TLS, RELRO and exception segments are the same.
pub(super) fn segments(old: &RawElf, new: &RawElf) -> Vec<String> {
    let mut broken = Vec::new();
    if old.header_but_table() != new.header_but_table() {
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
    let fixed = [STACK, TLS, RELRO, EH_FRAME];
    let of = |raw: &RawElf, kinds: &[u32]| -> Vec<Segment> {
        let segments = raw.segments.iter();
        segments
            .filter(|s| kinds.contains(&s.kind))
            .copied()
            .collect()
    };
    if of(old, &fixed) != of(new, &fixed) {
        broken.push("a segment changed that must not".to_owned());
    }
    if is_executable(old) && old.first(PHDR).is_some() && new.first(PHDR).is_none() {
        broken.push("an executable lost `PT_PHDR`".to_owned());
    }
    broken
}

/// The interpreter and the notes have the same bytes. They may have moved.
pub(super) fn small_segments<R: ReadAt + ?Sized>(
    old: &RawElf,
    new: &RawElf,
    before: &R,
    after: &(impl ReadAt + ?Sized),
) -> Result<Vec<String>, ElfError> {
    let small = |segment: &&Segment| matches!(segment.kind, INTERP | NOTE | PROPERTY);
    let one: Vec<&Segment> = old.segments.iter().filter(small).collect();
    let other: Vec<&Segment> = new.segments.iter().filter(small).collect();
    let mut same = one.len() == other.len();
    for (one, other) in one.iter().zip(&other) {
        let moved = Segment {
            offset: one.offset,
            address: one.address,
            physical: one.physical,
            ..**other
        };
        same = same
            && moved == **one
            && same_bytes((before, one.offset), (after, other.offset), one.file_size)?;
    }
    if same {
        Ok(Vec::new())
    } else {
        Ok(vec!["a note or the interpreter changed".to_owned()])
    }
}

/// Whether a segment grew in the allowed way: it is the last one, ended with the file, has no
/// `.bss`, and at most became writable.
fn grew(one: &Segment, other: &Segment, index: usize, old: &RawElf) -> bool {
    let is_last = old.loads().next_back() == Some(one);
    let flags = if index == 0 {
        one.flags
    } else {
        one.flags | WRITE
    };
    let same_begin = Segment {
        flags: one.flags,
        file_size: one.file_size,
        memory_size: one.memory_size,
        ..*other
    } == *one;
    is_last
        && same_begin
        && (other.flags == one.flags || other.flags == flags)
        && one.file().end == old.len
        && one.file_size == one.memory_size
        && other.file_size == other.memory_size
        && other.file_size > one.file_size
}

/// Every section has the same header and bytes. The strings may have grown, and loaded tables may
/// have moved.
pub(super) fn sections<R: ReadAt + ?Sized>(
    old: &RawElf,
    new: &RawElf,
    before: &R,
    after: &(impl ReadAt + ?Sized),
) -> Result<Vec<String>, ElfError> {
    let mut broken = Vec::new();
    if old.sections.len() != new.sections.len() || old.section_table() != new.section_table() {
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
        let is_loaded = one.flags & ALLOC != 0 && one.kind != NOBITS;
        let size = one.size.min(other.size);
        let sized = match one.kind {
            STRTAB => other.size > one.size,
            SECTION_DYNAMIC => true,
            _ => other.size == one.size,
        };
        let bytes = one.kind == SECTION_DYNAMIC
            || same_bytes((before, one.offset), (after, other.offset), size)?;
        let aligned = one.rest.get(8..16).and_then(<[u8]>::first_chunk);
        let align = u64::from_le_bytes(aligned.copied().unwrap_or_default()).max(1);
        let aligned = other.address % align == one.address % align;
        if !(is_same && is_loaded && sized && bytes && aligned) {
            broken.push(format!("section {index} changed"));
        }
    }
    Ok(broken)
}

/// The dynamic table has the same entries in the same order, except for the run path and the
/// strings. Addresses may differ only if they lead to the same bytes.
pub(super) fn dynamic<R: ReadAt + ?Sized>(
    old: &RawElf,
    new: &RawElf,
    before: &R,
    after: &(impl ReadAt + ?Sized),
) -> Result<Vec<String>, ElfError> {
    let mut broken = Vec::new();
    let changing = [STRING_TABLE, STRING_SIZE, RPATH, RUNPATH];
    let rest = |raw: &RawElf| -> Vec<(u64, u64)> {
        let entries = raw.dynamic.as_deref().unwrap_or_default().iter();
        entries
            .filter(|(tag, _)| !changing.contains(tag))
            .copied()
            .collect()
    };
    let (one, other) = (rest(old), rest(new));
    if one.len() != other.len() {
        broken.push("the dynamic table lost or gained an entry".to_owned());
    }
    for ((tag, value), (new_tag, new_value)) in one.iter().zip(&other) {
        let moved = MOVABLE.contains(tag) && is_same_table(old, new, *value, *new_value);
        if tag != new_tag || (value != new_value && !moved) {
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
    if !grew || !(compared || same_bytes((before, one.0), (after, other.0), len)?) {
        broken.push("a dynamic string changed".to_owned());
    }
    Ok(broken)
}

/// Whether both addresses are the start of the same section, before and after. `sections` compares
/// its bytes.
fn is_same_table(old: &RawElf, new: &RawElf, before: u64, after: u64) -> bool {
    let mut pairs = old.sections.iter().zip(&new.sections);
    pairs.any(|(one, other)| {
        one.flags & ALLOC != 0
            && one.address == before
            && other.address == after
            && !one.file().is_empty()
    })
}

/// The old places of moved tables to which no section, segment or dynamic entry refers any more.
/// Their bytes may change.
fn left(old: &RawElf, new: &RawElf) -> Vec<Range<u64>> {
    let pairs = old.sections.iter().zip(&new.sections);
    let moved = pairs.filter(|(one, other)| {
        one.offset != other.offset && one.flags & ALLOC != 0 && TABLES.contains(&one.kind)
    });
    let meets =
        |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
    let is_left = |section: &&Section| {
        let place = section.file();
        let memory = section.address..section.address.saturating_add(section.size);
        let segments = new.segments.iter();
        let mut segments = segments.filter(|segment| !matches!(segment.kind, LOAD | PHDR | 0));
        let mut entries = new.dynamic.as_deref().unwrap_or_default().iter();
        !new.sections
            .iter()
            .any(|other| meets(&other.file(), &place))
            && !segments.any(|segment| meets(&segment.file(), &place))
            && !entries.any(|(tag, value)| is_address(*tag) && memory.contains(value))
    };
    let moved = moved.map(|(one, _)| one);
    moved.filter(is_left).map(Section::file).collect()
}

fn is_address(tag: u64) -> bool {
    tag == STRING_TABLE || MOVABLE.contains(&tag) || OTHER_ADDRESSES.contains(&tag)
}

/// No byte changes except in headers, in the dynamic table, and in the old places of moved tables.
pub(super) fn loaded_bytes(old: &RawElf, new: &RawElf, patch: &Patch) -> Vec<String> {
    let dynamic = |raw: &RawElf| raw.first(DYNAMIC).map_or(0..0, Segment::file);
    let file_header = 0..64;
    let mut allowed: Vec<Range<u64>> = vec![
        file_header,
        new.table_range(),
        dynamic(old),
        old.section_table_range(),
    ];
    allowed.extend(left(old, new));
    let mut broken = Vec::new();
    for range in patch.overlays() {
        let inside = |place: &Range<u64>| place.start <= range.start && range.end <= place.end;
        if !allowed.iter().any(inside) {
            broken.push(format!("bytes change that must not: at {:#x}", range.start));
        }
    }
    // The program header table may have grown over a note or `.interp`. `rules::sections` finds
    // this in files with section headers; the check here covers files without them.
    let table = new.table_range();
    let hit = new.segments.iter().any(|segment| {
        let file = segment.file();
        !matches!(segment.kind, LOAD | PHDR | 0) && file.start < table.end && table.start < file.end
    });
    if hit {
        broken.push("the program headers lie in a segment of another kind".to_owned());
    }
    broken
}
