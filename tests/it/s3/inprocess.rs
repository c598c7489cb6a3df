//! A second server, of another make and in this process: `s3s`, which keeps objects in a directory,
//! and lets two writers of one key at one time write into each other's bytes.

use std::net::Ipv4Addr;

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use rocwheel::{
    error::{Stop, render},
    location::Bucket,
    store::{Depth, Store as _, StoreFailureKind, s3::Signing},
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::{net::TcpListener, runtime::Runtime};

use super::{
    failure,
    fault::{Fault, Proxy},
    server::{ID, SECRET, keys, store},
};
use crate::store::{Pages, contract_in_turn};
use crate::support::prelude::*;

/// It ends when it is dropped.
pub(crate) struct InProcess {
    pub(crate) port: u16,
    pub(crate) bucket: Bucket,
    _runtime: Runtime,
    directory: TempDir,
}

impl InProcess {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(ID, SECRET));
        let service = service.build();
        let runtime = Runtime::new().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(listener).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let http = Builder::new(TokioExecutor::new());
                let connection = http.serve_connection(TokioIo::new(socket), service.clone());
                tokio::spawn(connection.into_owned());
            }
        });
        Self { port, bucket: "bucket".parse().unwrap(), _runtime: runtime, directory }
    }

    /// The directory of another bucket, which need not be there.
    pub(crate) fn bucket_named(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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
        self.directory.path().join(self.bucket.as_str())
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
