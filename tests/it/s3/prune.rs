//! `prune` in a bucket, and what is left when it is killed.

use std::{process::Stdio, thread, time::Instant};

use rocwheel::{
    digest::Sha256,
    location::Key,
    store::{Condition, Depth, PutOptions, Store, StoreFailureKind, s3::S3Store},
};

use super::{
    fault::{Fault, Proxy},
    server::Server,
    upload::{Desk, KEYS},
};
use crate::{
    promote::prune::{assert_whole, filled, wheels},
    publish::tree,
    support::{long, place::empty},
};

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

#[test]
fn only_the_object_that_was_seen_is_deleted() {
    let server = Server::shared();
    let store = server.store(&server.bucket());
    let key: Key = "a/b.whl".parse().unwrap();
    let put = |bytes: &[u8]| {
        store.put(&key, &bytes, &options()).unwrap();
        store.head(&key).unwrap().etag
    };
    let first = put(b"one");
    let second = put(b"two");
    let other = store.delete_same(&key, first.as_deref()).unwrap_err();
    assert_eq!(other.kind(), StoreFailureKind::Exists);
    assert_eq!(store.head(&key).unwrap().etag, second);
    store.delete_same(&key, second.as_deref()).unwrap();
    store.delete_same(&key, second.as_deref()).unwrap();
    let gone = store.head(&key).unwrap_err();
    assert_eq!(gone.kind(), StoreFailureKind::NotFound);
}

/// A job that publishes while this one prunes: what it wrote stays, and everything is decided again.
#[test]
fn a_writer_in_between_makes_it_begin_again() {
    let server = Server::shared();
    let source = empty("s3/prune/between");
    filled(&source);
    for (method, what) in [("PUT", "rocm-sdk-core/index.html"), ("DELETE", ".whl")] {
        let desk = Desk::new();
        let store = server.store(&desk.bucket);
        send(&store, &source);
        let proxy = Proxy::before(desk.port);
        proxy.breaks(method, what, 1, Fault::Answer(412, "PreconditionFailed"));
        let desk = Desk {
            port: proxy.port,
            ..desk
        };
        let place = format!("s3://{}/v5", desk.bucket);
        let mut command = desk.command(&KEYS);
        command.args(["prune", &place, "--stream", "nightly", "--keep", "2"]);
        command.args([
            "--grace",
            "0",
            "--most",
            "100",
            "--really",
            "--no-directory-pages",
        ]);
        let done = desk.run(&mut command);
        assert!(
            done.stderr.contains("planning again"),
            "{method}: {}",
            done.stderr
        );
        done.ok();
        let here = empty("s3/prune/between-done");
        receive(&store, &here, "v5/");
        assert_whole(&here);
        assert_eq!(wheels(&here).len(), 12);
    }
}

/// At any moment every page names files that are there, and the next run does the rest.
#[test]
fn a_prune_that_was_killed_is_finished_by_the_next() {
    let server = Server::shared();
    let bench = empty("s3/prune");
    let source = bench.join("source");
    filled(&source);
    let rounds = long::rounds(4, 24);
    let mut time = None;
    let mut whole: Option<Vec<(String, Sha256)>> = None;
    for round in 0..=rounds {
        let desk = Desk::new();
        let store = server.store(&desk.bucket);
        send(&store, &source);
        let run = || {
            let place = format!("s3://{}/v5", desk.bucket);
            let mut command = desk.command(&KEYS);
            command.args([
                "prune", &place, "--stream", "nightly", "--keep", "2", "--grace", "0",
            ]);
            command.args(["--most", "100", "--really", "--no-directory-pages"]);
            command
        };
        if let Some(time) = time {
            let begun: std::time::Duration = time;
            let mut child = run()
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(begun * (round * 37 % rounds) / rounds);
            child.kill().unwrap();
            child.wait().unwrap();
            let here = empty(&format!("s3/prune/{round}"));
            receive(&store, &here, "v5/");
            assert_whole(&here);
        }
        let begun = Instant::now();
        desk.run(&mut run()).ok();
        time.get_or_insert(begun.elapsed());
        let here = empty(&format!("s3/prune/{round}-done"));
        receive(&store, &here, "v5/");
        assert_whole(&here);
        assert_eq!(wheels(&here).len(), 12);
        // The record of what waits is not needed any more when nothing waits.
        let mut there = desk.there();
        there.retain(|(key, _)| !key.ends_with("prune.json"));
        assert_eq!(whole.get_or_insert(there.clone()), &there, "round {round}");
    }
}
