//! The sample as a build without kpack splitting would have left it, for one family.

use std::path::{Path, PathBuf};

use rocwheel::{
    artifact::{Limits, sample, unpack},
    error::Stop,
};

const SPLIT: &str = "\"KPACK_SPLIT_ARTIFACTS\": true";
const WHOLE: &str = "\"KPACK_SPLIT_ARTIFACTS\": false";

/// Device code lies beside the libraries, in artifacts of the family `gfx94X-dcgpu`.
pub(super) fn write_run(place: &Path) {
    for archive in sample::archives() {
        let Some(name) = legacy_name(&archive.file_name()) else {
            continue;
        };
        let bytes = archive.bytes().unwrap();
        let name = name.parse().unwrap();
        let limits = Limits::default();
        unpack(&bytes[..], &name, place, &limits, &Stop::default(), &|_| {}).unwrap();
    }
    let mut manifests = 0;
    for path in files(place) {
        if path.ends_with("therock_manifest.json") {
            let text = fs_err::read_to_string(&path).unwrap();
            assert!(text.contains(SPLIT), "{text}");
            fs_err::write(&path, text.replace(SPLIT, WHOLE)).unwrap();
            manifests += 1;
        } else if let Some(parent) = path.parent().filter(|parent| parent.ends_with(".kpack")) {
            fs_err::remove_dir_all(parent).unwrap();
        }
    }
    assert_eq!(manifests, 1);
}

fn legacy_name(split: &str) -> Option<String> {
    let foreign = split.contains("gfx1100") || split.contains("xnack");
    (!foreign).then(|| split.replace("gfx942", "gfx94X-dcgpu"))
}

/// All files below a directory; each `.kpack` holds one.
fn files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(place).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
