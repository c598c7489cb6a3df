//! The pages of an index: the simple index in HTML and JSON, the page for `--find-links` and
//! `SHA256SUMS`.
//!
//! Every page is a pure function of the set and its layout, without clock or random order, so the
//! same set gives the same bytes.
//!
//! `html` renders those in HTML.

mod html;

use std::fmt::Write as _;

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) use self::html::{directory_page, directory_root};
use self::html::{find_links_page, project_page, root_page};
use super::{
    parse,
    set_json::{IndexView, SetFile, SetJson, TOP},
};
use crate::{digest::Sha256, location::encode_path};

/// The directory of the JSON index, below `simple/` so that one prefix has both indexes. It cannot
/// be the name of a project: normalized names begin with a letter or a digit.
const JSON: &str = "simple/_json";

/// The order of writing a set. Readers may see it at any moment, so an object is written only after
/// everything that it links to, and a package before its sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    File,
    Sidecar,
    /// Links to files.
    Project,
    /// Links to pages of projects, or to all files.
    Root,
    /// `set.json`: a set that has it is complete.
    Whole,
}

/// One page, not rendered yet: its path needs no text, and pages are rendered in parallel.
pub struct IndexPage<'a> {
    /// The path relative to the directory of the set: `simple/rocm/index.html`.
    pub path: String,
    pub phase: Phase,
    render: Box<dyn Fn() -> String + Sync + 'a>,
}

impl<'a> IndexPage<'a> {
    fn new(path: impl Into<String>, phase: Phase, render: impl Fn() -> String + Sync + 'a) -> Self {
        Self { path: path.into(), phase, render: Box::new(render) }
    }

    pub fn body(&self) -> String {
        (self.render)()
    }

    /// The paths of the page: its file name, and, if it is the page of a directory, the key that
    /// installers request.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        [Some(self.path.as_str()), directory_of(&self.path)].into_iter().flatten()
    }
}

/// The key that installers request: `simple/rocm/` for `simple/rocm/index.html`.
///
/// S3 has exact keys only and does not serve `index.html` for a directory, so the page must be
/// stored under this key too.
pub(super) fn directory_of(path: &str) -> Option<&str> {
    let names = ["index.html", "index.json"];
    let directory = names.iter().find_map(|name| path.strip_suffix(name))?;
    Some(if directory.is_empty() { TOP } else { directory })
}

/// The `Content-Type` of a path of a set. pip accepts a JSON index only with the type of PEP 691.
pub(super) fn content_type(path: &str) -> &'static str {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.rsplit('.').next().unwrap_or_default() {
        "" | "json" if format!("{directory}/").contains("simple/_json/") => {
            "application/vnd.pypi.simple.v1+json"
        }
        "" | "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "whl" => "application/zip",
        "gz" => "application/gzip",
        _ => "text/plain; charset=utf-8",
    }
}

/// Whether a file at the path of a page is a page of an index as this program writes them: by what is in it,
/// since other programs use the same names.
pub(super) fn is_index_page(path: &str, text: &str) -> bool {
    if path == "SHA256SUMS" {
        return parse::checksums(text).is_ok_and(|lines| !lines.is_empty());
    }
    if path.rsplit('.').next() == Some("json") {
        let page: Option<Value> = serde_json::from_str(text).ok();
        return page.is_some_and(|page| page["meta"]["api-version"].is_string());
    }
    text.contains(html::STYLE)
}

/// All pages of a set in the order of writing. `views` are those of the set.
pub fn pages<'a>(set: &'a SetJson, views: &'a [IndexView<'a>]) -> Vec<IndexPage<'a>> {
    let (mut all, layouts) = (Vec::new(), set.layouts());
    for view in views {
        for (project, files) in view.projects() {
            let mut add =
                |path: String, render: fn(&IndexView, &SetJson, &str, &[&SetFile]) -> String| {
                    let render = move || render(view, set, project, files);
                    all.push(IndexPage::new(view.top() + &path, Phase::Project, render));
                };
            add(format!("simple/{project}/index.html"), project_page);
            add(format!("{JSON}/{project}/index.json"), |view, _, project, files| {
                json_project(view, project, files)
            });
        }
    }
    for view in views {
        let mut add = |path: &str, render: fn(&IndexView, &SetJson) -> String| {
            let render = move || render(view, set);
            all.push(IndexPage::new(view.top() + path, Phase::Root, render));
        };
        add("simple/index.html", root_page);
        add("simple/_json/index.json", |view, _| json_root(view));
        // One beside the files of each layout, because the bucket's own indexer replaces each
        // `index.html` of a run by a list of the files beside it. Where ours has the packages, so
        // has that list, and installers can use either.
        for layout in layouts.iter().copied() {
            let mut add = |directory: String, name: &str| {
                let path = format!("{directory}{name}.html");
                let render = move || find_links_page(view, set, &directory);
                all.push(IndexPage::new(path, Phase::Root, render));
            };
            add(layout.files().to_owned() + &view.top(), "index");
            // The list of a family's directory has only the family's own packages. So this page of
            // the family has another name, and the one above is for callers who expect it there.
            if let Some(family) = &view.family {
                add(layout.files().to_owned(), family.as_str());
            }
        }
    }
    all.push(IndexPage::new("SHA256SUMS", Phase::Root, || checksums(set)));
    all.push(IndexPage::new("set.json", Phase::Whole, || set.pretty()));
    all
}

/// All paths of a published set: files, sidecars, then pages, each under its file name and under
/// the key of its directory.
pub fn paths(set: &SetJson) -> Vec<String> {
    let mut all: Vec<String> = set.files.iter().map(|file| file.path.clone()).collect();
    let with_metadata = set.files.iter().filter(|file| file.metadata.is_some());
    all.extend(with_metadata.map(SetFile::sidecar_path));
    for page in pages(set, &set.views()) {
        all.extend(page.paths().map(str::to_owned));
    }
    all
}

/// Lists every file and sidecar by its path relative to the page, so that `sha256sum --check` works
/// in that directory.
fn checksums(set: &SetJson) -> String {
    let mut body = String::new();
    for file in &set.files {
        let _ = writeln!(body, "{}  {}", file.sha256, file.path);
        if let Some(sidecar) = &file.metadata {
            let _ = writeln!(body, "{sidecar}  {}", file.sidecar_path());
        }
    }
    body
}

/// The page of a project in JSON ([PEP 691](https://peps.python.org/pep-0691/)), with the sizes,
/// versions and upload times of [PEP 700](https://peps.python.org/pep-0700/).
#[derive(Serialize)]
struct JsonProject<'a> {
    meta: Value,
    name: &'a str,
    versions: Vec<String>,
    files: Vec<JsonFile<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile<'a> {
    filename: &'a str,
    url: String,
    hashes: JsonHashes,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload_time: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_python: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_metadata: Option<JsonHashes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dist_info_metadata: Option<JsonHashes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<Value>,
}

#[derive(Clone, Copy, Serialize)]
struct JsonHashes {
    sha256: Sha256,
}

fn json_project(view: &IndexView, project: &str, files: &[&SetFile]) -> String {
    let directory = format!("{}{JSON}/{project}/", view.top());
    // `1.0` and `1.0.0` are equal, so their files are mixed. List each text once.
    let versions = files.iter().map(|file| file.version.to_string()).unique();
    pretty(&JsonProject {
        meta: json!({ "api-version": REPOSITORY_VERSION }),
        name: project,
        versions: versions.collect(),
        files: files.iter().map(|file| json_file(file, &directory)).collect(),
    })
}

fn json_root(view: &IndexView) -> String {
    let projects = view.projects().map(|(name, _)| json!({ "name": name }));
    pretty(&json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "projects": projects.collect::<Vec<Value>>(),
    }))
}

fn json_file<'a>(file: &'a SetFile, directory: &str) -> JsonFile<'a> {
    let hashes = |sha256| JsonHashes { sha256 };
    let metadata = file.metadata.map(hashes);
    JsonFile {
        filename: file.name(),
        url: link(directory, &file.path),
        hashes: hashes(file.sha256),
        size: file.size,
        upload_time: file.upload_time.as_deref(),
        requires_python: file.requires_python.as_deref(),
        core_metadata: metadata,
        dist_info_metadata: metadata,
        // An empty string would mean "not yanked" to installers written in Python, where it is
        // false.
        yanked: file.yanked.as_ref().map(|reason| match reason.as_str() {
            "" => json!(true),
            reason => json!(reason),
        }),
    }
}

fn pretty(page: &impl Serialize) -> String {
    serde_json::to_string_pretty(page).unwrap_or_default() + "\n"
}

/// The version of the repository API ([PEP 629](https://peps.python.org/pep-0629/)). 1.1 means that
/// pages have sizes, versions and upload times ([PEP 700](https://peps.python.org/pep-0700/)).
const REPOSITORY_VERSION: &str = "1.1";

/// A link to a file from a page in a directory, which is empty or ends in `/`. Both are relative to
/// the directory of the set: `../../dist/a%2Bb.whl` from `simple/a/`, and `a%2Bb.whl` from `dist/`.
pub(super) fn link(directory: &str, path: &str) -> String {
    let (mut from, mut to) = (directory, path);
    while let (Some((here, below)), Some((there, rest))) =
        (from.split_once('/'), to.split_once('/'))
        && here == there
    {
        (from, to) = (below, rest);
    }
    "../".repeat(from.matches('/').count()) + &encode_path(to)
}

#[cfg(test)]
mod tests;
