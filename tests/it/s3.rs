//! The store for S3, judged by SeaweedFS and by a proxy that breaks connections.

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
    num::NonZeroUsize,
    sync::{Barrier, atomic::Ordering},
    thread,
};

use aws_sdk_s3::primitives::ByteStream;
use rocwheel::{
    digest::Sha256,
    error::{Exit, Result, Stop, render},
    location::{Bucket, Key},
    parallel,
    store::{
        Body, Condition, Depth, PutOptions, Span, Store, StoreError, StoreFailureKind,
        s3::{S3Store, Signing},
    },
};

use self::{
    fault::{Fault, Proxy},
    server::{SECRET, Server, keys, store},
};
use crate::store::{Pages, contract};

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// Bytes that are the same every time, and nowhere like their neighbours.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

fn large() -> Vec<u8> {
    bytes((12 << 20) + 1)
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

fn read(store: &S3Store, key: &Key, span: Span) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    store.get(key, span)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn shown(error: StoreError, bucket: &Bucket) -> String {
    render(&error.into()).replace(bucket.as_str(), "BUCKET")
}

/// A bucket behind a proxy.
fn broken() -> (Bucket, Proxy, S3Store) {
    let server = Server::shared();
    let (bucket, proxy) = (server.bucket(), Proxy::before(server.port));
    let store = store(&bucket, proxy.port, keys(SECRET), &Stop::default());
    (bucket, proxy, store)
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
    let (key, bytes) = (key("dist/large.whl"), large());
    store
        .put(&key, &bytes.as_slice(), &promise(&bytes))
        .unwrap();
    assert_eq!(proxy.count("partNumber="), 3);
    let head = store.head(&key).unwrap();
    assert_eq!(head.size, bytes.len() as u64);
    assert_eq!(head.sha256, Some(Sha256::of(&bytes)));
    assert_eq!(head.content_type.as_deref(), Some("application/zip"));
    assert!(read(&store, &key, Span::Whole).unwrap() == bytes);
    let middle = 5_000_000..11_000_000;
    assert!(read(&store, &key, Span::Between(middle)).unwrap() == bytes[5_000_000..11_000_000]);
    let again = store.put(&key, &bytes.as_slice(), &promise(&bytes));
    assert_eq!(again.unwrap_err().kind(), StoreFailureKind::Exists);
    assert_eq!(Server::shared().unfinished(&bucket), [""; 0]);
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
    let (one, other) = (large(), bytes(11 << 20));
    let (store, key, meeting) = (server.store(&bucket), key("race"), Barrier::new(2));
    let late = thread::scope(|scope| {
        let late = || store.put(&key, &Late(&other, &meeting), &promise(&other));
        let late = scope.spawn(late);
        // It has looked and begun; this one comes first all the same.
        meeting.wait();
        store.put(&key, &one.as_slice(), &promise(&one)).unwrap();
        meeting.wait();
        late.join().unwrap()
    });
    assert_eq!(late.unwrap_err().kind(), StoreFailureKind::Exists);
    assert!(read(&store, &key, Span::Whole).unwrap() == one);
    assert_eq!(server.unfinished(&bucket), [""; 0]);
}

#[test]
fn large_bytes_that_are_not_the_promised_ones_never_appear() {
    let server = Server::shared();
    let bucket = server.bucket();
    let store = server.store(&bucket);
    let (key, bytes) = (key("large.whl"), large());
    let wrong = promise(b"other");
    let error = store.put(&key, &bytes.as_slice(), &wrong).unwrap_err();
    insta::assert_snapshot!(shown(error, &bucket), @"
    error: wrong contents: `s3://BUCKET/large.whl`
      caused by: promised was d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa, found was 66f1fc8a110f85f700df451adb6071036a0af2b689e2e21916802812556d6f26
    ");
    assert_eq!(
        store.head(&key).unwrap_err().kind(),
        StoreFailureKind::NotFound
    );
    assert_eq!(server.unfinished(&bucket), [""; 0]);
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
    let lengths = [(3, 2), (3, 4), (3, 12 << 20), (13 << 20, 12 << 20)];
    for (len, said) in lengths {
        let liar = Liar(bytes(len), said);
        let error = store.put(&key("a"), &liar, &options(Condition::Always, None));
        assert_eq!(
            error.unwrap_err().kind(),
            StoreFailureKind::Differs,
            "{len} {said}"
        );
        assert_eq!(
            store.head(&key("a")).unwrap_err().kind(),
            StoreFailureKind::NotFound
        );
    }
    assert_eq!(server.unfinished(&bucket), [""; 0]);
}

#[test]
fn a_part_that_fails_is_sent_again_and_not_the_whole() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("PUT", "partNumber=1", 1, Fault::Answer(503, "SlowDown"));
    proxy.breaks("PUT", "partNumber=2", 2, Fault::Reset(100_000));
    proxy.breaks("PUT", "partNumber=3", 1, Fault::Lose);
    proxy.breaks("POST", "uploadId=", 1, Fault::Answer(500, "InternalError"));
    let (key, bytes) = (key("large.whl"), large());
    store
        .put(&key, &bytes.as_slice(), &promise(&bytes))
        .unwrap();
    assert!(read(&store, &key, Span::Whole).unwrap() == bytes);
    assert_eq!(proxy.count("partNumber=1"), 2);
    assert_eq!(proxy.count("partNumber=2"), 3);
    assert_eq!(proxy.count("partNumber=3"), 2);
    assert_eq!(Server::shared().unfinished(&bucket), [""; 0]);
}

#[test]
fn an_object_whose_completion_was_not_heard_of_is_complete() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("POST", "uploadId=", 1, Fault::Lose);
    let (key, bytes) = (key("large.whl"), large());
    store
        .put(
            &key,
            &bytes.as_slice(),
            &options(Condition::Always, Some(Sha256::of(&bytes))),
        )
        .unwrap();
    assert!(read(&store, &key, Span::Whole).unwrap() == bytes);
    assert_eq!(Server::shared().unfinished(&bucket), [""; 0]);
}

#[test]
fn what_cannot_be_sent_leaves_nothing_behind() {
    let (bucket, proxy, store) = broken();
    proxy.breaks("PUT", "partNumber=2", 99, Fault::Answer(503, "SlowDown"));
    let (key, bytes) = (key("large.whl"), large());
    let error = store.put(&key, &bytes.as_slice(), &promise(&bytes));
    insta::assert_snapshot!(shown(error.unwrap_err(), &bucket), @"
    error: the store does not answer: `s3://BUCKET/large.whl`
      caused by: SlowDown: as told (HTTP 503)
    ");
    assert_eq!(
        store.head(&key).unwrap_err().kind(),
        StoreFailureKind::NotFound
    );
    assert_eq!(Server::shared().unfinished(&bucket), [""; 0]);
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
    assert_eq!(server.unfinished(&bucket), [""; 0]);
}

#[test]
fn a_small_put_is_repeated_until_it_is_done() {
    let (_, proxy, store) = broken();
    proxy.breaks("PUT", "/a.whl", 1, Fault::Reset(10));
    proxy.breaks("PUT", "/a.whl", 1, Fault::Answer(500, "InternalError"));
    proxy.breaks("PUT", "/a.whl", 1, Fault::Answer(503, "SlowDown"));
    store
        .put(&key("a.whl"), &b"bytes".as_slice(), &promise(b"bytes"))
        .unwrap();
    assert_eq!(read(&store, &key("a.whl"), Span::Whole).unwrap(), b"bytes");
    assert_eq!(proxy.count("PUT"), 4);
}

#[test]
fn a_broken_answer_is_taken_up_where_it_broke_off() {
    let (_, proxy, store) = broken();
    let (key, bytes) = (key("a.whl"), bytes(1_000_000));
    store
        .put(&key, &bytes.as_slice(), &promise(&bytes))
        .unwrap();
    for after in [0, 1, 300_000, 100_000, 100_000] {
        proxy.breaks("GET", "/a.whl", 1, Fault::Cut(after));
    }
    assert!(read(&store, &key, Span::Whole).unwrap() == bytes);
    assert_eq!(proxy.count("GET"), 6);
    proxy.breaks("GET", "/a.whl", 1, Fault::Cut(1000));
    let some = read(&store, &key, Span::Between(10..5000)).unwrap();
    assert!(some == bytes[10..5000]);
}

#[test]
fn an_answer_that_always_breaks_off_is_given_up() {
    let (bucket, proxy, store) = broken();
    let (key, bytes) = (key("a.whl"), bytes(100_000));
    store
        .put(&key, &bytes.as_slice(), &promise(&bytes))
        .unwrap();
    proxy.breaks("GET", "/a.whl", 99, Fault::Cut(0));
    let error = read(&store, &key, Span::Whole).unwrap_err();
    let text = render(&error).replace(bucket.as_str(), "BUCKET");
    assert!(
        text.contains("the store does not answer: `s3://BUCKET/a.whl`"),
        "{text}"
    );
    assert_eq!(proxy.count("GET"), 4);
}

#[test]
fn an_object_that_changes_while_it_is_read_is_not_mixed() {
    let (bucket, proxy, store) = broken();
    let key = key("a.whl");
    let old = bytes(1_000_000);
    store.put(&key, &old.as_slice(), &promise(&old)).unwrap();
    proxy.breaks("GET", "/a.whl", 1, Fault::Cut(500_000));
    let mut reader = store.get(&key, Span::Whole).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    let new = vec![7; 1_000_000];
    store
        .put(&key, &new.as_slice(), &options(Condition::Always, None))
        .unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    let text = render(&error.into()).replace(bucket.as_str(), "BUCKET");
    insta::assert_snapshot!(text, @"
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
    let names: Vec<String> = (0..1050)
        .map(|number| format!("run/{number:04}.whl"))
        .collect();
    let many = NonZeroUsize::new(16).unwrap();
    let put = |name: &String| Ok(store.put(&key(name), &b"".as_slice(), &promise(b""))?);
    parallel::try_each(&names, many, &Stop::default(), put, |_, ()| ()).unwrap();
    let foreign = server
        .client
        .put_object()
        .bucket(bucket.as_str())
        .key("run/a\u{7f}b");
    let foreign = foreign.body(ByteStream::from_static(b"a"));
    server.runtime.block_on(foreign.send()).unwrap();
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
    let owner = server.store(&bucket);
    owner
        .put(&key("dist/a.whl"), &b"bytes".as_slice(), &promise(b"bytes"))
        .unwrap();
    let anonymous = store(&bucket, server.port, Signing::Never, &Stop::default());
    assert_eq!(
        read(&anonymous, &key("dist/a.whl"), Span::Whole).unwrap(),
        b"bytes"
    );
    assert_eq!(
        anonymous
            .list(Some(&key("dist")), Depth::All)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        anonymous.head(&key("no")).unwrap_err().kind(),
        StoreFailureKind::NotFound
    );
    let refused = anonymous.put(&key("b"), &b"b".as_slice(), &promise(b"b"));
    insta::assert_snapshot!(shown(refused.unwrap_err(), &bucket), @"
    error: access denied: `s3://BUCKET/b`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: leave `--no-sign-request` out
    ");
    let deleted = anonymous.delete(&key("dist/a.whl"));
    assert_eq!(deleted.unwrap_err().kind(), StoreFailureKind::Denied);
}

#[test]
fn credentials_that_are_no_good_do_not_close_a_public_bucket() {
    let server = Server::shared();
    let (bucket, proxy) = (server.bucket(), Proxy::before(server.port));
    server.publish(&bucket);
    let owner = server.store(&bucket);
    owner
        .put(&key("a.whl"), &b"bytes".as_slice(), &promise(b"bytes"))
        .unwrap();
    let foreign = store(&bucket, proxy.port, keys("wrong"), &Stop::default());
    assert_eq!(
        read(&foreign, &key("a.whl"), Span::Whole).unwrap(),
        b"bytes"
    );
    foreign.head(&key("a.whl")).unwrap();
    assert_eq!(proxy.count("AWS4"), 1);
    assert_eq!(proxy.count("unsigned"), 2);
    let refused = foreign.put(&key("b"), &b"b".as_slice(), &promise(b"b"));
    insta::assert_snapshot!(shown(refused.unwrap_err(), &bucket), @"
    error: access denied: `s3://BUCKET/b`
      caused by: SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided. Check your key and signing method. (HTTP 403)

    hint: choose other credentials with `--profile`; a public bucket is read with `--no-sign-request`
    ");
}

#[test]
fn a_private_bucket_is_closed() {
    let server = Server::shared();
    let bucket = server.bucket();
    let anonymous = store(&bucket, server.port, Signing::Never, &Stop::default());
    let error = anonymous.list(None, Depth::All).unwrap_err();
    insta::assert_snapshot!(shown(error, &bucket), @"
    error: access denied: `s3://BUCKET/`
      caused by: AccessDenied: Access Denied. (HTTP 403)

    hint: leave `--no-sign-request` out
    ");
}
