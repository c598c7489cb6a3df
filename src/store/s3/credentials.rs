//! Finds the region and the credentials, in the places where other AWS tools look: environment
//! variables, configuration files, and the metadata services of containers and machines.

use std::time::{Duration, SystemTime};

use aws_config::{
    ecs::EcsCredentialsProvider,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    imds::{self, credentials::ImdsCredentialsProvider},
    meta::region::RegionProviderChain,
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
    provider_config::ProviderConfig,
    web_identity_token::WebIdentityTokenCredentialsProvider,
};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::{self, Credentials, ProvideCredentials as _, SharedCredentialsProvider};

use super::access::{Access, Profile};
use crate::{
    error::last_cause,
    location::Bucket,
    store::{StoreError, StoreFailureKind},
};

/// The region to start with if none is configured. The server then names the right one.
const SOMEWHERE: &str = "us-east-1";
/// Timeout for the metadata service. On EC2 it answers within milliseconds; elsewhere usually
/// nothing answers at all.
const METADATA_PATIENCE: Duration = Duration::from_millis(250);

/// The standard region chain without its last provider, which asks the metadata service and takes
/// long outside EC2.
pub(super) async fn region(access: &Access) -> String {
    if let Some(region) = &access.region {
        return region.to_string();
    }
    let mut profile = ProfileFileRegionProvider::builder();
    if let Some(Profile { name, .. }) = &access.profile {
        profile = profile.profile_name(name);
    }
    let chain = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build());
    let region = chain.region().await;
    region.map_or_else(|| SOMEWHERE.to_owned(), |region| region.to_string())
}

/// What may be said about the credentials that sign requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningIdentity {
    /// The id of the key. It is no secret: AWS writes it into logs and URLs.
    pub key_id: String,
    pub expires: Option<SystemTime>,
}

/// Credentials, and what may be said about them.
pub(super) type Found = (SharedCredentialsProvider, SigningIdentity);

/// The standard credentials chain; `None` if it finds no credentials.
pub(super) async fn credentials(
    bucket: &Bucket,
    access: &Access,
    region: &str,
) -> Result<Option<Found>, StoreError> {
    let config = ProviderConfig::without_region();
    let config = config.with_region(Some(config::Region::new(region.to_owned())));
    for provider in chain(access, &config) {
        match provider.provide_credentials().await {
            Ok(found) => return Ok(Some(identified(provider, &found))),
            Err(CredentialsError::CredentialsNotLoaded(_)) => {}
            Err(error) => {
                let cause = format!("find AWS credentials: {}", last_cause(&error));
                return Err(unusable(bucket, cause));
            }
        }
    }
    match &access.profile {
        None => Ok(of_the_machine(&config).await),
        Some(Profile { name, .. }) => {
            let cause = format!("the profile `{name}` does not exist or has no credentials");
            Err(unusable(bucket, cause))
        }
    }
}

/// The providers of the standard chain in their order. The first one that has credentials is also the
/// one that renews them.
fn chain(access: &Access, config: &ProviderConfig) -> Vec<SharedCredentialsProvider> {
    let mut profile = ProfileFileCredentialsProvider::builder().configure(config);
    if let Some(Profile { name, .. }) = &access.profile {
        profile = profile.profile_name(name);
    }
    let profile = SharedCredentialsProvider::new(profile.build());
    if access.profile.as_ref().is_some_and(|it| it.beats_keys) {
        // A profile named on the command line is the only source. Falling back to other credentials
        // could write to another account.
        return vec![profile];
    }
    let token = WebIdentityTokenCredentialsProvider::builder().configure(config);
    let container = EcsCredentialsProvider::builder().configure(config);
    vec![
        SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()),
        profile,
        SharedCredentialsProvider::new(token.build()),
        SharedCredentialsProvider::new(container.build()),
    ]
}

fn identified(provider: SharedCredentialsProvider, found: &Credentials) -> Found {
    let identity = SigningIdentity {
        key_id: found.access_key_id().to_owned(),
        expires: found.expiry(),
    };
    (provider, identity)
}

fn unusable(bucket: &Bucket, cause: String) -> StoreError {
    let denied = StoreError::new(StoreFailureKind::Denied, format!("s3://{bucket}"));
    let hint = "name another `--profile`, sign in again, or pass `--no-sign-request`";
    denied.caused_by(cause).advised(hint)
}

/// The last provider of the standard chain, the metadata service of EC2. Other clouds have services
/// of their own at the same address, so every error is treated as "no credentials".
async fn of_the_machine(config: &ProviderConfig) -> Option<Found> {
    let client = imds::Client::builder()
        .configure(config)
        .max_attempts(1)
        .connect_timeout(METADATA_PATIENCE)
        .read_timeout(4 * METADATA_PATIENCE);
    let machine = ImdsCredentialsProvider::builder()
        .configure(config)
        .imds_client(client.build())
        .build();
    let found = machine.provide_credentials().await.ok()?;
    let machine = SharedCredentialsProvider::new(machine);
    Some(identified(machine, &found))
}
