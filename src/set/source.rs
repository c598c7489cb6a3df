//! `SetPlace`: a place that holds a set, whether it is a directory, a bucket or a web server.

use std::{
    collections::BTreeMap,
    fmt,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::package::{Package, is_package};
use crate::{
    error::{Context as _, Hint as _, Result, Stop, anyhow, bail, ensure},
    location::{Key, Location},
    run::Buckets,
    store::{
        Depth, Kind, Span, Store, StoreError,
        http::HttpStore,
        local::LocalStore,
        s3::{Access, Endpoint, S3Store},
    },
};

/// Pages and metadata are text; more is not read.
const LONGEST_PAGE: u64 = 64 << 20;
const PAGE: &str = ".html";

#[derive(Debug)]
pub struct SetPlace {
    store: Arc<dyn Store>,
    /// The directory of the set in the store: empty, or ending in `/`.
    top: String,
    /// The page that the user named, if it is none of those that every set has.
    page: Option<String>,
    kind: PlaceKind,
    /// Other servers that pages lead to.
    others: Mutex<BTreeMap<String, Arc<dyn Store>>>,
    stop: Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Directory(PathBuf),
    Bucket,
    Web,
}

/// Where a file is: on another server, or in the store itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) origin: Option<String>,
    pub(super) path: String,
}

impl SetPlace {
    /// From a directory, `s3://bucket/directory`, or the address of an index or a page.
    pub fn open(
        place: &Path,
        access: impl FnOnce(Option<&str>) -> Result<Access>,
        stop: &Stop,
    ) -> Result<Self> {
        match place.to_str() {
            Some(text) if text.starts_with("s3://") => Self::bucket(text, access, stop),
            Some(text) if text.contains("://") => Self::web(text, stop),
            _ => Self::directory(place, stop),
        }
    }

    fn directory(place: &Path, stop: &Stop) -> Result<Self> {
        if !place.exists() {
            return Err(anyhow!("no such directory: `{}`", place.display()))
                .hint("pass the directory that `rocwheel build` wrote to");
        }
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let check = || -> Result<()> {
            ensure!(
                place.is_dir() || !is_package(&name),
                "`{}` is one package, and not a set",
                place.display()
            );
            Ok(())
        };
        check().hint("pass the directory that it lies in")?;
        // A baseline may be named by the file that describes it.
        let is_document = place.file_name() == Some("set.json".as_ref());
        let root = match place.parent() {
            Some(parent) if is_document => parent,
            _ => place,
        };
        let store: Arc<dyn Store> = Arc::new(LocalStore::new(root));
        let kind = PlaceKind::Directory(root.to_owned());
        Ok(Self::new(store, String::new(), None, kind, stop))
    }

    fn bucket(
        text: &str,
        access: impl FnOnce(Option<&str>) -> Result<Access>,
        stop: &Stop,
    ) -> Result<Self> {
        let text = text.strip_suffix("set.json").unwrap_or(text);
        let place: Location = text.parse().hint(
            "pass a directory of a bucket, as `upload` shows it: `s3://bucket/1-linux/python`",
        )?;
        let access = access(
            Buckets::builtin()
                .find(place.bucket())
                .map(|it| it.region.as_str()),
        )?;
        let store = S3Store::connect(place.bucket().clone(), &access, stop.clone())
            .with_context(|| format!("reach `{place}`"))?;
        let top = place.key().directory().as_str().to_owned();
        Ok(Self::new(
            Arc::new(store),
            top,
            None,
            PlaceKind::Bucket,
            stop,
        ))
    }

    fn web(text: &str, stop: &Stop) -> Result<Self> {
        let parts = text.split_once("://").map(|(scheme, rest)| {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{scheme}://{host}"), path)
        });
        let (origin, path) = parts.unwrap_or_default();
        ensure!(
            !path.contains(['?', '#']),
            "an address with a query or a fragment: `{text}`"
        );
        let (top, page) = top_of(path);
        let store: Arc<dyn Store> = Arc::new(connect(&origin, stop)?);
        Ok(Self::new(store, top, page, PlaceKind::Web, stop))
    }

    fn new(
        store: Arc<dyn Store>,
        top: String,
        page: Option<String>,
        kind: PlaceKind,
        stop: &Stop,
    ) -> Self {
        Self {
            store,
            top,
            page,
            kind,
            others: Mutex::default(),
            stop: stop.clone(),
        }
    }

    /// The directory, if it is one on this machine.
    pub fn local(&self) -> Option<&Path> {
        match &self.kind {
            PlaceKind::Directory(root) => Some(root),
            PlaceKind::Bucket | PlaceKind::Web => None,
        }
    }

    pub(super) fn kind(&self) -> &PlaceKind {
        &self.kind
    }

    /// The page that the user named.
    pub(super) fn page(&self) -> Option<&str> {
        self.page.as_deref()
    }

    /// A path below the directory of the set, from the top of the store.
    pub(super) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.top)
    }

    /// For people: a path from the top of the store without the directory of the set.
    pub(super) fn shown<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.top.as_str()).unwrap_or(path)
    }

    /// A page, if it is there.
    pub(super) fn text(&self, path: &str) -> Result<Option<String>> {
        let address = Address {
            origin: None,
            path: path.to_owned(),
        };
        let bytes = self.bytes(&address)?;
        bytes
            .map(|bytes| {
                let text = String::from_utf8(bytes);
                text.with_context(|| format!("read `{path}` of `{}`", self.store))
            })
            .transpose()
    }

    /// The bytes of something small, if it is there.
    pub(super) fn bytes(&self, address: &Address) -> Result<Option<Vec<u8>>> {
        let (store, path) = (self.store_of(address)?, &address.path);
        let Ok(key) = path.parse::<Key>() else {
            return Ok(None);
        };
        let reading = || format!("read `{path}` of `{store}`");
        let Some(reader) = found(store.get(&key, Span::Whole)).with_context(reading)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let mut reader = reader.take(LONGEST_PAGE + 1);
        reader.read_to_end(&mut bytes).with_context(reading)?;
        ensure!(
            bytes.len() as u64 <= LONGEST_PAGE,
            "`{path}` of `{store}` has more than {LONGEST_PAGE} bytes"
        );
        Ok(Some(bytes))
    }

    /// A package, if it is there.
    pub(super) fn package(&self, address: &Address) -> Result<Option<Package>> {
        let path = &address.path;
        let Ok(key) = path.parse::<Key>() else {
            return Ok(None);
        };
        if let (PlaceKind::Directory(root), None) = (&self.kind, &address.origin) {
            // A link to a file will do, which the store would not follow.
            let file = root.join(path);
            return if file.is_file() {
                Package::file(&file, key.file_name()).map(Some)
            } else {
                Ok(None)
            };
        }
        let store = self.store_of(address)?;
        let looking = || format!("look for `{path}` in `{store}`");
        let object = found(store.head(&key)).with_context(looking)?;
        Ok(object.map(|object| Package::object(&store, &key, object.size)))
    }

    /// The paths of the files in a directory, where they can be listed.
    pub(super) fn list(&self, below: &str, depth: Depth) -> Result<Option<Vec<String>>> {
        if self.kind == PlaceKind::Web {
            return Ok(None);
        }
        let path = self.path(below);
        let directory = path.trim_end_matches('/');
        let directory = (!directory.is_empty())
            .then(|| directory.parse())
            .transpose();
        let objects = self
            .store
            .list(directory?.as_ref(), depth)
            .with_context(|| format!("list `{path}` of `{}`", self.store))?;
        let paths = objects.into_iter().map(|object| object.key.to_string());
        Ok(Some(paths.collect()))
    }

    fn store_of(&self, address: &Address) -> Result<Arc<dyn Store>> {
        let Some(origin) = &address.origin else {
            return Ok(Arc::clone(&self.store));
        };
        if self.kind != PlaceKind::Web {
            bail!("a page leads to another server: `{origin}`");
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = others.get(origin) {
            return Ok(Arc::clone(store));
        }
        let store: Arc<dyn Store> = Arc::new(connect(origin, &self.stop)?);
        others.insert(origin.clone(), Arc::clone(&store));
        Ok(store)
    }
}

/// The store, and the directory in it.
impl fmt::Display for SetPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            PlaceKind::Directory(root) => fmt::Display::fmt(&root.display(), f),
            _ => write!(f, "{}/{}", self.store, self.top),
        }
    }
}

fn connect(origin: &str, stop: &Stop) -> Result<HttpStore> {
    let server: Endpoint = origin.parse()?;
    Ok(HttpStore::connect(server, stop.clone())?)
}

/// The directory of a set, and the page that was named: `x/simple` is the index of `x/`.
fn top_of(path: &str) -> (String, Option<String>) {
    let directory = |path: &str| match path.trim_end_matches('/') {
        "" => String::new(),
        path => format!("{path}/"),
    };
    let plain = path.trim_end_matches('/');
    let (above, name) = plain.rsplit_once('/').unwrap_or(("", plain));
    match name {
        "simple" | "set.json" | "SHA256SUMS" => (directory(above), None),
        name if name.ends_with(PAGE) && !path.ends_with('/') => {
            (directory(above), Some(path.to_owned()))
        }
        _ => (directory(plain), None),
    }
}

fn found<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        answer => answer.map(Some),
    }
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
        let tops = ["x/y/simple/", "x/y/simple", "x/y/set.json", "x/y", "x/y/"].map(top);
        assert_eq!(tops, ["x/y/ None"; 5]);
        assert_eq!(top(""), " None");
        assert_eq!(top("simple/"), " None");
        assert_eq!(top("x/links.html"), "x/ Some(\"x/links.html\")");
    }
}
