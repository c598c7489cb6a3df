//! An S3 server in this process.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

/// An S3 server, `s3s`. It keeps objects as files of a directory, and lets two writers of one key at one time
/// write into each other's bytes. It ends when it is dropped.
#[derive(Debug)]
pub struct S3Server {
    port: u16,
    directory: TempDir,
    _runtime: Runtime,
}

impl S3Server {
    /// Starts a server for one user, with an empty bucket of the name `bucket`.
    pub fn start(access_key: &str, secret: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(access_key, secret));
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
        Self { port, directory, _runtime: runtime }
    }

    /// The port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where the objects of a bucket are files; it need not be there. What is written to it has no checksum in
    /// any answer.
    pub fn bucket(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }
}
