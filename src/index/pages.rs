//! The pages of an index: the simple index, the page for `--find-links`, the page of the place that leads to both,
//! `SHA256SUMS` and `set.json`.
//!
//! Every page is a pure function of the set, its layout and the address of its place, if that is known, without
//! clock or random order, so the same set at the same place gives the same bytes.
//!
//! `html` renders those in HTML.

mod html;

use std::fmt::Write as _;

use self::html::{LIST_OF_PAGES, find_links_page, place_page, project_page, root_page};
pub use self::html::{directory_page, directory_root};
use super::{
    layout::Layout,
    package_file::{PackageFile, is_variants_json},
    parse,
    set_json::{IndexView, SetJson, TOP},
    urls::Urls,
};
use rocwheel_store::location::encode_path;
use rocwheel_wheel::VariantDocument;

/// The order of writing a set. Readers may see it at any moment, so an object is written only after
/// everything that it links to, and a package before its sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    File,
    Sidecar,
    /// What the labels of variant wheels mean. It changes when wheels are added, as a page does.
    Variants,
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
    /// Whether it stays away where another program has its page: it leads to pages that can be read without it.
    pub gives_way: bool,
    render: Box<dyn Fn() -> String + Sync + 'a>,
}

impl<'a> IndexPage<'a> {
    fn new(path: impl Into<String>, phase: Phase, render: impl Fn() -> String + Sync + 'a) -> Self {
        Self { path: path.into(), phase, gives_way: false, render: Box::new(render) }
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
pub fn directory_of(path: &str) -> Option<&str> {
    let directory = path.strip_suffix("index.html")?;
    Some(if directory.is_empty() { TOP } else { directory })
}

/// The `Content-Type` of a path of a set.
pub fn content_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit('.').next().unwrap_or_default() {
        "" | "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "whl" => "application/zip",
        "gz" => "application/gzip",
        _ => "text/plain; charset=utf-8",
    }
}

/// What each page has in its head, in every version.
const MARK: &str = "<meta name=\"generator\" content=\"rocwheel\">";

/// Whether a file at the path of a page is a page of an index as this program writes them: by what is in it,
/// since other programs use the same names. Only such a page is ever removed.
pub fn is_index_page(path: &str, text: &str) -> bool {
    if path == "SHA256SUMS" {
        return parse::checksums(text).is_ok_and(|lines| !lines.is_empty());
    }
    // It has no mark. What removes one knows from its digest who wrote it.
    if is_variants_json(path) {
        return VariantDocument::parse(text.as_bytes()).is_ok();
    }
    text.contains(MARK)
}

/// Whether a page is the one at the top of a place. It leads to the pages that name packages, and names none.
pub fn is_place_page(text: &str) -> bool {
    text.contains(MARK) && text.contains(LIST_OF_PAGES)
}

/// All pages of a set in the order of writing. `views` are the views of the set; the install lines of the pages have
/// `address`. `None` if it is not known: the directory of a set may be served anywhere.
pub fn pages<'a>(
    set: &'a SetJson,
    views: &'a [IndexView<'a>],
    address: Option<&'a Urls>,
) -> Vec<IndexPage<'a>> {
    let mut all = Vec::new();
    let layouts = set.layouts();
    for view in views {
        for index in view.own_variants() {
            all.push(IndexPage::new(&index.path, Phase::Variants, || index.body.clone()));
        }
    }
    for view in views {
        for (project, files) in view.projects() {
            let path = format!("{}simple/{project}/index.html", view.top());
            let render = move || project_page(view, set, project, files, address);
            all.push(IndexPage::new(path, Phase::Project, render));
        }
    }
    for view in views {
        let path = view.top() + "simple/index.html";
        all.push(IndexPage::new(path, Phase::Root, move || root_page(view, set, address)));
        // A find-links page stands beside the files of each layout. The bucket's own indexer replaces every
        // `index.html` of a run by a list of the files beside it. This list then names the same files as our
        // page, and installers can use either.
        for layout in layouts.iter().copied() {
            let mut add = |directory: String, name: &str| {
                let path = format!("{directory}{name}.html");
                let render = move || find_links_page(view, set, &directory, address);
                all.push(IndexPage::new(path, Phase::Root, render));
            };
            add(layout.files().to_owned() + &view.top(), "index");
            // The indexer's list of a family's directory has only the packages of the family. So no indexer
            // replaces `{family}.html`; `{family}/index.html` is for callers that expect it there.
            if let Some(family) = &view.family {
                add(layout.files().to_owned(), family.as_str());
            }
        }
    }
    // In the flat layout, the find-links page is there.
    if layouts == [Layout::Dist] {
        let render = move || place_page(set, views, address);
        let page = IndexPage::new("index.html", Phase::Root, render);
        all.push(IndexPage { gives_way: true, ..page });
    }
    all.push(IndexPage::new("SHA256SUMS", Phase::Root, || checksums(set, views)));
    all.push(IndexPage::new("set.json", Phase::Whole, || set.pretty()));
    all
}

/// All paths of a published set: files, sidecars, then pages, each under its file name and under
/// the key of its directory.
pub fn paths(set: &SetJson) -> Vec<String> {
    let mut all: Vec<String> = set.files.iter().map(|file| file.path.clone()).collect();
    let with_metadata = set.files.iter().filter(|file| file.metadata.is_some());
    all.extend(with_metadata.map(PackageFile::sidecar_path));
    for page in pages(set, &set.views(), None) {
        all.extend(page.paths().map(str::to_owned));
    }
    all
}

/// Lists every file and sidecar by its path relative to the page, so that `sha256sum --check` works
/// in that directory.
fn checksums(set: &SetJson, views: &[IndexView]) -> String {
    let mut body = String::new();
    for file in &set.files {
        let _ = writeln!(body, "{}  {}", file.sha256, file.path);
        if let Some(sidecar) = &file.metadata {
            let _ = writeln!(body, "{sidecar}  {}", file.sidecar_path());
        }
    }
    for index in views.iter().flat_map(IndexView::own_variants) {
        let _ = writeln!(body, "{}  {}", index.sha256, index.path);
    }
    body
}

/// The version of the repository API ([PEP 629](https://peps.python.org/pep-0629/)). 1.1 means that
/// pages have sizes, versions and upload times ([PEP 700](https://peps.python.org/pep-0700/)).
const REPOSITORY_VERSION: &str = "1.1";

/// A link to a file from a page in a directory, which is empty or ends in `/`. Both are relative to
/// the directory of the set: `../../dist/a%2Bb.whl` from `simple/a/`, and `a%2Bb.whl` from `dist/`.
pub fn link(directory: &str, path: &str) -> String {
    let mut from = directory;
    let mut to = path;
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
