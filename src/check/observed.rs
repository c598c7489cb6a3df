//! What was observed of a place.
//!
//! The form of packages without device wheels keeps `rocm` and the development files of several
//! families in a directory each, `dist/gfx94X-dcgpu`, below what they share.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    parts,
    read::{self, Pass},
};
use crate::{
    check::{self, Comparison, Coverage, Demands, Finding, Inventory, SetFacts},
    console::World,
    error::Result,
    set::{self, Look, SetPlace},
};

/// Every package of a place, and what its pages say.
pub fn facts_of(
    place: &SetPlace,
    look: Look,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<SetFacts> {
    let found = set::find(place, look)?;
    if let Some(version) = &found.chosen {
        world.console.note(format!(
            "the index has several versions, and {version} is the newest: the others are ignored"
        ));
    }
    let pass = match (found.published.is_some(), place.local()) {
        (false, _) => Pass::Portions,
        (true, Some(_)) => Pass::Hashed,
        (true, None) => Pass::Whole,
    };
    let mut set = read::read(&found.packages, pass, jobs, &place.to_string(), world)?;
    set.published = found.published.map(Arc::new);
    Ok(set)
}

/// All that is wrong, and what each library has code for.
pub fn judge(
    set: &SetFacts,
    demands: &Demands,
    inventory: Option<&Inventory>,
) -> (Vec<Finding>, Coverage) {
    let since = inventory.map(|old| Comparison::new(old, &Inventory::of(set)));
    let parts = parts::of(set);
    if let [_] = parts.as_slice() {
        let coverage = Coverage::of(&set.ours());
        let findings = check::findings(set, demands, &coverage, since.as_ref());
        return (findings, coverage);
    }
    let demands = Demands {
        // What one part covers, others need not.
        targets: parts::uncovered(&parts, &demands.targets),
        ..demands.clone()
    };
    let mut coverage = Coverage::default();
    let mut all = Vec::new();
    for part in &parts {
        let own = Coverage::of(&part.set.ours());
        all.push(check::findings_of_part(&part.set, &demands, &own));
        coverage.extend(own, |library| part.name(library));
    }
    let mut findings = parts::together(&parts, &all);
    findings.extend(check::findings_of_all(set, &demands, since.as_ref()));
    check::sort(&mut findings);
    (findings, coverage)
}
