//! [`Reach`]: which device code each split library finds for each target.
//!
//! It searches like the runtime does, among the packages that a user of the target installs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use itertools::Itertools as _;

use crate::{
    check::facts::{Binary, DeviceArchive, HostCode, SetFacts, WheelFile},
    elf::ReadAt,
    error::Result,
    kpack::{
        CodeTarget, PLACEHOLDER,
        host::WrapperReference,
        loader::{CodePlace, Generation, Loader, candidates, wanted},
    },
    relpath::RelPath,
    target::Target,
};

/// The split libraries of a set, and the code that they find in archives.
#[derive(Debug, Default)]
pub(super) struct Reach<'a> {
    pub(super) libraries: Vec<Library<'a>>,
    /// The code that libraries look up: the path of an archive and a key in it.
    pub(super) asked: BTreeSet<(RelPath, String)>,
}

#[derive(Debug)]
pub(super) struct Library<'a> {
    pub(super) wheel: &'a str,
    pub(super) path: &'a str,
    pub(super) binary: Binary<'a>,
    references: &'a [WrapperReference],
    /// The archives that its markers name, with a placeholder for the target.
    pub(super) patterns: BTreeSet<String>,
    pub(super) finds: BTreeMap<Target, Finds>,
}

/// The code that a library finds for a target and its variants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Finds {
    /// Whether there is any code for the target that runs with XNACK off.
    pub(super) any: bool,
    /// Whether there is code for any variant of the target.
    pub(super) any_variant: bool,
    /// The keys that are found for any variant.
    keys: BTreeSet<String>,
    /// Keys that no archive for a device has. The runtime then refuses the whole library.
    pub(super) lacking: BTreeMap<CodeTarget, BTreeSet<String>>,
    /// Keys that are missing for a runtime that uses only the first archive for a device.
    pub(super) hidden: BTreeMap<CodeTarget, BTreeSet<String>>,
}

/// Archives that are installed together, by path.
type Archives<'a> = BTreeMap<&'a str, &'a DeviceArchive>;

impl<'a> Reach<'a> {
    pub(super) fn of(set: &'a SetFacts) -> Self {
        let mut reach = Self {
            libraries: libraries(set),
            ..Self::default()
        };
        let hosts = set.wheels.iter().filter(|it| it.device_target().is_none());
        let common: Archives<'_> = hosts.flat_map(|it| archives(it)).collect();
        let tops = development_tops(set);
        let all = set.wheels.iter().flat_map(|it| archives(it));
        let all: BTreeSet<&str> = all.map(|(path, _)| path).collect();
        for (target, wheel) in set.device_wheels() {
            let mut there = common.clone();
            there.extend(archives(wheel));
            reach.look(&target, &there, &tops, &all);
        }
        reach
    }

    fn look(
        &mut self,
        target: &Target,
        there: &Archives<'_>,
        tops: &BTreeSet<&str>,
        all: &BTreeSet<&str>,
    ) {
        let open = |path: &RelPath| -> Result<Option<Arc<dyn ReadAt>>> {
            let found = at(there, tops, path.as_str());
            Ok(found.map(|archive| Arc::clone(&archive.file) as Arc<dyn ReadAt>))
        };
        let mut every = Loader::new(Generation::EveryArchive, &open);
        let mut first = Loader::new(Generation::FirstArchive, &open);
        let devices = devices(target, there);
        for library in &mut self.libraries {
            let Ok(path) = library.path.parse::<RelPath>() else {
                continue;
            };
            let finds = library.finds.entry(target.clone()).or_default();
            for (reference, device) in library.references.iter().cartesian_product(&devices) {
                let key = reference.key();
                let places = candidates(&path, reference, &wanted(device)).into_iter();
                let places = places.filter(|it| all.contains(it.as_str()));
                self.asked.extend(places.map(|it| (it, key.clone())));
                // Damaged archives were found when they were read, so an error here is known
                // already.
                match every.find(&path, reference, device) {
                    Ok(CodePlace::In(..)) => {
                        finds.any |= device.runs_with_xnack_off();
                        finds.any_variant = true;
                        let first = first.find(&path, reference, device);
                        if !matches!(first, Ok(CodePlace::In(..))) {
                            let keys = finds.hidden.entry(device.clone()).or_default();
                            keys.insert(key.clone());
                        }
                        finds.keys.insert(key);
                    }
                    Ok(CodePlace::Lacking) => {
                        let keys = finds.lacking.entry(device.clone()).or_default();
                        keys.insert(key);
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Reach<'_> {
    /// Whether a key belongs to a library that does not find it for the target, or that has no
    /// wrapper for it. Libraries that find no code at all are left out; another rule reports them.
    pub(super) fn lacks(&self, target: &Target, wanted: &str) -> bool {
        let libraries = self.libraries.iter();
        let libraries = libraries.filter(|it| it.finds.values().any(|finds| finds.any_variant));
        let name = wanted.rsplit_once('#').map_or(wanted, |(name, _)| name);
        let is_its = |it: &WrapperReference| it.marker.kernel_name == name;
        let mut asking = libraries.filter(|it| it.references.iter().any(is_its));
        asking.any(|it| {
            it.finds
                .get(target)
                .is_none_or(|finds| !finds.keys.contains(wanted))
        })
    }
}

impl Library<'_> {
    /// The targets for which the library finds code.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        let finds = self.finds.iter().filter(|(_, finds)| finds.any);
        finds.map(|(target, _)| target)
    }
}

/// The target without features, and each variant of it for which an archive has code.
fn devices(target: &Target, there: &Archives<'_>) -> BTreeSet<CodeTarget> {
    let mut devices: BTreeSet<CodeTarget> = target.base().as_str().parse().into_iter().collect();
    let base = devices.clone();
    for device in there.values() {
        let variants = device.archive.targets().iter();
        let variants = variants.filter_map(|text| text.parse::<CodeTarget>().ok());
        devices.extend(variants.filter(|it| base.contains(&it.base())));
    }
    devices
}

fn archives(wheel: &WheelFile) -> impl Iterator<Item = (&str, &DeviceArchive)> {
    let contents = wheel.contents();
    contents.filter_map(|(member, content)| Some((member.path.as_str(), content.archive()?)))
}

/// The directories to which development files are unpacked. Device files appear there as well.
fn development_tops(set: &SetFacts) -> BTreeSet<&str> {
    let entries = set.wheels.iter().flat_map(|wheel| wheel.unpacked());
    let tops = entries.filter_map(|it| it.entry.path.as_str().split('/').next());
    tops.collect()
}

fn at<'a>(there: &Archives<'a>, tops: &BTreeSet<&str>, path: &str) -> Option<&'a DeviceArchive> {
    if let Some(found) = there.get(path) {
        return Some(found);
    }
    let (top, rest) = path.split_once('/')?;
    let mirrored = |known: &str| known.split_once('/').is_some_and(|(_, it)| it == rest);
    let found = there.iter().find(|(known, _)| mirrored(known));
    let found = found.filter(|_| tops.contains(top));
    found.map(|(_, archive)| *archive)
}

fn libraries(set: &SetFacts) -> Vec<Library<'_>> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        for (path, content) in wheel.files() {
            if let Some(binary) = content.binary()
                && let HostCode::Split(references) = binary.code()
            {
                found.push(Library {
                    wheel: &wheel.file,
                    path,
                    binary,
                    references,
                    patterns: patterns(path, references),
                    finds: BTreeMap::new(),
                });
            }
        }
    }
    found
}

fn patterns(path: &str, references: &[WrapperReference]) -> BTreeSet<String> {
    let paths = references
        .iter()
        .flat_map(|it| &it.marker.kpack_search_paths);
    let path = path.parse::<RelPath>().ok();
    paths
        .map(|text| {
            let place = path.as_ref().and_then(|path| path.resolve_link(text));
            place.map_or_else(|| text.clone(), |place| place.to_string())
        })
        .map(|text| text.replacen(PLACEHOLDER, "*", 1))
        .collect()
}
