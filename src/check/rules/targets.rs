//! Rules about targets: the selector, the device wheels and the code are for the same targets.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use serde::Deserialize;

use super::{Observed, complete::advertised};
use crate::check::{
    coverage::{self, Coverage, CoverageGap, FatLibrary, is_device_file},
    facts::{MemberFacts, SetFacts, WheelFile},
    path_facts,
    rule::{self, Findings, PackagePath},
};
use rocwheel_base::target::{Target, TargetTable};
use rocwheel_kpack::CodeTarget;

/// A file for a variant counts as empty if it is this many times smaller than the plain file: empty files
/// had 171 KB, beside plain files of 43 MB.
const EMPTY_VARIANT_RATIO: u64 = 20;

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    let wheels = set.device_wheels().into_iter();
    for (target, wheel) in wheels.filter(|(_, wheel)| wheel.unreadable.is_none()) {
        foreign_files(&target, wheel, findings);
        devel_links(&target, wheel, findings);
        empty_variants(wheel, findings);
        if device_files(wheel).next().is_none() {
            let fact = format!("it has no file for `{target}`");
            findings.of(rule::EMPTY_DEVICE_WHEEL, &wheel.package.file, fact);
        }
    }
    for (library, row) in &seen.coverage.libraries {
        for (target, file) in &row.only_with_xnack {
            // Devices run with XNACK off by default, and cannot use such code.
            let fact = format!(
                "`{library}` has code for `{target}:xnack+`, but none for `{target}` itself"
            );
            findings.of(rule::ONLY_WITH_XNACK, file, fact);
        }
    }
    gaps(seen, findings);
    if set.is_partly_read() {
        // What has code for which target is in the files.
    } else if set.device_wheels().is_empty() {
        fat_gaps(set, &seen.coverage, findings);
    } else {
        host_wheels(set, findings);
    }
    let required: BTreeSet<Target> = seen.options.targets.iter().map(Target::base).collect();
    for fact in required.iter().filter_map(|target| why_not_covered(set, target)) {
        findings.of_set(rule::REQUIRED_TARGET, fact);
    }
}

fn device_files(wheel: &WheelFile) -> impl Iterator<Item = &MemberFacts> {
    wheel.members.iter().filter(|member| is_device_file(&member.path))
}

/// No path in a device wheel names other targets only.
fn foreign_files(target: &Target, wheel: &WheelFile, findings: &mut Findings) {
    let base = target.base();
    for member in device_files(wheel) {
        let named = path_facts::covered(&member.path);
        if named.iter().any(|it| it.packaged() == base) {
            continue;
        }
        if let Some(first) = named.first() {
            let fact = format!("a file for `{first}` in the package of `{target}`");
            findings.at(rule::FOREIGN_DEVICE_FILE, PackagePath::new(wheel, member), fact);
        }
    }
}

/// The contents of `.devel_links/{target}.json`.
#[derive(Deserialize)]
struct DevelLinks {
    links: Vec<DevelLink>,
}

#[derive(Deserialize)]
struct DevelLink {
    /// The path of a file below the top directory of the wheel.
    relpath: String,
    /// The text of a symlink to the file.
    target: String,
}

/// `.devel_links/{target}.json` lists every file of the wheel, with the text of a symlink to it.
fn devel_links(target: &Target, wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::DEVEL_LINKS_DISAGREE;
    let paths = wheel.members.iter().map(|it| it.path.as_str());
    let lists: Vec<&str> = paths.filter(|path| path.contains("/.devel_links/")).collect();
    let [path] = lists[..] else {
        let fact = format!("{} lists of links, not one", lists.len());
        return findings.of(rule, &wheel.package.file, fact);
    };
    let place = PackagePath::new(wheel, path);
    if path.rsplit('/').next() != Some(&format!("{target}.json")) {
        findings.at(rule, place, format!("not named for `{target}`"));
    }
    let parsed = wheel.text(path).map(serde_json::from_slice::<DevelLinks>);
    let Some(Ok(list)) = parsed else {
        return findings.at(rule, place, "not a list of links in JSON");
    };
    let top = path.split('/').next().unwrap_or_default();
    findings.at_each(rule, place, wrong_links(wheel, top, &list.links));
}

/// The differences between a list of links and the files of its wheel below `top`.
fn wrong_links(wheel: &WheelFile, top: &str, links: &[DevelLink]) -> Vec<String> {
    // The files, and whether each is listed.
    let mut files: BTreeMap<&str, bool> =
        device_files(wheel).map(|member| (member.path.as_str(), false)).collect();
    let mut names = BTreeSet::new();
    let mut facts = Vec::new();
    for link in links {
        let name = &link.relpath;
        if !names.insert(name) {
            facts.push(format!("`{name}` is listed twice"));
            continue;
        }
        let path = format!("{top}/{name}");
        // The target is relative to the path itself, as if the path were a directory.
        let climb = "../".repeat(name.split('/').count());
        let target = link.target.strip_prefix(&climb).unwrap_or_default();
        let file = files.get_mut(path.as_str());
        let is_in_wheel = file.is_some();
        if let Some(is_listed) = file {
            *is_listed = true;
        }
        match (is_in_wheel, target == path) {
            (true, true) => {}
            // A library may have several names for one file.
            (false, false) if files.contains_key(target) => {}
            (false, true) => facts.push(format!("`{name}` is not in the wheel")),
            (_, false) => facts.push(format!("`{name}` leads to `{}`", link.target)),
        }
    }
    let unlisted = files.iter().filter(|(_, is_listed)| !**is_listed);
    facts.extend(unlisted.map(|(file, _)| format!("`{file}` is not listed")));
    facts
}

/// Reports empty files for variants. The runtime prefers them to the plain file, even if they are
/// empty.
fn empty_variants(wheel: &WheelFile, findings: &mut Findings) {
    let lengths: BTreeMap<&str, u64> = wheel
        .contents()
        .map(|(member, content)| (member.path.as_str(), content.len))
        .filter(|(path, _)| path_facts::has_extension(path, "kpack"))
        .collect();
    for (path, len) in &lengths {
        let plain_path = path_facts::without_features(path);
        // The plain file itself is not a variant.
        let Some(plain_len) = lengths.get(plain_path.as_str()).filter(|_| plain_path != *path)
        else {
            continue;
        };
        if len.saturating_mul(EMPTY_VARIANT_RATIO) < *plain_len {
            let fact = format!("{len} bytes, where the plain variant has {plain_len}");
            findings.at(rule::EMPTY_VARIANT, PackagePath::new(wheel, path), fact);
        }
    }
}

/// A library that has code for some targets has code for all targets that the selector offers.
///
/// A target that shares the wheel of another target must be complete only if the user asked for it.
fn gaps(seen: &Observed<'_>, findings: &mut Findings) {
    let table = &seen.coverage;
    let wheels = seen.set.device_targets();
    let asked = seen.options.targets.iter().map(Target::base);
    for target in advertised(seen.set).into_iter().chain(asked).unique() {
        // Another rule reports a wheel without any code.
        let has_code = table.count(&target) > 0;
        let Some(wheel) = wheels.get(&target).filter(|_| has_code) else {
            continue;
        };
        for CoverageGap { library, covered } in table.gaps(&target) {
            let fact = describe_gap(library, &covered, target.as_str());
            findings.of(rule::UNCOVERED_LIBRARY, &wheel.package.file, fact);
        }
    }
}

/// The targets of one fat library for which it has code, and the targets for which it has none.
struct FatGap {
    covered: Vec<String>,
    lacking: Vec<String>,
}

/// A fat library in a package for a family has code for all targets of the set, and each target of the
/// family has code.
fn fat_gaps(set: &SetFacts, table: &Coverage, findings: &mut Findings) {
    let targets = coverage::targets(set).into_iter();
    let mut gaps: BTreeMap<&str, FatGap> = BTreeMap::new();
    for target in targets.filter(|it| TargetTable::builtin().product(it).is_some()) {
        if table.count(&target) == 0 {
            let wheels = set.wheels.iter();
            for wheel in wheels.filter(|it| coverage::family_targets(it).contains(&target)) {
                let fact = format!("no library has code for {target}, which is of its family");
                findings.of(rule::UNCOVERED_IN_FAMILY, &wheel.package.file, fact);
            }
            continue;
        }
        for CoverageGap { library, covered } in table.gaps(&target) {
            let gap = gaps.entry(library).or_insert(FatGap { covered, lacking: Vec::new() });
            gap.lacking.push(target.to_string());
        }
    }
    for (library, gap) in gaps {
        let fact = describe_gap(library, &gap.covered, &gap.lacking.join(", "));
        findings.of(rule::UNCOVERED_IN_FAMILY, &table.libraries[library].file, fact);
    }
}

fn describe_gap(library: &str, covered: &[String], lacking: &str) -> String {
    format!("`{library}` has code for {}, but none for {lacking}", covered.join(", "))
}

/// Whether users can install code for a target.
pub(super) fn covers(set: &SetFacts, target: &Target) -> bool {
    why_not_covered(set, &target.base()).is_none()
}

/// Why users cannot install code for a target. `None` if they can.
fn why_not_covered(set: &SetFacts, target: &Target) -> Option<String> {
    // The contents of the files would say whether a set without device wheels has any device code.
    let may_be_fat = set.is_partly_read() || coverage::fat_libraries(set).next().is_some();
    let is_fat = set.device_wheels().is_empty() && may_be_fat;
    match (coverage::covers(set, target), advertised(set).contains(&target.packaged())) {
        (false, _) if is_fat => Some(format!("no library has code for `{target}`")),
        (false, _) if set.device_wheels().contains_key(&target.packaged()) => {
            Some(format!("no code for `{target}` in its device wheel"))
        }
        (false, _) => Some(format!("no device wheel for `{target}`")),
        (true, false) if !is_fat => Some(format!("`rocm` has no extra for `{target}`")),
        (true, _) => None,
    }
}

/// In a set with device wheels, no other wheel contains device code: neither files of device code, nor
/// libraries with device code in them.
fn host_wheels(set: &SetFacts, findings: &mut Findings) {
    for FatLibrary { wheel, member, code } in coverage::fat_libraries(set) {
        let targets = code.keys().map(CodeTarget::as_str).join(", ");
        let fact = format!("it still carries its device code, for {targets}");
        findings.at(rule::DEVICE_FILE_IN_HOST_WHEEL, PackagePath::new(wheel, member), fact);
    }
    let ends = [".kpack", ".hsaco", ".co"];
    let members = set.members();
    for (wheel, member) in members.filter(|(wheel, _)| wheel.device_target().is_none()) {
        let is_code = ends.iter().any(|end| member.path.ends_with(end));
        if is_code && !path_facts::targets(&member.path).is_empty() {
            let fact = "device code of one target";
            findings.at(rule::DEVICE_FILE_IN_HOST_WHEEL, PackagePath::new(wheel, member), fact);
        }
    }
}
