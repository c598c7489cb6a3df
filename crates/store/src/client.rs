//! The connections of all clients: one TLS provider, the certificates of the machine, and the proxies of the
//! environment.

use std::{error::Error, io, iter, time::Duration};

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

/// Whether a request failed because this machine does not trust the certificate of the server, so that each further
/// attempt would fail in the same way.
pub(crate) fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    let is_bad_certificate =
        |error: &rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
    let mut causes = iter::successors(Some(error), |&error| {
        // The source of an `io::Error` is not the error in it, but the source of that one.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    });
    causes.any(|error| error.downcast_ref().is_some_and(is_bad_certificate))
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

    use super::*;
    use crate::{StoreError, StoreFailureKind};

    #[test]
    fn only_an_untrusted_certificate_is_refused_again_each_time() {
        let of = |error: rustls::Error| {
            let error = io::Error::other(io::Error::other(error));
            is_untrusted(&StoreError::new(StoreFailureKind::Unavailable, "a").caused_by(error))
        };
        assert!(of(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)));
        assert!(!of(rustls::Error::DecryptError));
        assert!(!is_untrusted(&io::Error::from(io::ErrorKind::ConnectionReset)));
    }
}
