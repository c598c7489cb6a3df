//! Rules about split libraries: each finds its device code, and each archive is used by a library.
//!
//! [`Reach`] searches like the runtime does, among the packages that a user of a target installs.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::Observed;
use crate::{
    check::{
        coverage,
        facts::{DeviceArchive, DeviceCodeFacts, SetFacts, WheelFile},
        path_facts::has_extension,
        rule::{self, Findings, PackagePath, some},
        sparse::SparseFile,
    },
    kpack::{
        CodeTarget, PLACEHOLDER,
        host::WrapperReference,
        loader::{self, ArchivesByPath, CodePlace, Generation, candidates, wanted},
    },
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
    let is_known = unreadable(set, findings);
    let targets: BTreeSet<Target> = set.device_targets().into_keys().collect();
    for (target, wheel) in set.device_wheels() {
        foreign_code(&targets, &target, wheel, findings);
        // A damaged library may use any archive, so no archive can be called unused.
        if is_known {
            unasked(&target, wheel, &reach, findings);
        }
    }
}

/// Reports files that begin like device code, or have its extension, and cannot be parsed. Returns
/// whether the references of every library are known.
fn unreadable(set: &SetFacts, findings: &mut Findings) -> bool {
    let mut is_known = true;
    for (wheel, member, content) in set.contents() {
        let place = PackagePath::new(wheel, member);
        match &content.code {
            DeviceCodeFacts::Unreadable(why) => {
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, why);
            }
            DeviceCodeFacts::Archive(_) => {}
            _ if has_extension(place.path, "kpack") => {
                let fact = "not an archive of device code";
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, fact);
            }
            // A `.debug` file has the section headers of a binary, but not its contents.
            DeviceCodeFacts::Damaged(why) if !has_extension(place.path, "debug") => {
                is_known = false;
                findings.at(rule::BROKEN_KPACK_REFERENCE, place, why);
            }
            _ => {}
        }
    }
    is_known
}

fn one_library(library: &SplitLibrary<'_>, findings: &mut Findings) {
    let place = library.place;
    let is_lost = |finds: &Finds| finds.keys.is_empty() && finds.lacking.is_empty();
    if !library.finds.is_empty() && library.finds.values().all(is_lost) {
        // The archives that its markers name, with `*` for the target.
        let path = place.path.parse::<RelPath>().ok();
        let markers = library.references.iter().map(|it| &it.marker);
        let paths = markers.flat_map(|it| &it.kpack_search_paths).map(|text| {
            let place = path.as_ref().and_then(|path| path.resolve_link(text));
            place.map_or_else(|| text.clone(), |place| place.to_string())
        });
        let patterns = paths.map(|text| text.replacen(PLACEHOLDER, "*", 1));
        let patterns = patterns.sorted().dedup().join("`, `");
        let fact = format!("no package has `{patterns}` for any target");
        return findings.at(rule::UNRESOLVED_KPACK, place, fact);
    }
    for finds in library.finds.values() {
        for (device, keys) in &finds.lacking {
            let keys = some(keys, MOST_KEYS);
            let fact = format!("the archives for `{device}` lack {keys}");
            findings.at(rule::MISSING_KERNELS, place, fact);
        }
        for (device, keys) in &finds.hidden {
            let keys = some(keys, MOST_KEYS);
            let fact =
                format!("a runtime that asks one archive only finds no {keys} for `{device}`");
            findings.at(rule::EMPTY_VARIANT, place, fact);
        }
    }
}

/// The code in the files of a device wheel is for its target, also if their names say otherwise.
fn foreign_code(
    targets: &BTreeSet<Target>,
    target: &Target,
    wheel: &WheelFile,
    findings: &mut Findings,
) {
    let own = targets.iter().filter(|it| it.packaged() == *target);
    let accepted: BTreeSet<CodeTarget> = own.flat_map(coverage::archived_targets).collect();
    let is_foreign = |target: &CodeTarget| !accepted.contains(&target.base());
    for (member, content) in wheel.contents() {
        let foreign = match &content.code {
            DeviceCodeFacts::Objects(targets) => {
                targets.iter().filter(|it| is_foreign(it)).join("`, `")
            }
            DeviceCodeFacts::Archive(archive) => {
                let targets = archive.targets().iter();
                let is_own = |it: &&String| it.parse().is_ok_and(|it| !is_foreign(&it));
                targets.filter(|it| !is_own(it)).join("`, `")
            }
            _ => continue,
        };
        if !foreign.is_empty() {
            let fact = format!("it holds code for `{foreign}`, in the package of `{target}`");
            findings.at(rule::FOREIGN_DEVICE_FILE, PackagePath::new(wheel, member), fact);
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
        let codes = archive.codes();
        let is_asked = |key: &&str| reach.asked.contains(&(path.clone(), (*key).to_owned()));
        let keys = codes.iter().map(|code| code.key.as_str());
        let (asked, unasked): (BTreeSet<&str>, BTreeSet<&str>) = keys.partition(is_asked);
        let lost = unasked.iter().filter(|key| reach.lacks(target, key));
        let lost: Vec<&str> = lost.copied().collect();
        let place = PackagePath::new(wheel, member);
        if !lost.is_empty() {
            let lost = some(&lost, MOST_KEYS);
            let fact = format!("no library looks for {lost} in it, and no other archive has it");
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

/// The split libraries of a set, and the code that they find in archives.
struct Reach<'a> {
    libraries: Vec<SplitLibrary<'a>>,
    /// The code that libraries look up: the path of an archive and a key in it.
    asked: BTreeSet<(RelPath, String)>,
}

struct SplitLibrary<'a> {
    place: PackagePath<'a>,
    references: &'a [WrapperReference],
    finds: BTreeMap<Target, Finds>,
}

/// The code that a library finds for a target and its variants.
#[derive(Default)]
struct Finds {
    /// The keys that are found for any variant.
    keys: BTreeSet<String>,
    /// Keys that no archive for a device has. The runtime then refuses the whole library.
    lacking: BTreeMap<CodeTarget, BTreeSet<String>>,
    /// Keys that are missing for a runtime that uses only the first archive for a device.
    hidden: BTreeMap<CodeTarget, BTreeSet<String>>,
}

/// Archives that are installed together, by path.
type Archives<'a> = ArchivesByPath<'a, SparseFile>;

impl<'a> Reach<'a> {
    fn of(set: &'a SetFacts) -> Self {
        let files = set.wheels.iter().flat_map(|wheel| {
            let files = wheel.files();
            files.map(|(path, content)| (PackagePath::new(&wheel.package, path), content))
        });
        let libraries = files.filter_map(|(place, content)| match &content.code {
            DeviceCodeFacts::Split(references) => {
                Some(SplitLibrary { place, references, finds: BTreeMap::new() })
            }
            _ => None,
        });
        let mut reach = Self { libraries: libraries.collect(), asked: BTreeSet::new() };
        let hosts = set.wheels.iter().filter(|it| it.device_target().is_none());
        let common: Archives<'_> = hosts.flat_map(|it| archives(it)).collect();
        // The directories to which development files are unpacked. Device files appear there too.
        let entries = set.wheels.iter().flat_map(|wheel| wheel.unpacked());
        let tops = entries.filter_map(|it| it.entry.path.as_str().split('/').next());
        let tops: BTreeSet<&str> = tops.collect();
        let all = set.wheels.iter().flat_map(|it| archives(it));
        let all: BTreeSet<RelPath> = all.map(|(path, _)| path).collect();
        for (target, wheel) in set.device_targets() {
            let mut there = common.clone();
            there.extend(archives(wheel));
            unpack(&mut there, &tops);
            reach.look(&target, &there, &all);
        }
        reach
    }

    fn look(&mut self, target: &Target, there: &Archives<'_>, all: &BTreeSet<RelPath>) {
        // The target without features, and each variant of it for which an archive has code.
        let base = CodeTarget::from(&target.base());
        let variants = there.values().flat_map(|it| it.targets());
        let variants = variants.filter_map(|text| text.parse::<CodeTarget>().ok());
        let variants = variants.filter(|it| it.base() == base);
        let devices: BTreeSet<CodeTarget> = [base.clone()].into_iter().chain(variants).collect();
        for library in &mut self.libraries {
            let Ok(path) = library.place.path.parse::<RelPath>() else {
                continue;
            };
            let finds = library.finds.entry(target.clone()).or_default();
            for (reference, device) in library.references.iter().cartesian_product(&devices) {
                let key = reference.key();
                let places = candidates(&path, reference, &wanted(device)).into_iter();
                let places = places.filter(|it| all.contains(it));
                self.asked.extend(places.map(|it| (it, key.clone())));
                let find = |generation| loader::find(generation, there, &path, reference, device);
                match find(Generation::EveryArchive) {
                    CodePlace::In(..) => {
                        if !matches!(find(Generation::FirstArchive), CodePlace::In(..)) {
                            let keys = finds.hidden.entry(device.clone()).or_default();
                            keys.insert(key.clone());
                        }
                        finds.keys.insert(key);
                    }
                    CodePlace::Lacking => {
                        let keys = finds.lacking.entry(device.clone()).or_default();
                        keys.insert(key);
                    }
                    CodePlace::PassedOver => {}
                }
            }
        }
    }

    /// Whether a key belongs to a library that does not find it for the target, or that has no
    /// wrapper for it. Libraries that find no code at all are left out; another rule reports them.
    fn lacks(&self, target: &Target, wanted: &str) -> bool {
        let libraries = self.libraries.iter();
        let libraries =
            libraries.filter(|it| it.finds.values().any(|finds| !finds.keys.is_empty()));
        let name = wanted.rsplit_once('#').map_or(wanted, |(name, _)| name);
        let is_its = |it: &WrapperReference| it.marker.kernel_name == name;
        let mut asking = libraries.filter(|it| it.references.iter().any(is_its));
        asking.any(|it| it.finds.get(target).is_none_or(|finds| !finds.keys.contains(wanted)))
    }
}

fn archives(wheel: &WheelFile) -> impl Iterator<Item = (RelPath, &DeviceArchive)> {
    let contents = wheel.contents();
    contents.filter_map(|(member, content)| Some((member.path.parse().ok()?, content.archive()?)))
}

/// Adds the archives where they appear in the directories to which development files are unpacked.
fn unpack(there: &mut Archives<'_>, tops: &BTreeSet<&str>) {
    for ((path, archive), top) in there.clone().iter().cartesian_product(tops) {
        let rest = path.as_str().split_once('/').map(|(_, rest)| rest);
        let place = rest.map(|rest| format!("{top}/{rest}").parse());
        if let Some(Ok(place)) = place {
            there.entry(place).or_insert(*archive);
        }
    }
}
