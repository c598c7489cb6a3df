//! The rules at work: facts in, findings out, one file for each subject.

mod baseline;
mod clean;
mod complete;
mod devel;
mod followers;
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

pub use planned::differences;
pub use targets::covers;

use crate::check::{
    baseline::Comparison, coverage::Coverage, demands::Demands, facts::SetFacts, finding::Finding,
    installed, rule,
};

/// All that is wrong, by package and path.
pub fn findings(
    set: &SetFacts,
    demands: &Demands,
    coverage: &Coverage,
    since: Option<&Comparison>,
) -> Vec<Finding> {
    let mut findings = within(set, demands, coverage);
    findings.extend(findings_of_all(set, demands, since));
    followers::leave_out(&mut findings);
    sort(&mut findings);
    findings
}

/// What is wrong with packages that are installed together, of a set that has others too.
pub fn findings_of_part(set: &SetFacts, demands: &Demands, coverage: &Coverage) -> Vec<Finding> {
    let mut findings = within(set, demands, coverage);
    followers::leave_out(&mut findings);
    sort(&mut findings);
    findings
}

/// What concerns a set as a whole, whatever its parts are: its pages, and what it was before.
pub fn findings_of_all(
    set: &SetFacts,
    demands: &Demands,
    since: Option<&Comparison>,
) -> Vec<Finding> {
    let mut findings = published::find(set);
    let since = since.map(|since| baseline::find(since, demands));
    findings.extend(since.unwrap_or_default());
    findings
}

/// Of packages of other projects only the archives are checked: what they promise and need is
/// theirs.
fn within(set: &SetFacts, demands: &Demands, coverage: &Coverage) -> Vec<Finding> {
    let mut findings = valid::find(set, demands);
    findings.extend(set.foreign().map(|file| {
        let fact = "a package of another project";
        Finding::new(rule::FOREIGN_PACKAGE, fact).in_file(file)
    }));
    let set = &set.ours();
    let tree = installed::tree(set);
    findings.extend(complete::find(set, demands));
    findings.extend(targets::find(set, demands, coverage));
    findings.extend(kpack::find(set));
    findings.extend(loadable::find(set, &tree, demands));
    findings.extend(devel::find(set, &tree));
    findings.extend(clean::find(set));
    findings.extend(python::find(set));
    findings.extend(sdist::find(set));
    findings.extend(promised::find(set));
    findings
}

/// Each once, by package and path.
pub fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
}
