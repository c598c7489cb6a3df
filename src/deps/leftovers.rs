//! Decides what happens to files of a place that the lock does not have: they are yanked, and removed
//! after a time of grace, except the newest versions of each project. Pure.
//!
//! The reason of the yank says since when. So the index is the only record, and users can read it.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use time::{Date, Duration, macros::format_description};

use super::lock::DepsLock;
use crate::{
    version::Version,
    wheel::{DistName, PackageFilename},
};

/// Why a file is yanked that the lock does not have. The day follows.
const NOT_LOCKED: &str = "not in deps.lock since ";

/// How long files stay that the lock does not have.
#[derive(Clone, Copy, Debug)]
pub struct LeftoverRule {
    pub today: Date,
    /// The days between the yank of a file and its removal.
    pub grace: u16,
    /// The newest versions of each project that stay.
    pub keep: usize,
}

/// What happens to them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// The reasons, by file name.
    pub(super) yanked: BTreeMap<String, String>,
    pub(super) removed: BTreeSet<String>,
}

impl LeftoverRule {
    /// `yanks` are the reasons that the index of the place has now, by file name.
    pub(super) fn decide(
        &self,
        there: &[PackageFilename],
        lock: &DepsLock,
        yanks: &BTreeMap<String, String>,
    ) -> Leftovers {
        let locked: BTreeSet<&str> = lock.files.iter().map(|it| it.name.as_str()).collect();
        let newest = self.newest(there, lock);
        let mut leftovers = Leftovers::default();
        for file in there {
            let name = file.to_string();
            if locked.contains(name.as_str()) {
                continue;
            }
            let since = yanks.get(&name).and_then(|why| day(why));
            let since = since.unwrap_or(self.today);
            let is_over = self.today - since >= Duration::days(self.grace.into());
            if is_over && !newest.contains(&(&file.name, &file.version)) {
                leftovers.removed.insert(name);
            } else {
                leftovers
                    .yanked
                    .insert(name, format!("{NOT_LOCKED}{since}"));
            }
        }
        leftovers
    }

    /// The newest versions of each project, with those of the lock.
    fn newest<'a>(
        &self,
        there: &'a [PackageFilename],
        lock: &'a DepsLock,
    ) -> BTreeSet<(&'a DistName, &'a Version)> {
        let there = there.iter().map(|it| (&it.name, &it.version));
        let locked = lock.files.iter().map(|it| (&it.project, &it.version));
        let by_project = there.chain(locked).into_group_map();
        let newest = by_project.into_iter().flat_map(|(project, versions)| {
            let versions = versions.into_iter().sorted().rev().dedup();
            versions.take(self.keep).map(move |it| (project, it))
        });
        newest.collect()
    }
}

fn day(why: &str) -> Option<Date> {
    let form = format_description!("[year]-[month]-[day]");
    Date::parse(why.strip_prefix(NOT_LOCKED)?, form).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::date;

    #[test]
    fn what_the_lock_does_not_have_is_yanked_and_removed_later() {
        let file = |version: &str| format!("a-{version}-py3-none-any.whl");
        let parsed = |version: &&str| file(version).parse().unwrap();
        let there: Vec<PackageFilename> = ["0.8", "0.9", "1.0", "1.1", "1.10"]
            .iter()
            .map(parsed)
            .collect();
        let lock = format!(
            "schema = 1\n[[file]]\nproject = 'a'\nversion = '1.10'\nname = '{}'\nsize = 1\nsha256 = '{}'\n\
             for = ['3.12-linux']\nwhy = ['deps.toml']\n",
            file("1.10"),
            "0".repeat(64)
        );
        let lock = DepsLock::parse(&lock).unwrap();
        let yank = |version: &str, why: &str| (file(version), why.to_owned());
        let yanks = BTreeMap::from([
            yank("0.8", "not in deps.lock since 2026-10-24"),
            yank("0.9", "not in deps.lock since 2026-10-25"),
            yank("1.0", "not in deps.lock since tomorrow"),
            yank("1.1", "not in deps.lock since 2020-01-01"),
        ]);
        let shown = |grace, keep| {
            let rule = LeftoverRule {
                today: date!(2026 - 11 - 23),
                grace,
                keep,
            };
            let Leftovers { yanked, removed } = rule.decide(&there, &lock, &yanks);
            let yanked = yanked
                .iter()
                .map(|(name, why)| format!("yank {name}: {why}"));
            let removed = removed.iter().map(|it| format!("remove {it}"));
            format!(
                "# {grace} days, {keep} kept\n{}\n",
                yanked.chain(removed).join("\n")
            )
        };
        insta::assert_snapshot!(shown(30, 2) + &shown(0, 0), @"
        # 30 days, 2 kept
        yank a-0.9-py3-none-any.whl: not in deps.lock since 2026-10-25
        yank a-1.0-py3-none-any.whl: not in deps.lock since 2026-11-23
        yank a-1.1-py3-none-any.whl: not in deps.lock since 2020-01-01
        remove a-0.8-py3-none-any.whl
        # 0 days, 0 kept
        remove a-0.8-py3-none-any.whl
        remove a-0.9-py3-none-any.whl
        remove a-1.0-py3-none-any.whl
        remove a-1.1-py3-none-any.whl
        ");
    }
}
