//! Plans how a file gets its run path. Reads the headers, and writes nothing.
//!
//! The existing bytes of the file never move. `draft` appends the new strings, and
//! `segment_placement` chooses the segment that maps them into memory. `check` verifies every plan
//! before it is returned. See [Dynamic Linking] in the gABI.
//!
//! [Dynamic Linking]: https://www.sco.com/developers/gabi/latest/ch5.dynamic.html

mod block;
mod draft;
mod headers;
mod moved_tables;
mod parts;
mod segment_placement;
mod table;
mod tail;

use goblin::elf::{
    dynamic::{DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME},
    header::{ET_DYN, ET_EXEC},
    program_header::PT_INTERP,
};

use crate::elf::{
    ElfError, ReadAt, Rpath, check,
    edit::{EditPlan, Strategy, Untouchable},
    facts::{Machine, machine},
    image::ElfImage,
    plan::{draft::PlanDraft, parts::ElfParts, table::DynamicTable},
};

/// Plans the edit after which `goal` is the only run path of the file, as `DT_RPATH`.
///
/// The plan changes nothing ([`Strategy::Nothing`]) if the file already has that run path, and
/// ([`Strategy::Skip`]) if it is a file that must not have one.
pub fn plan_rpath(source: &(impl ReadAt + ?Sized), goal: &Rpath) -> Result<EditPlan, ElfError> {
    let nothing = |strategy| Ok(EditPlan::nothing(source.len(), strategy));
    let Some(image) = ElfImage::read(source)? else {
        return nothing(Strategy::Skip(Untouchable::NotElf));
    };
    if let Some(reason) = foreign(&image) {
        return nothing(Strategy::Skip(reason));
    }
    let sections = image.sections()?;
    if image.is_debug_only(&sections) {
        return nothing(Strategy::Skip(Untouchable::DebugOnly));
    }
    let Some(table) = DynamicTable::read(&image)? else {
        return nothing(Strategy::Skip(Untouchable::Static));
    };
    let parts = ElfParts::new(image, sections, table)?;
    if let Some(reason) = untouchable(&parts)? {
        return nothing(Strategy::Skip(reason));
    }
    let goal = goal.to_string();
    if is_reached(&parts, &goal)? {
        return nothing(Strategy::Nothing);
    }
    check::loadable(source)?;
    let plan = change(parts, &goal)?;
    check::accept(source, &plan.patch, &goal)?;
    Ok(plan)
}

/// Refuses object files, core dumps and files for another machine.
fn foreign<R: ReadAt + ?Sized>(image: &ElfImage<'_, R>) -> Option<Untouchable> {
    if !matches!(image.header.e_type, ET_DYN | ET_EXEC) {
        return Some(Untouchable::NotLinked);
    }
    (machine(image) != Machine::X86_64).then_some(Untouchable::ForeignMachine)
}

/// Refuses programs and libraries that must not get a run path, or have no use for one.
fn untouchable<R: ReadAt + ?Sized>(
    parts: &ElfParts<'_, R>,
) -> Result<Option<Untouchable>, ElfError> {
    let table = &parts.table;
    let asks_for_loader = parts.image.segment(PT_INTERP).is_some();
    let pie = table
        .last(DT_FLAGS_1)
        .is_some_and(|flags| flags & DF_1_PIE != 0);
    if !asks_for_loader && parts.image.header.e_type == ET_EXEC {
        return Ok(Some(Untouchable::Static));
    }
    // The startup code of a static-PIE program is glibc's own loader, which asserts that there is
    // no run path. The program would not start.
    if !asks_for_loader && pie {
        return Ok(Some(Untouchable::StaticPie));
    }
    if let Some(name) = table.last(DT_SONAME) {
        let name = parts.string(name)?;
        if name.starts_with(b"ld-linux") || name.starts_with(b"ld-musl") {
            return Ok(Some(Untouchable::Loader));
        }
    }
    let has_any = |tags: &[u64]| tags.iter().any(|tag| table.last(*tag).is_some());
    let works = has_any(&[DT_NEEDED, DT_RPATH, DT_RUNPATH]);
    Ok((!works).then_some(Untouchable::NeedsNothing))
}

/// Whether the file already has `goal` as its only `DT_RPATH`.
fn is_reached<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, goal: &str) -> Result<bool, ElfError> {
    match parts.table.run_paths().as_slice() {
        [] => Ok(goal.is_empty()),
        [only] if only.tag == DT_RPATH => Ok(parts.string(only.value)? == goal.as_bytes()),
        _ => Ok(false),
    }
}

/// Plans the edit. If the wanted text is already among the strings of the file, or no run path is
/// wanted, it is enough to rewrite the dynamic table; otherwise strings are appended.
///
/// An old string is never overwritten by a shorter one: linkers merge strings with a common end, so
/// a symbol name may be the end of the old run path.
fn change<R: ReadAt + ?Sized>(parts: ElfParts<'_, R>, goal: &str) -> Result<EditPlan, ElfError> {
    let source_len = parts.len;
    let known = if goal.is_empty() {
        Some(None)
    } else {
        parts.run_path_that_is(goal)?.map(Some)
    };
    if let Some(place) = known {
        let overlay = parts.table.overlay(&parts.table.with_run_path(place));
        return EditPlan::new(source_len, vec![overlay], Vec::new(), Strategy::Retag);
    }
    PlanDraft::new(parts, goal)?.finish()
}

#[cfg(test)]
mod tests;
