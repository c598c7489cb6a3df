//! Directories to work in.

use std::path::{Path, PathBuf};

/// The directory for temporary files of these tests, below `target/`.
pub(crate) const TEMPORARY: &str = env!("CARGO_TARGET_TMPDIR");

/// An empty directory below `target/tmp`, such as `pipeline/again`.
pub(crate) fn empty(path: &str) -> PathBuf {
    let place = Path::new(TEMPORARY).join(path);
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    fs_err::create_dir_all(&place).unwrap();
    place
}

/// Copies the files of a directory, and not its directories.
pub(crate) fn copy_files(from: &Path, to: &Path) {
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs_err::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
