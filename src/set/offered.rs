//! [`OfferedSet`]: what a place offers to an installer, by its `set.json`, else by the pages of its
//! index, else by its packages; and how pip and uv reach them.

use std::io::BufReader;

use itertools::Itertools as _;

use super::{
    links,
    place::{Address, PlaceKind, SetPlace, found},
    read::{named_metadata, package_metadata},
    set_json::{Layout, PackageDirectories, SIDECAR, SetJson, identity, is_package},
    urls::Urls,
};
use crate::{
    digest::Sha256,
    error::{Context as _, Result},
    location::encode_path,
    run::ArtifactGroup,
    store::Ranged,
    version::Version,
    wheel::{DistName, Metadata},
};

/// The project whose page shows that an address is that of an index.
const SELECTOR: &str = "rocm";

/// What a place offers. Yanked files are left out.
#[derive(Clone, Debug)]
pub struct OfferedSet {
    pub place: String,
    pub files: Vec<OfferedFile>,
    /// Whether it has a `set.json`, which is written once a set is whole.
    pub is_described: bool,
    form: OfferForm,
}

/// A wheel or an sdist that a place offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedFile {
    /// The file name.
    pub name: String,
    pub project: DistName,
    pub version: Version,
    pub sha256: Option<Sha256>,
    /// The family in whose index it is. `None` for files for all families.
    pub family: Option<ArtifactGroup>,
    address: Address,
    has_sidecar: bool,
}

/// Where the files were found, which is how installers find them too.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OfferForm {
    /// `set.json`, with the public addresses of its index.
    Document(Urls),
    /// An index at this path of the store. Only the pages of the projects that were asked for have
    /// been read.
    Index { url: String, path: String },
    /// A page with links to packages.
    Page(String),
    /// The `file:` addresses of directories.
    Directory(Vec<String>),
}

/// Where an installer finds packages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageSource {
    /// For `--index-url`.
    Index(String),
    /// For `--find-links`.
    Links(String),
}

impl OfferedFile {
    fn new(address: Address, family: Option<ArtifactGroup>) -> Option<Self> {
        let name = address.path.rsplit('/').next()?.to_owned();
        let (project, version) = identity(&name).filter(|_| is_package(&name))?;
        Some(Self {
            name,
            project,
            version,
            sha256: None,
            family,
            address,
            has_sidecar: false,
        })
    }
}

impl OfferedSet {
    /// The families that have an index of their own.
    pub fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.iter().filter_map(|it| it.family.clone());
        families.sorted().dedup().collect()
    }

    /// Where installers find the packages for all families and those of one.
    pub fn sources(&self, family: Option<&ArtifactGroup>) -> Vec<PackageSource> {
        match &self.form {
            OfferForm::Document(urls) => {
                let own = family.map(|it| urls.of_family(it));
                vec![PackageSource::Index(own.as_ref().unwrap_or(urls).index())]
            }
            OfferForm::Index { url, .. } => vec![PackageSource::Index(url.clone())],
            OfferForm::Page(url) => vec![PackageSource::Links(url.clone())],
            OfferForm::Directory(directories) => {
                let of_family = family.into_iter().flat_map(|family| {
                    let all = directories.iter();
                    all.map(move |it| format!("{it}{family}/"))
                });
                let all = directories.iter().cloned().chain(of_family);
                all.map(PackageSource::Links).collect()
            }
        }
    }

    /// The newest version of a project for which a condition holds.
    pub fn newest(&self, project: &str, is_wanted: impl Fn(&Version) -> bool) -> Option<&Version> {
        let files = self.files.iter();
        let files = files.filter(|it| it.project.normalized() == project);
        files.map(|it| &it.version).filter(|it| is_wanted(it)).max()
    }

    /// Whether it has a version of a project.
    pub fn has(&self, project: &str, version: &Version) -> bool {
        self.newest(project, |it| it == version).is_some()
    }
}

impl SetPlace {
    /// What this place offers. `None` if it has no package, and no page that names one.
    pub fn offered(&self) -> Result<Option<OfferedSet>> {
        if self.page.is_none()
            && let Some(text) = self.text(&self.path("set.json"))?
        {
            let set = SetJson::parse(&text);
            let set = set
                .with_context(|| format!("failed to read `{}`", self.shown_in_full("set.json")))?;
            return self.offered_by_document(&set).map(Some);
        }
        if self.local().is_some() {
            return self.offered_by_directory();
        }
        for below in ["simple/", ""] {
            let path = self.path(below);
            let Some(files) = self.offered_by_project(&path, SELECTOR)? else {
                continue;
            };
            let url = match &self.kind {
                PlaceKind::Bucket(urls) => urls.path(below),
                _ => format!("{}/{}", self.store, encode_path(&path)),
            };
            return Ok(Some(self.offering(files, OfferForm::Index { url, path })));
        }
        self.offered_by_page()
    }

    /// Adds the files of a project to what an index offers. Other places have told all their files.
    pub fn offer_project(&self, offered: &mut OfferedSet, project: &str) -> Result<()> {
        let OfferForm::Index { path, .. } = &offered.form else {
            return Ok(());
        };
        let mut files = offered.files.iter();
        if !files.any(|it| it.project.normalized() == project) {
            let files = self.offered_by_project(path, project)?;
            offered.files.extend(files.into_iter().flatten());
        }
        Ok(())
    }

    /// Reads the metadata of a package: the file beside a wheel, or what is inside of the package.
    pub fn metadata_of(&self, file: &OfferedFile) -> Result<Metadata> {
        let read = || -> Result<Metadata> {
            let address = &file.address;
            if file.has_sidecar {
                let path = format!("{}{SIDECAR}", address.path);
                let origin = address.origin.clone();
                if let Some(text) = self.bytes(&Address { origin, path })? {
                    return Ok(named_metadata(text, &file.name)?.0);
                }
            }
            let (store, key) = (self.store_of(address)?, address.path.parse()?);
            let size = store.head(&key)?.size;
            let package = BufReader::new(Ranged::of(store, key, size));
            Ok(package_metadata(package, &file.name)?.0)
        };
        read().with_context(|| format!("failed to read the metadata of `{}`", file.name))
    }

    fn offering(&self, files: Vec<OfferedFile>, form: OfferForm) -> OfferedSet {
        OfferedSet {
            place: self.to_string(),
            files,
            is_described: false,
            form,
        }
    }

    fn offered_by_document(&self, set: &SetJson) -> Result<OfferedSet> {
        let layout = set.layout();
        let own = set.own_families();
        let listed = set.files.iter().filter(|file| file.yanked.is_none());
        let files = listed.filter_map(|file| {
            let path = self.path(&file.path);
            let family = file.family().filter(|it| own.contains(it));
            let offered = OfferedFile::new(Address { origin: None, path }, family)?;
            Some(OfferedFile {
                sha256: Some(file.sha256),
                ..offered
            })
        });
        let form = match &self.kind {
            PlaceKind::Directory(_) => self.directories(&[layout])?,
            PlaceKind::Bucket(urls) => OfferForm::Document(urls.clone().in_layout(layout)),
            PlaceKind::Web => OfferForm::Document(self.to_string().parse()?),
        };
        let files = files.collect();
        Ok(OfferedSet {
            is_described: true,
            ..self.offering(files, form)
        })
    }

    /// Addresses, because a path may have spaces, which a requirements file cannot have.
    fn directories(&self, layouts: &[Layout]) -> Result<OfferForm> {
        let root = self.local().unwrap_or(".".as_ref());
        let addresses = layouts.iter().map(|it| {
            let address = Urls::of_directory(&root.join(it.files()))?;
            Ok(address.to_string())
        });
        Ok(OfferForm::Directory(addresses.collect::<Result<_>>()?))
    }

    fn offered_by_directory(&self) -> Result<Option<OfferedSet>> {
        let layouts = self.layouts(PackageDirectories::Built)?;
        let packages = self.packages(PackageDirectories::Built)?;
        let files = packages.iter().filter_map(|package| {
            let family = package.name.split_once('/').map(|it| it.0);
            let family = family.and_then(|it| ArtifactGroup::of_directory(it).ok());
            let path = package.path().to_owned();
            OfferedFile::new(Address { origin: None, path }, family)
        });
        let files: Vec<OfferedFile> = files.collect();
        let form = self.directories(&layouts)?;
        Ok((!files.is_empty()).then(|| self.offering(files, form)))
    }

    /// The files on the page of a project, below the page of an index.
    fn offered_by_project(&self, index: &str, project: &str) -> Result<Option<Vec<OfferedFile>>> {
        for end in ["", "index.html"] {
            let page = format!("{index}{project}/");
            let Some(text) = self.text(&format!("{page}{end}"))? else {
                continue;
            };
            let mut files = Self::linked(&page, &text)?;
            files.retain(|it| it.project.normalized() == project);
            // A web server answers for any directory with a list of what is in it.
            if !files.is_empty() {
                return Ok(Some(files));
            }
        }
        Ok(None)
    }

    /// The files of the page that the user named, or of the find-links page of a set.
    fn offered_by_page(&self) -> Result<Option<OfferedSet>> {
        let page = |below: &str| self.path(&format!("{below}index.html"));
        let pages = match &self.page {
            Some(page) => vec![page.clone()],
            None => vec![page("dist/"), page(""), self.path("")],
        };
        for path in pages.into_iter().filter(|it| !it.is_empty()) {
            let Some(text) = self.text(&path)? else {
                continue;
            };
            let files = Self::linked(&path, &text)?;
            if !files.is_empty() {
                let below = self.shown(&path);
                let url = match &self.kind {
                    PlaceKind::Bucket(urls) => urls.path(&below),
                    _ => format!("{}/{}", self.store, encode_path(&path)),
                };
                return Ok(Some(self.offering(files, OfferForm::Page(url))));
            }
        }
        Ok(None)
    }

    fn linked(page: &str, text: &str) -> Result<Vec<OfferedFile>> {
        let links = if text.trim_start().starts_with('{') {
            links::json_links(text)?
        } else {
            links::html_links(text)
        };
        let links = links.into_iter().filter(|link| link.yanked.is_none());
        let files = links.filter_map(|link| {
            let address = links::resolve(page, &link.href).ok()?;
            let file = OfferedFile::new(address, None)?;
            Some(OfferedFile {
                sha256: link.sha256,
                has_sidecar: link.has_metadata,
                ..file
            })
        });
        Ok(files.unique_by(|it| it.name.clone()).collect())
    }

    /// Whether the set is whole: `upload` writes `set.json` last.
    pub fn is_whole(&self) -> Result<bool> {
        let key = self.key("set.json")?;
        Ok(found(self.store.head(&key))?.is_some())
    }
}
