//! Large objects, read in several answers at once, each of which may break.

use std::{io::Read as _, thread, time::Instant};

use rocwheel_base::error::{Result, Stop};
use rocwheel_store::{
    Span, Store as _, StoreFailureKind,
    s3::{S3Limits, S3Store},
};

use super::{
    add, broken, failure,
    fault::{Fault, Proxy},
    key, large, read, replace,
    server::{SECRET, Server, keys, limited, limits},
    shown,
};
use crate::support::{noise, prelude::*};

const LARGE: &str = "large.tar.zst";

/// An object of three parts, behind a proxy.
fn three_parts() -> (Proxy, S3Store, Vec<u8>) {
    let ((_, proxy, store), bytes) = (broken(), large());
    add(&store, LARGE, &bytes).unwrap();
    (proxy, store, bytes)
}

#[test]
#[ignore = "slow"]
fn a_large_object_comes_in_parts_at_once_and_in_order() {
    let (proxy, store, bytes) = three_parts();
    let mut reader = store.get(&key(LARGE), Span::From(0)).unwrap();
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all == bytes);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the end stays the end");
    assert_eq!(proxy.count("GET"), 3);
    assert!(read(&store, LARGE, Span::From(7_000_000)).unwrap() == bytes[7_000_000..]);
    let middle = 5_000_000..11_000_000;
    assert!(read(&store, LARGE, Span::Between(middle)).unwrap() == bytes[5_000_000..11_000_000]);
    assert_eq!(proxy.count("GET"), 3 + 2 + 2);
}

#[test]
#[ignore = "slow"]
fn parts_come_before_they_are_read_and_no_more_than_there_is_room_for() {
    let server = Server::shared();
    let (bucket, proxy) = (server.bucket(), Proxy::before(server.port));
    let bytes = noise(1, 30 << 20);
    add(&server.store(&bucket), LARGE, &bytes).unwrap();
    let ahead = |limits: S3Limits, expected: usize| {
        let before = proxy.count("GET");
        let store = limited(&bucket, proxy.port, keys(SECRET), &Stop::default(), limits);
        let mut reader = store.get(&key(LARGE), Span::From(0)).unwrap();
        reader.read_exact(&mut [0]).unwrap();
        let begun = Instant::now();
        let asked = || proxy.count("GET") - before;
        // What was asked for arrives when it arrives; more than was asked for never does.
        while asked() < expected && begun.elapsed() < Duration::from_secs(20) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        let ahead = asked();
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest == bytes[1..]);
        ahead
    };
    assert_eq!(ahead(limits(), 3), 3, "one that is read, and two ahead");
    let narrow = S3Limits { memory: 1 << 20, ..limits() };
    assert_eq!(ahead(narrow, 1), 1, "without room, one at a time");
}

#[test]
fn every_part_is_taken_up_where_it_broke_off() {
    let (proxy, store, bytes) = three_parts();
    for after in [0, 1, 200_000, 300_000] {
        proxy.breaks("GET", "/large", 1, Fault::Cut(after));
        proxy.breaks("GET", "/large", 1, Fault::Tear(after));
    }
    proxy.breaks("GET", "/large", 2, Fault::Answer(503, "SlowDown"));
    proxy.breaks("GET", "/large", 1, Fault::Answer(500, "InternalError"));
    assert!(read(&store, LARGE, Span::From(0)).unwrap() == bytes);
    // A connection that is torn down loses what was on its way, and that is asked for again.
    assert!(proxy.count("GET") >= 3 + 8 + 3);
}

#[test]
#[ignore = "slow"]
fn an_answer_of_which_nothing_comes_any_more_is_taken_up() {
    let (proxy, store, bytes) = three_parts();
    proxy.breaks("GET", "/large", 1, Fault::Stall(1_000_000));
    assert!(read(&store, LARGE, Span::From(0)).unwrap() == bytes);
    assert_eq!(proxy.count("GET"), 4);
}

#[test]
#[ignore = "slow"]
fn a_server_that_wants_a_pause_gets_it() {
    let (proxy, store, bytes) = three_parts();
    proxy.breaks("GET", "/large", 1, Fault::Busy(429, "1"));
    proxy.breaks("GET", "/large", 1, Fault::Busy(503, "1"));
    let begun = Instant::now();
    assert!(read(&store, LARGE, Span::Whole).unwrap() == bytes);
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(proxy.count("GET"), 3);
}

#[test]
#[ignore = "slow"]
fn parts_of_two_versions_are_never_mixed() {
    let (bucket, proxy, store) = broken();
    let old = large();
    add(&store, LARGE, &old).unwrap();
    let alone = S3Limits { ahead: 0, ..limits() };
    let reading = limited(&bucket, proxy.port, keys(SECRET), &Stop::default(), alone);
    let mut reader = reading.get(&key(LARGE), Span::From(0)).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    replace(&store, LARGE, &new).unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    insta::assert_snapshot!(shown(error), @"
    error: wrong contents: `s3://BUCKET/large.tar.zst`
      caused by: the object was replaced while it was read
    ");
}

#[test]
fn a_part_that_never_comes_is_an_error_and_ends_the_others() {
    let (proxy, store, _) = three_parts();
    let mut reader = store.get(&key(LARGE), Span::From(0)).unwrap();
    proxy.breaks("GET", "/large", 99, Fault::Answer(503, "SlowDown"));
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    assert_has!(shown(error), "the store does not answer");
}

#[test]
fn expired_credentials_are_requested_again_once() {
    let (_, proxy, store) = broken();
    proxy.breaks("GET", "/a", 1, Fault::Answer(400, "ExpiredToken"));
    let missing = failure(store.get(&key("a"), Span::Whole));
    assert_eq!(missing, StoreFailureKind::NotFound);
    assert_eq!(proxy.count("GET"), 2);
}

/// Sizes at which an off-by-one would show.
#[test]
#[ignore = "slow"]
fn objects_around_the_size_of_a_part_are_read_whole() -> Result<()> {
    let server = Server::shared();
    let store = server.store(&server.bucket());
    for size in [0, 1, (5 << 20) - 1, 5 << 20, (5 << 20) + 1, 10 << 20] {
        let bytes = noise(1, size);
        replace(&store, "a", &bytes)?;
        for span in [Span::Whole, Span::From(0), Span::Between(0..u64::MAX)] {
            let whole = read(&store, "a", span.clone())? == bytes;
            assert!(whole, "{size} {span:?}");
        }
    }
    Ok(())
}
