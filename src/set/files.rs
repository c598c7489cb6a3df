//! Lists and opens the packages and sidecars of a place.

use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use fs_err as fs;

use super::{package::is_package, place::SetPlace};
use crate::{
    digest::Sha256,
    error::{Hint as _, Result},
    index::{Layout, SetStamp},
    run::ArtifactGroup,
    store::{Depth, Object, Ranged, Span, StoreFailureKind},
};

/// A file up to this size is read in one request: digest and metadata come from the same bytes.
const AT_ONCE: u64 = 256 << 10;

/// A package or sidecar in the directory of packages, or in that of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedPackage {
    pub(super) family: Option<ArtifactGroup>,
    pub(super) name: String,
    pub(super) stamp: SetStamp,
    /// When it was uploaded. `None` in a local directory, where a modification time does not say
    /// it.
    pub(super) uploaded: Option<SystemTime>,
}

impl ListedPackage {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`.
    pub(super) fn path(&self, layout: Layout) -> String {
        let family = self.family.as_ref();
        let family = family.map_or_else(String::new, |family| format!("{family}/"));
        format!("{}{family}{}", layout.files(), self.name)
    }
}

/// The bytes of a package: in memory, or read in ranges on demand.
pub(super) enum Opened {
    Whole(Vec<u8>),
    Far(Ranged<'static>),
}

impl SetPlace {
    /// Lists all packages and sidecars, with those in the directories of families.
    pub(super) fn files(&self, layout: Layout) -> Result<Vec<ListedPackage>> {
        let objects = match (layout, self.local()) {
            // A flat directory may be a user's download directory, with other files at any depth.
            // List only the levels that can hold packages.
            (Layout::Flat, Some(root)) => {
                let mut objects = self.list("", Depth::Children)?;
                let families = families_in(root);
                for family in families.hint("pass the directory that `rocwheel build` wrote to")? {
                    objects.extend(self.list(&format!("{family}/"), Depth::Children)?);
                }
                objects
            }
            _ => self.list(layout.files(), Depth::All)?,
        };
        let found = objects.into_iter().filter_map(|(path, object)| {
            let path = path.strip_prefix(layout.files())?;
            let (family, name) = match path.split_once('/') {
                Some((family, name)) if is_family(family, layout) => {
                    (ArtifactGroup::of_directory(family).ok(), name)
                }
                _ => (None, path),
            };
            // A file at a deeper level is not a package of the set.
            let is_wanted = is_package(name) || name.ends_with(".whl.metadata");
            (is_wanted && !name.contains('/') && !name.starts_with('.')).then(|| ListedPackage {
                family,
                name: name.to_owned(),
                stamp: self.stamp_of(&object),
                uploaded: object.modified.filter(|_| self.local().is_none()),
            })
        });
        Ok(found.collect())
    }

    /// The layout of the set: [`Layout::Dist`] if `dist/` exists.
    pub fn layout(&self) -> Result<Layout> {
        let has_dist = match self.local() {
            Some(root) => root.join("dist").is_dir(),
            None => !self.list(Layout::Dist.files(), Depth::All)?.is_empty(),
        };
        Ok(if has_dist { Layout::Dist } else { Layout::Flat })
    }

    pub(super) fn open_file(&self, listed: &ListedPackage, layout: Layout) -> Result<Opened> {
        let (key, size) = (self.key(&listed.path(layout))?, listed.stamp.size);
        if size > AT_ONCE {
            return Ok(Opened::Far(Ranged::of(Arc::clone(self.store()), key, size)));
        }
        // Read one byte more than listed, to notice a file that has grown.
        let mut bytes = Vec::new();
        let reader = self.store().get(&key, Span::Whole)?;
        reader.take(size + 1).read_to_end(&mut bytes)?;
        Ok(Opened::Whole(bytes))
    }

    /// Streams a package from its first to its last byte.
    pub(super) fn stream(
        &self,
        listed: &ListedPackage,
        layout: Layout,
    ) -> Result<Box<dyn Read + Send>> {
        Ok(self
            .store()
            .get(&self.key(&listed.path(layout))?, Span::Whole)?)
    }

    /// The digest that the store has recorded, if any.
    pub(super) fn kept_digest(
        &self,
        listed: &ListedPackage,
        layout: Layout,
    ) -> Result<Option<Sha256>> {
        Ok(self.store().head(&self.key(&listed.path(layout))?)?.sha256)
    }

    /// The current stamp of a local file. `None` in a bucket: there, one listing later gives the
    /// stamps of a thousand files per request (see `Reading::remember_sidecars`).
    pub(super) fn stamp(&self, path: &str) -> Result<Option<SetStamp>> {
        if self.local().is_none() {
            return Ok(None);
        }
        match self.store().head(&self.key(path)?) {
            Err(error) if error.kind() == StoreFailureKind::NotFound => Ok(None),
            object => Ok(Some(self.stamp_of(&object?))),
        }
    }

    /// The text and the stamp of a document such as `set.json`.
    pub(super) fn document(&self, name: &str) -> Result<Option<(String, SetStamp)>> {
        let object = match self.store().head(&self.key(name)?) {
            Err(error) if error.kind() == StoreFailureKind::NotFound => return Ok(None),
            object => object?,
        };
        let text = self.text(&self.path(name))?;
        Ok(text.map(|text| (text, self.stamp_of(&object))))
    }

    /// On a local disk the `ETag` is left out: it says no more than the modification time, which may
    /// be too coarse to distinguish two versions of a file.
    fn stamp_of(&self, object: &Object) -> SetStamp {
        SetStamp {
            size: object.size,
            modified: object.modified.and_then(nanoseconds),
            etag: object.etag.clone().filter(|_| self.local().is_none()),
        }
    }
}

/// The directories of families in a flat directory.
fn families_in(root: &Path) -> io::Result<Vec<String>> {
    let mut families = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_family(&name, Layout::Flat) && entry.file_type()?.is_dir() {
            families.push(name);
        }
    }
    families.sort_unstable();
    Ok(families)
}

fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Whether a directory is that of a family. A flat directory may have any subdirectories, so there
/// the name must begin with `gfx`.
fn is_family(name: &str, layout: Layout) -> bool {
    let is_likely = layout == Layout::Dist || name.starts_with("gfx");
    is_likely && !name.is_empty() && ArtifactGroup::of_directory(name).is_ok()
}
