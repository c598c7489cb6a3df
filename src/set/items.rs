//! The objects of a set: packages, sidecars and pages.
//!
//! `upload` and `index` compare each [`Item`] with what the place has ([`Before`]) and decide what to
//! do with it ([`Action`]).

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    local::AttachedFile,
    pages::{IndexPage, Phase, pages},
    place::{SetPlace, found},
    set_json::{Layout, SetFile, SetJson, TOP},
};
use crate::{
    artifact::FileStamp,
    digest::{Checksum, Sha256},
    error::{Context as _, Result, Stop},
    parallel,
    store::{CopySource, Depth, Object, Span},
};

/// Requests at the same time. They mostly wait for the network; the store bounds the memory of all
/// of them together.
pub(super) const REQUESTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// One object of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`, `simple/rocm/`.
    pub(super) path: String,
    pub(super) phase: Phase,
    pub(super) size: u64,
    pub(super) sha256: Sha256,
    pub(super) bytes: ItemBytes,
    /// An object with these bytes that the server of the place may copy.
    pub(super) copy: Option<CopySource>,
}

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemBytes {
    /// A file, and the stamp that it had before its digest was taken. `None` if only an earlier index
    /// says that it has this digest: then its bytes are compared with it while they are copied.
    OnDisk(PathBuf, Option<FileStamp>),
    Here(Arc<[u8]>),
}

/// The `Cache-Control` of a package.
pub(super) fn immutable() -> &'static str {
    "public, max-age=31536000, immutable"
}

impl Item {
    /// A wheel or sdist on disk. A stamp without an inode proves too little for a link.
    pub(super) fn file(file: &SetFile, on_disk: PathBuf, stamp: Option<FileStamp>) -> Self {
        Self {
            path: file.path.clone(),
            phase: Phase::File,
            size: file.size,
            sha256: file.sha256,
            bytes: ItemBytes::OnDisk(on_disk, stamp.filter(FileStamp::has_inode)),
            copy: None,
        }
    }

    /// A file that is no package. Its bytes are compared with their digest while they are copied.
    pub(super) fn attached(file: &AttachedFile) -> Self {
        Self {
            path: file.path.clone(),
            phase: Phase::File,
            size: file.size,
            sha256: file.sha256,
            bytes: ItemBytes::OnDisk(file.on_disk.clone(), None),
            copy: file.copy.clone(),
        }
    }

    pub(super) fn here(path: String, phase: Phase, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            path,
            phase,
            size: bytes.len() as u64,
            sha256: Sha256::of(&bytes),
            bytes: ItemBytes::Here(bytes),
            copy: None,
        }
    }

    /// A page under its file name and, if it is the page of a directory, under the key that ends in
    /// `/`: installers request `simple/rocm/`, and S3 answers only to exact keys.
    ///
    /// The file name comes first. Listings contain it, so its `ETag` is known and a conflict with
    /// another writer shows there. A listing may leave out the key that ends in `/`.
    pub(super) fn page(page: &IndexPage) -> Vec<Self> {
        let item = Self::here(String::new(), page.phase, page.body().into_bytes());
        let paths = page.paths().map(|path| Self {
            path: path.to_owned(),
            ..item.clone()
        });
        paths.collect()
    }

    /// The page of a directory, which ends in `/`, under both names.
    pub(super) fn directory_page(directory: &str, phase: Phase, text: &str) -> [Self; 2] {
        let of = |name| Self::here(format!("{directory}{name}"), phase, text.as_bytes());
        ["index.html", ""].map(of)
    }

    /// The names of packages and sidecars contain the version, so their bytes never change. A cache
    /// may keep a page, but must revalidate it.
    pub(super) fn cache_control(&self) -> &'static str {
        if self.is_page() {
            "no-cache"
        } else {
            immutable()
        }
    }

    /// Whether it is a file that is known to have its digest, so that it may be linked.
    pub(super) fn is_proven_file(&self) -> bool {
        matches!(self.bytes, ItemBytes::OnDisk(_, Some(_)))
    }

    /// Whether it is another name of a file of a directory.
    pub(super) fn is_file_of(&self, root: &Path, path: &str) -> bool {
        let ItemBytes::OnDisk(_, Some(stamp)) = &self.bytes else {
            return false;
        };
        FileStamp::of(&root.join(path)).is_ok_and(|there| stamp.is_same_file(&there))
    }

    /// The path of a package in the other layout.
    fn twin(&self) -> Option<String> {
        let files = Layout::Dist.files();
        (self.phase == Phase::File).then(|| match self.path.strip_prefix(files) {
            Some(below) => below.to_owned(),
            None => format!("{files}{}", self.path),
        })
    }

    pub(super) fn is_page(&self) -> bool {
        self.phase >= Phase::Project
    }

    pub(super) fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }

    /// All pages of a set, and its `set.json`. They are rendered in parallel, because root pages have
    /// a line for every file.
    pub(super) fn pages(set: &SetJson, jobs: NonZeroUsize, stop: &Stop) -> Result<Vec<Self>> {
        let views = set.views();
        let render = |page: &IndexPage| Ok(Self::page(page));
        let items = parallel::map(&pages(set, &views), jobs, stop, render)?;
        Ok(items.concat())
    }

    /// Describes a conflict: size and digest of the item and of the existing object.
    pub(super) fn conflict(&self, there: &ExistingObject) -> String {
        let name = there.twin.as_ref().map(|path| format!("`{path}`, "));
        let name = name.unwrap_or_default();
        let sha256 = there.sha256.map_or("not read".into(), |it| it.to_string());
        format!(
            "`{}`: here {} bytes with sha256 {}, there {name}{} bytes with sha256 {sha256}",
            self.path, self.size, self.sha256, there.size
        )
    }
}

/// An object that a place already has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExistingObject {
    /// Its path, if it is the file of the same name in the other layout.
    pub(super) twin: Option<String>,
    pub(super) size: u64,
    /// `None` if it is replaced without being read.
    pub(super) sha256: Option<Sha256>,
    pub(super) etag: Option<String>,
}

impl ExistingObject {
    /// An object with the bytes of an item.
    pub(super) fn same(item: &Item) -> Self {
        Self {
            twin: None,
            size: item.size,
            sha256: Some(item.sha256),
            etag: None,
        }
    }

    /// `None` if there is no such object. One without a recorded digest is read.
    pub(super) fn find(place: &SetPlace, path: &str) -> Result<Option<Self>> {
        match found(place.store.head(&place.key(path)?))? {
            Some(object) => Self::of(place, path, &object),
            None => Ok(None),
        }
    }

    /// An object that a request or, in a directory, a listing has described.
    fn of(place: &SetPlace, path: &str, object: &Object) -> Result<Option<Self>> {
        let sha256 = match object.sha256 {
            Some(sha256) => sha256,
            None => match found(place.store.get(&place.key(path)?, Span::Whole))? {
                Some(reader) => Sha256::of_reader(reader)?.0,
                None => return Ok(None),
            },
        };
        Ok(Some(Self {
            twin: None,
            size: object.size,
            sha256: Some(sha256),
            etag: object.etag.clone(),
        }))
    }
}

/// The objects that a place had before anything was written, from listings of some directories.
#[derive(Debug)]
pub(super) struct Before<'a> {
    pub(super) place: &'a SetPlace,
    pub(super) objects: HashMap<String, Object>,
    /// The directories that were listed completely. An object below one of them, or directly in the
    /// set, that is not in `objects` did not exist.
    directories: Vec<String>,
    /// Whether packages are linked there, so that one to replace need not be read.
    pub(super) links: bool,
}

impl<'a> Before<'a> {
    /// Lists the objects of the set: its packages and its pages, with those in the directories of
    /// families.
    pub(super) fn list(place: &'a SetPlace) -> Result<Self> {
        let is_local = place.local().is_some();
        let depth = if is_local {
            Depth::Children
        } else {
            Depth::All
        };
        let mut before = Self {
            place,
            objects: place.list("", depth)?.into_iter().collect(),
            directories: Vec::new(),
            links: false,
        };
        if !is_local {
            before.directories.push(String::new());
            return Ok(before);
        }
        // A directory of a user may have more beside a set, at any depth.
        before.add("simple")?;
        before.add("dist")?;
        if place.local().is_some_and(Path::is_dir) {
            for family in place.flat_families()? {
                before.add(&family)?;
            }
        }
        Ok(before)
    }

    /// No directory is listed yet.
    pub(super) fn nothing(place: &'a SetPlace) -> Self {
        Self {
            place,
            objects: HashMap::new(),
            directories: Vec::new(),
            links: false,
        }
    }

    /// Lists one more directory: that of a family.
    pub(super) fn add(&mut self, directory: &str) -> Result<()> {
        let directory = format!("{directory}/");
        let mut listed = self.directories.iter();
        if listed.any(|it| directory.starts_with(it.as_str())) {
            return Ok(());
        }
        self.objects
            .extend(self.place.list(&directory, Depth::All)?);
        self.directories.push(directory);
        Ok(())
    }

    /// Decides what to do with each item, in the order of the items.
    pub(super) fn actions(
        &self,
        items: &[Item],
        overwrite: bool,
        stop: &Stop,
    ) -> Result<Vec<Action>> {
        parallel::try_map(items, REQUESTS, stop, |item| {
            let action = Action::of(item, self.find(item, overwrite)?, overwrite);
            Ok(self.clash(item)?.map_or(action, Action::Refuse))
        })
    }

    /// The file of the same name in the other layout, if it has other bytes: an index of the place
    /// could list only one of them.
    fn clash(&self, item: &Item) -> Result<Option<ExistingObject>> {
        let Some(twin) = item.twin().filter(|twin| self.objects.contains_key(twin)) else {
            return Ok(None);
        };
        if self.has_file_of(item, &twin) {
            return Ok(None);
        }
        let there = ExistingObject::find(self.place, &twin)
            .with_context(|| format!("failed to read `{twin}`"))?;
        let there = there.filter(|there| there.sha256 != Some(item.sha256));
        Ok(there.map(|there| ExistingObject {
            twin: Some(twin),
            ..there
        }))
    }

    /// Whether an object is another name of the file of an item.
    fn has_file_of(&self, item: &Item, path: &str) -> bool {
        let root = self.place.local();
        root.is_some_and(|root| item.is_file_of(root, path))
    }

    /// Whether a listing says that an object has the bytes of an item: the `ETag` of a small object in
    /// a bucket is mostly its MD5. So pages that did not change need no request each.
    fn has_bytes_of(&self, item: &Item, listed: &Object) -> bool {
        let ItemBytes::Here(bytes) = &item.bytes else {
            return false;
        };
        let md5 = listed.etag.as_deref().and_then(Checksum::of_etag);
        self.place.local().is_none()
            && listed.size == item.size
            && md5.is_some_and(|it| it.is_of(bytes))
    }

    /// The existing object of an item, if there is one.
    fn find(&self, item: &Item, overwrite: bool) -> Result<Option<ExistingObject>> {
        let listed = self.objects.get(&item.path);
        if listed.is_none() && !self.is_likely(&item.path) {
            return Ok(None);
        }
        if let Some(object) = listed.filter(|_| item.phase == Phase::File) {
            if self.has_file_of(item, &item.path) {
                return Ok(Some(ExistingObject::same(item)));
            }
            // Replacing a file by a link costs less than comparing their bytes, and then the bytes
            // are stored once.
            if overwrite && self.links && item.is_proven_file() {
                return Ok(Some(ExistingObject {
                    twin: None,
                    size: object.size,
                    sha256: None,
                    etag: object.etag.clone(),
                }));
            }
        }
        if listed.is_some_and(|it| self.has_bytes_of(item, it)) {
            return Ok(Some(ExistingObject::same(item)));
        }
        // The listing of a directory says all that another look at the file would. That of a bucket
        // has no digests.
        let there = match listed.filter(|_| self.place.local().is_some()) {
            Some(object) => ExistingObject::of(self.place, &item.path, object),
            None => ExistingObject::find(self.place, &item.path),
        };
        let there = there.with_context(|| format!("failed to read `{}`", item.path))?;
        // The ETag of the listing, not of the request above. A page that another writer changed
        // between the two may name packages that this one does not know; the write has to fail.
        Ok(there.map(|there| ExistingObject {
            etag: listed.map_or(there.etag, |listed| listed.etag.clone()),
            ..there
        }))
    }

    /// Whether an object that was not listed may exist, so that it is worth a request. A listing may
    /// leave out keys that end in `/`, but contains the same page under its file name. If only the
    /// key that ends in `/` exists, it is written again, which does no harm.
    fn is_likely(&self, path: &str) -> bool {
        if path.ends_with('/') {
            let directory = path.strip_prefix(TOP).unwrap_or(path);
            let twins = ["index.html", "index.json"].map(|name| format!("{directory}{name}"));
            return twins.iter().any(|twin| self.objects.contains_key(twin));
        }
        let mut directories = self.directories.iter();
        path.contains('/') && !directories.any(|directory| path.starts_with(directory.as_str()))
    }
}

/// What is done with an object, and why.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Action {
    New,
    /// The place has the same bytes: nothing to do.
    Same,
    /// The place has other bytes, which are replaced: a page, or a file with `--overwrite`.
    Replace(ExistingObject),
    /// The place has other bytes, which must not be replaced, or has them under the same name in the
    /// other layout. The upload fails.
    Refuse(ExistingObject),
}

impl Action {
    pub(super) fn is_written(&self) -> bool {
        matches!(self, Self::New | Self::Replace(_))
    }

    pub(super) fn of(item: &Item, there: Option<ExistingObject>, overwrite: bool) -> Self {
        match there {
            None => Self::New,
            Some(there) if there.sha256 == Some(item.sha256) => Self::Same,
            Some(there) if item.is_page() || overwrite => Self::Replace(there),
            Some(there) => Self::Refuse(there),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_directory_may_be_there_when_its_twin_is() {
        let place = SetPlace::directory("set".as_ref(), &Stop::default());
        let listed = |paths: &[&str]| {
            let object = |path: &&str| Object {
                key: path.parse().unwrap(),
                size: 1,
                sha256: None,
                checksum: None,
                content_type: None,
                etag: None,
                modified: None,
            };
            Before {
                place: &place,
                objects: paths
                    .iter()
                    .map(|path| ((*path).to_owned(), object(path)))
                    .collect(),
                directories: vec!["dist/".into(), "simple/".into()],
                links: false,
            }
        };
        let before = listed(&["simple/a/index.html", "simple/_json/index.json"]);
        for path in ["simple/a/", "simple/_json/", "other/b.whl"] {
            assert!(before.is_likely(path), "{path}");
        }
        for path in [
            "dist/b.whl",
            "simple/b/",
            "simple/",
            "./",
            "simple/a",
            "SHA256SUMS",
        ] {
            assert!(!before.is_likely(path), "{path}");
        }
        assert!(listed(&["index.html"]).is_likely("./"));
    }
}
