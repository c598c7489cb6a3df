//! The rules that hold for every file that loads, before and after an edit. Each function returns the
//! texts of the rules that a file breaks.

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
    check::{RawElf, texts_of_broken},
    source::read_string_at,
    tables::{SECTION_EXECUTE, STRING_TAGS, Segment, contains, overlaps},
};
use rocwheel_base::error::Result;

pub(super) const PAGE: u64 = 0x1000;
/// The dynamic loader in the [ABI of x86-64](https://gitlab.com/x86-psABIs/x86-64-ABI).
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2";
/// The kernel refuses longer paths (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;

/// The rules that the loader itself enforces: alignment, sizes and the order of loaded segments.
pub(super) fn check_loads(raw: &RawElf<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for load in raw.tables.loads() {
        let is_alignment = load.align <= 1 || load.align.is_power_of_two();
        if !is_alignment || load.bias() % load.align.max(1) != 0 {
            broken.push(format!(
                "the address and the offset of a segment disagree by its alignment: {:#x} and {:#x} by {:#x}",
                load.address, load.offset, load.align
            ));
        }
        if load.file().end > raw.tables.file_len() || load.file_size > load.memory_size {
            broken.push(format!(
                "a segment is larger than the file or than its memory: {:#x}",
                load.address
            ));
        }
    }
    for (load, next) in raw.tables.loads().tuple_windows() {
        if load.memory().end > next.address {
            broken.push(format!(
                "segments overlap or descend: {:#x} after {:#x}",
                next.address, load.address
            ));
        }
    }
    broken
}

/// All rules that the output of a linker keeps. The text of a broken rule is the same before and after
/// an edit if it is the same defect, so that `ensure_only_run_path_changed` can compare the texts.
pub(super) fn check_all(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let broken = [
        check_loads(raw),
        check_shared_pages(raw),
        check_headers(raw),
        check_dynamic_table(raw),
        check_strings(raw)?,
        check_inner_segments(raw),
        check_sections(raw),
    ];
    Ok(broken.concat())
}

/// The file has the wanted run path and no second run path.
pub(super) fn check_run_path(raw: &RawElf<'_>, goal: &str) -> Result<Vec<String>> {
    let tags = raw
        .entries()
        .iter()
        .map(|entry| entry.tag)
        .filter(|tag| matches!(*tag, DT_RPATH | DT_RUNPATH));
    let expected: &[u64] = if goal.is_empty() { &[] } else { &[DT_RPATH] };
    let run_path = match (raw.strings(), raw.value(DT_RPATH)) {
        (Some(strings), Some(offset)) => {
            let start = strings.start.saturating_add(offset);
            read_string_at(raw.tables.source, start, strings.end)?
        }
        _ => None,
    };
    Ok(texts_of_broken([
        (!tags.eq(expected.iter().copied()), "not one run path"),
        (run_path.unwrap_or_default() != goal.as_bytes(), "the run path is another"),
    ]))
}

/// No two segments share a page. Kernels from 4.17 to 5.3 map the segments of a program with
/// `MAP_FIXED_NOREPLACE`, and refuse to map a page twice.
fn check_shared_pages(raw: &RawElf<'_>) -> Vec<String> {
    raw.tables
        .loads()
        .tuple_windows()
        .filter(|(load, next)| {
            load.memory_size > 0
                && load.memory().end.saturating_sub(1) / PAGE == next.address / PAGE
        })
        .map(|(_, next)| format!("segments share a page: {:#x}", next.address))
        .collect()
}

/// The program headers are loaded, `PT_PHDR` agrees with them, and old kernels find them.
pub(super) fn check_headers(raw: &RawElf<'_>) -> Vec<String> {
    let range = raw.tables.segment_table_range();
    let load = raw.tables.load_around(&range);
    let bias = load.map(Segment::bias);
    let phdrs: Vec<&Segment> =
        raw.tables.segments.iter().filter(|segment| segment.kind == PT_PHDR).collect();
    let is_right = |phdr: &&Segment| {
        phdr.offset == range.start && phdr.file().end >= range.end && bias == Some(phdr.bias())
    };
    let mut kinds = raw.tables.segments.iter().map(|segment| segment.kind);
    let first = kinds.find(|kind| matches!(*kind, PT_LOAD | PT_PHDR));
    let is_pinned = bias == raw.tables.loads().next().map(Segment::bias);
    texts_of_broken([
        (load.is_none(), "the program headers are in no segment"),
        (phdrs.len() > 1, "two segments for the program headers"),
        (!phdrs.first().is_none_or(is_right), "`PT_PHDR` is not where the program headers are"),
        // The gABI requires `PT_PHDR` before every loaded segment.
        (
            !phdrs.is_empty() && first == Some(PT_LOAD),
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
fn check_dynamic_table(raw: &RawElf<'_>) -> Vec<String> {
    let Some(table) = raw.tables.first(PT_DYNAMIC) else {
        return vec!["no dynamic table".to_owned()];
    };
    let load = raw.tables.load_around(&table.file());
    texts_of_broken([
        (load.is_none_or(|load| load.bias() != table.bias()), "the dynamic table is in no segment"),
        (
            load.is_some_and(|load| load.flags & PF_W == 0),
            "the dynamic table is in a segment that is read-only",
        ),
        (raw.dynamic.is_none(), "the dynamic table has no end"),
        (table.file().end >= raw.tables.file_len(), "the dynamic table ends with the file"),
    ])
}

/// The dynamic strings are loaded and end with a NUL, and a section agrees with `DT_STRTAB` and
/// `DT_STRSZ`.
fn check_strings(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let Some(strings) = raw.strings().filter(|strings| !strings.is_empty()) else {
        return Ok(vec!["the dynamic strings are in no segment".to_owned()]);
    };
    let last = read_string_at(raw.tables.source, strings.end.saturating_sub(1), strings.end)?;
    let is_section = raw.tables.sections.iter().any(|section| {
        section.kind == SHT_STRTAB
            && section.is_loaded()
            && Some(section.address) == raw.value(DT_STRTAB)
            && section.file() == strings
    });
    let has_sections = !raw.tables.sections.is_empty();
    Ok(texts_of_broken([
        (last.is_none(), "the dynamic strings have no end"),
        (!is_section && has_sections, "no section agrees on the dynamic strings"),
    ]))
}

/// Segments such as `PT_NOTE` lie within a `PT_LOAD` with the same distance between address and
/// offset.
fn check_inner_segments(raw: &RawElf<'_>) -> Vec<String> {
    let kinds = [PT_INTERP, PT_NOTE, PT_TLS, PT_GNU_EH_FRAME, PT_GNU_PROPERTY];
    raw.tables
        .segments
        .iter()
        .filter(|segment| kinds.contains(&segment.kind) && segment.file_size > 0)
        .filter(|segment| !is_loaded(raw, segment))
        .map(|segment| format!("a segment is not loaded: kind {:#x}", segment.kind))
        .collect()
}

pub(super) fn is_loaded(raw: &RawElf<'_>, segment: &Segment) -> bool {
    let mut loads = raw.tables.loads();
    loads.any(|load| load.covers(&segment.file()) && load.bias() == segment.bias())
}

/// Loaded sections lie in a segment with the same distance between address and offset, and within
/// its memory. All sections lie in the file, and none contains the program headers.
pub(super) fn check_sections(raw: &RawElf<'_>) -> Vec<String> {
    let headers = raw.tables.segment_table_range();
    let mut broken = Vec::new();
    for (index, section) in raw.tables.sections.iter().enumerate() {
        let file = section.file();
        let memory = section.memory();
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
        if !file.is_empty() && file.end > raw.tables.file_len() {
            broken.push(format!("section {index} lies outside the file"));
        }
        if !memory.is_empty() && is_loaded && !is_tbss && !in_memory(&memory) {
            broken.push(format!("section {index} ends outside of its segment"));
        }
    }
    broken
}

/// What a kernel or a dynamic loader would refuse in a program or library, beside the loaded segments
/// and the program headers: the dynamic table, the interpreter, TLS and code.
pub(super) fn check_loadable(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    // A static program has neither.
    let has_section = raw.tables.sections.iter().any(|section| section.kind == SHT_DYNAMIC);
    if raw.tables.first(PT_DYNAMIC).is_some() || has_section {
        // Some linkers put the table at the end of the file or make it read-only. Both load.
        let harmless = [
            "the dynamic table ends with the file",
            "the dynamic table is in a segment that is read-only",
        ];
        let faults = check_dynamic_table(raw).into_iter();
        broken.extend(faults.filter(|fault| !harmless.contains(&fault.as_str())));
    }
    if let Some(segment) = raw.tables.first(PT_INTERP) {
        broken.extend(check_interpreter(raw, segment)?);
    }
    let tls = raw.tables.first(PT_TLS).filter(|segment| segment.file_size > 0);
    if let Some(segment) = tls.filter(|segment| !is_loaded(raw, segment)) {
        broken.push(format!("`PT_TLS` is in no segment: {:#x}", segment.address));
    }
    broken.extend(check_code(raw));
    Ok(broken)
}

/// `PT_INTERP` must be loaded, because the kernel reads it from the file and the loader from memory.
/// It must be the path that the ABI of x86-64 has for the loader: a program that was linked in a
/// package manager such as Nix names a loader that other hosts do not have.
fn check_interpreter(raw: &RawElf<'_>, segment: &Segment) -> Result<Option<String>> {
    if !is_loaded(raw, segment) || segment.file_size > LONGEST_PATH {
        return Ok(Some("`PT_INTERP` is in no segment".to_owned()));
    }
    let path =
        read_string_at(raw.tables.source, segment.offset, segment.file().end)?.unwrap_or_default();
    if !path.starts_with(b"/") {
        return Ok(Some("`PT_INTERP` is not the path of a loader".to_owned()));
    }
    // A library (with a SONAME) may have the segment too, but no loader reads it there.
    let is_foreign = raw.value(DT_SONAME).is_none() && path != LOADER;
    let shown = String::from_utf8_lossy(&path);
    Ok(is_foreign.then(|| format!("`PT_INTERP` is not the loader of every host: `{shown}`")))
}

/// The entry point of a program and all sections with code lie in executable segments.
fn check_code(raw: &RawElf<'_>) -> Option<String> {
    let can_run_at = |address: u64| {
        let mut loads = raw.tables.loads();
        loads.any(|load| load.flags & PF_X != 0 && load.memory().contains(&address))
    };
    let entry = raw.tables.entry();
    // Libraries have an entry point too, but no loader uses it.
    if raw.is_executable() && !can_run_at(entry) {
        return Some(format!("it begins at {entry:#x}, where no code can run"));
    }
    let section = raw.tables.sections.iter().find(|section| {
        section.flags & SECTION_EXECUTE != 0
            && section.is_loaded()
            && section.size > 0
            && !can_run_at(section.address)
    })?;
    Some(format!("the code at {:#x} is in no segment that can be run", section.address))
}

/// All offsets into the dynamic strings are less than `DT_STRSZ`.
///
/// The loader ignores `DT_STRSZ`. So a file with a larger offset loads if the bytes behind the
/// strings happen to be the right text. After an edit they would not be: only the strings are
/// copied, and not the bytes that follow them.
pub(super) fn check_string_offsets(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let Some(size) = raw.value(DT_STRSZ) else {
        return Ok(Vec::new());
    };
    let is_string = |tag| STRING_TAGS.contains(&tag) || matches!(tag, DT_RPATH | DT_RUNPATH);
    let broken_entries = raw
        .entries()
        .iter()
        .filter(|entry| is_string(entry.tag) && entry.value >= size)
        .map(|entry| {
            format!("the string of dynamic entry {:#x} is outside: {:#x}", entry.tag, entry.value)
        });
    let needed = raw.tables.version_records(raw.entries(), DT_VERNEED)?;
    let defined = raw.tables.version_records(raw.entries(), DT_VERDEF)?;
    let broken_versions = needed
        .into_iter()
        .chain(defined)
        .flat_map(|record| record.names)
        .filter(|offset| *offset >= size)
        .map(|offset| format!("a version name is outside of the dynamic strings: {offset:#x}"));
    Ok(broken_entries.chain(broken_versions).collect())
}
