//! The rules that hold for every file that loads, before and after an edit.

use goblin::elf::{
    dynamic::{
        DT_AUDIT, DT_CONFIG, DT_DEPAUDIT, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
        DT_STRTAB, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM,
    },
    program_header::{
        PF_W, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_INTERP, PT_LOAD, PT_NOTE,
        PT_PHDR, PT_TLS,
    },
    section_header::{SHF_TLS, SHT_DYNAMIC, SHT_NOBITS, SHT_STRTAB},
};
use itertools::Itertools as _;

use crate::{
    elf::{
        check::RawElf,
        source::{read_exact_at, text_at},
        tables::{SECTION_EXECUTE, Segment, half, overlaps, word},
    },
    error::{Context as _, Result},
};

const PAGE: u64 = 0x1000;
const DT_AUXILIARY: u64 = 0x7fff_fffd;
const DT_FILTER: u64 = 0x7fff_ffff;
/// Limit for damaged files, whose version records may form a loop.
const MAX_VERSIONS: u64 = 1 << 14;
/// The kernel refuses longer paths (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;
/// The tags whose value is an offset in the dynamic strings.
const STRING_TAGS: [u64; 9] = [
    DT_NEEDED,
    DT_SONAME,
    DT_RPATH,
    DT_RUNPATH,
    DT_CONFIG,
    DT_DEPAUDIT,
    DT_AUDIT,
    DT_AUXILIARY,
    DT_FILTER,
];

/// The rules that the loader itself enforces: alignment, sizes and the order of segments.
pub(super) fn loading(raw: &RawElf<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for load in raw.loads() {
        let aligned = load.align <= 1 || load.align.is_power_of_two();
        if !aligned || load.bias() % load.align.max(1) != 0 {
            broken.push(format!(
                "the address and the offset of a segment disagree by its alignment: {:#x} and {:#x} by {:#x}",
                load.address, load.offset, load.align
            ));
        }
        if load.file().end > raw.len() || load.file_size > load.memory_size {
            broken.push(format!(
                "a segment is larger than the file or than its memory: {:#x}",
                load.address
            ));
        }
    }
    for (one, next) in raw.loads().tuple_windows() {
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
    let mut broken = loading(raw);
    broken.extend(shared_pages(raw));
    broken.extend(headers(raw));
    broken.extend(dynamic_table(raw));
    broken.extend(strings(raw)?);
    broken.extend(inside_segments(raw));
    broken.extend(sections(raw));
    broken.extend(memory_of_sections(raw));
    Ok(broken)
}

/// The file has the wanted run path and no second one.
pub(super) fn run_path(raw: &RawElf<'_>, goal: &str) -> Result<Option<String>> {
    let tags = raw.entries().iter().map(|entry| entry.tag);
    let paths = tags.filter(|tag| matches!(*tag, DT_RPATH | DT_RUNPATH));
    let expected: &[u64] = if goal.is_empty() { &[] } else { &[DT_RPATH] };
    if !paths.eq(expected.iter().copied()) {
        return Ok(Some("not one run path".to_owned()));
    }
    let Some(offset) = raw.value(DT_RPATH) else {
        return Ok(None);
    };
    let found = match string_place(raw) {
        Some((start, end)) => text_at(raw.source, start.saturating_add(offset), end)?,
        None => None,
    };
    let is_goal = found.as_deref() == Some(goal.as_bytes());
    Ok((!is_goal).then(|| "the run path is another".to_owned()))
}

/// Start and end of the dynamic strings in the file.
pub(super) fn string_place(raw: &RawElf<'_>) -> Option<(u64, u64)> {
    let size = raw.value(DT_STRSZ)?;
    let start = raw.place(raw.value(DT_STRTAB)?, size)?;
    Some((start, start.saturating_add(size)))
}

/// No two segments share a page. Kernels from 4.17 to 5.3 map the segments of a program with
/// `MAP_FIXED_NOREPLACE`, and refuse to map a page twice.
fn shared_pages(raw: &RawElf<'_>) -> Vec<String> {
    let pairs = raw.loads().tuple_windows();
    let shared = pairs.filter(|(one, next)| {
        one.memory_size > 0 && one.memory().end.saturating_sub(1) / PAGE == next.address / PAGE
    });
    shared
        .map(|(_, next)| format!("segments share a page: {:#x}", next.address))
        .collect()
}

/// The program headers are loaded, `PT_PHDR` agrees with them, and old kernels find them.
pub(super) fn headers(raw: &RawElf<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let range = raw.table_range();
    let load = raw.loads().find(|load| load.covers(&range));
    if load.is_none() {
        broken.push("the program headers are in no segment".to_owned());
    }
    let named: Vec<&Segment> = raw.segments.iter().filter(|s| s.kind == PT_PHDR).collect();
    if named.len() > 1 {
        broken.push("two segments for the program headers".to_owned());
    }
    if let Some(named) = named.first() {
        let is_right = named.offset == raw.table()
            && named.file().end >= range.end
            && load.is_some_and(|load| load.bias() == named.bias());
        if !is_right {
            broken.push("`PT_PHDR` is not where the program headers are".to_owned());
        }
        let mut kinds = raw.segments.iter().map(|segment| segment.kind);
        if kinds.find(|kind| matches!(*kind, PT_LOAD | PT_PHDR)) == Some(PT_LOAD) {
            broken.push("`PT_PHDR` stands behind a segment that is loaded".to_owned());
        }
    }
    let first = raw.loads().next();
    let pinned = load.map(Segment::bias) == first.map(Segment::bias);
    if raw.is_executable(raw.entries()) && !pinned {
        broken.push("the program headers are where kernels before 5.18 do not look".to_owned());
    }
    broken
}

/// The dynamic table is terminated and in a writable segment, because the loader writes to
/// `DT_DEBUG`. It does not end with the file: readelf 2.30 reports that as damage.
pub(super) fn dynamic_table(raw: &RawElf<'_>) -> Vec<String> {
    let Some(place) = raw.first(PT_DYNAMIC) else {
        return vec!["no dynamic table".to_owned()];
    };
    let mut broken = Vec::new();
    let load = raw.loads().find(|load| load.covers(&place.file()));
    if load.is_none_or(|load| load.bias() != place.bias()) {
        broken.push("the dynamic table is in no segment".to_owned());
    }
    if load.is_some_and(|load| load.flags & PF_W == 0) {
        broken.push("the dynamic table is in a segment that is read-only".to_owned());
    }
    if raw.dynamic.is_none() {
        broken.push("the dynamic table has no end".to_owned());
    }
    if place.file().end >= raw.len() {
        broken.push("the dynamic table ends with the file".to_owned());
    }
    broken
}

/// The dynamic strings are loaded and end with a NUL, and a section agrees with `DT_STRTAB` and
/// `DT_STRSZ`.
fn strings(raw: &RawElf<'_>) -> Result<Option<String>> {
    let Some((start, end)) = string_place(raw).filter(|(start, end)| start < end) else {
        return Ok(Some("the dynamic strings are in no segment".to_owned()));
    };
    if text_at(raw.source, end.saturating_sub(1), end)?.is_none() {
        return Ok(Some("the dynamic strings have no end".to_owned()));
    }
    let agrees = raw.sections.iter().any(|section| {
        section.kind == SHT_STRTAB
            && section.is_loaded()
            && Some(section.address) == raw.value(DT_STRTAB)
            && section.file() == (start..end)
    });
    let is_known = agrees || raw.sections.is_empty();
    Ok((!is_known).then(|| "no section agrees on the dynamic strings".to_owned()))
}

/// Segments such as `PT_NOTE` lie within a `PT_LOAD` with the same distance between address and
/// offset.
fn inside_segments(raw: &RawElf<'_>) -> Vec<String> {
    let small = [PT_INTERP, PT_NOTE, PT_TLS, PT_GNU_EH_FRAME, PT_GNU_PROPERTY];
    let segments = raw.segments.iter().enumerate();
    segments
        .filter(|(_, segment)| small.contains(&segment.kind) && segment.file_size > 0)
        .filter(|(_, segment)| !is_loaded(raw, segment))
        .map(|(_, segment)| format!("a segment is not loaded: kind {:#x}", segment.kind))
        .collect()
}

fn is_loaded(raw: &RawElf<'_>, segment: &Segment) -> bool {
    let mut loads = raw.loads();
    loads.any(|load| load.covers(&segment.file()) && load.bias() == segment.bias())
}

/// Loaded sections lie in a segment with the same distance between address and offset, all sections
/// lie in the file, and none contains the program headers.
fn sections(raw: &RawElf<'_>) -> Vec<String> {
    let headers = raw.table_range();
    let mut broken = Vec::new();
    for (index, section) in raw.sections.iter().enumerate() {
        let file = section.file();
        if file.is_empty() {
            continue;
        }
        if overlaps(&file, &headers) {
            broken.push(format!("the program headers lie in section {index}"));
        }
        let bias = section.address.wrapping_sub(section.offset);
        let mut loads = raw.loads();
        if section.is_loaded() && !loads.any(|load| load.covers(&file) && load.bias() == bias) {
            broken.push(format!("section {index} is in no segment"));
        }
        if file.end > raw.len() {
            broken.push(format!("section {index} lies outside the file"));
        }
    }
    broken
}

/// Each loaded section lies within the memory of one segment. `.tbss` is not checked: its zeros
/// exist only in the memory of each thread.
fn memory_of_sections(raw: &RawElf<'_>) -> Vec<String> {
    let sections = raw.sections.iter().enumerate();
    let outside = sections.filter(|(_, section)| {
        let is_tbss = section.kind == SHT_NOBITS && section.flags & u64::from(SHF_TLS) != 0;
        let own = section.memory();
        let mut loads = raw.loads().map(Segment::memory);
        section.is_loaded()
            && section.size > 0
            && !is_tbss
            && !loads.any(|memory| memory.start <= own.start && own.end <= memory.end)
    });
    outside
        .map(|(index, _)| format!("section {index} ends outside of its segment"))
        .collect()
}

/// The segments of a program or library that the kernel or the dynamic loader would refuse.
pub(super) fn segments(raw: &RawElf<'_>) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let has_table = raw.sections.iter().any(|it| it.kind == SHT_DYNAMIC);
    if raw.first(PT_DYNAMIC).is_some() || has_table {
        // Some linkers put the table at the end of the file or make it read-only. Both load.
        let harmless = [
            "the dynamic table ends with the file",
            "the dynamic table is in a segment that is read-only",
        ];
        let found = dynamic_table(raw).into_iter();
        broken.extend(found.filter(|fact| !harmless.contains(&fact.as_str())));
    }
    if let Some(place) = raw.first(PT_INTERP) {
        broken.extend(interpreter(raw, place)?);
    }
    let tls = raw.first(PT_TLS).filter(|it| it.file_size > 0);
    if let Some(place) = tls.filter(|it| !is_loaded(raw, it)) {
        broken.push(format!("`PT_TLS` is in no segment: {:#x}", place.address));
    }
    broken.extend(code(raw));
    Ok(broken)
}

/// `PT_INTERP` must be an absolute path, and loaded: the kernel reads it from the file, and the
/// loader from memory.
fn interpreter(raw: &RawElf<'_>, place: &Segment) -> Result<Option<String>> {
    if !is_loaded(raw, place) || place.file_size > LONGEST_PATH {
        return Ok(Some("`PT_INTERP` is in no segment".to_owned()));
    }
    let path = text_at(raw.source, place.offset, place.file().end)?;
    let is_path = path.is_some_and(|path| path.starts_with(b"/"));
    Ok((!is_path).then(|| "`PT_INTERP` is not the path of a loader".to_owned()))
}

/// The entry point of a program and all sections with code lie in executable segments.
fn code(raw: &RawElf<'_>) -> Option<String> {
    let runs = |address: u64| {
        let mut loads = raw.loads();
        loads.any(|it| it.flags & PF_X != 0 && it.memory().contains(&address))
    };
    let entry = raw.entry();
    // Libraries have an entry point too, but no loader uses it.
    if raw.is_executable(raw.entries()) && !runs(entry) {
        return Some(format!("it begins at {entry:#x}, where no code can run"));
    }
    let mut code = raw
        .sections
        .iter()
        .filter(|it| it.flags & SECTION_EXECUTE != 0);
    let stuck = code.find(|it| it.is_loaded() && it.size > 0 && !runs(it.address))?;
    Some(format!(
        "the code at {:#x} is in no segment that can be run",
        stuck.address
    ))
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
    let tags = entries.filter(|it| STRING_TAGS.contains(&it.tag) && it.value >= size);
    let tags = tags.map(|it| {
        let (tag, value) = (it.tag, it.value);
        format!("the string of dynamic entry {tag:#x} is outside: {value:#x}")
    });
    let names = version_names(raw)?.into_iter();
    let names = names.filter(|offset| *offset >= size);
    let names = names
        .map(|offset| format!("a version name is outside of the dynamic strings: {offset:#x}"));
    Ok(tags.chain(names).collect())
}

/// The string offsets of the names of all needed and defined versions (`DT_VERNEED`, `DT_VERDEF`).
fn version_names(raw: &RawElf<'_>) -> Result<Vec<u64>> {
    let mut names = Vec::new();
    // For each table: its tags (address and number of records). For its records: the size, and the
    // offsets in the record of the name (needed versions only: the library), the number of inner
    // records, the distance to the first of these, and the distance to the next record. For the
    // inner records: the size, and the offsets of the name and of the distance to the next.
    let needed = (
        (DT_VERNEED, DT_VERNEEDNUM),
        (16, Some(4), 2, 8, 12),
        (16, 8, 12),
    );
    let defined = ((DT_VERDEF, DT_VERDEFNUM), (20, None, 6, 12, 16), (8, 0, 4));
    for ((table, count), (size, name, below, first, next), (inner_size, inner_name, inner_next)) in
        [needed, defined]
    {
        let count = raw.value(count).unwrap_or(0).min(MAX_VERSIONS);
        let mut address = raw.value(table).filter(|_| count > 0);
        for _ in 0..count {
            let Some(at) = address else { break };
            let record = record(raw, at, size)?;
            names.extend(name.map(|name| u64::from(word(&record, name))));
            let mut inner = at.saturating_add(u64::from(word(&record, first)));
            for _ in 0..half(&record, below) {
                let version = self::record(raw, inner, inner_size)?;
                names.push(u64::from(word(&version, inner_name)));
                let step = u64::from(word(&version, inner_next));
                inner = inner.saturating_add(step);
                if step == 0 || names.len() as u64 > MAX_VERSIONS {
                    break;
                }
            }
            let step = u64::from(word(&record, next));
            address = (step > 0).then(|| at.saturating_add(step));
        }
    }
    Ok(names)
}

fn record(raw: &RawElf<'_>, address: u64, size: usize) -> Result<Vec<u8>> {
    let place = raw.place(address, size as u64);
    let mut record = vec![0; size];
    read_exact_at(
        raw.source,
        place.context("a version is in no segment")?,
        &mut record,
    )?;
    Ok(record)
}
