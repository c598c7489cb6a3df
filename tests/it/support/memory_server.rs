//! An S3 server in this process that keeps its objects in memory, under exact keys. The program publishes to it,
//! and tests look at what came of that, or change it.

use std::io::Read as _;

use http_body_util::BodyExt as _;
use rocwheel_store::{
    Condition, Depth, Object, PutOptions, Span, Store as _, StoreError, StoreFailureKind,
    location::Key,
};
use rocwheel_test_servers::ServedS3;
use s3s::{
    Body, S3, S3Error, S3Request, S3Response, S3Result,
    access::{S3Access, S3AccessContext},
    auth::SimpleAuth,
    dto::{
        self, DeleteObjectInput, DeleteObjectOutput, ETag, ETagCondition, GetObjectInput,
        GetObjectOutput, HeadObjectInput, HeadObjectOutput, ListObjectsV2Input,
        ListObjectsV2Output, PutObjectInput, PutObjectOutput, StreamingBlob, Timestamp,
    },
    s3_error,
    service::S3ServiceBuilder,
};

use super::{memory::MemoryStore, sandbox::words};
use crate::support::prelude::*;

const BUCKET: &str = "bucket";
const ID: &str = "rocwheel";
const SECRET: &str = "not-much-of-a-secret";

/// It ends when it is dropped.
pub(crate) struct MemoryServer {
    pub(crate) store: MemoryStore,
    /// The address of the bucket, which everybody may read. It ends in `/`.
    pub(crate) url: String,
    requests: Requests,
    served: ServedS3,
    home: TempDir,
}

impl MemoryServer {
    /// With an empty bucket.
    pub(crate) fn start() -> Self {
        let store = MemoryStore::default();
        let requests = Requests::default();
        let mut service = S3ServiceBuilder::new(Objects(store.clone(), requests.clone()));
        service.set_auth(SimpleAuth::from_single(ID, SECRET));
        service.set_access(Everybody);
        let served = ServedS3::start(service.build());
        let home = tempfile::tempdir().unwrap();
        let url = format!("http://127.0.0.1:{}/{BUCKET}/", served.port());
        Self { store, url, requests, served, home }
    }

    /// Runs `rocwheel` in a directory with the words of a line. `s3://bucket/` is this store.
    pub(crate) fn run_in(&self, directory: &Path, line: &str) -> Outcome {
        let mut command = command();
        command
            .args(words(line))
            .current_dir(directory)
            .env("HOME", self.home.path())
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.served.port()))
            .env("AWS_REGION", "us-east-2")
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET);
        Outcome::of(command.output().unwrap())
    }

    /// The requests since the last call, by their kinds.
    pub(crate) fn requests(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.requests.0.lock().unwrap())
    }

    /// Uploads a set to a directory of the bucket, such as `42-linux/python/`. `more` is the rest of the line of
    /// `upload`. Returns how many objects were written.
    pub(crate) fn publish(&self, directory: &str, packages: &Path, more: &str) -> u64 {
        let line =
            format!("upload . --to s3://{BUCKET}/{directory} --no-check --format json {more}");
        let document = self.run_in(packages, &line).ok();
        let document: Value = serde_json::from_str(&document).unwrap();
        document["uploaded"].as_u64().unwrap()
    }
}

/// Who may do what is not what these tests are about.
struct Everybody;

#[async_trait::async_trait]
impl S3Access for Everybody {
    async fn check(&self, _: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// How many requests of each kind there were.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<BTreeMap<&'static str, usize>>>);

/// The objects of the bucket.
struct Objects(MemoryStore, Requests);

impl Objects {
    fn count(&self, kind: &'static str) {
        *self.1.0.lock().unwrap().entry(kind).or_default() += 1;
    }

    fn object(&self, key: &str) -> S3Result<(Key, Object)> {
        let key = parse(key)?;
        let object = self.0.head(&key).map_err(|error| said(&error))?;
        Ok((key, object))
    }
}

fn parse(key: &str) -> S3Result<Key> {
    key.parse().map_err(|_| s3_error!(InvalidArgument))
}

fn said(error: &StoreError) -> S3Error {
    match error.kind() {
        StoreFailureKind::NotFound => s3_error!(NoSuchKey),
        StoreFailureKind::Exists => s3_error!(PreconditionFailed),
        _ => s3_error!(InternalError),
    }
}

fn condition(absent: Option<&ETagCondition>, same: Option<&ETagCondition>) -> Condition {
    match same.and_then(ETagCondition::as_etag) {
        Some(etag) => Condition::IfSame(etag.value().to_owned()),
        None if absent.is_some() => Condition::IfAbsent,
        None => Condition::Always,
    }
}

fn etag(object: &Object) -> Option<ETag> {
    object.etag.clone().map(ETag::Strong)
}

fn size(object: &Object) -> Option<i64> {
    object.size.try_into().ok()
}

#[async_trait::async_trait]
impl S3 for Objects {
    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.count("put");
        let input = request.input;
        let body = Body::from(input.body.ok_or_else(|| s3_error!(IncompleteBody))?);
        let body = body.collect().await.map_err(|_| s3_error!(IncompleteBody))?;
        let options = PutOptions {
            content_type: input.content_type.unwrap_or_default(),
            cache_control: input.cache_control,
            condition: condition(input.if_none_match.as_ref(), input.if_match.as_ref()),
            sha256: None,
        };
        let key = parse(&input.key)?;
        self.0.put(&key, &&*body.to_bytes(), &options).map_err(|error| said(&error))?;
        let (_, object) = self.object(&input.key)?;
        Ok(S3Response::new(PutObjectOutput { e_tag: etag(&object), ..Default::default() }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.count("head");
        let (_, object) = self.object(&request.input.key)?;
        let sha256 = object.sha256.map(|it| ("sha256".to_owned(), it.to_string()));
        Ok(S3Response::new(HeadObjectOutput {
            content_length: size(&object),
            e_tag: etag(&object),
            last_modified: object.modified.map(Timestamp::from),
            metadata: Some(sha256.into_iter().collect()),
            content_type: object.content_type.clone(),
            cache_control: object.cache_control.clone(),
            ..Default::default()
        }))
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.count("get");
        let input = request.input;
        let (key, object) = self.object(&input.key)?;
        let same = input.if_match.as_ref().and_then(ETagCondition::as_etag);
        if same.is_some_and(|etag| object.etag.as_deref() != Some(etag.value())) {
            return Err(s3_error!(PreconditionFailed));
        }
        let range = input.range.map(|range| range.check(object.size)).transpose()?;
        let span = range.clone().map_or(Span::Whole, Span::Between);
        let mut bytes = Vec::new();
        let mut reader = self.0.get(&key, span).map_err(|error| said(&error))?;
        reader.read_to_end(&mut bytes).unwrap();
        let content_range =
            range.map(|it| format!("bytes {}-{}/{}", it.start, it.end - 1, object.size));
        Ok(S3Response::new(GetObjectOutput {
            content_length: i64::try_from(bytes.len()).ok(),
            content_range,
            body: Some(StreamingBlob::from(Body::from(bytes))),
            e_tag: etag(&object),
            last_modified: object.modified.map(Timestamp::from),
            content_type: object.content_type.clone(),
            cache_control: object.cache_control.clone(),
            ..Default::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.count("list");
        let prefix = request.input.prefix.unwrap_or_default();
        let is_flat = request.input.delimiter.is_some();
        let mut contents = Vec::new();
        for object in self.0.list(None, Depth::All).map_err(|error| said(&error))? {
            let rest = object.key.as_str().strip_prefix(&prefix);
            if rest.is_some_and(|rest| !is_flat || !rest.contains('/')) {
                contents.push(dto::Object {
                    key: Some(object.key.to_string()),
                    size: size(&object),
                    e_tag: etag(&object),
                    last_modified: object.modified.map(Timestamp::from),
                    ..Default::default()
                });
            }
        }
        Ok(S3Response::new(ListObjectsV2Output {
            key_count: i32::try_from(contents.len()).ok(),
            contents: Some(contents),
            is_truncated: Some(false),
            ..Default::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.count("delete");
        let key = parse(&request.input.key)?;
        let condition = condition(None, request.input.if_match.as_ref());
        self.0.delete(&key, &condition).map_err(|error| said(&error))?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }
}
