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

use super::{
    S3Limits,
    access::{Access, Keys, S3Region, Signing, is_private},
    credentials::{credentials, region},
    failure::{S3Failure, Signer, body, failure, one_line, plain, status, unknown},
    retries::{Retries, RetryReason},
};
use crate::{
    error::{Stop, last_cause},
    location::Bucket,
    parallel,
    retry::{self, Failures},
    store::{StoreError, StoreFailureKind},
};

/// How long to wait for the answer to a request without a body.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many bytes the slowest line sends in a second, and how long to wait at most.
const SLOWEST: u64 = 100_000;
const LONGEST: Duration = Duration::from_mins(15);

pub(super) struct Connection {
    clients: RwLock<Clients>,
    pub(super) signer: Signer,
    /// The id of the key that was found.
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
        let waited = stop.clone();
        let opened = parallel::wait(&waited, Self::open(bucket, access, limits, stop));
        opened.map_err(|stopped| StoreError::failed(format!("s3://{bucket}"), stopped))?
    }

    async fn open(
        bucket: &Bucket,
        access: &Access,
        limits: &S3Limits,
        stop: Stop,
    ) -> Result<Self, StoreError> {
        let region = region(access).await;
        let stalls = StalledStreamProtectionConfig::enabled().grace_period(limits.stall);
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(config::Region::new(region.clone()))
            // The SDK lets all requests of a process share about a hundred retries, which a busy server
            // uses up within a second. See `ask`.
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(PATIENCE))
            .stalled_stream_protection(stalls.build())
            .no_credentials();
        if let Some(profile) = &access.profile {
            loader = loader.profile_name(&profile.name);
        }
        if let Some(endpoint) = &access.endpoint {
            loader = loader.endpoint_url(endpoint.to_string());
        }
        let unsigned = ConfigLoader::load(loader).await;
        let (credentials, key_id) = match &access.signing {
            Signing::Auto => credentials(bucket, access, &region).await?.unzip(),
            Signing::With(Keys { id, secret }) => {
                let keys = Credentials::new(id, secret.reveal(), None, None, "keys");
                (Some(SharedCredentialsProvider::new(keys)), None)
            }
            Signing::Never => (None, None),
        };
        let endpoint = unsigned.endpoint_url();
        // Amazon's wildcard certificate covers one label before the endpoint, and so does not cover the
        // name of a bucket with dots.
        let in_path = endpoint.is_some() || bucket.as_str().contains('.');
        let client = |config: &SdkConfig| {
            let config = config::Builder::from(config).force_path_style(in_path);
            Client::from_conf(config.build())
        };
        let signed = credentials.map(|credentials| {
            let config = unsigned.to_builder().credentials_provider(credentials);
            client(&config.build())
        });
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
            Signer::Unknown => Err(unknown(place)),
            Signer::Known | Signer::Anonymous => Ok(()),
        }
    }

    /// Sends a request that changes something.
    pub(super) fn write<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        self.ensure_writable(place)?;
        self.wait(place, self.writing(place, &request))
    }

    /// Sends a request that changes something.
    pub(super) async fn writing<
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

    /// Whether reads with the credentials were denied, and are sent without them.
    pub(super) fn reads_unsigned(&self) -> bool {
        self.reads_unsigned.load(Ordering::Relaxed)
    }

    /// Sends a request that only reads, and blocks the calling thread until the answer.
    pub(super) fn read<T, E: ProvideErrorMetadata, F: Future<Output = Result<T, SdkError<E>>>>(
        &self,
        place: &str,
        request: impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        self.wait(place, self.reading(place, &request))
    }

    /// Sends a request that only reads. A public bucket may deny it to expired or foreign
    /// credentials and still allow it without any, so a denied request is repeated unsigned. If
    /// that fails too, the error is that of the signed request.
    pub(super) async fn reading<
        T,
        E: ProvideErrorMetadata,
        F: Future<Output = Result<T, SdkError<E>>>,
    >(
        &self,
        place: &str,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, StoreError> {
        let unsigned = |clients: Clients| clients.unsigned;
        if self.reads_unsigned() {
            return self.ask(place, unsigned, request).await;
        }
        let answer = self.ask(place, Clients::either, request).await;
        let is_denied = |error: &StoreError| error.kind() == StoreFailureKind::Denied;
        if self.signer != Signer::Known || !answer.as_ref().is_err_and(is_denied) {
            return answer;
        }
        let again = self.ask(place, unsigned, request).await.or(answer)?;
        self.reads_unsigned.store(true, Ordering::Relaxed);
        Ok(again)
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
            let slot = self.retries.slot().await;
            let answer = self.send(&client, request).await;
            let failed = match answer {
                Ok(answer) => {
                    slot.answered();
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            let Some(reason) = RetryReason::of(&failed) else {
                slot.answered();
                return Err(failure(place, self.signer, &failed));
            };
            let Some(pause) = slot.failed(reason, &mut failures) else {
                return Err(failure(place, self.signer, &failed));
            };
            if self.retries.is_worth_a_note(pause) {
                self.announce(reason, &failed);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells the user why it takes so long.
    fn announce(&self, reason: RetryReason, failed: &S3Failure) {
        let bucket = &self.bucket;
        retry::announce(&match reason {
            RetryReason::Throttled(_) => {
                format!("`s3://{bucket}` is busy: waiting, and sending fewer requests at once")
            }
            RetryReason::Late => format!("`s3://{bucket}` does not answer: trying again"),
            RetryReason::Broken => {
                let cause = one_line(&last_cause(failed));
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
        let answer = request(client(clients.clone())).await.map_err(plain);
        let others = match &answer {
            // A 400 without a body does not say what is wrong: the response to a HEAD has none, and
            // so does not name the right region. An empty listing is asked for, whose error does.
            Err(error) if status(error) == Some(400) && body(error).is_empty() => {
                let listing = client(clients.clone()).list_objects_v2();
                let listing = listing.bucket(self.bucket.as_str()).max_keys(0).send();
                let error = listing.await.map_err(plain).err();
                error.and_then(|error| clients.others(&error))
            }
            Err(error) => clients.others(error),
            Ok(_) => None,
        };
        match others {
            Some(others) => {
                *self.clients.write().unwrap_or_else(PoisonError::into_inner) = others;
                request(client(self.clients())).await.map_err(plain)
            }
            None => answer,
        }
    }

    fn clients(&self) -> Clients {
        let clients = self.clients.read();
        clients.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Clients {
    fn either(self) -> Client {
        self.signed.unwrap_or(self.unsigned)
    }

    /// Clients that may succeed where these failed: in another region, or with an empty cache of
    /// credentials, as a profile or a role may then provide new ones.
    fn others(&self, error: &S3Failure) -> Option<Self> {
        let region = self.unsigned.config().region();
        let home = home(error).map(|home| config::Region::new(home.to_string()));
        let home = home.filter(|home| Some(home) != region);
        // Whether the server says that the credentials have expired.
        let is_over = matches!(error.code(), Some("ExpiredToken" | "TokenRefreshRequired"));
        if home.is_none() && !(is_over && self.signed.is_some()) {
            return None;
        }
        let client = |client: &Client| {
            let config = client.config().to_builder();
            let config = match &home {
                Some(home) => config.region(home.clone()),
                None => config.identity_cache(IdentityCache::lazy().build()),
            };
            Client::from_conf(config.build())
        };
        Some(Self { signed: self.signed.as_ref().map(client), unsigned: client(&self.unsigned) })
    }
}

/// Overrides for requests whose answer comes only after so many bytes were sent, or put together by the
/// server. Stalled-stream protection ends a transfer in which nothing moves; but an answer that is lost
/// shows only by the time, so the time is what a slow line needs.
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

/// The region of the bucket, if the error names it.
fn home(error: &S3Failure) -> Option<S3Region> {
    let response = error.raw_response()?;
    if let Some(region) = response.headers().get("x-amz-bucket-region") {
        return region.parse().ok();
    }
    if error.code() != Some("AuthorizationHeaderMalformed") {
        return None;
    }
    // Amazon and Garage name it in an XML element of its own.
    let body = body(error);
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
