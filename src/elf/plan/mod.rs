//! Plans how a file gets its run path. Reads the headers, and writes nothing.
//!
//! The existing bytes of the file never move. `draft` appends the new strings, and `room` chooses
//! the segment that maps them into memory. `check` verifies every plan before it is returned. See
//! [Dynamic Linking] in the gABI.
//!
//! [Dynamic Linking]: https://www.sco.com/developers/gabi/latest/ch5.dynamic.html

mod block;
mod draft;
mod parts;
mod room;

use goblin::elf::{
    dynamic::{DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME},
    header::{ET_DYN, ET_EXEC},
    program_header::{PT_DYNAMIC, PT_INTERP},
};

use crate::{
    elf::{
        Patch, ReadAt, Rpath, check,
        facts::{Machine, machine},
        image::ElfImage,
        plan::{draft::PlanDraft, parts::ElfParts},
        tables::last_value,
    },
    error::Result,
};

/// The edit after which a file has the wanted run path. The patch overwrites some bytes in place and
/// appends others. All other bytes keep their offsets.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Deref, derive_more::Into)]
pub struct EditPlan {
    #[deref]
    patch: Patch,
    #[into(skip)]
    pub strategy: Strategy,
}

/// How the file gets room for a run path, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The file already has the wanted run path.
    Nothing,
    /// The file must not have a run path, or has no use for one. It stays unchanged.
    Skip(Untouchable),
    /// The file already contains the text, or no run path is wanted. Only the dynamic table
    /// changes.
    Retag,
    /// The last segment ends where the file ends, and grows.
    Extend,
    /// The program header table has room for one more segment.
    Slot,
    /// The sections behind the program header table move to the end, to make room for one more
    /// segment.
    Evict,
    /// The program header table moves to the end.
    Relocate,
}

/// Why a file is not edited.
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
pub enum Untouchable {
    #[display("not an ELF file")]
    NotElf,
    /// A relocatable object or a core dump.
    #[display("neither an executable nor a shared object")]
    NotLinked,
    /// Not for 64-bit little-endian x86-64: for example a device code object.
    #[display("not for x86-64")]
    ForeignMachine,
    /// It has no dynamic table, or is a program without a dynamic loader (`PT_INTERP`).
    #[display("statically linked")]
    Static,
    /// It has only the debug information of another file.
    #[display("debug information alone")]
    DebugOnly,
    /// A static position-independent program. The C library refuses to start it with a run path.
    #[display("statically linked, position independent")]
    StaticPie,
    /// The dynamic loader itself.
    #[display("the dynamic loader")]
    Loader,
    /// It needs no library and has no run path.
    #[display("needs no library and has no run path")]
    NeedsNothing,
}

/// Plans the edit after which `goal` is the only run path of the file, as `DT_RPATH`.
///
/// The plan changes nothing ([`Strategy::Nothing`]) if the file already has that run path, and
/// ([`Strategy::Skip`]) if it is a file that must not have one.
pub fn plan_rpath(source: &dyn ReadAt, goal: &Rpath) -> Result<EditPlan> {
    let unchanged = |strategy| {
        let patch = Patch::nothing(source.len());
        Ok(EditPlan { patch, strategy })
    };
    let skip = |reason| unchanged(Strategy::Skip(reason));
    let Some(image) = ElfImage::read(source)? else {
        return skip(Untouchable::NotElf);
    };
    if !matches!(image.header.e_type, ET_DYN | ET_EXEC) {
        return skip(Untouchable::NotLinked);
    }
    if machine(&image) != Machine::X86_64 {
        return skip(Untouchable::ForeignMachine);
    }
    let image = image.with_sections()?;
    if image.is_debug_only() {
        return skip(Untouchable::DebugOnly);
    }
    if image.first(PT_DYNAMIC).is_none() {
        return skip(Untouchable::Static);
    }
    let parts = ElfParts::new(image)?;
    if let Some(reason) = untouchable(&parts)? {
        return skip(reason);
    }
    let goal = goal.to_string();
    let run_paths: Vec<_> = parts.run_paths().collect();
    let is_reached = match run_paths.as_slice() {
        [] => goal.is_empty(),
        [only] if only.tag == DT_RPATH => parts.string(only.value)? == goal.as_bytes(),
        _ => false,
    };
    if is_reached {
        return unchanged(Strategy::Nothing);
    }
    check::loadable(source)?;
    let plan = change(&parts, &goal)?;
    check::accept(source, &plan.patch, &goal)?;
    Ok(plan)
}

/// Refuses programs and libraries that must not get a run path, or have no use for one.
fn untouchable(parts: &ElfParts<'_>) -> Result<Option<Untouchable>> {
    let last = |tag| last_value(&parts.entries, tag);
    if parts.first(PT_INTERP).is_none() {
        if parts.is_fixed() {
            return Ok(Some(Untouchable::Static));
        }
        // The startup code of a static-PIE program is glibc's own loader, which asserts that there
        // is no run path. The program would not start.
        if last(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0) {
            return Ok(Some(Untouchable::StaticPie));
        }
    }
    if let Some(name) = last(DT_SONAME) {
        let name = parts.string(name)?;
        if name.starts_with(b"ld-linux") || name.starts_with(b"ld-musl") {
            return Ok(Some(Untouchable::Loader));
        }
    }
    let works = [DT_NEEDED, DT_RPATH, DT_RUNPATH].map(last) != [None; 3];
    Ok((!works).then_some(Untouchable::NeedsNothing))
}

/// Plans the edit. If the wanted text is already among the strings of the file, or no run path is
/// wanted, it is enough to rewrite the dynamic table; otherwise strings are appended.
///
/// An old string is never overwritten by a shorter one: linkers merge strings with a common end, so
/// a symbol name may be the end of the old run path.
fn change(parts: &ElfParts<'_>, goal: &str) -> Result<EditPlan> {
    let mut place = None;
    for entry in parts.run_paths() {
        if place.is_none() && parts.string(entry.value)? == goal.as_bytes() {
            place = Some(entry.value);
        }
    }
    if place.is_none() && !goal.is_empty() {
        return PlanDraft::new(parts, goal)?.finish();
    }
    let place = place.filter(|_| !goal.is_empty());
    let overlay = parts.overlay(&parts.with_run_path(place));
    Ok(EditPlan {
        patch: Patch::new(parts.len(), parts.len(), vec![overlay], Vec::new())?,
        strategy: Strategy::Retag,
    })
}

#[cfg(test)]
mod tests;
