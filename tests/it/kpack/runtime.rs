//! What a split tree gives every device, beside what the fat binary gave it.

use std::{collections::BTreeSet, path::Path};

use rocwheel_base::relpath::RelPath;
use rocwheel_kpack::{
    CodeTarget,
    archive::KpackArchive,
    bundle::{self, BundleEntry, OpenedBundle},
    host::{self, FatFileKind},
    loader::{self, CodePlace, Generation, wanted},
};

/// Checks that each device gets for each wrapper of a split binary what it got from the fat one,
/// from both generations of the runtime. Returns how many code objects were compared.
pub(super) fn compare(fat: &[u8], root: &Path, path: &str) -> usize {
    compare_devices(fat, root, path, devices)
}

/// The same for these targets alone, as they are installed: the split binary may be another family's.
pub(super) fn compare_for(targets: &[&str], fat: &[u8], root: &Path, path: &str) -> usize {
    let targets: BTreeSet<CodeTarget> = targets.iter().map(|one| one.parse().unwrap()).collect();
    compare_devices(fat, root, path, |_| targets)
}

fn compare_devices(
    fat: &[u8],
    root: &Path,
    path: &str,
    devices: impl FnOnce(BTreeSet<CodeTarget>) -> BTreeSet<CodeTarget>,
) -> usize {
    let path: RelPath = path.parse().unwrap();
    let fat = fat.to_vec();
    let FatFileKind::Fat(found) = host::look(&fat).unwrap() else {
        panic!("not fat: {path}");
    };
    let split = fs_err::read(root.join(path.as_str())).unwrap();
    let references = host::references(&split).unwrap();
    assert_eq!(references.len(), found.wrappers.len());
    let section = found.section(&fat).unwrap();
    let opened: Vec<_> =
        found.bundles.iter().map(|one| bundle::open(&section, one).unwrap()).collect();
    let targets = opened.iter().flat_map(|one| one.code().map(|(target, _)| target.clone()));
    let devices = devices(targets.collect());
    let archives = archives(root);
    let archives = archives.iter().map(|(path, it)| (path.clone(), it)).collect();
    let mut compared = 0;
    for generation in [Generation::FirstArchive, Generation::EveryArchive] {
        for (wrapper, reference) in found.wrappers.iter().zip(&references) {
            let bundle = &opened[wrapper.bundle];
            for device in &devices {
                let entry = choose(bundle, device);
                let expected = entry.map(|entry| bundle.read(entry).unwrap());
                compared += usize::from(expected.is_some());
                let got = match loader::find(generation, &archives, &path, reference, device) {
                    CodePlace::In(archive, code) => Some(archive.read(code).unwrap()),
                    CodePlace::PassedOver => None,
                    CodePlace::Lacking => panic!("{path} for {device}: {generation:?}"),
                };
                let index = reference.index;
                assert!(got == expected, "{path}#{index} {device}: {generation:?}");
            }
        }
    }
    compared
}

/// All archives of a tree.
fn archives(root: &Path) -> Vec<(RelPath, KpackArchive<Vec<u8>>)> {
    let files = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    let archives = files.filter(|file| file.path().extension().is_some_and(|it| it == "kpack"));
    let archives = archives.map(|file| {
        let path = file.path().strip_prefix(root).unwrap();
        let archive = KpackArchive::open(fs_err::read(file.path()).unwrap());
        (path.to_str().unwrap().parse().unwrap(), archive.unwrap())
    });
    archives.collect()
}

/// The entry of a bundle that a device gets while the code is still in the binary.
fn choose<'a>(opened: &'a OpenedBundle<'_>, device: &CodeTarget) -> Option<&'a BundleEntry> {
    let wanted = wanted(device);
    let mut wanted = wanted.iter();
    wanted.find_map(|target| {
        let mut code = opened.code();
        code.find(|(known, _)| *known == target).map(|(_, entry)| entry)
    })
}

/// Every kind of device that the code of any target could be loaded on, and some more.
fn devices(targets: BTreeSet<CodeTarget>) -> BTreeSet<CodeTarget> {
    let others = ["gfx1201", "gfx950", "gfx1101:xnack-"];
    let mut devices: BTreeSet<CodeTarget> = others.map(|one| one.parse().unwrap()).into();
    for target in targets {
        let base = target.base();
        let with = "|:xnack+|:xnack-|:sramecc+:xnack+|:sramecc-:xnack-".split('|');
        devices.extend(with.map(|features| format!("{base}{features}").parse().unwrap()));
        devices.insert(target);
    }
    devices
}
