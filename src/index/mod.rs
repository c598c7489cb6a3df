//! Renders the index of a package set: the simple index in HTML and JSON, the page for
//! `--find-links`, `SHA256SUMS` and `set.json`.
//!
//! Every page is a pure function of the set and its layout, without clock or random order, so the
//! same set gives the same bytes. `set` reads the packages and writes the pages.

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

/// The version of the repository API ([PEP 629](https://peps.python.org/pep-0629/)). 1.1 means that
/// pages have sizes, versions and upload times ([PEP 700](https://peps.python.org/pep-0700/)).
const REPOSITORY_VERSION: &str = "1.1";

/// Where the packages are stored, relative to the directory of the set.
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
    /// The path relative to the directory of the set: `simple/rocm/index.html`.
    pub path: String,
    pub kind: PageKind,
    pub rank: Rank,
    pub body: String,
}

impl IndexPage {
    /// The key that installers request: `simple/rocm/` for `simple/rocm/index.html`.
    ///
    /// S3 has exact keys only and does not serve `index.html` for a directory, so the page must be
    /// stored under this key too. Empty for the page of the set.
    pub fn directory(&self) -> Option<&str> {
        ["index.html", "index.json"]
            .iter()
            .find_map(|name| self.path.strip_suffix(name))
    }
}

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    Html,
    SimpleJson,
    Json,
    Text,
}

impl PageKind {
    /// The `Content-Type`. pip accepts a JSON index only with the type of PEP 691.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::SimpleJson => "application/vnd.pypi.simple.v1+json",
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// The order of writing pages: a reader who finds a page must find everything it links to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Links to files.
    Project,
    /// Links to pages of projects, or to all files.
    Root,
    /// `set.json`: a set that has it is complete.
    Whole,
}

/// A page that is not rendered yet. All pages of a set with many files at once would take much
/// memory.
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
        // The paths in `set.json` contain the layout already; this value is not used.
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

/// All pages of a set in the order of writing, not rendered yet. `views` are those of the set.
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

/// All paths of a published set: files, sidecars, then pages, each under its file name and under
/// the key of its directory, which is empty for the set itself.
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

/// All pages of a set, rendered, in the order of writing.
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
