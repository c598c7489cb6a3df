//! Applies the rules to the facts of a set ([`judge`]).
//!
//! A set may be for several platforms, and a legacy set, without device wheels, for several
//! families. Then each family has a directory with its `rocm` sdist and development files,
//! `dist/gfx94X-dcgpu`, below the common packages. What is installed together, a part, is checked
//! as a set of its own.

use std::collections::BTreeSet;

use crate::{
    check::{
        Coverage, Finding, PackageInventory, Report, Rule, SetFacts,
        facts::{CheckedPackage, NAMES},
        path_facts::has_extension,
        rules::{self, CheckOptions},
    },
    target::Target,
};

/// Applies the rules to a set. `differences` are the findings from comparing it with a plan. Returns
/// the report, and the entries of the accept list that accepted nothing.
pub fn judge(
    set: &SetFacts,
    options: &CheckOptions,
    baseline: Option<&PackageInventory>,
    differences: Vec<Finding>,
) -> (Report, Vec<String>) {
    let of_all = rules::findings_of_all(set, options, baseline);
    let (mut findings, coverage) = of_parts(set, options, of_all);
    let has_plan = !differences.is_empty();
    findings.extend(differences);
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    let is_asked =
        |rule: &Rule| options.selection.has(rule) && !(options.is_part && rule.needs_whole_set);
    findings.retain(|finding| is_asked(finding.rule));
    let (accepted, unused) = options.accept.apply(&mut findings, &options.today, |rule| {
        let is_there = match rule.subject() {
            '7' => set.published.is_some(),
            '8' => baseline.is_some(),
            '9' => has_plan,
            _ => true,
        };
        is_there && is_asked(rule)
    });
    let report = Report::new(set.packages().count(), findings, coverage);
    (Report { accepted, ..report }, unused)
}

/// The findings about the parts of a set and about the whole of it, and the coverage.
fn of_parts(
    set: &SetFacts,
    options: &CheckOptions,
    of_all: Vec<Finding>,
) -> (Vec<Finding>, Coverage) {
    let parts = parts(set);
    if let [_] = parts.as_slice() {
        let coverage = Coverage::of(&set.ours());
        let mut findings = rules::findings(set, options, &coverage);
        findings.extend(of_all);
        rules::leave_out_followers(&mut findings);
        return (findings, coverage);
    }
    let is_covered = |target: &Target| parts.iter().any(|it| rules::covers(&it.set, target));
    let mut options = options.clone();
    // A target that one part covers need not be in the others.
    options.targets.retain(|target| !is_covered(target));
    let mut coverage = Coverage::default();
    let mut all = Vec::new();
    for part in &parts {
        let own = Coverage::of(&part.set.ours());
        let mut findings = rules::findings(&part.set, &options, &own);
        rules::leave_out_followers(&mut findings);
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

impl InstallGroup {
    fn has(&self, file: &str) -> bool {
        self.set.packages().any(|it| it.file == file)
    }
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

fn is_for_family(package: &CheckedPackage<'_>, family: Option<&str>, all: &BTreeSet<&str>) -> bool {
    let name = package.identity.map(|(name, _)| name.normalized());
    let own = name.and_then(|name| name.strip_prefix(&NAMES.of_family));
    let mut others = all.iter().filter(|other| Some(**other) != family);
    own.is_none_or(|own| !others.any(|other| other.to_lowercase() == own))
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
            let tag = it.platform.unwrap_or(it.file);
            !has_extension(it.file, "whl") || tag.contains(platform) || !tag.contains(other)
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
                parts.iter().filter(|part| part.has(file)).count()
            });
            if holders > 1 && !everywhere(&finding) {
                finding.fact = format!("{}, in {}", finding.fact, part.label);
            }
            findings.push(finding);
        }
    }
    findings
}
