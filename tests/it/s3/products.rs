//! A set is published from one place of a server to a release place of it.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use rocwheel::{
    error::Stop,
    location::Key,
    store::{Condition, Depth, Span, Store as _, StoreFailureKind, s3::S3Store},
};

use super::{
    inprocess::InProcess,
    prune::{options, receive, send},
    server::{SECRET, Server, keys, store},
    upload::{Desk, KEYS},
};
use crate::{
    promote::prune::{assert_whole, wheels},
    support::{
        long,
        place::empty,
        published::{TestSet, sets, sets_in_turn},
    },
};

/// A bucket with a set below `v5/`.
fn with_set(set: &TestSet, store: &S3Store, desk: &Desk) {
    send(store, &set.place());
    fs_err::create_dir_all(desk.bench.path("home")).unwrap();
}

fn promote(desk: &Desk) -> Command {
    let place = |name: &str| format!("s3://{}/{name}", desk.bucket);
    let mut command = desk.command(&KEYS);
    command.args([
        "promote",
        &place("v5"),
        "--to",
        "same",
        "--layout",
        "product",
    ]);
    command.args([
        "--no-check",
        "--no-directory-pages",
        "--format",
        "json",
        "--into",
        &place("to/v5"),
    ]);
    command
}

/// The objects of the release place, with their `ETag`s.
fn published(store: &S3Store) -> Vec<(String, Option<String>)> {
    let directory = "to/".parse().unwrap();
    let objects = store.list(Some(&directory), Depth::All).unwrap();
    objects
        .into_iter()
        .map(|it| (it.key.to_string(), it.etag))
        .collect()
}

#[test]
fn the_server_copies_what_does_not_change() {
    let server = Server::shared();
    for set in sets() {
        let desk = Desk::new();
        let store = server.store(&desk.bucket);
        with_set(set, &store, &desk);
        let done = desk.run(&mut promote(&desk));
        let copied = done.stderr.matches("Copied").count();
        assert_eq!((done.code, copied), (0, set.packages()), "{}", done.stderr);
        // The digest is beside the copy, and a run that finds it there writes nothing.
        for (key, _) in published(&store) {
            let object = store.head(&key.parse().unwrap()).unwrap();
            assert!(object.sha256.is_some(), "{key}");
        }
        let again: serde_json::Value =
            serde_json::from_str(&desk.run(&mut promote(&desk)).ok()).unwrap();
        assert_eq!(again["uploaded"], 0, "{again}");
    }
}

#[test]
fn two_servers_copy_only_the_object_that_was_seen() {
    let (weed, other) = (Server::shared(), InProcess::start());
    let stores = [
        weed.store(&weed.bucket()),
        store(&other.bucket, other.port, keys(SECRET), &Stop::default()),
    ];
    let key = |text: &str| -> Key { text.parse().unwrap() };
    let read = |store: &S3Store, key: &Key| {
        let mut bytes = Vec::new();
        let mut reader = store.get(key, Span::Whole).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let mut options = options();
    options.condition = Condition::IfAbsent;
    for (number, store) in stores.iter().enumerate() {
        let (one, two) = (key("from/a+b.whl"), key("to/a+b.whl"));
        store.put(&one, &b"bytes".as_slice(), &options).unwrap();
        let source = store.copy_source(&one).unwrap().unwrap();
        assert!(store.copy(&two, &source, &options).unwrap());
        assert_eq!(read(store, &two), b"bytes");
        // The second server knows no conditions of copies.
        if number == 0 {
            let again = store.copy(&two, &source, &options).unwrap_err();
            assert_eq!(again.kind(), StoreFailureKind::Exists);
            store.delete(&one).unwrap();
            store.put(&one, &b"other".as_slice(), &options).unwrap();
            assert!(!store.copy(&key("to/c.whl"), &source, &options).unwrap());
        }
    }
}

/// No page names a file that is not there, and the next run does what is missing.
#[test]
fn a_publication_that_was_killed_is_finished_by_the_next() {
    let server = Server::shared();
    let set = sets_in_turn(1)[0];
    let rounds = long::rounds(4, 24);
    let (mut time, mut whole) = (None, None);
    for round in 0..=rounds {
        let desk = Desk::new();
        let store = server.store(&desk.bucket);
        with_set(set, &store, &desk);
        if let Some(time) = time {
            let time: std::time::Duration = time;
            let mut killed = promote(&desk);
            let mut child = killed
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(time * (round * 37 % rounds) / rounds);
            child.kill().unwrap();
            child.wait().unwrap();
            let here = empty(&format!("s3/products/{round}"));
            receive(&store, &here, "to/v5/");
            assert_whole(&here);
        }
        let begun = Instant::now();
        desk.run(&mut promote(&desk)).ok();
        time.get_or_insert(begun.elapsed());
        let here = empty(&format!("s3/products/{round}-done"));
        receive(&store, &here, "to/v5/");
        assert_whole(&here);
        assert_eq!(wheels(&here).len(), set.packages() - 1);
        let keys: Vec<String> = published(&store).into_iter().map(|it| it.0).collect();
        assert_eq!(whole.get_or_insert(keys.clone()), &keys, "round {round}");
    }
}
