//! The sample as a build without kpack splitting would have left it.

use std::io::Read;

use crate::support::prelude::*;

const SPLIT: &str = "\"KPACK_SPLIT_ARTIFACTS\": true";
const WHOLE: &str = "\"KPACK_SPLIT_ARTIFACTS\": false";

/// Device code lies beside the libraries, in artifacts of families: for each, what stands in for
/// the code of which target.
pub(crate) fn write_run(place: &Path, families: &[(&str, &str)]) {
    for (name, bytes) in sample().archives() {
        if let Some(name) = legacy_name(&name, families) {
            unpack(&name, &bytes, place);
        }
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

/// Unpacks an archive into the directory of its artifact, as `fetch` does.
fn unpack(file_name: &str, bytes: &[u8], place: &Path) {
    let (name, extension) = file_name.split_once(".tar.").unwrap();
    let tar: Box<dyn Read + '_> = match extension {
        "zst" => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        _ => Box::new(xz2::read::XzDecoder::new(bytes)),
    };
    tar::Archive::new(tar).unpack(place.join(name)).unwrap();
}

fn legacy_name(split: &str, families: &[(&str, &str)]) -> Option<String> {
    let mut families = families.iter();
    match families.find(|(target, _)| split.contains(&format!("_{target}."))) {
        Some((target, family)) => Some(split.replace(target, family)),
        None => (!split.contains("_gfx")).then(|| split.to_owned()),
    }
}
