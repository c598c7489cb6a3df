//! Reads the facts of a set at a place ([`facts_of`]), and applies the rules to them ([`judge`]).
//!
//! A legacy set, without device wheels, may be for several families. Then each family has a
//! directory with its `rocm` sdist and development files, `dist/gfx94X-dcgpu`, below the common
//! packages.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    parts,
    read::{self, Pass},
    rules,
};
use crate::{
    check::{CheckOptions, Comparison, Coverage, Finding, PackageInventory, Report, SetFacts},
    console::World,
    error::Result,
    set::{self, PlaceDepth, SetPlace},
};

/// The facts of every package of a place, and of its pages.
pub fn facts_of(
    place: &SetPlace,
    look: PlaceDepth,
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

/// The report, and the entries of the accept list that accepted nothing.
pub struct Judged {
    pub report: Report,
    pub unused: Vec<String>,
}

/// Applies the rules to a set. `differences` are the findings from comparing it with a plan.
pub fn judge(
    set: &SetFacts,
    options: &CheckOptions,
    inventory: Option<&PackageInventory>,
    differences: Vec<Finding>,
) -> Judged {
    let since = inventory.map(|old| Comparison::new(old, &PackageInventory::of(set)));
    let (mut findings, coverage) = within(set, options, since.as_ref());
    let has_plan = !differences.is_empty();
    findings.extend(differences);
    rules::sort(&mut findings);
    findings.retain(|finding| options.asks(finding.rule));
    let accepted = options.accept.apply(&mut findings, &options.today, |rule| {
        let is_there = match rule.subject() {
            '7' => set.published.is_some(),
            '8' => since.is_some(),
            '9' => has_plan,
            _ => true,
        };
        is_there && options.asks(rule)
    });
    let mut report = Report::new(set.len(), findings, coverage);
    report.accepted = accepted.findings;
    Judged {
        report,
        unused: accepted.unused,
    }
}

/// The findings of all rules, and the coverage. Parts of a set are checked one by one.
fn within(
    set: &SetFacts,
    options: &CheckOptions,
    since: Option<&Comparison>,
) -> (Vec<Finding>, Coverage) {
    let parts = parts::of(set);
    let of_all = rules::findings_of_all(set, options, since);
    if let [_] = parts.as_slice() {
        let coverage = Coverage::of(&set.ours());
        let mut findings = rules::findings(set, options, &coverage);
        findings.extend(of_all);
        rules::leave_out_followers(&mut findings);
        return (findings, coverage);
    }
    let options = CheckOptions {
        // A target that one part covers need not be in the others.
        targets: parts::uncovered(&parts, &options.targets),
        ..options.clone()
    };
    let mut coverage = Coverage::default();
    let mut all = Vec::new();
    for part in &parts {
        let own = Coverage::of(&part.set.ours());
        let mut findings = rules::findings(&part.set, &options, &own);
        rules::leave_out_followers(&mut findings);
        all.push(findings);
        coverage.extend(own, |library| part.name(library));
    }
    let mut findings = parts::together(&parts, &all);
    findings.extend(of_all);
    (findings, coverage)
}
