//! Applies the rules to the facts of a set ([`judge`]): pure functions from facts to findings, one
//! file for each subject.
//!
//! A set may be for several platforms, and a legacy set, without device wheels, for several
//! families. Then each family has a directory with its `rocm` sdist and development files,
//! `dist/gfx94X-dcgpu`, below the common packages. What is installed together, a part, is checked
//! as a set of its own.

mod complete;
mod destination;
mod installed;
mod kpack;
mod others;
mod published;
mod python;
mod targets;
mod valid;

use std::collections::BTreeSet;

use itertools::Itertools as _;

use crate::{
    archive::TarKind,
    check::{
        AcceptList, Report, RuleSelection,
        accept::AcceptOutcome,
        coverage::Coverage,
        facts::{CheckedPackage, ContentFacts, Elf, SetFacts},
        path_facts::has_extension,
        rule::{Finding, Findings, Rule},
    },
    index::identity,
    loader::{FileContents, InstalledTree},
    policy::{DistributionMode, catalog::CATALOG},
    quantity::many,
    target::Target,
};

pub use self::destination::Destination;

/// The limits and requirements of a check, and which findings it reports.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Targets that the set must cover, with or without features.
    pub targets: Vec<Target>,
    /// The rules to check.
    pub selection: RuleSelection,
    /// Known findings.
    pub accept: AcceptList,
    /// The current day, which decides whether entries of `accept` have expired: `2026-11-22`.
    pub today: String,
    /// Whether this is only a part of a set (`--part`). Rules about whole sets are then skipped.
    pub is_part: bool,
    /// The place of a run that the set goes to, or is at.
    pub destination: Option<Destination>,
}

pub use others::beside_ours;

/// The input of the rules about packages that are installed together.
struct Observed<'a> {
    /// Every package of every project.
    all: &'a SetFacts,
    /// Our packages only, which the rules are about. Packages of other projects are listed, and one
    /// that no installer can read is a finding.
    set: &'a SetFacts,
    tree: InstalledTree<'a>,
    coverage: Coverage,
    options: &'a CheckOptions,
}

/// The findings about packages that are installed together, and their coverage.
fn findings(set: &SetFacts, options: &CheckOptions) -> (Vec<Finding>, Coverage) {
    let ours = set.ours();
    let observed = Observed {
        all: set,
        set: &ours,
        tree: installed(&ours),
        coverage: Coverage::of(&ours),
        options,
    };
    let mut findings = Findings::default();
    for find in [
        valid::find,
        others::find,
        complete::find,
        targets::find,
        kpack::find,
        installed::find,
        python::find,
    ] {
        find(&observed, &mut findings);
    }
    (findings.into_vec(), observed.coverage)
}

/// All packages of a set installed into one directory, with the development files unpacked.
pub fn installed(set: &SetFacts) -> InstalledTree<'_> {
    let mut tree = InstalledTree::default();
    for (wheel, member) in set.members() {
        let content = member.content.as_ref().ok();
        tree.add_file(&member.path, &wheel.package.file, contents(content));
    }
    for wheel in &set.wheels {
        for devel in wheel.unpacked() {
            let path = devel.entry.path.as_str();
            match &devel.entry.kind {
                TarKind::Directory => tree.add_directory(path),
                TarKind::Symlink(text) => tree.add_link(path, text, &wheel.package.file),
                TarKind::Hardlink(_) => {}
                TarKind::File { .. } => {
                    tree.add_file(path, &wheel.package.file, contents(devel.content.as_ref()));
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

/// One finding for one cause: if a package is missing or unreadable, the findings that follow from
/// it, in packages that require it, are left out. The cause then says how many they were.
fn leave_out_followers(set: &SetFacts, findings: &mut Vec<Finding>) {
    let lacks: BTreeSet<String> = findings.iter().filter_map(|it| it.lacks.clone()).collect();
    if lacks.is_empty() {
        return;
    }
    let required = complete::required(set);
    // All packages need the libraries of the core package, also those that do not say so.
    let core = CATALOG.core().map(|it| it.dist_name(DistributionMode::Split, None));
    let core = core.unwrap_or_default();
    let cause_of = |finding: &Finding| {
        let file = finding.file.as_deref().filter(|_| finding.rule.is_consequence)?;
        let (own, _) = identity(file)?;
        let wanted = required.get(own.normalized());
        lacks.iter().find(|lacking| {
            // The requirements of a package that cannot be read are unknown, and so is what an
            // invalid name stands for.
            lacking.is_empty()
                || **lacking == core
                || *lacking == own.normalized()
                || wanted.is_none_or(|it| it.contains(*lacking))
        })
    };
    let (left_out, mut rest): (Vec<_>, Vec<_>) =
        findings.drain(..).partition(|it| cause_of(it).is_some());
    let mut counts = left_out.iter().filter_map(cause_of).counts();
    for finding in &mut rest {
        let count = finding.lacks.as_ref().and_then(|it| counts.remove(it));
        if let Some(count) = count {
            let (fact, count) = (&finding.fact, many(count, "finding"));
            finding.fact = format!("{fact}; left out {count} caused by it");
        }
    }
    *findings = rest;
}

/// Applies the rules to a set. `compared` are the findings from comparing it with something else. Returns
/// the report, and the entries of the accept list that accepted nothing.
pub fn judge(
    set: &SetFacts,
    options: &CheckOptions,
    compared: Vec<Finding>,
) -> (Report, Vec<String>) {
    // The pages are those of the whole set.
    let mut of_all = Findings::default();
    if let Some(published) = &set.published {
        published::find(set, published, &mut of_all);
    }
    if let Some(destination) = &options.destination {
        destination::find(set, destination, &mut of_all);
    }
    let (mut findings, coverage) = of_parts(set, options, of_all.into_vec());
    findings.extend(compared);
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    let can_be_asked = |rule: &Rule| !(options.is_part && rule.needs_whole_set);
    let is_asked = |rule: &Rule| can_be_asked(rule) && options.selection.has(rule);
    findings.retain(|finding| can_be_asked(finding.rule));
    let found = findings.len();
    findings.retain(|finding| is_asked(finding.rule));
    let skipped = found - findings.len();
    // Pages, a baseline, frameworks and a destination are not there in each check.
    let is_always_asked = |rule: &Rule| {
        let needs_more =
            matches!(rule.subject(), '7' | '8' | 'F') || destination::RULES.contains(&rule);
        !needs_more && is_asked(rule)
    };
    let accept = &options.accept;
    let AcceptOutcome { accepted, unused } =
        accept.apply(&mut findings, &options.today, is_always_asked);
    let report = Report::new(set.counts(), findings, coverage);
    let report = Report { skipped, accepted, ..report };
    (report, unused)
}

/// The findings about the parts of a set and about the whole of it, and the coverage.
fn of_parts(
    set: &SetFacts,
    options: &CheckOptions,
    of_all: Vec<Finding>,
) -> (Vec<Finding>, Coverage) {
    let parts = parts(set);
    if let [_] = parts.as_slice() {
        let (mut findings, coverage) = findings(set, options);
        findings.extend(of_all);
        leave_out_followers(set, &mut findings);
        return (findings, coverage);
    }
    let mut coverage = Coverage::default();
    let mut all = Vec::new();
    for part in &parts {
        // A target that one part covers need not be in the others.
        let covers = |part: &InstallGroup, target: &Target| targets::covers(&part.set, target);
        let mut options = options.clone();
        options.targets.retain(|target| {
            covers(part, target) || !parts.iter().any(|other| covers(other, target))
        });
        let (mut findings, own) = findings(&part.set, &options);
        leave_out_followers(&part.set, &mut findings);
        all.push(findings);
        coverage.extend(own, if part.is_windows { " (Windows)" } else { "" });
    }
    let mut findings = together(&parts, &all);
    findings.extend(of_all);
    (findings, coverage)
}

/// Packages that are installed together: those of one family on one platform.
struct InstallGroup {
    /// ``the set of `gfx94X-dcgpu` for Windows``
    label: String,
    is_windows: bool,
    set: SetFacts,
}

/// The parts of a set, at least one.
fn parts(set: &SetFacts) -> Vec<InstallGroup> {
    let families: BTreeSet<&str> = set.packages().filter_map(|it| it.family()).collect();
    let of_family = |family: Option<&str>| InstallGroup {
        label: family.map_or("the set".to_owned(), |it| format!("the set of `{it}`")),
        is_windows: false,
        set: set.filtered(|it| {
            it.family().is_none_or(|own| Some(own) == family)
                // Of the libraries of families, which may be beside the common packages, a part
                // has its own ones only.
                && (it.family().is_some() || is_for_family(it, family, &families))
        }),
    };
    let parts: Vec<InstallGroup> = if families.is_empty() {
        vec![of_family(None)]
    } else {
        families.iter().map(|it| of_family(Some(it))).collect()
    };
    parts.into_iter().flat_map(by_platform).collect()
}

fn is_for_family(package: &CheckedPackage, family: Option<&str>, all: &BTreeSet<&str>) -> bool {
    let mut others = all.iter().filter(|other| Some(**other) != family);
    let of_package = package.libraries_family();
    of_package.is_none_or(|name| !others.any(|other| other.to_lowercase() == name))
}

fn by_platform(part: InstallGroup) -> Vec<InstallGroup> {
    if part.set.platforms().len() < 2 {
        return vec![part];
    }
    // Packages for any platform, and those with invalid names that tell none, are in both parts.
    let on = |name: &str, platform: &str, other: &str| InstallGroup {
        label: format!("{} for {name}", part.label),
        is_windows: platform == "win",
        set: part.set.filtered(|it| {
            let tag = it.platform().unwrap_or(&it.file);
            !has_extension(&it.file, "whl") || tag.contains(platform) || !tag.contains(other)
        }),
    };
    vec![on("Linux", "linux", "win"), on("Windows", "win", "linux")]
}

/// Merges the findings of all parts. A finding that every part has is reported once; another one
/// says in which part it is.
fn together(parts: &[InstallGroup], all: &[Vec<Finding>]) -> Vec<Finding> {
    let everywhere = |finding: &Finding| all.iter().all(|found| found.contains(finding));
    let mut findings: Vec<Finding> = Vec::new();
    for (part, found) in parts.iter().zip(all) {
        for finding in found {
            let mut finding = finding.clone();
            let holders = finding.file.as_ref().map_or(parts.len(), |file| {
                let is_in = |part: &&InstallGroup| part.set.packages().any(|it| it.file == *file);
                parts.iter().filter(is_in).count()
            });
            if holders > 1 && !everywhere(&finding) {
                finding.fact = format!("{}, in {}", finding.fact, part.label);
            }
            findings.push(finding);
        }
    }
    findings
}
