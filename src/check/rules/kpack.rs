//! Rules about split libraries: each finds its device code, and each archive is used by a library.
//!
//! [`SplitLibraries`] searches as the runtime does, in the packages that a user of a target installs.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::Observed;
use crate::check::{
    coverage,
    facts::{DeviceArchive, DeviceCodeFacts, SetFacts, WheelFile},
    path_facts::has_extension,
    rule::{self, Findings, PackagePath, some},
    sparse::SparseFile,
};
use rocwheel_base::{relpath::RelPath, target::Target};
use rocwheel_kpack::{
    CodeTarget, PLACEHOLDER,
    host::WrapperReference,
    loader::{self, ArchivesByPath, CodePlace, Generation, HRX, candidates, wanted},
};

/// The number of keys named in a finding.
const MOST_KEYS: usize = 2;

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    let split = SplitLibraries::of(set);
    for library in &split.libraries {
        code_of_library(library, findings);
    }
    let are_references_known = unreadable_code(set, findings);
    for (wheel, member, content) in set.contents() {
        if let Some(fact) = content.archive().and_then(|archive| HRX.refused_code(archive)) {
            findings.at(rule::UNREAD_BY_HRX, PackagePath::new(wheel, member), fact);
        }
    }
    let targets: BTreeSet<Target> = set.device_targets().into_keys().collect();
    for (target, wheel) in set.device_wheels() {
        foreign_code(&targets, &target, wheel, findings);
        // A damaged library may use any archive, so no archive can be called unused.
        if are_references_known {
            unused_code(&target, wheel, &split, findings);
        }
    }
}

/// Reports files that begin like device code, or have its extension, and cannot be parsed. Returns
/// whether the references of every library could be read.
fn unreadable_code(set: &SetFacts, findings: &mut Findings) -> bool {
    for (wheel, member, content) in set.contents() {
        let place = PackagePath::new(wheel, member);
        match &content.code {
            DeviceCodeFacts::Unreadable(why) => {
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, why);
            }
            DeviceCodeFacts::Archive(_) => {}
            _ if has_extension(place.path, "kpack") && !content.is_unread => {
                let fact = "not an archive of device code";
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, fact);
            }
            _ => {}
        }
    }
    // Libraries among the development files look for code too.
    let mut are_references_known = true;
    for wheel in &set.wheels {
        for (path, content) in wheel.files() {
            // A `.debug` file has the section headers of a binary, but not its contents.
            if let DeviceCodeFacts::Damaged(why) = &content.code
                && !has_extension(path, "debug")
            {
                are_references_known = false;
                let place = PackagePath::new(&wheel.package, path);
                findings.at(rule::BROKEN_KPACK_REFERENCE, place, why);
            }
        }
    }
    are_references_known
}

/// A split library finds its code for each target for which packages are in the set.
fn code_of_library(library: &SplitLibrary<'_>, findings: &mut Findings) {
    let place = library.place;
    let has_no_archive = |finds: &Finds| finds.keys.is_empty() && finds.lacking.is_empty();
    if !library.finds.is_empty() && library.finds.values().all(has_no_archive) {
        // The archives that the markers of the library name, with `*` for the target.
        let path = place.path.parse::<RelPath>().ok();
        let patterns = library
            .references
            .iter()
            .flat_map(|reference| &reference.marker.kpack_search_paths)
            .map(|search_path| {
                let archive = path.as_ref().and_then(|path| path.resolve_link(search_path));
                archive.map_or_else(|| search_path.clone(), |archive| archive.to_string())
            })
            .map(|archive| archive.replacen(PLACEHOLDER, "*", 1))
            .sorted()
            .dedup()
            .join("`, `");
        let fact = format!("no package has `{patterns}` for any target");
        return findings.at(rule::UNRESOLVED_KPACK, place, fact);
    }
    let mut references = library.references.iter();
    let refused = references.find_map(|it| HRX.refused_reference(it, library.most_archives));
    if let Some(fact) = refused {
        findings.at(rule::UNREAD_BY_HRX, place, fact);
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
    // Several targets may share one device wheel.
    let in_wheel = targets.iter().filter(|it| it.packaged() == *target);
    let accepted: BTreeSet<CodeTarget> = in_wheel.flat_map(coverage::archived_targets).collect();
    let is_foreign = |target: &CodeTarget| !accepted.contains(&target.base());
    for (member, content) in wheel.contents() {
        let foreign = match &content.code {
            DeviceCodeFacts::Objects(targets) => {
                targets.iter().filter(|it| is_foreign(it)).join("`, `")
            }
            DeviceCodeFacts::Archive(archive) => {
                let is_accepted =
                    |name: &str| name.parse().is_ok_and(|target| !is_foreign(&target));
                archive.targets().iter().filter(|name| !is_accepted(name)).join("`, `")
            }
            _ => continue,
        };
        if !foreign.is_empty() {
            let fact = format!("it holds code for `{foreign}`, in the package of `{target}`");
            findings.at(rule::FOREIGN_DEVICE_FILE, PackagePath::new(wheel, member), fact);
        }
    }
}

/// Reports code that no library looks up in its archive, so that it is lost, and archives that no library
/// names, which users download for nothing.
fn unused_code(
    target: &Target,
    wheel: &WheelFile,
    split: &SplitLibraries<'_>,
    findings: &mut Findings,
) {
    for (member, content) in wheel.contents() {
        let (Some(archive), Ok(path)) = (content.archive(), member.path.parse::<RelPath>()) else {
            continue;
        };
        let codes = archive.codes();
        let is_asked = |key: &&str| {
            let wanted = WantedCode { archive: path.clone(), key: (*key).to_owned() };
            split.asked.contains(&wanted)
        };
        let keys = codes.iter().map(|code| code.key.as_str());
        let (asked, unasked): (BTreeSet<&str>, BTreeSet<&str>) = keys.partition(is_asked);
        // A key that its library finds in another archive is not lost.
        let lost: Vec<&str> =
            unasked.into_iter().filter(|key| split.is_key_missing(target, key)).collect();
        let place = PackagePath::new(wheel, member);
        if !lost.is_empty() {
            let keys = some(&lost, MOST_KEYS);
            let fact = format!("no library looks for {keys} in it, and no other archive has it");
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
struct SplitLibraries<'a> {
    libraries: Vec<SplitLibrary<'a>>,
    /// The code that libraries look up.
    asked: BTreeSet<WantedCode>,
}

/// Code that a library looks up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WantedCode {
    /// The path of the archive.
    archive: RelPath,
    /// The key in the archive, as `WrapperReference::key` has it: `lib/libfoo.so#0`.
    key: String,
}

/// A library whose device code is in archives.
struct SplitLibrary<'a> {
    place: PackagePath<'a>,
    references: &'a [WrapperReference],
    /// The number of archives at the paths of a reference, for the device with the most.
    most_archives: usize,
    /// What the library finds, for each target with packages in the set.
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

impl<'a> SplitLibraries<'a> {
    fn of(set: &'a SetFacts) -> Self {
        let mut libraries = Vec::new();
        for wheel in &set.wheels {
            for (path, content) in wheel.files() {
                if let DeviceCodeFacts::Split(references) = &content.code {
                    let place = PackagePath::new(&wheel.package, path);
                    libraries.push(SplitLibrary {
                        place,
                        references,
                        most_archives: 0,
                        finds: BTreeMap::new(),
                    });
                }
            }
        }
        let mut split = Self { libraries, asked: BTreeSet::new() };
        let hosts = set.wheels.iter().filter(|it| it.device_target().is_none());
        let common: Archives<'_> = hosts.flat_map(|it| archives_of(it)).collect();
        // The directories to which development files are unpacked. Device files appear there too.
        let entries = set.wheels.iter().flat_map(|wheel| wheel.unpacked());
        let devel_tops: BTreeSet<&str> =
            entries.filter_map(|it| it.entry.path.as_str().split('/').next()).collect();
        let every_archive = set.wheels.iter().flat_map(|it| archives_of(it));
        let archive_paths: BTreeSet<RelPath> = every_archive.map(|(path, _)| path).collect();
        for (target, wheel) in set.device_targets() {
            let mut archives = common.clone();
            archives.extend(archives_of(wheel));
            add_unpacked(&mut archives, &devel_tops);
            split.search(&target, &archives, &archive_paths);
        }
        split
    }

    /// Lets each library search its code for a target. `archives` are installed together for the target,
    /// and `archive_paths` are the packed archives of all targets.
    fn search(
        &mut self,
        target: &Target,
        archives: &Archives<'_>,
        archive_paths: &BTreeSet<RelPath>,
    ) {
        // The target without features, and each variant of it for which an archive has code.
        let base = CodeTarget::from(&target.base());
        let variants = archives
            .values()
            .flat_map(|archive| archive.targets())
            .filter_map(|name| name.parse::<CodeTarget>().ok())
            .filter(|variant| variant.base() == base);
        let devices: BTreeSet<CodeTarget> = [base.clone()].into_iter().chain(variants).collect();
        for library in &mut self.libraries {
            let Ok(path) = library.place.path.parse::<RelPath>() else {
                continue;
            };
            let finds = library.finds.entry(target.clone()).or_default();
            for (reference, device) in library.references.iter().cartesian_product(&devices) {
                let key = reference.key();
                let candidates = candidates(&path, reference, &wanted(device));
                let existing = candidates.iter().filter(|path| archives.contains_key(*path));
                library.most_archives = library.most_archives.max(existing.count());
                let asked = candidates
                    .into_iter()
                    .filter(|archive| archive_paths.contains(archive))
                    .map(|archive| WantedCode { archive, key: key.clone() });
                self.asked.extend(asked);
                let find =
                    |generation| loader::find(generation, archives, &path, reference, device);
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

    /// Whether a library to which a key belongs does not find it for the target, or has no wrapper for it.
    /// Libraries that find no code at all do not count; another rule reports them.
    fn is_key_missing(&self, target: &Target, key: &str) -> bool {
        // A key is the name in the marker of its library, and the number of a wrapper: `name#0`.
        let name = key.rsplit_once('#').map_or(key, |(name, _)| name);
        let is_named = |reference: &WrapperReference| reference.marker.kernel_name == name;
        self.libraries
            .iter()
            .filter(|library| library.finds.values().any(|finds| !finds.keys.is_empty()))
            .filter(|library| library.references.iter().any(is_named))
            .any(|library| library.finds.get(target).is_none_or(|finds| !finds.keys.contains(key)))
    }
}

/// The archives in a wheel, by path.
fn archives_of(wheel: &WheelFile) -> impl Iterator<Item = (RelPath, &DeviceArchive)> {
    let contents = wheel.contents();
    contents.filter_map(|(member, content)| Some((member.path.parse().ok()?, content.archive()?)))
}

/// Adds the archives where they appear in the directories to which development files are unpacked.
fn add_unpacked(archives: &mut Archives<'_>, devel_tops: &BTreeSet<&str>) {
    for ((path, archive), top) in archives.clone().iter().cartesian_product(devel_tops) {
        if let Some((_, inside)) = path.as_str().split_once('/')
            && let Ok(unpacked) = format!("{top}/{inside}").parse()
        {
            archives.entry(unpacked).or_insert(*archive);
        }
    }
}
