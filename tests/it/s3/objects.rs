//! Single objects of a bucket: written and read by tests.

use rocwheel::{
    location::Key,
    store::{Condition, Depth, PutOptions, Store, s3::S3Store},
};

use crate::publish::tree;

pub(super) fn options() -> PutOptions {
    PutOptions {
        content_type: "text/html".to_owned(),
        cache_control: None,
        condition: Condition::Always,
        sha256: None,
    }
}

/// Puts the files of a directory below `v5/` of a bucket.
pub(crate) fn send(store: &S3Store, from: &std::path::Path) {
    for path in tree(from) {
        let bytes = fs_err::read(from.join(&path)).unwrap();
        let key: Key = format!("v5/{path}").parse().unwrap();
        store.put(&key, &bytes.as_slice(), &options()).unwrap();
    }
}

/// Writes the objects below a directory of the bucket to this disk.
pub(super) fn receive(store: &S3Store, to: &std::path::Path, below: &str) {
    for object in store.list(None, Depth::All).unwrap() {
        let Some(path) = object.key.as_str().strip_prefix(below) else {
            continue;
        };
        let path = to.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        let mut reader = store
            .get(&object.key, rocwheel::store::Span::Whole)
            .unwrap();
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
}
