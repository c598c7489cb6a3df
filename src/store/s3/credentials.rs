//! Who asks, and from where: what AWS tools find in the environment, in files and on the machine.

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
    error::{anyhow, hinted},
    store::{StoreError, StoreFailureKind},
};

/// Where the bucket is when nobody says; the server then says it.
const SOMEWHERE: &str = "us-east-1";
/// A machine of Amazon's answers within milliseconds, and anywhere else nobody ever does.
const METADATA_PATIENCE: Duration = Duration::from_millis(250);

/// The usual chain, without its last link: that asks the machine, and for long where nobody answers.
pub(super) async fn region(access: &Access) -> String {
    if let Some(region) = &access.region {
        return region.as_str().to_owned();
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

pub(super) async fn credentials(
    place: &str,
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
        // What the user names on the command line is meant, and nothing else will do: other
        // credentials could write to another account.
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
                    anyhow!("the profile `{name}` does not exist or has no credentials")
                }
                (_, error) => anyhow!("find AWS credentials: {}", last_cause(&error)),
            };
            let hint = "name another `--profile`, sign in again, or pass `--no-sign-request`";
            let cause = hinted(cause, hint).reallocate_into_boxed_dyn_error_without_backtrace();
            Err(StoreError::new(StoreFailureKind::Denied, place).caused_by(cause))
        }
    }
}

/// The usual chain's last link. Other clouds answer at the same address, in their own way, so that
/// no answer but a good one means anything.
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
