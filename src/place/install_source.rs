//! [`OfferedSet`]: what a place offers to an installer, by its `set.json`, else by the pages of its
//! index, else by its packages; and how pip and uv reach them.

use std::io::Read as _;

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    directory_url::urls_of_directory,
    read_packages::named_metadata,
    set_place::{LONGEST_PAGE, PackageDirectories, PlaceKind, SetPlace, failure, none_if_missing},
};
use crate::{
    index::{
        Layout, Urls,
        package_file::{SIDECAR, identity, is_package},
        parse::{self, Address, FileClaim},
        set_json::SetJson,
    },
    run::{ArtifactGroup, Platform},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, Hint as _, No, Result, anyhow, hinted, one_line},
    parallel,
    quantity::shell_word,
    version::Version,
};
use rocwheel_store::{
    Span, Store as _, StoreError, StoreFailureKind, http::HttpStore, location::encode_path,
};
use rocwheel_wheel::{DistName, Metadata, PackageFilename};

/// A project whose page each index of ROCm has.
const SELECTOR: &str = "rocm";

/// What a place offers. Yanked files are left out.
#[derive(Clone, Debug)]
pub struct OfferedSet {
    pub place: String,
    /// What installers may take.
    pub files: Vec<OfferedFile>,
    /// Variant wheels. pip refuses their names, and so no command installs them.
    pub variants: Vec<OfferedFile>,
    /// Whether it has a `set.json`, which is written once a set is whole.
    pub is_described: bool,
    /// The platform that the files are for. `None` if they are for any.
    platform: Option<Platform>,
    /// Whether it has files for this platform alone, and whether for other platforms alone.
    has_own_files: bool,
    has_files_of_others: bool,
    form: OfferForm,
}

/// A wheel or an sdist that a place offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfferedFile {
    /// The file name.
    pub name: String,
    /// The address that installers can read.
    pub url: String,
    pub sha256: Option<Sha256>,
    /// `None` on most pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip)]
    pub project: DistName,
    #[serde(skip)]
    pub version: Version,
    /// The family in whose index it is. `None` for files for all families.
    #[serde(skip)]
    pub family: Option<ArtifactGroup>,
    #[serde(skip)]
    address: Address,
    #[serde(skip)]
    has_sidecar: bool,
}

/// A project of an index whose page could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadProject {
    pub project: DistName,
    pub reason: String,
}

/// Where the files were found, which is how installers find them too.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OfferForm {
    /// `set.json`, with the public addresses of its index.
    Document {
        urls: Urls,
        /// Whether installers can read the index. Some servers do not answer the address of a directory, so that
        /// only the find-links pages can be read.
        has_index: bool,
    },
    /// An index at this path of the store. Only the pages of the projects that were asked for have
    /// been read.
    Index { url: String, path: String },
    /// A page with links to packages.
    Page(String),
    /// The `file:` addresses of directories.
    Directory(Vec<String>),
}

/// Who reads the files that a place offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfferReader {
    /// uv or pip, without credentials.
    Installer,
    Ourselves,
}

/// Where an installer finds packages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageSource {
    /// For `--index-url`.
    Index(String),
    /// For `--find-links`.
    Links(String),
}

impl PackageSource {
    /// The address of an index.
    pub fn index(&self) -> Option<&str> {
        match self {
            Self::Index(url) => Some(url),
            Self::Links(_) => None,
        }
    }

    /// The address of a page or of a directory.
    pub fn links(&self) -> Option<&str> {
        match self {
            Self::Index(_) => None,
            Self::Links(place) => Some(place),
        }
    }
}

impl OfferedFile {
    /// Where it is in the store of the place, or on another server.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether it may be installed on a platform.
    pub fn is_for(&self, platform: Platform) -> bool {
        match self.name.parse::<PackageFilename>().ok().and_then(|name| name.tag) {
            Some(tag) => tag.platform().split('.').any(|it| platform.takes(it)),
            // An sdist is for every platform.
            None => true,
        }
    }

    fn is_variant(&self) -> bool {
        self.name.parse::<PackageFilename>().is_ok_and(|name| name.label.is_some())
    }

    pub fn is_for_one_platform(&self) -> bool {
        let name = self.name.parse::<PackageFilename>().ok();
        name.and_then(|name| name.tag).is_some_and(|tag| tag.platform() != "any")
    }
}

impl OfferedSet {
    /// The families that have an index of their own.
    pub fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.iter().filter_map(|it| it.family.clone());
        families.sorted().dedup().collect()
    }

    /// Where installers find the packages for all families, and the packages of one family.
    pub fn sources(&self, family: Option<&ArtifactGroup>) -> Vec<PackageSource> {
        match &self.form {
            OfferForm::Document { urls, has_index } => {
                let family_urls = family.map(|family| urls.of_family(family));
                let urls = family_urls.as_ref().unwrap_or(urls);
                vec![if *has_index {
                    PackageSource::Index(urls.index())
                } else {
                    PackageSource::Links(urls.find_links())
                }]
            }
            OfferForm::Index { url, .. } => vec![PackageSource::Index(url.clone())],
            OfferForm::Page(url) => vec![PackageSource::Links(url.clone())],
            OfferForm::Directory(directories) => {
                let mut urls = directories.clone();
                if let Some(family) = family {
                    urls.extend(directories.iter().map(|url| format!("{url}{family}/")));
                }
                urls.into_iter().map(PackageSource::Links).collect()
            }
        }
    }

    /// The newest version of a project for which a condition holds.
    pub fn newest(&self, project: &str, is_wanted: impl Fn(&Version) -> bool) -> Option<&Version> {
        let files = self.files.iter().filter(|file| file.project.normalized() == project);
        files.map(|file| &file.version).filter(|version| is_wanted(version)).max()
    }

    /// Adds the files that may be installed on the platform.
    fn add(&mut self, files: Vec<OfferedFile>) {
        for file in files {
            if file.is_variant() {
                self.variants.push(file);
                continue;
            }
            let is_own = self.platform.is_none_or(|platform| file.is_for(platform));
            self.has_files_of_others |= !is_own;
            self.has_own_files |= is_own && file.is_for_one_platform();
            if is_own {
                self.files.push(file);
            }
        }
    }

    /// Fails if all packages with programs are for other platforms.
    pub fn ensure_for_platform(&self) -> Result<()> {
        let Some(platform) = self.platform else {
            return Ok(());
        };
        if self.has_own_files || !self.has_files_of_others {
            return Ok(());
        }
        let refusal =
            format!("`{}` has no packages for {platform}, only for other platforms", self.place);
        Err(anyhow!(No(refusal))).hint(format!(
            "name a set for {platform}, or the platform of this set with `--platform`"
        ))
    }

    /// Whether it has a version of a project.
    pub fn has(&self, project: &str, version: &Version) -> bool {
        self.newest(project, |it| it == version).is_some()
    }
}

impl SetPlace {
    /// What this place offers to installers for a platform, or for any. `None` if it has no package, and no page that
    /// names one. Fails if installers, which have no credentials, cannot read it.
    pub fn offered(&self, platform: Option<Platform>) -> Result<Option<OfferedSet>> {
        self.offered_to(OfferReader::Installer, platform)
    }

    /// The same for this program, which reads the files itself.
    pub fn offered_to_us(&self, platform: Option<Platform>) -> Result<Option<OfferedSet>> {
        self.offered_to(OfferReader::Ourselves, platform)
    }

    fn offered_to(
        &self,
        reader: OfferReader,
        platform: Option<Platform>,
    ) -> Result<Option<OfferedSet>> {
        let mut denied = None;
        if self.page.is_none()
            && let Some(text) = self.text_unless_denied(&self.path("set.json"), &mut denied)?
        {
            let set = SetJson::parse(&text)
                .with_context(|| format!("failed to read `{}`", self.shown_in_full("set.json")))?;
            return self.offered_by_document(&set, reader, platform).map(Some);
        }
        if let Some(directory) = self.local() {
            if !directory.is_dir() {
                return Ok(None);
            }
            return self.offered_by_directory(platform);
        }
        let mut index = self.offered_by_index("simple/", platform, &mut denied)?;
        if index.is_none() {
            index = self.offered_by_index("", platform, &mut denied)?;
        }
        if let Some(OfferedSet { form: OfferForm::Index { url, .. }, .. }) = &index
            && (reader == OfferReader::Ourselves || self.is_index_for_installers(url, SELECTOR)?)
        {
            return Ok(index);
        }
        // Installers read the page of a set where they cannot read its index.
        let offered = self.offered_by_page(platform, &mut denied)?.or(index);
        match denied {
            // Perhaps the page that was denied would have named packages.
            Some(error) if offered.is_none() => Err(error),
            _ => Ok(offered),
        }
    }

    /// What the index at this place offers. `None` if it has no page of `rocm`, or may not be read.
    pub fn offered_as_index(&self, platform: Option<Platform>) -> Result<Option<OfferedSet>> {
        self.offered_by_index("", platform, &mut None)
    }

    fn offered_by_index(
        &self,
        below: &str,
        platform: Option<Platform>,
        denied: &mut Option<Error>,
    ) -> Result<Option<OfferedSet>> {
        let path = self.path(below);
        let Some(files) = self.offered_by_project(&path, SELECTOR, denied)? else {
            return Ok(None);
        };
        let url = self.url_of(&Address::here(path.clone()))?;
        let form = OfferForm::Index { url, path };
        Ok(Some(self.offered_set(files, platform, form)))
    }

    /// The text of a page, if there is one. A web server in front of a bucket that may not be listed
    /// denies what does not exist, so the search for another page goes on.
    fn text_unless_denied(&self, path: &str, denied: &mut Option<Error>) -> Result<Option<String>> {
        let is_refusal = |error: &Error| failure(error) == Some(StoreFailureKind::Denied);
        match self.text(path) {
            Err(error) if self.kind == PlaceKind::Web && is_refusal(&error) => {
                denied.get_or_insert(error);
                Ok(None)
            }
            answer => answer,
        }
    }

    /// Adds the files of a project to what an index offers. Other places have told all their files.
    pub fn offer_project(&self, offered: &mut OfferedSet, project: &str) -> Result<()> {
        let OfferForm::Index { path, .. } = &offered.form else {
            return Ok(());
        };
        let mut files = offered.files.iter();
        if !files.any(|it| it.project.normalized() == project) {
            let files = self.offered_by_project(path, project, &mut None)?.unwrap_or_default();
            offered.add(files);
        }
        Ok(())
    }

    /// Adds the files of the wanted projects that the first page of an index names, and returns the projects whose pages
    /// could not be read. Other places have told all their files.
    pub fn offer_projects(
        &self,
        offered: &mut OfferedSet,
        is_wanted: impl Fn(&DistName) -> bool,
    ) -> Result<Vec<UnreadProject>> {
        let OfferForm::Index { path, .. } = &offered.form else {
            return Ok(Vec::new());
        };
        // The public registry has some 700,000 projects.
        let mut projects = self.projects_of_index(path)?;
        projects.retain(is_wanted);
        let read = |project: &DistName| {
            let files = self.offered_by_project(path, project.normalized(), &mut None);
            self.stop.check()?;
            // The other projects can be listed without this one.
            let unread =
                |error| UnreadProject { project: project.clone(), reason: one_line(&error) };
            Ok(files.map_err(unread))
        };
        let pages = parallel::map(&projects, self.requests(), &self.stop, read)?;
        let (files, unread): (Vec<_>, Vec<_>) = pages.into_iter().partition_result();
        offered.add(files.into_iter().flatten().flatten().collect());
        Ok(unread)
    }

    /// The projects that the first page of an index names, without `rocm`, whose page has been read.
    fn projects_of_index(&self, path: &str) -> Result<Vec<DistName>> {
        // Some stores have no page under the address of a directory.
        let mut page = self.text_unless_denied(path, &mut None)?;
        if page.is_none() {
            page = self.text_unless_denied(&format!("{path}index.html"), &mut None)?;
        }
        let text = page.unwrap_or_default();
        let names = if parse::is_json(&text) {
            parse::json_projects(&text)?
        } else {
            let links = parse::links(&text)?;
            // A link that leads nowhere names no project.
            links.iter().filter_map(|link| parse::linked_project(path, link).ok()?).collect()
        };
        let projects = names.iter().filter_map(|name| name.parse::<DistName>().ok());
        Ok(projects.filter(|project| project.normalized() != SELECTOR).unique().collect())
    }

    /// Reads the metadata of a package: the file beside a wheel, or what is inside of the package.
    pub fn metadata_of(&self, file: &OfferedFile) -> Result<Metadata> {
        let read = || -> Result<Metadata> {
            let address = &file.address;
            if file.has_sidecar {
                let path = format!("{}{SIDECAR}", address.path);
                let origin = address.origin.clone();
                if let Some(sidecar) = self.bytes(&Address { origin, path })? {
                    return named_metadata(&sidecar, &file.name);
                }
            }
            let listed = self.package(&file.name, address)?;
            let package =
                listed.context("it is gone").map_err(|error| hinted(error, self.check_hint()))?;
            let metadata = package.metadata();
            // How the reading failed says more than what is wrong with a half of the metadata.
            package.outcome()?;
            named_metadata(&metadata?, &file.name)
        };
        read().with_context(|| format!("failed to read the metadata of `{}`", file.name))
    }

    /// The hint for a file that is named and not there.
    pub(super) fn check_hint(&self) -> String {
        let place = shell_word(&self.to_string());
        format!("`rocwheel check {place}` says whether the set is complete")
    }

    fn offered_set(
        &self,
        files: Vec<OfferedFile>,
        platform: Option<Platform>,
        form: OfferForm,
    ) -> OfferedSet {
        let mut offered = OfferedSet {
            place: self.to_string(),
            files: Vec::new(),
            variants: Vec::new(),
            is_described: false,
            platform,
            has_own_files: false,
            has_files_of_others: false,
            form,
        };
        offered.add(files);
        offered
    }

    pub(super) fn url_of(&self, address: &Address) -> Result<String> {
        let path = encode_path(&address.path);
        if let Some(origin) = &address.origin {
            return Ok(format!("{origin}/{path}"));
        }
        let shown = self.below_set(&address.path);
        match &self.kind {
            PlaceKind::Bucket(urls) => Ok(urls.path(&shown)),
            PlaceKind::Web => Ok(format!("{}/{path}", self.store)),
            PlaceKind::Directory(root) => {
                Ok(format!("{}{}", urls_of_directory(root)?, encode_path(&shown)))
            }
        }
    }

    fn offered_by_document(
        &self,
        set: &SetJson,
        reader: OfferReader,
        platform: Option<Platform>,
    ) -> Result<OfferedSet> {
        let layout = set.layout();
        let families = set.own_families();
        let listed = set.files.iter().filter(|file| file.yanked.is_none());
        let offered = listed.map(|file| {
            let address = Address::here(self.path(&file.path));
            Ok(OfferedFile {
                name: file.name().to_owned(),
                url: self.url_of(&address)?,
                sha256: Some(file.sha256),
                size: Some(file.size),
                project: file.project.clone(),
                version: file.version.clone(),
                family: file.family().filter(|family| families.contains(family)),
                address,
                has_sidecar: false,
            })
        });
        let files = offered.collect::<Result<Vec<_>>>()?;
        let form = match &self.kind {
            PlaceKind::Directory(_) => self.directories(&[layout])?,
            PlaceKind::Bucket(_) | PlaceKind::Web if reader == OfferReader::Ourselves => {
                OfferForm::Document { urls: self.urls()?.in_layout(layout), has_index: true }
            }
            PlaceKind::Bucket(urls) => {
                self.form_for_installers(urls.clone().in_layout(layout), &files)?
            }
            PlaceKind::Web => self.form_for_installers(self.urls()?.in_layout(layout), &files)?,
        };
        Ok(OfferedSet { is_described: true, ..self.offered_set(files, platform, form) })
    }

    /// How installers read the set, which they do without credentials.
    fn form_for_installers(&self, urls: Urls, files: &[OfferedFile]) -> Result<OfferForm> {
        let form = |urls, has_index| Ok(OfferForm::Document { urls, has_index });
        let Some(file) = files.first() else {
            return form(urls, true);
        };
        let family_urls = file.family.as_ref().map(|family| urls.of_family(family));
        let urls_of_file = family_urls.as_ref().unwrap_or(&urls);
        let project = file.project.normalized();
        if self.is_index_for_installers(&urls_of_file.index(), project)? {
            return form(urls, true);
        }
        let page = urls_of_file.find_links();
        // Another server may answer in its place, such as one that asks who the user is.
        let refusal = match self.page_lists(&page, project)? {
            Ok(true) => return form(urls, false),
            Ok(false) => anyhow!("`{page}` has no link to a package of `{project}`")
                .context(format!("installers cannot find the packages of `{self}`")),
            Err(error) if error.kind() == StoreFailureKind::Denied => anyhow!(error).context(
                format!("`{self}` can only be read with credentials, which installers do not have"),
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("installers cannot read `{self}`"));
            }
        };
        Err(refusal).hint(format!(
            "copy it to a directory with `rocwheel promote {self} --to same --into DIR`, and install `DIR`"
        ))
    }

    /// Whether installers can read the index at an address: some servers answer the address of a directory with
    /// something else than its page.
    fn is_index_for_installers(&self, index: &str, project: &str) -> Result<bool> {
        let answer = self.page_lists(&format!("{index}{project}/"), project)?;
        Ok(answer.unwrap_or(false))
    }

    /// Whether a page has a link to a package of a project. Reads it as installers do, without credentials.
    fn page_lists(&self, url: &str, project: &str) -> Result<Result<bool, StoreError>> {
        let (store, key) = HttpStore::of_url(url, &self.stop)?;
        let reader = match store.get(&key, Span::Whole) {
            Ok(reader) => reader,
            Err(error) => return Ok(Err(error)),
        };
        let mut bytes = Vec::new();
        reader.take(LONGEST_PAGE).read_to_end(&mut bytes)?;
        let links = parse::links(&String::from_utf8_lossy(&bytes)).unwrap_or_default();
        Ok(Ok(links.iter().filter(|link| link.claim.yanked.is_none()).any(|link| {
            let address = parse::resolve("", &link.href).ok();
            let package =
                address.filter(|it| is_package(&it.path)).and_then(|it| identity(&it.path));
            package.is_some_and(|(name, _)| name.normalized() == project)
        })))
    }

    /// Addresses, because a path may have spaces, which a requirements file cannot have.
    fn directories(&self, layouts: &[Layout]) -> Result<OfferForm> {
        let root = self.local().unwrap_or(".".as_ref());
        let addresses = layouts.iter().map(|layout| {
            let address = urls_of_directory(&root.join(layout.files()))?;
            Ok(address.to_string())
        });
        Ok(OfferForm::Directory(addresses.collect::<Result<_>>()?))
    }

    fn offered_by_directory(&self, platform: Option<Platform>) -> Result<Option<OfferedSet>> {
        let layouts = self.layouts(PackageDirectories::Built)?;
        let packages = self.packages(PackageDirectories::Built)?;
        let offered = packages.iter().filter_map(|package| {
            let address = Address::here(package.path());
            let family = self.family_of(&address);
            let claim = FileClaim { size: Some(package.size), ..FileClaim::default() };
            let offered = self.offered_file(address, &claim)?;
            Some(offered.map(|file| OfferedFile { family, ..file }))
        });
        let files = offered.collect::<Result<Vec<_>>>()?;
        let form = self.directories(&layouts)?;
        Ok((!files.is_empty()).then(|| self.offered_set(files, platform, form)))
    }

    /// The family in whose directory a file is.
    fn family_of(&self, address: &Address) -> Option<ArtifactGroup> {
        let path = self.below_set(&address.path);
        let (family, _) = Layout::of(&path).1.split_once('/')?;
        ArtifactGroup::of_directory(family).ok()
    }

    /// The files on the page of a project, below the page of an index.
    fn offered_by_project(
        &self,
        index: &str,
        project: &str,
        denied: &mut Option<Error>,
    ) -> Result<Option<Vec<OfferedFile>>> {
        let mut unreadable = None;
        // Some stores have no page under the address of a directory.
        for end in ["", "index.html"] {
            let page = format!("{index}{project}/");
            let Some(html) = self.text_unless_denied(&format!("{page}{end}"), denied)? else {
                continue;
            };
            let mut files = match self.linked_files(&page, &html) {
                Ok(files) => files,
                // A web server may answer for any directory with a document that is no page.
                Err(error) => {
                    unreadable.get_or_insert(error);
                    continue;
                }
            };
            files.retain(|file| file.project.normalized() == project);
            // A web server may answer for any directory with a list of its files.
            if !files.is_empty() {
                return Ok(Some(files));
            }
        }
        unreadable.map_or(Ok(None), Err)
    }

    /// The files of the page that the user named, or of the find-links page of a set.
    fn offered_by_page(
        &self,
        platform: Option<Platform>,
        denied: &mut Option<Error>,
    ) -> Result<Option<OfferedSet>> {
        let pages = match &self.page {
            Some(page) => vec![page.clone()],
            None => vec![self.path("dist/index.html"), self.path("index.html"), self.path("")],
        };
        for path in pages.into_iter().filter(|path| !path.is_empty()) {
            let Some(html) = self.text_unless_denied(&path, denied)? else {
                continue;
            };
            let files = self.linked_files(&path, &html)?;
            if !files.is_empty() {
                let form = OfferForm::Page(self.url_of(&Address::here(path))?);
                return Ok(Some(self.offered_set(files, platform, form)));
            }
        }
        Ok(None)
    }

    /// The packages of a page, each once, without those that are yanked.
    fn linked_files(&self, page: &str, html: &str) -> Result<Vec<OfferedFile>> {
        let links = parse::links(html)?.into_iter();
        let offered = links.filter(|link| link.claim.yanked.is_none()).filter_map(|link| {
            let address = parse::resolve(page, &link.href).ok()?;
            self.offered_file(address, &link.claim)
        });
        let files = offered.collect::<Result<Vec<_>>>()?;
        Ok(files.into_iter().unique_by(|file| file.name.clone()).collect())
    }

    /// The package at an address. `None` if no package has such a name.
    fn offered_file(&self, address: Address, claim: &FileClaim) -> Option<Result<OfferedFile>> {
        let name = address.path.rsplit('/').next()?.to_owned();
        let (project, version) = identity(&name).filter(|_| is_package(&name))?;
        Some(self.url_of(&address).map(|url| OfferedFile {
            name,
            url,
            sha256: claim.sha256,
            size: claim.size,
            project,
            version,
            family: None,
            address,
            has_sidecar: claim.has_metadata,
        }))
    }

    /// Whether the set is whole: `upload` writes `set.json` last.
    pub fn is_whole(&self) -> Result<bool> {
        let key = self.key("set.json")?;
        Ok(none_if_missing(self.store.head(&key))?.is_some())
    }
}
