//! Rules about the packages of a set: none is missing, and all belong to the same build.

use std::collections::{BTreeMap, BTreeSet};

use super::Observed;
use crate::{
    check::{
        device_targets,
        facts::{NAMES, SetFacts},
        finding::Findings,
        options::CheckOptions,
        requirement::ParsedRequirement,
        rule,
    },
    set::{identity, is_ours},
    target::{Target, TargetTable},
    version::Version,
    wheel::{DistName, Metadata},
};

pub(super) fn find(seen: &Observed<'_>, options: &CheckOptions, findings: &mut Findings) {
    let set = seen.set;
    requirements(set, options, findings);
    versions(set, findings);
    duplicates(set, findings);
    devices(set, findings);
    siblings(set, findings);
    overlaid(set, findings);
    if set.selector().is_none() {
        let fact = format!("no `rocm` sdist among {} packages", set.len());
        findings.add(rule::MISSING_SELECTOR, (), fact);
    }
}

/// The targets for which the selector has extras on the platforms of these wheels.
pub(super) fn advertised(set: &SetFacts) -> BTreeSet<Target> {
    let Some(Ok(metadata)) = set.selector().map(|selector| &selector.metadata) else {
        return BTreeSet::new();
    };
    requirements_of(metadata, &set.platforms())
        .filter_map(|requirement| device(&requirement.name)?.parse().ok())
        .collect()
}

fn device(name: &DistName) -> Option<&str> {
    name.normalized().strip_prefix(&NAMES.device)
}

fn requirements_of<'a>(
    metadata: &'a Metadata,
    platforms: &'a [&'static str],
) -> impl Iterator<Item = ParsedRequirement> + 'a {
    let lines = metadata.requires_dist.iter();
    lines
        .filter_map(|line| ParsedRequirement::parse(line.as_str()))
        .filter(move |requirement| requirement.concerns(platforms))
}

/// Every package of ours that another one requires is in the set, in the required version.
fn requirements(set: &SetFacts, options: &CheckOptions, findings: &mut Findings) {
    let mut there: BTreeMap<&DistName, Vec<&Version>> = BTreeMap::new();
    for package in set.identities() {
        there.entry(package.name).or_default().push(package.version);
    }
    for (file, metadata) in set.metadata() {
        let mut seen = BTreeSet::new();
        for requirement in requirements_of(&metadata, &set.platforms()) {
            let name = requirement.name.normalized();
            if !seen.insert((name.to_owned(), requirement.pin.clone())) {
                continue;
            }
            if !is_ours(&requirement.name) {
                if !options.base.contains(&requirement.name) {
                    let fact = format!("it requires `{name}`, which is not one of our packages");
                    findings.add(rule::FOREIGN_REQUIREMENT, file, fact);
                }
                continue;
            }
            match (there.get(&requirement.name), &requirement.pin) {
                (None, _) => missing(set, file, &requirement.name, findings),
                (Some(versions), Some(pin)) if !versions.contains(&pin) => {
                    let there: BTreeSet<String> =
                        versions.iter().map(ToString::to_string).collect();
                    let there = Vec::from_iter(there).join(", ");
                    let fact = format!("it requires `{name}` {pin}, but the set has {there}");
                    findings.add(rule::UNRESOLVED_REQUIREMENT, file, fact);
                }
                (Some(_), None) => {
                    let fact = format!("it requires `{name}` without pinning its version");
                    findings.add(rule::LOOSE_REQUIREMENT, file, fact);
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
    } else if device_targets::is_legacy(set) && is_in_libraries(set, wanted) {
        let fact =
            format!("it has an extra for `{name}`, but the code is in the libraries of the family");
        findings.add(rule::LEGACY_PROMISE, file, fact);
    } else if device(wanted).is_some() {
        let fact = format!("it has an extra for `{name}`, which is not in the set");
        findings.add(rule::MISSING_DEVICE_WHEEL, file, fact);
    } else {
        let fact = format!("it requires `{name}`, which is not in the set");
        findings.add_cause(rule::UNRESOLVED_REQUIREMENT, file, fact);
    }
}

/// Whether the libraries of a family replace a package. The `rocm` sdist of TheRock's legacy builds
/// names packages for device code and for single targets, and none of them is built.
fn is_in_libraries(set: &SetFacts, name: &DistName) -> bool {
    let target = name.normalized().strip_prefix(&NAMES.of_family);
    let Some(target) = target.and_then(|it| it.parse::<Target>().ok()) else {
        return device(name).is_some();
    };
    let mut wheels = set.wheels.iter();
    wheels.any(|it| device_targets::promised(it).contains(&target))
}

/// A device wheel requires the package with the libraries to which it adds code.
fn overlaid(set: &SetFacts, findings: &mut Findings) {
    let overlaid = &NAMES.overlaid;
    for wheel in set.device_wheels().into_values() {
        let Some(metadata) = wheel.metadata() else {
            continue;
        };
        let mut required = requirements_of(&metadata, &[]);
        if !required.any(|it| it.name.normalized() == overlaid) {
            let fact = format!("it does not require `{overlaid}`, which its code is for");
            findings.add(rule::LOOSE_REQUIREMENT, &wheel.file, fact);
        }
    }
}

fn versions(set: &SetFacts, findings: &mut Findings) {
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for package in set.identities() {
        let version = package.version.to_string();
        files.entry(version).or_default().push(package.file);
    }
    // The most frequent version is that of the set. Of equally frequent ones the last in text order
    // is taken, so that the result is the same each time.
    let most = files.iter().max_by_key(|(_, files)| files.len());
    let Some((most, _)) = most else { return };
    for (version, files) in files.iter().filter(|(version, _)| *version != most) {
        for file in files {
            let fact = format!("version {version}, but most of the set has {most}");
            findings.add(rule::VERSIONS_DISAGREE, *file, fact);
        }
    }
}

/// A project has one wheel for each tag.
fn duplicates(set: &SetFacts, findings: &mut Findings) {
    let mut seen: BTreeMap<(&str, String), &str> = BTreeMap::new();
    for wheel in &set.wheels {
        let Ok(name) = &wheel.name else { continue };
        let key = (name.name().normalized(), name.tag().to_string());
        if let Some(first) = seen.get(&key) {
            let fact = format!("the set has `{first}` too");
            findings.add(rule::DUPLICATE_PACKAGE, &wheel.file, fact);
        } else {
            seen.insert(key, &wheel.file);
        }
    }
}

/// The target of each device wheel is known, and the selector has an extra for it.
fn devices(set: &SetFacts, findings: &mut Findings) {
    let advertised = advertised(set);
    for wheel in &set.wheels {
        match wheel.device_target() {
            Some(Err(text)) => {
                let fact = format!("not a target: {text:?}");
                findings.add(rule::UNKNOWN_TARGET, &wheel.file, fact);
            }
            Some(Ok(target)) if TargetTable::builtin().product(&target).is_none() => {
                let fact = format!("not a known target: `{target}`");
                findings.add(rule::UNKNOWN_TARGET, &wheel.file, fact);
            }
            Some(Ok(target)) if set.selector().is_some() && !advertised.contains(&target) => {
                let fact = format!("`rocm` has no extra for `{target}`");
                findings.add(rule::UNADVERTISED_DEVICE_WHEEL, &wheel.file, fact);
            }
            Some(Ok(_)) | None => {}
        }
    }
}

/// The sdists of another platform have the same names, so they must have the same bytes.
fn siblings(set: &SetFacts, findings: &mut Findings) {
    let Some(siblings) = &set.siblings else {
        return;
    };
    for sdist in &set.sdists {
        let Some((digest, _)) = sdist.digest else {
            continue;
        };
        let fact = match siblings.get(&sdist.file) {
            None => "the set to compare with has no such sdist".to_owned(),
            Some(other) if *other == digest => continue,
            Some(other) => format!("it has SHA-256 {digest}, and {other} in the other set"),
        };
        findings.add(rule::SELECTOR_DIFFERS, &sdist.file, fact);
    }
}
