//! [`Endpoint`]: the address of a server, of S3 or of pages.

use std::str::FromStr;

use url::Url;

use rocwheel_base::error::{Error, Result, ensure};

/// The base URL of a server: `http://127.0.0.1:8333`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct Endpoint(Box<str>);

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_web = text.starts_with("http://") || text.starts_with("https://");
        let is_visible = text.chars().all(|c| c.is_ascii_graphic());
        let url = Url::parse(text).ok().filter(|url| {
            let has_user = !url.username().is_empty() || url.password().is_some();
            is_web && is_visible && !has_user && url.query().or(url.fragment()).is_none()
        });
        // The error does not repeat the text, which may hold a password.
        ensure!(
            url.is_some(),
            "not the address of a server such as `http://127.0.0.1:8333`, without a user or a query"
        );
        Ok(Self(text.trim_end_matches('/').into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_the_address_of_a_server_and_nothing_more() {
        for text in ["http://127.0.0.1:8333", "https://s3.example/below"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        let slash: Endpoint = "https://s3.example/".parse().unwrap();
        assert_eq!(slash.to_string(), "https://s3.example");
        let refused = [
            "",
            "s3.example",
            "ftp://s3.example",
            "http://",
            "http://:80",
            "http://user:secret@host",
            "http://host/?a=b",
            "http://ho st",
            "http://host/a b",
        ];
        let refused = refused.map(|text| text.parse::<Endpoint>().unwrap_err().to_string());
        insta::assert_snapshot!(refused.join("\n"), @"
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        ");
    }
}
