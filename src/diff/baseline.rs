//! [`Baseline`]: the set that a summary compares another one with.

use super::{DiffDepth, Difference, compare, compare_documents};
use crate::{
    console::World,
    error::{Result, one_line},
    set::{SetJson, SetPlace},
};

/// An earlier set.
#[derive(Debug)]
pub enum Baseline {
    /// Only its `set.json`, and the file that this was read from.
    Document(String, SetJson),
    /// Its packages, and its `set.json` if it has one.
    Place(SetPlace, Option<SetJson>),
}

impl Baseline {
    /// What changed in a set since then. Without the packages of both sets, this is what their
    /// `set.json` say about packages: a summary is written of damaged sets, too.
    pub fn changes(
        &self,
        (set, document): (&SetPlace, &SetJson),
        world: &World,
    ) -> Result<Difference> {
        let (before, earlier) = match self {
            Self::Document(file, earlier) => (file.clone(), earlier),
            Self::Place(before, earlier) => {
                let depth = Some(DiffDepth::Files);
                match (
                    compare((before, set), depth, false, World::jobs(), world),
                    earlier,
                ) {
                    (Err(error), Some(earlier)) => {
                        world.stop.check()?;
                        let why = one_line(&error);
                        world
                            .console
                            .note(format!("only packages are compared, by `set.json`: {why}"));
                        (before.to_string(), earlier)
                    }
                    (compared, _) => return compared,
                }
            }
        };
        Ok(compare_documents(
            (&before, earlier),
            (&set.to_string(), document),
        ))
    }
}
