//! The S3 clients of one bucket: they sign requests if there are credentials, switch to the
//! bucket's region, renew expired credentials, and stop when the user interrupts.

use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use aws_config::{
    BehaviorVersion, ConfigLoader, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_sdk_s3::{
    Client,
    config::{
        self, Credentials, IdentityCache, SharedCredentialsProvider, StalledStreamProtectionConfig,
    },
    error::{ProvideErrorMetadata, SdkError},
};

use super::{
    S3Limits,
    access::{Access, Addressing, Keys, S3Region, Signing, is_private},
    credentials::{credentials, region},
    failure::{Asker, body, failure, status},
    retry::TooManyRequests,
};
use crate::{
    error::Stop,
    location::Bucket,
    parallel,
    store::{StoreError, StoreFailureKind},
};

pub(super) struct Connection {
    clients: RwLock<Clients>,
    pub(super) asker: Asker,
    bucket: Bucket,
    /// Whether the connection uses TLS or stays on this machine, and so a signature may leave out the
    /// payload. A signed payload costs another SHA-256 of all bytes, here and on the server. Where
    /// no machine on the network can change the bytes, the checksum that is sent along suffices: it
    /// detects corruption.
    pub(super) is_private: bool,
    /// Set once a read with credentials was denied and the same read without them succeeded.
    reads_unsigned: AtomicBool,
    stop: Stop,
}

#[derive(Clone)]
struct Clients {
    /// `None` without credentials.
    signed: Option<Client>,
    unsigned: Client,
    region: String,
    is_private: bool,
}

impl Connection {
    pub(super) fn new(
        bucket: &Bucket,
        access: &Access,
        limits: &S3Limits,
        stop: Stop,
    ) -> Result<Self, StoreError> {
        let place = format!("s3://{bucket}");
        let opening = Clients::open(&place, bucket, access, limits);
        let clients = wait(&stop, &place, opening)?;
        let asker = match (&clients.signed, &access.signing) {
            (Some(_), _) => Asker::Known,
            (None, Signing::Never) => Asker::Anonymous,
            (None, _) => Asker::Unknown,
        };
        Ok(Self {
            is_private: clients.is_private,
            clients: RwLock::new(clients),
            asker,
            bucket: bucket.clone(),
            reads_unsigned: AtomicBool::new(false),
            stop,
        })
    }

    /// The client for writes.
    pub(super) fn client(&self) -> Client {
        self.clients().either()
    }

    /// Runs a future until it ends or the user interrupts.
    pub(super) fn wait<T>(
        &self,
        place: impl fmt::Display,
        future: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        wait(&self.stop, place, future)
    }

    /// Sends a request that changes something.
    pub(super) fn write<T, E, F>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        self.wait(
            place,
            self.ask(place, self.asker, Clients::either, &request),
        )
    }

    /// Sends a request that only reads, and blocks the calling thread until the answer.
    pub(super) fn read<T, E, F>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        self.wait(place, self.reading(place, &request))
    }

    /// Sends a request that only reads. A public bucket may deny it to expired or foreign
    /// credentials and still allow it without any, so a denied request is repeated unsigned. If
    /// that fails too, the error is that of the signed request.
    pub(super) async fn reading<T, E, F>(
        &self,
        place: &str,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        let unsigned = |clients: Clients| clients.unsigned;
        if self.reads_unsigned.load(Ordering::Relaxed) {
            return self.ask(place, self.asker, unsigned, request).await;
        }
        let error = match self.ask(place, self.asker, Clients::either, request).await {
            Err(error)
                if error.kind() == StoreFailureKind::Denied && self.asker == Asker::Known =>
            {
                error
            }
            answer => return answer,
        };
        let answer = self.ask(place, Asker::Anonymous, unsigned, request).await;
        let answer = answer.map_err(|_| error)?;
        self.reads_unsigned.store(true, Ordering::Relaxed);
        Ok(answer)
    }

    /// Sends a request. Repeats it once if the server answers that the bucket is in another region,
    /// or that the credentials have expired.
    async fn ask<T, E, F>(
        &self,
        place: &str,
        asker: Asker,
        client: impl Fn(Clients) -> Client,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        let clients = self.clients();
        let answer = request(client(clients.clone())).await;
        let others = match &answer {
            // The response to a HEAD has no body, and so does not name the right region.
            Err(error) if is_mute(error) => self.probe(&client(clients.clone()), &clients).await,
            Err(error) => clients.others(error),
            Ok(_) => None,
        };
        let answer = match others {
            Some(others) => {
                self.change(others);
                request(client(self.clients())).await
            }
            None => answer,
        };
        answer.map_err(|error| failure(place, asker, &error))
    }

    /// Asks the server for an empty listing, whose error names the right region, and returns
    /// clients for that region.
    async fn probe(&self, client: &Client, clients: &Clients) -> Option<Clients> {
        let request = client.list_objects_v2().bucket(self.bucket.as_str());
        let error = request.max_keys(0).send().await.err()?;
        clients.others(&error)
    }

    fn clients(&self) -> Clients {
        let clients = self.clients.read();
        clients.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, clients: Clients) {
        *self.clients.write().unwrap_or_else(PoisonError::into_inner) = clients;
    }
}

impl Clients {
    async fn open(
        place: &str,
        bucket: &Bucket,
        access: &Access,
        limits: &S3Limits,
    ) -> Result<Self, StoreError> {
        let region = region(access).await;
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(config::Region::new(region.clone()))
            .retry_config(retries(limits))
            .timeout_config(timeouts(Duration::from_mins(1)))
            .stalled_stream_protection(stalls(limits))
            .no_credentials();
        if let Some(profile) = &access.profile {
            loader = loader.profile_name(&profile.name);
        }
        if let Some(endpoint) = &access.endpoint {
            loader = loader.endpoint_url(endpoint.as_str());
        }
        let unsigned = ConfigLoader::load(loader).await;
        let credentials = match &access.signing {
            Signing::Auto => credentials(place, access, &region).await?,
            Signing::With(Keys { id, secret }) => {
                let keys = Credentials::new(id, secret.reveal(), None, None, "keys");
                Some(SharedCredentialsProvider::new(keys))
            }
            Signing::Never => None,
        };
        let client = |config: &SdkConfig| {
            let is_amazon = config.endpoint_url().is_none();
            let in_path = match access.addressing {
                // Amazon's wildcard certificate covers one label before the endpoint, and so does
                // not cover the name of a bucket with dots.
                Addressing::Auto => !is_amazon || bucket.as_str().contains('.'),
                Addressing::Path => true,
                Addressing::Virtual => false,
            };
            let config = config::Builder::from(config).force_path_style(in_path);
            let config = config.retry_classifier(TooManyRequests);
            Client::from_conf(config.build())
        };
        let signed = credentials.map(|credentials| {
            let config = unsigned.to_builder().credentials_provider(credentials);
            client(&config.build())
        });
        Ok(Self {
            signed,
            unsigned: client(&unsigned),
            region,
            is_private: unsigned.endpoint_url().is_none_or(is_private),
        })
    }

    fn either(self) -> Client {
        self.signed.unwrap_or(self.unsigned)
    }

    /// Clients that may succeed where these failed: in another region, or with new credentials.
    fn others<E: ProvideErrorMetadata>(&self, error: &SdkError<E>) -> Option<Self> {
        match home(error) {
            Some(home) if home.as_str() != self.region => Some(self.in_region(&home)),
            _ if is_over(error) => self.renewed(),
            _ => None,
        }
    }

    fn in_region(&self, region: &S3Region) -> Self {
        let region = region.as_str().to_owned();
        let client = |client: &Client| {
            let config = client.config().to_builder();
            Client::from_conf(config.region(config::Region::new(region.clone())).build())
        };
        Self {
            signed: self.signed.as_ref().map(client),
            unsigned: client(&self.unsigned),
            region,
            is_private: self.is_private,
        }
    }

    /// Clients with an empty credentials cache. A profile or a role may then provide new
    /// credentials.
    fn renewed(&self) -> Option<Self> {
        let config = self.signed.as_ref()?.config().to_builder();
        let config = config.identity_cache(IdentityCache::lazy().build());
        Some(Self {
            signed: Some(Client::from_conf(config.build())),
            ..self.clone()
        })
    }
}

/// Overrides for requests that send a body. The read timeout covers the whole transfer, because the
/// response only comes after it, and a slow line may need minutes. Stalled-stream protection still
/// ends a transfer in which nothing moves.
pub(super) fn patient() -> config::Builder {
    config::Builder::new().timeout_config(timeouts(Duration::from_mins(15)))
}

fn timeouts(read: Duration) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(read)
        .build()
}

/// Treats a response that has stopped sending as broken.
fn stalls(limits: &S3Limits) -> StalledStreamProtectionConfig {
    StalledStreamProtectionConfig::enabled()
        .grace_period(limits.stall)
        .build()
}

/// Exponential backoff with random pauses. The SDK signs every attempt again.
pub(super) fn retries(limits: &S3Limits) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(limits.backoff.attempts)
        .with_initial_backoff(limits.backoff.pause)
        .with_max_backoff(Duration::from_secs(20))
}

/// Whether the server says that the credentials have expired.
fn is_over<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let code = error.as_service_error().and_then(|service| service.code());
    matches!(code, Some("ExpiredToken" | "TokenRefreshRequired"))
}

/// The region of the bucket, if the error names it.
fn home<E: ProvideErrorMetadata>(error: &SdkError<E>) -> Option<S3Region> {
    let response = error.raw_response()?;
    if let Some(region) = response.headers().get("x-amz-bucket-region") {
        return region.parse().ok();
    }
    let code = error.as_service_error()?.code();
    if code != Some("AuthorizationHeaderMalformed") {
        return None;
    }
    // Amazon and Garage name it in an XML element of its own.
    let body = body(error);
    let (_, rest) = body.split_once("<Region>")?;
    rest.split('<').next()?.parse().ok()
}

/// A 400 without a body, which does not say what is wrong.
fn is_mute<E>(error: &SdkError<E>) -> bool {
    status(error) == Some(400) && body(error).is_empty()
}

fn wait<T>(
    stop: &Stop,
    place: impl fmt::Display,
    future: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    parallel::wait(stop, future).unwrap_or_else(|stopped| {
        Err(StoreError::new(StoreFailureKind::Failed, place).caused_by(stopped))
    })
}
