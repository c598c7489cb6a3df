//! Buckets and servers that are in another place, or nowhere.

use std::time::{Duration, Instant};

use rocwheel::{
    error::Stop,
    location::Bucket,
    store::{Depth, Kind, Store as _},
};

use super::{SECRET, broken, fault::Fault, key, keys, server::Server, shown, store};

#[test]
fn a_bucket_in_another_region_is_found() {
    let (_, proxy, store) = broken();
    proxy.breaks("HEAD", "/a", 1, Fault::Elsewhere("eu-central-1"));
    assert_eq!(store.head(&key("a")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(proxy.count("/us-east-2/"), 1);
    assert_eq!(proxy.count("/eu-central-1/"), 1);
    store.delete(&key("a")).unwrap();
    assert_eq!(proxy.count("/eu-central-1/"), 2);
}

#[test]
fn a_bucket_that_is_not_there_is_told() {
    let server = Server::shared();
    server.bucket();
    let bucket: Bucket = "no-such-bucket".parse().unwrap();
    let error = server.store(&bucket).list(None, Depth::All).unwrap_err();
    insta::assert_snapshot!(shown(error, &bucket), @"
    error: the store failed: `s3://BUCKET/`
      caused by: NoSuchBucket: The specified bucket does not exist (HTTP 404)

    hint: name another bucket with `--bucket`
    ");
}

#[test]
fn a_server_that_is_not_there_is_told_soon() {
    let bucket: Bucket = "bucket".parse().unwrap();
    let begun = Instant::now();
    // Nobody listens there without being root.
    let store = store(&bucket, 1, keys(SECRET), &Stop::default());
    let error = store.head(&key("a")).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    let text = shown(error, &bucket);
    assert!(text.contains("onnection refused"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}
