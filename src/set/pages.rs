//! The pages of an index: the simple index in HTML and JSON, the page for `--find-links` and
//! `SHA256SUMS`.
//!
//! Every page is a pure function of the set and its layout, without clock or random order, so the
//! same set gives the same bytes.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    html::{self, REPOSITORY_VERSION},
    packages::{IndexView, Layout, PackageSet, SetFile},
    set_json::{Identity, SetJson},
    urls::encode_path,
};

/// The directory of the JSON index, below `simple/` so that one prefix has both indexes. It cannot
/// be the name of a project: normalized names begin with a letter or a digit.
const JSON: &str = "simple/_json";
/// The directory of the set itself, as a path below it.
pub(super) const TOP: &str = "./";

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

/// One page, not rendered yet: all pages of a set with many files at once would take much memory.
pub struct IndexPage<'a> {
    /// The path relative to the directory of the set: `simple/rocm/index.html`.
    pub path: String,
    pub phase: Phase,
    render: Box<dyn Fn() -> String + Sync + 'a>,
}

impl<'a> IndexPage<'a> {
    fn new(path: impl Into<String>, phase: Phase, render: impl Fn() -> String + Sync + 'a) -> Self {
        Self {
            path: path.into(),
            phase,
            render: Box::new(render),
        }
    }

    pub fn body(&self) -> String {
        (self.render)()
    }

    /// The paths of the page: its file name, and, if it is the page of a directory, the key that
    /// installers request.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        [Some(self.path.as_str()), directory_of(&self.path)]
            .into_iter()
            .flatten()
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

/// All pages of a set in the order of writing. `views` are those of the set.
pub fn pages<'a>(
    set: &'a PackageSet,
    views: &'a [IndexView<'a>],
    layout: Layout,
) -> Vec<IndexPage<'a>> {
    let mut all = Vec::new();
    for view in views {
        let top = view.top();
        for (project, files) in view.projects() {
            all.push(IndexPage::new(
                format!("{top}simple/{project}/index.html"),
                Phase::Project,
                move || html::project_page(view, project, files, layout),
            ));
            all.push(IndexPage::new(
                format!("{top}{JSON}/{project}/index.json"),
                Phase::Project,
                move || json_project(view, project, files, layout),
            ));
        }
    }
    for view in views {
        let mut root = |path: String, render: Box<dyn Fn() -> String + Sync + 'a>| {
            all.push(IndexPage::new(view.top() + &path, Phase::Root, render));
        };
        root(
            "simple/index.html".into(),
            Box::new(|| html::root_page(view)),
        );
        root(format!("{JSON}/index.json"), Box::new(|| json_root(view)));
        root(
            "index.html".into(),
            Box::new(move || html::find_links_page(view, set, layout)),
        );
    }
    let sums = move || checksums(set, layout);
    all.push(IndexPage::new("SHA256SUMS", Phase::Root, sums));
    all
}

/// The page `set.json`.
pub(super) fn document(set: &SetJson) -> IndexPage<'_> {
    IndexPage::new("set.json", Phase::Whole, || set.pretty())
}

/// All paths of a published set: files, sidecars, then pages, each under its file name and under
/// the key of its directory.
pub fn paths(set: &PackageSet, layout: Layout) -> Vec<String> {
    let mut all: Vec<String> = set.files().iter().map(|file| file.path(layout)).collect();
    let with_metadata = set.files().iter().filter(|file| file.metadata.is_some());
    all.extend(with_metadata.map(|file| file.sidecar_path(layout)));
    let (views, set_json) = (set.views(), SetJson::new(Identity::default(), set, layout));
    for page in pages(set, &views, layout)
        .iter()
        .chain([&document(&set_json)])
    {
        all.extend(page.paths().map(str::to_owned));
    }
    all
}

/// Lists every file and sidecar by its path relative to the page, so that `sha256sum --check` works
/// in that directory.
fn checksums(set: &PackageSet, layout: Layout) -> String {
    let mut body = String::new();
    for file in set.files() {
        let _ = writeln!(body, "{}  {}", file.sha256, file.path(layout));
        if let Some(sidecar) = &file.metadata {
            let _ = writeln!(body, "{}  {}", sidecar.sha256, file.sidecar_path(layout));
        }
    }
    body
}

/// The page of a project in JSON ([PEP 691](https://peps.python.org/pep-0691/)), with the sizes,
/// versions and upload times of [PEP 700](https://peps.python.org/pep-0700/).
fn json_project(view: &IndexView, project: &str, files: &[&SetFile], layout: Layout) -> String {
    let directory = view.files_from(3, layout);
    // `1.0` and `1.0.0` are equal, so their files are mixed. List each text once.
    let mut versions: Vec<String> = Vec::new();
    for version in files.iter().map(|file| file.version.to_string()) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    let files = files.iter().map(|file| json_file(file, &directory));
    pretty(&json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "name": project,
        "versions": versions,
        "files": files.collect::<Vec<Value>>(),
    }))
}

fn json_root(view: &IndexView) -> String {
    let projects = view.projects().map(|(name, _)| json!({ "name": name }));
    pretty(&json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "projects": projects.collect::<Vec<Value>>(),
    }))
}

fn json_file(file: &SetFile, directory: &str) -> Value {
    let mut entry = json!({
        "filename": file.name,
        "url": format!("{directory}{}", encode_path(&file.below())),
        "hashes": { "sha256": file.sha256 },
        "size": file.size,
    });
    if let Some(time) = &file.upload_time {
        entry["upload-time"] = json!(time);
    }
    if let Some(requires) = &file.requires_python {
        entry["requires-python"] = json!(requires);
    }
    if let Some(sidecar) = &file.metadata {
        let hashes = json!({ "sha256": sidecar.sha256 });
        entry["core-metadata"] = hashes.clone();
        entry["dist-info-metadata"] = hashes;
    }
    if let Some(reason) = &file.yanked {
        // An empty string would mean "not yanked" to installers written in Python, where it is
        // false.
        entry["yanked"] = if reason.is_empty() {
            json!(true)
        } else {
            json!(reason)
        };
    }
    entry
}

fn pretty(page: &Value) -> String {
    format!("{page:#}\n")
}

#[cfg(test)]
mod tests;
