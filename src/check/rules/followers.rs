//! One cause, one finding: what follows from a package that is missing or unreadable is counted,
//! and left out.

use super::complete::NOT_THERE;
use crate::check::{
    finding::Finding,
    rule::{self, Rule},
};

/// What packages that are not there let others look like.
const FOLLOWERS: &[&Rule] = &[
    rule::UNRESOLVED_KPACK,
    rule::UNASKED_ARCHIVE,
    rule::MISSING_LIBRARY,
    rule::LUCKY_LIBRARY,
    rule::SONAME_WITHOUT_FILE,
    rule::DANGLING_LAUNCHER,
    rule::DANGLING_DEVEL_LINK,
    rule::DANGLING_TREE_LINK,
];

/// Leaves followers out if there is a cause, which says how many they were.
pub(super) fn leave_out(findings: &mut Vec<Finding>) {
    let is_cause = |finding: &Finding| {
        finding.rule == rule::UNREADABLE_PACKAGE
            || finding.rule == rule::UNRESOLVED_REQUIREMENT && finding.fact.ends_with(NOT_THERE)
            || finding.rule == rule::PROMISED_FILE_MISSING
    };
    let Some(cause) = findings.iter().position(is_cause) else {
        return;
    };
    let before = findings.len();
    let mut index = 0_usize;
    let mut cause_at = cause;
    findings.retain(|finding| {
        let is_kept = !FOLLOWERS.contains(&finding.rule);
        if !is_kept && index < cause {
            cause_at = cause_at.saturating_sub(1);
        }
        index = index.saturating_add(1);
        is_kept
    });
    let count = before.saturating_sub(findings.len());
    if let Some(cause) = findings.get_mut(cause_at).filter(|_| count > 0) {
        let noun = if count == 1 { "finding" } else { "findings" };
        let more = format!("; left out {count} {noun} caused by it");
        cause.fact += &more;
    }
}
