//! Rules about changes since the baseline: growth, and missing packages, files and targets.
//!
//! Packages are matched by project and files by path without the version, so that two nightly
//! builds can be compared.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{CheckOptions, some};
use crate::{
    check::{
        facts::{NAMES, SetFacts},
        path_facts,
        rule::{self, Findings},
    },
    wheel::DistName,
};

/// Growth by fewer bytes is ignored, even if its percentage is large.
const NOISE: u64 = 1 << 20;
/// The number of paths named for a package that lost files.
const MOST_NAMED: usize = 3;

/// The packages of a set, by normalized name.
#[derive(Debug, Default)]
pub struct PackageInventory(BTreeMap<String, Stock>);

/// The facts about one package.
#[derive(Debug, Default)]
struct Stock {
    /// The total size of its wheels and sdists.
    size: Option<u64>,
    /// The paths of its members, without the `.dist-info` directory. `None` if only the index could
    /// be read.
    members: Option<BTreeSet<String>>,
}

impl PackageInventory {
    /// The inventory of a set that was read. Packages of other projects come and go by themselves.
    pub(super) fn of(set: &SetFacts) -> Self {
        let (mut this, set) = (Self::default(), set.ours());
        for wheel in &set.wheels {
            if let Some(name) = wheel.identity() {
                let members = wheel.contents().map(|(member, _)| &*member.path);
                this.add(&name.name, Some(wheel.size), Some(members.collect()));
            }
        }
        for sdist in &set.sdists {
            if let Some(name) = sdist.identity() {
                this.add(&name.name, Some(sdist.size), None);
            }
        }
        this
    }

    /// Adds a package with what is known of it: its size, and the paths of its members.
    pub fn add(&mut self, project: &DistName, size: Option<u64>, members: Option<Vec<&str>>) {
        let stock = self.0.entry(project.normalized().to_owned()).or_default();
        // Wheels for several platforms belong to the same package.
        if let Some(size) = size {
            stock.size = Some(stock.size.unwrap_or(0).saturating_add(size));
        }
        if let Some(members) = members {
            let own = members.into_iter().filter(|path| !is_metadata(path));
            let known = stock.members.get_or_insert_default();
            known.extend(own.map(str::to_owned));
        }
    }
}

/// Whether a path is in `.dist-info`. The name of that directory contains the version.
fn is_metadata(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default();
    top.ends_with(".dist-info")
}

impl PackageInventory {
    /// Finds what changed from this inventory, the baseline, to another one.
    pub(super) fn changes(&self, now: &Self, options: &CheckOptions, findings: &mut Findings) {
        for (name, before) in &self.0 {
            let Some(after) = now.0.get(name) else {
                if let Some(target) = name.strip_prefix(&NAMES.device) {
                    let fact = format!("the baseline has device code for `{target}`");
                    findings.of_set(rule::TARGET_GONE, fact);
                } else {
                    findings.of_set(rule::PACKAGE_GONE, format!("the baseline has `{name}`"));
                }
                continue;
            };
            if let (Some(old), Some(new)) = (before.size, after.size) {
                let (more, most) = (new.saturating_sub(old), options.growth);
                let percent = u128::from(more) * 100 / u128::from(old.max(1));
                if more > NOISE && percent > most.into() {
                    let fact = format!(
                        "`{name}` has {new} bytes, {percent} % more than the baseline's {old}; {most} % are allowed"
                    );
                    findings.of_set(rule::PACKAGE_GROWN, fact);
                }
            }
            let (Some(before), Some(after)) = (&before.members, &after.members) else {
                continue;
            };
            let removed: Vec<&String> = before.difference(after).collect();
            if removed.len() > options.gone {
                let named = some(removed, MOST_NAMED);
                let fact = format!("`{name}` lacks files of the baseline: {named}");
                findings.of_set(rule::FILES_GONE, fact);
            }
            let known = before.iter().flat_map(|it| path_facts::targets(it));
            let known: BTreeSet<_> = known.collect();
            let added = after.difference(before);
            let targets: BTreeSet<_> = added.flat_map(|it| path_facts::targets(it)).collect();
            let targets = targets.difference(&known).join(", ");
            if !targets.is_empty() {
                let fact =
                    format!("`{name}` has files for {targets}, and the baseline has none in it");
                findings.of_set(rule::NEW_ARCHITECTURE, fact);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(size: u64, members: Option<&[&str]>) -> PackageInventory {
        let mut inventory = PackageInventory::default();
        let members = members.map(<[&str]>::to_vec);
        inventory.add(&"a".parse().unwrap(), Some(size), members);
        inventory
    }

    #[test]
    fn changes_are_reported_without_versions() {
        let changes = |before: &PackageInventory, after: &PackageInventory| {
            let mut findings = Findings::default();
            before.changes(after, &CheckOptions::default(), &mut findings);
            findings.into_vec().iter().join("\n")
        };
        let old = ["a-1.dist-info/RECORD", "c/a", "c/b", "c/k_gfx942.co"];
        let new = [
            "a-2.dist-info/RECORD",
            "c/a",
            "c/k_gfx942.co",
            "c/l_gfx1100.co",
        ];
        let (old, new) = (
            inventory(100 << 20, Some(&old)),
            inventory(131 << 20, Some(&new)),
        );
        insta::assert_snapshot!(changes(&old, &new), @"
        warning RW804 package-grown: `a` has 137363456 bytes, 31 % more than the baseline's 104857600; 0 % are allowed
        warning RW803 files-gone: `a` lacks files of the baseline: `c/b`
        warning RW805 new-architecture: `a` has files for gfx1100, and the baseline has none in it
        ");
        assert_eq!(changes(&old, &old), "");
        // An index alone says no files.
        assert_eq!(
            changes(&inventory(0, None), &inventory(9, Some(&["c/a"]))),
            ""
        );
    }
}
