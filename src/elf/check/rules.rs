//! The rules that hold for every file that loads, before and after an edit.

use std::ops::Range;

use goblin::elf::{
    dynamic::{DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DT_VERDEF, DT_VERNEED},
    program_header::{
        PF_W, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE,
        PT_PHDR, PT_TLS,
    },
    section_header::{SHF_TLS, SHT_DYNAMIC, SHT_NOBITS, SHT_STRTAB},
};
use itertools::Itertools as _;

use crate::{
    elf::{
        check::{RawElf, broken},
        source::text_at,
        tables::{SECTION_EXECUTE, STRING_TAGS, Segment, contains, overlaps},
    },
    error::Result,
};

const PAGE: u64 = 0x1000;
/// The dynamic loader in the [ABI of x86-64](https://gitlab.com/x86-psABIs/x86-64-ABI).
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2";
/// The kernel refuses longer paths (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;

/// The rules that the loader itself enforces: alignment, sizes and the order of segments.
pub(super) fn loading(raw: &RawElf<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for load in raw.tables.loads() {
        let aligned = load.align <= 1 || load.align.is_power_of_two();
        if !aligned || load.bias() % load.align.max(1) != 0 {
            broken.push(format!(
                "the address and the offset of a segment disagree by its alignment: {:#x} and {:#x} by {:#x}",
                load.address, load.offset, load.align
            ));
        }
        if load.file().end > raw.tables.len() || load.file_size > load.memory_size {
            broken.push(format!(
                "a segment is larger than the file or than its memory: {:#x}",
                load.address
            ));
        }
    }
    for (one, next) in raw.tables.loads().tuple_windows() {
        if one.memory().end > next.address {
            broken.push(format!(
                "segments overlap or descend: {:#x} after {:#x}",
                next.address, one.address
            ));
        }
    }
    broken
}

/// All rules. The text of a broken rule is the same before and after an edit if it is the same
/// defect, so that `accept` can compare the texts.
pub(super) fn all(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let rules = [
        loading(raw),
        shared_pages(raw),
        headers(raw),
        dynamic_table(raw),
        strings(raw)?,
        inside_segments(raw),
        sections(raw),
    ];
    Ok(rules.concat())
}

/// The file has the wanted run path and no second one.
pub(super) fn run_path(raw: &RawElf<'_>, goal: &str) -> Result<Vec<String>> {
    let tags = raw.entries().iter().map(|entry| entry.tag);
    let paths = tags.filter(|tag| matches!(*tag, DT_RPATH | DT_RUNPATH));
    let expected: &[u64] = if goal.is_empty() { &[] } else { &[DT_RPATH] };
    let found = match (raw.strings(), raw.value(DT_RPATH)) {
        (Some(strings), Some(offset)) => {
            let start = strings.start.saturating_add(offset);
            text_at(raw.tables.source, start, strings.end)?
        }
        _ => None,
    };
    Ok(broken([
        (!paths.eq(expected.iter().copied()), "not one run path"),
        (found.unwrap_or_default() != goal.as_bytes(), "the run path is another"),
    ]))
}

/// No two segments share a page. Kernels from 4.17 to 5.3 map the segments of a program with
/// `MAP_FIXED_NOREPLACE`, and refuse to map a page twice.
fn shared_pages(raw: &RawElf<'_>) -> Vec<String> {
    let pairs = raw.tables.loads().tuple_windows();
    let shared = pairs.filter(|(one, next)| {
        one.memory_size > 0 && one.memory().end.saturating_sub(1) / PAGE == next.address / PAGE
    });
    shared.map(|(_, next)| format!("segments share a page: {:#x}", next.address)).collect()
}

/// The program headers are loaded, `PT_PHDR` agrees with them, and old kernels find them.
pub(super) fn headers(raw: &RawElf<'_>) -> Vec<String> {
    let range = raw.tables.table_range();
    let load = raw.tables.loads().find(|load| load.covers(&range));
    let bias = load.map(Segment::bias);
    let named: Vec<&Segment> = raw.tables.segments.iter().filter(|s| s.kind == PT_PHDR).collect();
    let is_right = |named: &&Segment| {
        named.offset == range.start && named.file().end >= range.end && bias == Some(named.bias())
    };
    let mut kinds = raw.tables.segments.iter().map(|segment| segment.kind);
    let first = kinds.find(|kind| matches!(*kind, PT_LOAD | PT_PHDR));
    let is_pinned = bias == raw.tables.loads().next().map(Segment::bias);
    broken([
        (load.is_none(), "the program headers are in no segment"),
        (named.len() > 1, "two segments for the program headers"),
        (!named.first().is_none_or(is_right), "`PT_PHDR` is not where the program headers are"),
        (
            !named.is_empty() && first == Some(PT_LOAD),
            "`PT_PHDR` stands behind a segment that is loaded",
        ),
        (
            raw.is_executable() && !is_pinned,
            "the program headers are where kernels before 5.18 do not look",
        ),
    ])
}

/// The dynamic table is terminated and in a writable segment, because the loader writes to
/// `DT_DEBUG`. It does not end with the file: readelf 2.30 reports that as damage.
pub(super) fn dynamic_table(raw: &RawElf<'_>) -> Vec<String> {
    let Some(place) = raw.tables.first(PT_DYNAMIC) else {
        return vec!["no dynamic table".to_owned()];
    };
    let load = raw.tables.loads().find(|load| load.covers(&place.file()));
    broken([
        (load.is_none_or(|load| load.bias() != place.bias()), "the dynamic table is in no segment"),
        (
            load.is_some_and(|load| load.flags & PF_W == 0),
            "the dynamic table is in a segment that is read-only",
        ),
        (raw.dynamic.is_none(), "the dynamic table has no end"),
        (place.file().end >= raw.tables.len(), "the dynamic table ends with the file"),
    ])
}

/// The dynamic strings are loaded and end with a NUL, and a section agrees with `DT_STRTAB` and
/// `DT_STRSZ`.
fn strings(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let Some(place) = raw.strings().filter(|place| !place.is_empty()) else {
        return Ok(vec!["the dynamic strings are in no segment".to_owned()]);
    };
    let end = text_at(raw.tables.source, place.end.saturating_sub(1), place.end)?;
    let agrees = raw.tables.sections.iter().any(|section| {
        section.kind == SHT_STRTAB
            && section.is_loaded()
            && Some(section.address) == raw.value(DT_STRTAB)
            && section.file() == place
    });
    Ok(broken([
        (end.is_none(), "the dynamic strings have no end"),
        (!agrees && !raw.tables.sections.is_empty(), "no section agrees on the dynamic strings"),
    ]))
}

/// Segments such as `PT_NOTE` lie within a `PT_LOAD` with the same distance between address and
/// offset.
fn inside_segments(raw: &RawElf<'_>) -> Vec<String> {
    let small = [PT_INTERP, PT_NOTE, PT_TLS, PT_GNU_EH_FRAME, PT_GNU_PROPERTY];
    let segments = raw.tables.segments.iter().enumerate();
    segments
        .filter(|(_, segment)| small.contains(&segment.kind) && segment.file_size > 0)
        .filter(|(_, segment)| !is_loaded(raw, segment))
        .map(|(_, segment)| format!("a segment is not loaded: kind {:#x}", segment.kind))
        .collect()
}

fn is_loaded(raw: &RawElf<'_>, segment: &Segment) -> bool {
    let mut loads = raw.tables.loads();
    loads.any(|load| load.covers(&segment.file()) && load.bias() == segment.bias())
}

/// Loaded sections lie in a segment with the same distance between address and offset, and within
/// its memory. All sections lie in the file, and none contains the program headers.
fn sections(raw: &RawElf<'_>) -> Vec<String> {
    let headers = raw.tables.table_range();
    let mut broken = Vec::new();
    for (index, section) in raw.tables.sections.iter().enumerate() {
        let (file, memory) = (section.file(), section.memory());
        let bias = section.address.wrapping_sub(section.offset);
        let in_segment =
            |range: &Range<u64>| raw.tables.loads().any(|it| it.covers(range) && it.bias() == bias);
        let in_memory =
            |range: &Range<u64>| raw.tables.loads().any(|it| contains(&it.memory(), range));
        // `.tbss` may lie anywhere: its zeros exist only in the memory of each thread.
        let is_tbss = section.kind == SHT_NOBITS && section.flags & u64::from(SHF_TLS) != 0;
        let is_loaded = section.is_loaded();
        if !file.is_empty() && overlaps(&file, &headers) {
            broken.push(format!("the program headers lie in section {index}"));
        }
        if !file.is_empty() && is_loaded && !in_segment(&file) {
            broken.push(format!("section {index} is in no segment"));
        }
        if !file.is_empty() && file.end > raw.tables.len() {
            broken.push(format!("section {index} lies outside the file"));
        }
        if !memory.is_empty() && is_loaded && !is_tbss && !in_memory(&memory) {
            broken.push(format!("section {index} ends outside of its segment"));
        }
    }
    broken
}

/// The segments of a program or library that the kernel or the dynamic loader would refuse.
pub(super) fn segments(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let has_table = raw.tables.sections.iter().any(|it| it.kind == SHT_DYNAMIC);
    if raw.tables.first(PT_DYNAMIC).is_some() || has_table {
        // Some linkers put the table at the end of the file or make it read-only. Both load.
        let harmless = [
            "the dynamic table ends with the file",
            "the dynamic table is in a segment that is read-only",
        ];
        let found = dynamic_table(raw).into_iter();
        broken.extend(found.filter(|fact| !harmless.contains(&fact.as_str())));
    }
    if let Some(place) = raw.tables.first(PT_INTERP) {
        broken.extend(interpreter(raw, place)?);
    }
    let tls = raw.tables.first(PT_TLS).filter(|it| it.file_size > 0);
    if let Some(place) = tls.filter(|it| !is_loaded(raw, it)) {
        broken.push(format!("`PT_TLS` is in no segment: {:#x}", place.address));
    }
    broken.extend(code(raw));
    Ok(broken)
}

/// `PT_INTERP` must be loaded, because the kernel reads it from the file and the loader from memory.
/// It must be the path that the ABI of x86-64 has for the loader: a program that was linked in a
/// package manager such as Nix names a loader that other hosts do not have.
fn interpreter(raw: &RawElf<'_>, place: &Segment) -> Result<Option<String>> {
    if !is_loaded(raw, place) || place.file_size > LONGEST_PATH {
        return Ok(Some("`PT_INTERP` is in no segment".to_owned()));
    }
    let path = text_at(raw.tables.source, place.offset, place.file().end)?;
    let path = path.unwrap_or_default();
    if !path.starts_with(b"/") {
        return Ok(Some("`PT_INTERP` is not the path of a loader".to_owned()));
    }
    // A library (with a SONAME) may have the segment too, but no loader reads it there.
    let is_foreign = raw.value(DT_SONAME).is_none() && path != LOADER;
    let shown = String::from_utf8_lossy(&path);
    Ok(is_foreign.then(|| format!("`PT_INTERP` is not the loader of every host: `{shown}`")))
}

/// The entry point of a program and all sections with code lie in executable segments.
fn code(raw: &RawElf<'_>) -> Option<String> {
    let runs = |address: u64| {
        let mut loads = raw.tables.loads();
        loads.any(|it| it.flags & PF_X != 0 && it.memory().contains(&address))
    };
    let entry = raw.tables.entry();
    // Libraries have an entry point too, but no loader uses it.
    if raw.is_executable() && !runs(entry) {
        return Some(format!("it begins at {entry:#x}, where no code can run"));
    }
    let mut code = raw.tables.sections.iter().filter(|it| it.flags & SECTION_EXECUTE != 0);
    let stuck = code.find(|it| it.is_loaded() && it.size > 0 && !runs(it.address))?;
    Some(format!("the code at {:#x} is in no segment that can be run", stuck.address))
}

/// All offsets into the dynamic strings are less than `DT_STRSZ`.
///
/// The loader ignores `DT_STRSZ`. So a file with a larger offset loads if the bytes behind the
/// strings happen to be the right text. After an edit they would not be: only the strings are
/// copied, and not the bytes that follow them.
pub(super) fn string_offsets(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let Some(size) = raw.value(DT_STRSZ) else {
        return Ok(Vec::new());
    };
    let entries = raw.entries().iter();
    let is_string = |tag| STRING_TAGS.contains(&tag) || matches!(tag, DT_RPATH | DT_RUNPATH);
    let tags = entries.filter(|it| is_string(it.tag) && it.value >= size);
    let tags = tags.map(|it| {
        let (tag, value) = (it.tag, it.value);
        format!("the string of dynamic entry {tag:#x} is outside: {value:#x}")
    });
    let needed = raw.tables.version_names(raw.entries(), DT_VERNEED)?;
    let defined = raw.tables.version_names(raw.entries(), DT_VERDEF)?;
    let names = needed.into_iter().chain(defined).flatten();
    let names = names
        .filter(|offset| *offset >= size)
        .map(|offset| format!("a version name is outside of the dynamic strings: {offset:#x}"));
    Ok(tags.chain(names).collect())
}
