//! [`PlaceArg`]: a place as the user names it.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::{
    error::{Invalid, Result},
    location::{Location, percent_decode},
};

/// A directory, a directory of a bucket, or the address of an index or of a page with links.
///
/// Every argument that may be any of them is one. It is parsed once, and opened by [`super::SetPlace::open`], which
/// also finds the set around an index. A place that is written to is the one that was named.
///
/// ```text
/// packages/dist                    a directory
/// file:///a/python/                a directory, by its address
/// s3://bucket/1-linux/python       a bucket, also as `…/python/set.json`
/// https://host/simple/             a web server, which can only be read
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceArg {
    Directory(PathBuf),
    Bucket(Location),
    Web(WebAddress),
}

/// The address of a place on a web server, without query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    /// `https://host`
    pub(super) origin: String,
    /// `whl/simple/`
    pub(super) path: String,
}

impl FromStr for PlaceArg {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if Location::is_meant_by(text) {
            let directory = text.strip_suffix("/set.json").unwrap_or(text);
            return directory.parse().map(Self::Bucket);
        }
        if let Some(encoded) = text.strip_prefix("file://") {
            let path =
                percent_decode(encoded).ok_or_else(|| Invalid::new("not an address", text))?;
            // `file:///C:/packages`
            let path = path.strip_prefix('/').filter(|_| cfg!(windows)).unwrap_or(&path);
            return Ok(Self::Directory(path.into()));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Directory(text.into()));
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains(['?', '#']) {
            return Err(Invalid::new("an address with a query or a fragment", text));
        }
        Ok(Self::Web(WebAddress { origin: format!("{scheme}://{host}"), path: path.to_owned() }))
    }
}

impl fmt::Display for PlaceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Bucket(location) => location.fmt(f),
            Self::Web(WebAddress { origin, path }) => write!(f, "{origin}/{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_told_apart() {
        let shown = |text: &str| match text.parse::<PlaceArg>() {
            Ok(PlaceArg::Directory(path)) => format!("directory {}", path.display()),
            Ok(PlaceArg::Bucket(location)) => format!("bucket {location}"),
            Ok(PlaceArg::Web(address)) => format!("web {} {}", address.origin, address.path),
            Err(error) => format!("error: {error}"),
        };
        let texts = "a/dist s3://bucket/1-linux/python s3://bucket/1-linux/python/set.json s3://bucket/simple/ s3://bucket/offset.json \
            file:///a%20b/c file:///a/simple/ https://host https://host/x/links.html \
            https://host/simple/?t=1 s3://B/x";
        let lines: Vec<String> = texts.split_whitespace().map(shown).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        directory a/dist
        bucket s3://bucket/1-linux/python
        bucket s3://bucket/1-linux/python
        bucket s3://bucket/simple/
        bucket s3://bucket/offset.json
        directory /a b/c
        directory /a/simple/
        web https://host 
        web https://host x/links.html
        error: an address with a query or a fragment: "https://host/simple/?t=1"
        error: a bucket's name has 3 to 63 characters: "B"
        "#);
    }
}
