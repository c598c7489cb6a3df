//! Parses the pages of an index, also of indexes that other tools wrote: HTML
//! ([PEP 503](https://peps.python.org/pep-0503/)), JSON
//! ([PEP 691](https://peps.python.org/pep-0691/)), SHA256SUMS and `set.json`. Pure: from text to
//! links.

use html5gum::{StartTag, Token, Tokenizer};
use serde_json::Value;

use super::package_file::PackageFile;
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, bail, ensure},
};
use rocwheel_store::location::{decode_component, encode_path};

/// Where a file is stored: on another server (`origin`), or in the store of the place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub origin: Option<String>,
    pub path: String,
}

impl Address {
    /// A path in the store of the place.
    pub fn here(path: impl Into<String>) -> Self {
        Self { origin: None, path: path.into() }
    }
}

/// A link of a page, and what its attributes say about the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLink {
    pub href: String,
    pub claim: FileClaim,
}

/// What a page or `set.json` says about a file. The file may be another one, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileClaim {
    pub sha256: Option<Sha256>,
    pub size: Option<u64>,
    /// Whether the wheel has a sidecar, with or without a digest
    /// ([PEP 658](https://peps.python.org/pep-0658/),
    /// [PEP 714](https://peps.python.org/pep-0714/)).
    pub has_metadata: bool,
    pub metadata: Option<Sha256>,
    /// Only read from pages in HTML.
    pub requires_python: Option<String>,
    /// Why it is yanked ([PEP 592](https://peps.python.org/pep-0592/)).
    pub yanked: Option<String>,
    /// Only read from pages in HTML.
    pub upload_time: Option<String>,
}

impl PageLink {
    /// The path or address, without query and fragment.
    pub fn path(&self) -> &str {
        self.href.split(['#', '?']).next().unwrap_or_default()
    }
}

/// The links of a page of files, in HTML or JSON.
pub fn links(page: &str) -> Result<Vec<PageLink>> {
    if is_json(page) { json_links(page) } else { Ok(html_links(page)) }
}

/// Whether a page is in JSON. A server that has both forms chooses by what the client accepts, or has only JSON.
pub fn is_json(page: &str) -> bool {
    page.trim_start().starts_with('{')
}

/// The links of an HTML page. A tokenizer of the HTML standard finds them, so that `<a>` inside a
/// comment is not a link, and character references are decoded.
pub(crate) fn html_links(page: &str) -> Vec<PageLink> {
    let link = |tag: StartTag<()>| -> Option<PageLink> {
        let value = |name: &str| {
            let value = tag.attributes.get(name.as_bytes())?;
            std::str::from_utf8(&value.value).ok()
        };
        let digest = |text: &str| text.strip_prefix("sha256=")?.parse().ok();
        let href = value("href")?;
        let fragment = href.split_once('#').map_or("", |(_, fragment)| fragment);
        let metadata = value("data-core-metadata")
            .or_else(|| value("data-dist-info-metadata"))
            .filter(|attribute| *attribute != "false");
        let claim = FileClaim {
            sha256: fragment.split('&').find_map(digest),
            size: value("data-size").and_then(|size| size.parse().ok()),
            has_metadata: metadata.is_some(),
            metadata: metadata.and_then(digest),
            requires_python: value("data-requires-python").map(str::to_owned),
            yanked: value("data-yanked").map(str::to_owned),
            upload_time: value("data-upload-time").map(str::to_owned),
        };
        Some(PageLink { href: href.to_owned(), claim })
    };
    let tags = Tokenizer::new(page).filter_map(|token| match token {
        Ok(Token::StartTag(tag)) if *tag.name == *b"a" => Some(tag),
        _ => None,
    });
    tags.filter_map(link).collect()
}

/// Whether a page in HTML is the list of a directory, as the indexer of TheRock's buckets writes
/// one: it links to files beside it and to `index.html` of the directories above and below, none of
/// them with a digest.
pub fn is_directory_list(page: &str) -> bool {
    let is_beside = |link: &PageLink| {
        let (directory, name) = link.href.rsplit_once('/').unwrap_or(("", &link.href));
        let is_page = name == "index.html" && !directory.contains('/');
        !name.contains(['#', '?']) && (directory.is_empty() || is_page)
    };
    let links = html_links(page);
    !links.is_empty() && links.iter().all(is_beside)
}

/// How the key of a page that ends in `/`, which installers request, compares with the file of the page. S3 has
/// both as objects of their own, so that one of them can be damaged alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKey {
    Same,
    Missing,
    Empty,
    Differs,
}

impl DirectoryKey {
    /// `None` if the comparison says nothing about the set.
    pub fn compare(
        under_key: Option<&str>,
        under_file_name: Option<&str>,
        is_web: bool,
    ) -> Option<Self> {
        match (under_key, under_file_name?) {
            // Some web servers serve files only.
            (None, _) if is_web => None,
            (None, _) => Some(Self::Missing),
            (Some(under_key), under_file_name) if under_key == under_file_name => Some(Self::Same),
            (Some(""), _) => Some(Self::Empty),
            (Some(_), _) => Some(Self::Differs),
        }
    }

    pub fn has_contents(self) -> bool {
        matches!(self, Self::Same | Self::Differs)
    }

    /// What is wrong with the key.
    pub fn defect(self) -> Option<&'static str> {
        match self {
            Self::Same => None,
            Self::Missing => Some("it is missing, unlike the file of the page"),
            Self::Empty => Some("it is empty, unlike the file of the page"),
            Self::Differs => Some("it differs from the file of the page"),
        }
    }
}

/// The files of a project page in JSON (PEP 691).
fn json_links(page: &str) -> Result<Vec<PageLink>> {
    let link = |file: Value| -> Option<PageLink> {
        let digest = |value: &Value| value["sha256"].as_str()?.parse().ok();
        let metadata = file.get("core-metadata").filter(|it| **it != Value::Bool(false));
        let claim = FileClaim {
            sha256: digest(&file["hashes"]),
            size: file["size"].as_u64(),
            has_metadata: metadata.is_some(),
            metadata: metadata.and_then(digest),
            yanked: match &file["yanked"] {
                Value::String(why) => Some(why.clone()),
                Value::Bool(true) => Some(String::new()),
                _ => None,
            },
            ..FileClaim::default()
        };
        Some(PageLink { href: file["url"].as_str()?.to_owned(), claim })
    };
    let files = json_list(page, "files")?.into_iter();
    Ok(files.filter_map(link).collect())
}

/// The project to whose page a root page in HTML links: the name of the directory below the root page.
pub fn linked_project(root: &str, link: &PageLink) -> Result<Option<String>> {
    let Address { origin, path } = resolve(root, &link.href)?;
    let below = path.trim_end_matches("index.html").trim_end_matches('/').strip_prefix(root);
    Ok(below.filter(|_| origin.is_none()).map(str::to_owned))
}

/// The projects of a root page in JSON (PEP 691).
pub fn json_projects(page: &str) -> Result<Vec<String>> {
    let projects = json_list(page, "projects")?.into_iter();
    let names = projects.filter_map(|project| Some(project["name"].as_str()?.to_owned()));
    Ok(names.collect())
}

fn json_list(page: &str, name: &str) -> Result<Vec<Value>> {
    let mut page: Value = serde_json::from_str(page).context("failed to read JSON")?;
    match page.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => Ok(list),
        _ => bail!("no list of `{name}`"),
    }
}

/// The lines of SHA256SUMS.
pub fn checksums(page: &str) -> Result<Vec<PageLink>> {
    let lines = page.lines().filter(|line| !line.is_empty());
    let named = lines.map(|line| {
        let (digest, path) = line.split_once(' ').context("a line without a space")?;
        let claim = FileClaim { sha256: Some(digest.parse()?), ..FileClaim::default() };
        Ok(PageLink { href: encode_path(path.trim_start_matches([' ', '*'])), claim })
    });
    named.collect()
}

impl From<&PackageFile> for FileClaim {
    /// What `set.json` says.
    fn from(file: &PackageFile) -> Self {
        Self { sha256: Some(file.sha256), size: Some(file.size), ..Self::default() }
    }
}

/// Resolves a link of a page: `../dist/a%2Bb.whl#sha256=…` of `x/simple/` is `x/dist/a+b.whl`.
pub fn resolve(page: &str, href: &str) -> Result<Address> {
    let path = href.split(['#', '?']).next().unwrap_or_default();
    let (origin, base, path) = match path.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            ensure!(!host.contains('@'), "a link with a user name: {scheme}://…@…/{path}");
            (Some(format!("{scheme}://{host}")), "", path)
        }
        Some((scheme, _)) => bail!("a link by `{scheme}`: {href:?}"),
        None if path.starts_with('/') => (None, "", path.trim_start_matches('/')),
        None => (None, page.rsplit_once('/').unwrap_or_default().0, path),
    };
    let path = walk(base, path).with_context(|| format!("failed to resolve {href:?}"))?;
    Ok(Address { origin, path })
}

fn walk(base: &str, path: &str) -> Result<String> {
    let mut parts: Vec<String> = base.split('/').map(str::to_owned).collect();
    parts.retain(|part| !part.is_empty());
    for part in path.strip_suffix('/').unwrap_or(path).split('/') {
        match part {
            ".." if parts.pop().is_none() => bail!("it leads out of the place"),
            ".." | "." | "" => {}
            name => parts.push(decode_component(name).context("it is badly encoded")?),
        }
    }
    let end = if path.ends_with('/') { "/" } else { "" };
    Ok(parts.join("/") + end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    #[test]
    fn links_are_read_as_a_browser_would() {
        let digest = Sha256::of(b"");
        let page = format!(
            "<abbr href='no'><a\n class=x HREF=\"../a%2Bb.whl#sha256={digest}\" data-core-metadata='sha256={digest}' data-size=12>a</a>\
             <A href=no><a data-dist-info-metadata=true href='b.whl?x=1&amp;y=2'/><a name=none><!-- <a href=gone.whl>gone</a> -->\
             <a href='&#99;&lowbar;d.whl'>"
        );
        let links = html_links(&page);
        assert_eq!(links.len(), 4, "{links:?}");
        assert_eq!(links[0].claim.sha256, Some(digest));
        assert_eq!(links[0].claim.metadata, Some(digest));
        assert_eq!(links[0].claim.size, Some(12));
        assert_eq!(links[1].href, "no");
        assert_eq!(links[2].href, "b.whl?x=1&y=2");
        assert!(links[2].claim.has_metadata && links[2].claim.metadata.is_none());
        assert_eq!(links[3].href, "c_d.whl");
    }

    #[test]
    fn the_list_of_a_directory_is_no_page_of_ours() {
        let is_list = |hrefs: &[&str]| {
            let links = hrefs.iter().map(|href| format!("<a href=\"{href}\">x</a>"));
            is_directory_list(&links.collect::<String>())
        };
        assert!(is_list(&["../index.html", "a%2Bb.whl", "simple/index.html"]));
        assert!(is_list(&["../index.html"]));
        for page in [&["a.whl#sha256=0"][..], &["rocm/"], &["../../dist/a.whl"], &[]] {
            assert!(!is_list(page), "{page:?}");
        }
    }

    #[test]
    fn links_lead_within_the_place_or_to_another_server() {
        let within = |page, href: &str| {
            let Address { origin, path } = resolve(page, href).unwrap();
            origin.map_or(path.clone(), |origin| format!("{origin} {path}"))
        };
        assert_eq!(within("x/simple/a/", "../../dist/a%2Bb.whl#c"), "x/dist/a+b.whl");
        assert_eq!(within("x/simple/index.html", "a/"), "x/simple/a/");
        assert_eq!(within("x/simple/", "/y/a?b"), "y/a");
        assert_eq!(within("x/", "https://h:1/y/./a"), "https://h:1 y/a");
        let refused = ["../../a", "a%2Fb", "%zz", "file:///etc/passwd"];
        let refused = refused.map(|href| render(&resolve("x/", href).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: failed to resolve "../../a"
          caused by: it leads out of the place
        error: failed to resolve "a%2Fb"
          caused by: it is badly encoded
        error: failed to resolve "%zz"
          caused by: it is badly encoded
        error: a link by `file`: "file:///etc/passwd"
        "#);
    }

    #[test]
    fn other_pages_than_ours_are_refused_in_words() {
        let digest = Sha256::of(b"");
        assert_eq!(checksums(&format!("{digest}  a b\n{digest} *c\n")).unwrap().len(), 2);
        let refused = [
            checksums("x").unwrap_err(),
            checksums("x y").unwrap_err(),
            json_links("<html>").unwrap_err(),
            json_links("{}").unwrap_err(),
            json_projects("[]").unwrap_err(),
        ];
        insta::assert_snapshot!(refused.map(|error| render(&error)).concat(), @r#"
        error: a line without a space
        error: not a SHA-256 of 64 lower-case hexadecimal digits: "x"
        error: failed to read JSON
          caused by: expected value at line 1 column 1
        error: no list of `files`
        error: no list of `projects`
        "#);
    }
}
