//! Applies the rules to the facts of a set ([`judge`]): pure functions from facts to findings, one
//! file for each subject.
//!
//! A set may be for several platforms, and a legacy set, without device wheels, for several
//! families. Then each family has a directory with its `rocm` sdist and development files,
//! `dist/gfx94X-dcgpu`, below the common packages. The packages that are installed together are a group
//! ([`InstallGroup`]), and each group is checked like a set. A part (`--part`) is something else: what one
//! of several jobs uploads.

mod complete;
mod destination;
mod installed;
mod kpack;
mod others;
mod published;
mod python;
mod targets;
mod valid;
mod variants;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    check::{
        AcceptList, Report, RuleSelection,
        accept::AcceptOutcome,
        coverage::Coverage,
        facts::{CheckedPackage, ContentFacts, Elf, SetFacts},
        path_facts::has_extension,
        rule::{Finding, FindingOrder, Findings, Rule},
    },
    index::identity,
    policy::{DistributionMode, catalog::CATALOG},
};
use rocwheel_base::target::Target;
use rocwheel_elf::loader::{FileContents, InstalledTree};
use rocwheel_wheel::tar::TarKind;

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

impl CheckOptions {
    /// Whether a check with these options asks every rule about a whole set, and nothing more. The accept list
    /// does not matter.
    pub fn are_usual(&self) -> bool {
        let RuleSelection { select, ignore } = &self.selection;
        self.targets.is_empty() && select.is_empty() && ignore.is_empty() && !self.is_part
    }
}

pub use others::{conflicting_bundles, defects_beside_ours, others_with_rocm};

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
struct GroupOutcome {
    findings: Vec<Finding>,
    coverage: Coverage,
}

fn check_group(set: &SetFacts, options: &CheckOptions) -> GroupOutcome {
    let ours = set.ours();
    let observed = Observed {
        all: set,
        set: &ours,
        tree: install_tree(&ours),
        // A table of a part of the code would say that libraries lack the rest.
        coverage: if ours.is_partly_read() { Coverage::default() } else { Coverage::of(&ours) },
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
        variants::find,
    ] {
        find(&observed, &mut findings);
    }
    GroupOutcome { findings: findings.into_vec(), coverage: observed.coverage }
}

/// All packages of a set installed into one directory, with the development files unpacked.
pub fn install_tree(set: &SetFacts) -> InstalledTree<'_> {
    let mut tree = InstalledTree::default();
    for (wheel, member) in set.members() {
        let content = member.content.as_ref().ok();
        tree.add_file(&member.path, &wheel.package.file, file_contents(content));
    }
    for wheel in &set.wheels {
        for devel in wheel.unpacked() {
            let path = devel.entry.path.as_str();
            match &devel.entry.kind {
                TarKind::Directory => tree.add_directory(path),
                TarKind::Symlink(text) => tree.add_link(path, text, &wheel.package.file),
                // `rocm-sdk` does not unpack hard links. Another rule reports them.
                TarKind::Hardlink(_) => {}
                TarKind::File { .. } => {
                    tree.add_file(path, &wheel.package.file, file_contents(devel.content.as_ref()));
                }
            }
        }
    }
    tree.add_libraries_behind_links();
    tree
}

fn file_contents(content: Option<&ContentFacts>) -> FileContents<'_> {
    match content.filter(|it| !it.is_unread).map(|it| &it.elf) {
        Some(Some(Elf::Read(elf))) => FileContents::Elf(&elf.facts),
        Some(None) => FileContents::Other,
        _ => FileContents::Unknown,
    }
}

/// Moves findings that only follow from another finding into that finding. If a package is missing or
/// unreadable, packages that require it seem to break rules too. `of_whole` are the findings about the whole
/// set, which may be causes as well.
///
/// Only a finding that the report shows may stand for others: without its cause, a consequence is the only
/// finding from which the user learns of the defect.
fn leave_out_consequences(
    set: &SetFacts,
    findings: &mut Vec<Finding>,
    of_whole: &mut [Finding],
    is_shown: &impl Fn(&Rule) -> bool,
) {
    let projects: BTreeSet<&str> =
        set.packages().filter_map(|package| Some(package.filename()?.name.normalized())).collect();
    // A page may promise a file of another group or another version. If this group has a package of the
    // project, no finding follows from that.
    let missing_in_whole = of_whole
        .iter()
        .filter(|finding| finding.lacks.as_deref().is_some_and(|it| !projects.contains(it)));
    let lacks: BTreeSet<String> = findings
        .iter()
        .chain(missing_in_whole)
        .filter(|finding| is_shown(finding.rule))
        .filter_map(|finding| finding.lacks.clone())
        .collect();
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
        let is_consequence = finding.rule.is_consequence && is_shown(finding.rule);
        let file = finding.file.as_deref().filter(|_| is_consequence)?;
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
    let mut kept = Vec::new();
    let mut consequences_of: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for finding in findings.drain(..) {
        match cause_of(&finding) {
            Some(project) => consequences_of.entry(project.clone()).or_default().push(finding),
            None => kept.push(finding),
        }
    }
    // The first finding about a missing package gets its consequences.
    for cause in kept.iter_mut().chain(of_whole).filter(|finding| is_shown(finding.rule)) {
        let project = cause.lacks.as_ref();
        let consequences = project.and_then(|project| consequences_of.remove(project));
        cause.consequences.extend(consequences.unwrap_or_default());
    }
    *findings = kept;
}

/// The result of [`judge`].
pub struct Judgement {
    pub report: Report,
    /// The entries of the accept list that accepted nothing, each with the reason.
    pub unused_entries: Vec<String>,
}

/// Applies the rules to a set. `compared` are the findings from comparing it with something else.
pub fn judge(set: &SetFacts, options: &CheckOptions, compared: Vec<Finding>) -> Judgement {
    let fits_part = |rule: &Rule| !(options.is_part && rule.needs_whole_set);
    let is_selected = |rule: &Rule| fits_part(rule) && options.selection.has(rule);
    // Pages and the place of a run are for the whole set, not for a group.
    let mut of_whole = Findings::default();
    if let Some(published) = &set.published {
        published::find(set, published, &mut of_whole);
        variants::find_published(set, published, &mut of_whole);
    }
    if let Some(destination) = &options.destination {
        destination::find(set, destination, &mut of_whole);
    }
    let GroupOutcome { mut findings, coverage } =
        check_groups(set, options, of_whole.into_vec(), &is_selected);
    findings.extend(compared);
    findings.sort_by(|left, right| left.order().cmp(&right.order()));
    findings.dedup_by(|repeated, first| {
        let is_same = repeated.order() == first.order();
        if is_same {
            // Each group in which a package is missing has other consequences.
            first.consequences.append(&mut repeated.consequences);
        }
        is_same
    });
    findings.retain(|finding| fits_part(finding.rule));
    let count_before_selection = findings.len();
    findings.retain(|finding| is_selected(finding.rule));
    let skipped = count_before_selection - findings.len();
    // Not each check has pages, a baseline, frameworks, a destination or the contents of all files. A check without
    // them does not show that an entry of the accept list is unused.
    let shows_unused_entry = |rule: &Rule| {
        let needs_more = matches!(rule.subject(), '7' | '8' | 'F')
            || destination::RULES.contains(&rule)
            || set.is_partly_read();
        !needs_more && is_selected(rule)
    };
    let accept = &options.accept;
    let AcceptOutcome { accepted, unused } =
        accept.apply(&mut findings, &options.today, shows_unused_entry);
    let report = Report::new(set.counts(), findings, coverage);
    let report = Report { skipped, accepted, read: set.read_amount, ..report };
    Judgement { report, unused_entries: unused }
}

/// The findings about the groups of a set, together with the findings about the whole set, and the coverage.
/// Findings that follow from a finding for which `is_shown` holds are inside that finding.
fn check_groups(
    set: &SetFacts,
    options: &CheckOptions,
    mut of_whole: Vec<Finding>,
    is_shown: &impl Fn(&Rule) -> bool,
) -> GroupOutcome {
    let groups = groups(set);
    let mut coverage = Coverage::default();
    let mut findings_of_groups = Vec::new();
    for group in &groups {
        // A required target that another group covers need not be in this group.
        let covers = |group: &InstallGroup, target: &Target| targets::covers(&group.set, target);
        let mut group_options = options.clone();
        group_options.targets.retain(|target| {
            covers(group, target) || !groups.iter().any(|other| covers(other, target))
        });
        let mut outcome = check_group(&group.set, &group_options);
        leave_out_consequences(&group.set, &mut outcome.findings, &mut of_whole, is_shown);
        findings_of_groups.push(outcome.findings);
        if groups.len() == 1 {
            coverage = outcome.coverage;
        } else {
            let suffix = if group.is_windows { " (Windows)" } else { "" };
            coverage.extend(outcome.coverage, suffix);
        }
    }
    let mut findings = merge_findings(&groups, &findings_of_groups);
    findings.extend(of_whole);
    GroupOutcome { findings, coverage }
}

/// The packages of one family on one platform, which are installed together.
struct InstallGroup {
    /// ``the set of `gfx94X-dcgpu` for Windows``
    label: String,
    is_windows: bool,
    set: SetFacts,
}

/// The groups of a set, at least one.
fn groups(set: &SetFacts) -> Vec<InstallGroup> {
    let families: BTreeSet<&str> = set.packages().filter_map(|it| it.family()).collect();
    let of_family = |family: Option<&str>| InstallGroup {
        label: family.map_or("the set".to_owned(), |it| format!("the set of `{it}`")),
        is_windows: false,
        set: set.filtered(|package| match package.family() {
            Some(package_family) => Some(package_family) == family,
            // The libraries of each family may be beside the common packages, and are in its group only.
            None => is_for_family(package, family, &families),
        }),
    };
    let groups_of_families: Vec<InstallGroup> = if families.is_empty() {
        vec![of_family(None)]
    } else {
        families.iter().map(|it| of_family(Some(it))).collect()
    };
    groups_of_families.into_iter().flat_map(split_by_platform).collect()
}

/// Whether a common package belongs to the group of a family: it is not the libraries of another family.
fn is_for_family(
    package: &CheckedPackage,
    family: Option<&str>,
    families: &BTreeSet<&str>,
) -> bool {
    let mut other_families = families.iter().filter(|other| Some(**other) != family);
    let libraries_family = package.libraries_family();
    libraries_family.is_none_or(|name| !other_families.any(|other| other.to_lowercase() == name))
}

/// Splits a group by platform, if its wheels are for two platforms.
fn split_by_platform(group: InstallGroup) -> Vec<InstallGroup> {
    if group.set.platforms().len() < 2 {
        return vec![group];
    }
    // A package for any platform is in both groups, and so is a package whose invalid name tells no platform.
    let on = |name: &str, platform: &str, other: &str| InstallGroup {
        label: format!("{} for {name}", group.label),
        is_windows: platform == "win",
        set: group.set.filtered(|package| {
            let tag = package.platform().unwrap_or(&package.file);
            let is_wheel = has_extension(&package.file, "whl");
            !is_wheel || tag.contains(platform) || !tag.contains(other)
        }),
    };
    vec![on("Linux", "linux", "win"), on("Windows", "win", "linux")]
}

/// Merges the findings of all groups. A finding says in which group it is, unless each group that has its
/// package has the finding too.
fn merge_findings(groups: &[InstallGroup], findings_of_groups: &[Vec<Finding>]) -> Vec<Finding> {
    struct Group<'a> {
        files: BTreeSet<&'a str>,
        findings: BTreeSet<FindingOrder<'a>>,
    }
    let known: Vec<Group<'_>> = groups
        .iter()
        .zip(findings_of_groups)
        .map(|(group, findings)| Group {
            files: group.set.packages().map(|package| package.file.as_str()).collect(),
            findings: findings.iter().map(Finding::order).collect(),
        })
        .collect();
    let mut merged: Vec<Finding> = Vec::new();
    for (group, findings) in groups.iter().zip(findings_of_groups) {
        for finding in findings {
            let may_have = |known: &&Group<'_>| {
                finding.file.as_deref().is_none_or(|file| known.files.contains(file))
            };
            let mut concerned = known.iter().filter(may_have);
            let is_in_each = concerned.all(|known| known.findings.contains(&finding.order()));
            let mut labelled = finding.clone();
            if !is_in_each {
                labelled.fact = format!("{}, in {}", finding.fact, group.label);
            }
            merged.push(labelled);
        }
    }
    merged
}
