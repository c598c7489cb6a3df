//! Applies the rules to the facts of a set ([`judge`]): pure functions from facts to findings, one
//! file for each subject.
//!
//! A set may be for several platforms, and a legacy set, without device wheels, for several
//! families. Then each family has a directory with its `rocm` sdist and development files,
//! `dist/gfx94X-dcgpu`, below the common packages. The packages that are installed together are a part,
//! and each part is checked like a set.

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
    /// The place of a run to which the set goes, or where it is.
    pub destination: Option<Destination>,
}

pub use others::beside_ours;

/// The input of the rules about packages that are installed together.
struct Observed<'a> {
    /// Every package of every project.
    all: &'a SetFacts,
    /// Our packages only, which most rules are about.
    set: &'a SetFacts,
    tree: InstalledTree<'a>,
    coverage: Coverage,
    options: &'a CheckOptions,
}

/// The findings about packages that are installed together, and their coverage.
fn check_part(set: &SetFacts, options: &CheckOptions) -> (Vec<Finding>, Coverage) {
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

/// Leaves one finding for one cause. If a package is missing or unreadable, packages that require it seem to
/// break rules too. The finding about the cause says how many of their findings were left out.
fn leave_out_consequences(set: &SetFacts, findings: &mut Vec<Finding>) {
    let lacks: BTreeSet<String> = findings.iter().filter_map(|it| it.lacks.clone()).collect();
    if lacks.is_empty() {
        return;
    }
    let required = complete::required(set);
    // All packages need the libraries of the core package, also those that do not say so.
    let core = CATALOG
        .core()
        .map(|spec| spec.dist_name(DistributionMode::Split, None))
        .unwrap_or_default();
    let cause_of = |finding: &Finding| {
        let file = finding.file.as_deref().filter(|_| finding.rule.is_consequence)?;
        let (project, _) = identity(file)?;
        let wanted = required.get(project.normalized());
        lacks.iter().find(|lacking| {
            // If the requirements of a package are unknown, it may require each missing package. A
            // package with an invalid name may be the required one.
            lacking.is_empty()
                || **lacking == core
                || *lacking == project.normalized()
                || wanted.is_none_or(|wanted| wanted.contains(*lacking))
        })
    };
    let (consequences, mut kept): (Vec<_>, Vec<_>) =
        findings.drain(..).partition(|finding| cause_of(finding).is_some());
    let mut counts = consequences.iter().filter_map(cause_of).counts();
    for cause in &mut kept {
        // The first finding about a missing package counts its consequences.
        let count = cause.lacks.as_ref().and_then(|project| counts.remove(project));
        if let Some(count) = count {
            let left_out = many(count, "finding");
            cause.fact = format!("{}; left out {left_out} caused by it", cause.fact);
        }
    }
    *findings = kept;
}

/// Applies the rules to a set. `compared` are the findings from comparing it with something else. Returns
/// the report, and the entries of the accept list that accepted nothing.
pub fn judge(
    set: &SetFacts,
    options: &CheckOptions,
    compared: Vec<Finding>,
) -> (Report, Vec<String>) {
    // Pages and the place of a run are for the whole set, not for a part.
    let mut of_whole = Findings::default();
    if let Some(published) = &set.published {
        published::find(set, published, &mut of_whole);
    }
    if let Some(destination) = &options.destination {
        destination::find(set, destination, &mut of_whole);
    }
    let (mut findings, coverage) = check_parts(set, options, of_whole.into_vec());
    findings.extend(compared);
    findings.sort_by(|left, right| left.order().cmp(&right.order()));
    findings.dedup();
    let can_be_asked = |rule: &Rule| !(options.is_part && rule.needs_whole_set);
    let is_asked = |rule: &Rule| can_be_asked(rule) && options.selection.has(rule);
    findings.retain(|finding| can_be_asked(finding.rule));
    let count_before_selection = findings.len();
    findings.retain(|finding| is_asked(finding.rule));
    let skipped = count_before_selection - findings.len();
    // Not each check has pages, a baseline, frameworks or a destination. A check without them does not show
    // that an entry of the accept list is unused.
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

/// The findings about the parts of a set, together with the findings about the whole set, and the coverage.
fn check_parts(
    set: &SetFacts,
    options: &CheckOptions,
    of_whole: Vec<Finding>,
) -> (Vec<Finding>, Coverage) {
    let parts = parts(set);
    if let [_] = parts.as_slice() {
        let (mut findings, coverage) = check_part(set, options);
        findings.extend(of_whole);
        leave_out_consequences(set, &mut findings);
        return (findings, coverage);
    }
    let mut coverage = Coverage::default();
    let mut findings_of_parts = Vec::new();
    for part in &parts {
        // A required target that another part covers need not be in this part.
        let covers = |part: &InstallGroup, target: &Target| targets::covers(&part.set, target);
        let mut part_options = options.clone();
        part_options.targets.retain(|target| {
            covers(part, target) || !parts.iter().any(|other| covers(other, target))
        });
        let (mut findings, part_coverage) = check_part(&part.set, &part_options);
        leave_out_consequences(&part.set, &mut findings);
        findings_of_parts.push(findings);
        coverage.extend(part_coverage, if part.is_windows { " (Windows)" } else { "" });
    }
    let mut findings = merge_findings(&parts, &findings_of_parts);
    findings.extend(of_whole);
    (findings, coverage)
}

/// The packages of one family on one platform, which are installed together.
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
        set: set.filtered(|package| match package.family() {
            Some(package_family) => Some(package_family) == family,
            // The libraries of each family may be beside the common packages, and are in its part only.
            None => is_for_family(package, family, &families),
        }),
    };
    let parts: Vec<InstallGroup> = if families.is_empty() {
        vec![of_family(None)]
    } else {
        families.iter().map(|it| of_family(Some(it))).collect()
    };
    parts.into_iter().flat_map(split_by_platform).collect()
}

/// Whether a common package belongs to the part of a family: it is not the libraries of another family.
fn is_for_family(
    package: &CheckedPackage,
    family: Option<&str>,
    families: &BTreeSet<&str>,
) -> bool {
    let mut other_families = families.iter().filter(|other| Some(**other) != family);
    let libraries_family = package.libraries_family();
    libraries_family.is_none_or(|name| !other_families.any(|other| other.to_lowercase() == name))
}

/// Splits a part by platform, if its wheels are for two platforms.
fn split_by_platform(part: InstallGroup) -> Vec<InstallGroup> {
    if part.set.platforms().len() < 2 {
        return vec![part];
    }
    // A package for any platform is in both parts, and so is a package whose invalid name tells no platform.
    let on = |name: &str, platform: &str, other: &str| InstallGroup {
        label: format!("{} for {name}", part.label),
        is_windows: platform == "win",
        set: part.set.filtered(|package| {
            let tag = package.platform().unwrap_or(&package.file);
            let is_wheel = has_extension(&package.file, "whl");
            !is_wheel || tag.contains(platform) || !tag.contains(other)
        }),
    };
    vec![on("Linux", "linux", "win"), on("Windows", "win", "linux")]
}

/// Merges the findings of all parts. If several parts have the package of a finding, and not all of them have
/// the finding, it says in which part it is.
fn merge_findings(parts: &[InstallGroup], findings_of_parts: &[Vec<Finding>]) -> Vec<Finding> {
    let is_in_every_part =
        |finding: &Finding| findings_of_parts.iter().all(|findings| findings.contains(finding));
    let mut merged: Vec<Finding> = Vec::new();
    for (part, part_findings) in parts.iter().zip(findings_of_parts) {
        for finding in part_findings {
            let part_count = finding.file.as_ref().map_or(parts.len(), |file| {
                let has_file =
                    |part: &&InstallGroup| part.set.packages().any(|it| it.file == *file);
                parts.iter().filter(has_file).count()
            });
            let mut labelled = finding.clone();
            if part_count > 1 && !is_in_every_part(finding) {
                labelled.fact = format!("{}, in {}", finding.fact, part.label);
            }
            merged.push(labelled);
        }
    }
    merged
}
