//! The connections of all clients: one TLS provider, the certificates of the machine, and the proxies of the
//! environment.

use std::time::Duration;

use aws_sdk_s3::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::{
    Builder, Connector,
    proxy::ProxyConfig,
    tls::{Provider, rustls_provider::CryptoMode},
};
use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;

const CONNECT: Duration = Duration::from_secs(30);

/// A client of web servers, to be completed. It gives up a response in which nothing arrives for as long as
/// `silence`.
pub fn web_client(silence: Duration) -> ClientBuilder {
    // reqwest takes the provider of the process, and panics without one. An error means that the process
    // has one already, which is as good.
    let _ = ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("rocwheel/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .read_timeout(silence)
}

/// A client of Amazon's services. It keeps its connections open, so clones of one should be used.
pub(crate) fn amazon_client(proxies: ProxyConfig) -> SharedHttpClient {
    // `build_https` would use no proxy. The SDK builds its own client, which has another TLS provider, by
    // this method.
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder()
            .proxy_config(proxies.clone())
            .tls_provider(Provider::Rustls(CryptoMode::Ring));
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}
