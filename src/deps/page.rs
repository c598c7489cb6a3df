//! [`ProjectPage`]: the files of a project, as a package index lists them in JSON
//! ([PEP 691](https://peps.python.org/pep-0691/), [PEP 700](https://peps.python.org/pep-0700/)) or in
//! HTML ([PEP 503](https://peps.python.org/pep-0503/)). Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::{
    digest::Sha256,
    error::{Context as _, No, Result, bail, ensure},
    location::percent_decode,
    set::{PageLink, html_links},
    wheel::{DistName, PackageFilename},
};

/// The files of a project.
#[derive(Clone, Debug)]
pub(super) struct ProjectPage {
    pub files: Vec<RegistryFile>,
    /// Why the registry does not offer the project, or advises against it
    /// ([PEP 792](https://peps.python.org/pep-0792/)).
    pub status: Option<String>,
}

/// A wheel or an sdist that a registry has.
#[derive(Clone, Debug)]
pub(super) struct RegistryFile {
    pub name: PackageFilename,
    pub sha256: Sha256,
    /// Pages in HTML, and those with version 1.0 of the API, do not have it.
    pub size: Option<u64>,
    pub requires_python: Option<String>,
    /// As `size`.
    pub upload_time: Option<String>,
    /// The reason, if it is yanked.
    pub yanked: Option<String>,
    pub(super) url: Url,
    /// Whether its metadata has an address of its own.
    pub(super) has_metadata: bool,
    /// The digest of its metadata, if the page has it.
    pub(super) metadata: Option<Sha256>,
    /// Where the registry says who published it ([PEP 740](https://peps.python.org/pep-0740/)).
    pub(super) provenance: Option<Url>,
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
    #[serde(default)]
    provenance: Option<String>,
}

impl ProjectPage {
    /// Reads the page of a project. Files without a SHA-256, and files whose names are not those of
    /// packages, are left out.
    pub(super) fn parse(bytes: &[u8], project: &DistName, page: &Url) -> Result<Self> {
        if bytes.trim_ascii_start().starts_with(b"<") {
            return Ok(Self::of_html(
                &String::from_utf8_lossy(bytes),
                project,
                page,
            ));
        }
        let json: JsonPage = serde_json::from_slice(bytes).context("failed to read JSON")?;
        ensure!(json.name == *project, "it is the page of `{}`", json.name);
        let status = json.status.map(|it| it.status).filter(|it| it != "active");
        if status.as_deref() == Some("quarantined") {
            bail!(No(format!(
                "the registry has put `{project}` into quarantine"
            )));
        }
        let files = json.files.into_iter();
        let files = files.filter_map(|file| RegistryFile::of_json(file, page));
        Ok(Self {
            files: files.filter(|it| it.name.name == *project).collect(),
            status,
        })
    }

    /// A page that says less: neither sizes nor times, as a rule.
    fn of_html(text: &str, project: &DistName, page: &Url) -> Self {
        let links = html_links(text).into_iter();
        let files = links.filter_map(|link| RegistryFile::of_link(link, page));
        Self {
            files: files.filter(|it| it.name.name == *project).collect(),
            status: None,
        }
    }
}

impl RegistryFile {
    fn of_json(file: JsonFile, page: &Url) -> Option<Self> {
        let mut url = page.join(&file.url).ok()?;
        url.set_fragment(None);
        let digest = file.core_metadata.get("sha256").and_then(Value::as_str);
        Some(Self {
            name: file.filename.parse().ok()?,
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
            provenance: file.provenance.and_then(|it| page.join(&it).ok()),
            url,
        })
    }

    fn of_link(link: PageLink, page: &Url) -> Option<Self> {
        let mut url = page.join(&link.href).ok()?;
        url.set_fragment(None);
        let (_, name) = url.path().rsplit_once('/')?;
        Some(Self {
            name: percent_decode(name)?.parse().ok()?,
            sha256: link.sha256?,
            size: link.size,
            requires_python: link.requires_python.filter(|it| !it.is_empty()),
            upload_time: link.upload_time,
            yanked: link.yanked,
            metadata: link.metadata,
            has_metadata: link.has_metadata,
            provenance: None,
            url,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    fn page(project: &str, text: &str) -> Result<ProjectPage> {
        let page = Url::parse("https://h/simple/a/")?;
        ProjectPage::parse(text.as_bytes(), &project.parse()?, &page)
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
                r#", "size": 7, "requires-python": ">=3.9", "core-metadata": true, "provenance": "/p""#,
            ),
            file(
                "a-1.1.tar.gz",
                r#", "yanked": "broken", "requires-python": null, "provenance": null"#,
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
        let provenance = first.provenance.as_ref().map(Url::as_str);
        assert_eq!(provenance, Some("https://h/p"));
        let yanked: Vec<_> = page.files.iter().map(|it| it.yanked.as_deref()).collect();
        assert_eq!(yanked, [None, Some("broken"), Some("")]);
    }

    #[test]
    fn a_page_in_html_is_read_with_what_it_says() {
        let sha256 = Sha256::of(b"");
        let text = format!(
            "<!DOCTYPE html><html><body>\n\
             <a href=\"../../f/a-1.0%2Bx-py3-none-any.whl#sha256={sha256}\" data-requires-python=\"&gt;=3.9\">a</a>\n\
             <a href=\"/f/a-1.1+y-py3-none-any.whl#sha256={sha256}\" data-yanked=\"broken\">a</a>\n\
             <a href=\"a-1.2-py3-none-any.whl#md5=0\">a</a>\n\
             <a href=\"b-1.0-py3-none-any.whl#sha256={sha256}\">b</a>\n\
             <a href=\"../\">up</a></body></html>"
        );
        let page = page("a", &text).unwrap();
        let shown = page.files.iter().map(|it| {
            let python = it.requires_python.as_deref().unwrap_or_default();
            let yanked = it.yanked.as_deref().unwrap_or_default();
            format!("{} {} [{python}] [{yanked}]\n", it.name, it.url)
        });
        insta::assert_snapshot!(shown.collect::<String>(), @"
        a-1.0+x-py3-none-any.whl https://h/f/a-1.0%2Bx-py3-none-any.whl [>=3.9] []
        a-1.1+y-py3-none-any.whl https://h/f/a-1.1+y-py3-none-any.whl [] [broken]
        ");
        assert_eq!(page.files[0].size, None);
    }

    #[test]
    fn other_pages_are_refused() {
        let refused = [
            page("a", "text").unwrap_err(),
            page("a", r#"{"name": "b", "files": []}"#).unwrap_err(),
            page(
                "a",
                r#"{"name": "a", "files": [], "project-status": {"status": "quarantined"}}"#,
            )
            .unwrap_err(),
        ];
        insta::assert_snapshot!(refused.map(|it| render(&it)).concat(), @"
        error: failed to read JSON
          caused by: expected ident at line 1 column 2
        error: it is the page of `b`
        error: the registry has put `a` into quarantine
        ");
    }
}
