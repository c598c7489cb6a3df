//! Rules about changes since the baseline: growth, and missing packages, files and targets.

use super::CheckOptions;
use crate::check::{
    baseline::{BaselineChange, Comparison},
    facts::NAMES,
    finding::Findings,
    rule,
};

/// Growth by fewer bytes is ignored, even if its percentage is large.
const NOISE: u64 = 1 << 20;
/// The number of paths named for a package that lost files.
const MOST_NAMED: usize = 3;

pub(super) fn find(comparison: &Comparison, options: &CheckOptions, findings: &mut Findings) {
    for (name, change) in &comparison.packages {
        match (
            change.old_size,
            change.new_size,
            name.strip_prefix(&NAMES.device),
        ) {
            (Some(_), None, Some(target)) => {
                let fact = format!("the baseline has device code for `{target}`");
                findings.of_set(rule::TARGET_GONE, fact);
            }
            (Some(_), None, None) => {
                let fact = format!("the baseline has `{name}`");
                findings.of_set(rule::PACKAGE_GONE, fact);
            }
            _ => changed(name, change, options, findings),
        }
    }
}

fn changed(name: &str, change: &BaselineChange, options: &CheckOptions, findings: &mut Findings) {
    if let (Some(old), Some(new)) = (change.old_size, change.new_size) {
        let (percent, most) = (change.growth().unwrap_or(0), options.growth);
        if new.saturating_sub(old) > NOISE && percent > most {
            let fact = format!(
                "`{name}` has {new} bytes, {percent} % more than the baseline's {old}; {most} % are allowed"
            );
            findings.of_set(rule::PACKAGE_GROWN, fact);
        }
    }
    if change.removed.len() > options.gone {
        let named = super::some(&change.removed, MOST_NAMED);
        let fact = format!("`{name}` lacks files of the baseline: {named}");
        findings.of_set(rule::FILES_GONE, fact);
    }
    if !change.new_targets.is_empty() {
        let targets = change.new_targets.join(", ");
        let fact = format!("`{name}` has files for {targets}, and the baseline has none in it");
        findings.of_set(rule::NEW_ARCHITECTURE, fact);
    }
}
