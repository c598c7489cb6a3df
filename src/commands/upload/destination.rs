//! Where a set is published.

use std::path::{Component, Path, Prefix};

use super::plan::TOP;
use crate::{
    error::{Context as _, Result, anyhow},
    index::Urls,
    location::{Key, percent_encode},
    store::Store,
};

/// A directory of a store, and how the world sees it.
#[derive(Debug)]
pub struct Destination {
    pub store: Box<dyn Store>,
    pub directory: Key,
    pub urls: Urls,
}

impl Destination {
    /// The key of a path below the directory; the path may end in `/`.
    pub fn key(&self, path: &str) -> Result<Key> {
        let below = path.strip_prefix(TOP).unwrap_or(path);
        let key = format!("{}{below}", self.directory.directory());
        key.parse().with_context(|| format!("place `{path}`"))
    }

    /// For people: the store and the directory in it.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.store, self.directory.to_path())
    }
}

/// The address of an absolute path on this machine.
pub fn file_url(path: &Path) -> Result<String> {
    let mut url = String::from("file://");
    for component in path.components() {
        let text = |text: &std::ffi::OsStr| {
            let text = text.to_str().map(str::to_owned);
            text.ok_or_else(|| anyhow!("not Unicode, and so no address: `{}`", path.display()))
        };
        match component {
            Component::Prefix(prefix) => match prefix.kind() {
                Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
                    url.push('/');
                    url.push(char::from(letter));
                    url.push(':');
                }
                _ => {
                    return Err(anyhow!(
                        "a network path has no address: `{}`",
                        path.display()
                    ));
                }
            },
            Component::RootDir => {}
            Component::Normal(name) => {
                url.push('/');
                url.push_str(&percent_encode(&text(name)?));
            }
            Component::CurDir | Component::ParentDir => {
                return Err(anyhow!("not an absolute path: `{}`", path.display()));
            }
        }
    }
    Ok(url)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_an_address_whatever_is_in_it() {
        let url = file_url(Path::new("/tmp/a b+c%41/é'\"<x>#?/python")).unwrap();
        insta::assert_snapshot!(url, @"file:///tmp/a%20b%2Bc%2541/%C3%A9%27%22%3Cx%3E%23%3F/python");
        assert!(url.parse::<Urls>().is_ok());
        assert_eq!(file_url(Path::new("/")).unwrap(), "file://");
    }
}
