//! Rules about the packages of a set: none is missing, and all belong to the same build.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde_json::Value;

use super::Observed;
use crate::{
    check::{
        coverage,
        facts::{CheckedPackage, SetFacts},
        rule::{self, Findings},
    },
    index::{identity, is_ours},
    policy::{DistNames, DistributionMode, catalog::CATALOG, dist_info},
};
use rocwheel_base::{
    relpath::join,
    target::{Target, TargetTable},
    version::Version,
};
use rocwheel_wheel::{DistName, Metadata, Requirement, Tag, VariantLabel, tar::TarKind};

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    requirements(set, findings);
    versions(set, findings);
    builds(set, findings);
    selector_targets(set, findings);
    duplicates(set, findings);
    devices(set, findings);
    needed_packages(set, findings);
    selected_packages(set, findings);
    for artifact in &set.unshipped {
        let fact = format!("no package has the files of the artifact `{artifact}`");
        findings.of_set(rule::UNSHIPPED_ARTIFACT, fact);
    }
    // A job that builds on ROCm publishes only its packages, to the place where our packages are.
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

/// The projects that each package requires, itself or through another package. Device packages, which
/// are required under extras only, count as required by the package to which they add code.
pub(super) fn required(set: &SetFacts) -> BTreeMap<String, BTreeSet<String>> {
    let names = DistNames::built_in();
    let mut required: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, metadata) in set.metadata() {
        required.entry(metadata.name.normalized().to_owned()).or_default();
        for (wanted, _) in requirements_of(&metadata, &set.platforms()) {
            let project = wanted.normalized().to_owned();
            if names.device_scope(&wanted).is_some() {
                required.entry(names.libraries.clone()).or_default().insert(project.clone());
            }
            required.entry(metadata.name.normalized().to_owned()).or_default().insert(project);
        }
    }
    // Each round adds what the required projects require themselves, until a round adds nothing.
    loop {
        let known = required.clone();
        for wanted in required.values_mut() {
            let further: Vec<String> =
                wanted.iter().filter_map(|project| known.get(project)).flatten().cloned().collect();
            wanted.extend(further);
        }
        if required == known {
            return required;
        }
    }
}

/// The projects that a package requires on some of these platforms (`sys_platform`), and the only version
/// that each requirement allows. `None` if a requirement allows several versions.
fn requirements_of(metadata: &Metadata, platforms: &[&str]) -> Vec<(DistName, Option<Version>)> {
    lines_of(metadata, platforms)
        .map(|line| (line.name.clone(), line.pin()))
        .sorted()
        .dedup()
        .collect()
}

/// The `Requires-Dist` lines that count on some of these platforms.
fn lines_of(metadata: &Metadata, platforms: &[&str]) -> impl Iterator<Item = Requirement> {
    metadata
        .requirements()
        .filter(|line| platforms.iter().any(|platform| line.marker.may_hold_on(platform)))
}

/// Every package of ours that another package requires is in the set, in the required version.
fn requirements(set: &SetFacts, findings: &mut Findings) {
    let mut versions_of: BTreeMap<&DistName, Vec<&Version>> = BTreeMap::new();
    for name in set.packages().filter_map(CheckedPackage::filename) {
        versions_of.entry(&name.name).or_default().push(&name.version);
    }
    for (file, metadata) in set.metadata() {
        for (wanted, pin) in requirements_of(&metadata, &set.platforms()) {
            let name = wanted.normalized();
            match (versions_of.get(&wanted), pin) {
                _ if !is_ours(&wanted) => {
                    let fact = format!("it requires `{name}`, which is not one of our packages");
                    findings.of(rule::FOREIGN_REQUIREMENT, file, fact);
                }
                (None, _) => missing_package(set, file, &wanted, findings),
                (Some(versions), Some(pin)) if !versions.contains(&&pin) => {
                    let present =
                        versions.iter().map(ToString::to_string).sorted().dedup().join(", ");
                    let fact = format!("it requires `{name}` {pin}, but the set has {present}");
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

/// Reports that a package requires a package of ours that is not in the set.
fn missing_package(set: &SetFacts, file: &str, wanted: &DistName, findings: &mut Findings) {
    let name = wanted.normalized();
    let mut gone = set.published.iter().flat_map(|published| &published.gone);
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

/// A package requires the packages that its files need. A device wheel needs the libraries to which it adds
/// code, and development files need each package to which their symlinks lead.
fn needed_packages(set: &SetFacts, findings: &mut Findings) {
    // The project that has each top directory.
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for wheel in set.wheels.iter().filter(|it| it.device_target().is_none()) {
        let tops = wheel.members.iter().filter_map(|member| {
            let (top, _) = member.path.split_once('/')?;
            Some((top, wheel.project()?))
        });
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
        for devel in wheel.unpacked().filter(|_| wheel.has_our_dist_info()) {
            if let TarKind::Symlink(text) = &devel.entry.kind
                && let Some(target) = join(devel.entry.path.as_str(), text)
                && let Some(owner) = owners.get(target.split('/').next().unwrap_or_default())
            {
                wanted.insert(owner, "to which its symlinks lead");
            }
        }
        // A package does not require itself.
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

/// Our `rocm` requires the packages beside it: the core package always, each other package under its
/// extras. TheRock's sdist decides what it requires when it is installed.
fn selected_packages(set: &SetFacts, findings: &mut Findings) {
    for sdist in set.sdists.iter().filter(|sdist| sdist.has_our_dist_info()) {
        if let Ok(metadata) = &sdist.metadata {
            packages_of_selector(set, &sdist.package.file, metadata, findings);
        }
    }
}

/// One `rocm` sdist requires the packages beside it.
fn packages_of_selector(set: &SetFacts, file: &str, metadata: &Metadata, findings: &mut Findings) {
    let lines: Vec<Requirement> = lines_of(metadata, &set.platforms()).collect();
    let names = set.wheels.iter().filter_map(|wheel| Some(&wheel.package.filename()?.name));
    // A package does not require itself: a variant wheel of `rocm` is beside its sdist.
    for name in names.filter(|name| **name != metadata.name) {
        let lines_for_name: Vec<&Requirement> =
            lines.iter().filter(|line| line.name == *name).collect();
        // The extras under which `rocm` requires the package. The empty text stands for no extra.
        let extras = match DistNames::built_in().device_scope(name) {
            // RW203 reports a device wheel that no extra names.
            Some(_) if lines_for_name.is_empty() => Vec::new(),
            Some(target) => vec![format!("device-{target}"), "device-all".to_owned()],
            None => {
                let spec = CATALOG.packages().iter().find(|spec| {
                    let template = spec.dist_template(DistributionMode::Split);
                    template.python_template() == name.normalized()
                });
                let extra = spec.map(|spec| if spec.required { "" } else { &*spec.name });
                extra.map(str::to_owned).into_iter().collect()
            }
        };
        let is_lacking = |extra: &&String| {
            !lines_for_name.iter().any(|line| match extra.as_str() {
                "" => !line.marker.needs_extra(),
                extra => line.marker.is_for_extra(extra),
            })
        };
        for extra in extras.iter().filter(is_lacking) {
            let subject = match extra.as_str() {
                "" => "it".to_owned(),
                extra => format!("its extra `{extra}`"),
            };
            let fact = format!("{subject} does not require `{}`", name.normalized());
            findings.of(rule::LOOSE_REQUIREMENT, file, fact);
        }
    }
}

/// All packages of a set have one version.
fn versions(set: &SetFacts, findings: &mut Findings) {
    let mut files_of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for package in set.packages() {
        if let Some(name) = package.filename() {
            files_of.entry(name.version.to_string()).or_default().push(&package.file);
        }
    }
    // The set has the most frequent version. If two versions are equally frequent, the last in text
    // order counts, so that the result is the same each time.
    let most_frequent = files_of.iter().max_by_key(|(_, files)| files.len());
    let Some((set_version, _)) = most_frequent else { return };
    for (version, files) in files_of.iter().filter(|(version, _)| *version != set_version) {
        for file in files {
            let fact = format!("version {version}, but most of the set has {set_version}");
            findings.of(rule::VERSIONS_DISAGREE, file, fact);
        }
    }
}

/// Our `rocm` names the targets of the device wheels, and a default target for machines without a GPU.
fn selector_targets(set: &SetFacts, findings: &mut Findings) {
    let selector = set.selector().filter(|it| it.has_our_dist_info());
    let Some((selector, texts)) = selector.and_then(|it| Some((it, it.dist_info()?))) else {
        return;
    };
    let module = texts.module;
    let file = &selector.package.file;
    let wheels = set.device_wheels();
    for target in wheels.keys().map(Target::base) {
        let line = format!("AVAILABLE_TARGET_FAMILIES.append('{target}')");
        if !module.lines().any(|it| it == line) {
            let fact = format!("its `_dist_info.py` lacks the target `{target}`");
            findings.of(rule::UNKEPT_PROMISE, file, fact);
        }
    }
    let is_default = |line: &str| line.starts_with("DEFAULT_TARGET_FAMILY = ");
    if !wheels.is_empty() && !module.lines().any(is_default) {
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

/// The lines in which a package describes its set: the same lines for the same values. The result is without
/// the lines about the package itself, and in a legacy set without the lines about its family.
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

/// What the packages of one build say alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Build {
    version: String,
    lines: Vec<DistInfoLine>,
}

/// Packages of one version are of one build: each has the same `_dist_info.py`, apart from the lines
/// about the package itself, and the same `_dist_info.json`.
fn builds(set: &SetFacts, findings: &mut Findings) {
    // In a legacy set the packages of a family name only their family.
    let is_legacy = coverage::is_legacy(set);
    let mut builds: BTreeMap<Build, Vec<&str>> = BTreeMap::new();
    for (package, texts) in set.dist_infos() {
        let (Some(name), Some(tables)) = (package.filename(), texts.tables) else {
            continue;
        };
        let lines = dist_info_lines(texts.module, tables, is_legacy);
        let build = Build { version: name.version.to_string(), lines };
        builds.entry(build).or_default().push(&package.file);
    }
    // The build to which most packages of a version belong.
    let largest_build = |version: &str| {
        let of_version = builds.iter().filter(|(build, _)| build.version == version);
        of_version.max_by_key(|(_, files)| files.len())
    };
    for (build, files) in &builds {
        let Some((largest, _)) = largest_build(&build.version) else { continue };
        if largest == build {
            continue;
        }
        let lines = &build.lines;
        let others = &largest.lines;
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

/// A project has one wheel for each tag and each label of a variant.
fn duplicates(set: &SetFacts, findings: &mut Findings) {
    type Key<'a> = (&'a str, &'a Option<Tag>, &'a Option<VariantLabel>);
    let mut first_files: BTreeMap<Key<'_>, &str> = BTreeMap::new();
    for wheel in &set.wheels {
        let Ok(name) = &wheel.package.filename else { continue };
        let key = (name.name.normalized(), &name.tag, &name.label);
        let first = *first_files.entry(key).or_insert(&wheel.package.file);
        if first != wheel.package.file {
            let fact = format!("the set has `{first}` too");
            findings.of(rule::DUPLICATE_PACKAGE, &wheel.package.file, fact);
        }
    }
}

/// The target of each device wheel is known, and the selector has an extra for it. The selector has extras
/// for known targets only.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::check::facts::{ContentFacts, SdistContents, SdistFile, WheelFile};

    fn package(file: &str) -> CheckedPackage {
        let filename = file.parse().map_err(|_| String::new());
        CheckedPackage { file: file.to_owned(), size: 0, filename, sha256: None }
    }

    /// A `rocm` sdist of our builder with this line in PKG-INFO.
    fn selector(file: &str, line: &str) -> Arc<SdistFile> {
        let information = format!("Metadata-Version: 2.4\nName: rocm\nVersion: 1\n{line}\n");
        let module = b"import os\nclass FileEntry:\n    pass\n";
        let module = ContentFacts { kept: Some(module.to_vec()), ..ContentFacts::default() };
        let contents = SdistContents {
            files: BTreeMap::from([("src/rocm_sdk/_dist_info.py".to_owned(), module)]),
            ..SdistContents::default()
        };
        let metadata = Metadata::parse(information.as_bytes()).map_err(|it| it.to_string());
        Arc::new(SdistFile { package: package(file), metadata, copies_agree: true, contents })
    }

    #[test]
    fn each_rocm_sdist_is_judged_by_its_own_lines() {
        let wheel = Arc::new(WheelFile {
            package: package("rocm_profiler-1-py3-none-linux_x86_64.whl"),
            unreadable: None,
            contradictions: Vec::new(),
            members: Vec::new(),
            devel: None,
        });
        let line = "Requires-Dist: rocm-profiler==1; extra == 'profiler'";
        let found = |first: &str, second: &str| {
            let sdists = [selector("rocm-1.tar.gz", first), selector("rocm-2.tar.gz", second)];
            let set = SetFacts {
                wheels: vec![Arc::clone(&wheel)],
                sdists: sdists.into(),
                ..SetFacts::default()
            };
            let mut findings = Findings::default();
            selected_packages(&set, &mut findings);
            let lines = findings.into_vec().into_iter();
            lines
                .map(|it| format!("{}: {}", it.file.clone().unwrap_or_default(), it.text()))
                .join("\n")
        };
        let lacks = |file| format!("{file}: its extra `profiler` does not require `rocm-profiler`");
        assert_eq!(found(line, line), "");
        assert_eq!(found(line, ""), lacks("rocm-2.tar.gz"));
        assert_eq!(found("", line), lacks("rocm-1.tar.gz"));
    }
}
