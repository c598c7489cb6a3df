//! Whether the packages of a set belong together and none is missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    check::{
        carriage::{self, LIBRARIES},
        demands::Demands,
        facts::{DEVICE, SdistFile, SetFacts, WheelFile},
        finding::Finding,
        requirement::Requirement,
        rule,
    },
    set::is_ours,
    target::{Target, TargetTable},
    version::Version,
    wheel::{DistName, Metadata, SdistFilename, WheelFilename},
};

/// What device code is laid over.
const OVERLAID: &str = "rocm-sdk-libraries";
/// How the fact ends that others may follow from.
pub(super) const NOT_THERE: &str = "which is not in the set";

pub(super) fn find(set: &SetFacts, demands: &Demands) -> Vec<Finding> {
    let mut findings = requirements(set, demands);
    findings.extend(versions(set));
    findings.extend(duplicates(set));
    findings.extend(devices(set));
    findings.extend(siblings(set));
    findings.extend(overlaid(set));
    if set.selector().is_none() {
        let fact = format!("no `rocm` sdist among {} packages", set.len());
        findings.push(Finding::new(rule::MISSING_SELECTOR, fact));
    }
    findings
}

/// The targets that the selector promises where these wheels are installed.
pub(super) fn advertised(set: &SetFacts) -> BTreeSet<Target> {
    let Some(Ok(metadata)) = set.selector().map(|selector| &selector.metadata) else {
        return BTreeSet::new();
    };
    requirements_of(metadata, &set.platforms())
        .filter_map(|requirement| device(&requirement.name)?.parse().ok())
        .collect()
}

fn device(name: &DistName) -> Option<String> {
    name.normalized().strip_prefix(DEVICE).map(str::to_owned)
}

fn requirements_of<'a>(
    metadata: &'a Metadata,
    platforms: &'a [&'static str],
) -> impl Iterator<Item = Requirement> + 'a {
    metadata
        .requires_dist
        .iter()
        .filter_map(|line| Requirement::parse(line.as_str()))
        .filter(move |requirement| requirement.concerns(platforms))
}

/// Every package of ours that another one asks for is there, in the version it asks for.
fn requirements(set: &SetFacts, demands: &Demands) -> Vec<Finding> {
    let mut there: BTreeMap<&DistName, Vec<&Version>> = BTreeMap::new();
    let wheels = set
        .wheels
        .iter()
        .filter_map(|wheel| wheel.name.as_ref().ok());
    let sdists = set
        .sdists
        .iter()
        .filter_map(|sdist| sdist.name.as_ref().ok());
    let names = wheels.map(|name| (name.name(), name.version()));
    for (name, version) in names.chain(sdists.map(|name| (name.name(), name.version()))) {
        there.entry(name).or_default().push(version);
    }
    let gone = gone(set);
    let is_legacy = carriage::is_legacy(set);
    let mut found = Vec::new();
    for (file, metadata) in set.metadata() {
        let mut seen = BTreeSet::new();
        for requirement in requirements_of(&metadata, &set.platforms()) {
            let name = requirement.name.normalized();
            if !seen.insert((name.to_owned(), requirement.pin.clone())) {
                continue;
            }
            if !is_ours(&requirement.name) {
                let fact = format!("it requires `{name}`, which is not one of our packages");
                let is_allowed = demands.base.contains(&requirement.name);
                let finding = || Finding::new(rule::FOREIGN_REQUIREMENT, fact).in_file(file);
                found.extend((!is_allowed).then(finding));
                continue;
            }
            let finding = match (there.get(&requirement.name), &requirement.pin) {
                // That it is promised and gone is told already.
                (None, _) if gone.contains(name) => continue,
                (None, _) if is_legacy && is_in_libraries(set, &requirement.name) => Finding::new(
                    rule::LEGACY_PROMISE,
                    format!(
                        "it has an extra for `{name}`, but the code is in the libraries of the family"
                    ),
                ),
                (None, _) if device(&requirement.name).is_some() => Finding::new(
                    rule::MISSING_DEVICE_WHEEL,
                    format!("it has an extra for `{name}`, {NOT_THERE}"),
                ),
                (None, _) => Finding::new(
                    rule::UNRESOLVED_REQUIREMENT,
                    format!("it requires `{name}`, {NOT_THERE}"),
                ),
                (Some(versions), Some(pin)) if !versions.contains(&pin) => {
                    let there = shown(versions.iter().copied());
                    let fact = format!("it requires `{name}` {pin}, but the set has {there}");
                    Finding::new(rule::UNRESOLVED_REQUIREMENT, fact)
                }
                (Some(_), None) => {
                    let fact = format!("it requires `{name}` without pinning its version");
                    Finding::new(rule::LOOSE_REQUIREMENT, fact)
                }
                (Some(_), Some(_)) => continue,
            };
            found.push(finding.in_file(file));
        }
    }
    found
}

/// Whether the libraries of a family stand for a package. The `rocm` sdist of a legacy build by
/// TheRock names packages for device code and for single targets, and none of them is built.
fn is_in_libraries(set: &SetFacts, name: &DistName) -> bool {
    let target = name.normalized().strip_prefix(LIBRARIES);
    let Some(target) = target.and_then(|it| it.parse::<Target>().ok()) else {
        return device(name).is_some();
    };
    let mut wheels = set.wheels.iter();
    wheels.any(|it| carriage::promised(it).contains(&target))
}

/// A device wheel brings the libraries that its code is for.
fn overlaid(set: &SetFacts) -> Vec<Finding> {
    let lacks = |wheel: &WheelFile| {
        let metadata = wheel.metadata()?;
        let mut required = requirements_of(&metadata, &[]);
        let is_there = required.any(|it| it.name.normalized() == OVERLAID);
        let fact = format!("it does not require `{OVERLAID}`, which its code is for");
        (!is_there).then(|| Finding::new(rule::LOOSE_REQUIREMENT, fact).in_file(&wheel.file))
    };
    set.device_wheels()
        .into_values()
        .filter_map(lacks)
        .collect()
}

/// The projects of files that pages promise and that are not there.
fn gone(set: &SetFacts) -> BTreeSet<String> {
    let files = set.published.iter().flat_map(|it| &it.gone);
    let name = |file: &String| -> Option<String> {
        let wheel = file.parse::<WheelFilename>().ok();
        let wheel = wheel.map(|name| name.name().normalized().to_owned());
        let sdist = || {
            Some(
                file.parse::<SdistFilename>()
                    .ok()?
                    .name()
                    .normalized()
                    .to_owned(),
            )
        };
        wheel.or_else(sdist)
    };
    files.filter_map(name).collect()
}

fn shown<'a>(versions: impl Iterator<Item = &'a Version>) -> String {
    let versions: BTreeSet<String> = versions.map(ToString::to_string).collect();
    versions.into_iter().collect::<Vec<_>>().join(", ")
}

fn versions(set: &SetFacts) -> Vec<Finding> {
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for wheel in &set.wheels {
        if let Ok(name) = &wheel.name {
            let version = name.version().to_string();
            files.entry(version).or_default().push(&wheel.file);
        }
    }
    for sdist in &set.sdists {
        if let Ok(name) = &sdist.name {
            let version = name.version().to_string();
            files.entry(version).or_default().push(&sdist.file);
        }
    }
    // The version of most is the version of the set; of two that are as frequent, the higher text.
    let most = files.iter().max_by_key(|(_, files)| files.len());
    let Some(most) = most.map(|(version, _)| version.clone()) else {
        return Vec::new();
    };
    let others = files.iter().filter(|(version, _)| **version != most);
    others
        .flat_map(|(version, files)| files.iter().map(move |file| (version, file)))
        .map(|(version, file)| {
            let fact = format!("version {version}, but most of the set has {most}");
            Finding::new(rule::VERSIONS_DISAGREE, fact).in_file(*file)
        })
        .collect()
}

/// One wheel for a name and a tag.
fn duplicates(set: &SetFacts) -> Vec<Finding> {
    let mut seen: BTreeMap<(&str, String), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for wheel in &set.wheels {
        let Ok(name) = &wheel.name else { continue };
        let key = (name.name().normalized(), name.tag().to_string());
        match seen.get(&key) {
            None => {
                seen.insert(key, &wheel.file);
            }
            Some(first) => {
                let fact = format!("the set has `{first}` too");
                let finding = Finding::new(rule::DUPLICATE_PACKAGE, fact);
                found.push(finding.in_file(&wheel.file));
            }
        }
    }
    found
}

/// Each device wheel is of a target that is known, and that users are told about.
fn devices(set: &SetFacts) -> Vec<Finding> {
    let advertised = advertised(set);
    let finding = |wheel: &WheelFile, target: Result<Target, String>| {
        match target {
            Err(text) => {
                let fact = format!("not a target: {text:?}");
                Some(Finding::new(rule::UNKNOWN_TARGET, fact))
            }
            Ok(target) if TargetTable::builtin().product(&target).is_none() => {
                let fact = format!("not a known target: `{target}`");
                Some(Finding::new(rule::UNKNOWN_TARGET, fact))
            }
            Ok(target) if set.selector().is_some() && !advertised.contains(&target) => {
                let fact = format!("`rocm` has no extra for `{target}`");
                Some(Finding::new(rule::UNADVERTISED_DEVICE_WHEEL, fact))
            }
            Ok(_) => None,
        }
        .map(|finding| finding.in_file(&wheel.file))
    };
    let targets = set.wheels.iter();
    targets
        .filter_map(|wheel| finding(wheel, wheel.device_target()?))
        .collect()
}

/// The sdists of another platform have the same names, and are the same bytes.
fn siblings(set: &SetFacts) -> Vec<Finding> {
    let Some(siblings) = &set.siblings else {
        return Vec::new();
    };
    let finding = |sdist: &Arc<SdistFile>| {
        let (digest, _) = sdist.digest?;
        let fact = match siblings.get(&sdist.file) {
            None => "the set to compare with has no such sdist".to_owned(),
            Some(other) if *other == digest => return None,
            Some(other) => format!("it has SHA-256 {digest}, and {other} in the other set"),
        };
        let finding = Finding::new(rule::SELECTOR_DIFFERS, fact);
        Some(finding.in_file(&sdist.file))
    };
    set.sdists.iter().filter_map(finding).collect()
}
