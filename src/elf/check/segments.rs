//! Finds segments of a program or library that the kernel or the dynamic loader would refuse.

use crate::elf::{
    ElfError, ReadAt,
    check::{
        raw::{RawElf, text},
        rules::{dynamic_table, is_executable},
    },
    tables::{ALLOC, DYNAMIC, EXECUTE, INTERP, SECTION_EXECUTE, Segment, TLS},
};

const SECTION_DYNAMIC: u32 = 6;
/// The kernel refuses longer paths (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;

pub(super) fn broken(
    raw: &RawElf,
    source: &(impl ReadAt + ?Sized),
) -> Result<Vec<String>, ElfError> {
    let mut broken = Vec::new();
    let has_table = raw.sections.iter().any(|it| it.kind == SECTION_DYNAMIC);
    if raw.first(DYNAMIC).is_some() || has_table {
        // Some linkers put the table at the end of the file or make it read-only. Both load.
        let harmless = [
            "the dynamic table ends with the file",
            "the dynamic table is in a segment that is read-only",
        ];
        let found = dynamic_table(raw).into_iter();
        broken.extend(found.filter(|fact| !harmless.contains(&fact.as_str())));
    }
    if let Some(place) = raw.first(INTERP) {
        broken.extend(interpreter(raw, place, source)?);
    }
    if let Some(place) = raw
        .first(TLS)
        .filter(|it| it.file_size > 0 && !is_loaded(raw, it))
    {
        broken.push(format!("`PT_TLS` is in no segment: {:#x}", place.address));
    }
    broken.extend(code(raw));
    Ok(broken)
}

fn is_loaded(raw: &RawElf, segment: &Segment) -> bool {
    let mut loads = raw.loads();
    loads.any(|load| load.covers(&segment.file()) && load.bias() == segment.bias())
}

/// `PT_INTERP` must be an absolute path, and loaded: the kernel reads it from the file, and the
/// loader from memory.
fn interpreter(
    raw: &RawElf,
    place: &Segment,
    source: &(impl ReadAt + ?Sized),
) -> Result<Option<String>, ElfError> {
    if !is_loaded(raw, place) || place.file_size > LONGEST_PATH {
        return Ok(Some("`PT_INTERP` is in no segment".to_owned()));
    }
    let path = text(source, place.offset, place.file().end)?;
    let is_path = path.is_some_and(|path| path.starts_with(b"/"));
    Ok((!is_path).then(|| "`PT_INTERP` is not the path of a loader".to_owned()))
}

/// The entry point of a program and all sections with code lie in executable segments.
fn code(raw: &RawElf) -> Option<String> {
    let runs = |address: u64| {
        let mut loads = raw.loads();
        loads.any(|it| it.flags & EXECUTE != 0 && it.memory().contains(&address))
    };
    let entry = raw.entry();
    // Libraries have an entry point too, but no loader uses it.
    if is_executable(raw) && !runs(entry) {
        return Some(format!("it begins at {entry:#x}, where no code can run"));
    }
    let sections = raw.sections.iter();
    let mut code = sections.filter(|it| it.flags & SECTION_EXECUTE != 0 && it.flags & ALLOC != 0);
    let stuck = code.find(|it| it.size > 0 && !runs(it.address))?;
    Some(format!(
        "the code at {:#x} is in no segment that can be run",
        stuck.address
    ))
}
