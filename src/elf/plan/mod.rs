//! Plans how a file gets its run path. Looks at headers and writes nothing.
//!
//! The file's bytes stay where they are. New strings go behind its end, and the ladder in `segment_placement`
//! finds the segment that brings them into memory. `check` looks at every plan before it is used.

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

/// Plans the change after which the file has the run path `goal`, as its only `DT_RPATH`.
///
/// The plan is empty when the file is so already, and when it is none that has a run path.
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

fn foreign<R: ReadAt + ?Sized>(image: &ElfImage<'_, R>) -> Option<Untouchable> {
    if !matches!(image.header.e_type, ET_DYN | ET_EXEC) {
        return Some(Untouchable::NotLinked);
    }
    (machine(image) != Machine::X86_64).then_some(Untouchable::ForeignMachine)
}

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

fn is_reached<R: ReadAt + ?Sized>(parts: &ElfParts<'_, R>, goal: &str) -> Result<bool, ElfError> {
    match parts.table.run_paths().as_slice() {
        [] => Ok(goal.is_empty()),
        [only] if only.tag == DT_RPATH => Ok(parts.string(only.value)? == goal.as_bytes()),
        _ => Ok(false),
    }
}

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
