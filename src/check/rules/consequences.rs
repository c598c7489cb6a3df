//! One finding for one cause: if a package is missing or unreadable, the findings that follow from
//! it are left out, and only counted.

use crate::check::{
    finding::Finding,
    rule::{self, Rule},
};

/// The rules that other packages seem to break if a package is missing.
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

/// Removes the consequences if there is a cause. The cause then says how many they were.
pub(in crate::check) fn leave_out(findings: &mut Vec<Finding>) {
    if !findings.iter().any(|finding| finding.is_cause) {
        return;
    }
    let before = findings.len();
    findings.retain(|finding| !FOLLOWERS.contains(&finding.rule));
    let count = before.saturating_sub(findings.len());
    let mut causes = findings.iter_mut().filter(|finding| finding.is_cause);
    if let Some(cause) = causes.next().filter(|_| count > 0) {
        let noun = if count == 1 { "finding" } else { "findings" };
        let fact = &cause.fact;
        cause.fact = format!("{fact}; left out {count} {noun} caused by it");
    }
}
