//! The rules at work: facts in, findings out, one file for each subject.

mod baseline;
mod clean;
mod complete;
mod devel;
mod followers;
mod kpack;
mod loadable;
mod planned;
mod published;
mod targets;
mod valid;

pub use planned::differences;

use crate::audit::{
    baseline::Comparison, coverage::Coverage, demands::Demands, facts::SetFacts, finding::Finding,
    site::Site,
};

/// All that is wrong, by package and path.
pub fn findings(
    set: &SetFacts,
    demands: &Demands,
    coverage: &Coverage,
    since: Option<&Comparison>,
) -> Vec<Finding> {
    let site = Site::of(set);
    let mut findings = valid::find(set, demands);
    findings.extend(complete::find(set, demands));
    findings.extend(targets::find(set, demands, coverage));
    findings.extend(kpack::find(set));
    findings.extend(loadable::find(set, &site, demands));
    findings.extend(devel::find(set, &site));
    findings.extend(clean::find(set));
    findings.extend(published::find(set));
    findings.extend(
        since
            .map(|since| baseline::find(since, demands))
            .unwrap_or_default(),
    );
    followers::leave_out(&mut findings);
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    findings
}
