//! Implements the rules: pure functions from facts to findings, one file for each subject.

mod changes;
mod complete;
mod installed;
mod kpack;
mod planned;
mod published;
mod python;
mod targets;
mod valid;

pub use changes::PackageInventory;
pub use planned::{Digests, differences, originals};
pub(super) use targets::covers;

use std::fmt::Display;

use itertools::Itertools as _;

use crate::{
    archive::TarKind,
    check::{
        AcceptList, RuleSelection,
        coverage::Coverage,
        facts::{ContentFacts, Elf, SetFacts},
        rule::{self, Finding, Findings, Rule},
    },
    loader::{Dotted, FileContents, InstalledTree},
    target::Target,
    wheel::DistName,
};

/// The limits and requirements of a check, and which findings it reports.
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

/// The input of the rules about packages that are installed together.
struct Observed<'a> {
    /// Every package of every project.
    all: &'a SetFacts,
    /// Our packages only. Of packages of other projects only the archives are checked, not what
    /// they require or contain.
    set: &'a SetFacts,
    tree: InstalledTree<'a>,
    coverage: &'a Coverage,
    options: &'a CheckOptions,
}

/// The findings about packages that are installed together.
pub(super) fn findings(
    set: &SetFacts,
    options: &CheckOptions,
    coverage: &Coverage,
) -> Vec<Finding> {
    let ours = set.ours();
    let observed = Observed {
        all: set,
        set: &ours,
        tree: installed(&ours),
        coverage,
        options,
    };
    let mut findings = Findings::default();
    for find in [
        valid::find,
        complete::find,
        targets::find,
        kpack::find,
        installed::find,
        python::find,
    ] {
        find(&observed, &mut findings);
    }
    findings.into_vec()
}

/// The findings about a set with all its parts: its pages, and changes since the baseline.
pub(super) fn findings_of_all(
    set: &SetFacts,
    options: &CheckOptions,
    baseline: Option<&PackageInventory>,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Some(published) = &set.published {
        published::find(set, published, &mut findings);
    }
    if let Some(baseline) = baseline {
        changes::find(set, baseline, options, &mut findings);
    }
    findings.into_vec()
}

/// All packages of a set installed into one directory, with the development files unpacked.
fn installed(set: &SetFacts) -> InstalledTree<'_> {
    let mut tree = InstalledTree::default();
    for (wheel, member) in set.members() {
        let content = member.content.as_ref().ok();
        tree.add_file(&member.path, &wheel.file, contents(content));
    }
    for wheel in &set.wheels {
        for devel in wheel.unpacked() {
            let path = devel.entry.path.as_str();
            match &devel.entry.kind {
                TarKind::Directory => tree.add_directory(path),
                TarKind::Symlink(text) => tree.add_link(path, text, &wheel.file),
                TarKind::Hardlink(_) => {}
                TarKind::File { .. } => {
                    tree.add_file(path, &wheel.file, contents(devel.content.as_ref()));
                }
            }
        }
    }
    tree.add_libraries_behind_links();
    tree
}

fn contents(content: Option<&ContentFacts>) -> FileContents<'_> {
    match content.map(|it| &it.elf) {
        Some(Some(Elf::Read(elf))) => FileContents::Elf(&elf.facts),
        Some(None) => FileContents::Other,
        _ => FileContents::Unknown,
    }
}

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

/// One finding for one cause: if a package is missing or unreadable, the findings that follow from
/// it are left out. The cause then says how many they were.
pub(super) fn leave_out_followers(findings: &mut Vec<Finding>) {
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

/// `` `a#0`, `a#1` and 3 more ``: the first names, up to `most`.
fn some(names: impl IntoIterator<Item = impl Display>, most: usize) -> String {
    let mut names = names.into_iter();
    let first = names.by_ref().take(most).join("`, `");
    match names.count() {
        0 => format!("`{first}`"),
        rest => format!("`{first}` and {rest} more"),
    }
}
