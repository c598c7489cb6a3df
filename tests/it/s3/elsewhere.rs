//! Buckets and servers that are in another place, or nowhere.

use std::time::Instant;

use insta::assert_snapshot;
use rocwheel_base::error::Stop;
use rocwheel_store::{
    Condition, Depth, Store as _, StoreFailureKind, http::HttpStore, location::Bucket,
};

use super::{
    SECRET, broken, failure, fault::Fault, is_missing, key, keys, replace, server::Server, shown,
    store,
};
use crate::support::prelude::*;

#[test]
fn a_bucket_in_another_region_is_found() {
    let (_, proxy, store) = broken();
    proxy.breaks("HEAD", "/a", 1, Fault::Elsewhere("eu-central-1"));
    assert!(is_missing(&store, "a"));
    assert_eq!(proxy.count("/us-east-2/"), 1);
    assert_eq!(proxy.count("/eu-central-1/"), 1);
    store.delete(&key("a"), &Condition::Always).unwrap();
    assert_eq!(proxy.count("/eu-central-1/"), 2);
}

#[test]
fn a_server_whose_region_has_another_name_is_asked_for_it() {
    // As Garage answers: the region stands in the body, and the answer to a HEAD has none.
    const SCOPE: &str = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>Authorization \
         header malformed, unexpected scope: 20261122/us-east-2/s3/aws4_request</Message>\
         <Region>garage</Region></Error>";
    let (_, proxy, store) = broken();
    proxy.breaks("HEAD", "/a", 1, Fault::Text(400, ""));
    proxy.breaks("GET", "list-type=2", 1, Fault::Text(400, SCOPE));
    assert!(is_missing(&store, "a"));
    let regions = ["/us-east-2/", "/garage/"];
    assert_eq!(regions.map(|it| proxy.count(it)), [2, 1]);
    let (_, proxy, store) = broken();
    proxy.breaks("GET", "list-type=2", 1, Fault::Text(400, SCOPE));
    assert_eq!(store.list(None, Depth::All).unwrap(), []);
    assert_eq!(regions.map(|it| proxy.count(it)), [1, 1]);
}

#[test]
fn an_answer_that_is_not_of_s3_is_an_error() {
    // As rclone's server answers.
    const BEGUN: &str = "<?xml version=\"1.0\"?>\n<InitiateMultipartUpload>\n  \
         <UploadId>8e32fb55</UploadId>\n</InitiateMultipartUpload>";
    let (_, proxy, store) = broken();
    proxy.breaks("POST", "uploads", 9, Fault::Text(200, BEGUN));
    let error = replace(&store, "a", &vec![0; 6 << 20]).unwrap_err();
    assert_snapshot!(shown(error), @r#"
    error: the store failed: `s3://BUCKET/a`
      caused by: the answer is not one of S3's (HTTP 200): <?xml version="1.0"?> <InitiateMultipartUpload>   <UploadId>8e32fb55</UploadId> </InitiateMultipartUpload>
    "#);
    assert_eq!(proxy.count("POST"), 1, "nothing is tried again");
    // The server keeps the parts of an upload that was begun.
    assert_eq!(proxy.count("uploadId=8e32fb55"), 1);
}

#[test]
fn a_server_that_takes_no_page_of_a_directory_is_an_error() {
    let (_, proxy, store) = broken();
    proxy.breaks("PUT", "/a/", 9, Fault::Answer(500, "InternalError"));
    let error = replace(&store, "a/", b"x").unwrap_err();
    assert_snapshot!(shown(error), @"
    error: the store does not answer: `s3://BUCKET/a/`
      caused by: InternalError: as told (HTTP 500)

    hint: where a server takes no keys that end in `/`, pass `--no-directory-pages`, and install with `--find-links`
    ");
    assert_eq!(proxy.count("PUT"), 4);
    // A server that is busy, or whose connections break, takes such keys as well as others.
    let others = [Fault::Answer(503, "SlowDown"), Fault::Busy(429, "0"), Fault::Reset(0)];
    for fault in others {
        let (_, proxy, store) = broken();
        proxy.breaks("PUT", "/a/", 3, fault.clone());
        replace(&store, "a/", b"x").unwrap();
        proxy.breaks("PUT", "/a/", 9, fault);
        let error = shown(replace(&store, "a/", b"x").unwrap_err());
        assert!(!error.contains("--no-directory-pages"), "{error}");
    }
}

#[test]
fn a_missing_bucket_is_an_error() {
    let server = Server::shared();
    server.bucket();
    let bucket: Bucket = "no-such-bucket".parse().unwrap();
    let error = server.store(&bucket).list(None, Depth::All).unwrap_err();
    assert_snapshot!(shown(error), @"
    error: the store failed: `s3://no-such-bucket/`
      caused by: NoSuchBucket: The specified bucket does not exist (HTTP 404)

    hint: name another bucket with `--bucket`
    ");
}

#[test]
fn an_unreachable_server_is_an_early_error() {
    let bucket: Bucket = "bucket".parse().unwrap();
    let begun = Instant::now();
    // Only root may listen there.
    let store = store(&bucket, 1, keys(SECRET), &Stop::default());
    let error = store.head(&key("a")).unwrap_err();
    assert_eq!(error.kind(), StoreFailureKind::Unavailable);
    assert_has!(shown(error), "onnection refused");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// The answer to a HEAD has no body that could say why.
#[test]
fn a_web_server_that_is_busy_is_asked_again() {
    let (_, proxy, _) = broken();
    proxy.breaks("HEAD", "/bucket/a", 1, Fault::Answer(503, ""));
    proxy.breaks("HEAD", "/bucket/b", 99, Fault::Answer(503, ""));
    let server = format!("http://127.0.0.1:{}", proxy.port);
    let web = HttpStore::connect(server.parse().unwrap(), Stop::default()).unwrap();
    let asked = |name: &str| failure(web.head(&key(name)));
    // The bucket is not public.
    assert_eq!(asked("bucket/a"), StoreFailureKind::Denied);
    assert_eq!(asked("bucket/b"), StoreFailureKind::Unavailable);
    assert_eq!((proxy.count("/bucket/a"), proxy.count("/bucket/b")), (2, 6));
}
