//! [`Reach`]: which device code each split library finds for each target.
//!
//! It searches like the runtime does, among the packages that a user of the target installs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    check::{
        facts::{Binary, DeviceCodeFacts, Elf, HostCode, SetFacts, WheelFile},
        sparse::SparseFile,
    },
    elf::ReadAt,
    error::Result,
    kpack::{
        CodeTarget, PLACEHOLDER,
        archive::{KpackArchive, key},
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
    pub(super) lacking: BTreeSet<(CodeTarget, String)>,
    /// Keys that are missing for a runtime that uses only the first archive for a device.
    pub(super) hidden: BTreeSet<(CodeTarget, String)>,
}

/// Archives that are installed together, by path.
type Archives<'a> = BTreeMap<&'a str, &'a Arc<SparseFile>>;

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
            Ok(found.map(|sparse| Arc::clone(sparse) as Arc<dyn ReadAt>))
        };
        let mut every = Loader::new(Generation::EveryArchive, &open);
        let mut first = Loader::new(Generation::FirstArchive, &open);
        let devices = devices(target, there);
        for library in &mut self.libraries {
            let Ok(path) = library.path.parse::<RelPath>() else {
                continue;
            };
            let finds = library.finds.entry(target.clone()).or_default();
            for reference in library.references {
                for device in &devices {
                    finds.add(&path, reference, device, [&mut every, &mut first]);
                    self.asked.extend(asked(&path, reference, device, all));
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

impl Finds {
    fn add(
        &mut self,
        path: &RelPath,
        reference: &WrapperReference,
        device: &CodeTarget,
        [every, first]: [&mut Loader<'_>; 2],
    ) {
        let key = || (device.clone(), key_of(reference));
        // Damaged archives were found when they were read, so an error here is known already.
        let whole = every.find(path, reference, device);
        let is_found = matches!(whole, Ok(CodePlace::In(..)));
        self.any |= is_found && device.runs_with_xnack_off();
        self.any_variant |= is_found;
        if is_found {
            self.keys.insert(key_of(reference));
        }
        if matches!(whole, Ok(CodePlace::Lacking)) {
            self.lacking.insert(key());
        } else if is_found && !matches!(first.find(path, reference, device), Ok(CodePlace::In(..)))
        {
            self.hidden.insert(key());
        }
    }
}

impl Library<'_> {
    /// The targets for which the library finds code.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        let finds = self.finds.iter().filter(|(_, finds)| finds.any);
        finds.map(|(target, _)| target)
    }
}

/// The key that a wrapper looks up in archives.
fn key_of(reference: &WrapperReference) -> String {
    let index = usize::try_from(reference.index).unwrap_or(usize::MAX);
    key(&reference.marker.kernel_name, index)
}

/// The existing archives that a wrapper names, with its key.
fn asked(
    path: &RelPath,
    reference: &WrapperReference,
    device: &CodeTarget,
    all: &BTreeSet<&str>,
) -> impl Iterator<Item = (RelPath, String)> {
    let places = candidates(path, reference, &wanted(device)).into_iter();
    let places = places.filter(|it| all.contains(it.as_str()));
    places.map(|it| (it, key_of(reference)))
}

/// The target without features, and each variant of it for which an archive has code.
fn devices(target: &Target, there: &Archives<'_>) -> BTreeSet<CodeTarget> {
    let mut devices: BTreeSet<CodeTarget> = target.base().as_str().parse().into_iter().collect();
    let base = devices.clone();
    for sparse in there.values() {
        let targets = KpackArchive::open(sparse.as_ref());
        let targets = targets.map(|archive| archive.targets().to_vec());
        let variants = targets.unwrap_or_default().into_iter();
        let variants = variants.filter_map(|text| text.parse::<CodeTarget>().ok());
        devices.extend(variants.filter(|it| base.contains(&it.base())));
    }
    devices
}

fn archives(wheel: &WheelFile) -> impl Iterator<Item = (&str, &Arc<SparseFile>)> {
    let contents = wheel.contents();
    contents.filter_map(|(member, content)| match &content.code {
        Some(DeviceCodeFacts::Archive(sparse)) => Some((member.path.as_str(), sparse)),
        _ => None,
    })
}

/// The directories to which development files are unpacked. Device files appear there as well.
fn development_tops(set: &SetFacts) -> BTreeSet<&str> {
    let entries = set.wheels.iter().flat_map(|wheel| wheel.unpacked());
    let tops = entries.filter_map(|it| it.entry.path.as_str().split('/').next());
    tops.collect()
}

fn at<'a>(there: &Archives<'a>, tops: &BTreeSet<&str>, path: &str) -> Option<&'a Arc<SparseFile>> {
    if let Some(found) = there.get(path) {
        return Some(found);
    }
    let (top, rest) = path.split_once('/')?;
    let mirrored = |known: &str| known.split_once('/').is_some_and(|(_, it)| it == rest);
    let found = there.iter().find(|(known, _)| mirrored(known));
    found
        .filter(|_| tops.contains(top))
        .map(|(_, sparse)| *sparse)
}

fn libraries(set: &SetFacts) -> Vec<Library<'_>> {
    let mut found = Vec::new();
    for wheel in &set.wheels {
        let members = wheel.contents();
        let members =
            members.filter_map(|(member, content)| Some((&*member.path, content.binary()?)));
        let unpacked = wheel.unpacked().filter_map(|it| match &it.elf {
            Some(Elf::Read(elf)) => Some((it.entry.path.as_str(), Binary::Elf(elf))),
            _ => None,
        });
        for (path, binary) in members.chain(unpacked) {
            let HostCode::Split(references) = binary.code() else {
                continue;
            };
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
