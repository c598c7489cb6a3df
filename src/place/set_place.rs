//! [`SetPlace`]: a directory that holds a set, on this machine, in a bucket or on a web server. The
//! other files of `place` read and write through it.

use std::{
    collections::BTreeMap,
    fmt,
    io::Read as _,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use fs_err as fs;

use super::{
    directory_url::urls_of_directory,
    object_memory::ObjectMemory,
    place_arg::{PlaceArg, WebAddress},
};
use crate::{
    index::{
        Layout, Urls,
        package_file::is_package,
        parse::Address,
        set_json::{SetJson, TOP},
    },
    run::{Buckets, ForeignCode, RunPlace},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Error, Hint as _, Result, Stop, anyhow, bail, ensure},
    version::Version,
};
use rocwheel_store::{
    self, Depth, Endpoint, Object, Origin, Span, Store, StoreError, StoreFailureKind,
    local::LocalStore,
    location::{Bucket, Key, Location},
    s3::Access,
    unseen::UnseenStore,
};

/// The largest page, document or sidecar that is read into memory. A `set.json` of 100,000 files
/// has 30 MiB.
pub(super) const LONGEST_PAGE: u64 = 256 << 20;
const PAGE: &str = ".html";

/// Which directories of a place have its packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackageDirectories {
    /// What `build` wrote: `dist` if it exists, otherwise the directory itself.
    #[default]
    Built,
    /// `dist` and the directory itself: several programs publish there.
    All,
}

/// A directory of a store that holds a set.
#[derive(Debug)]
pub struct SetPlace {
    pub(super) store: Arc<dyn Store>,
    /// The directory of the set in the store: empty, or ending in `/`.
    top: String,
    /// The HTML page that the user named, such as `links.html`. `None` for pages that every set
    /// has, such as `simple/`.
    pub(super) page: Option<String>,
    pub(super) kind: PlaceKind,
    /// The bucket that it is in.
    bucket: Option<Bucket>,
    /// Whether pages are also stored under keys that end in `/`, which installers request. Some
    /// servers reject such keys.
    pub directory_pages: bool,
    /// The version to read, of an index that has several. `None` is the newest.
    pub version: Option<Version>,
    /// Connections to other servers that the pages link to, by origin.
    other_servers: Mutex<BTreeMap<String, Arc<dyn Store>>>,
    /// Whether the server has failed for a key that ends in `/`.
    keys_fail: AtomicBool,
    /// What this machine knows of a bucket. Boxed, because few places have it.
    memory: Option<Box<ObjectMemory>>,
    pub(super) stop: Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Directory(PathBuf),
    /// With the public URLs of the set.
    Bucket(Urls),
    Web,
}

impl SetPlace {
    /// Opens a set for reading.
    pub fn open(
        place: &PlaceArg,
        access: impl FnOnce(Option<&str>) -> Result<Access>,
        stop: &Stop,
    ) -> Result<Self> {
        match place {
            PlaceArg::Directory(path) => Self::existing(path, stop),
            PlaceArg::Bucket(location) => Self::bucket(location, access, stop),
            PlaceArg::Web(address) => Self::web(address, stop),
        }
    }

    /// Opens a set in a directory that must exist.
    pub(super) fn existing(place: &Path, stop: &Stop) -> Result<Self> {
        if !place.exists() {
            return Err(anyhow!("no such directory: `{}`", place.display()))
                .hint("pass the directory that `rocwheel build` wrote to");
        }
        if place.is_file() {
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            let noun = if is_package(&name) { "package" } else { "file" };
            let shown = place.display();
            return Err(anyhow!("`{shown}` is one {noun}, and not a set"))
                .hint("pass the directory that it lies in");
        }
        let directory = match place.parent() {
            Some(parent) if is_index_of_set(place) => parent,
            _ => place,
        };
        // The parent of `simple` is empty.
        let is_current = directory.as_os_str().is_empty();
        Ok(Self::directory(if is_current { Path::new(".") } else { directory }, stop))
    }

    /// The hint for a place without packages.
    pub(super) fn hint_for_no_packages(&self) -> String {
        let otherwise = || "pass the directory that `rocwheel build` wrote to".to_owned();
        self.hint_below().unwrap_or_else(otherwise)
    }

    /// The hint with the directory that `pipeline` or `build` puts packages into, if this is the
    /// directory around it.
    pub fn hint_below(&self) -> Option<String> {
        let root = self.local()?;
        let directories = ["packages", "python"].map(|name| root.join(name));
        let packages = directories.iter().find(|it| it.join("dist").is_dir())?;
        Some(format!("pass `{}`, which has packages", packages.display()))
    }

    /// A local directory. A package in it may be a symlink to a file.
    pub fn directory(root: &Path, stop: &Stop) -> Self {
        let store = Arc::new(LocalStore::following_links(root));
        let kind = PlaceKind::Directory(root.to_owned());
        Self::new(store, String::new(), kind, stop)
    }

    /// A directory of a local tree that has the layout of a bucket.
    pub fn below(root: &Path, directory: &Key, stop: &Stop) -> Self {
        let kind = PlaceKind::Directory(root.join(directory.to_path().as_str()));
        let top = directory.directory().as_str().to_owned();
        Self::new(Arc::new(LocalStore::new(root)), top, kind, stop)
    }

    /// A directory of a bucket. `access` gets the region if it is one of TheRock's buckets.
    pub fn bucket(
        place: &Location,
        access: impl FnOnce(Option<&str>) -> Result<Access>,
        stop: &Stop,
    ) -> Result<Self> {
        let known = Buckets::builtin().find(&place.bucket);
        let access = access(known.map(|it| it.region.as_str()))?;
        let store = rocwheel_store::open(&Origin::Bucket(place.bucket.clone()), &access, stop)
            .with_context(|| format!("failed to reach `{place}`"))?;
        let urls = access.url(&place.directory()).parse()?;
        let bucket = Some(place.bucket.clone());
        let place = Self::of_store(store, &place.key, urls, stop);
        Ok(Self { bucket, ..place })
    }

    /// The same place as if it had nothing, for a plan that is made without the network.
    #[must_use]
    pub fn assumed_empty(self) -> Self {
        let store = Arc::new(UnseenStore::in_place_of(&*self.store));
        Self { store, memory: None, ..self }
    }

    /// The same place, of which this machine keeps what it knows in a directory below this one.
    #[must_use]
    pub fn remembered_in(self, directory: Option<&Path>) -> Self {
        let (PlaceKind::Bucket(urls), Some(directory)) = (&self.kind, directory) else {
            return self;
        };
        // An address may be longer than a file name.
        let directory = directory.join(Sha256::of(urls.path("").as_bytes()).to_string());
        Self { memory: Some(Box::new(ObjectMemory::in_directory(directory))), ..self }
    }

    /// What this machine knows of the objects of a bucket.
    pub(super) fn memory(&self) -> Option<&ObjectMemory> {
        self.memory.as_deref()
    }

    /// Where this machine keeps what it knows of a place in a bucket.
    pub fn caches(&self) -> Option<&Path> {
        Some(self.memory.as_ref()?.directory())
    }

    /// A directory of any store with exact keys, like a bucket.
    pub fn of_store(store: Arc<dyn Store>, directory: &Key, urls: Urls, stop: &Stop) -> Self {
        let top = directory.directory().as_str().to_owned();
        Self::new(store, top, PlaceKind::Bucket(urls), stop)
    }

    fn web(address: &WebAddress, stop: &Stop) -> Result<Self> {
        let (top, page) = top_of(&address.path);
        let store = connect(address.origin.clone(), stop)?;
        let place = Self::new(store, top, PlaceKind::Web, stop);
        Ok(Self { page, ..place })
    }

    fn new(store: Arc<dyn Store>, top: String, kind: PlaceKind, stop: &Stop) -> Self {
        Self {
            store,
            top,
            page: None,
            kind,
            bucket: None,
            directory_pages: true,
            version: None,
            other_servers: Mutex::default(),
            keys_fail: AtomicBool::new(false),
            memory: None,
            stop: stop.clone(),
        }
    }

    /// The argument that names this place, from any directory.
    pub fn argument(&self) -> Result<String> {
        match self.local() {
            Some(root) => Ok(std::path::absolute(root)?.display().to_string()),
            None => Ok(match &self.page {
                Some(page) => format!("{}/{page}", self.store),
                None => self.to_string(),
            }),
        }
    }

    /// The path of the set, if it is a local directory.
    pub fn local(&self) -> Option<&Path> {
        match &self.kind {
            PlaceKind::Directory(root) => Some(root),
            PlaceKind::Bucket(_) | PlaceKind::Web => None,
        }
    }

    /// Fails if the code of a set is not the repository's own, and the bucket takes no such code.
    pub fn ensure_takes(&self, code: Option<&ForeignCode>) -> Result<()> {
        match (&self.bucket, code) {
            (Some(bucket), Some(code)) => {
                Buckets::builtin().ensure_takes_forks(bucket, &code.to_string())
            }
            _ => Ok(()),
        }
    }

    /// How many requests are sent at the same time. A request to a server mostly waits for the server, and the store
    /// bounds the memory of all requests together.
    pub(super) fn requests(&self) -> NonZeroUsize {
        const TO_SERVER: NonZeroUsize = NonZeroUsize::new(128).unwrap();
        const TO_DISK: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        if self.local().is_some() { TO_DISK } else { TO_SERVER }
    }

    /// Whether the place is a directory on the same disk as another one. Files can then be linked.
    pub(super) fn is_on_disk_of(&self, root: &Path) -> bool {
        self.local().is_some_and(|local| is_on_one_disk(local, root))
    }

    /// The public URLs of a set in a bucket. A directory has the address of its server, which is not known.
    pub(super) fn public_urls(&self) -> Option<&Urls> {
        match &self.kind {
            PlaceKind::Bucket(urls) => Some(urls),
            PlaceKind::Directory(_) | PlaceKind::Web => None,
        }
    }

    /// The public URLs of the set.
    pub fn urls(&self) -> Result<Urls> {
        match &self.kind {
            PlaceKind::Directory(root) => urls_of_directory(root),
            PlaceKind::Bucket(urls) => Ok(urls.clone()),
            PlaceKind::Web => Ok(self.to_string().parse()?),
        }
    }

    /// The key of a path below the directory of the set. The path may be empty, be `TOP`, or end in
    /// `/`.
    pub fn key(&self, below: &str) -> Result<Key> {
        let key = self.path(below.strip_prefix(TOP).unwrap_or(below)).parse();
        key.with_context(|| format!("failed to place `{below}`"))
    }

    /// Lists a directory, without the pages of directories. Paths are relative to the directory of the set.
    pub fn list(&self, below: &str, depth: Depth) -> Result<Vec<(String, Object)>> {
        let mut objects = self.list_with_pages(below, depth)?;
        objects.retain(|(path, _)| !path.ends_with('/'));
        Ok(objects)
    }

    /// The same, with the pages of directories that the store lists: under `TOP` if it is the page of the set.
    pub(super) fn list_with_pages(
        &self,
        below: &str,
        depth: Depth,
    ) -> Result<Vec<(String, Object)>> {
        let path = self.path(below);
        let directory = (!path.is_empty()).then(|| path.parse()).transpose()?;
        let listing = || format!("failed to list `{path}` of `{}`", self.store);
        let objects = self.store.list(directory.as_ref(), depth).with_context(listing)?;
        let mut objects_by_path = Vec::with_capacity(objects.len());
        for object in objects {
            if let Some(path) = object.key.as_str().strip_prefix(&self.top) {
                let path = if path.is_empty() { TOP } else { path };
                objects_by_path.push((path.to_owned(), object));
            }
        }
        Ok(objects_by_path)
    }

    /// Reads `set.json`, which only a complete set has.
    pub fn set_json(&self) -> Result<SetJson> {
        let missing = || format!("no such object: `{}`", self.shown_in_full("set.json"));
        self.find_set_json()?
            .with_context(missing)
            .hint("`rocwheel upload` writes it when a set is whole")
    }

    /// Reads `set.json`. See [`SetPlace::find_document`].
    pub fn find_set_json(&self) -> Result<Option<SetJson>> {
        Ok(self.find_document("set.json")?.map(|(document, _)| document))
    }

    /// Removes the directories that removed files leave empty in a local set, and no others.
    pub(super) fn tidy(&self, removed: &[String]) {
        let Some(root) = self.local() else {
            return;
        };
        for path in removed {
            // The last parent is the empty path, which is the directory of the set.
            let parents = Path::new(path).ancestors().skip(1);
            for parent in parents.take_while(|parent| !parent.as_os_str().is_empty()) {
                // This fails for a directory that is not empty. Then its parents are not empty either.
                if fs::remove_dir(root.join(parent)).is_err() {
                    break;
                }
            }
        }
    }

    /// The run whose outputs the place is among, as its key says. Such a place has the set of the newest attempt
    /// of the run. Other places have releases, whose files never change.
    pub fn run_place(&self) -> Option<RunPlace> {
        match &self.kind {
            PlaceKind::Directory(root) => RunPlace::of_path(root),
            PlaceKind::Bucket(_) | PlaceKind::Web => RunPlace::of_key(&self.top),
        }
    }

    /// Converts a path relative to the set into one relative to the top of the store.
    pub(super) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.top)
    }

    /// For messages: the full path of a file of the set.
    pub(super) fn shown_in_full(&self, below: &str) -> String {
        match self.local() {
            Some(root) => root.join(below).display().to_string(),
            // The address of a web server ends in `/`.
            None => format!("{}/{below}", self.to_string().trim_end_matches('/')),
        }
    }

    /// A path of the store, relative to the directory of the set. The reverse of `path`.
    pub fn below_set(&self, path: &str) -> String {
        path.strip_prefix(&self.top).unwrap_or(path).to_owned()
    }

    /// The text of a page. `None` if it does not exist.
    pub(super) fn text(&self, path: &str) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(&Address::here(path))? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes)
            .with_context(|| format!("failed to read `{path}` of `{}`", self.store))?;
        Ok(Some(text))
    }

    /// The page of a directory under its key, which ends in `/`. A server that keeps objects in
    /// directories fails for such a key, each time after several attempts: `None` if the page has
    /// another key too, and no further one is asked for.
    pub(super) fn text_of_key(&self, path: &str, has_other: bool) -> Result<Option<String>> {
        let may_fail = has_other && matches!(self.kind, PlaceKind::Bucket(_));
        if may_fail && self.keys_fail.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match self.text(path) {
            Err(error) if may_fail && failure(&error) == Some(StoreFailureKind::Unavailable) => {
                self.keys_fail.store(true, Ordering::Relaxed);
                Ok(None)
            }
            answer => answer,
        }
    }

    /// The bytes of a small file, at most `LONGEST_PAGE`. `None` if it does not exist.
    pub(super) fn bytes(&self, address: &Address) -> Result<Option<Vec<u8>>> {
        let store = self.store_of(address)?;
        let path = &address.path;
        let Ok(key) = path.parse::<Key>() else {
            return Ok(None);
        };
        let reading = || format!("failed to read `{path}` of `{store}`");
        let Some(reader) = none_if_missing(store.get(&key, Span::Whole)).with_context(reading)?
        else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        reader.take(LONGEST_PAGE + 1).read_to_end(&mut bytes).with_context(reading)?;
        ensure!(
            bytes.len() as u64 <= LONGEST_PAGE,
            "`{path}` of `{store}` has more than {LONGEST_PAGE} bytes"
        );
        Ok(Some(bytes))
    }

    pub(super) fn store_of(&self, address: &Address) -> Result<Arc<dyn Store>> {
        let Some(origin) = &address.origin else {
            return Ok(Arc::clone(&self.store));
        };
        if self.kind != PlaceKind::Web {
            bail!("a page leads to another server: `{origin}`");
        }
        let mut servers = self.other_servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = servers.get(origin) {
            return Ok(Arc::clone(store));
        }
        let store = connect(origin.parse()?, &self.stop)?;
        servers.insert(origin.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// Shows the store and the directory in it: `s3://bucket/1-linux/python`.
impl fmt::Display for SetPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PlaceKind::Directory(root) => fmt::Display::fmt(&root.display(), f),
            PlaceKind::Bucket(_) => write!(f, "{}/{}", self.store, self.top.trim_end_matches('/')),
            PlaceKind::Web => write!(f, "{}/{}", self.store, self.top),
        }
    }
}

/// Whether two directories are on one disk, as far as the system tells. They need not exist yet.
#[cfg(unix)]
fn is_on_one_disk(first: &Path, second: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| {
        let absolute = std::path::absolute(path).ok()?;
        // A directory that does not exist yet will be on the disk of the one above.
        let metadata = absolute.ancestors().find_map(|path| fs::metadata(path).ok())?;
        Some(metadata.dev())
    };
    device(first).is_some_and(|disk| Some(disk) == device(second))
}

#[cfg(not(unix))]
fn is_on_one_disk(_: &Path, _: &Path) -> bool {
    false
}

fn connect(server: Endpoint, stop: &Stop) -> Result<Arc<dyn Store>> {
    Ok(rocwheel_store::open(&Origin::Web(server), &Access::default(), stop)?)
}

/// Splits the path of a URL into the directory of the set and the page that the user named, if it
/// is not one that every set has: `x/simple` is `x/`, and `x/links.html` is `x/` with
/// `x/links.html`. The page `x/dist/index.html` is of the set in `x/` too.
fn top_of(path: &str) -> (String, Option<String>) {
    let directory = |path: &str| match path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("{path}/"),
    };
    let plain = path.trim_end_matches('/');
    let (above, name) = plain.rsplit_once('/').unwrap_or(("", plain));
    match name {
        "simple" | "SHA256SUMS" => (directory(above), None),
        name if name.ends_with(PAGE) && !path.ends_with('/') => {
            let above = directory(above);
            let set = match above.strip_suffix(Layout::Dist.files()) {
                // `xdist/` is no `dist/`.
                Some(top) if top.is_empty() || top.ends_with('/') => top,
                _ => &above,
            };
            (set.to_owned(), Some(path.to_owned()))
        }
        _ => (directory(plain), None),
    }
}

/// How the store failed, if a failure of the store is among the causes of an error.
pub(super) fn failure(error: &Error) -> Option<StoreFailureKind> {
    let mut causes = error.chain().filter_map(|it| it.downcast_ref());
    causes.next().map(StoreError::kind)
}

/// `None` for an object that does not exist.
pub(super) fn none_if_missing<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.kind() == StoreFailureKind::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

impl SetPlace {
    /// The layout of the set: [`Layout::Dist`] if `dist/` exists.
    pub fn layout(&self) -> Result<Layout> {
        let has_dist = match self.local() {
            Some(root) => root.join("dist").is_dir(),
            None => !self.list(Layout::Dist.files(), Depth::All)?.is_empty(),
        };
        Ok(if has_dist { Layout::Dist } else { Layout::Flat })
    }

    /// The layouts of the directories that have the packages. The first one is the layout of the set.
    pub fn layouts(&self, directories: PackageDirectories) -> Result<Vec<Layout>> {
        Ok(match (directories, self.layout()?) {
            (PackageDirectories::Built, layout) => vec![layout],
            (PackageDirectories::All, Layout::Dist) => vec![Layout::Dist, Layout::Flat],
            (PackageDirectories::All, Layout::Flat) => vec![Layout::Flat],
        })
    }
}

/// Whether a directory is the index of the set around it, whose address commands print. A set may be in a directory
/// of this name, too: then its packages are there, or in `dist`.
fn is_index_of_set(directory: &Path) -> bool {
    let has_packages = || {
        let Ok(entries) = fs::read_dir(directory) else {
            return true;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name == "dist" || is_package(&name.to_string_lossy()))
    };
    directory.ends_with("simple") && directory.join("index.html").is_file() && !has_packages()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_found_by_each_of_its_pages() {
        let top = |path| {
            let (top, page) = top_of(path);
            format!("{top} {page:?}")
        };
        let tops = ["x/y/simple/", "x/y/simple", "x/y", "x/y/"].map(top);
        assert_eq!(tops, ["x/y/ None"; 4]);
        assert_eq!(top(""), " None");
        assert_eq!(top("simple/"), " None");
        assert_eq!(top("x/links.html"), "x/ Some(\"x/links.html\")");
        assert_eq!(top("x/dist/a.html"), "x/ Some(\"x/dist/a.html\")");
        assert_eq!(top("dist/a.html"), " Some(\"dist/a.html\")");
        assert_eq!(top("xdist/a.html"), "xdist/ Some(\"xdist/a.html\")");
    }

    #[test]
    fn an_index_is_a_part_of_the_set_around_it_and_a_set_may_have_its_name() {
        let work = tempfile::tempdir().unwrap();
        let simple = work.path().join("simple");
        let opened = || {
            let place = SetPlace::existing(&simple, &Stop::default()).unwrap();
            place.local().unwrap() == simple
        };
        fs::create_dir(&simple).unwrap();
        assert!(opened());
        fs::write(simple.join("index.html"), "").unwrap();
        assert!(!opened());
        fs::write(simple.join("rocm-1.tar.gz"), "").unwrap();
        assert!(opened());
    }
}
