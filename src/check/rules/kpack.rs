//! Whether libraries whose device code was taken out find it again, and each archive is looked for.

use std::collections::{BTreeMap, BTreeSet};

use super::providers;
use crate::{
    check::{
        carriage,
        facts::{Code, Content, HostCode, SetFacts, WheelFile},
        finding::Finding,
        mention,
        reach::{Finds, Library, Reach},
        rule,
    },
    kpack::{CodeTarget, archive::Archive},
    relpath::RelPath,
    target::Target,
};

/// So many keys are named in a finding.
const MOST_KEYS: usize = 2;

pub(super) fn find(set: &SetFacts) -> Vec<Finding> {
    let reach = Reach::of(set);
    let unreadable = unreadable(set);
    let mut findings = Vec::new();
    for library in &reach.libraries {
        let found = one_library(library);
        let found = found.into_iter().map(|it| it.in_file(library.wheel));
        findings.extend(found.map(|it| it.at(library.path)));
    }
    findings.extend(providers::find(set, &reach));
    for (target, wheel) in set.device_wheels() {
        findings.extend(foreign_code(&target, wheel));
        // What is broken may have asked for anything.
        let is_known = |it: &Finding| it.rule != rule::BROKEN_KPACK_REFERENCE;
        if unreadable.iter().all(is_known) {
            findings.extend(unasked(&target, wheel, &reach));
        }
    }
    findings.extend(still_fat(set));
    findings.extend(unreadable);
    findings
}

/// What begins as device code, or is called so, and cannot be read as such.
fn unreadable(set: &SetFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        for member in &wheel.members {
            let Ok(content) = &member.content else {
                continue;
            };
            let is_named_so = mention::has_extension(&member.path, "kpack");
            let fact = match &content.code {
                Some(Code::Unreadable(why)) => (rule::UNREADABLE_DEVICE_CODE, why.clone()),
                None | Some(Code::Objects(_)) if is_named_so => (
                    rule::UNREADABLE_DEVICE_CODE,
                    "not an archive of device code".to_owned(),
                ),
                _ => match content.host_code() {
                    // What was split off for debuggers has the headers of a file, not its content.
                    Some(HostCode::Damaged(why))
                        if !mention::has_extension(&member.path, "debug") =>
                    {
                        (rule::BROKEN_KPACK_REFERENCE, why.clone())
                    }
                    _ => continue,
                },
            };
            let finding = Finding::new(fact.0, fact.1);
            found.push(finding.in_file(&wheel.file).at(&member.path));
        }
    }
    found
}

fn one_library(library: &Library<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_lost = |(_, finds): (&Target, &Finds)| !finds.any_variant && finds.lacking.is_empty();
    if !library.finds.is_empty() && library.finds.iter().all(is_lost) {
        let patterns: Vec<&str> = library.patterns.iter().map(String::as_str).collect();
        let fact = format!("no package has `{}` for any target", patterns.join("`, `"));
        return vec![Finding::new(rule::UNRESOLVED_KPACK, fact)];
    }
    for finds in library.finds.values() {
        for (device, keys) in by_device(&finds.lacking) {
            let fact = format!("the archives for `{device}` lack {}", some(&keys));
            found.push(Finding::new(rule::MISSING_KERNELS, fact));
        }
        for (device, keys) in by_device(&finds.hidden) {
            let fact = format!(
                "a runtime that asks one archive only finds no {} for `{device}`",
                some(&keys)
            );
            found.push(Finding::new(rule::EMPTY_VARIANT, fact));
        }
    }
    found
}

fn by_device(keys: &BTreeSet<(CodeTarget, String)>) -> BTreeMap<&CodeTarget, Vec<&str>> {
    let mut devices: BTreeMap<&CodeTarget, Vec<&str>> = BTreeMap::new();
    for (device, key) in keys {
        devices.entry(device).or_default().push(key);
    }
    devices
}

/// `` `a#0`, `a#1` and 3 more ``
fn some(keys: &[&str]) -> String {
    let named: Vec<&str> = keys.iter().take(MOST_KEYS).copied().collect();
    let rest = keys.len().saturating_sub(named.len());
    let named = format!("`{}`", named.join("`, `"));
    match rest {
        0 => named,
        _ => format!("{named} and {rest} more"),
    }
}

/// What is in the files of a device wheel is for its target, whatever they are called.
fn foreign_code(target: &Target, wheel: &WheelFile) -> Vec<Finding> {
    let accepted = carriage::found_for(target);
    let mut found = Vec::new();
    for member in &wheel.members {
        let code = member.content.as_ref().ok().and_then(|it| it.code.as_ref());
        let contained: Vec<String> = match code {
            Some(Code::Objects(targets)) => targets.iter().map(ToString::to_string).collect(),
            Some(Code::Archive(sparse)) => Archive::open(sparse.as_ref())
                .map(|archive| archive.targets().to_vec())
                .unwrap_or_default(),
            _ => continue,
        };
        let is_own = |text: &String| {
            let target = text.parse::<CodeTarget>();
            target.is_ok_and(|target| accepted.contains(&target.base()))
        };
        let foreign: Vec<String> = contained.into_iter().filter(|it| !is_own(it)).collect();
        if !foreign.is_empty() {
            let foreign = foreign.join("`, `");
            let fact = format!("it holds code for `{foreign}`, in the package of `{target}`");
            found.push(Finding::new(rule::FOREIGN_DEVICE_FILE, fact).at(&member.path));
        }
    }
    found
        .into_iter()
        .map(|it| it.in_file(&wheel.file))
        .collect()
}

/// Code of a library of the set that the library does not ask for, which is lost; and archives that no
/// library leads to, which are downloaded for nothing.
fn unasked(target: &Target, wheel: &WheelFile, reach: &Reach<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for member in &wheel.members {
        let code = member.content.as_ref().ok().and_then(|it| it.code.as_ref());
        let (Some(Code::Archive(sparse)), Ok(path)) = (code, member.path.parse::<RelPath>()) else {
            continue;
        };
        let Ok(archive) = Archive::open(sparse.as_ref()) else {
            continue;
        };
        let is_asked = |key: &&str| reach.asked.contains(&(path.clone(), (*key).to_owned()));
        let keys = archive.codes().iter().map(|code| code.key.as_str());
        let (asked, unasked): (BTreeSet<&str>, BTreeSet<&str>) = keys.partition(is_asked);
        let lost = unasked
            .iter()
            .copied()
            .filter(|key| reach.lacks(target, key));
        let lost: Vec<&str> = lost.collect();
        if !asked.is_empty() && lost.is_empty() {
            continue;
        }
        let (rule, fact) = match (archive.codes().first(), lost.is_empty()) {
            (Some(_), false) => {
                let fact = format!(
                    "no library looks for {} in it, and no other archive has it",
                    some(&lost)
                );
                (rule::LOST_DEVICE_CODE, fact)
            }
            (Some(first), true) => {
                let fact = format!("no library uses `{}` or its other code", first.key);
                (rule::UNASKED_ARCHIVE, fact)
            }
            (None, _) => (rule::UNASKED_ARCHIVE, "it holds nothing".to_owned()),
        };
        found.push(Finding::new(rule, fact).at(&member.path));
    }
    found
        .into_iter()
        .map(|it| it.in_file(&wheel.file))
        .collect()
}

/// Where there are device wheels, libraries for everybody hold no device code.
fn still_fat(set: &SetFacts) -> Vec<Finding> {
    if set.device_wheels().is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for wheel in set.wheels.iter().filter(|it| it.device_target().is_none()) {
        for member in &wheel.members {
            let code = member.content.as_ref().ok().and_then(Content::host_code);
            if let Some(HostCode::Fat(carried)) = code {
                let targets: Vec<&str> = carried.targets().map(CodeTarget::as_str).collect();
                let fact = format!(
                    "it still carries its device code, for {}",
                    targets.join(", ")
                );
                let finding = Finding::new(rule::DEVICE_FILE_IN_HOST_WHEEL, fact);
                found.push(finding.in_file(&wheel.file).at(&member.path));
            }
        }
    }
    found
}
