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
use aws_sdk_s3::config::{
    self, ProvideCredentials as _, SharedCredentialsProvider, SharedHttpClient,
};
use aws_smithy_http_client::proxy::ProxyConfig;

use super::access::{Access, Profile};
use crate::{StoreError, StoreFailureKind, client::amazon_client, location::Bucket};
use rocwheel_base::error::last_cause;

/// The region to start with if none is configured. The server then names the right region.
const FIRST_REGION: &str = "us-east-1";
/// Timeout for the metadata service. On EC2 it answers within milliseconds; elsewhere usually
/// nothing answers at all.
const METADATA_PATIENCE: Duration = Duration::from_millis(250);

/// Finds the region with the standard chain without its last provider, which asks the metadata service and
/// takes long outside EC2.
pub(super) async fn find_region(access: &Access) -> String {
    if let Some(region) = &access.region {
        return region.to_string();
    }
    let mut profile = ProfileFileRegionProvider::builder();
    if let Some(Profile { name, .. }) = &access.profile {
        profile = profile.profile_name(name);
    }
    let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build())
        .region()
        .await;
    region.map_or_else(|| FIRST_REGION.to_owned(), |region| region.to_string())
}

/// Credentials of the standard chain.
pub(super) struct FoundCredentials {
    /// Renews the credentials, too.
    pub(super) provider: SharedCredentialsProvider,
    /// The id of their key. It is no secret: AWS writes it into logs and URLs.
    pub(super) key_id: String,
}

/// Finds credentials with the standard chain. `None` if the chain has none.
pub(super) async fn find_credentials(
    bucket: &Bucket,
    access: &Access,
    region: &str,
    network: SharedHttpClient,
) -> Result<Option<FoundCredentials>, StoreError> {
    let config = ProviderConfig::without_region()
        .with_region(Some(config::Region::new(region.to_owned())))
        .with_http_client(network);
    // The services of the machine and of its container are beside us, behind no proxy.
    let nearby = config.clone().with_http_client(amazon_client(ProxyConfig::disabled()));
    let profile = access.profile.as_ref();
    let mut profile_builder = ProfileFileCredentialsProvider::builder().configure(&config);
    if let Some(Profile { name, .. }) = profile {
        profile_builder = profile_builder.profile_name(name);
    }
    let of_profile = profile_builder.build();
    let chain = if profile.is_some_and(|profile| profile.beats_keys) {
        // A profile named on the command line is the only source. Falling back to other credentials
        // could write to another account.
        CredentialsProviderChain::first_try("profile", of_profile)
    } else {
        let token = WebIdentityTokenCredentialsProvider::builder().configure(&config);
        let container = EcsCredentialsProvider::builder().configure(&nearby);
        let keys = EnvironmentVariableCredentialsProvider::new();
        CredentialsProviderChain::first_try("environment", keys)
            .or_else("profile", of_profile)
            .or_else("web identity", token.build())
            .or_else("container", container.build())
    };
    let unusable = |cause: String| {
        StoreError::new(StoreFailureKind::Denied, format!("s3://{bucket}"))
            .caused_by(cause)
            .advised("name another `--profile`, sign in again, or pass `--no-sign-request`")
    };
    let mut provider = SharedCredentialsProvider::new(chain);
    let credentials = match (provider.provide_credentials().await, profile) {
        (Ok(credentials), _) => credentials,
        (Err(CredentialsError::CredentialsNotLoaded(_)), Some(Profile { name, .. })) => {
            let cause = format!("the profile `{name}` does not exist or has no credentials");
            return Err(unusable(cause));
        }
        (Err(CredentialsError::CredentialsNotLoaded(_)), None) => {
            provider = SharedCredentialsProvider::new(machine_provider(&nearby));
            // Other clouds have other services at the same address, so every error means that there are no
            // credentials.
            match provider.provide_credentials().await {
                Ok(credentials) => credentials,
                Err(_) => return Ok(None),
            }
        }
        (Err(error), _) => {
            return Err(unusable(format!(
                "find AWS credentials: {}",
                without_stderr(&last_cause(&error))
            )));
        }
    };
    Ok(Some(FoundCredentials { provider, key_id: credentials.access_key_id().to_owned() }))
}

/// The error of a `credential_process` without what the program wrote: that may be a secret in any form.
fn without_stderr(cause: &str) -> &str {
    cause.split(" Stderr: ").next().unwrap_or_default()
}

/// The last provider of the standard chain, the metadata service of EC2.
fn machine_provider(config: &ProviderConfig) -> ImdsCredentialsProvider {
    let client = imds::Client::builder()
        .configure(config)
        .max_attempts(1)
        .connect_timeout(METADATA_PATIENCE)
        .read_timeout(4 * METADATA_PATIENCE);
    ImdsCredentialsProvider::builder().configure(config).imds_client(client.build()).build()
}
