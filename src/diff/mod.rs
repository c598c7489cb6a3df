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
    difference::{Difference, FileChange, LineChange, PackageChange},
    text::{changed_size, file_notes},
};
use crate::{console::World, index::SetJson, place::SetPlace};
use rocwheel_base::error::{Result, one_line};

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

/// Compares the packages of two sets by their `set.json`. Each document stands behind the place that it
/// was read from.
pub(crate) fn compare_documents(
    (before_place, before): (&str, &SetJson),
    (after_place, after): (&str, &SetJson),
) -> Difference {
    let before = ObservedSet::described(before_place, before);
    let after = ObservedSet::described(after_place, after);
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
    /// What changed in a set since the baseline. If only the `set.json` of the baseline is known, only
    /// packages are compared, and no files. A summary is written of damaged sets, too: it passes the
    /// `set.json` of the later set, which is compared if the packages of that set cannot be read.
    pub fn changes(
        &self,
        set: &SetPlace,
        document: Option<&SetJson>,
        world: &World,
    ) -> Result<Difference> {
        let (earlier_place, earlier) = match self {
            Self::Document(file, earlier) => (file.clone(), earlier),
            Self::Place(place, earlier) => {
                let compared = compare(place, set, World::jobs(), world);
                let (Err(error), Some(earlier)) = (&compared, earlier) else {
                    return compared;
                };
                // After Ctrl-C the packages are unread because the user wants to stop. The documents must
                // not be compared instead.
                world.stop.check()?;
                let why = one_line(error);
                world.console.note(format!("only packages are compared, by `set.json`: {why}"));
                (place.to_string(), earlier)
            }
        };
        if let Some(document) = document {
            let after_place = set.to_string();
            return Ok(compare_documents((&earlier_place, earlier), (&after_place, document)));
        }
        let before = ObservedSet::described(&earlier_place, earlier);
        let after = ObservedSet::read(set, World::jobs(), world)?;
        Ok(Difference::between(before, after))
    }
}
