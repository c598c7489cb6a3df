//! [`Registry`]: reads the pages of projects of a package index, the metadata of wheels, who published
//! them, and the wheels.

use std::{
    collections::BTreeMap,
    io::{BufReader, Read},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use url::Url;

use super::{
    page::{ProjectPage, RegistryFile},
    publisher::Publisher,
};
use crate::{
    digest::Sha256,
    error::{Context as _, Error, No, Result, Stop, ensure},
    location::{Key, percent_decode},
    set::{named_metadata, package_metadata},
    store::{Ranged, Span, Store, StoreFailureKind, http::HttpStore},
    wheel::{DistName, Metadata},
};

/// The largest page that is read.
const LONGEST_PAGE: u64 = 64 << 20;
const LONGEST_METADATA: u64 = 16 << 20;
/// JSON says more than HTML.
const PAGES: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.1";

/// The address of a package index: `https://pypi.org/simple/`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct RegistryUrl(Url);

impl FromStr for RegistryUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let url = Url::parse(&format!("{}/", text.trim_end_matches('/')));
        let url = url.with_context(|| format!("not an address of an index: {text:?}"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https"),
            "not a web address: {text:?}"
        );
        let has_user = !url.username().is_empty() || url.password().is_some();
        ensure!(!has_user, "an address with a user in it");
        ensure!(
            url.query().is_none() && url.fragment().is_none(),
            "an address with a query or a fragment: {text:?}"
        );
        Ok(Self(url))
    }
}

/// A package index, and the servers that have its files.
#[derive(Debug)]
pub struct Registry {
    url: RegistryUrl,
    pages: HttpStore,
    /// Connections by origin.
    servers: Mutex<BTreeMap<String, Arc<HttpStore>>>,
    stop: Stop,
}

impl Registry {
    /// Sends no request.
    pub fn connect(url: RegistryUrl, stop: &Stop) -> Result<Self> {
        let origin = url.0.origin().ascii_serialization().parse()?;
        Ok(Self {
            pages: HttpStore::connect(origin, stop.clone())?.accepting(PAGES),
            url,
            servers: Mutex::default(),
            stop: stop.clone(),
        })
    }

    /// The page of a project. `None` if the registry does not have it.
    pub(super) fn project(&self, name: &DistName) -> Result<Option<ProjectPage>> {
        let url = self.url.0.join(&format!("{name}/"))?;
        let read = || -> Result<Option<ProjectPage>> {
            let Some(bytes) = read(&self.pages, &url, LONGEST_PAGE)? else {
                return Ok(None);
            };
            ProjectPage::parse(&bytes, name, &url).map(Some)
        };
        read().with_context(|| format!("failed to read `{url}`"))
    }

    /// The metadata of a wheel: from its own address, or from the wheel.
    pub(super) fn metadata(&self, file: &RegistryFile) -> Result<Metadata> {
        let name = file.name.to_string();
        let found = || -> Result<Metadata> {
            if file.has_metadata {
                let mut url = file.url.clone();
                url.set_path(&format!("{}.metadata", file.url.path()));
                let server = self.server(&url)?;
                if let Some(bytes) = read(&server, &url, LONGEST_METADATA)? {
                    let is_right = file.metadata.is_none_or(|it| it == Sha256::of(&bytes));
                    ensure!(
                        is_right,
                        No(format!(
                            "`{url}` does not have the digest that the page has"
                        ))
                    );
                    return Ok(named_metadata(bytes, &name)?.0);
                }
            }
            let (server, key, size) = (self.server(&file.url)?, key(&file.url)?, self.size(file)?);
            let wheel = BufReader::new(Ranged::of(server, key, size));
            Ok(package_metadata(wheel, &name)?.0)
        };
        found().with_context(|| format!("failed to read the metadata of `{name}`"))
    }

    /// The provenance of a file as the registry has it, and the publisher that it names. `None` if the
    /// registry has none.
    pub(super) fn provenance(&self, file: &RegistryFile) -> Result<Option<(Vec<u8>, Publisher)>> {
        let Some(url) = &file.provenance else {
            return Ok(None);
        };
        let found = || -> Result<Option<(Vec<u8>, Publisher)>> {
            let server = self.server(url)?;
            let Some(bytes) = read(&server, url, LONGEST_METADATA)? else {
                return Ok(None);
            };
            let publisher = Publisher::parse(&bytes)?;
            Ok(Some((bytes, publisher)))
        };
        found().with_context(|| format!("failed to read `{url}`"))
    }

    /// The size of a file. Asks for it if the page does not have it.
    pub(super) fn size(&self, file: &RegistryFile) -> Result<u64> {
        match file.size {
            Some(size) => Ok(size),
            None => Ok(self.server(&file.url)?.head(&key(&file.url)?)?.size),
        }
    }

    /// The bytes of a file. A download that breaks off is resumed.
    pub(super) fn open(&self, file: &RegistryFile) -> Result<Box<dyn Read + Send>> {
        let (server, key) = (self.server(&file.url)?, key(&file.url)?);
        Ok(server.get(&key, Span::Whole)?)
    }

    fn server(&self, url: &Url) -> Result<Arc<HttpStore>> {
        let is_safe = url.scheme() == self.url.0.scheme() || url.scheme() == "https";
        ensure!(
            is_safe,
            "the registry uses TLS, and a file of it does not: `{url}`"
        );
        let origin = url.origin().ascii_serialization();
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&origin) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(HttpStore::connect(origin.parse()?, self.stop.clone())?);
        servers.insert(origin, Arc::clone(&server));
        Ok(server)
    }
}

/// The bytes at an address, at most `limit`. `None` if there are none.
fn read(store: &HttpStore, url: &Url, limit: u64) -> Result<Option<Vec<u8>>> {
    let answer = match store.get(&key(url)?, Span::Whole) {
        Err(error) if error.kind() == StoreFailureKind::NotFound => return Ok(None),
        answer => answer?,
    };
    let mut bytes = Vec::new();
    answer.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= limit,
        "it has more than {limit} bytes"
    );
    Ok(Some(bytes))
}

fn key(url: &Url) -> Result<Key> {
    ensure!(url.query().is_none(), "an address with a query: `{url}`");
    let path = url.path().trim_start_matches('/');
    let path = percent_decode(path).with_context(|| format!("badly encoded: `{url}`"))?;
    Ok(path.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn other_addresses_are_refused() {
        let refused = ["ftp://h/", "https://u:p@h/", "https://h/?a=b"];
        let refused = refused.map(|it| render(&it.parse::<RegistryUrl>().unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: not a web address: "ftp://h/"
        error: an address with a user in it
        error: an address with a query or a fragment: "https://h/?a=b"
        "#);
        let url: RegistryUrl = "https://h/simple".parse().unwrap();
        assert_eq!(url.to_string(), "https://h/simple/");
    }
}
