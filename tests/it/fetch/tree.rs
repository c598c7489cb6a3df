//! A directory as a value, so that two can be compared.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::prelude::*;

/// Each path with its mode and its content; of a link, with where it leads.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

/// Of a directory that is not there, nothing.
pub(crate) fn tree(root: &Path) -> Tree {
    let entries = walkdir::WalkDir::new(root).min_depth(1).into_iter();
    let found = entries.filter_map(Result::ok).map(|entry| {
        let (path, kind) = (entry.path(), entry.file_type());
        let content = if kind.is_dir() {
            Vec::new()
        } else if kind.is_symlink() {
            let to = fs_err::read_link(path).unwrap();
            to.into_os_string().into_encoded_bytes()
        } else {
            fs_err::read(path).unwrap()
        };
        let mode = entry.metadata().unwrap().permissions().mode();
        let name = text(path.strip_prefix(root).unwrap());
        (name.to_owned(), (mode, content))
    });
    found.collect()
}

/// What a user sees: without what is written down beside it.
pub(crate) fn seen(root: &Path) -> Tree {
    let mut tree = tree(root);
    tree.retain(|path, _| !path.starts_with(".rocwheel"));
    tree
}

/// The paths at which two trees differ.
pub(crate) fn difference(one: &Tree, other: &Tree) -> Vec<String> {
    let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let different = paths.into_iter();
    let different = different.filter(|path| one.get(*path) != other.get(*path));
    different.cloned().collect()
}
