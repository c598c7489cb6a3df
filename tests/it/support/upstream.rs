//! Models of two programs of TheRock that work in the same bucket as ours: the uploader of its
//! Python packages, and the indexer of the bucket, which lists every directory of a run.
//!
//! They are written from a description of what those do, and share no code with ours.

use std::fmt::Write as _;

use rocwheel_store::{Depth, Store};

use crate::support::memory::put;
use crate::support::prelude::*;

/// Where upstream's uploader puts a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement<'a> {
    /// `--artifact-group G`: everything in `python/G/`, with a page of links.
    Group(&'a str),
    /// `--multiarch`: everything in `python/`. Only the directories of families get a page.
    MultiArch,
}

/// The prefix of a run in a bucket, as upstream's programs see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamRun<'a> {
    pub(crate) bucket: &'a dyn Store,
    /// `42-linux`
    pub(crate) prefix: &'a str,
    /// Whether the bucket is a directory: the indexer then takes no notice of its own pages.
    pub(crate) is_local: bool,
}

impl UpstreamRun<'_> {
    /// Uploads every file of `packages/dist`, or of `packages`, and replaces existing ones. Returns the
    /// path that its output `package_find_links_url` names.
    pub(crate) fn upload(&self, packages: &Path, placement: Placement<'_>) -> String {
        let dist = packages.join("dist");
        let dist = if dist.is_dir() { &dist } else { packages };
        let mut files = BTreeMap::new();
        read(dist, "", &mut files);
        let families: BTreeSet<String> =
            files.keys().filter_map(|path| Some(path.split_once('/')?.0.to_owned())).collect();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let top: Vec<&str> = packages_in(&names, "").collect();
        assert!(!top.is_empty(), "the uploader refuses an empty `dist`");
        let mut pages = BTreeMap::new();
        let (place, page) = match placement {
            Placement::Group(group) => {
                let links = top.iter().map(|name| (quote(name), *name));
                pages.insert("index.html".to_owned(), links_page(group, links));
                (format!("python/{group}"), "/index.html")
            }
            Placement::MultiArch if families.is_empty() => ("python".to_owned(), "/index.html"),
            Placement::MultiArch => {
                for family in &families {
                    let own = packages_in(&names, family);
                    let own = own.map(|name| (format!("./{}", quote(name)), name));
                    let generic = top.iter();
                    let generic = generic.map(|name| (format!("../{}", quote(name)), *name));
                    let title = format!("ROCm Python Packages - {family}");
                    let text = links_page(&title, own.chain(generic));
                    pages.insert(format!("{family}/index.html"), text);
                }
                ("python".to_owned(), "")
            }
        };
        files.extend(pages.into_iter().map(|(path, page)| (path, page.into())));
        for (path, bytes) in &files {
            self.put(&format!("{place}/{path}"), bytes);
        }
        format!("{}/{place}{page}", self.prefix)
    }

    /// Writes `index.html` into every directory of the run that holds files, at any depth.
    pub(crate) fn index(&self) {
        let prefix = format!("{}/", self.prefix);
        let listed = self.bucket.list(Some(&prefix.parse().unwrap()), Depth::All).unwrap();
        let keys = listed.iter().map(|object| object.key.as_str());
        let keys = keys.filter(|key| !key.ends_with('/'));
        let keys = keys.filter(|key| !(self.is_local && key.ends_with("/index.html")));
        let mut directories: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for path in keys.filter_map(|key| key.strip_prefix(&prefix)) {
            let (mut directory, mut name) = path.rsplit_once('/').unwrap_or(("", path));
            let mut entry = name.to_owned();
            loop {
                let children = directories.entry(directory).or_default();
                if entry != "index.html" {
                    children.insert(entry);
                }
                if directory.is_empty() {
                    break;
                }
                (directory, name) = directory.rsplit_once('/').unwrap_or(("", directory));
                entry = format!("{name}/");
            }
        }
        for (directory, children) in directories {
            // In a directory on disk, those that hold directories only are left out.
            if self.is_local && children.iter().all(|name| name.ends_with('/')) {
                continue;
            }
            let path = match directory {
                "" => "index.html".to_owned(),
                directory => format!("{directory}/index.html"),
            };
            self.put(&path, listing(directory, &children).as_bytes());
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let kind = match path.rsplit('.').next() {
            Some("gz") => "application/gzip",
            Some("html") => "text/html",
            Some("whl") => "application/zip",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        };
        put(self.bucket, &format!("{}/{path}", self.prefix), kind, bytes);
    }
}

/// Every file below a directory. Symlinks are skipped.
fn read(directory: &Path, below: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs_err::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            read(&entry.path(), &format!("{below}{name}/"), files);
        } else if kind.is_file() {
            let bytes = fs_err::read(text(&entry.path())).unwrap();
            files.insert(format!("{below}{name}"), bytes);
        }
    }
}

/// The names of the packages directly in a directory.
fn packages_in<'a>(names: &'a [&str], directory: &'a str) -> impl Iterator<Item = &'a str> {
    let names = names.iter().filter_map(move |path| {
        let (own, name) = path.rsplit_once('/').unwrap_or(("", path));
        (own == directory).then_some(name)
    });
    names.filter(|name| name.ends_with(".whl") || name.ends_with(".tar.gz"))
}

fn links_page<'a>(title: &str, links: impl Iterator<Item = (String, &'a str)>) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html>\n<head>\n  <meta charset=\"utf-8\">\n  <title>{title}</title>\n\
         </head>\n<body>\n  <h1>{title}</h1>\n"
    );
    for (href, name) in links {
        writeln!(page, "  <a href=\"{href}\">{name}</a><br>").unwrap();
    }
    page + "</body>\n</html>\n"
}

/// The indexer's page of a directory: each immediate child with its size and time.
fn listing(directory: &str, children: &BTreeSet<String>) -> String {
    let title = directory.rsplit('/').next().unwrap_or_default();
    let mut page = format!(
        "<!DOCTYPE html>\n<html>\n<head><title>{title}</title></head>\n<body>\n\
         <h1>{title}</h1>\n<table>\n"
    );
    if !directory.is_empty() {
        page += "<tr><td><a href=\"../index.html\">..</a></td><td></td><td></td></tr>\n";
    }
    for name in children {
        let (href, size) = match name.strip_suffix('/') {
            Some(child) => (format!("{}/index.html", quote(child)), "&mdash;"),
            None => (quote(name), "4 KB"),
        };
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            page,
            "<tr><td><a href=\"{href}\">{name}</a></td><td>{size}</td><td>\
             <time datetime=\"2026-03-01T12:00:05+00:00\">2026-03-01 12:00 UTC</time></td></tr>"
        )
        .unwrap();
    }
    page + "</table>\n</body>\n</html>\n"
}

/// Percent-encodes everything but RFC 3986's unreserved characters and `/`.
fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' | b'/' => {
                quoted.push(char::from(byte));
            }
            _ => write!(quoted, "%{byte:02X}").unwrap(),
        }
    }
    quoted
}
