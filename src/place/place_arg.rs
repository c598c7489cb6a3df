//! [`PlaceArg`]: a place as the user names it.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use rocwheel_base::error::{Error, Invalid, Result};
use rocwheel_store::{
    Endpoint,
    location::{Location, percent_decode},
};

/// A directory, a directory of a bucket, or the address of an index or of a page with links.
///
/// Every argument that may be any of them is one. It is parsed once, and opened by [`super::SetPlace::open`], which
/// also finds the set around an index. A place that is written to is the one that was named. Each form may also
/// name the `set.json` of a set, which stands for the directory that it is in.
///
/// ```text
/// packages/dist                    a directory
/// file:///a/python/                a directory, by its address
/// s3://bucket/1-linux/python       a bucket
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
    pub(super) origin: Endpoint,
    /// `whl/simple/`
    pub(super) path: String,
}

impl FromStr for PlaceArg {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if Location::is_meant_by(text) {
            return Ok(Self::Bucket(directory_of_document(text).parse()?));
        }
        if let Some(encoded) = text.strip_prefix("file://") {
            let path =
                percent_decode(encoded).ok_or_else(|| Invalid::new("not an address", text))?;
            // On Windows the address is `file:///C:/packages`, and the path `C:/packages`.
            return Ok(Self::directory(match path.strip_prefix('/') {
                Some(with_drive) if cfg!(windows) => with_drive,
                _ => &path,
            }));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::directory(text));
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains(['?', '#']) {
            return Err(Invalid::new("an address with a query or a fragment", text).into());
        }
        Ok(Self::Web(WebAddress {
            origin: format!("{scheme}://{host}").parse()?,
            path: directory_of_document(path).to_owned(),
        }))
    }
}

impl PlaceArg {
    fn directory(path: &str) -> Self {
        let path = Path::new(path);
        if !path.ends_with("set.json") {
            return Self::Directory(path.into());
        }
        // The parent of a plain name is empty, which cannot be opened.
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        Self::Directory(directory.unwrap_or(Path::new(".")).into())
    }
}

/// `x/python/set.json` is the set in `x/python`.
fn directory_of_document(path: &str) -> &str {
    if path == "set.json" { "" } else { path.strip_suffix("/set.json").unwrap_or(path) }
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
            Err(error) => format!("error: {error:#}"),
        };
        let texts = "a/dist a/set.json set.json offset.json s3://bucket/1-linux/python s3://bucket/1-linux/python/set.json s3://bucket/simple/ s3://bucket/offset.json \
            file:///a%20b/c file:///a/simple/ https://host https://host/x/links.html https://host/x/set.json https://host/set.json \
            https://host/simple/?t=1 https://user:secret@host/x ftp://host/x s3://B/x";
        let lines: Vec<String> = texts.split_whitespace().map(shown).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        directory a/dist
        directory a
        directory .
        directory offset.json
        bucket s3://bucket/1-linux/python
        bucket s3://bucket/1-linux/python
        bucket s3://bucket/simple/
        bucket s3://bucket/offset.json
        directory /a b/c
        directory /a/simple/
        web https://host 
        web https://host x/links.html
        web https://host x
        web https://host 
        error: an address with a query or a fragment: "https://host/simple/?t=1"
        error: not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        error: not the address of a server such as `http://127.0.0.1:8333`, without a user or a query
        error: a bucket's name has 3 to 63 characters: "B"
        "#);
    }
}
