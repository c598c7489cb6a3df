//! The set that is promoted, on this disk.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tempfile::TempDir;

use crate::{
    console::World,
    error::Result,
    promote::PromotionRecord,
    set::{self, Layout, LocalSet, PlaceDepth, SetPlace},
    store::CopySource,
};

/// The set on this disk: where it is, or a copy of it.
pub(super) enum SourceSet {
    Here(PathBuf),
    /// With the objects that the files are copies of, by name.
    Copied(TempDir, BTreeMap<String, CopySource>),
}

impl SourceSet {
    /// Copies a set to a temporary directory, if it is not on this disk.
    pub(super) fn fetch(place: &SetPlace, world: &World) -> Result<Self> {
        if let Some(root) = place.local() {
            return Ok(Self::Here(root.to_owned()));
        }
        let copy = tempfile::tempdir()?;
        let dist = copy.path().join("dist");
        let found = set::find(place, PlaceDepth::Pages)?;
        let bytes: u64 = found.packages.iter().map(|it| it.size).sum();
        let progress = world.console.progress("Fetching", place, bytes);
        let mut sources = BTreeMap::new();
        for package in &found.packages {
            let target = dist.join(&package.name);
            // Before its bytes are read: a later object is not copied.
            let object = package.copy_source()?;
            sources.extend(object.map(|it| (package.name.clone(), it)));
            fs::create_dir_all(target.parent().unwrap_or(&dist))?;
            package.save(&target, &world.stop, &|bytes| progress.inc(bytes))?;
        }
        // Its paths may be those of another layout, and its digests have to be those of the copies.
        if let Ok(document) = place.set_json() {
            let document = document.in_layout(Layout::Dist)?;
            fs::write(copy.path().join("set.json"), document.pretty())?;
        }
        Ok(Self::Copied(copy, sources))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Here(path) => path,
            Self::Copied(copy, _) => copy.path(),
        }
    }

    /// Says which packages have the bytes of an object.
    pub(super) fn name_copies(&self, record: &PromotionRecord, promoted: &mut LocalSet) {
        let Self::Copied(_, sources) = self else {
            return;
        };
        let files = record.files.iter().filter(|it| it.sha256 == it.from_sha256);
        for file in files {
            let name = file.from.strip_prefix("dist/").unwrap_or(&file.from);
            if let Some(source) = sources.get(name) {
                promoted.copy_from(&file.path, source.clone());
            }
        }
    }
}
