//! Lists the packages and sidecars of a place, and [`StoredPackage`]: a wheel or sdist at any place,
//! read as streams.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io::{self, BufReader, Read, Seek},
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use fs_err as fs;
use itertools::Itertools as _;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    object_memory::ListedIdentity,
    read_packages::metadata_text,
    set_place::{PackageDirectories, PlaceKind, SetPlace, none_if_missing},
};
use crate::{
    index::{
        BundledRocm, Layout, TIE_RECORD,
        package_file::{SIDECAR, SetStamp, is_package, is_variants_json, is_wheel},
        pages::content_type,
        parse::Address,
        set_json::{PART, SetJson},
    },
    run::ArtifactGroup,
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, Hint as _, Result, anyhow},
    io::{FileIdentity, read_text},
};
use rocwheel_store::{
    CopySource, Depth, Object, Ranged, Span, Store, StoreError, StoreFailureKind, location::Key,
};
use rocwheel_wheel::{VariantDocument, VariantLabel, read_variant, read_with_record};

/// A package or sidecar in the directory of packages, or in the directory of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedPackage {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) stamp: SetStamp,
    /// When it was uploaded. `None` in a local directory, where a modification time does not say
    /// it.
    pub(super) uploaded: Option<SystemTime>,
}

impl ListedPackage {
    /// `2026-03-01T12:00:05Z`. `None` if it is not known, or a time that no calendar has.
    pub(super) fn upload_time(&self) -> Option<String> {
        let seconds = self.uploaded?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let time = OffsetDateTime::from_unix_timestamp(seconds.try_into().ok()?).ok()?;
        time.format(&Rfc3339).ok()
    }
}

/// Which files of a set decide whether it is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFiles {
    Packages,
    PackagesAndPages,
}

impl SetFiles {
    pub fn name(self) -> &'static str {
        match self {
            Self::Packages => "packages",
            Self::PackagesAndPages => "packages and pages",
        }
    }
}

impl SetPlace {
    /// Lists all packages and sidecars, with those in the directories of families.
    pub(super) fn files(&self, layouts: &[Layout]) -> Result<Vec<ListedPackage>> {
        let mut objects = HashMap::new();
        for layout in layouts {
            objects.extend(match (layout, self.local()) {
                // A flat directory may be a user's download directory, with other files at any depth.
                // List only the levels that can hold packages.
                (Layout::Flat, Some(_)) => {
                    let families = self.flat_families();
                    let families =
                        families.hint("pass the directory that `rocwheel build` wrote to")?;
                    let mut listed = self.list("", Depth::Children)?;
                    for name in families {
                        listed.extend(self.list(&format!("{name}/"), Depth::Children)?);
                    }
                    listed
                }
                _ => self.list(layout.files(), Depth::All)?,
            });
        }
        Ok(self.files_among(layouts, &objects))
    }

    /// The layouts of the directories that have the packages, and the packages and sidecars in them. A bucket is listed
    /// once: a large one has many pages of keys.
    pub(super) fn package_files(
        &self,
        directories: PackageDirectories,
    ) -> Result<(Vec<Layout>, Vec<ListedPackage>)> {
        if self.local().is_some() || directories == PackageDirectories::Built {
            let layouts = self.layouts(directories)?;
            let files = self.files(&layouts)?;
            return Ok((layouts, files));
        }
        let objects: HashMap<String, Object> = self.list("", Depth::All)?.into_iter().collect();
        let layouts = layouts_among(&objects);
        let files = self.files_among(&layouts, &objects);
        Ok((layouts, files))
    }

    /// A digest of files of a local set and of the text of its `set.json`, without reading a package: it changes
    /// with each of them. `None` if there is no `set.json`, or if a file is so young that its next change might
    /// not show.
    pub fn state(&self, files: SetFiles) -> Result<Option<Sha256>> {
        let Some(root) = self.local() else {
            return Ok(None);
        };
        let description = root.join("set.json");
        if !description.is_file() {
            return Ok(None);
        }
        let listed = self.files(&self.layouts(PackageDirectories::All)?)?.into_iter();
        let packages = listed.filter(|file| is_package(&file.name)).map(|file| file.path);
        let mut paths: BTreeSet<String> = packages.collect();
        if files == SetFiles::PackagesAndPages {
            for (below, depth) in
                [("", Depth::Children), ("dist/", Depth::All), ("simple/", Depth::All)]
            {
                let is_page = |path: &String| {
                    content_type(path).starts_with("text/html")
                        || path == "SHA256SUMS"
                        || is_variants_json(path)
                        || path.ends_with(SIDECAR)
                };
                let pages = self.list(below, depth)?.into_iter().map(|(path, _)| path);
                paths.extend(pages.filter(is_page));
            }
        }
        let now = SystemTime::now();
        let mut identities = BTreeMap::new();
        for path in paths {
            let identity = FileIdentity::of(&root.join(&path))?;
            if !identity.is_settled(now) {
                return Ok(None);
            }
            identities.insert(path, identity);
        }
        let state = (Sha256::of(read_text(&description)?.as_bytes()).to_string(), identities);
        Ok(Some(Sha256::of(&serde_json::to_vec(&state)?)))
    }

    /// See [`state_among`]. `None` if the listing does not say enough, or if this machine remembers nothing of the place.
    pub fn state_in_bucket(&self) -> Result<Option<Sha256>> {
        if self.caches().is_none() {
            return Ok(None);
        }
        let objects: HashMap<String, Object> = self.list("", Depth::All)?.into_iter().collect();
        let document = match objects.get("set.json") {
            Some(_) => self.find_set_json()?,
            None => None,
        };
        Ok(state_among(&objects, document.as_ref()))
    }

    /// The packages and sidecars of some layouts among listed objects.
    pub(super) fn files_among(
        &self,
        layouts: &[Layout],
        objects: &HashMap<String, Object>,
    ) -> Vec<ListedPackage> {
        let groups = groups(objects.keys());
        let packages = objects.iter().filter_map(|(path, object)| {
            let (layout, _) = Layout::of(path);
            let is_wanted = layouts.contains(&layout);
            is_wanted.then(|| self.listed(layout, &groups, path, object))?
        });
        packages.collect()
    }

    /// The directories of families in a local flat directory.
    pub(super) fn flat_families(&self) -> Result<Vec<String>> {
        let Some(root) = self.local() else {
            return Ok(Vec::new());
        };
        let mut families = Vec::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_family(&name, Layout::Flat) && entry.file_type()?.is_dir() {
                families.push(name);
            }
        }
        Ok(families)
    }

    /// The packages and sidecars directly in a directory, among listed objects, sorted.
    pub(super) fn listed_below(
        &self,
        directory: &str,
        objects: &HashMap<String, Object>,
    ) -> Vec<ListedPackage> {
        let listed = objects.iter().filter_map(|(path, object)| {
            let name = path.strip_prefix(directory)?.strip_prefix('/')?;
            (is_package(name) && !name.contains('/')).then(|| self.entry(path, name, object))
        });
        listed.sorted_by(|a, b| a.path.cmp(&b.path)).collect()
    }

    /// The package or sidecar that an object is in a layout.
    fn listed(
        &self,
        layout: Layout,
        groups: &HashSet<String>,
        path: &str,
        object: &Object,
    ) -> Option<ListedPackage> {
        let below = path.strip_prefix(layout.files())?;
        let name = match below.split_once('/') {
            Some((family, _))
                if groups.contains(&path[..path.len() - below.len() + family.len()]) =>
            {
                return None;
            }
            Some((family, name)) if is_family(family, layout) => name,
            _ => below,
        };
        // A file at a deeper level is not a package of the set.
        let is_wanted = is_package(name) || name.ends_with(".whl.metadata");
        (is_wanted && !name.contains('/') && !name.starts_with('.'))
            .then(|| self.entry(path, name, object))
    }

    /// A file on this disk gets neither an `ETag` nor a time: the digest cache knows it better.
    fn entry(&self, path: &str, name: &str, object: &Object) -> ListedPackage {
        let is_local = self.local().is_some();
        ListedPackage {
            path: path.to_owned(),
            name: name.to_owned(),
            stamp: if is_local {
                SetStamp { size: object.size, etag: None }
            } else {
                stamp_of(object)
            },
            uploaded: object.modified.filter(|_| !is_local),
        }
    }

    /// Lists the packages, also in the directories of families, each name once. A web server
    /// cannot be listed, so the result is empty.
    pub(super) fn packages(&self, directories: PackageDirectories) -> Result<Vec<StoredPackage>> {
        if self.kind == PlaceKind::Web {
            return Ok(Vec::new());
        }
        let (layouts, files) = self.package_files(directories)?;
        each_once(files, layouts[0])
            .iter()
            .filter(|file| is_package(&file.name))
            .map(|file| {
                let name = Layout::of(&file.path).1.to_owned();
                let key = self.key(&file.path)?;
                Ok(StoredPackage::new(name, &self.store, key, file.stamp.size))
            })
            .collect()
    }

    /// A package, not opened yet. `None` if it does not exist.
    pub(super) fn package(&self, name: &str, address: &Address) -> Result<Option<StoredPackage>> {
        let path = &address.path;
        let Ok(key) = path.parse::<Key>() else {
            return Ok(None);
        };
        let store = self.store_of(address)?;
        let object = none_if_missing(store.head(&key))
            .with_context(|| format!("failed to look for `{path}` in `{store}`"))?;
        Ok(object.map(|object| StoredPackage::new(name.to_owned(), &store, key, object.size)))
    }

    /// Reads a document such as `set.json`, and when it was written. `None` if the place has none, and for no
    /// other reason: a command that goes on without it would publish the packages without their run, and drop
    /// their yanks.
    pub(super) fn find_document(
        &self,
        name: &str,
    ) -> Result<Option<(SetJson, Option<SystemTime>)>> {
        let reading = || format!("failed to read `{}`", self.shown_in_full(name));
        let key = self.key(name)?;
        let object = match none_if_missing(self.store.head(&key)) {
            // A web server in front of a bucket that may not be listed denies what does not exist.
            Err(error)
                if self.kind == PlaceKind::Web && error.kind() == StoreFailureKind::Denied =>
            {
                None
            }
            answer => answer.with_context(reading)?,
        };
        let Some(object) = object else {
            return Ok(None);
        };
        let lost = || StoreError::new(StoreFailureKind::NotFound, &key);
        let text = self.text(key.as_str())?.with_context(lost).with_context(reading)?;
        // JSON begins with no `<`, and the page of a portal with nothing else.
        let hint = if text.trim_start().starts_with('<') {
            "open the address: a portal or a proxy has answered with a page"
        } else {
            "remove it, so that it is written again"
        };
        let document = SetJson::parse(&text).with_context(reading).hint(hint)?;
        Ok(Some((document, object.modified)))
    }
}

/// A digest of the packages among the objects of a bucket, as they are listed, and of what `set.json` says of them.
pub(super) fn state_among(
    objects: &HashMap<String, Object>,
    document: Option<&SetJson>,
) -> Option<Sha256> {
    let is_input = |path: &str| is_package(path) || path == PART;
    let inputs = objects.iter().filter(|(path, _)| is_input(path));
    let identities = inputs
        .map(|(path, object)| Some((path.as_str(), ListedIdentity::of(object)?)))
        .collect::<Option<BTreeMap<_, _>>>()?;
    // What is remembered of the objects says nothing about the packages.
    let text = document.map(|document| {
        let mut document = document.clone();
        document.files.iter_mut().for_each(|file| file.remembered = None);
        document.pretty()
    });
    Some(Sha256::of(&serde_json::to_vec(&(text, identities)).ok()?))
}

/// The layouts of the packages among the objects of a bucket. The first one is the layout of the set.
fn layouts_among(objects: &HashMap<String, Object>) -> Vec<Layout> {
    let has_dist = objects.keys().any(|path| path.starts_with(Layout::Dist.files()));
    if has_dist { vec![Layout::Dist, Layout::Flat] } else { vec![Layout::Flat] }
}

/// Size and `ETag` of an object in a bucket.
pub(super) fn stamp_of(object: &Object) -> SetStamp {
    SetStamp { size: object.size, etag: object.etag.clone() }
}

/// Leaves out the second of two files of one name, which is not the one in `layout`.
pub(super) fn each_once(files: Vec<ListedPackage>, layout: Layout) -> Vec<ListedPackage> {
    let is_second = |file: &ListedPackage| Layout::of(&file.path).0 != layout;
    files
        .into_iter()
        .sorted_by_key(|file| (is_second(file), file.path.clone()))
        .unique_by(|file| Layout::of(&file.path).1.to_owned())
        .collect()
}

/// The directories that are sets of their own, uploaded with `--artifact-group`, and not families of
/// this one.
fn groups<'a>(paths: impl Iterator<Item = &'a String>) -> HashSet<String> {
    let documents = paths.filter_map(|path| {
        let (directory, name) = path.rsplit_once('/')?;
        ["set.json", PART].contains(&name).then(|| directory.to_owned())
    });
    documents.collect()
}

/// Whether a directory has the packages of a family. A flat directory may have any subdirectories, so in
/// it the name must begin with `gfx`.
pub(super) fn is_family(name: &str, layout: Layout) -> bool {
    let is_likely = layout == Layout::Dist || name.starts_with("gfx");
    is_likely && !name.is_empty() && ArtifactGroup::of_directory(name).is_ok()
}

/// The longest `rocm_tie.json` that is read. It has a line for each binary that was tied.
const LONGEST_TIE_RECORD: u64 = 16 << 20;

/// One wheel or sdist.
#[derive(Debug)]
pub struct StoredPackage {
    /// With the directory of its family: `gfx94X-dcgpu/rocm-7.13.0.tar.gz`.
    pub name: String,
    pub size: u64,
    store: Arc<dyn Store>,
    key: Key,
    /// How many bytes were read, by all streams.
    bytes_read: AtomicU64,
    /// The first error of the store while reading. It is not a finding about the package, because
    /// another attempt may succeed.
    failure: Mutex<Option<Error>>,
}

impl StoredPackage {
    pub(super) fn new(name: String, store: &Arc<dyn Store>, key: Key, size: u64) -> Self {
        Self {
            name,
            size,
            store: Arc::clone(store),
            key,
            bytes_read: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// Its path in the store.
    pub fn path(&self) -> &str {
        self.key.as_str()
    }

    /// Where it is for a place: in its store, or on another server.
    pub(super) fn address_from(&self, place: &SetPlace) -> Address {
        let is_elsewhere = !Arc::ptr_eq(&self.store, &place.store);
        let origin = is_elsewhere.then(|| self.store.to_string());
        Address { origin, path: self.path().to_owned() }
    }

    pub(super) fn head(&self) -> Result<Object> {
        let object = self.store.head(&self.key);
        object.with_context(|| format!("failed to read `{}`", self.name))
    }

    /// The object as it is now, if its store can copy it.
    pub fn copy_source(&self) -> Result<Option<CopySource>> {
        Ok(self.store.copy_source(&self.key)?)
    }

    pub fn is_wheel(&self) -> bool {
        is_wheel(&self.name)
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Whether its store sends a part of it if a part is asked for.
    pub fn is_sent_in_ranges(&self) -> Result<bool> {
        let answer = self.store.sends_ranges(&self.key);
        answer.with_context(|| format!("failed to read `{}`", self.name))
    }

    /// How many bytes of it were read so far. A byte that was read twice counts twice.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The error of the store, if one occurred while reading. Call it after reading the package,
    /// before using any findings about it.
    pub fn outcome(&self) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(error) => Err(error).with_context(|| format!("failed to read `{}`", self.name)),
            None => Ok(()),
        }
    }

    /// Records an error of the store, and returns it as an `io::Error`. The reader of the format
    /// reports that one like damage in the file, so the original is kept for `outcome`.
    fn failed(&self, error: Error) -> io::Error {
        let shown = io::Error::other(format!("{error:#}"));
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        shown
    }

    /// Streams the bytes of a range. The stream ends early at the end of the package.
    pub fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let len = range.end.min(self.size).saturating_sub(range.start);
        let reader = self
            .store
            .get(&self.key, Span::Between(range))
            .map_err(|error| self.failed(error.into()))?;
        Ok(Box::new(PackageStream { reader: reader.take(len), package: self }))
    }

    /// METADATA of a wheel, or PKG-INFO of an sdist, read in ranges.
    pub(super) fn metadata(&self) -> Result<Vec<u8>> {
        metadata_text(self.reader(), &self.name)
    }

    /// What the label of a variant wheel means.
    pub(super) fn variant(&self, label: &VariantLabel) -> Result<VariantDocument> {
        read_variant(self.reader(), label).context("failed to read `variant.json`")
    }

    /// Reads the package in ranges.
    pub(super) fn reader(&self) -> impl Read + Seek {
        let read = |range: Range<u64>| {
            let len = range.end.saturating_sub(range.start);
            let mut bytes = Vec::with_capacity(usize::try_from(len).map_err(io::Error::other)?);
            self.stream(range)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        BufReader::new(Ranged::new(self.size, read))
    }
}

/// The ROCm packages that a wheel of others has in it.
pub(super) fn bundled_rocm(wheel: impl Read + Seek) -> Result<Option<BundledRocm>> {
    let read = read_with_record(wheel, TIE_RECORD, LONGEST_TIE_RECORD)
        .with_context(|| format!("failed to read `{TIE_RECORD}`"))?;
    Ok(read.and_then(|(tie_record, record)| {
        let files = record.rows().iter().map(|row| (row.path.as_str(), row.digest));
        BundledRocm::read(&tie_record, files)
    }))
}

/// One package of each store, and none that is empty.
pub fn one_of_each_store(packages: &[StoredPackage]) -> impl Iterator<Item = &StoredPackage> {
    let with_bytes = packages.iter().filter(|package| package.size > 0);
    with_bytes.unique_by(|package| Arc::as_ptr(&package.store).cast::<()>())
}

struct PackageStream<'a> {
    reader: io::Take<Box<dyn Read + Send>>,
    package: &'a StoredPackage,
}

impl Read for PackageStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer).map_err(|error| self.package.failed(error.into()))?;
        if count == 0 && self.reader.limit() > 0 && !buffer.is_empty() {
            let error = anyhow!("it became shorter while it was read");
            return Err(self.package.failed(error));
        }
        self.package.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
