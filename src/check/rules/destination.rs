//! Rules about a set and the place of a run to which it goes: both are of the same run, and for the same
//! targets.

use std::collections::BTreeSet;

use crate::{
    check::{
        coverage,
        facts::SetFacts,
        rule::{self, Findings, Rule},
    },
    place::SetPlace,
    run::{RunId, RunPlace},
};
use rocwheel_base::target::{Scope, Target};

/// The rules of this file.
pub(super) const RULES: [&Rule; 3] = [rule::OTHER_RUN, rule::MISSING_IN_GROUP, rule::NOT_OF_GROUP];

/// The place of a run to which a set goes, or where it is.
#[derive(Clone, Debug)]
pub struct Destination {
    place: RunPlace,
    /// The run that the `set.json` of the set names.
    run: Option<RunId>,
}

impl Destination {
    /// `None` if the place is not among the outputs of a run.
    pub fn of(place: &SetPlace, run: Option<RunId>) -> Option<Self> {
        Some(Self { place: place.run_place()?, run })
    }

    /// The same for the run that the `set.json` of a set names, if the set has one.
    pub fn of_set(place: &SetPlace, set: &SetPlace) -> Option<Self> {
        // A place that is not of a run takes any set, so `set.json` need not be read.
        place.run_place()?;
        // Another rule reports a `set.json` that cannot be read.
        let document = set.find_set_json().ok().flatten();
        Self::of(place, document.and_then(|it| it.identity.run_id))
    }
}

pub(super) fn find(set: &SetFacts, destination: &Destination, findings: &mut Findings) {
    let set = &set.ours();
    if set.packages().next().is_none() {
        return;
    }
    let RunPlace { id, platform, group } = &destination.place;
    // A directory of local outputs may have a set of any run, and a local build may be published in any run.
    let is_of_run = |run: &&RunId| !run.is_local() && !id.is_local() && *run != id;
    if let Some(run) = destination.run.as_ref().filter(is_of_run) {
        let fact =
            format!("it was built from run {run}, and `{id}-{platform}` is the place of run {id}");
        findings.of_set(rule::OTHER_RUN, fact);
    }
    let group_targets: BTreeSet<Target> = group
        .scopes()
        .into_iter()
        .filter_map(|scope| match scope {
            Scope::Target(target) => Some(target.base()),
            _ => None,
        })
        .collect();
    // A group for all families has no targets to compare.
    if group_targets.is_empty() {
        return;
    }
    for target in group_targets.iter().filter(|it| !super::targets::covers(set, it)) {
        let fact = format!("it has no packages for `{target}`, which is of `{group}`");
        findings.of_set(rule::MISSING_IN_GROUP, fact);
    }
    for target in coverage::targets(set).iter().filter(|it| !group_targets.contains(&it.base())) {
        let fact = format!("it has packages for `{target}`, which is not of `{group}`");
        findings.of_set(rule::NOT_OF_GROUP, fact);
    }
}
