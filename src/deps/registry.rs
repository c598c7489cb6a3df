//! [`Registry`]: reads the pages of projects of a package index in JSON
//! ([PEP 691](https://peps.python.org/pep-0691/), [PEP 700](https://peps.python.org/pep-0700/)), the
//! metadata of wheels, and the wheels.

use std::{
    collections::BTreeMap,
    io::{BufReader, Read},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::{
    digest::Sha256,
    error::{Context as _, Error, Hint as _, No, Result, Stop, anyhow, bail, ensure},
    location::{Key, percent_decode},
    set::{named_metadata, package_metadata},
    store::{Ranged, Span, Store, StoreFailureKind, http::HttpStore},
    wheel::{DistName, Metadata, PackageFilename},
};

/// The largest page that is read.
const LONGEST_PAGE: u64 = 64 << 20;
const LONGEST_METADATA: u64 = 16 << 20;
const JSON: &str = "application/vnd.pypi.simple.v1+json";

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

/// The files of a project.
#[derive(Clone, Debug)]
pub struct ProjectPage {
    pub files: Vec<RegistryFile>,
    /// Why the registry does not offer the project, or advises against it
    /// ([PEP 792](https://peps.python.org/pep-0792/)).
    pub status: Option<String>,
}

/// A wheel or an sdist that a registry has.
#[derive(Clone, Debug)]
pub struct RegistryFile {
    pub name: PackageFilename,
    pub sha256: Sha256,
    /// Registries with version 1.0 of the API do not tell it.
    pub size: Option<u64>,
    pub requires_python: Option<String>,
    pub upload_time: Option<String>,
    /// The reason, if it is yanked.
    pub yanked: Option<String>,
    url: Url,
    /// Whether its metadata has an address of its own.
    has_metadata: bool,
    /// The digest of its metadata, if the page has it.
    metadata: Option<Sha256>,
}

#[derive(Deserialize)]
struct JsonPage {
    name: DistName,
    #[serde(default, rename = "project-status")]
    status: Option<JsonStatus>,
    files: Vec<JsonFile>,
}

#[derive(Deserialize)]
struct JsonStatus {
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile {
    filename: String,
    url: String,
    hashes: BTreeMap<String, String>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    requires_python: Option<String>,
    #[serde(default)]
    upload_time: Option<String>,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    core_metadata: Value,
}

impl Registry {
    /// Sends no request.
    pub fn connect(url: RegistryUrl, stop: &Stop) -> Result<Self> {
        let origin = url.0.origin().ascii_serialization().parse()?;
        Ok(Self {
            pages: HttpStore::connect(origin, stop.clone())?.accepting(JSON),
            url,
            servers: Mutex::default(),
            stop: stop.clone(),
        })
    }

    /// The page of a project. `None` if the registry does not have it.
    pub fn project(&self, name: &DistName) -> Result<Option<ProjectPage>> {
        let url = self.url.0.join(&format!("{name}/"))?;
        let read = || -> Result<Option<ProjectPage>> {
            let Some(bytes) = read(&self.pages, &url, LONGEST_PAGE)? else {
                return Ok(None);
            };
            let is_html = bytes.trim_ascii_start().starts_with(b"<");
            if is_html {
                return Err(anyhow!("the registry answers in HTML")).hint(
                    "pass the address of an index with pages in JSON (PEP 691): `--registry`",
                );
            }
            parse(&bytes, name, &url).map(Some)
        };
        read().with_context(|| format!("failed to read `{url}`"))
    }

    /// The metadata of a wheel: from its own address, or from the wheel.
    pub fn metadata(&self, file: &RegistryFile) -> Result<Metadata> {
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

    /// The size of a file. Asks for it if the page does not have it.
    pub fn size(&self, file: &RegistryFile) -> Result<u64> {
        match file.size {
            Some(size) => Ok(size),
            None => Ok(self.server(&file.url)?.head(&key(&file.url)?)?.size),
        }
    }

    /// The bytes of a file. A download that breaks off is resumed.
    pub fn open(&self, file: &RegistryFile) -> Result<Box<dyn Read + Send>> {
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

/// Reads the page of a project. Files without a SHA-256, and files whose names are not those of
/// packages, are left out.
fn parse(bytes: &[u8], project: &DistName, page: &Url) -> Result<ProjectPage> {
    let json: JsonPage = serde_json::from_slice(bytes).context("failed to read JSON")?;
    ensure!(json.name == *project, "it is the page of `{}`", json.name);
    let status = json.status.map(|it| it.status).filter(|it| it != "active");
    if status.as_deref() == Some("quarantined") {
        bail!(No(format!(
            "the registry has put `{project}` into quarantine"
        )));
    }
    let file = |file: JsonFile| -> Option<RegistryFile> {
        let mut url = page.join(&file.url).ok()?;
        url.set_fragment(None);
        let name: PackageFilename = file.filename.parse().ok()?;
        let digest = file.core_metadata.get("sha256").and_then(Value::as_str);
        Some(RegistryFile {
            sha256: file.hashes.get("sha256")?.parse().ok()?,
            size: file.size,
            requires_python: file.requires_python.filter(|it| !it.is_empty()),
            upload_time: file.upload_time,
            yanked: match file.yanked {
                Value::String(why) => Some(why),
                Value::Bool(true) => Some(String::new()),
                _ => None,
            },
            metadata: digest.and_then(|it| it.parse().ok()),
            has_metadata: !matches!(file.core_metadata, Value::Null | Value::Bool(false)),
            url,
            name,
        })
        .filter(|it| it.name.name == *project)
    };
    Ok(ProjectPage {
        files: json.files.into_iter().filter_map(file).collect(),
        status,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::error::render;

    pub(in crate::deps) fn page(project: &str, json: &str) -> Result<ProjectPage> {
        let page = Url::parse("https://h/simple/a/")?;
        parse(json.as_bytes(), &project.parse()?, &page)
    }

    #[test]
    fn a_page_is_read_with_everything_that_decides() {
        let sha256 = Sha256::of(b"");
        let file = |name: &str, more: &str| {
            format!(
                r#"{{"filename": "{name}", "url": "../../f/{name}#x", "hashes": {{"sha256": "{sha256}"}}{more}}}"#
            )
        };
        let files = [
            file(
                "a-1.0-py3-none-any.whl",
                r#", "size": 7, "requires-python": ">=3.9", "core-metadata": true"#,
            ),
            file(
                "a-1.1.tar.gz",
                r#", "yanked": "broken", "requires-python": null"#,
            ),
            file("a-1.2.tar.gz", r#", "yanked": true"#),
            file("a-1.0.zip", ""),
            file("b-1.0.tar.gz", ""),
            r#"{"filename": "a-2.0.tar.gz", "url": "a", "hashes": {"md5": "0"}}"#.to_owned(),
        ];
        let json = format!(
            r#"{{"name": "A", "files": [{}], "meta": {{}}}}"#,
            files.join(",")
        );
        let page = page("a", &json).unwrap();
        assert_eq!(page.files.len(), 3, "{page:?}");
        let first = &page.files[0];
        assert_eq!(first.url.as_str(), "https://h/f/a-1.0-py3-none-any.whl");
        assert_eq!((first.size, first.has_metadata), (Some(7), true));
        assert_eq!(first.metadata, None);
        assert_eq!(first.requires_python.as_deref(), Some(">=3.9"));
        let yanked: Vec<_> = page.files.iter().map(|it| it.yanked.as_deref()).collect();
        assert_eq!(yanked, [None, Some("broken"), Some("")]);
    }

    #[test]
    fn other_pages_are_refused() {
        let refused = [
            page("a", "<html>").unwrap_err(),
            page("a", r#"{"name": "b", "files": []}"#).unwrap_err(),
            page(
                "a",
                r#"{"name": "a", "files": [], "project-status": {"status": "quarantined"}}"#,
            )
            .unwrap_err(),
            "ftp://h/".parse::<RegistryUrl>().unwrap_err(),
            "https://u:p@h/".parse::<RegistryUrl>().unwrap_err(),
            "https://h/?a=b".parse::<RegistryUrl>().unwrap_err(),
        ];
        insta::assert_snapshot!(refused.map(|it| render(&it)).concat(), @r#"
            error: failed to read JSON
              caused by: expected value at line 1 column 1
            error: it is the page of `b`
            error: the registry has put `a` into quarantine
            error: not a web address: "ftp://h/"
            error: an address with a user in it
            error: an address with a query or a fragment: "https://h/?a=b"
            "#);
        let url: RegistryUrl = "https://h/simple".parse().unwrap();
        assert_eq!(url.to_string(), "https://h/simple/");
    }
}
