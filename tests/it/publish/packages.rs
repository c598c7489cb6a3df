//! Packages for these tests: small, installable, and of versions with a `+`.

pub(crate) use rocwheel_test_files::wheels::{VERSION, wheel, wheels};

use crate::support::{parts, prelude::*};

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

/// Writes into a `set.json` why a file must not be installed.
pub(crate) fn yank(document: &str, file: &str, reason: &str) {
    let text = fs_err::read_to_string(document).unwrap();
    let mut set: Value = serde_json::from_str(&text).unwrap();
    let mut files = set["files"].as_array_mut().unwrap().iter_mut();
    let found = files.find(|it| it["path"].as_str().unwrap().contains(file)).unwrap();
    found["yanked"] = reason.into();
    fs_err::write(document, set.to_string()).unwrap();
}
