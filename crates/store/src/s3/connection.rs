//! The S3 clients of one bucket: they sign requests if there are credentials, switch to the
//! bucket's region, renew expired credentials, send failed requests again, and stop when the user
//! interrupts.

use std::{
    fmt,
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
use aws_smithy_http_client::proxy::ProxyConfig;

use super::{
    S3Limits,
    access::{Access, Keys, S3Region, Signing},
    credentials::{FoundCredentials, find_credentials, find_region},
    failure::{
        S3Failure, Signer, one_line, read_body, read_status, refuse_unsigned_write, store_error,
        to_failure,
    },
    retries::{Retries, RetryReason},
};
use crate::{
    StoreError, StoreFailureKind,
    client::amazon_client,
    location::{Bucket, is_private},
};
use rocwheel_base::{
    error::{Stop, last_cause},
    parallel,
    retry::{self, Failures},
};

/// How long to wait for the answer to a request without a body.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many bytes the slowest line sends in a second, and how long to wait at most.
const SLOWEST: u64 = 100_000;
const LONGEST: Duration = Duration::from_mins(15);

pub(super) struct Connection {
    clients: RwLock<Clients>,
    pub(super) signer: Signer,
    /// The id of the key that the standard chain has. `None` without it.
    pub(super) key_id: Option<String>,
    bucket: Bucket,
    /// Whether the connection uses TLS or stays on this machine, and so a signature may leave out the
    /// payload. A signed payload costs another SHA-256 of all bytes, here and on the server. Where
    /// no machine on the network can change the bytes, the checksum that is sent along suffices: it
    /// detects corruption.
    pub(super) is_private: bool,
    /// Set once a read with credentials was denied and the same read without them succeeded.
    reads_unsigned: AtomicBool,
    retries: Retries,
    stop: Stop,
}

#[derive(Clone)]
struct Clients {
    /// `None` without credentials.
    signed: Option<Client>,
    unsigned: Client,
}

impl Connection {
    pub(super) fn new(
        bucket: &Bucket,
        access: &Access,
        limits: &S3Limits,
        stop: Stop,
    ) -> Result<Self, StoreError> {
        parallel::wait(&stop.clone(), Self::open(bucket, access, limits, stop))
            .map_err(|stopped| StoreError::failed(format!("s3://{bucket}"), stopped))?
    }

    async fn open(
        bucket: &Bucket,
        access: &Access,
        limits: &S3Limits,
        stop: Stop,
    ) -> Result<Self, StoreError> {
        let region = find_region(access).await;
        let network = amazon_client(ProxyConfig::from_env());
        let stalls = StalledStreamProtectionConfig::enabled().grace_period(limits.stall);
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(config::Region::new(region.clone()))
            // The SDK lets all requests of a process share about a hundred retries, which a busy server
            // uses up within a second. See `ask`.
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(PATIENCE))
            .stalled_stream_protection(stalls.build())
            .http_client(network.clone())
            .no_credentials();
        if let Some(profile) = &access.profile {
            loader = loader.profile_name(&profile.name);
        }
        if let Some(endpoint) = &access.endpoint {
            loader = loader.endpoint_url(endpoint.to_string());
        }
        let unsigned = ConfigLoader::load(loader).await;
        let mut key_id = None;
        let provider = match &access.signing {
            Signing::Auto => {
                find_credentials(bucket, access, &region, network).await?.map(|found| {
                    let FoundCredentials { provider, key_id: id } = found;
                    key_id = Some(id);
                    provider
                })
            }
            Signing::With(Keys { id, secret }) => {
                let keys = Credentials::new(id, secret.reveal(), None, None, "keys");
                Some(SharedCredentialsProvider::new(keys))
            }
            Signing::Never => None,
        };
        let endpoint = unsigned.endpoint_url();
        // Amazon's wildcard certificate covers one label before the endpoint, and so does not cover the
        // name of a bucket with dots.
        let is_bucket_in_path = endpoint.is_some() || bucket.as_str().contains('.');
        let client = |config: &SdkConfig| {
            Client::from_conf(
                config::Builder::from(config).force_path_style(is_bucket_in_path).build(),
            )
        };
        let signed = provider
            .map(|provider| client(&unsigned.to_builder().credentials_provider(provider).build()));
        Ok(Self {
            signer: match (&signed, &access.signing) {
                (Some(_), _) => Signer::Known,
                (None, Signing::Never) => Signer::Anonymous,
                (None, _) => Signer::Unknown,
            },
            is_private: endpoint.is_none_or(is_private),
            clients: RwLock::new(Clients { signed, unsigned: client(&unsigned) }),
            key_id,
            bucket: bucket.clone(),
            reads_unsigned: AtomicBool::new(false),
            retries: Retries::new(limits.backoff),
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
        parallel::wait(&self.stop, future)
            .unwrap_or_else(|stopped| Err(StoreError::failed(place, stopped)))
    }

    /// Fails without credentials. Only a user who asks for unsigned requests may mean to write
    /// without any.
    pub(super) fn ensure_writable(&self, place: &str) -> Result<(), StoreError> {
        match self.signer {
            Signer::Unknown => Err(refuse_unsigned_write(place)),
            Signer::Known | Signer::Anonymous => Ok(()),
        }
    }

    /// Sends a request that changes something, and blocks the calling thread until the answer.
    pub(super) fn write<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        self.ensure_writable(place)?;
        self.wait(place, self.write_async(place, &request))
    }

    /// Sends a request that changes something. The caller has asked [`Self::ensure_writable`].
    pub(super) async fn write_async<
        T,
        E: ProvideErrorMetadata,
        F: Future<Output = Result<T, SdkError<E>>>,
    >(
        &self,
        place: &str,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        self.ask(place, Clients::either, request).await
    }

    /// Whether the last read that was denied with the credentials was allowed without them.
    pub(super) fn reads_unsigned(&self) -> bool {
        self.reads_unsigned.load(Ordering::Relaxed)
    }

    /// Sends a request that only reads, and blocks the calling thread until the answer.
    pub(super) fn read<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        self.wait(place, self.read_async(place, &request))
    }

    /// Sends a request that only reads. A public bucket may deny it to expired or foreign
    /// credentials and still allow it without any, and allow other requests only with credentials. So a
    /// request is sent as the last one that succeeded, and if it is denied, the other way. If both are
    /// denied, the user reads the error of the signed request.
    pub(super) async fn read_async<
        T,
        E: ProvideErrorMetadata,
        F: Future<Output = Result<T, SdkError<E>>>,
    >(
        &self,
        place: &str,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        let unsigned: fn(Clients) -> Client = |clients| clients.unsigned;
        let is_unsigned_first = self.reads_unsigned();
        let (first, second) = if is_unsigned_first {
            (unsigned, Clients::either as fn(_) -> _)
        } else {
            (Clients::either as fn(_) -> _, unsigned)
        };
        let first_answer = self.ask(place, first, request).await;
        let is_denied = |error: &StoreError| error.kind() == StoreFailureKind::Denied;
        if self.signer != Signer::Known || !first_answer.as_ref().is_err_and(is_denied) {
            return first_answer;
        }
        let second_answer = self.ask(place, second, request).await;
        if second_answer.is_ok() {
            // Further reads need not be denied first.
            self.reads_unsigned.store(!is_unsigned_first, Ordering::Relaxed);
            return second_answer;
        }
        if is_unsigned_first { second_answer } else { first_answer }
    }

    /// Sends a request, again and again if the failure may pass. Each attempt is a request of its own for the SDK,
    /// and so is signed again.
    async fn ask<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        place: &str,
        client: impl Fn(Clients) -> Client,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        let mut failures = Failures::default();
        loop {
            let slot = self.retries.wait_for_slot().await;
            let failure = match self.send(&client, request).await {
                Ok(answer) => {
                    slot.note_answer();
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let Some(reason) = RetryReason::of(&failure) else {
                slot.note_answer();
                return Err(store_error(place, self.signer, &failure));
            };
            let Some(pause) = slot.note_failure(reason, &mut failures) else {
                return Err(store_error(place, self.signer, &failure));
            };
            if self.retries.takes_turn_to_announce(pause) {
                self.announce(reason, &failure);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells the user why it takes so long.
    fn announce(&self, reason: RetryReason, failure: &S3Failure) {
        let bucket = &self.bucket;
        retry::announce(&match reason {
            RetryReason::Throttled(_) => {
                format!("`s3://{bucket}` is busy: waiting, and sending fewer requests at once")
            }
            RetryReason::Late => format!("`s3://{bucket}` does not answer: trying again"),
            RetryReason::Broken(_) => {
                let cause = one_line(&last_cause(failure));
                format!("`s3://{bucket}` fails: trying again: {cause}")
            }
        });
    }

    /// Sends a request once; and once more if the server answers that the bucket is in another region, or that
    /// the credentials have expired.
    async fn send<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        client: impl Fn(Clients) -> Client,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, S3Failure> {
        let clients = self.clients();
        let answer = request(client(clients.clone())).await.map_err(to_failure);
        let better_clients = match &answer {
            // A 400 without a body does not say what is wrong: the response to a HEAD has no body, and so
            // does not name the right region. The error of a listing names it.
            Err(failure) if read_status(failure) == Some(400) && read_body(failure).is_empty() => {
                let listing = client(clients.clone())
                    .list_objects_v2()
                    .bucket(self.bucket.as_str())
                    .max_keys(0)
                    .send()
                    .await;
                listing.map_err(to_failure).err().and_then(|failure| clients.adapt_to(&failure))
            }
            Err(failure) => clients.adapt_to(failure),
            Ok(_) => None,
        };
        match better_clients {
            Some(better_clients) => {
                *self.clients.write().unwrap_or_else(PoisonError::into_inner) = better_clients;
                request(client(self.clients())).await.map_err(to_failure)
            }
            None => answer,
        }
    }

    fn clients(&self) -> Clients {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Clients {
    /// The client that signs, if there are credentials.
    fn either(self) -> Client {
        self.signed.unwrap_or(self.unsigned)
    }

    /// Clients that may succeed where these clients failed: in another region, or with an empty cache of
    /// credentials, so that a profile or a role is asked for new credentials. `None` if the failure asks for
    /// neither.
    fn adapt_to(&self, failure: &S3Failure) -> Option<Self> {
        let region = self.unsigned.config().region();
        let other_region = region_of_bucket(failure)
            .map(|region| config::Region::new(region.to_string()))
            .filter(|other| Some(other) != region);
        let has_expired = matches!(failure.code(), Some("ExpiredToken" | "TokenRefreshRequired"));
        if other_region.is_none() && !(has_expired && self.signed.is_some()) {
            return None;
        }
        let adapt = |client: &Client| {
            let config = client.config().to_builder();
            let adapted = match &other_region {
                Some(region) => config.region(region.clone()),
                None => config.identity_cache(IdentityCache::lazy().build()),
            };
            Client::from_conf(adapted.build())
        };
        Some(Self { signed: self.signed.as_ref().map(adapt), unsigned: adapt(&self.unsigned) })
    }
}

/// Overrides for requests whose answer comes only after so many bytes were sent, or put together by the
/// server. Stalled-stream protection ends a transfer in which nothing moves. An answer that is lost shows
/// only by the time, so the request may take as long as it does on a slow line.
pub(super) fn answer_timeout(bytes: u64) -> config::Builder {
    config::Builder::new().timeout_config(timeouts(patience(bytes)))
}

fn patience(bytes: u64) -> Duration {
    let transfer = Duration::from_secs(bytes / SLOWEST);
    PATIENCE.saturating_add(transfer).min(LONGEST)
}

fn timeouts(read: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(Duration::from_secs(10)).read_timeout(read).build()
}

/// The region of the bucket, if the failure names it.
fn region_of_bucket(failure: &S3Failure) -> Option<S3Region> {
    let response = failure.raw_response()?;
    if let Some(region) = response.headers().get("x-amz-bucket-region") {
        return region.parse().ok();
    }
    if failure.code() != Some("AuthorizationHeaderMalformed") {
        return None;
    }
    // Amazon and Garage name it in an XML element.
    let body = read_body(failure);
    let (_, rest) = body.split_once("<Region>")?;
    rest.split('<').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_as_long_as_a_slow_line_needs() {
        let seconds = [0, 1_000_000, 16 << 20, u64::MAX].map(|bytes| patience(bytes).as_secs());
        assert_eq!(seconds, [60, 70, 227, 900]);
    }
}
