//! [`Item`]: an object to publish; and [`Action`]: what is done with it.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::Listing;
use crate::{
    index::{
        Layout, Urls,
        package_file::{PackageFile, SIDECAR},
        pages::{IndexPage, Phase, content_type, pages},
        parse::is_directory_list,
        set_json::{SetJson, TOP},
    },
    place::{
        object_memory::ObjectFacts,
        set_place::{SetPlace, none_if_missing},
    },
};
use rocwheel_base::{
    digest::Sha256,
    error::{Result, Stop},
    io::FileIdentity,
    parallel,
};
use rocwheel_store::{CopySource, Object, Span};

/// One object of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::place) struct Item {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`, `simple/rocm/`.
    pub(in crate::place) path: String,
    pub(in crate::place) phase: Phase,
    pub(in crate::place) size: u64,
    pub(in crate::place) sha256: Sha256,
    pub(in crate::place) bytes: ItemBytes,
    /// An object with these bytes that the server of the place may copy.
    pub(in crate::place) copy: Option<CopySource>,
    /// Whether it replaces other bytes, although it is no page: it follows from a file that may change.
    pub(in crate::place) replaces: bool,
    /// Whether it stays away where another program has its page ([`IndexPage::gives_way`]).
    pub(in crate::place) gives_way: bool,
}

/// The file name of a page of a directory, whose path ends in `/`.
pub(super) fn page_of_directory(path: &str) -> String {
    format!("{}index.html", path.strip_prefix(TOP).unwrap_or(path))
}

/// An object that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::place) struct Removal {
    pub(in crate::place) path: String,
    /// Its `ETag` in the listing that says that it goes.
    pub(in crate::place) etag: Option<String>,
}

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::place) enum ItemBytes {
    /// A file, and what it was before its digest was taken. `None` on systems without inodes, or if only an
    /// earlier index says that it has this digest: then its bytes are compared with it while they are copied.
    OnDisk(PathBuf, Option<FileIdentity>),
    Here(Bytes),
    /// The directory of the place has them, so that they need not be kept until they are written.
    There,
}

impl Item {
    /// A wheel or sdist on disk.
    pub(in crate::place) fn file(
        file: &PackageFile,
        on_disk: PathBuf,
        identity: Option<FileIdentity>,
    ) -> Self {
        Self {
            path: file.path.clone(),
            phase: Phase::File,
            size: file.size,
            sha256: file.sha256,
            bytes: ItemBytes::OnDisk(on_disk, identity.filter(FileIdentity::has_inode)),
            copy: None,
            replaces: false,
            gives_way: false,
        }
    }

    pub(in crate::place) fn here(path: String, phase: Phase, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            path,
            phase,
            size: bytes.len() as u64,
            sha256: Sha256::of(&bytes),
            bytes: ItemBytes::Here(bytes),
            copy: None,
            replaces: false,
            gives_way: false,
        }
    }

    /// A page under its file name and, if it is the page of a directory, under the key that ends in
    /// `/`: installers request `simple/rocm/`, and S3 answers only to exact keys.
    ///
    /// The file name comes first. Listings contain it, so its `ETag` is known and a conflict with
    /// another writer shows there. A listing may leave out the key that ends in `/`.
    fn page(page: &IndexPage, listing: &Listing<'_>) -> Result<Vec<Self>> {
        let mut item = Self::of_page(page);
        if listing.is_in_directory(&item)? {
            item.bytes = ItemBytes::There;
        }
        Ok(item.under_all_names(page))
    }

    pub(super) fn under_all_names(&self, page: &IndexPage) -> Vec<Self> {
        page.paths().map(|path| Self { path: path.to_owned(), ..self.clone() }).collect()
    }

    /// A page under its file name.
    pub(super) fn of_page(page: &IndexPage) -> Self {
        // All pages are in memory until they are written, so without room to grow.
        let body = page.body().into_bytes().into_boxed_slice();
        Self { gives_way: page.gives_way, ..Self::here(page.path.clone(), page.phase, body) }
    }

    /// The page of a directory, which ends in `/`, under both names.
    pub(in crate::place) fn directory_page(directory: &str, phase: Phase, text: &str) -> [Self; 2] {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let of = |name| Self::here(format!("{directory}{name}"), phase, body.clone());
        ["index.html", ""].map(of)
    }

    /// A cache may keep a page, but must revalidate it; and a file of a run, which a later attempt of the run may
    /// replace. In other places the bytes of packages and sidecars never change: their names contain the version.
    pub(super) fn cache_control(&self, is_of_run: bool) -> &'static str {
        if self.is_page() || is_of_run { "no-cache" } else { "public, max-age=31536000, immutable" }
    }

    /// Whether it is a file that is known to have its digest, so that it may be linked.
    pub(super) fn is_proven_file(&self) -> bool {
        matches!(self.bytes, ItemBytes::OnDisk(_, Some(_)))
    }

    /// Whether it is another name of a file of a directory.
    pub(super) fn is_file_of(&self, root: &Path, path: &str) -> bool {
        matches!(self.bytes, ItemBytes::OnDisk(_, Some(file)) if file.is_at(&root.join(path)))
    }

    /// The path of the package that the object is, or belongs to.
    pub(in crate::place) fn package(&self) -> &str {
        self.path.strip_suffix(SIDECAR).unwrap_or(&self.path)
    }

    /// The path of a package in the other layout.
    pub(super) fn twin(&self) -> Option<String> {
        let files = Layout::Dist.files();
        (self.phase == Phase::File).then(|| match self.path.strip_prefix(files) {
            Some(below) => below.to_owned(),
            None => format!("{files}{}", self.path),
        })
    }

    pub(super) fn is_page(&self) -> bool {
        self.phase >= Phase::Variants
    }

    /// Whether a page that is there instead is a list that the bucket's own indexer wrote, and will write again.
    /// A page that gives way must be sure of it: somebody may have written one with a few links himself.
    pub(super) fn is_replaced_by_indexer(&self, page: &str) -> bool {
        is_directory_list(page) && (!self.gives_way || page.contains("<time datetime=\""))
    }

    pub(in crate::place) fn is_directory(&self) -> bool {
        self.path.ends_with('/')
    }

    /// All pages of a set, and its `set.json`. They are rendered in parallel, because root pages have
    /// a line for every file.
    pub(in crate::place) fn pages(
        set: &SetJson,
        address: Option<&Urls>,
        listing: &Listing<'_>,
        jobs: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Vec<Self>> {
        let views = set.views();
        let render = |page: &IndexPage| Self::page(page, listing);
        // The pages with a line for every file are the last ones. Rendered last, they would keep one thread busy alone.
        let mut pages = pages(set, &views, address);
        pages.reverse();
        let items = parallel::try_map(&pages, jobs, stop, render)?;
        Ok(items.into_iter().flatten().collect())
    }

    /// What is known of the object when it has been written.
    pub(super) fn facts(&self, is_of_run: bool) -> ObjectFacts {
        ObjectFacts {
            sha256: self.sha256,
            content_type: Some(content_type(&self.path).to_owned()),
            cache_control: Some(self.cache_control(is_of_run).to_owned()),
            package: None,
        }
    }

    /// Describes a conflict: size and digest of the item and of the existing object.
    pub(super) fn conflict(&self, there: &ExistingObject) -> String {
        let name = match &there.twin {
            Some(path) => format!("`{path}`, "),
            None => String::new(),
        };
        let sha256 = there.sha256.map_or("not read".into(), |it| it.to_string());
        format!(
            "`{}`: here {} bytes with sha256 {}, there {name}{} bytes with sha256 {sha256}",
            self.path, self.size, self.sha256, there.size
        )
    }
}

/// An object that a place already has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExistingObject {
    /// Its path, if it is the file of the same name in the other layout.
    pub(super) twin: Option<String>,
    pub(super) size: u64,
    /// `None` if a link replaces it, without reading it.
    pub(super) sha256: Option<Sha256>,
    pub(super) etag: Option<String>,
    pub(super) headers: ObjectHeaders,
}

/// What a server says of an object beside its bytes, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectHeaders {
    pub(super) content_type: Option<String>,
    pub(super) cache_control: Option<String>,
}

impl ObjectHeaders {
    /// Whether installers and caches treat the object as its writer wants.
    fn are_as_wanted(&self, item: &Item, is_of_run: bool) -> bool {
        let wanted_type = content_type(&item.path);
        if let Some(cache_control) = &self.cache_control {
            return cache_control == item.cache_control(is_of_run)
                && self.content_type.as_ref().is_none_or(|it| it == wanted_type);
        }
        // Some servers keep no `Cache-Control`, and make the type of the name. To write the object once more would
        // change nothing there, so only a page that installers refuse differs.
        !is_html(wanted_type) || self.content_type.as_deref().is_none_or(is_html)
    }
}

fn is_html(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case("text/html")
}

impl ExistingObject {
    /// An object with the bytes of an item.
    pub(super) fn same(item: &Item) -> Self {
        Self { size: item.size, sha256: Some(item.sha256), ..Self::default() }
    }

    /// Whether it has the bytes of an item.
    pub(super) fn has_bytes_of(&self, item: &Item) -> bool {
        self.sha256 == Some(item.sha256)
    }

    /// `None` if there is no such object. One without a recorded digest is read.
    pub(super) fn find(place: &SetPlace, path: &str) -> Result<Option<Self>> {
        match none_if_missing(place.store.head(&place.key(path)?))? {
            Some(object) => Self::of(place, path, &object),
            None => Ok(None),
        }
    }

    /// An object that a request or, in a directory, a listing has described.
    pub(super) fn of(place: &SetPlace, path: &str, object: &Object) -> Result<Option<Self>> {
        let sha256 = match object.sha256 {
            Some(sha256) => sha256,
            None => match none_if_missing(place.store.get(&place.key(path)?, Span::Whole))? {
                Some(reader) => Sha256::of_reader(reader)?.0,
                None => return Ok(None),
            },
        };
        Ok(Some(Self { sha256: Some(sha256), ..Self::unread(object) }))
    }

    /// What is to be remembered of an object whose digest is known.
    pub(super) fn facts(&self) -> Option<ObjectFacts> {
        Some(ObjectFacts {
            sha256: self.sha256?,
            content_type: self.headers.content_type.clone(),
            cache_control: self.headers.cache_control.clone(),
            package: None,
        })
    }

    /// An object whose bytes are not known.
    pub(super) fn unread(object: &Object) -> Self {
        Self {
            twin: None,
            size: object.size,
            sha256: None,
            etag: object.etag.clone(),
            headers: ObjectHeaders {
                content_type: object.content_type.clone(),
                cache_control: object.cache_control.clone(),
            },
        }
    }
}

/// What is done with an object, and why.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Action {
    New,
    /// The place has the same object: nothing to do.
    Same,
    /// The place has other bytes, which are replaced: a page, or a file with `--overwrite`. Or it has the same bytes
    /// with other headers.
    Replace(ExistingObject),
    /// The place has other bytes, which must not be replaced, or has them under the same name in the
    /// other layout. The upload fails.
    Refuse(ExistingObject),
}

impl Action {
    pub(super) fn is_written(&self) -> bool {
        matches!(self, Self::New | Self::Replace(_))
    }

    pub(super) fn of(
        item: &Item,
        there: Option<ExistingObject>,
        replaces: bool,
        is_of_run: bool,
    ) -> Self {
        match there {
            None => Self::New,
            Some(there) if there.has_bytes_of(item) => {
                if there.headers.are_as_wanted(item, is_of_run) {
                    Self::Same
                } else {
                    Self::Replace(there)
                }
            }
            Some(there) if item.is_page() || item.replaces || replaces => Self::Replace(there),
            Some(there) => Self::Refuse(there),
        }
    }
}
