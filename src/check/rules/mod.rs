//! The rules at work: facts in, findings out, one file for each subject.

mod baseline;
mod clean;
mod complete;
mod consequences;
mod devel;
mod kpack;
mod loadable;
mod planned;
mod promised;
mod providers;
mod published;
mod python;
mod sdist;
mod targets;
mod valid;

pub(super) use consequences::leave_out as leave_out_followers;
pub use planned::differences;
pub use targets::covers;

use crate::{
    check::{
        baseline::Comparison,
        coverage::Coverage,
        facts::SetFacts,
        finding::{Finding, Findings},
        installed,
        options::CheckOptions,
    },
    loader::InstalledTree,
};

/// What the rules about packages that are installed together look at.
struct Observed<'a> {
    /// Every package, of whatever project.
    all: &'a SetFacts,
    /// Packages of ours. What others promise and need is theirs: only their archives are checked.
    set: &'a SetFacts,
    tree: InstalledTree<'a>,
    coverage: &'a Coverage,
}

type Rules = fn(&Observed<'_>, &CheckOptions, &mut Findings);

const OF_PACKAGES: [Rules; 10] = [
    valid::find,
    complete::find,
    targets::find,
    kpack::find,
    loadable::find,
    devel::find,
    clean::find,
    python::find,
    sdist::find,
    promised::find,
];

/// What is wrong with packages that are installed together.
pub(super) fn findings(
    set: &SetFacts,
    options: &CheckOptions,
    coverage: &Coverage,
) -> Vec<Finding> {
    let ours = set.ours();
    let observed = Observed {
        all: set,
        set: &ours,
        tree: installed::tree(&ours),
        coverage,
    };
    let mut findings = Findings::default();
    for rules in OF_PACKAGES {
        rules(&observed, options, &mut findings);
    }
    findings.into_vec()
}

/// What concerns a set as a whole, whatever its parts are: its pages, and what it was before.
pub(super) fn findings_of_all(
    set: &SetFacts,
    options: &CheckOptions,
    since: Option<&Comparison>,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    published::find(set, &mut findings);
    if let Some(since) = since {
        baseline::find(since, options, &mut findings);
    }
    findings.into_vec()
}

/// Each once, by package and path.
pub(super) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
}
