//! Implements the rules: pure functions from facts to findings, one file for each subject.

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

/// The input of the rules about packages that are installed together.
struct Observed<'a> {
    /// Every package of every project.
    all: &'a SetFacts,
    /// Our packages only. Of packages of other projects only the archives are checked, not what
    /// they require or contain.
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

/// The findings about packages that are installed together.
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

/// The findings about a set with all its parts: its pages, and changes since the baseline.
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

/// Sorts findings by package and path, and removes duplicates.
pub(super) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
}
