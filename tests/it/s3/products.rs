//! A set is published from one place of a server to a release place of it.

use std::cell::RefCell;

use insta::assert_snapshot;
use rocwheel_base::error::Stop;
use rocwheel_store::{Condition, Depth, Span, Store as _, s3::S3Store};

use super::{
    add,
    fault::{Fault, Proxy},
    inprocess::InProcess,
    is_missing, key,
    objects::{receive, send},
    options, promise, read, replace,
    server::{SECRET, Server, keys, store},
    upload::{Desk, KEYS},
};
use crate::{
    promote::places::{assert_whole, filled, wheels},
    support::{killed::killed_at_every_step, place::empty, prelude::*, published::sets_in_turn},
};

const PROMOTE: &str = "promote s3://BUCKET/v5 --to same --no-check --no-directory-pages";

fn promote(desk: &Desk) -> Command {
    let to = "--layout product --format json --into s3://BUCKET/to/v5";
    desk.command(&KEYS, &format!("{PROMOTE} {to}"))
}

/// Promotes once more, which writes nothing.
fn is_there_already(desk: &Desk) {
    let again = desk.outcome(&mut promote(desk)).done();
    again.says(r#""uploaded":0"#);
}

/// The keys of the release place.
fn published(store: &S3Store) -> Vec<String> {
    let objects = store.list(Some(&key("to/")), Depth::All).unwrap();
    objects.into_iter().map(|it| it.key.to_string()).collect()
}

#[test]
#[ignore = "slow"]
fn the_server_copies_what_does_not_change() {
    for set in sets() {
        let desk = Desk::new();
        let store = Server::shared().store(&desk.bucket);
        send(&store, &set.place());
        let done = desk.outcome(&mut promote(&desk)).done();
        let copied = done.stderr.matches("Copied").count();
        assert_eq!(copied, set.packages(), "{}", done.stderr);
        // The digest is beside the copy, and a run that finds it there writes nothing.
        for name in published(&store) {
            let object = store.head(&key(&name)).unwrap();
            assert!(object.sha256.is_some(), "{name}");
        }
        is_there_already(&desk);
    }
}

#[test]
#[ignore = "slow"]
fn two_servers_copy_only_the_object_that_was_seen() {
    let (weed, other) = (Server::shared(), InProcess::start());
    let bucket = weed.bucket();
    let stores =
        [weed.store(&bucket), store(&other.bucket, other.port, keys(SECRET), &Stop::default())];
    let options = promise(b"bytes");
    let (one, two, three) = ("a+b.whl", "to/a b.whl", "to/c.whl");
    for (number, store) in stores.iter().enumerate() {
        add(store, one, b"bytes").unwrap();
        let source = store.copy_source(&key(one)).unwrap().unwrap();
        assert!(store.copy(&key(two), &source, &options).unwrap());
        let copied = store.head(&key(two)).unwrap();
        assert_eq!((copied.size, copied.sha256), (source.size, options.sha256));
        assert_eq!(read(store, two, Span::Whole).unwrap(), b"bytes");
        // The second server knows no conditions of copies.
        if number > 0 {
            continue;
        }
        // The existing object stays, and the put that follows says so.
        assert!(!store.copy(&key(two), &source, &options).unwrap());
        assert_eq!(read(store, two, Span::Whole).unwrap(), b"bytes");
        // Another object has the place of the one that was seen. The copy that is there may be replaced, so that
        // no other writer came first.
        replace(store, one, b"ytes").unwrap();
        let etag = store.head(&key(two)).unwrap().etag.unwrap();
        let over = super::options(Condition::IfSame(etag), options.sha256);
        assert!(!store.copy(&key(two), &source, &over).unwrap());
        let mut anew = options.clone();
        anew.sha256 = None;
        assert!(!store.copy(&key(three), &source, &anew).unwrap());
        assert!(is_missing(store, three));
    }
}

#[test]
fn an_object_that_the_server_does_not_copy_has_to_be_sent() {
    let server = Server::shared();
    let bucket = server.bucket();
    let (to, options) = (key("to/two.whl"), options(Condition::Always, None));
    let direct = server.store(&bucket);
    add(&direct, "from/one.whl", b"bytes").unwrap();
    let source = direct.copy_source(&key("from/one.whl"));
    let mut source = source.unwrap().unwrap();
    for answer in [Fault::Answer(501, "NotImplemented"), Fault::Answer(403, "AccessDenied")] {
        let proxy = Proxy::before(server.port);
        proxy.breaks("PUT", "to/two.whl", 100, answer);
        let store = store(&bucket, proxy.port, keys(SECRET), &Stop::default());
        assert!(!store.copy(&to, &source, &options).unwrap());
        assert!(is_missing(&direct, "to/two.whl"));
    }
    // S3 copies at most 5 GiB with one request.
    source.size = (5 << 30) + 1;
    assert!(!direct.copy(&to, &source, &options).unwrap());
}

/// A server of another make knows neither conditions of copies nor those of deletions.
#[test]
#[ignore = "slow"]
fn two_servers_take_what_is_promoted_and_published() {
    for set in sets() {
        let other = InProcess::start();
        let desk = Desk::at(other.bucket.clone(), other.before().port);
        let store = store(&desk.bucket, other.port, keys(SECRET), &Stop::default());
        send(&store, &set.place());
        let flat = format!("{PROMOTE} --into s3://BUCKET/flat");
        desk.run(&flat).done();
        desk.outcome(&mut promote(&desk)).done();
        is_there_already(&desk);
        let here = empty(&format!("s3/products/other-{}", set.name));
        receive(&store, &here, "to/v5/");
        assert_whole(&here);
        assert_eq!(wheels(&here).len(), set.packages() - 1);
    }
}

/// No page names a file that is not there, and the next run does what is missing. The short form is that of a
/// directory, `promote::killed`.
#[test]
#[ignore = "long"]
fn long_a_publication_that_was_killed_is_finished_by_the_next() {
    let server = Server::shared();
    let set = sets_in_turn(1)[0];
    let desk = RefCell::new(Desk::new());
    let command = |_| {
        let mut desk = desk.borrow_mut();
        *desk = Desk::new();
        send(&server.store(&desk.bucket), &set.place());
        promote(&desk)
    };
    let keys = |desk: &Desk, name: &str| -> Vec<String> {
        let store = server.store(&desk.bucket);
        let here = empty(&format!("s3/products/{name}"));
        receive(&store, &here, "to/v5/");
        assert_whole(&here);
        published(&store)
    };
    succeed(&mut command(0));
    let whole = keys(&desk.borrow(), "whole");
    let wheels = whole.iter().filter(|key| key.ends_with(".whl"));
    assert_eq!(wheels.count(), set.packages() - 1);
    killed_at_every_step(command, |killed| {
        let desk = desk.borrow();
        keys(&desk, "killed");
        succeed(&mut promote(&desk));
        assert_eq!(keys(&desk, "done"), whole, "{killed}");
    });
}

/// The pages of a release place that other programs filled.
#[test]
#[ignore = "slow"]
fn pages_are_written_from_the_files_that_are_there() {
    let mut desk = Desk::new();
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
    let (own, old) = (core.join("rocm-sdk-core"), core.join("rocm-sdk-old"));
    fs_err::remove_file(own.join(format!("{name}.metadata"))).unwrap();
    let page = format!("<a href={name}>{name}</a>");
    fs_err::write(own.join("index.html"), page).unwrap();
    fs_err::copy(own.join(name), old.join(name)).unwrap();
    send(&store, &source);
    let proxy = Proxy::before(desk.port);
    desk.port = proxy.port;
    let index = |flags: &str| {
        let line = "index s3://BUCKET/v5 --layout product --no-directory-pages";
        desk.run(&format!("{line} {flags}"))
    };
    let plan = index("--dry-run");
    assert_has!(plan.stderr, "its directory is for another project");
    assert_snapshot!(plan.ok(), @"
    to s3://BUCKET/v5
    new           67 B  rocm/core/whl-next/rocm-sdk-core/rocm_sdk_core-7.14.0a20260801-py3-none-any.whl.metadata
    replace   6.08 KiB  rocm/core/whl-next/rocm-sdk-core/index.html
    new       5.65 KiB  rocm/core/whl-next/rocm-sdk-device-gfx942/index.html
    new       5.61 KiB  rocm/core/whl-next/rocm-sdk-libraries/index.html
    new       3.26 KiB  rocm/core/whl-next/rocm-sdk-old/index.html
    new       3.26 KiB  rocm/pytorch/whl-next/torch/index.html
    new       3.26 KiB  rocm/pytorch/whl-next/triton/index.html
    new       2.93 KiB  rocm/core/whl-next/index.html
    new       2.77 KiB  rocm/pytorch/whl-next/index.html
    8 new (26.81 KiB), 1 to replace (6.08 KiB), 0 there already (0 B)
    ");
    assert_snapshot!(index("").ok(), @"
    http://HOST/BUCKET/v5/rocm/core/whl-next/
    http://HOST/BUCKET/v5/rocm/pytorch/whl-next/
    ");
    let here = || {
        let here = empty("s3/products/indexed");
        receive(&store, &here, "v5/");
        assert_whole(&here);
        here
    };
    let page = |path: &str| {
        let page = here().join("rocm/core/whl-next").join(path);
        fs_err::read_to_string(page).unwrap()
    };
    let of_core = page("rocm-sdk-core/index.html");
    let start = format!("{name}#sha256=");
    let line = of_core.lines().find(|it| it.contains(&start));
    assert_has!(line.unwrap(), "data-core-metadata");
    // Nothing changed: nothing is written.
    let before = proxy.count("PUT ");
    let said: Value = serde_json::from_str(&index("--format json").ok()).unwrap();
    assert_eq!((&said["changed"], &said["files"]), (&json!(0), &json!(19)));
    assert_eq!(proxy.count("PUT "), before);
    // A file came, and the last one of another project went.
    let directory = "v5/rocm/core/whl-next/rocm-sdk-old";
    let old = format!("{directory}/rocm_sdk_old-7.14.0a20260801-py3-none-any.whl");
    store.delete(&key(&old), &Condition::Always).unwrap();
    store.delete(&key(&format!("{old}.metadata")), &Condition::Always).unwrap();
    let plan = index("--dry-run").ok();
    let changes = plan.lines().filter(|line| !line.contains(" to replace"));
    assert_snapshot!(changes.collect::<Vec<_>>().join("\n"), @"
    to s3://BUCKET/v5
    replace   2.70 KiB  rocm/core/whl-next/rocm-sdk-old/index.html
    replace   2.88 KiB  rocm/core/whl-next/index.html
    ");
    index("").ok();
    assert_lacks!(page("index.html"), "rocm-sdk-old");
}
