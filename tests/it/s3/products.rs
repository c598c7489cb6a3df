//! A set is published from one place of a server to a release place of it.

use std::{cell::RefCell, io::Read as _, process::Command};

use rocwheel::{
    digest::Sha256,
    error::Stop,
    location::Key,
    store::{Condition, Depth, Span, Store as _, StoreFailureKind, s3::S3Store},
};

use super::{
    fault::{Fault, Proxy},
    inprocess::InProcess,
    objects::{options, receive, send},
    server::{SECRET, Server, keys, store},
    upload::{Desk, KEYS},
};
use crate::{
    promote::places::{assert_whole, filled, wheels},
    publish::tree,
    support::{
        killed::killed_at_every_step,
        long,
        place::empty,
        program::Outcome,
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
#[ignore = "slow"]
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
#[ignore = "slow"]
fn two_servers_copy_only_the_object_that_was_seen() {
    let (weed, other) = (Server::shared(), InProcess::start());
    let bucket = weed.bucket();
    let stores = [
        weed.store(&bucket),
        store(&other.bucket, other.port, keys(SECRET), &Stop::default()),
    ];
    let bytes = b"bytes";
    let key = |text: &str| -> Key { text.parse().unwrap() };
    let (one, two, three) = (key("a+b.whl"), key("to/a b.whl"), key("to/c.whl"));
    let mut options = options();
    options.condition = Condition::IfAbsent;
    options.sha256 = Some(Sha256::of(bytes));
    for (number, store) in stores.iter().enumerate() {
        store.put(&one, &bytes.as_slice(), &options).unwrap();
        let source = store.copy_source(&one).unwrap().unwrap();
        assert!(store.copy(&two, &source, &options).unwrap());
        let copied = store.head(&two).unwrap();
        assert_eq!((copied.size, copied.sha256), (source.size, options.sha256));
        let mut read = Vec::new();
        let mut reader = store.get(&two, Span::Whole).unwrap();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        // The second server knows no conditions of copies.
        if number > 0 {
            continue;
        }
        let again = store.copy(&two, &source, &options).unwrap_err();
        assert_eq!(again.kind(), StoreFailureKind::Exists);
        // Another object has the place of the one that was seen.
        store.delete(&one).unwrap();
        options.sha256 = None;
        store.put(&one, &bytes[1..].as_ref(), &options).unwrap();
        assert!(!store.copy(&three, &source, &options).unwrap());
        assert!(store.head(&three).is_err());
        options.sha256 = Some(Sha256::of(bytes));
    }
}

#[test]
fn an_object_that_the_server_does_not_copy_has_to_be_sent() {
    let server = Server::shared();
    let bucket = server.bucket();
    let key = |text: &str| -> Key { text.parse().unwrap() };
    let (one, two) = (key("from/one.whl"), key("to/two.whl"));
    let direct = server.store(&bucket);
    direct.put(&one, &b"bytes".as_slice(), &options()).unwrap();
    let mut source = direct.copy_source(&one).unwrap().unwrap();
    for answer in [
        Fault::Answer(501, "NotImplemented"),
        Fault::Answer(403, "AccessDenied"),
    ] {
        let proxy = Proxy::before(server.port);
        proxy.breaks("PUT", "to/two.whl", 100, answer);
        let store = store(&bucket, proxy.port, keys(SECRET), &Stop::default());
        assert!(!store.copy(&two, &source, &options()).unwrap());
        assert!(direct.head(&two).is_err());
    }
    // S3 copies at most 5 GiB with one request.
    source.size = (5 << 30) + 1;
    assert!(!direct.copy(&two, &source, &options()).unwrap());
}

/// A server of another make knows neither conditions of copies nor those of deletions.
#[test]
#[ignore = "slow"]
fn two_servers_take_what_is_promoted_and_published() {
    for set in sets() {
        let other = InProcess::start();
        // To this server, a key that ends in `/` is a directory, and each attempt to read one is an error.
        let proxy = Proxy::before(other.port);
        let missing = Fault::Answer(404, "NoSuchKey");
        proxy.breaks("GET", "/?x-id=GetObject", usize::MAX, missing);
        let desk = Desk {
            bucket: other.bucket.clone(),
            port: proxy.port,
            ..Desk::new()
        };
        let store = store(&desk.bucket, other.port, keys(SECRET), &Stop::default());
        with_set(set, &store, &desk);
        let place = |name: &str| format!("s3://{}/{name}", desk.bucket);
        let flat = [
            "--to",
            "same",
            "--no-check",
            "--no-directory-pages",
            "--into",
        ];
        let mut command = desk.command(&KEYS);
        command.args(["promote", &place("v5")]).args(flat);
        desk.run(command.arg(place("flat"))).ok();
        desk.run(&mut promote(&desk)).ok();
        let again: serde_json::Value =
            serde_json::from_str(&desk.run(&mut promote(&desk)).ok()).unwrap();
        assert_eq!(again["uploaded"], 0, "{again}");
        let here = empty(&format!("s3/products/other-{}", set.name));
        receive(&store, &here, "to/v5/");
        assert_whole(&here);
        assert_eq!(wheels(&here).len(), set.packages() - 1);
    }
}

/// No page names a file that is not there, and the next run does what is missing. The short form is that of a
/// directory, `promote::killed`.
#[test]
fn a_publication_that_was_killed_is_finished_by_the_next() {
    if long::is_left_out() {
        return;
    }
    let server = Server::shared();
    let set = sets_in_turn(1)[0];
    let desk = RefCell::new(Desk::new());
    let command = |_| {
        let mut desk = desk.borrow_mut();
        *desk = Desk::new();
        with_set(set, &server.store(&desk.bucket), &desk);
        promote(&desk)
    };
    let keys = |desk: &Desk, name: &str| -> Vec<String> {
        let store = server.store(&desk.bucket);
        let here = empty(&format!("s3/products/{name}"));
        receive(&store, &here, "to/v5/");
        assert_whole(&here);
        published(&store).into_iter().map(|it| it.0).collect()
    };
    Outcome::of(command(0).output().unwrap()).ok();
    let whole = keys(&desk.borrow(), "whole");
    let wheels = whole.iter().filter(|key| key.ends_with(".whl"));
    assert_eq!(wheels.count(), set.packages() - 1);
    killed_at_every_step(command, |killed| {
        let desk = desk.borrow();
        keys(&desk, "killed");
        desk.run(&mut promote(&desk)).ok();
        assert_eq!(keys(&desk, "done"), whole, "{killed}");
    });
}

/// The pages of a release place that other programs filled.
#[test]
#[ignore = "slow"]
fn pages_are_written_from_the_files_that_are_there() {
    let desk = Desk::new();
    let store = Server::shared().store(&desk.bucket);
    let source = desk.bench.root.join("source");
    filled(&source);
    let core = source.join("rocm/core/whl-next");
    // Files alone, as other programs leave them: two sidecars are missing, and a page is wrong.
    let pages = tree(&source).into_iter();
    for page in pages.filter(|it| it.ends_with(".html")) {
        fs_err::remove_file(source.join(page)).unwrap();
    }
    let name = "rocm_sdk_core-7.14.0a20260801-py3-none-any.whl";
    fs_err::remove_file(core.join(format!("rocm-sdk-core/{name}.metadata"))).unwrap();
    fs_err::write(
        core.join("rocm-sdk-core/index.html"),
        format!("<a href={name}>{name}</a>"),
    )
    .unwrap();
    fs_err::copy(
        core.join("rocm-sdk-core").join(name),
        core.join("rocm-sdk-old").join(name),
    )
    .unwrap();
    send(&store, &source);
    let proxy = Proxy::before(desk.port);
    let desk = Desk {
        port: proxy.port,
        ..desk
    };
    let index = |flags: &[&str]| {
        let place = format!("s3://{}/v5", desk.bucket);
        let mut command = desk.command(&KEYS);
        command.args(["index", &place, "--layout", "product"]);
        command.arg("--no-directory-pages");
        desk.run(command.args(flags))
    };
    let plan = index(&["--dry-run"]);
    assert!(
        plan.stderr
            .contains("its directory is that of another project"),
        "{}",
        plan.stderr
    );
    insta::assert_snapshot!(plan.ok(), @"
    to s3://BUCKET/v5
    new           67 B  rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0a20260801-py3-none-any.whl.metadata
    replace   6.04 KiB  rocm/core/whl-next/rocm-sdk-core/index.html
    new       5.61 KiB  rocm/core/whl-next/rocm-sdk-device-gfx942/index.html
    new       5.57 KiB  rocm/core/whl-next/rocm-sdk-libraries/index.html
    new       3.22 KiB  rocm/core/whl-next/rocm-sdk-old/index.html
    new       3.22 KiB  rocm/pytorch/whl-next/torch/index.html
    new       3.21 KiB  rocm/pytorch/whl-next/triton/index.html
    new       2.89 KiB  rocm/core/whl-next/index.html
    new       2.73 KiB  rocm/pytorch/whl-next/index.html
    8 new (26.51 KiB), 1 to replace (6.04 KiB), 0 there already (0 B)
    ");
    insta::assert_snapshot!(index(&[]).ok(), @"
    http://HOST/BUCKET/v5/rocm/core/whl-next/
    http://HOST/BUCKET/v5/rocm/pytorch/whl-next/
    ");
    let here = || {
        let here = empty("s3/products/indexed");
        receive(&store, &here, "v5/");
        assert_whole(&here);
        here
    };
    let page = fs_err::read_to_string(here().join("rocm/core/whl-next/rocm-sdk-core/index.html"));
    let page = page.unwrap();
    let line = page
        .lines()
        .find(|it| it.contains(&format!("{name}#sha256=")))
        .unwrap();
    assert!(line.contains("data-core-metadata"), "{line}");
    // Nothing changed: nothing is written.
    let before = proxy.count("PUT ");
    let said: serde_json::Value = serde_json::from_str(&index(&["--format", "json"]).ok()).unwrap();
    assert_eq!(
        (&said["changed"], &said["files"]),
        (&0.into(), &19.into()),
        "{said}"
    );
    assert_eq!(proxy.count("PUT "), before);
    // A file came, and the last one of another project went.
    let key = |path: &str| -> Key { format!("v5/rocm/core/whl-next/{path}").parse().unwrap() };
    let old = "rocm-sdk-old/rocm_sdk_old-7.14.0a20260801-py3-none-any.whl";
    store.delete(&key(old)).unwrap();
    store.delete(&key(&format!("{old}.metadata"))).unwrap();
    let plan = index(&["--dry-run"]).ok();
    let changes = plan.lines().filter(|line| !line.contains(" to replace"));
    insta::assert_snapshot!(changes.collect::<Vec<_>>().join("\n"), @"
    to s3://BUCKET/v5
    replace   2.65 KiB  rocm/core/whl-next/rocm-sdk-old/index.html
    replace   2.84 KiB  rocm/core/whl-next/index.html
    ");
    index(&[]).ok();
    let root = fs_err::read_to_string(here().join("rocm/core/whl-next/index.html")).unwrap();
    assert!(!root.contains("rocm-sdk-old"), "{root}");
}
