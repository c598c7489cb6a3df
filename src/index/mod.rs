//! Pages about a package set: facts in, pages out.
//!
//! Every page is a function of the set and its layout. There is no clock and no order but the set's
//! own, so the same set gives the same bytes.

mod addresses;
mod as_text;
mod checksums;
#[cfg(test)]
pub(crate) mod documents;
mod find_links;
mod html;
mod html_style;
pub mod install;
mod json;
mod links;
mod set;
mod set_json;
mod simple;
mod upload_time;
mod urls;

pub use addresses::Addresses;
pub use html::size_text;
pub use install::{Choice, Places, Way};
pub use links::{InvalidLink, targets_of};
pub use set::{
    Duplicate, FileName, IndexView, InvalidFileName, PackageSet, SIDECAR, SetFile, Sidecar,
};
pub use set_json::{Identity, PART, Remembered, SetJson, SetJsonFile, SetStamp};
pub use upload_time::{InvalidUploadTime, UploadTime};
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
pub struct IndexPage {
    /// The file's path below the directory that holds `simple/`: `simple/rocm/index.html`.
    pub path: String,
    pub kind: PageKind,
    pub rank: Rank,
    pub body: String,
}

impl IndexPage {
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
    /// Says of a set that it is whole.
    Whole,
}

/// A page that is not written yet: of a set with many files, all pages at once take much memory.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a>(PageSubject<'a>, Layout);

#[derive(Clone, Copy, Debug)]
enum PageSubject<'a> {
    Project(PageForm, &'a IndexView<'a>, &'a str, &'a [SetFile]),
    Root(PageForm, &'a IndexView<'a>),
    FindLinks(&'a IndexView<'a>, &'a PackageSet),
    Checksums(&'a PackageSet),
    Set(&'a SetJson),
}

#[derive(Clone, Copy, Debug)]
enum PageForm {
    Html,
    Json,
}

impl<'a> Draft<'a> {
    /// The page `set.json`.
    pub fn of_set(set: &'a SetJson) -> Self {
        // Its paths have the layout in them.
        Self(PageSubject::Set(set), Layout::Flat)
    }

    pub fn rank(&self) -> Rank {
        match self.0 {
            PageSubject::Project(..) => Rank::Project,
            PageSubject::Set(_) => Rank::Whole,
            _ => Rank::Root,
        }
    }

    pub fn page(&self) -> IndexPage {
        let layout = self.1;
        match self.0 {
            PageSubject::Project(PageForm::Html, view, project, files) => {
                simple::project_page(view, project, files, layout)
            }
            PageSubject::Project(PageForm::Json, view, project, files) => {
                json::project_page(view, project, files, layout)
            }
            PageSubject::Root(PageForm::Html, view) => simple::root_page(view),
            PageSubject::Root(PageForm::Json, view) => json::root_page(view),
            PageSubject::FindLinks(view, set) => {
                find_links::page(view, set.families().into_iter(), layout)
            }
            PageSubject::Checksums(set) => checksums::page(set, layout),
            PageSubject::Set(set) => set.page(),
        }
    }
}

/// Every page of a set, in the order in which they may be written. `views` are those of the set.
pub fn drafts<'a>(
    set: &'a PackageSet,
    views: &'a [IndexView<'a>],
    layout: Layout,
) -> Vec<Draft<'a>> {
    let mut all = Vec::new();
    for view in views {
        for (project, files) in view.projects() {
            all.push(PageSubject::Project(PageForm::Html, view, project, files));
            all.push(PageSubject::Project(PageForm::Json, view, project, files));
        }
    }
    for view in views {
        all.push(PageSubject::Root(PageForm::Html, view));
        all.push(PageSubject::Root(PageForm::Json, view));
        all.push(PageSubject::FindLinks(view, set));
    }
    all.push(PageSubject::Checksums(set));
    all.into_iter().map(|what| Draft(what, layout)).collect()
}

/// Every path below the directory of a set: its files and their metadata, then its pages, each under
/// its name and under that of its directory, which for the directory of the set is empty.
pub fn paths(set: &PackageSet, layout: Layout) -> Vec<String> {
    let mut all: Vec<String> = set.files().iter().map(|file| file.path(layout)).collect();
    let with_metadata = set.files().iter().filter(|file| file.metadata.is_some());
    all.extend(with_metadata.map(|file| file.sidecar_path(layout)));
    let document = SetJson::new(Identity::default(), set, layout).page();
    for page in pages(set, layout).iter().chain([&document]) {
        all.push(page.path.clone());
        all.extend(page.directory().map(str::to_owned));
    }
    all
}

/// Every page of a set, in the order in which they may be written.
pub fn pages(set: &PackageSet, layout: Layout) -> Vec<IndexPage> {
    let views = set.views();
    let drafts = drafts(set, &views, layout);
    drafts.iter().map(Draft::page).collect()
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
