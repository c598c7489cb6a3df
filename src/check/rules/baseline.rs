//! Rules about changes since the baseline: growth, and missing packages, files and targets.

use crate::check::{
    baseline::{BaselineChange, Comparison},
    facts::NAMES,
    finding::Findings,
    options::CheckOptions,
    rule,
};

/// Growth by fewer bytes is ignored, even if its percentage is large.
const NOISE: u64 = 1 << 20;
/// The number of paths named for a package that lost files.
const MOST_NAMED: usize = 3;

pub(super) fn find(comparison: &Comparison, options: &CheckOptions, findings: &mut Findings) {
    for (name, change) in &comparison.packages {
        if change.old_size.is_some() && change.new_size.is_none() {
            if let Some(target) = name.strip_prefix(&NAMES.device) {
                let fact = format!("the baseline has device code for `{target}`");
                findings.add(rule::TARGET_GONE, (), fact);
            } else {
                let fact = format!("the baseline has `{name}`");
                findings.add(rule::PACKAGE_GONE, (), fact);
            }
            continue;
        }
        growth(name, change, options, findings);
        files(name, change, options, findings);
    }
}

fn growth(name: &str, change: &BaselineChange, options: &CheckOptions, findings: &mut Findings) {
    let (Some(old), Some(new)) = (change.old_size, change.new_size) else {
        return;
    };
    let (percent, most) = (change.growth().unwrap_or(0), options.growth);
    if new.saturating_sub(old) > NOISE && percent > most {
        let fact = format!(
            "`{name}` has {new} bytes, {percent} % more than the baseline's {old}; {most} % are allowed"
        );
        findings.add(rule::PACKAGE_GROWN, (), fact);
    }
}

fn files(name: &str, change: &BaselineChange, options: &CheckOptions, findings: &mut Findings) {
    let gone = change.removed.len();
    if gone > options.gone {
        let named = change.removed.iter().take(MOST_NAMED);
        let named: Vec<String> = named.map(|path| format!("`{path}`")).collect();
        let more = match gone.saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = named.join(", ");
        let fact = format!("`{name}` lacks files of the baseline: {named}{more}");
        findings.add(rule::FILES_GONE, (), fact);
    }
    if !change.new_targets.is_empty() {
        let targets = change.new_targets.join(", ");
        let fact = format!("`{name}` has files for {targets}, and the baseline has none in it");
        findings.add(rule::NEW_ARCHITECTURE, (), fact);
    }
}
