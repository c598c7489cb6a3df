//! An S3 server in this process.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{
    auth::SimpleAuth,
    service::{S3Service, S3ServiceBuilder},
};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

/// An S3 server, `s3s`. It keeps objects as files of a directory, and lets two writers of one key at one time
/// write into each other's bytes. It ends when it is dropped.
#[derive(Debug)]
pub struct S3Server {
    served: ServedS3,
    directory: TempDir,
}

impl S3Server {
    /// Starts a server for one user, with an empty bucket of the name `bucket`.
    pub fn start(access_key: &str, secret: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(access_key, secret));
        Self { served: ServedS3::start(service.build()), directory }
    }

    /// The port on the loopback address.
    pub fn port(&self) -> u16 {
        self.served.port()
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

/// A service of S3, of any kind, that is reached on a port of this machine. It ends when it is dropped.
#[derive(Debug)]
pub struct ServedS3 {
    port: u16,
    _runtime: Runtime,
}

impl ServedS3 {
    pub fn start(service: S3Service) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let http = Builder::new(TokioExecutor::new());
                let connection = http.serve_connection(TokioIo::new(socket), service.clone());
                tokio::spawn(connection.into_owned());
            }
        });
        Self { port, _runtime: runtime }
    }

    /// The port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }
}
