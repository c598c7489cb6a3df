//! Rules about the packages of a set: none is missing, and all belong to the same build.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::Value;

use super::Observed;
use crate::{
    archive::TarKind,
    check::{
        coverage,
        facts::{CheckedPackage, SetFacts},
        rule::{self, Findings},
    },
    index::{identity, is_ours},
    policy::{DistNames, DistributionMode, catalog::CATALOG, dist_info},
    relpath::join,
    target::{Target, TargetTable},
    version::Version,
    wheel::{DistName, Metadata, Requirement, Tag},
};

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    requirements(set, findings);
    versions(set, findings);
    builds(set, findings);
    own_targets(set, findings);
    duplicates(set, findings);
    devices(set, findings);
    needed(set, findings);
    selected(set, findings);
    for artifact in &set.unshipped {
        let fact = format!("no package has the files of the artifact `{artifact}`");
        findings.of_set(rule::UNSHIPPED_ARTIFACT, fact);
    }
    // A job that builds on ROCm publishes its packages alone, into the place of ours.
    let has_only_others = set.packages().next().is_none() && seen.all.packages().next().is_some();
    if set.selector().is_none() && !has_only_others {
        let fact = format!("no `rocm` sdist among {} packages", set.packages().count());
        findings.of_set(rule::MISSING_SELECTOR, fact);
    }
}

/// The targets for which the selector has extras on the platforms of these wheels.
pub(super) fn advertised(set: &SetFacts) -> BTreeSet<Target> {
    let Some(Ok(metadata)) = set.selector().map(|selector| &selector.metadata) else {
        return BTreeSet::new();
    };
    let requirements = requirements_of(metadata, &set.platforms()).into_iter();
    let names = DistNames::built_in();
    requirements.filter_map(|(name, _)| names.device_target(&name)).collect()
}

/// The projects that a package requires, itself or through another one. Device packages, which
/// are required under extras only, count as required by the package that they add code to.
pub(super) fn required(set: &SetFacts) -> BTreeMap<String, BTreeSet<String>> {
    let names = DistNames::built_in();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, metadata) in set.metadata() {
        all.entry(metadata.name.normalized().to_owned()).or_default();
        for (wanted, _) in requirements_of(&metadata, &set.platforms()) {
            let project = wanted.normalized().to_owned();
            if names.device_scope(&wanted).is_some() {
                all.entry(names.libraries.clone()).or_default().insert(project.clone());
            }
            all.entry(metadata.name.normalized().to_owned()).or_default().insert(project);
        }
    }
    loop {
        let before: usize = all.values().map(BTreeSet::len).sum();
        let known = all.clone();
        for wanted in all.values_mut() {
            let further = wanted.iter().filter_map(|it| known.get(it)).flatten();
            let further: Vec<String> = further.cloned().collect();
            wanted.extend(further);
        }
        if before == all.values().map(BTreeSet::len).sum::<usize>() {
            return all;
        }
    }
}

/// What a package requires on some of these platforms (`sys_platform`), and the only version that each
/// requirement allows.
fn requirements_of(metadata: &Metadata, platforms: &[&str]) -> Vec<(DistName, Option<Version>)> {
    lines_of(metadata, platforms)
        .map(|line| (line.name.clone(), line.pin()))
        .sorted()
        .dedup()
        .collect()
}

fn lines_of(metadata: &Metadata, platforms: &[&str]) -> impl Iterator<Item = Requirement> {
    metadata
        .requirements()
        .filter(|line| platforms.iter().any(|platform| line.marker.may_hold_on(platform)))
}

/// Every package of ours that another one requires is in the set, in the required version.
fn requirements(set: &SetFacts, findings: &mut Findings) {
    let mut there: BTreeMap<&DistName, Vec<&Version>> = BTreeMap::new();
    for name in set.packages().filter_map(CheckedPackage::identity) {
        let versions = there.entry(&name.name).or_default();
        versions.push(&name.version);
    }
    for (file, metadata) in set.metadata() {
        for (wanted, pin) in requirements_of(&metadata, &set.platforms()) {
            let name = wanted.normalized();
            match (there.get(&wanted), pin) {
                _ if !is_ours(&wanted) => {
                    let fact = format!("it requires `{name}`, which is not one of our packages");
                    findings.of(rule::FOREIGN_REQUIREMENT, file, fact);
                }
                (None, _) => missing(set, file, &wanted, findings),
                (Some(versions), Some(pin)) if !versions.contains(&&pin) => {
                    let there = versions.iter().map(ToString::to_string);
                    let there = there.sorted().dedup().join(", ");
                    let fact = format!("it requires `{name}` {pin}, but the set has {there}");
                    findings.of(rule::UNRESOLVED_REQUIREMENT, file, fact);
                }
                (Some(_), None) => {
                    let fact = format!("it requires `{name}` without pinning its version");
                    findings.of(rule::LOOSE_REQUIREMENT, file, fact);
                }
                (Some(_), Some(_)) => {}
            }
        }
    }
}

/// Reports that a package requires one of ours that is not in the set.
fn missing(set: &SetFacts, file: &str, wanted: &DistName, findings: &mut Findings) {
    let name = wanted.normalized();
    let mut gone = set.published.iter().flat_map(|it| &it.gone);
    if gone.any(|file| identity(file).is_some_and(|(name, _)| name == *wanted)) {
        // RW701 reports that a page promises its file.
    } else if coverage::is_legacy(set) && is_in_libraries(set, wanted) {
        // The code is in the libraries of the family.
    } else if DistNames::built_in().device_scope(wanted).is_some() {
        let fact = format!("it has an extra for `{name}`, which is not in the set");
        findings.of(rule::MISSING_DEVICE_WHEEL, file, fact);
    } else {
        let fact = format!("it requires `{name}`, which is not in the set");
        findings.cause(rule::UNRESOLVED_REQUIREMENT, file, Some(wanted), fact);
    }
}

/// Whether the libraries of a family replace a package. The `rocm` sdist of TheRock's legacy builds
/// names packages for device code and for single targets, and none of them is built.
fn is_in_libraries(set: &SetFacts, name: &DistName) -> bool {
    let names = DistNames::built_in();
    let target = names.libraries_family(name);
    match target.and_then(|it| it.parse::<Target>().ok()) {
        Some(target) => set.wheels.iter().any(|it| coverage::family_targets(it).contains(&target)),
        None => names.device_scope(name).is_some(),
    }
}

/// A package requires those that its files need: a device wheel the libraries to which it adds code, and the
/// development files each package to which their symlinks lead.
fn needed(set: &SetFacts, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for wheel in set.wheels.iter().filter(|it| it.device_target().is_none()) {
        let tops = wheel.members.iter();
        let tops = tops.filter_map(|it| Some((it.path.split_once('/')?.0, wheel.project()?)));
        owners.extend(tops.dedup());
    }
    for wheel in &set.wheels {
        let Some(metadata) = wheel.metadata() else {
            continue;
        };
        let mut wanted: BTreeMap<&str, &str> = BTreeMap::new();
        if let Some(Ok(_)) = wheel.device_target() {
            wanted.insert(&DistNames::built_in().libraries, "which its code is for");
        }
        for devel in wheel.unpacked().filter(|_| wheel.is_built_by_us()) {
            if let TarKind::Symlink(text) = &devel.entry.kind
                && let Some(place) = join(devel.entry.path.as_str(), text)
                && let Some(owner) = owners.get(place.split('/').next().unwrap_or_default())
            {
                wanted.insert(owner, "to which its symlinks lead");
            }
        }
        wanted.remove(metadata.name.normalized());
        for (name, _) in requirements_of(&metadata, &set.platforms()) {
            wanted.remove(name.normalized());
        }
        for (name, why) in wanted {
            let fact = format!("it does not require `{name}`, {why}");
            findings.of(rule::LOOSE_REQUIREMENT, &wheel.package.file, fact);
        }
    }
}

/// Our `rocm` requires the packages beside it: the core package always, each other one under its
/// extras. TheRock's sdist decides that when it is installed.
fn selected(set: &SetFacts, findings: &mut Findings) {
    let (files, metadata): (Vec<&String>, Vec<&Metadata>) = set
        .sdists
        .iter()
        .filter(|sdist| sdist.is_built_by_us())
        .filter_map(|sdist| Some((&sdist.package.file, sdist.metadata.as_ref().ok()?)))
        .unzip();
    let Some(file) = files.first() else { return };
    let platforms = set.platforms();
    let lines: Vec<Requirement> = metadata.iter().flat_map(|it| lines_of(it, &platforms)).collect();
    for name in set.wheels.iter().filter_map(|it| it.package.identity()) {
        let name = &name.name;
        let lines: Vec<_> = lines.iter().filter(|it| it.name == *name).collect();
        let extras = match DistNames::built_in().device_scope(name) {
            // RW203 reports a device wheel that no extra names.
            Some(_) if lines.is_empty() => Vec::new(),
            Some(target) => vec![format!("device-{target}"), "device-all".to_owned()],
            None => {
                let mut packages = CATALOG.packages().iter();
                let spec = packages.find(|it| {
                    let template = it.dist_template(DistributionMode::Split);
                    template.python_template() == name.normalized()
                });
                let extra = spec.map(|it| if it.required { "" } else { &*it.name });
                extra.map(str::to_owned).into_iter().collect()
            }
        };
        let is_lacking = |extra: &&String| {
            !lines.iter().any(|line| match extra.as_str() {
                "" => !line.marker.needs_extra(),
                extra => line.marker.is_for_extra(extra),
            })
        };
        for extra in extras.iter().filter(is_lacking) {
            let whose = match extra.as_str() {
                "" => "it".to_owned(),
                extra => format!("its extra `{extra}`"),
            };
            let fact = format!("{whose} does not require `{}`", name.normalized());
            findings.of(rule::LOOSE_REQUIREMENT, file, fact);
        }
    }
}

fn versions(set: &SetFacts, findings: &mut Findings) {
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for package in set.packages() {
        if let Some(name) = package.identity() {
            let files = files.entry(name.version.to_string()).or_default();
            files.push(&package.file);
        }
    }
    // The most frequent version is that of the set. Of equally frequent ones the last in text order
    // is taken, so that the result is the same each time.
    let most = files.iter().max_by_key(|(_, files)| files.len());
    let Some((most, _)) = most else { return };
    for (version, files) in files.iter().filter(|(version, _)| *version != most) {
        for file in files {
            let fact = format!("version {version}, but most of the set has {most}");
            findings.of(rule::VERSIONS_DISAGREE, file, fact);
        }
    }
}

/// Our `rocm` knows the targets of the device wheels, and which is taken if there is no GPU.
fn own_targets(set: &SetFacts, findings: &mut Findings) {
    let selector = set.selector().filter(|it| it.is_built_by_us());
    let Some((selector, texts)) = selector.and_then(|it| Some((it, it.dist_info()?))) else {
        return;
    };
    let text = texts.module;
    let file = &selector.package.file;
    let wheels = set.device_wheels();
    for target in wheels.keys().map(Target::base) {
        let line = format!("AVAILABLE_TARGET_FAMILIES.append('{target}')");
        if !text.lines().any(|it| it == line) {
            let fact = format!("its `_dist_info.py` lacks the target `{target}`");
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
    }
    let is_default = |line: &str| line.starts_with("DEFAULT_TARGET_FAMILY = ");
    if !wheels.is_empty() && !text.lines().any(is_default) {
        let fact = "its `_dist_info.py` names no target for machines without a GPU";
        findings.of(rule::UNKEPT_PROMISE, file, fact);
    }
}

/// One statement of `_dist_info.py`, or one line of the tables in `_dist_info.json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DistInfoLine {
    file: &'static str,
    line: String,
}

/// What a package says of its set, in the same lines for the same values. The lines about the package
/// itself are left out, and in a legacy set those about its family.
fn dist_info_lines(module: &str, tables: &str, is_legacy: bool) -> Vec<DistInfoLine> {
    let is_common = |line: &&str| {
        let is_about_package = line.starts_with("THIS_");
        let is_about_family = is_legacy && line.contains("_TARGET_FAMIL");
        !is_about_package && !is_about_family
    };
    // Statements that add to a list may come in any order: the list is a set.
    let (mut additions, mut statements): (Vec<&str>, Vec<&str>) = module
        .lines()
        .filter(is_common)
        .partition(|line| line.contains("_TARGET_FAMILIES.append("));
    additions.sort_unstable();
    statements.append(&mut additions);
    // The keys of an object may come in any order, and the file may have any line breaks. Another rule
    // reports tables that are not JSON.
    let rendered = serde_json::from_str::<Value>(tables).ok().and_then(|mut values| {
        values.sort_all_objects();
        serde_json::to_string_pretty(&values).ok()
    });
    // A comma shows only whether a value is the last one.
    let in_file =
        |file| move |line: &str| DistInfoLine { file, line: line.trim_end_matches(',').to_owned() };
    let module_lines = statements.into_iter().map(in_file(dist_info::MODULE));
    let table_lines = rendered.as_deref().unwrap_or(tables).lines().map(in_file(dist_info::TABLES));
    module_lines.chain(table_lines).collect()
}

/// Packages of one version are of one build: each has the same `_dist_info.py`, but for the lines
/// about the package itself, and the same `_dist_info.json`.
fn builds(set: &SetFacts, findings: &mut Findings) {
    // In a legacy set the packages of a family name that family alone.
    let is_legacy = coverage::is_legacy(set);
    let mut builds: BTreeMap<(String, Vec<DistInfoLine>), Vec<&str>> = BTreeMap::new();
    for (package, texts) in set.dist_infos() {
        let (Some(name), Some(tables)) = (package.identity(), texts.tables) else {
            continue;
        };
        let lines = dist_info_lines(texts.module, tables, is_legacy);
        let files = builds.entry((name.version.to_string(), lines)).or_default();
        files.push(&package.file);
    }
    // The build that most packages of a version are of.
    let most = |version: &str| {
        let same = builds.iter().filter(|((other, _), _)| other == version);
        same.max_by_key(|(_, files)| files.len())
    };
    for ((version, lines), files) in &builds {
        let Some(((_, others), _)) = most(version).filter(|((_, others), _)| others != lines)
        else {
            continue;
        };
        let first_lacking = |lines: &[DistInfoLine], others: &[DistInfoLine]| {
            let present: BTreeSet<&DistInfoLine> = others.iter().collect();
            lines.iter().find(|line| !present.contains(line)).cloned()
        };
        let fact = match (first_lacking(others, lines), first_lacking(lines, others)) {
            (Some(DistInfoLine { file, line }), _) => {
                format!("its `{file}` lacks `{}`, which others have", line.trim())
            }
            (None, Some(DistInfoLine { file, line })) => {
                format!("its `{file}` has `{}`, which others lack", line.trim())
            }
            (None, None) => "its tables have their lines in another order".to_owned(),
        };
        for file in files {
            findings.of(rule::OTHER_BUILD, file, &fact);
        }
    }
}

/// A project has one wheel for each tag.
fn duplicates(set: &SetFacts, findings: &mut Findings) {
    let mut seen: BTreeMap<(&str, &Option<Tag>), &str> = BTreeMap::new();
    for wheel in &set.wheels {
        let Ok(name) = &wheel.package.name else { continue };
        let key = (name.name.normalized(), &name.tag);
        let first = *seen.entry(key).or_insert(&wheel.package.file);
        if first != wheel.package.file {
            let fact = format!("the set has `{first}` too");
            findings.of(rule::DUPLICATE_PACKAGE, &wheel.package.file, fact);
        }
    }
}

/// The target of each device wheel is known, and the selector has an extra for it. It has extras for
/// known targets only.
fn devices(set: &SetFacts, findings: &mut Findings) {
    let is_unknown = |target: &Target| TargetTable::builtin().product(target).is_none();
    let advertised = advertised(set);
    if let Some(selector) = set.selector() {
        for target in advertised.iter().filter(|it| is_unknown(it)) {
            let fact = format!("it has an extra for `{target}`, which is not a known target");
            findings.of(rule::UNKNOWN_TARGET, &selector.package.file, fact);
        }
    }
    for wheel in &set.wheels {
        match wheel.device_target() {
            Some(Err(text)) => {
                let fact = format!("not a target: {text:?}");
                findings.of(rule::UNKNOWN_TARGET, &wheel.package.file, fact);
            }
            Some(Ok(target)) if is_unknown(&target) => {
                let fact = format!("not a known target: `{target}`");
                findings.of(rule::UNKNOWN_TARGET, &wheel.package.file, fact);
            }
            Some(Ok(target)) if set.selector().is_some() && !advertised.contains(&target) => {
                let fact = format!("`rocm` has no extra for `{target}`");
                findings.of(rule::UNADVERTISED_DEVICE_WHEEL, &wheel.package.file, fact);
            }
            Some(Ok(_)) | None => {}
        }
    }
}
