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

/// The standard credentials chain; `None` if it finds no credentials.
pub(super) async fn credentials(
    bucket: &Bucket,
    access: &Access,
    region: &str,
) -> Result<Option<SharedCredentialsProvider>, StoreError> {
    let config = ProviderConfig::without_region();
    let config = config.with_region(Some(config::Region::new(region.to_owned())));
    let mut profile = ProfileFileCredentialsProvider::builder().configure(&config);
    if let Some(Profile { name, .. }) = &access.profile {
        profile = profile.profile_name(name);
    }
    let profile = profile.build();
    let token = WebIdentityTokenCredentialsProvider::builder().configure(&config);
    let container = EcsCredentialsProvider::builder().configure(&config);
    let chain = if access.profile.as_ref().is_some_and(|it| it.beats_keys) {
        // A profile named on the command line is the only source. Falling back to other credentials
        // could write to another account.
        CredentialsProviderChain::first_try("Profile", profile)
    } else {
        let variables = EnvironmentVariableCredentialsProvider::new();
        CredentialsProviderChain::first_try("Environment", variables)
            .or_else("Profile", profile)
            .or_else("WebIdentityToken", token.build())
            .or_else("EcsContainer", container.build())
    };
    match chain.provide_credentials().await {
        Ok(_) => Ok(Some(SharedCredentialsProvider::new(chain))),
        Err(CredentialsError::CredentialsNotLoaded(_)) if access.profile.is_none() => {
            Ok(of_the_machine(&config).await)
        }
        Err(error) => {
            let cause = match (&access.profile, error) {
                (Some(Profile { name, .. }), CredentialsError::CredentialsNotLoaded(_)) => {
                    format!("the profile `{name}` does not exist or has no credentials")
                }
                (_, error) => format!("find AWS credentials: {}", last_cause(&error)),
            };
            let denied = StoreError::new(StoreFailureKind::Denied, format!("s3://{bucket}"));
            let hint = "name another `--profile`, sign in again, or pass `--no-sign-request`";
            Err(denied.caused_by(cause).advised(hint))
        }
    }
}

/// The last provider of the standard chain, the metadata service of EC2. Other clouds have services
/// of their own at the same address, so every error is treated as "no credentials".
async fn of_the_machine(config: &ProviderConfig) -> Option<SharedCredentialsProvider> {
    let client = imds::Client::builder()
        .configure(config)
        .max_attempts(1)
        .connect_timeout(METADATA_PATIENCE)
        .read_timeout(4 * METADATA_PATIENCE);
    let machine = ImdsCredentialsProvider::builder()
        .configure(config)
        .imds_client(client.build())
        .build();
    let found = machine.provide_credentials().await;
    found.ok().map(|_| SharedCredentialsProvider::new(machine))
}
