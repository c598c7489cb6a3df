//! What a set lost or gained since another one.

use crate::check::{
    baseline::{Change, Comparison},
    demands::Demands,
    facts::DEVICE,
    finding::Finding,
    rule,
};

/// Below so many bytes, growth is noise whatever its share.
const NOISE: u64 = 1 << 20;
/// So many paths are named of a package that lost files.
const MOST_NAMED: usize = 3;

pub(super) fn find(comparison: &Comparison, demands: &Demands) -> Vec<Finding> {
    let packages = comparison.packages.iter();
    packages
        .flat_map(|(name, change)| one_package(name, change, demands))
        .collect()
}

fn one_package(name: &str, change: &Change, demands: &Demands) -> Vec<Finding> {
    let mut found = Vec::new();
    match (change.old_size, change.new_size) {
        (Some(_), None) => {
            found.push(match name.strip_prefix(DEVICE) {
                Some(target) => {
                    let fact = format!("the baseline has device code for `{target}`");
                    Finding::new(rule::TARGET_GONE, fact)
                }
                None => Finding::new(rule::PACKAGE_GONE, format!("the baseline has `{name}`")),
            });
            return found;
        }
        (Some(old), Some(new)) => {
            let percent = change.growth().unwrap_or(0);
            let is_more = new.saturating_sub(old) > NOISE && percent > demands.growth;
            let most = demands.growth;
            let fact = format!(
                "`{name}` has {new} bytes, {percent} % more than the baseline's {old}; {most} % are allowed"
            );
            found.extend(is_more.then(|| Finding::new(rule::PACKAGE_GROWN, fact)));
        }
        (None, _) => {}
    }
    let gone = change.removed.len();
    if gone > demands.gone {
        let named: Vec<String> = change
            .removed
            .iter()
            .take(MOST_NAMED)
            .map(|path| format!("`{path}`"))
            .collect();
        let rest = gone.saturating_sub(named.len());
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        let fact = format!(
            "`{name}` lacks files of the baseline: {}{more}",
            named.join(", ")
        );
        found.push(Finding::new(rule::FILES_GONE, fact));
    }
    if !change.new_targets.is_empty() {
        let targets = change.new_targets.join(", ");
        let fact = format!("`{name}` has files for {targets}, and the baseline has none in it");
        found.push(Finding::new(rule::NEW_ARCHITECTURE, fact));
    }
    found
}
