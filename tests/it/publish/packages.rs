//! Packages for these tests: small, installable, and of versions with a `+`.

use std::io::Write as _;

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::support::{parts, prelude::*};

/// As a development build has it.
pub(crate) const VERSION: &str = "7.13.0.dev0+ab.cd";

/// A set as `build` leaves it in `dist/`, with wheels only.
pub(crate) fn wheels(root: &Path) {
    let dist = root.join("dist");
    wheel(&dist, "rocm-sdk-core", VERSION, "Requires-Python: >=3.8,<4\n");
    wheel(&dist, "rocm-sdk-libraries", VERSION, "");
    let needs = format!("Requires-Dist: rocm-sdk-libraries=={VERSION}\n");
    wheel(&dist, "rocm-sdk-device-gfx942", VERSION, &needs);
}

/// A whole set: `rocm` is the sdist that selects the others.
pub(crate) fn whole_set(root: &Path) {
    wheels(root);
    let dist = root.join("dist");
    wheel(&dist, "rocm-sdk-devel", VERSION, "");
    let built = tempfile::tempdir().unwrap();
    parts::build_for(&["gfx942"], built.path(), &format!("--version {VERSION} --only rocm"));
    let sdist = format!("rocm-{VERSION}.tar.gz");
    fs_err::copy(built.path().join("dist").join(&sdist), dist.join(&sdist)).unwrap();
}

fn metadata(name: &str, version: &str, more: &str) -> String {
    format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
}

/// Writes into a `set.json` why a file must not be installed.
pub(crate) fn yank(document: &str, file: &str, reason: &str) {
    let text = fs_err::read_to_string(document).unwrap();
    let mut set: Value = serde_json::from_str(&text).unwrap();
    let mut files = set["files"].as_array_mut().unwrap().iter_mut();
    let found = files.find(|it| it["path"].as_str().unwrap().contains(file)).unwrap();
    found["yanked"] = reason.into();
    fs_err::write(document, set.to_string()).unwrap();
}

/// A wheel, and its path.
pub(crate) fn wheel(directory: &Path, name: &str, version: &str, more: &str) -> String {
    let stem = name.replace('-', "_");
    let info = format!("{stem}-{version}.dist-info");
    let tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let members = [
        (format!("{stem}/__init__.py"), "x = 1\n".to_owned()),
        (format!("{info}/METADATA"), metadata(name, version, more)),
        (format!("{info}/WHEEL"), tag.to_owned()),
    ];
    let mut record: String = members.iter().map(|(path, _)| path.clone() + ",,\n").collect();
    record.push_str(&info);
    record.push_str("/RECORD,,\n");
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let all = members.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    for (path, text) in all.chain([(&*format!("{info}/RECORD"), record.as_str())]) {
        archive.start_file(path, stored).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    let path = directory.join(format!("{stem}-{version}-py3-none-any.whl"));
    fs_err::create_dir_all(directory).unwrap();
    // It may be another name of a published file, which must not change.
    let _ = fs_err::remove_file(&path);
    fs_err::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    path.to_str().unwrap().to_owned()
}
