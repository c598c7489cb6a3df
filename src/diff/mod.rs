//! Compares two package sets: packages, files, sizes and metadata. It reports, and judges nothing;
//! `check --baseline` does. `docs/diff.md` shows an example.
//!
//! `choose` picks the packages, and `observe` reads the ends of both sets in the same way; only these
//! two read anything. `difference` says what differs, and `text` shows it.

mod choose;
mod difference;
mod fold;
mod observe;
mod text;

use std::num::NonZeroUsize;

use self::observe::ObservedSet;
pub use self::{
    difference::{ComparedSet, Difference, FileChange, FileFate, LineChange, PackageChange},
    text::{changed_size, file_notes},
};
use crate::{
    console::World,
    error::{Result, one_line},
    index::SetJson,
    place::SetPlace,
};

/// Compares two sets. The versions of the sets do not count as differences.
pub fn compare(
    before: &SetPlace,
    after: &SetPlace,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Difference> {
    let before = ObservedSet::read(before, jobs, world)?;
    let after = ObservedSet::read(after, jobs, world)?;
    Ok(Difference::between(before, after))
}

/// Compares the packages of two sets by their `set.json`. Each has the place that it was read from.
pub(crate) fn compare_documents(before: (&str, &SetJson), after: (&str, &SetJson)) -> Difference {
    let (before, after) =
        (ObservedSet::described(before.0, before.1), ObservedSet::described(after.0, after.1));
    Difference::between(before, after)
}

/// An earlier set, which a summary or a check compares another one with.
#[derive(Debug)]
pub enum Baseline {
    /// Only its `set.json`, and the file that this was read from.
    Document(String, SetJson),
    /// Its packages, and its `set.json` if it has one.
    Place(SetPlace, Option<SetJson>),
}

impl Baseline {
    /// What changed in a set since then. Without the packages of the earlier set, this is what its
    /// `set.json` says about packages. A summary is written of damaged sets, too: it passes the `set.json`
    /// of the later one, which is compared if its packages cannot be.
    pub fn changes(
        &self,
        set: &SetPlace,
        document: Option<&SetJson>,
        world: &World,
    ) -> Result<Difference> {
        let (before, earlier) = match self {
            Self::Document(file, earlier) => (file.clone(), earlier),
            Self::Place(before, earlier) => {
                let compared = compare(before, set, World::jobs(), world);
                let (Err(error), Some(earlier)) = (&compared, earlier) else {
                    return compared;
                };
                world.stop.check()?;
                let why = one_line(error);
                world.console.note(format!("only packages are compared, by `set.json`: {why}"));
                (before.to_string(), earlier)
            }
        };
        if let Some(document) = document {
            return Ok(compare_documents((&before, earlier), (&set.to_string(), document)));
        }
        let before = ObservedSet::described(&before, earlier);
        let after = ObservedSet::read(set, World::jobs(), world)?;
        Ok(Difference::between(before, after))
    }
}
