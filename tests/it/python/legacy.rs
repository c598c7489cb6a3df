//! The sample as a build without kpack splitting would have left it.

use std::path::{Path, PathBuf};

use rocwheel::{
    artifact::{UnpackLimits, sample, stage},
    error::Stop,
};

const SPLIT: &str = "\"KPACK_SPLIT_ARTIFACTS\": true";
const WHOLE: &str = "\"KPACK_SPLIT_ARTIFACTS\": false";

/// Device code lies beside the libraries, in artifacts of families: for each, what stands in for
/// the code of which target.
pub(crate) fn write_run(place: &Path, families: &[(&str, &str)]) {
    for archive in sample::archives().unwrap() {
        let Some(name) = legacy_name(&archive.file_name, families) else {
            continue;
        };
        let name = name.parse().unwrap();
        let limits = UnpackLimits::default();
        let stop = Stop::default();
        let staged = stage(
            archive.bytes.as_slice(),
            &name,
            place,
            &limits,
            &stop,
            &|_| {},
        );
        staged.unwrap().commit().unwrap();
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

fn legacy_name(split: &str, families: &[(&str, &str)]) -> Option<String> {
    let known = families
        .iter()
        .find(|(target, _)| split.contains(&format!("_{target}.")));
    match known {
        Some((target, family)) => Some(split.replace(target, family)),
        None => (!split.contains("_gfx")).then(|| split.to_owned()),
    }
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
