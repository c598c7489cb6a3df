//! What must hold in any file that loads.

use crate::elf::{
    ElfError, ReadAt,
    check::raw::{
        ALLOC, DYNAMIC, EH_FRAME, INTERP, LOAD, NOTE, PHDR, PROPERTY, Raw, STRTAB, Segment, TLS,
        text,
    },
    edit::EditPlan,
};

const PAGE: u64 = 0x1000;
const WRITE: u32 = 2;
const STRING_TABLE: u64 = 5;
const STRING_SIZE: u64 = 10;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
const FLAGS_1: u64 = 0x6fff_fffb;
const PIE: u64 = 0x0800_0000;

/// What the loader cannot do without.
pub(super) fn loading(raw: &Raw) -> Vec<String> {
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
            && one.end() > next.address
        {
            broken.push(format!(
                "segments overlap or descend: {:#x} after {:#x}",
                next.address, one.address
            ));
        }
    }
    broken
}

/// All rules. A rule that is broken reads the same before and after, unless it is another case.
pub(super) fn all(raw: &Raw, source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    let mut broken = loading(raw);
    broken.extend(shared_pages(raw));
    broken.extend(headers(raw));
    broken.extend(dynamic_table(raw));
    broken.extend(strings(raw, source)?);
    broken.extend(inside_segments(raw));
    broken.extend(sections(raw));
    Ok(broken)
}

/// Overlays ascend, do not touch each other, and lie within the file.
pub(super) fn plan(plan: &EditPlan) -> Vec<String> {
    let mut end = 0;
    let mut broken = Vec::new();
    for overlay in plan.overlays() {
        if overlay.offset < end || overlay.end() > plan.source_len() {
            broken.push(format!("changes overlap: at {:#x}", overlay.offset));
        }
        end = overlay.end();
    }
    broken
}

/// The run path reads as wanted, and there is no other.
pub(super) fn run_path(
    raw: &Raw,
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

pub(super) fn is_executable(raw: &Raw) -> bool {
    raw.fixed
        || raw.first(INTERP).is_some()
        || raw.value(FLAGS_1).is_some_and(|flags| flags & PIE != 0)
}

/// The dynamic strings in the file.
pub(super) fn string_place(raw: &Raw) -> Option<(u64, u64)> {
    let size = raw.value(STRING_SIZE)?;
    let start = raw.place(raw.value(STRING_TABLE)?, size)?;
    Some((start, start.saturating_add(size)))
}

/// Kernels from 4.17 to 5.3 refuse to map a page of a program twice.
fn shared_pages(raw: &Raw) -> Vec<String> {
    let loads: Vec<&Segment> = raw.loads().collect();
    let mut broken = Vec::new();
    for pair in loads.windows(2) {
        if let [one, next] = pair
            && one.memory_size > 0
            && one.end().saturating_sub(1) / PAGE == next.address / PAGE
        {
            broken.push(format!("segments share a page: {:#x}", next.address));
        }
    }
    broken
}

pub(super) fn headers(raw: &Raw) -> Vec<String> {
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
        let is_right = named.offset == raw.table
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

fn dynamic_table(raw: &Raw) -> Vec<String> {
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

fn strings(raw: &Raw, source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
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

/// Small segments lie within one that is loaded, as far from it in memory as in the file.
fn inside_segments(raw: &Raw) -> Vec<String> {
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

/// Sections that are loaded agree with their segment; the program headers are nobody's.
fn sections(raw: &Raw) -> Vec<String> {
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
