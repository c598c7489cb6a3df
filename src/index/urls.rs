//! [`Urls`]: the public URLs of a set.

use std::{fmt, str::FromStr};

use crate::{location::percent_encode, run::ArtifactGroup};

/// The URL of the directory of a set, which has `simple/`, `index.html` and the files.
///
/// The scheme is `http`, `https` or `file`. It ends in `/`, has no user, query or fragment, and no
/// character with a meaning in shells, Markdown or HTML; those can be percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Urls(Box<str>);

/// Why a text is not the URL of a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidUrl {
    text: String,
    reason: &'static str,
}

impl Urls {
    /// The URLs of a set whose simple index is `https://host/python/simple/`.
    pub fn of_index(url: &str) -> Result<Self, InvalidUrl> {
        let whole = if url.ends_with('/') {
            url.to_owned()
        } else {
            format!("{url}/")
        };
        match whole.strip_suffix("simple/") {
            Some(base) if base.ends_with('/') => base.parse(),
            _ => Err(InvalidUrl {
                text: url.to_owned(),
                reason: "an index whose address does not end in `/simple/`",
            }),
        }
    }

    /// For `--index-url` and `--extra-index-url`.
    pub fn index(&self) -> String {
        format!("{self}simple/")
    }

    /// For `--find-links`.
    pub fn find_links(&self) -> String {
        format!("{self}index.html")
    }

    /// The URLs of the index of a family.
    #[must_use]
    pub fn of_family(&self, family: &ArtifactGroup) -> Self {
        // The name of a group needs no percent-encoding.
        Self(format!("{self}{family}/").into())
    }

    /// The URL of a file or page, by its path relative to the set.
    pub fn path(&self, path: &str) -> String {
        let path: Vec<String> = path.split('/').map(percent_encode).collect();
        format!("{self}{}", path.join("/"))
    }
}

impl FromStr for Urls {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-._~:/%,=".contains(c);
        let rest = ["https://", "http://", "file:///"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let reason = match rest {
            None => "not an `https`, `http` or `file` address",
            Some(rest) if rest.contains('@') => "an address with a user in it",
            Some(rest) if rest.contains(['?', '#']) => "an address with a query or a fragment",
            Some(rest) if !rest.chars().all(known) => {
                "an address with characters that are not percent-encoded"
            }
            Some("") if !text.starts_with("file") => "an address without a host",
            Some(_) => {
                let slash = if text.ends_with('/') { "" } else { "/" };
                return Ok(Self(format!("{text}{slash}").into()));
            }
        };
        let text = text.to_owned();
        Err(InvalidUrl { text, reason })
    }
}

impl fmt::Display for Urls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_an_address_for_each_way_to_install_it() {
        let urls: Urls = "https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu"
            .parse()
            .unwrap();
        let shown = [
            urls.index(),
            urls.find_links(),
            urls.path("dist/a+b c.whl"),
            urls.of_family(&"gfx110X-all".parse().unwrap()).index(),
        ];
        insta::assert_snapshot!(shown.join("\n"), @"
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/index.html
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/dist/a%2Bb%20c.whl
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/gfx110X-all/simple/
        ");
        for index in [urls.index(), urls.index().trim_end_matches('/').to_owned()] {
            assert_eq!(Urls::of_index(&index).unwrap(), urls);
        }
    }

    #[test]
    fn an_address_that_could_do_harm_is_refused_in_words() {
        let refused = [
            "",
            "ftp://h/",
            "/tmp/x",
            "https://",
            "https://user:secret@h/",
            "https://h/?x=1",
            "https://h/a b",
            "https://h/$(x)",
            "https://h/`x`",
            "https://h/|\"'<>",
            "https://h/\n::error::x",
            "file://host/x",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<Urls>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not an `https`, `http` or `file` address: ""
        not an `https`, `http` or `file` address: "ftp://h/"
        not an `https`, `http` or `file` address: "/tmp/x"
        an address without a host: "https://"
        an address with a user in it: "https://user:secret@h/"
        an address with a query or a fragment: "https://h/?x=1"
        an address with characters that are not percent-encoded: "https://h/a b"
        an address with characters that are not percent-encoded: "https://h/$(x)"
        an address with characters that are not percent-encoded: "https://h/`x`"
        an address with characters that are not percent-encoded: "https://h/|\"'<>"
        an address with characters that are not percent-encoded: "https://h/\n::error::x"
        not an `https`, `http` or `file` address: "file://host/x"
        "#);
        for text in ["https://h/", "https://h/notsimple/", "simple/"] {
            assert!(Urls::of_index(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(Urls::of_index("https://h/whl").unwrap_err(), @r#"an index whose address does not end in `/simple/`: "https://h/whl""#);
    }
}
