//! The rules that hold for every file that loads, before and after an edit.

use crate::elf::{
    ElfError, ReadAt,
    check::raw::{RawElf, text},
    source::read_exact_at,
    tables::{
        ALLOC, DYNAMIC, EH_FRAME, INTERP, LOAD, NOBITS, NOTE, PHDR, PROPERTY, STRTAB, Segment, TLS,
        half, word,
    },
};

const PAGE: u64 = 0x1000;
const WRITE: u32 = 2;
const STRING_TABLE: u64 = 5;
const STRING_SIZE: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
const FLAGS_1: u64 = 0x6fff_fffb;
const PIE: u64 = 0x0800_0000;
const VERDEF: u64 = 0x6fff_fffc;
const VERNEED: u64 = 0x6fff_fffe;
/// Limit for damaged files, whose version records may form a loop.
const MAX_VERSIONS: u64 = 1 << 14;
const THREAD_LOCAL: u64 = 0x400;
/// `DT_NEEDED`, `DT_SONAME`, `DT_RPATH`, `DT_RUNPATH`, `DT_CONFIG`, `DT_DEPAUDIT`, `DT_AUDIT`,
/// `DT_AUXILIARY` and `DT_FILTER`.
const STRING_TAGS: [u64; 9] = [
    1,
    14,
    RPATH,
    RUNPATH,
    0x6fff_fefa,
    0x6fff_fefb,
    0x6fff_fefc,
    0x7fff_fffd,
    0x7fff_ffff,
];

/// The rules that the loader itself enforces: alignment, sizes and the order of segments.
pub(super) fn loading(raw: &RawElf) -> Vec<String> {
    let mut broken = Vec::new();
    for load in raw.loads() {
        let aligned = load.align <= 1 || load.align.is_power_of_two();
        if !aligned || load.bias() % load.align.max(1) != 0 {
            broken.push(format!(
                "the address and the offset of a segment disagree by its alignment: {:#x} and {:#x} by {:#x}",
                load.address, load.offset, load.align
            ));
        }
        if load.file().end > raw.len || load.file_size > load.memory_size {
            broken.push(format!(
                "a segment is larger than the file or than its memory: {:#x}",
                load.address
            ));
        }
    }
    let loads: Vec<&Segment> = raw.loads().collect();
    for pair in loads.windows(2) {
        if let [one, next] = pair
            && one.memory().end > next.address
        {
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
pub(super) fn all(raw: &RawElf, source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    let mut broken = loading(raw);
    broken.extend(shared_pages(raw));
    broken.extend(headers(raw));
    broken.extend(dynamic_table(raw));
    broken.extend(strings(raw, source)?);
    broken.extend(inside_segments(raw));
    broken.extend(sections(raw));
    broken.extend(memory_of_sections(raw));
    Ok(broken)
}

/// The file has the wanted run path and no second one.
pub(super) fn run_path(
    raw: &RawElf,
    source: &(impl ReadAt + ?Sized),
    goal: &str,
) -> Result<Vec<String>, ElfError> {
    let entries = raw.dynamic.as_deref().unwrap_or_default();
    let paths: Vec<u64> = entries
        .iter()
        .filter(|(tag, _)| matches!(*tag, RPATH | RUNPATH))
        .map(|(tag, _)| *tag)
        .collect();
    let expected: &[u64] = if goal.is_empty() { &[] } else { &[RPATH] };
    if paths != expected {
        return Ok(vec!["not one run path".to_owned()]);
    }
    let Some(offset) = raw.value(RPATH) else {
        return Ok(Vec::new());
    };
    let found = match string_place(raw) {
        Some((start, end)) => text(source, start.saturating_add(offset), end)?,
        None => None,
    };
    if found.as_deref() == Some(goal.as_bytes()) {
        Ok(Vec::new())
    } else {
        Ok(vec!["the run path is another".to_owned()])
    }
}

pub(super) fn is_executable(raw: &RawElf) -> bool {
    raw.is_fixed()
        || raw.first(INTERP).is_some()
        || raw.value(FLAGS_1).is_some_and(|flags| flags & PIE != 0)
}

/// Start and end of the dynamic strings in the file.
pub(super) fn string_place(raw: &RawElf) -> Option<(u64, u64)> {
    let size = raw.value(STRING_SIZE)?;
    let start = raw.place(raw.value(STRING_TABLE)?, size)?;
    Some((start, start.saturating_add(size)))
}

/// No two segments share a page. Kernels from 4.17 to 5.3 map the segments of a program with
/// `MAP_FIXED_NOREPLACE`, and refuse to map a page twice.
fn shared_pages(raw: &RawElf) -> Vec<String> {
    let loads: Vec<&Segment> = raw.loads().collect();
    let mut broken = Vec::new();
    for pair in loads.windows(2) {
        if let [one, next] = pair
            && one.memory_size > 0
            && one.memory().end.saturating_sub(1) / PAGE == next.address / PAGE
        {
            broken.push(format!("segments share a page: {:#x}", next.address));
        }
    }
    broken
}

/// The program headers are loaded, `PT_PHDR` agrees with them, and old kernels find them.
pub(super) fn headers(raw: &RawElf) -> Vec<String> {
    let mut broken = Vec::new();
    let range = raw.table_range();
    let load = raw.loads().find(|load| load.covers(&range));
    if load.is_none() {
        broken.push("the program headers are in no segment".to_owned());
    }
    let named: Vec<&Segment> = raw.segments.iter().filter(|s| s.kind == PHDR).collect();
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
        if kinds.find(|kind| matches!(*kind, LOAD | PHDR)) == Some(LOAD) {
            broken.push("`PT_PHDR` stands behind a segment that is loaded".to_owned());
        }
    }
    let first = raw.loads().next();
    let pinned = load.map(Segment::bias) == first.map(Segment::bias);
    if is_executable(raw) && !pinned {
        broken.push("the program headers are where kernels before 5.18 do not look".to_owned());
    }
    broken
}

/// The dynamic table is terminated and in a writable segment, because the loader writes to
/// `DT_DEBUG`. It does not end with the file: readelf 2.30 reports that as damage.
pub(super) fn dynamic_table(raw: &RawElf) -> Vec<String> {
    let Some(place) = raw.first(DYNAMIC) else {
        return vec!["no dynamic table".to_owned()];
    };
    let mut broken = Vec::new();
    let load = raw.loads().find(|load| load.covers(&place.file()));
    if load.is_none_or(|load| load.bias() != place.bias()) {
        broken.push("the dynamic table is in no segment".to_owned());
    }
    if load.is_some_and(|load| load.flags & WRITE == 0) {
        broken.push("the dynamic table is in a segment that is read-only".to_owned());
    }
    if raw.dynamic.is_none() {
        broken.push("the dynamic table has no end".to_owned());
    }
    if place.file().end >= raw.len {
        broken.push("the dynamic table ends with the file".to_owned());
    }
    broken
}

/// The dynamic strings are loaded and end with a NUL, and a section agrees with `DT_STRTAB` and
/// `DT_STRSZ`.
fn strings(raw: &RawElf, source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    let Some((start, end)) = string_place(raw).filter(|(start, end)| start < end) else {
        return Ok(vec!["the dynamic strings are in no segment".to_owned()]);
    };
    let last = end.saturating_sub(1);
    if text(source, last, end)?.is_none() {
        return Ok(vec!["the dynamic strings have no end".to_owned()]);
    }
    if raw.sections.is_empty() {
        return Ok(Vec::new());
    }
    let agrees = raw.sections.iter().any(|section| {
        section.kind == STRTAB
            && section.flags & ALLOC != 0
            && Some(section.address) == raw.value(STRING_TABLE)
            && section.file() == (start..end)
    });
    if agrees {
        Ok(Vec::new())
    } else {
        Ok(vec!["no section agrees on the dynamic strings".to_owned()])
    }
}

/// Segments such as `PT_NOTE` lie within a `PT_LOAD` with the same distance between address and
/// offset.
fn inside_segments(raw: &RawElf) -> Vec<String> {
    let small = [INTERP, NOTE, TLS, EH_FRAME, PROPERTY];
    let segments = raw.segments.iter().enumerate();
    segments
        .filter(|(_, segment)| small.contains(&segment.kind) && segment.file_size > 0)
        .filter(|(_, segment)| {
            let mut loads = raw.loads();
            !loads.any(|load| load.covers(&segment.file()) && load.bias() == segment.bias())
        })
        .map(|(_, segment)| format!("a segment is not loaded: kind {:#x}", segment.kind))
        .collect()
}

/// Loaded sections lie in a segment with the same distance between address and offset, all sections
/// lie in the file, and none contains the program headers.
fn sections(raw: &RawElf) -> Vec<String> {
    let headers = raw.table_range();
    let mut broken = Vec::new();
    for (index, section) in raw.sections.iter().enumerate() {
        let file = section.file();
        if file.is_empty() {
            continue;
        }
        if file.start < headers.end && headers.start < file.end {
            broken.push(format!("the program headers lie in section {index}"));
        }
        let bias = section.address.wrapping_sub(section.offset);
        let mut loads = raw.loads();
        if section.flags & ALLOC != 0
            && !loads.any(|load| load.covers(&file) && load.bias() == bias)
        {
            broken.push(format!("section {index} is in no segment"));
        }
        if file.end > raw.len {
            broken.push(format!("section {index} lies outside the file"));
        }
    }
    broken
}

/// Each loaded section lies within the memory of one segment. `.tbss` is not checked: its zeros
/// exist only in the memory of each thread.
fn memory_of_sections(raw: &RawElf) -> Vec<String> {
    let sections = raw.sections.iter().enumerate();
    let in_memory = sections.filter(|(_, section)| {
        let is_tbss = section.kind == NOBITS && section.flags & THREAD_LOCAL != 0;
        section.flags & ALLOC != 0 && section.size > 0 && !is_tbss
    });
    let outside = in_memory.filter(|(_, section)| {
        let end = section.address.saturating_add(section.size);
        let mut loads = raw.loads();
        !loads.any(|load| load.address <= section.address && end <= load.memory().end)
    });
    outside
        .map(|(index, _)| format!("section {index} ends outside of its segment"))
        .collect()
}

/// All offsets into the dynamic strings are less than `DT_STRSZ`.
///
/// The loader ignores `DT_STRSZ`. So a file with a larger offset loads if the bytes behind the
/// strings happen to be the right text. After an edit they would not be: only the strings are
/// copied, and not the bytes that follow them.
pub(super) fn string_offsets(
    raw: &RawElf,
    source: &(impl ReadAt + ?Sized),
) -> Result<Vec<String>, ElfError> {
    let Some(size) = raw.value(STRING_SIZE) else {
        return Ok(Vec::new());
    };
    let entries = raw.dynamic.as_deref().unwrap_or_default().iter();
    let tags = entries.filter(|(tag, value)| STRING_TAGS.contains(tag) && *value >= size);
    let mut broken: Vec<String> = tags
        .map(|(tag, value)| format!("the string of dynamic entry {tag:#x} is outside: {value:#x}"))
        .collect();
    for offset in version_names(raw, source)? {
        if offset >= size {
            broken.push(format!(
                "a version name is outside of the dynamic strings: {offset:#x}"
            ));
        }
    }
    Ok(broken)
}

/// The string offsets of the names of all needed and defined versions (`DT_VERNEED`, `DT_VERDEF`).
fn version_names(raw: &RawElf, source: &(impl ReadAt + ?Sized)) -> Result<Vec<u64>, ElfError> {
    let mut names = Vec::new();
    // For each table: its tags (address and number of records). For its records: the size, and the
    // offsets in the record of the name (needed versions only: the library), the number of inner
    // records, the distance to the first of these, and the distance to the next record. For the
    // inner records: the size, and the offsets of the name and of the distance to the next.
    let needed = ((VERNEED, VERNEED + 1), (16, Some(4), 2, 8, 12), (16, 8, 12));
    let defined = ((VERDEF, VERDEF + 1), (20, None, 6, 12, 16), (8, 0, 4));
    for ((table, count), (size, name, below, first, next), (inner_size, inner_name, inner_next)) in
        [needed, defined]
    {
        let count = raw.value(count).unwrap_or(0).min(MAX_VERSIONS);
        let mut address = raw.value(table).filter(|_| count > 0);
        for _ in 0..count {
            let Some(at) = address else { break };
            let record = record(raw, source, at, size)?;
            names.extend(name.map(|name| u64::from(word(&record, name))));
            let mut inner = at.saturating_add(u64::from(word(&record, first)));
            for _ in 0..half(&record, below) {
                let version = self::record(raw, source, inner, inner_size)?;
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

fn record(
    raw: &RawElf,
    source: &(impl ReadAt + ?Sized),
    address: u64,
    size: u64,
) -> Result<[u8; 20], ElfError> {
    let place = raw.place(address, size);
    let place = place.ok_or_else(|| ElfError::damaged("a version is in no segment"))?;
    let mut record = [0; 20];
    let size = usize::try_from(size).unwrap_or(0);
    read_exact_at(source, place, record.get_mut(..size).unwrap_or_default())?;
    Ok(record)
}
