//! A server that throttles, and writers that come at the same time.

use std::thread;

use insta::assert_snapshot;
use rocwheel_base::{error::Stop, parallel};
use rocwheel_store::{
    Condition, Depth, Span, Store as _,
    StoreFailureKind::{self, Exists},
    s3::{S3Limits, S3Store},
};

use super::{
    add, broken, failure,
    fault::{Fault, FaultSpan, Proxy},
    is_missing, key, large, nothing_is_unfinished, options, read, replace,
    server::{SECRET, Server, keys, limited},
    shown,
    upload::Desk,
};
use crate::support::prelude::*;

const MANY: NonZeroUsize = NonZeroUsize::new(128).unwrap();
const SLOW_DOWN: Fault = Fault::Answer(503, "SlowDown");

/// A bucket behind a proxy, with the limits that users have.
fn usual() -> (Proxy, S3Store) {
    let server = Server::shared();
    let proxy = Proxy::before(server.port);
    let limits = S3Limits::default();
    let stop = Stop::default();
    let store = limited(&server.bucket(), proxy.port, keys(SECRET), &stop, limits);
    (proxy, store)
}

/// Does something with each of so many objects, as many at once as commands do.
fn each(count: usize, work: impl Fn(&str) + Sync) {
    let names: Vec<String> = (0..count).map(|number| format!("dist/{number}.whl")).collect();
    let work = |name: &String| {
        work(name);
        Ok(())
    };
    parallel::try_each(&names, MANY, &Stop::default(), work, |_, ()| ()).unwrap();
}

/// S3 answers so to all requests for a prefix that gets busy.
#[test]
#[ignore = "slow"]
fn a_server_that_throttles_for_a_while_is_waited_for() {
    let (proxy, store) = usual();
    let while_busy = || FaultSpan::For(Duration::from_secs(3));
    proxy.breaks_while("PUT", "dist/", while_busy(), SLOW_DOWN);
    each(100, |name| add(&store, name, b"bytes").unwrap());
    proxy.breaks_while("GET", "dist/", while_busy(), SLOW_DOWN);
    each(37, |name| {
        assert_eq!(read(&store, name, Span::Whole).unwrap(), b"bytes");
    });
}

#[test]
fn each_request_has_its_own_attempts() {
    let (_, proxy, store) = broken();
    let thrice = || FaultSpan::Each(3);
    for fault in [SLOW_DOWN, Fault::Answer(500, "InternalError"), Fault::Cut(0)] {
        proxy.breaks_while("GET", "dist/", thrice(), fault);
    }
    proxy.breaks_while("PUT", "dist/", thrice(), SLOW_DOWN);
    each(100, |name| add(&store, name, b"bytes").unwrap());
    assert_eq!(proxy.count("PUT"), 400);
    each(100, |name| {
        assert_eq!(read(&store, name, Span::Whole).unwrap(), b"bytes");
    });
}

/// A server that is gone is no reason to wait for thousands of objects in turn.
#[test]
fn a_server_that_never_recovers_is_given_up_soon() {
    let (_, proxy, store) = broken();
    proxy.breaks("PUT", "dist/", usize::MAX, SLOW_DOWN);
    each(1000, |name| {
        let error = add(&store, name, b"bytes").unwrap_err();
        assert_eq!(error.kind(), StoreFailureKind::Unavailable);
    });
    assert!(proxy.count("PUT") < 1700, "{}", proxy.count("PUT"));
    // Of the next request each attempt counts again once the server has answered.
    let _ = store.head(&key("a"));
    proxy.breaks("PUT", "a.whl", 3, SLOW_DOWN);
    add(&store, "a.whl", b"bytes").unwrap();
}

#[test]
#[ignore = "slow"]
fn an_upload_says_that_it_waits_for_a_busy_server() {
    let mut desk = Desk::new();
    let proxy = Proxy::before(desk.port);
    let while_busy = FaultSpan::For(Duration::from_secs(2));
    proxy.breaks_while("PUT", ".whl", while_busy, SLOW_DOWN);
    desk.port = proxy.port;
    let done = desk.upload("").done();
    let busy = "note: `s3://BUCKET` is busy: waiting, and sending fewer requests at once\n";
    assert_eq!(done.stderr.matches(busy).count(), 1, "{}", done.stderr);
}

#[test]
fn a_write_during_another_one_is_repeated() {
    let (bucket, proxy, store) = broken();
    let conflict = Fault::Answer(409, "ConditionalRequestConflict");
    proxy.breaks("PUT", "/a.whl", 2, conflict.clone());
    add(&store, "a.whl", b"bytes").unwrap();
    // The server begins with the parts of an upload again.
    proxy.breaks("POST", "uploadId=", 2, conflict.clone());
    add(&store, "large.whl", &large()).unwrap();
    assert_eq!(proxy.count("POST"), 6);
    assert!(read(&store, "large.whl", Span::Whole).unwrap() == large());
    nothing_is_unfinished(&bucket);
    // The other write has ended: this one has to be compared with it.
    proxy.breaks("PUT", "/a.whl", 9, conflict.clone());
    assert_eq!(failure(add(&store, "a.whl", b"bytes")), Exists);
    replace(&store, "b.whl", b"bytes").unwrap();
    proxy.breaks("PUT", "/b.whl", 2, conflict.clone());
    replace(&store, "b.whl", b"other").unwrap();
    proxy.breaks("PUT", "/c.whl", 9, conflict);
    let lasting = add(&store, "c.whl", b"bytes").unwrap_err();
    assert_snapshot!(shown(lasting), @"
    error: another write is in progress: `s3://BUCKET/c.whl`
      caused by: ConditionalRequestConflict: as told (HTTP 409)
    ");
    assert!(is_missing(&store, "c.whl"));
}

#[test]
#[ignore = "slow"]
fn equal_uploads_at_once_all_succeed() {
    let mut desk = Desk::new();
    let proxy = Proxy::before(desk.port);
    proxy.refuses_writes_at_once();
    desk.port = proxy.port;
    thread::scope(|scope| {
        let uploads = [(); 3].map(|()| scope.spawn(|| desk.upload("")));
        for upload in uploads {
            upload.join().unwrap().done();
        }
    });
}

#[test]
fn a_condition_that_fails_without_an_object_is_repeated() {
    let (_, proxy, store) = broken();
    let failed = Fault::Answer(412, "PreconditionFailed");
    proxy.breaks("PUT", "/a.whl", 2, failed.clone());
    add(&store, "a.whl", b"bytes").unwrap();
    proxy.breaks("PUT", "/b.whl", 9, failed.clone());
    let lasting = add(&store, "b.whl", b"bytes").unwrap_err();
    assert_snapshot!(shown(lasting), @"
    error: another write is in progress: `s3://BUCKET/b.whl`
      caused by: the server says that an object is there, and has none
    ");
    // Another writer has replaced it.
    let stale = options(Condition::IfSame("stale".to_owned()), None);
    proxy.breaks("PUT", "/a.whl", 1, failed);
    assert_eq!(failure(store.put(&key("a.whl"), &b"new".as_slice(), &stale)), Exists);
}

#[test]
fn a_read_never_says_that_an_object_is_there_already() {
    let (_, proxy, store) = broken();
    let conflict = Fault::Answer(409, "OperationAborted");
    proxy.breaks("GET", "", 2, conflict);
    let errors = [
        shown(store.list(None, Depth::All).unwrap_err()),
        shown(store.get(&key("a"), Span::Whole).err().unwrap()),
    ];
    assert_snapshot!(errors.join(""), @"
    error: another write is in progress: `s3://BUCKET/`
      caused by: OperationAborted: as told (HTTP 409)
    error: another write is in progress: `s3://BUCKET/a`
      caused by: OperationAborted: as told (HTTP 409)
    ");
}

#[test]
fn a_listing_that_does_not_end_is_an_error() {
    const CUT: &str = "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size>\
         </Contents></ListBucketResult>";
    const AGAIN: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
         <NextContinuationToken>x</NextContinuationToken></ListBucketResult>";
    const OTHER: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
         <NextContinuationToken>y</NextContinuationToken></ListBucketResult>";
    let (_, proxy, store) = broken();
    let errors = [(CUT, 1), (AGAIN, 2)].map(|(answer, times)| {
        proxy.breaks("GET", "list-type=2", times, Fault::Text(200, answer));
        shown(store.list(None, Depth::All).unwrap_err())
    });
    proxy.breaks("GET", "continuation-token=x", 99, Fault::Text(200, OTHER));
    proxy.breaks("GET", "list-type=2", 99, Fault::Text(200, AGAIN));
    let circle = shown(store.list(None, Depth::All).unwrap_err());
    assert_eq!(circle, errors[1]);
    assert_snapshot!(errors.join(""), @"
    error: the store failed: `s3://BUCKET/`
      caused by: the listing is not complete, and the server does not say where it goes on
    error: the store failed: `s3://BUCKET/`
      caused by: the listing is not complete, and the server does not say where it goes on
    ");
}
