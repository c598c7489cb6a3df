//! `CheckOptions`: what a set has to satisfy beyond what always holds, and which findings count.

use crate::{
    check::{AcceptList, Rule, RuleSelection},
    loader::Dotted,
    target::Target,
    wheel::DistName,
};

#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// What must be covered, with or without features.
    pub targets: Vec<Target>,
    /// The newest glibc that may be needed.
    pub glibc: Dotted,
    /// By how many hundredths a package may be larger than that of the baseline.
    pub growth: u64,
    /// How many files of the baseline a package may lack.
    pub gone: usize,
    /// Projects that packages may require besides ours.
    pub base: Vec<DistName>,
    /// Where wheels for Windows are installed.
    pub windows_prefix: String,
    /// The rules that count.
    pub selection: RuleSelection,
    /// Findings that are known.
    pub accept: AcceptList,
    /// `2026-11-22`: the day on which that list is asked.
    pub today: String,
    /// Whether only a part of a set is here, which cannot be judged as a whole.
    pub is_part: bool,
}

impl CheckOptions {
    /// Whether what breaks a rule is a finding.
    pub(super) fn asks(&self, rule: &Rule) -> bool {
        self.selection.has(rule) && !(self.is_part && rule.needs_whole_set())
    }
}
