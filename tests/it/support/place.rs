//! Directories to work in.

use crate::support::prelude::*;

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

/// Every file and link below a directory, by path, in order.
pub(crate) fn tree(directory: &Path) -> Vec<String> {
    contents_by(directory, |_| ()).into_keys().collect()
}

/// The same with the bytes of each file, and the text of each link.
pub(crate) fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    contents_by(directory, |path| match fs_err::read_link(path) {
        Ok(text) => text.to_str().unwrap().as_bytes().to_vec(),
        Err(_) => fs_err::read(path).unwrap(),
    })
}

/// What commands made there: the same without their caches, locks and staged files, which any command may
/// write that reads the directory meanwhile.
pub(crate) fn contents_without_caches(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = contents(directory);
    files.retain(|path, _| !path.contains(".rocwheel-"));
    files
}

fn contents_by<T>(directory: &Path, read: impl Fn(&Path) -> T) -> BTreeMap<String, T> {
    let entries = walkdir::WalkDir::new(directory).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| !entry.file_type().is_dir());
    let files = files.map(|entry| {
        let path = entry.path().strip_prefix(directory).unwrap();
        (text(path).to_owned(), read(entry.path()))
    });
    files.collect()
}

/// Copies a directory with all that is in it, as it is.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    succeed(Command::new("cp").arg("-a").arg(from).arg(to));
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
