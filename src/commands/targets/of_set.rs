//! `targets --of`: the targets of package sets, and those that all their libraries have in common.

use std::{collections::BTreeMap, path::PathBuf};

use itertools::Itertools as _;

use super::{TargetsArgs, World};
use crate::{
    check::{self, Coverage},
    console::{Console, few},
    error::{No, Result},
    set::PlaceDepth,
    target::Target,
};

#[derive(Debug, clap::Args)]
pub(super) struct OfSetArgs {
    /// Targets that a package set covers: a directory, `s3://bucket/directory`, or URL
    #[arg(long, value_name = "SET", num_args = 1..)]
    pub(super) of: Vec<PathBuf>,
    /// Only targets for which every library of the set has code, as far as it is built for them
    #[arg(long, requires = "of")]
    pub(super) common: bool,
    /// Say which libraries lack code for the other targets
    #[arg(long, requires = "common")]
    pub(super) explain: bool,
}

/// The targets of a set.
#[derive(Debug)]
pub(super) struct CommonTargets {
    all: Vec<Target>,
    common: Vec<Target>,
    /// The libraries that lack code for each of the other targets.
    pub(super) lacking: BTreeMap<Target, Vec<String>>,
}

impl TargetsArgs {
    /// The coverage of all sets together.
    pub(super) fn coverage(&self, world: &World) -> Result<Coverage> {
        let mut coverage = Coverage::default();
        for place in &self.set.of {
            let opened = self.access.place(place, &world.stop)?;
            let jobs = self.jobs.count();
            let facts = check::facts_of(&opened, PlaceDepth::Pages, jobs, world)?;
            coverage.extend(Coverage::of(&facts), "");
        }
        Ok(coverage)
    }
}

impl CommonTargets {
    pub(super) fn of(coverage: &Coverage) -> Self {
        let targets = coverage.targets.iter();
        let all: Vec<Target> = targets.filter_map(|it| it.parse().ok()).collect();
        let lacking = |target: &Target| coverage.lacking(target);
        let (common, others): (Vec<Target>, Vec<Target>) =
            all.iter().cloned().partition(|it| lacking(it).is_empty());
        let names = |it: &Target| lacking(it).into_iter().map(str::to_owned).collect();
        Self {
            lacking: others
                .into_iter()
                .map(|it| (it.clone(), names(&it)))
                .collect(),
            all,
            common,
        }
    }

    pub(super) fn chosen(&self, is_common: bool) -> Vec<Target> {
        if is_common {
            self.common.clone()
        } else {
            self.all.clone()
        }
    }

    pub(super) fn explain(&self, console: &Console) {
        for (target, libraries) in &self.lacking {
            let libraries = libraries.iter().join(", ");
            console.note(format!(
                "{target} is not common: {libraries} have no code for it"
            ));
        }
    }

    /// Fails if there is no target.
    pub(super) fn verdict(&self, chosen: &[Target]) -> Result<()> {
        if !chosen.is_empty() {
            return Ok(());
        }
        if self.all.is_empty() {
            return Err(No("the set has code for no target".to_owned()).into());
        }
        let lacking = self.lacking.iter().map(|(target, libraries)| {
            format!("{target} lacks {}", few(libraries.iter().cloned()))
        });
        let text = format!(
            "no target has the code of every library: {}",
            lacking.format("; ")
        );
        Err(No(text).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{message, render};

    /// Libraries, each with its targets.
    fn common(rows: &[(&str, &str)]) -> CommonTargets {
        let mut coverage = Coverage::default();
        for (library, targets) in rows {
            let targets = targets.split_whitespace().map(str::to_owned);
            let row = targets
                .clone()
                .map(|it| (it, check::coverage::Cell::default()));
            coverage
                .libraries
                .insert((*library).to_owned(), row.collect());
            coverage.targets.extend(targets);
        }
        coverage.targets.sort();
        coverage.targets.dedup();
        CommonTargets::of(&coverage)
    }

    #[test]
    fn a_target_is_common_if_every_library_that_is_built_for_it_has_code() {
        let rows = [
            ("librocblas.so.5", "gfx1030 gfx1100 gfx1103 gfx942"),
            ("libhipblaslt.so.1", "gfx1100 gfx942"),
            ("librccl.so.1", "gfx1030 gfx1100 gfx942"),
            ("librocsparse.so.1", "gfx1030 gfx1103 gfx942"),
        ];
        let found = common(&rows);
        assert_eq!(found.chosen(true).iter().join(" "), "gfx1030 gfx942");
        assert_eq!(found.chosen(false).len(), 4);
        insta::assert_snapshot!(format!("{:?}", found.lacking), @r#"{Target("gfx1100"): ["librocsparse.so.1"], Target("gfx1103"): ["libhipblaslt.so.1"]}"#);
    }

    #[test]
    fn without_a_common_target_the_refusal_names_what_lacks_code() {
        let found = common(&[("liba.so", "gfx942"), ("libb.so", "gfx1100")]);
        let refusal = found.verdict(&found.chosen(true)).unwrap_err();
        insta::assert_snapshot!(render(&refusal), @"error: no target has the code of every library: gfx1100 lacks liba.so; gfx942 lacks libb.so");
        let empty = common(&[]);
        let refusal = empty.verdict(&empty.chosen(false)).unwrap_err();
        assert_eq!(message(&refusal), "the set has code for no target");
    }
}
