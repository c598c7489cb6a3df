//! The sample as a build without kpack splitting would have left it.

use rocwheel::{
    artifact::{UnpackLimits, sample, stage},
    error::Stop,
};

use crate::support::prelude::*;

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
        let (bytes, limits) = (archive.bytes.as_slice(), UnpackLimits::default());
        let staged = stage(bytes, &name, place, &limits, &Stop::default(), &|_| {});
        staged.unwrap().commit().unwrap();
    }
    let mut manifests = 0;
    for path in tree(place).iter().map(|path| place.join(path)) {
        if path.ends_with("therock_manifest.json") {
            let text = fs_err::read_to_string(&path).unwrap();
            assert_has!(text, SPLIT);
            fs_err::write(&path, text.replace(SPLIT, WHOLE)).unwrap();
            manifests += 1;
        } else if let Some(parent) = path.parent().filter(|parent| parent.ends_with(".kpack")) {
            fs_err::remove_dir_all(parent).unwrap();
        }
    }
    assert_eq!(manifests, 1);
}

fn legacy_name(split: &str, families: &[(&str, &str)]) -> Option<String> {
    let mut families = families.iter();
    match families.find(|(target, _)| split.contains(&format!("_{target}."))) {
        Some((target, family)) => Some(split.replace(target, family)),
        None => (!split.contains("_gfx")).then(|| split.to_owned()),
    }
}
