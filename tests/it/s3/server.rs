//! SeaweedFS on free ports of this machine, one for all tests. It ends with the tests.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::{Child, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use aws_sdk_s3::{
    Client,
    config::{BehaviorVersion, Credentials, Region},
    primitives::ByteStream,
};
use rocwheel_base::{
    error::{Secret, Stop},
    retry::Backoff,
};
use rocwheel_store::{
    Endpoint,
    location::Bucket,
    s3::{Access, Keys, S3Limits, S3Store, Signing},
};
use tokio::runtime::Runtime;

use crate::support::{place::TEMPORARY, prelude::*};

pub(crate) const ID: &str = "rocwheel";
pub(crate) const SECRET: &str = "not-much-of-a-secret";
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) runtime: Runtime,
    /// For what no store does: making buckets, and looking at unfinished uploads.
    pub(crate) client: Client,
    _guard: Child,
}

/// Runs its arguments until its own input ends, which is when this process does, however it ends.
/// The first argument is a directory to remove then.
const GUARD: &str = r#"
directory=$1; shift
exec 3<&0
"$@" </dev/null >"$directory/../weed.log" 2>&1 3<&- &
server=$!
trap 'kill -9 $server; wait $server 2>/dev/null; rm -rf "$directory"' EXIT
cat <&3 >/dev/null
"#;

impl Server {
    pub(crate) fn shared() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    fn start() -> Self {
        let place = Path::new(TEMPORARY).join(format!("weed-{}", std::process::id()));
        fs_err::create_dir_all(&place).unwrap();
        let ports = free_ports();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(&place)
            .arg(tool("weed"))
            .args(arguments(&place, ports))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let runtime = Runtime::new().unwrap();
        let port = ports[0];
        let client = client(port);
        let begun = Instant::now();
        while runtime.block_on(client.list_buckets().send()).is_err() {
            let is_there = guard.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE;
            let log = place.with_file_name("weed.log");
            assert!(is_there, "SeaweedFS does not answer: {}", log.display());
            thread::sleep(Duration::from_millis(100));
        }
        Self { port, runtime, client, _guard: guard }
    }

    /// A bucket of its own for a test.
    pub(crate) fn bucket(&self) -> Bucket {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        self.bucket_named(&format!("bucket-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn bucket_named(&self, name: &str) -> Bucket {
        let begun = Instant::now();
        // Just after its start the server has no room yet for objects.
        let made = || {
            let make = self.client.create_bucket().bucket(name);
            let put = self.client.put_object().bucket(name).key("probe");
            let delete = self.client.delete_object().bucket(name).key("probe");
            self.runtime.block_on(async {
                let _ = make.send().await;
                put.send().await.is_ok() && delete.send().await.is_ok()
            })
        };
        while !made() {
            assert!(begun.elapsed() < PATIENCE, "SeaweedFS takes no objects");
            thread::sleep(Duration::from_millis(100));
        }
        name.parse().unwrap()
    }

    /// Lets everybody read and list a bucket.
    pub(crate) fn publish(&self, bucket: &Bucket) {
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": "*",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": ["arn:aws:s3:::{bucket}", "arn:aws:s3:::{bucket}/*"]}}]}}"#
        );
        let request = self.client.put_bucket_policy();
        let request = request.bucket(bucket.as_str()).policy(policy);
        self.runtime.block_on(request.send()).unwrap();
    }

    /// Puts an object there, which may have a key that is none for us.
    pub(crate) fn put(&self, bucket: &Bucket, key: &str, bytes: &[u8]) {
        let request = self.client.put_object().bucket(bucket.as_str()).key(key);
        let request = request.body(ByteStream::from(bytes.to_vec()));
        self.runtime.block_on(request.send()).unwrap();
    }

    /// The keys of uploads that were begun and neither completed nor abandoned.
    pub(crate) fn unfinished(&self, bucket: &Bucket) -> Vec<String> {
        let request = self.client.list_multipart_uploads().bucket(bucket.as_str());
        let answer = self.runtime.block_on(request.send()).unwrap();
        let uploads = answer.uploads().iter();
        uploads.map(|upload| upload.key().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn store(&self, bucket: &Bucket) -> S3Store {
        store(bucket, self.port, keys(SECRET), &Stop::default())
    }
}

pub(crate) fn at(port: u16) -> Endpoint {
    format!("http://127.0.0.1:{port}").parse().unwrap()
}

pub(crate) fn keys(secret: &str) -> Signing {
    Signing::With(Keys { id: ID.to_owned(), secret: Secret::new(secret) })
}

/// With small parts, and little patience.
pub(crate) fn store(bucket: &Bucket, port: u16, signing: Signing, stop: &Stop) -> S3Store {
    limited(bucket, port, signing, stop, limits())
}

pub(crate) fn limited(
    bucket: &Bucket,
    port: u16,
    signing: Signing,
    stop: &Stop,
    limits: S3Limits,
) -> S3Store {
    let access = Access {
        endpoint: Some(at(port)),
        region: Some("us-east-2".parse().unwrap()),
        signing,
        ..Access::default()
    };
    S3Store::with_limits(bucket.clone(), &access, stop.clone(), limits).unwrap()
}

pub(crate) fn limits() -> S3Limits {
    S3Limits {
        part: 5 << 20,
        memory: 20 << 20,
        ahead: 2,
        backoff: Backoff { attempts: 4, pause: Duration::from_millis(10) },
        stall: Duration::from_secs(1),
    }
}

fn client(port: u16) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-2"))
        .endpoint_url(at(port).to_string())
        .force_path_style(true)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .credentials_provider(Credentials::new(ID, SECRET, None, None, "test"));
    Client::from_conf(config.build())
}

/// All asked for before one is let go, so that they differ.
pub(crate) fn free_ports() -> [u16; 8] {
    let listeners = [(); 8].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn arguments(place: &Path, ports: [u16; 8]) -> Vec<String> {
    let config = place.join("s3.json");
    let identity = format!(
        r#"{{"identities": [{{"name": "ci", "actions": ["Admin", "Read", "Write", "List"],
        "credentials": [{{"accessKey": "{ID}", "secretKey": "{SECRET}"}}]}}]}}"#
    );
    fs_err::write(&config, identity).unwrap();
    let [s3, rest @ ..] = ports;
    let names = "s3.port.grpc master.port master.port.grpc volume.port volume.port.grpc \
                 filer.port filer.port.grpc";
    let ports = names.split_whitespace().zip(rest);
    let ports = ports.map(|(name, port)| format!("-{name}={port}"));
    // Of volumes, seven for each bucket, and each test has a bucket of its own.
    let options = "server -ip=127.0.0.1 -ip.bind=127.0.0.1 -filer -s3 -s3.iam=false \
                   -s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false \
                   -master.volumeSizeLimitMB=64 -volume.max=2000";
    let options = options.split_whitespace().map(str::to_owned);
    let own = [
        format!("-s3.port={s3}"),
        format!("-s3.config={}", config.display()),
        format!("-dir={}", place.display()),
    ];
    options.chain(own).chain(ports).collect()
}
