//! Compares two package sets: sizes, files, libraries, device code and metadata. It reports, and
//! judges nothing; `check --baseline` does. `docs/diff.md` shows an example.
//!
//! `choose` picks the packages, `observe` reads both sets in the same way, `matching` finds the files
//! that differ, `contents` says what differs in them, and `difference` puts it together. Only `choose`
//! and `observe` read anything.

mod baseline;
mod choose;
mod contents;
mod difference;
mod fold;
mod matching;
mod observe;
mod text;

use std::num::NonZeroUsize;

use serde::Serialize;

pub use self::{
    baseline::Baseline,
    contents::{CodeChange, LibraryChange, LineChange, ListChange},
    difference::{ComparedSet, Difference, FileChange, PackageChange, PackageWeight, SizeChange},
    matching::{FileFate, FilePlace},
    text::{DifferenceText, changed_size, file_notes, library_facts},
};
use self::{matching::ComparedSets, observe::ObservedSet};
use crate::{
    console::World,
    error::Result,
    set::{SetJson, SetPlace},
};

/// How far files are compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum, strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DiffDepth {
    /// Size and digest of each package, of sets that are known by their `set.json` alone.
    #[value(skip)]
    Packages,
    /// Size and digest of each file, and the texts about a package
    Files,
    /// Also the symbols and the headers of libraries that differ, and the development files
    Elf,
    /// Also the code objects in archives and libraries that differ
    Code,
}

/// Compares two sets. Without a depth, only files if one of the sets is not on this machine.
pub fn compare(
    (before, after): (&SetPlace, &SetPlace),
    depth: Option<DiffDepth>,
    is_exact: bool,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Difference> {
    let is_near = before.local().is_some() && after.local().is_some();
    let default = if is_near {
        DiffDepth::Elf
    } else {
        DiffDepth::Files
    };
    let depth = depth.unwrap_or(default);
    let mut before = ObservedSet::read(before, jobs, world)?;
    let mut after = ObservedSet::read(after, jobs, world)?;
    let sets = ComparedSets {
        before: &before,
        after: &after,
        is_exact,
    };
    let (of_before, of_after) = matching::wanted(&sets.files(), depth);
    before.read_members(&of_before, jobs, world)?;
    after.read_members(&of_after, jobs, world)?;
    let sets = ComparedSets {
        before: &before,
        after: &after,
        is_exact,
    };
    Ok(Difference::of(&sets, depth))
}

/// Compares the packages of two sets by their `set.json`. Each has the place that it was read from.
pub(crate) fn compare_documents(before: (&str, &SetJson), after: (&str, &SetJson)) -> Difference {
    let (before, after) = (
        ObservedSet::described(before.0, before.1),
        ObservedSet::described(after.0, after.1),
    );
    let sets = ComparedSets {
        before: &before,
        after: &after,
        is_exact: false,
    };
    Difference::of(&sets, DiffDepth::Packages)
}
