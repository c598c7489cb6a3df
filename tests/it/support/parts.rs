//! Packages of the sample, built for some of its targets, and the Python in them.

use flate2::read::GzDecoder;

use super::sandbox::words;
use crate::support::prelude::*;

/// Builds packages into `dist` of a directory, from the artifacts of these targets and of every GPU. `more` is the
/// rest of the line of `build`.
pub(crate) fn build_for(targets: &[&str], dest: &Path, more: &str) {
    let place = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(sample().artifacts()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let scope = name.rsplit_once('_').map(|(_, scope)| scope);
        if scope.is_some_and(|scope| scope == "generic" || targets.contains(&scope)) {
            copy_tree(&path, &place.path().join(name));
        }
    }
    build(place.path(), dest, more);
}

/// Builds packages into `dist` of a directory.
pub(crate) fn build(artifacts: &Path, dest: &Path, more: &str) {
    let mut build = command();
    build.args(["build", "--artifact-dir", text(artifacts), "--output-dir", text(dest)]);
    succeed(build.args(words(more)));
}

/// Unpacks an sdist, without the directory that all its files are in.
pub(crate) fn unpack_sdist(sdist: &Path, to: &Path) {
    let mut tar = tar::Archive::new(GzDecoder::new(fs_err::File::open(sdist).unwrap()));
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path: PathBuf = entry.path().unwrap().components().skip(1).collect();
        let path = to.join(path);
        if entry.header().entry_type().is_dir() {
            fs_err::create_dir_all(path).unwrap();
        } else {
            entry.unpack(path).unwrap();
        }
    }
}

/// Unpacks the Python of a wheel, and the tables that it reads.
pub(crate) fn unpack_python(wheel: &Path, to: &Path) {
    for (name, _, bytes) in unzip(&fs_err::read(wheel).unwrap()) {
        let is_python =
            [".py", "/_dist_info.json", "/py.typed"].iter().any(|it| name.ends_with(it));
        if is_python && !name.starts_with("_rocm") {
            let path = to.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, bytes).unwrap();
        }
    }
}
