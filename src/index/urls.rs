//! [`Urls`]: the public URLs of a set, and [`Addresses`], as commands print them.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::Serialize;

use super::layout::Layout;
use crate::run::ArtifactGroup;
use rocwheel_base::error::{Invalid, Result};
use rocwheel_store::location::encode_path;

/// The URL of the directory of a set, which has `simple/` and the files, in one of the layouts.
///
/// The scheme is `http`, `https` or `file`. It ends in `/`, has no user, query or fragment, and no
/// character with a meaning in shells, Markdown or HTML; those can be percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{set}{family}")]
pub struct Urls {
    set: Box<str>,
    layout: Layout,
    /// The directory of the family: empty, or ending in `/`.
    family: Box<str>,
}

impl Urls {
    /// The URLs of a set whose simple index is `https://host/python/simple/`.
    pub fn of_index(url: &str) -> Result<Self, Invalid> {
        let base = url.strip_suffix('/').unwrap_or(url).strip_suffix("simple");
        match base.filter(|base| base.ends_with('/')) {
            Some(base) => base.parse(),
            None => Err(Invalid::new("an index whose address does not end in `/simple/`", url)),
        }
    }

    /// The URLs of the same set if its files are in that layout. Without a call, it is
    /// [`Layout::Dist`].
    #[must_use]
    pub fn in_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// For `--index-url`.
    pub fn index(&self) -> String {
        format!("{self}simple/")
    }

    /// For `--find-links`: the page beside the files is `index.html`; the page of a family is `gfx94X-dcgpu.html`.
    /// The bucket's own indexer replaces every `index.html` by a list of the files beside it, and in the directory
    /// of a family this list lacks the packages for all families.
    pub fn find_links(&self) -> String {
        let page = self.family.strip_suffix('/').unwrap_or("index");
        format!("{}/{page}.html", self.files())
    }

    /// The directory of the files, without a slash at its end. Workflows of TheRock append
    /// `/{family}/index.html` to it.
    pub fn files(&self) -> String {
        let directory = format!("{}{}", self.set, self.layout.files());
        directory.trim_end_matches('/').to_owned()
    }

    /// The URLs of the index of a family.
    #[must_use]
    pub fn of_family(&self, family: &ArtifactGroup) -> Self {
        // The name of a group needs no percent-encoding.
        let family = format!("{family}/").into();
        Self { family, ..self.clone() }
    }

    /// Whether the set is of one family, among the sets of a run:
    /// `https://host/1-linux/python/gfx94X-dcgpu/`.
    pub fn is_of_family(&self) -> bool {
        let mut segments = self.set.trim_end_matches('/').rsplit('/');
        let is_family = |name: &str| name.parse::<ArtifactGroup>().is_ok();
        segments.next().is_some_and(is_family) && segments.next() == Some("python")
    }

    /// The URL of a file or page, by its path relative to the set.
    pub fn path(&self, path: &str) -> String {
        format!("{}{}", self.set, encode_path(path))
    }
}

impl FromStr for Urls {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-._~:/%,=".contains(c);
        let rest =
            ["https://", "http://", "file:///"].iter().find_map(|scheme| text.strip_prefix(scheme));
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
                return Ok(Self {
                    set: format!("{text}{slash}").into(),
                    layout: Layout::default(),
                    family: Box::default(),
                });
            }
        };
        Err(Invalid::new(reason, text))
    }
}

/// The URLs of the index of the set, and of each family that has its own index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Addresses {
    index_url: String,
    find_links_url: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    families: BTreeMap<String, Addresses>,
}

impl Addresses {
    pub fn new<'a>(urls: &Urls, families: impl IntoIterator<Item = &'a ArtifactGroup>) -> Self {
        let of = |urls: &Urls, families| Self {
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            families,
        };
        let by_family = families
            .into_iter()
            .map(|family| (family.to_string(), of(&urls.of_family(family), BTreeMap::new())));
        of(urls, by_family.collect())
    }
}

/// Shows the index of the set, then one line for each family.
impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.index_url)?;
        for own in self.families.values() {
            write!(f, "\n{}", own.index_url)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_an_address_for_each_way_to_install_it() {
        let urls: Urls = "https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu".parse().unwrap();
        let shown = [
            urls.index(),
            urls.find_links(),
            urls.path("dist/a+b c.whl"),
            urls.of_family(&"gfx110X-all".parse().unwrap()).index(),
            urls.of_family(&"gfx110X-all".parse().unwrap()).find_links(),
            urls.files(),
            urls.clone().in_layout(Layout::Flat).find_links(),
            urls.clone().in_layout(Layout::Flat).files(),
        ];
        insta::assert_snapshot!(shown.join("\n"), @"
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/dist/index.html
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/dist/a%2Bb%20c.whl
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/gfx110X-all/simple/
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/dist/gfx110X-all.html
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/dist
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/index.html
        https://b.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu
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
        let messages: Vec<String> =
            refused.iter().map(|text| text.parse::<Urls>().unwrap_err().to_string()).collect();
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

    #[test]
    fn families_have_addresses_of_their_own() {
        let urls: Urls = "https://host.example/python".parse().unwrap();
        let family: ArtifactGroup = "gfx94X-dcgpu".parse().unwrap();
        let some = Addresses::new(&urls, &[family]);
        insta::assert_snapshot!(some, @"
        https://host.example/python/simple/
        https://host.example/python/gfx94X-dcgpu/simple/
        ");
        insta::assert_snapshot!(serde_json::to_string_pretty(&some).unwrap(), @r#"
        {
          "index-url": "https://host.example/python/simple/",
          "find-links-url": "https://host.example/python/dist/index.html",
          "families": {
            "gfx94X-dcgpu": {
              "index-url": "https://host.example/python/gfx94X-dcgpu/simple/",
              "find-links-url": "https://host.example/python/dist/gfx94X-dcgpu.html"
            }
          }
        }
        "#);
        let none = serde_json::to_value(Addresses::new(&urls, &[])).unwrap();
        assert_eq!(none.as_object().unwrap().len(), 2, "{none}");
    }
}
