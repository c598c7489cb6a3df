//! Verifies a plan: compares the file with its patched view, without using any code of the planner.
//!
//! This module also has its own parser (`raw`), so that a mistake in the planner's parser cannot
//! hide itself. `rules` holds for every file that loads, `sameness` compares the two files, and
//! `segments` finds defects of finished packages for `rocwheel check`.

mod raw;
mod rules;
mod sameness;
mod segments;

use crate::elf::{
    ElfError, ReadAt,
    check::raw::RawElf,
    patch::{Patch, PatchedReader},
};

/// An error if the file cannot be loaded even before the edit, or loads only by luck: with strings
/// behind `DT_STRSZ` (see `rules::string_offsets`).
pub(super) fn loadable(source: &(impl ReadAt + ?Sized)) -> Result<(), ElfError> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::string_offsets(&raw, source)?);
    match broken.into_iter().next() {
        Some(broken) => Err(ElfError::Damaged(broken)),
        None => Ok(()),
    }
}

/// The rules that a file breaks. The output of a linker breaks none.
pub fn broken_rules(source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    rules::all(&RawElf::read(source)?, source)
}

/// The reasons why a kernel or a loader would refuse a program or library; empty if there are none.
pub fn faults(source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::headers(&raw));
    broken.extend(segments::broken(&raw, source)?);
    Ok(broken)
}

/// An error unless the patched file keeps everything that a loader and the usual tools rely on, and
/// has the run path `goal`.
pub(super) fn accept<R: ReadAt + ?Sized>(
    before: &R,
    patch: &Patch,
    goal: &str,
) -> Result<(), ElfError> {
    let after = &PatchedReader::new(before, patch.clone());
    let old = RawElf::read(before)?;
    let new = RawElf::read(after)?;
    let known = rules::all(&old, before)?;
    let mut broken = rules::all(&new, after)?;
    // Defects that the file had before are accepted, as long as the edit does not make them worse.
    broken.retain(|rule| !known.contains(rule));
    broken.extend(sameness::segments(&old, &new));
    broken.extend(sameness::small_segments(&old, &new, before, after)?);
    broken.extend(sameness::sections(&old, &new, before, after)?);
    broken.extend(sameness::dynamic(&old, &new, before, after)?);
    broken.extend(sameness::loaded_bytes(&old, &new, patch));
    broken.extend(rules::run_path(&new, after, goal)?);
    match broken.into_iter().next() {
        Some(rule) => Err(ElfError::Broken(rule)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
