//! A second server, of another make and in this process: `s3s`, which keeps objects in a directory,
//! and lets two writers of one key at one time write into each other's bytes.

use rocwheel_base::error::{Stop, render};
use rocwheel_store::{Depth, Store as _, StoreFailureKind, location::Bucket, s3::Signing};
use rocwheel_test_servers::S3Server;

use super::{
    failure,
    fault::{Fault, Proxy},
    server::{ID, SECRET, keys, store},
};
use crate::store::{Pages, contract_in_turn};
use crate::support::prelude::*;

/// The server with one bucket. It ends when it is dropped.
pub(crate) struct InProcess {
    pub(crate) port: u16,
    pub(crate) bucket: Bucket,
    server: S3Server,
}

impl InProcess {
    pub(crate) fn start() -> Self {
        let server = S3Server::start(ID, SECRET);
        Self { port: server.port(), bucket: "bucket".parse().unwrap(), server }
    }

    /// The directory of another bucket, which need not be there.
    pub(crate) fn bucket_named(&self, name: &str) -> PathBuf {
        self.server.bucket(name)
    }

    /// A proxy that takes the pages of directories for missing: to this server, a key that ends in `/` is a
    /// directory, and each attempt to read one is an error.
    pub(super) fn before(&self) -> Proxy {
        let proxy = Proxy::before(self.port);
        let missing = Fault::Answer(404, "NoSuchKey");
        proxy.breaks("GET", "/?x-id=GetObject", usize::MAX, missing);
        proxy
    }

    /// Where the objects are files. What is written there has no checksum in any answer.
    pub(crate) fn objects(&self) -> PathBuf {
        self.server.bucket(self.bucket.as_str())
    }
}

#[test]
#[ignore = "slow"]
fn another_server_is_used_by_the_same_contract() {
    let server = InProcess::start();
    let store = store(&server.bucket, server.port, keys(SECRET), &Stop::default());
    for prefix in ["", "1-linux/a+b/"] {
        if let Err(error) = contract_in_turn(&store, prefix, Pages::Lost) {
            panic!("{}", render(&error));
        }
    }
}

#[test]
fn another_server_knows_its_users_too() {
    let server = InProcess::start();
    for signing in [keys("wrong"), Signing::Never] {
        let store = store(&server.bucket, server.port, signing, &Stop::default());
        let denied = failure(store.list(None, Depth::All));
        assert_eq!(denied, StoreFailureKind::Denied);
    }
}
