//! Pages about a package set: facts in, pages out.
//!
//! Every page is a function of the set and its layout. There is no clock and no order but the set's
//! own, so the same set gives the same bytes.

mod checksums;
mod find_links;
mod html;
mod json;
mod links;
mod set;
mod set_json;
mod simple;
mod urls;

pub use html::size_text;
pub use links::{InvalidLink, targets_of};
pub use set::{
    Duplicate, FileName, InvalidFileName, InvalidUploadTime, PackageSet, SetFile, Sidecar,
    UploadTime,
};
pub use set_json::{Identity, SetJson, SetJsonFile};
pub use urls::{InvalidUrl, Urls};

/// PEP 629: sizes, versions and upload times are there (PEP 700).
const REPOSITORY_VERSION: &str = "1.1";

/// Where the files lie, seen from the directory that the pages are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A plain directory of packages: `name.whl` beside `simple/`.
    Flat,
    /// A published set: `dist/name.whl` beside `simple/`.
    Dist,
}

impl Layout {
    /// The directory of the files, empty or ending in `/`.
    pub fn files(self) -> &'static str {
        match self {
            Self::Flat => "",
            Self::Dist => "dist/",
        }
    }
}

/// One page, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The file's path below the directory that holds `simple/`: `simple/rocm/index.html`.
    pub path: String,
    pub kind: PageKind,
    pub rank: Rank,
    pub body: String,
}

impl Page {
    /// `simple/rocm/` for `simple/rocm/index.html`: the key that clients ask for.
    ///
    /// A server that knows exact keys only (S3) has to hold the page under this key as well.
    /// Empty for the page at the top.
    pub fn directory(&self) -> Option<&str> {
        ["index.html", "index.json"]
            .iter()
            .find_map(|name| self.path.strip_suffix(name))
    }
}

/// What a page is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    Html,
    SimpleJson,
    Json,
    Text,
}

impl PageKind {
    /// Installers refuse a JSON index under any other name than its own.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::SimpleJson => "application/vnd.pypi.simple.v1+json",
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// When a page may be written: a reader who finds a page must find all that it points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Points at files.
    Project,
    /// Points at pages of projects, or at the whole set.
    Root,
}

/// Every page of a set, in the order in which they may be written.
pub fn pages(set: &PackageSet, layout: Layout) -> Vec<Page> {
    let mut pages = Vec::new();
    for (project, files) in set.projects() {
        pages.push(simple::project_page(project, files, layout));
        pages.push(json::project_page(project, files, layout));
    }
    pages.push(simple::root_page(set));
    pages.push(json::root_page(set));
    pages.push(find_links::page(set, layout));
    pages.push(checksums::page(set, layout));
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::set::samples;

    #[test]
    fn the_pages_of_a_set_and_the_order_in_which_they_may_appear() {
        let pages = pages(&samples::set(), Layout::Dist);
        let lines: Vec<String> = pages
            .iter()
            .map(|page| {
                let key = page.directory().unwrap_or("-");
                format!(
                    "{:?} {} ({key:?}): {}",
                    page.rank,
                    page.path,
                    page.kind.content_type()
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Project simple/rocm/index.html ("simple/rocm/"): text/html; charset=utf-8
        Project simple/_json/rocm/index.json ("simple/_json/rocm/"): application/vnd.pypi.simple.v1+json
        Project simple/rocm-sdk-core/index.html ("simple/rocm-sdk-core/"): text/html; charset=utf-8
        Project simple/_json/rocm-sdk-core/index.json ("simple/_json/rocm-sdk-core/"): application/vnd.pypi.simple.v1+json
        Root simple/index.html ("simple/"): text/html; charset=utf-8
        Root simple/_json/index.json ("simple/_json/"): application/vnd.pypi.simple.v1+json
        Root index.html (""): text/html; charset=utf-8
        Root SHA256SUMS ("-"): text/plain; charset=utf-8
        "#);
        assert!(pages.is_sorted_by_key(|page| page.rank));
    }

    #[test]
    fn the_order_of_the_files_given_does_not_show() {
        let mut files = samples::files();
        let forwards = PackageSet::new(files.clone()).unwrap();
        files.reverse();
        let backwards = PackageSet::new(files).unwrap();
        assert_eq!(
            pages(&forwards, Layout::Flat),
            pages(&backwards, Layout::Flat)
        );
    }
}
