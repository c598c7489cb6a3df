//! The store for S3, judged by SeaweedFS and by a proxy that breaks connections.

mod busy;
mod company;
mod documents;
mod elsewhere;
mod ends;
mod ends_of_sets;
mod families;
pub(crate) mod fault;
mod index;
pub(crate) mod inprocess;
mod mirror;
pub(crate) mod objects;
mod products;
mod rclone;
mod reading;
pub(crate) mod server;
mod sets;
mod upload;

use std::{
    io::{self, Read},
    sync::{Barrier, atomic::Ordering},
    thread,
};

use insta::assert_snapshot;
use rocwheel_base::{
    error::{Error, Exit, Result, Stop, render},
    parallel,
};
use rocwheel_store::{
    Body, Condition, Depth, PutOptions, Span, Store, StoreError,
    StoreFailureKind::{self, Denied, Differs, Exists, NotFound},
    location::{Bucket, Key},
    s3::{S3Store, Signing},
};

use self::{
    fault::{Fault, Proxy},
    server::{SECRET, Server, keys, store},
};
use crate::store::{Pages, contract};
use crate::support::{noise, prelude::*};

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// An object of three parts.
fn large() -> Vec<u8> {
    noise(1, (12 << 20) + 1)
}

fn options(condition: Condition, sha256: Option<Sha256>) -> PutOptions {
    PutOptions {
        content_type: "application/zip".to_owned(),
        cache_control: Some("no-cache".to_owned()),
        condition,
        sha256,
    }
}

fn promise(bytes: &[u8]) -> PutOptions {
    options(Condition::IfAbsent, Some(Sha256::of(bytes)))
}

/// Puts an object where none is, and promises its digest.
fn add(store: &S3Store, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    store.put(&key(name), &bytes, &promise(bytes)).map(drop)
}

/// Puts an object there, whatever is there.
fn replace(store: &S3Store, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    store.put(&key(name), &bytes, &options(Condition::Always, None)).map(drop)
}

fn read(store: &S3Store, name: &str, span: Span) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get(&key(name), span)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn failure<T>(answer: Result<T, StoreError>) -> StoreFailureKind {
    answer.err().unwrap().kind()
}

fn is_missing(store: &S3Store, name: &str) -> bool {
    store.head(&key(name)).is_err_and(|it| it.kind() == NotFound)
}

/// An error, without the number of the bucket.
fn shown(error: impl Into<Error>) -> String {
    let bucket = Regex::new("bucket-[0-9]+").unwrap();
    let text = render(&error.into());
    bucket.replace_all(&text, "BUCKET").into_owned()
}

/// A bucket behind a proxy.
fn broken() -> (Bucket, Proxy, S3Store) {
    let server = Server::shared();
    let (bucket, proxy) = (server.bucket(), Proxy::before(server.port));
    let store = store(&bucket, proxy.port, keys(SECRET), &Stop::default());
    (bucket, proxy, store)
}

/// Every upload that was begun was completed or abandoned.
fn nothing_is_unfinished(bucket: &Bucket) {
    assert_eq!(Server::shared().unfinished(bucket), [""; 0]);
}

#[test]
fn a_bucket_keeps_the_promises_of_a_store() {
    let server = Server::shared();
    let store = server.store(&server.bucket());
    for prefix in ["", "1-linux/a+b/"] {
        if let Err(error) = contract(&store, prefix, Pages::Lost) {
            panic!("{}", render(&error));
        }
    }
}

#[test]
fn a_large_object_goes_in_parts_and_appears_whole() {
    let (bucket, proxy, store) = broken();
    let (name, bytes) = ("dist/large.whl", large());
    add(&store, name, &bytes).unwrap();
    assert_eq!(proxy.count("partNumber="), 3);
    let head = store.head(&key(name)).unwrap();
    assert_eq!(head.size, bytes.len() as u64);
    assert_eq!(head.sha256, Some(Sha256::of(&bytes)));
    assert_eq!(head.content_type.as_deref(), Some("application/zip"));
    assert!(read(&store, name, Span::Whole).unwrap() == bytes);
    let middle = Span::Between(5_000_000..11_000_000);
    assert!(read(&store, name, middle).unwrap() == bytes[5_000_000..11_000_000]);
    assert_eq!(failure(add(&store, name, &bytes)), Exists);
    nothing_is_unfinished(&bucket);
}

/// Bytes that come only after two others met: once when they are asked for, and once more.
struct Late<'a>(&'a [u8], &'a Barrier);

impl Body for Late<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        self.1.wait();
        self.1.wait();
        self.0.read_from(offset)
    }
}

#[test]
#[ignore = "slow"]
fn of_two_writers_of_a_large_object_one_wins() {
    let server = Server::shared();
    let bucket = server.bucket();
    let (one, other) = (large(), noise(2, 11 << 20));
    let (store, meeting) = (server.store(&bucket), Barrier::new(2));
    let late = thread::scope(|scope| {
        let late = || store.put(&key("race"), &Late(&other, &meeting), &promise(&other));
        let late = scope.spawn(late);
        // It has looked and begun; this one comes first all the same.
        meeting.wait();
        add(&store, "race", &one).unwrap();
        meeting.wait();
        late.join().unwrap()
    });
    assert_eq!(failure(late), Exists);
    assert!(read(&store, "race", Span::Whole).unwrap() == one);
    nothing_is_unfinished(&bucket);
}

#[test]
fn large_bytes_that_are_not_the_promised_ones_never_appear() {
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    let wrong = promise(b"other");
    let error = store.put(&key("large.whl"), &large().as_slice(), &wrong);
    assert_snapshot!(shown(error.unwrap_err()), @"
    error: wrong contents: `s3://BUCKET/large.whl`
      caused by: promised was d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa, found was 583ccd6076a295647f8b1047b7e9008103729ad9425aa03c1f0db0b0a3f34b89
    ");
    assert!(is_missing(&store, "large.whl"));
    nothing_is_unfinished(&bucket);
}

/// Says that it is longer or shorter than it is.
struct Liar(Vec<u8>, u64);

impl Body for Liar {
    fn size(&self) -> u64 {
        self.1
    }

    fn read_from(&self, _: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(self.0.as_slice()))
    }
}

#[test]
fn a_body_of_another_length_never_appears() {
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    for (len, said) in [(3, 2), (3, 4), (3, 12 << 20), (13 << 20, 12 << 20)] {
        let liar = Liar(noise(1, len), said);
        let answer = store.put(&key("a"), &liar, &options(Condition::Always, None));
        assert_eq!(failure(answer), Differs, "{len} {said}");
        assert!(is_missing(&store, "a"));
    }
    nothing_is_unfinished(&bucket);
}

#[test]
fn a_part_that_fails_is_sent_again_and_not_the_whole() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("PUT", "partNumber=1", 1, Fault::Answer(503, "SlowDown"));
    proxy.breaks("PUT", "partNumber=2", 2, Fault::Reset(100_000));
    proxy.breaks("PUT", "partNumber=3", 1, Fault::Lose);
    proxy.breaks("POST", "uploadId=", 1, Fault::Answer(500, "InternalError"));
    let bytes = large();
    add(&store, "large.whl", &bytes).unwrap();
    assert!(read(&store, "large.whl", Span::Whole).unwrap() == bytes);
    let parts = ["partNumber=1", "partNumber=2", "partNumber=3"];
    assert_eq!(parts.map(|part| proxy.count(part)), [2, 3, 2]);
    nothing_is_unfinished(&bucket);
}

#[test]
fn an_object_whose_completion_was_not_heard_of_is_complete() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("POST", "uploadId=", 1, Fault::Lose);
    let bytes = large();
    let anew = options(Condition::Always, Some(Sha256::of(&bytes)));
    let done = store.put(&key("large.whl"), &bytes.as_slice(), &anew);
    done.unwrap();
    assert!(read(&store, "large.whl", Span::Whole).unwrap() == bytes);
    nothing_is_unfinished(&bucket);
}

#[test]
fn what_cannot_be_sent_leaves_nothing_behind() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("PUT", "partNumber=2", 99, Fault::Answer(503, "SlowDown"));
    let error = add(&store, "large.whl", &large()).unwrap_err();
    assert_snapshot!(shown(error), @"
    error: the store does not answer: `s3://BUCKET/large.whl`
      caused by: SlowDown: as told (HTTP 503)
    ");
    assert!(is_missing(&store, "large.whl"));
    nothing_is_unfinished(&bucket);
}

/// Asks to stop once its first part was read.
struct Stopping<'a>(&'a [u8], &'a Stop);

impl Body for Stopping<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        struct End<'a>(&'a Stop);
        impl Read for End<'_> {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                self.0.flag().store(true, Ordering::Relaxed);
                Ok(0)
            }
        }
        let (first, rest) = self.0.split_at(6 << 20);
        assert_eq!(offset, 0);
        Ok(Box::new(first.chain(End(self.1)).chain(rest)))
    }
}

#[test]
fn a_stop_ends_an_upload_and_leaves_nothing_behind() {
    let server = Server::shared();
    let (bucket, stop, bytes) = (server.bucket(), Stop::default(), large());
    let store = store(&bucket, server.port, keys(SECRET), &stop);
    let body = Stopping(&bytes, &stop);
    let error = store.put(&key("large.whl"), &body, &promise(&bytes));
    let error = error.unwrap_err().into();
    assert_eq!(Exit::of(&error), Exit::Interrupted, "{}", render(&error));
    nothing_is_unfinished(&bucket);
}

#[test]
fn a_small_put_is_repeated_until_it_is_done() {
    let (_, proxy, store) = broken();
    proxy.breaks("PUT", "/a.whl", 1, Fault::Reset(10));
    proxy.breaks("PUT", "/a.whl", 1, Fault::Answer(500, "InternalError"));
    proxy.breaks("PUT", "/a.whl", 1, Fault::Answer(503, "SlowDown"));
    add(&store, "a.whl", b"bytes").unwrap();
    assert_eq!(read(&store, "a.whl", Span::Whole).unwrap(), b"bytes");
    assert_eq!(proxy.count("PUT"), 4);
}

#[test]
fn a_broken_answer_is_taken_up_where_it_broke_off() {
    let (_, proxy, store) = broken();
    let bytes = noise(1, 1_000_000);
    add(&store, "a.whl", &bytes).unwrap();
    for after in [0, 1, 300_000, 100_000, 100_000] {
        proxy.breaks("GET", "/a.whl", 1, Fault::Cut(after));
    }
    assert!(read(&store, "a.whl", Span::Whole).unwrap() == bytes);
    assert_eq!(proxy.count("GET"), 6);
    proxy.breaks("GET", "/a.whl", 1, Fault::Cut(1000));
    let some = read(&store, "a.whl", Span::Between(10..5000)).unwrap();
    assert!(some == bytes[10..5000]);
}

#[test]
fn an_answer_that_always_breaks_off_is_given_up() {
    let (_, proxy, store) = broken();
    add(&store, "a.whl", &noise(1, 100_000)).unwrap();
    proxy.breaks("GET", "/a.whl", 99, Fault::Cut(0));
    let error = read(&store, "a.whl", Span::Whole).unwrap_err();
    assert_has!(shown(error), "the store does not answer: `s3://BUCKET/a.whl`");
    assert_eq!(proxy.count("GET"), 4);
}

#[test]
fn an_object_that_changes_while_it_is_read_is_not_mixed() {
    let (_, proxy, store) = broken();
    add(&store, "a.whl", &noise(1, 1_000_000)).unwrap();
    proxy.breaks("GET", "/a.whl", 1, Fault::Cut(500_000));
    let mut reader = store.get(&key("a.whl"), Span::Whole).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    replace(&store, "a.whl", &vec![7; 1_000_000]).unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    assert_snapshot!(shown(error), @"
    error: wrong contents: `s3://BUCKET/a.whl`
      caused by: the object was replaced while it was read
    ");
}

#[test]
#[ignore = "slow"]
fn a_listing_has_all_pages_and_no_names_that_are_no_keys() {
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    let names: Vec<String> = (0..1050).map(|number| format!("run/{number:04}.whl")).collect();
    let many = NonZeroUsize::new(16).unwrap();
    let put = |name: &String| Ok(add(&store, name, b"")?);
    parallel::try_each(&names, many, &Stop::default(), put, |_, ()| ()).unwrap();
    server.put(&bucket, "run/a\u{7f}b", b"a");
    for depth in [Depth::All, Depth::Children] {
        let listed = store.list(Some(&key("run")), depth).unwrap();
        let listed: Vec<&str> = listed.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(listed, names);
    }
}

#[test]
fn a_public_bucket_needs_no_credentials_to_be_read() {
    let server = Server::shared();
    let bucket = server.bucket();
    server.publish(&bucket);
    add(&server.store(&bucket), "dist/a.whl", b"bytes").unwrap();
    let anonymous = store(&bucket, server.port, Signing::Never, &Stop::default());
    assert_eq!(read(&anonymous, "dist/a.whl", Span::Whole).unwrap(), b"bytes");
    let listed = anonymous.list(Some(&key("dist")), Depth::All).unwrap();
    assert_eq!(listed.len(), 1);
    assert!(is_missing(&anonymous, "no"));
    let refused = add(&anonymous, "b", b"b").unwrap_err();
    assert_snapshot!(shown(refused), @"
    error: access denied: `s3://BUCKET/b`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: leave `--no-sign-request` out
    ");
    assert_eq!(failure(anonymous.delete(&key("dist/a.whl"), &Condition::Always)), Denied);
}

#[test]
fn credentials_that_are_no_good_do_not_close_a_public_bucket() {
    let server = Server::shared();
    let (bucket, proxy) = (server.bucket(), Proxy::before(server.port));
    server.publish(&bucket);
    add(&server.store(&bucket), "a.whl", b"bytes").unwrap();
    let foreign = store(&bucket, proxy.port, keys("wrong"), &Stop::default());
    assert_eq!(read(&foreign, "a.whl", Span::Whole).unwrap(), b"bytes");
    foreign.head(&key("a.whl")).unwrap();
    assert_eq!((proxy.count("AWS4"), proxy.count("unsigned")), (1, 2));
    let refused = add(&foreign, "b", b"b").unwrap_err();
    assert_snapshot!(shown(refused), @"
    error: access denied: `s3://BUCKET/b`
      caused by: SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided. Check your key and signing method. (HTTP 403)

    hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
    ");
}

#[test]
fn what_only_credentials_may_read_is_read_after_what_only_others_may() {
    let (bucket, proxy, store) = broken();
    let server = Server::shared();
    server.publish(&bucket);
    add(&server.store(&bucket), "a.whl", b"bytes").unwrap();
    let denied = Fault::Answer(403, "AccessDenied");
    proxy.breaks("HEAD", "/a.whl", 1, denied.clone());
    store.head(&key("a.whl")).unwrap();
    proxy.breaks("GET", "list-type=2", 1, denied);
    store.list(None, Depth::All).unwrap();
    store.list(None, Depth::All).unwrap();
    assert_eq!((proxy.count("AWS4"), proxy.count("unsigned")), (3, 2));
}

#[test]
fn a_private_bucket_is_closed() {
    let server = Server::shared();
    let bucket = server.bucket();
    let anonymous = store(&bucket, server.port, Signing::Never, &Stop::default());
    let error = anonymous.list(None, Depth::All).unwrap_err();
    assert_snapshot!(shown(error), @"
    error: access denied: `s3://BUCKET/`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: leave `--no-sign-request` out
    ");
}
