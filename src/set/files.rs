//! The packages at a place and what lies beside them: which there are, and how they are read.

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

/// A file of this size is read at once: its digest and what it says come from the same bytes.
const AT_ONCE: u64 = 256 << 10;

/// A file in the directory of packages, or in that of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedPackage {
    pub(super) family: Option<ArtifactGroup>,
    pub(super) name: String,
    pub(super) stamp: SetStamp,
    /// When it came; of a file in a directory that is not known.
    pub(super) uploaded: Option<SystemTime>,
}

impl ListedPackage {
    /// Below the directory of the set: `dist/rocm-7.13.0.tar.gz`.
    pub(super) fn path(&self, layout: Layout) -> String {
        let family = self.family.as_ref();
        let family = family.map_or_else(String::new, |family| format!("{family}/"));
        format!("{}{family}{}", layout.files(), self.name)
    }
}

/// The bytes of a package.
pub(super) enum Opened {
    Whole(Vec<u8>),
    Far(Ranged<'static>),
}

impl SetPlace {
    /// All packages and sidecars in the directory of packages, and in those of families in it.
    pub(super) fn files(&self, layout: Layout) -> Result<Vec<ListedPackage>> {
        let objects = match (layout, self.local()) {
            // Beside plain packages on a disk there may be anything, to any depth.
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
            // What lies deeper is no package of the set.
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

    /// Where the packages are: in `dist` if it exists.
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
        // One byte more tells a file that grew from one that did not.
        let mut bytes = Vec::new();
        let reader = self.store().get(&key, Span::Whole)?;
        reader.take(size + 1).read_to_end(&mut bytes)?;
        Ok(Opened::Whole(bytes))
    }

    /// The same from its first to its last byte.
    pub(super) fn stream(
        &self,
        listed: &ListedPackage,
        layout: Layout,
    ) -> Result<Box<dyn Read + Send>> {
        Ok(self
            .store()
            .get(&self.key(&listed.path(layout))?, Span::Whole)?)
    }

    /// The digest that the store keeps, if it keeps one.
    pub(super) fn kept_digest(
        &self,
        listed: &ListedPackage,
        layout: Layout,
    ) -> Result<Option<Sha256>> {
        Ok(self.store().head(&self.key(&listed.path(layout))?)?.sha256)
    }

    /// How a file looks now. In a bucket a listing says it of a thousand at a time, with the marks
    /// that the next one will have.
    pub(super) fn stamp(&self, path: &str) -> Result<Option<SetStamp>> {
        if self.local().is_none() {
            return Ok(None);
        }
        match self.store().head(&self.key(path)?) {
            Err(error) if error.kind() == StoreFailureKind::NotFound => Ok(None),
            object => Ok(Some(self.stamp_of(&object?))),
        }
    }

    /// The text of a document such as `set.json`, and how that looks.
    pub(super) fn document(&self, name: &str) -> Result<Option<(String, SetStamp)>> {
        let object = match self.store().head(&self.key(name)?) {
            Err(error) if error.kind() == StoreFailureKind::NotFound => return Ok(None),
            object => object?,
        };
        let text = self.text(&self.path(name))?;
        Ok(text.map(|text| (text, self.stamp_of(&object))))
    }

    /// On a disk the mark says no more than the time, which may be too coarse to tell two files apart.
    fn stamp_of(&self, object: &Object) -> SetStamp {
        SetStamp {
            size: object.size,
            modified: object.modified.and_then(nanoseconds),
            etag: object.etag.clone().filter(|_| self.local().is_none()),
        }
    }
}

/// The directories of families beside plain packages.
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

/// Beside plain packages anything may lie, so that only what is called as a target is a family's.
fn is_family(name: &str, layout: Layout) -> bool {
    let is_likely = layout == Layout::Dist || name.starts_with("gfx");
    is_likely && !name.is_empty() && ArtifactGroup::of_directory(name).is_ok()
}
