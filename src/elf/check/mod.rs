//! Looks at a file before and after a change, and knows nothing of how the change was made.
//!
//! What is read here is parsed here: a mistake in the parsers of planning cannot hide itself.

mod raw;
mod rules;
mod sameness;
mod segments;

use crate::elf::{
    ElfError, ReadAt,
    check::raw::RawElf,
    patch::{Patch, PatchedReader},
};

/// An error when the file could not be loaded even without a change, or loads by luck alone.
pub(super) fn loadable(source: &(impl ReadAt + ?Sized)) -> Result<(), ElfError> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::string_offsets(&raw, source)?);
    match broken.into_iter().next() {
        Some(broken) => Err(ElfError::Damaged(broken)),
        None => Ok(()),
    }
}

/// The rules of a file that loads which this one breaks. What linkers make breaks none.
pub fn broken_rules(source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    rules::all(&RawElf::read(source)?, source)
}

/// What a loader or a kernel refuses in a file that is meant to be loaded: nothing, if it is sound.
pub fn faults(source: &(impl ReadAt + ?Sized)) -> Result<Vec<String>, ElfError> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::headers(&raw));
    broken.extend(segments::broken(&raw, source)?);
    Ok(broken)
}

/// An error unless the change keeps everything that a loader and the usual tools rely on, and the
/// run path is `goal` afterwards.
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
    // What was so before is not made worse, and not ours to refuse.
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
