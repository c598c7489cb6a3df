//! Single objects of a bucket: written and read by tests.

use rocwheel_store::{Depth, Span, Store, s3::S3Store};

use super::read;
use crate::support::memory::put;
use crate::support::prelude::*;

/// Puts the files of a directory below `v5/` of a bucket.
pub(crate) fn send(store: &S3Store, from: &Path) {
    for (path, bytes) in contents(from) {
        put(store, &format!("v5/{path}"), "text/html", &bytes);
    }
}

/// Writes the objects below a directory of the bucket to this disk.
pub(super) fn receive(store: &S3Store, to: &Path, below: &str) {
    for object in store.list(None, Depth::All).unwrap() {
        let key = object.key.as_str();
        let Some(path) = key.strip_prefix(below) else {
            continue;
        };
        let path = to.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, read(store, key, Span::Whole).unwrap()).unwrap();
    }
}
