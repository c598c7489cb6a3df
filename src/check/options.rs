//! [`CheckOptions`]: the limits and requirements of a check, and which findings it reports.

use crate::{
    check::{AcceptList, Rule, RuleSelection},
    loader::Dotted,
    target::Target,
    wheel::DistName,
};

#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Targets that the set must cover, with or without features.
    pub targets: Vec<Target>,
    /// The newest glibc that binaries may need.
    pub glibc: Dotted,
    /// The percentage by which a package may be larger than in the baseline.
    pub growth: u64,
    /// The number of files of the baseline that may be missing from a package.
    pub gone: usize,
    /// Projects of others that packages may require.
    pub base: Vec<DistName>,
    /// The directory into which wheels for Windows are installed; long paths are checked below it.
    pub windows_prefix: String,
    /// The rules to check.
    pub selection: RuleSelection,
    /// Known findings.
    pub accept: AcceptList,
    /// The current day, which decides whether entries of `accept` have expired: `2026-11-22`.
    pub today: String,
    /// Whether this is only a part of a set (`--part`). Rules about whole sets are then skipped.
    pub is_part: bool,
}

impl CheckOptions {
    /// Whether a rule is checked.
    pub(super) fn asks(&self, rule: &Rule) -> bool {
        self.selection.has(rule) && !(self.is_part && rule.needs_whole_set())
    }
}
