//! Finds the region and the credentials, in the places where other AWS tools look: environment
//! variables, configuration files, and the metadata services of containers and machines.

use std::time::Duration;

use aws_config::{
    ecs::EcsCredentialsProvider,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    imds::{self, credentials::ImdsCredentialsProvider},
    meta::{credentials::CredentialsProviderChain, region::RegionProviderChain},
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
    provider_config::ProviderConfig,
    web_identity_token::WebIdentityTokenCredentialsProvider,
};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::{self, ProvideCredentials as _, SharedCredentialsProvider};

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

/// The credentials of the standard chain, and the id of their key; `None` if it finds none. The id is no
/// secret: AWS writes it into logs and URLs.
/// The provider that has found them also renews them.
pub(super) async fn credentials(
    bucket: &Bucket,
    access: &Access,
    region: &str,
) -> Result<Option<(SharedCredentialsProvider, String)>, StoreError> {
    let config = ProviderConfig::without_region();
    let config = config.with_region(Some(config::Region::new(region.to_owned())));
    let named = access.profile.as_ref();
    let mut profile = ProfileFileCredentialsProvider::builder().configure(&config);
    if let Some(Profile { name, .. }) = named {
        profile = profile.profile_name(name);
    }
    let profile = profile.build();
    let chain = if named.is_some_and(|it| it.beats_keys) {
        // A profile named on the command line is the only source. Falling back to other credentials
        // could write to another account.
        CredentialsProviderChain::first_try("profile", profile)
    } else {
        let token = WebIdentityTokenCredentialsProvider::builder().configure(&config);
        let container = EcsCredentialsProvider::builder().configure(&config);
        let keys = EnvironmentVariableCredentialsProvider::new();
        CredentialsProviderChain::first_try("environment", keys)
            .or_else("profile", profile)
            .or_else("web identity", token.build())
            .or_else("container", container.build())
    };
    let unusable = |cause: String| {
        let denied = StoreError::new(StoreFailureKind::Denied, format!("s3://{bucket}"));
        let hint = "name another `--profile`, sign in again, or pass `--no-sign-request`";
        denied.caused_by(cause).advised(hint)
    };
    let mut provider = SharedCredentialsProvider::new(chain);
    let found = match (provider.provide_credentials().await, named) {
        (Ok(found), _) => found,
        (Err(CredentialsError::CredentialsNotLoaded(_)), Some(Profile { name, .. })) => {
            let cause = format!("the profile `{name}` does not exist or has no credentials");
            return Err(unusable(cause));
        }
        (Err(CredentialsError::CredentialsNotLoaded(_)), None) => {
            provider = SharedCredentialsProvider::new(of_the_machine(&config));
            // Other clouds have services of their own at the same address, so every error is
            // treated as "no credentials".
            match provider.provide_credentials().await {
                Ok(found) => found,
                Err(_) => return Ok(None),
            }
        }
        (Err(error), _) => {
            let cause = last_cause(&error);
            return Err(unusable(format!("find AWS credentials: {cause}")));
        }
    };
    Ok(Some((provider, found.access_key_id().to_owned())))
}

/// The last provider of the standard chain, the metadata service of EC2.
fn of_the_machine(config: &ProviderConfig) -> ImdsCredentialsProvider {
    let client = imds::Client::builder()
        .configure(config)
        .max_attempts(1)
        .connect_timeout(METADATA_PATIENCE)
        .read_timeout(4 * METADATA_PATIENCE);
    ImdsCredentialsProvider::builder().configure(config).imds_client(client.build()).build()
}
