//! The pages of an index: the simple index in HTML and JSON, the page for `--find-links` and
//! `SHA256SUMS`.
//!
//! Every page is a pure function of the set and its layout, without clock or random order, so the
//! same set gives the same bytes.
//!
//! Those in HTML follow [PEP 503](https://peps.python.org/pep-0503/), with yanks
//! ([592](https://peps.python.org/pep-0592/)), the version of the API
//! ([629](https://peps.python.org/pep-0629/)) and metadata files
//! ([658](https://peps.python.org/pep-0658/), [714](https://peps.python.org/pep-0714/)).

use std::{collections::BTreeSet, fmt::Write as _};

use itertools::Itertools as _;
use serde_json::{Value, json};

use super::{
    install::{requirements, targets},
    set_json::{IndexView, SetFile, SetJson},
};

use crate::{
    console::{many, size},
    location::encode_path,
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

/// One page, not rendered yet: its path needs no text, and pages are rendered in parallel.
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
pub fn pages<'a>(set: &'a SetJson, views: &'a [IndexView<'a>]) -> Vec<IndexPage<'a>> {
    let (mut all, layouts) = (Vec::new(), set.layouts());
    for view in views {
        for (project, files) in view.projects() {
            let mut add = |path: String, render: fn(&IndexView, &str, &[&SetFile]) -> String| {
                let render = move || render(view, project, files);
                all.push(IndexPage::new(view.top() + &path, Phase::Project, render));
            };
            add(format!("simple/{project}/index.html"), project_page);
            add(format!("{JSON}/{project}/index.json"), json_project);
        }
    }
    for view in views {
        let mut add = |path: &str, render: fn(&IndexView, &SetJson) -> String| {
            let render = move || render(view, set);
            all.push(IndexPage::new(view.top() + path, Phase::Root, render));
        };
        add("simple/index.html", |view, _| root_page(view));
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
fn json_project(view: &IndexView, project: &str, files: &[&SetFile]) -> String {
    let directory = format!("{}{JSON}/{project}/", view.top());
    // `1.0` and `1.0.0` are equal, so their files are mixed. List each text once.
    let versions = files.iter().map(|file| file.version.to_string()).unique();
    let files = files.iter().map(|file| json_file(file, &directory));
    pretty(&json!({
        "meta": { "api-version": REPOSITORY_VERSION },
        "name": project,
        "versions": versions.collect::<Vec<String>>(),
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
        "filename": file.name(),
        "url": link(directory, &file.path),
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
        let hashes = json!({ "sha256": sidecar });
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

/// The version of the repository API ([PEP 629](https://peps.python.org/pep-0629/)). 1.1 means that
/// pages have sizes, versions and upload times ([PEP 700](https://peps.python.org/pep-0700/)).
const REPOSITORY_VERSION: &str = "1.1";

/// `simple/{project}/index.html`, the newest version first, because people look for it; installers
/// do not depend on the order.
fn project_page(view: &IndexView, project: &str, files: &[&SetFile]) -> String {
    let directory = format!("{}simple/{project}/", view.top());
    let mut list = String::new();
    let versions: Vec<&[&SetFile]> = by_version(files).collect();
    for files in &versions {
        // Most pages have one version. It is in every file name and needs no heading.
        if let Some(first) = files.first().filter(|_| versions.len() > 1) {
            let _ = writeln!(list, "<h2>{}</h2>", escape(&first.version.to_string()));
        }
        let items: String = files.iter().map(|file| item(file, &directory)).collect();
        let _ = writeln!(list, "<ul>\n{items}</ul>");
    }
    let lead = format!("<p>{}</p>\n", count_text(files));
    frame(project, &lead, &list)
}

/// The page of a project beside its files, which are sorted, in a directory that ends in `/`.
pub(super) fn directory_page(project: &str, files: &[&SetFile], directory: &str) -> String {
    let items = by_version(files).flatten();
    let items: String = items.map(|file| item(file, directory)).collect();
    let lead = format!("<p>{}</p>\n", count_text(files));
    frame(project, &lead, &format!("<ul>\n{items}</ul>\n"))
}

/// The page of a product: the directories of its projects.
pub(super) fn directory_root(projects: &BTreeSet<String>) -> String {
    let items = projects.iter().map(|project| escape(project));
    let items = items.map(|name| format!("<li><a href=\"{name}/\">{name}</a></li>\n"));
    let lead = format!("<p>{}</p>\n", many(projects.len(), "project"));
    let list = format!("<ul class=\"short\">\n{}</ul>\n", items.collect::<String>());
    frame("Python packages", &lead, &list)
}

/// `simple/index.html`.
fn root_page(view: &IndexView) -> String {
    let items = view.projects().map(|(project, files)| {
        let name = escape(project);
        let newest = files.last().map(|file| file.version.to_string());
        let newest = escape(&newest.unwrap_or_default());
        format!("<li><a href=\"{name}/\">{name}</a> <span>{newest}</span></li>\n")
    });
    let list = format!("<ul class=\"short\">\n{}</ul>\n", items.collect::<String>());
    let lead = format!(
        "<p>{}, {}. Install with the address of this page up to <code>simple/</code>:</p>\n{}",
        many(view.projects().count(), "project"),
        size(view.files.iter().map(|file| file.size).sum()),
        install_lines(
            view,
            "--index-url <address up to simple/>",
            "--default-index <address up to simple/>"
        ),
    );
    frame(&title("Python package index", view), &lead, &list)
}

/// `dist/index.html`: all files of the set on one page, in a directory that is empty or ends in `/`.
/// If families have their own pages, the page of the set links to them.
///
/// Its links have hashes and metadata attributes too, so that installers can resolve without
/// downloading wheels. Yanked files are left out, because uv does not respect yanks on such pages.
fn find_links_page(view: &IndexView, set: &SetJson, directory: &str) -> String {
    let families = set.families().into_iter().filter(|_| view.family.is_none());
    let links = families.map(|it| format!("<li><a href=\"{it}.html\">{it}</a></li>\n"));
    let families = match links.collect::<String>() {
        links if links.is_empty() => links,
        links => format!("<h2>By family</h2>\n<ul>\n{links}</ul>\n<h2>For every family</h2>\n"),
    };
    let (listed, yanked): (Vec<&SetFile>, Vec<&SetFile>) =
        view.files.iter().partition(|file| file.yanked.is_none());
    let projects = listed.chunk_by(|a, b| a.project == b.project);
    let items = projects.flat_map(by_version).flatten();
    let items: String = items.map(|file| item(file, directory)).collect();
    let left_out = match yanked.len() {
        0 => String::new(),
        1 => "<p>1 yanked file is only in the index.</p>\n".to_owned(),
        count => format!("<p>{count} yanked files are only in the index.</p>\n"),
    };
    let look = "--no-index --find-links <this address>";
    let lead = format!(
        "<p>{}. Install with the address of this page:</p>\n{}{left_out}",
        count_text(&listed),
        install_lines(view, look, look),
    );
    let content = format!("{families}<ul>\n{items}</ul>\n");
    frame(&title("Python packages", view), &lead, &content)
}

/// The command lines on a page, as HTML. Empty if there is nothing to install. A page does not know
/// its own URL; the options in `pip` and `uv` have a placeholder for it.
fn install_lines(view: &IndexView<'_>, pip: &str, uv: &str) -> String {
    let files = view.files.iter().copied();
    let targets = targets(files.clone().filter(|file| file.yanked.is_none()));
    let requirement = match requirements(files, targets.first()).as_slice() {
        [] => return String::new(),
        [only] => only.clone(),
        _ => "<project>==<version>".to_owned(),
    };
    // Double quotes, because readers on Windows use them too, and `cmd` has no single quotes.
    let line = |command: &str, options: &str| {
        escape(&format!("{command} install {options} \"{requirement}\""))
    };
    let (pip, uv) = (line("pip", pip), line("uv pip", uv));
    let others = match targets.split_first() {
        Some((first, others)) if !others.is_empty() => format!(
            "<p>For other GPUs, replace <code>{first}</code> with: {}.</p>\n",
            others.iter().join(", ")
        ),
        _ => String::new(),
    };
    format!("<pre>{pip}\n{uv}</pre>\n{others}")
}

/// A complete page. `title` is text and gets escaped; `lead`, which introduces the page, and
/// `content` are HTML.
///
/// The style works on phones: long file names wrap, and on a narrow screen the size is shown below
/// the name. The pages load no script, font or picture, and follow the reader's light or dark theme.
fn frame(title: &str, lead: &str, content: &str) -> String {
    format!(
        include_str!("page.html"),
        version = REPOSITORY_VERSION,
        title = escape(title),
        style = include_str!("style.css"),
        lead = lead,
        content = content
    )
}

fn title(what: &str, view: &IndexView) -> String {
    match &view.family {
        Some(family) => format!("{what} for {family}"),
        None => what.to_owned(),
    }
}

/// Number and total size of files: `3 files, 1.20 GiB`.
fn count_text(files: &[&SetFile]) -> String {
    let total = files.iter().map(|file| file.size).sum();
    format!("{}, {}", many(files.len(), "file"), size(total))
}

fn by_version<'a>(files: &'a [&'a SetFile]) -> impl Iterator<Item = &'a [&'a SetFile]> {
    files.chunk_by(|a, b| a.version == b.version).rev()
}

/// A list item: the link with the attributes that installers read, and the size and other facts for
/// people.
///
/// `data-dist-info-metadata` is the name in [PEP 658](https://peps.python.org/pep-0658/), and pip
/// 23 reads it. `data-core-metadata` is its new name in [PEP
/// 714](https://peps.python.org/pep-0714/). `data-size` and `data-upload-time` are not standardized
/// for HTML, but uv reads them.
fn item(file: &SetFile, directory: &str) -> String {
    let digest = file.metadata.map(|sha256| format!("sha256={sha256}"));
    let attributes = [
        ("requires-python", file.requires_python.clone()),
        ("core-metadata", digest.clone()),
        ("dist-info-metadata", digest),
        ("yanked", file.yanked.clone()),
        ("size", Some(file.size.to_string())),
        ("upload-time", file.upload_time.clone()),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!(" data-{name}=\"{}\"", escape(&value)))
    });
    let yanked = file.yanked.as_deref().map(|reason| {
        let colon = if reason.is_empty() { "" } else { ": " };
        format!(" <em>yanked{colon}{}</em>", escape(reason))
    });
    format!(
        "<li><a href=\"{}#sha256={}\"{}>{}</a>{} <span>{}</span></li>\n",
        link(directory, &file.path),
        file.sha256,
        attributes.collect::<String>(),
        escape(file.name()),
        yanked.unwrap_or_default(),
        size(file.size)
    )
}

/// A link to a file from a page in a directory, which is empty or ends in `/`. Both are relative to
/// the directory of the set: `../../dist/a%2Bb.whl` from `simple/a/`, and `a%2Bb.whl` from `dist/`.
fn link(directory: &str, path: &str) -> String {
    let (mut from, mut to) = (directory, path);
    while let (Some((here, below)), Some((there, rest))) =
        (from.split_once('/'), to.split_once('/'))
        && here == there
    {
        (from, to) = (below, rest);
    }
    "../".repeat(from.matches('/').count()) + &encode_path(to)
}

/// Escapes text for an element or a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // Bidirectional control characters could display a different file name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
