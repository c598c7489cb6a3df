//! A directory as a value, so that two can be compared.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::Path};

use fs_err as fs;

/// Each path with its mode and its content; of a link, with where it leads.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

pub(crate) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            let what = fs::symlink_metadata(&path).unwrap();
            let content = if what.is_dir() {
                Vec::new()
            } else if what.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let mode = what.permissions().mode();
            found.insert(name.to_owned(), (mode, content));
            if what.is_dir() {
                ahead.push(path);
            }
        }
    }
    found
}

/// What a user sees: without what is written down beside it.
pub(crate) fn seen(root: &Path) -> Tree {
    let mut tree = tree(root);
    tree.retain(|path, _| !path.starts_with(".rocwheel"));
    tree
}

/// Where two trees differ, in words.
pub(crate) fn difference(one: &Tree, other: &Tree) -> Vec<String> {
    let paths = one.keys().chain(other.keys());
    let mut different: Vec<String> = paths
        .filter(|path| one.get(*path) != other.get(*path))
        .cloned()
        .collect();
    different.dedup();
    different
}
