//! Verifies a plan: compares the file with its patched view, without using any code of the planner.
//!
//! The files are read with `elf::tables` and not with goblin, so that a mistake in the planner's
//! parser cannot hide itself. `rules` holds for every file that loads, and `sameness` compares the
//! two files.

mod rules;
mod sameness;

use derive_more::Deref;

use crate::{
    elf::{
        ReadAt,
        patch::{Patch, PatchedReader},
        tables::{DynamicEntry, ElfTables, last_value},
    },
    error::{Result, bail},
};

/// The headers and the dynamic table of a file. `dynamic` is `None` if there is no table, or if it
/// is not terminated.
#[derive(Deref)]
struct RawElf<'a> {
    #[deref]
    tables: ElfTables<'a>,
    dynamic: Option<Vec<DynamicEntry>>,
}

impl<'a> RawElf<'a> {
    fn read(source: &'a dyn ReadAt) -> Result<Self> {
        let tables = ElfTables::read(source)?;
        let dynamic = tables.dynamic()?;
        Ok(Self { tables, dynamic })
    }

    fn entries(&self) -> &[DynamicEntry] {
        self.dynamic.as_deref().unwrap_or_default()
    }

    fn value(&self, tag: u64) -> Option<u64> {
        last_value(self.entries(), tag)
    }
}

/// An error if the file cannot be loaded even before the edit, or loads only by luck: with strings
/// behind `DT_STRSZ` (see `rules::string_offsets`).
pub(super) fn loadable(source: &dyn ReadAt) -> Result<()> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::string_offsets(&raw)?);
    match broken.into_iter().next() {
        Some(broken) => bail!(broken),
        None => Ok(()),
    }
}

/// The rules that a file breaks. The output of a linker breaks none.
pub fn broken_rules(source: &dyn ReadAt) -> Result<Vec<String>> {
    rules::all(&RawElf::read(source)?)
}

/// The reasons why a kernel or a loader would refuse a program or library; empty if there are none.
pub fn faults(source: &dyn ReadAt) -> Result<Vec<String>> {
    let raw = RawElf::read(source)?;
    let mut broken = rules::loading(&raw);
    broken.extend(rules::headers(&raw));
    broken.extend(rules::segments(&raw)?);
    Ok(broken)
}

/// An error unless the patched file keeps everything that a loader and the usual tools rely on, and
/// has the run path `goal`.
pub(super) fn accept(before: &dyn ReadAt, patch: &Patch, goal: &str) -> Result<()> {
    let after = PatchedReader::new(before, patch.clone());
    let (old, new) = (RawElf::read(before)?, RawElf::read(&after)?);
    let known = rules::all(&old)?;
    let mut broken = rules::all(&new)?;
    // Defects that the file had before are accepted, as long as the edit does not make them worse.
    broken.retain(|rule| !known.contains(rule));
    broken.extend(sameness::segments(&old, &new));
    broken.extend(sameness::small_segments(&old, &new)?);
    broken.extend(sameness::sections(&old, &new)?);
    broken.extend(sameness::dynamic(&old, &new)?);
    broken.extend(sameness::loaded_bytes(&old, &new, patch));
    broken.extend(rules::run_path(&new, goal)?);
    match broken.into_iter().next() {
        Some(rule) => bail!("the changed ELF file would be broken: {rule}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
