//! The rules at work: facts in, findings out, one file for each subject.

mod clean;
mod complete;
mod devel;
mod kpack;
mod loadable;
mod planned;
mod targets;
mod valid;

pub use planned::differences;

use crate::audit::{
    coverage::Coverage, demands::Demands, facts::SetFacts, finding::Finding, site::Site,
};

/// All that is wrong, by package and path.
pub fn findings(set: &SetFacts, demands: &Demands, coverage: &Coverage) -> Vec<Finding> {
    let site = Site::of(set);
    let mut findings = valid::find(set);
    findings.extend(complete::find(set));
    findings.extend(targets::find(set, demands, coverage));
    findings.extend(kpack::find(set));
    findings.extend(loadable::find(set, &site, demands));
    findings.extend(devel::find(set, &site));
    findings.extend(clean::find(set));
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    findings
}
