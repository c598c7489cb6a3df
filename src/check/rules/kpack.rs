//! Rules about split libraries: each finds its device code, and each archive is used by a library.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Observed, providers, some};
use crate::{
    check::{
        coverage,
        facts::{DeviceCodeFacts, HostCode, SetFacts, WheelFile},
        finding::Findings,
        path_facts,
        reach::{Finds, Library, Reach},
        rule,
    },
    kpack::CodeTarget,
    relpath::RelPath,
    target::Target,
};

/// The number of keys named in a finding.
const MOST_KEYS: usize = 2;

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    let reach = Reach::of(set);
    for library in &reach.libraries {
        one_library(library, findings);
    }
    providers::find(set, &reach, findings);
    let is_known = unreadable(set, findings);
    for (target, wheel) in set.device_wheels() {
        foreign_code(&target, wheel, findings);
        // A damaged library may use any archive, so no archive can be called unused.
        if is_known {
            unasked(&target, wheel, &reach, findings);
        }
    }
    if !set.device_wheels().is_empty() {
        still_fat(set, findings);
    }
}

/// Reports files that begin like device code, or have its extension, and cannot be parsed. Returns
/// whether the references of every library are known.
fn unreadable(set: &SetFacts, findings: &mut Findings) -> bool {
    let mut is_known = true;
    for (wheel, member, content) in set.contents() {
        let place = (&*wheel.file, &*member.path);
        let has_extension = |extension| path_facts::has_extension(&member.path, extension);
        match (&content.code, content.host_code()) {
            (Some(DeviceCodeFacts::Unreadable(why)), _) => {
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, why);
            }
            (None | Some(DeviceCodeFacts::Objects(_)), _) if has_extension("kpack") => {
                let fact = "not an archive of device code";
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, fact);
            }
            // A `.debug` file has the section headers of a binary, but not its contents.
            (_, Some(HostCode::Damaged(why))) if !has_extension("debug") => {
                is_known = false;
                findings.at(rule::BROKEN_KPACK_REFERENCE, place, why);
            }
            _ => {}
        }
    }
    is_known
}

fn one_library(library: &Library<'_>, findings: &mut Findings) {
    let place = (library.wheel, library.path);
    let is_lost = |finds: &Finds| !finds.any_variant && finds.lacking.is_empty();
    if !library.finds.is_empty() && library.finds.values().all(is_lost) {
        let patterns = library.patterns.iter().join("`, `");
        let fact = format!("no package has `{patterns}` for any target");
        return findings.at(rule::UNRESOLVED_KPACK, place, fact);
    }
    for finds in library.finds.values() {
        for (device, keys) in by_device(&finds.lacking) {
            let fact = format!(
                "the archives for `{device}` lack {}",
                some(&keys, MOST_KEYS)
            );
            findings.at(rule::MISSING_KERNELS, place, fact);
        }
        for (device, keys) in by_device(&finds.hidden) {
            let fact = format!(
                "a runtime that asks one archive only finds no {} for `{device}`",
                some(&keys, MOST_KEYS)
            );
            findings.at(rule::EMPTY_VARIANT, place, fact);
        }
    }
}

fn by_device(keys: &BTreeSet<(CodeTarget, String)>) -> BTreeMap<&CodeTarget, Vec<&str>> {
    let mut devices: BTreeMap<&CodeTarget, Vec<&str>> = BTreeMap::new();
    for (device, key) in keys {
        devices.entry(device).or_default().push(key);
    }
    devices
}

/// The code in the files of a device wheel is for its target, also if their names say otherwise.
fn foreign_code(target: &Target, wheel: &WheelFile, findings: &mut Findings) {
    let accepted = coverage::found_for(target);
    for (member, content) in wheel.contents() {
        let contained: Vec<String> = match &content.code {
            Some(DeviceCodeFacts::Objects(targets)) => {
                targets.iter().map(ToString::to_string).collect()
            }
            Some(DeviceCodeFacts::Archive(archive)) => archive.archive.targets().to_vec(),
            _ => continue,
        };
        let is_own = |text: &String| {
            let target = text.parse::<CodeTarget>();
            target.is_ok_and(|target| accepted.contains(&target.base()))
        };
        let foreign = contained.into_iter().filter(|it| !is_own(it)).join("`, `");
        if !foreign.is_empty() {
            let fact = format!("it holds code for `{foreign}`, in the package of `{target}`");
            findings.at(
                rule::FOREIGN_DEVICE_FILE,
                (&*wheel.file, &*member.path),
                fact,
            );
        }
    }
}

/// Reports code in archives that its library does not look up, so that it cannot be used, and
/// archives that no library names, which users download for nothing.
fn unasked(target: &Target, wheel: &WheelFile, reach: &Reach<'_>, findings: &mut Findings) {
    for (member, content) in wheel.contents() {
        let (Some(archive), Ok(path)) = (content.archive(), member.path.parse::<RelPath>()) else {
            continue;
        };
        let codes = archive.archive.codes();
        let is_asked = |key: &&str| reach.asked.contains(&(path.clone(), (*key).to_owned()));
        let keys = codes.iter().map(|code| code.key.as_str());
        let (asked, unasked): (BTreeSet<&str>, BTreeSet<&str>) = keys.partition(is_asked);
        let lost = unasked.iter().filter(|key| reach.lacks(target, key));
        let lost: Vec<&str> = lost.copied().collect();
        let place = (&*wheel.file, &*member.path);
        if !lost.is_empty() {
            let fact = format!(
                "no library looks for {} in it, and no other archive has it",
                some(&lost, MOST_KEYS)
            );
            findings.at(rule::LOST_DEVICE_CODE, place, fact);
        } else if asked.is_empty() {
            let fact = codes.first().map_or_else(
                || "it holds nothing".to_owned(),
                |first| format!("no library uses `{}` or its other code", first.key),
            );
            findings.at(rule::UNASKED_ARCHIVE, place, fact);
        }
    }
}

/// In a set with device wheels, libraries of host wheels contain no device code.
fn still_fat(set: &SetFacts, findings: &mut Findings) {
    for fat in coverage::fat(set) {
        let targets = fat.carried.keys().map(CodeTarget::as_str).join(", ");
        let fact = format!("it still carries its device code, for {targets}");
        let place = (&*fat.wheel.file, &*fat.member.path);
        findings.at(rule::DEVICE_FILE_IN_HOST_WHEEL, place, fact);
    }
}
