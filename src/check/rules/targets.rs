//! Whether what is promised, built and contained are the same targets.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::complete::advertised;
use crate::{
    check::{
        carriage,
        coverage::{Coverage, is_device_file},
        demands::Demands,
        facts::{SetFacts, WheelFile},
        finding::Finding,
        mention, rule,
    },
    target::{Target, TargetTable},
};

/// A variant that is so many times smaller than the plain file beside it has next to nothing in it:
/// empty ones of 171 KB were seen beside 43 MB.
const EMPTY_VARIANT: u64 = 20;

pub(super) fn find(set: &SetFacts, demands: &Demands, coverage: &Coverage) -> Vec<Finding> {
    let mut findings = Vec::new();
    let wheels = set.device_wheels().into_iter();
    for (target, wheel) in wheels.filter(|(_, wheel)| wheel.is_readable()) {
        let mut found = foreign_files(&target, wheel);
        found.extend(devel_links(&target, wheel));
        found.extend(empty_variants(wheel));
        if !wheel
            .members
            .iter()
            .any(|member| is_device_file(&member.path))
        {
            let fact = format!("it has no file for `{target}`");
            found.push(Finding::new(rule::EMPTY_DEVICE_WHEEL, fact));
        }
        findings.extend(found.into_iter().map(|it| it.in_file(&wheel.file)));
    }
    findings.extend(unknown_promises(set));
    findings.extend(only_with_xnack(coverage));
    findings.extend(gaps(set, coverage));
    if set.device_wheels().is_empty() {
        findings.extend(fat_gaps(set, coverage));
    }
    findings.extend(required(set, demands));
    findings.extend(host_wheels(set));
    findings
}

/// No file of a device wheel speaks of other targets only.
fn foreign_files(target: &Target, wheel: &WheelFile) -> Vec<Finding> {
    let base = target.base();
    let files = wheel.members.iter().filter(|it| is_device_file(&it.path));
    files
        .filter_map(|member| {
            let named = mention::covered(&member.path);
            let first = named.first().filter(|_| !named.contains(&base))?;
            let fact = format!("a file for `{first}` in the package of `{target}`");
            Some(Finding::new(rule::FOREIGN_DEVICE_FILE, fact).at(&member.path))
        })
        .collect()
}

#[derive(Deserialize)]
struct Links {
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    relpath: String,
    target: String,
}

/// `.devel_links/{target}.json` lists every file of the wheel, each with the way to it.
fn devel_links(target: &Target, wheel: &WheelFile) -> Vec<Finding> {
    let finding = |fact: String| Finding::new(rule::DEVEL_LINKS_DISAGREE, fact);
    let manifests: Vec<&str> = wheel.members.iter().map(|it| it.path.as_str()).collect();
    let manifests = manifests
        .into_iter()
        .filter(|path| path.contains("/.devel_links/"));
    let manifests: Vec<&str> = manifests.collect();
    let [path] = manifests[..] else {
        return vec![finding(format!(
            "{} lists of links, not one",
            manifests.len()
        ))];
    };
    let mut found = Vec::new();
    if path.rsplit('/').next() != Some(&format!("{target}.json")) {
        found.push(finding(format!("not named for `{target}`")));
    }
    let read = wheel.text(path).map(serde_json::from_slice::<Links>);
    let Some(Ok(list)) = read else {
        found.push(finding("not a list of links in JSON".to_owned()));
        return found.into_iter().map(|it| it.at(path)).collect();
    };
    let top = path.split('/').next().unwrap_or_default();
    let mut files: BTreeMap<&str, bool> = BTreeMap::new();
    for member in wheel.members.iter().filter(|it| is_device_file(&it.path)) {
        files.insert(&member.path, false);
    }
    let mut names = BTreeSet::new();
    for link in &list.links {
        if !names.insert(&link.relpath) {
            found.push(finding(format!("`{}` is listed twice", link.relpath)));
            continue;
        }
        let own = format!("{top}/{}", link.relpath);
        // Seen from the path itself, as if it were a directory: that is how it is resolved.
        let climb = "../".repeat(link.relpath.split('/').count());
        let target = link.target.strip_prefix(&climb).unwrap_or_default();
        let is_own = files.get_mut(own.as_str()).map(|listed| *listed = true);
        match (is_own, target == own) {
            (Some(()), true) => {}
            // A library has one file and several names.
            (None, false) if files.contains_key(target) => {}
            (None, true) => found.push(finding(format!("`{}` is not in the wheel", link.relpath))),
            (Some(()) | None, false) => found.push(finding(format!(
                "`{}` leads to `{}`",
                link.relpath, link.target
            ))),
        }
    }
    let unlisted = files.iter().filter(|(_, listed)| !**listed);
    found.extend(unlisted.map(|(file, _)| finding(format!("`{file}` is not listed"))));
    found.into_iter().map(|it| it.at(path)).collect()
}

/// The runtime takes a variant before the plain file, however little is in it.
fn empty_variants(wheel: &WheelFile) -> Vec<Finding> {
    let len = |path: &str| {
        let member = wheel.members.iter().find(|member| member.path == path)?;
        Some(member.content.as_ref().ok()?.len)
    };
    let variants = wheel
        .members
        .iter()
        .filter(|it| mention::is_variant(&it.path));
    let kpacks = variants.filter(|it| mention::has_extension(&it.path, "kpack"));
    kpacks
        .filter_map(|member| {
            let plain = len(&mention::without_features(&member.path))?;
            let own = member.content.as_ref().ok()?.len;
            let fact = format!("{own} bytes, where the plain variant has {plain}");
            (own.saturating_mul(EMPTY_VARIANT) < plain)
                .then(|| Finding::new(rule::EMPTY_VARIANT, fact).at(&member.path))
        })
        .collect()
}

/// Nothing is promised that is no target.
fn unknown_promises(set: &SetFacts) -> Vec<Finding> {
    let Some(selector) = set.selector() else {
        return Vec::new();
    };
    let promised = advertised(set).into_iter();
    let unknown = promised.filter(|it| TargetTable::builtin().product(it).is_none());
    unknown
        .map(|target| {
            let fact = format!("it has an extra for `{target}`, which is not a known target");
            Finding::new(rule::UNKNOWN_TARGET, fact).in_file(&selector.file)
        })
        .collect()
}

/// A library that knows some targets knows all that are promised.
fn gaps(set: &SetFacts, coverage: &Coverage) -> Vec<Finding> {
    let wheels = set.device_wheels();
    let mut found = Vec::new();
    for target in advertised(set) {
        let Some(wheel) = wheels.get(&target) else {
            continue;
        };
        // A wheel without anything is another rule's.
        if coverage.count(&target) == 0 {
            continue;
        }
        for (library, others) in coverage.gaps(&target) {
            let fact = gap(library, &others, target.as_str());
            found.push(Finding::new(rule::UNCOVERED_LIBRARY, fact).in_file(&wheel.file));
        }
    }
    found
}

/// The same where libraries have their code in them, and packages are called for families.
fn fat_gaps(set: &SetFacts, coverage: &Coverage) -> Vec<Finding> {
    let table = TargetTable::builtin();
    let known = carriage::targets(set).into_iter();
    let mut found = Vec::new();
    let mut lacking: BTreeMap<&str, (Vec<&str>, Vec<String>)> = BTreeMap::new();
    for target in known.filter(|it| table.product(it).is_some()) {
        if coverage.count(&target) == 0 {
            let promising = set.wheels.iter();
            let promising = promising.filter(|it| carriage::promised(it).contains(&target));
            let fact = format!("no library has code for {target}, which is of its family");
            found
                .extend(promising.map(|wheel| {
                    Finding::new(rule::UNCOVERED_LIBRARY, &fact).in_file(&wheel.file)
                }));
            continue;
        }
        for (library, others) in coverage.gaps(&target) {
            let entry = lacking.entry(library).or_insert((others, Vec::new()));
            entry.1.push(target.to_string());
        }
    }
    for (library, (others, targets)) in lacking {
        let fact = gap(library, &others, &targets.join(", "));
        let place = coverage.place(library).unwrap_or_default();
        found.push(Finding::new(rule::UNCOVERED_LIBRARY, fact).in_file(place));
    }
    found
}

/// Code for `gfx942:xnack+` alone runs on no device as it is set up.
fn only_with_xnack(coverage: &Coverage) -> Vec<Finding> {
    let finding = |(library, target, file): (&str, &str, &str)| {
        let fact =
            format!("`{library}` has code for `{target}:xnack+`, but none for `{target}` itself");
        Finding::new(rule::ONLY_WITH_XNACK, fact).in_file(file)
    };
    coverage.only_with_xnack().map(finding).collect()
}

fn gap(library: &str, others: &[&str], targets: &str) -> String {
    let others = others.join(", ");
    format!("`{library}` has code for {others}, but none for {targets}")
}

fn required(set: &SetFacts, demands: &Demands) -> Vec<Finding> {
    let required: BTreeSet<Target> = demands.targets.iter().map(Target::base).collect();
    let lacks = required.iter().filter_map(|target| lack(set, target));
    lacks
        .map(|fact| Finding::new(rule::REQUIRED_TARGET, fact))
        .collect()
}

/// Whether whoever has a device of a target can install code for it.
pub fn covers(set: &SetFacts, target: &Target) -> bool {
    lack(set, &target.base()).is_none()
}

fn lack(set: &SetFacts, target: &Target) -> Option<String> {
    let is_fat = set.device_wheels().is_empty() && !carriage::fat(set).is_empty();
    match (
        carriage::covers(set, target),
        advertised(set).contains(target),
    ) {
        (false, _) if is_fat => Some(format!("no library has code for `{target}`")),
        (false, _) => Some(format!("no device wheel for `{target}`")),
        (true, false) if !is_fat => Some(format!("`rocm` has no extra for `{target}`")),
        (true, _) => None,
    }
}

/// Where there are device wheels, no other wheel holds device code.
fn host_wheels(set: &SetFacts) -> Vec<Finding> {
    if set.device_wheels().is_empty() {
        return Vec::new();
    }
    let is_code = |path: &str| {
        [".kpack", ".hsaco", ".co"]
            .iter()
            .any(|end| path.ends_with(end))
            && !mention::targets(path).is_empty()
    };
    let wheels = set
        .wheels
        .iter()
        .filter(|wheel| wheel.device_target().is_none());
    wheels
        .flat_map(|wheel| wheel.members.iter().map(move |member| (wheel, member)))
        .filter(|(_, member)| is_code(&member.path))
        .map(|(wheel, member)| {
            let finding =
                Finding::new(rule::DEVICE_FILE_IN_HOST_WHEEL, "device code of one target");
            finding.in_file(&wheel.file).at(&member.path)
        })
        .collect()
}
