//! A directory of packages, read: what an upload and a summary are made from.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread::available_parallelism,
};

use super::{
    address::local_urls,
    known::Known,
    read::{Kept, Metadata, Reading, Watch},
    shelf::{Directory, Shelf},
};
use crate::{
    commands::World,
    digest::Sha256,
    error::{Result, Stop},
    index::{Layout, PackageSet, SetFile, SetJson, Urls},
};

/// The packages of a directory, with what its `set.json` knows about them.
#[derive(Debug)]
pub struct LocalSet {
    /// Where `simple/`, `set.json` and the packages, or `dist/`, are.
    pub root: PathBuf,
    pub layout: Layout,
    pub set: PackageSet,
    pub document: SetJson,
    /// What goes into sidecars, by their paths in this directory.
    metadata: HashMap<String, Vec<u8>>,
}

impl LocalSet {
    /// Reads and hashes every package. Without a layout, `dist` is where they are if it exists.
    pub fn read(
        root: &Path,
        layout: Option<Layout>,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self> {
        let shelf = Directory(root.to_owned());
        let layout = layout.map_or_else(|| layout_of(&shelf), Ok)?;
        let known = Known::read(&shelf)?;
        Self::read_known(shelf, layout, known, Watch { stop, progress })
    }

    /// The packages below `dist` that were just made, with their sizes and digests by path.
    pub fn made(root: &Path, made: HashMap<String, (u64, Sha256)>, stop: &Stop) -> Result<Self> {
        let known = Known::made(made);
        let watch = Watch {
            stop,
            progress: &|_| {},
        };
        Self::read_known(Directory(root.to_owned()), Layout::Dist, known, watch)
    }

    fn read_known(shelf: Directory, layout: Layout, known: Known, watch: Watch) -> Result<Self> {
        let kept = Kept::default();
        let reading = Reading {
            shelf: &shelf,
            layout,
            known: &known,
            metadata: Metadata::Wanted,
            at_once: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            watch,
            keep: &|file, _, bytes| {
                kept.keep(file.sidecar_path(layout), bytes);
                Ok(None)
            },
        };
        let set = reading.run()?.set;
        Ok(Self {
            root: shelf.0,
            layout,
            document: SetJson::new(known.identity, &set, layout),
            set,
            metadata: kept.into_inner(),
        })
    }

    /// The same, as a command does it: with progress, and a layout that shows itself.
    pub fn read_aloud(root: &Path, world: &World) -> Result<Self> {
        let progress = world.console.progress("Reading", root.display(), None);
        Self::read(root, None, &world.stop, &|bytes| progress.inc(bytes))
    }

    /// Where a package is.
    pub fn path(&self, file: &SetFile) -> PathBuf {
        self.root.join(file.path(self.layout))
    }

    /// What a wheel's sidecar says.
    pub fn metadata(&self, file: &SetFile) -> Option<&[u8]> {
        let bytes = self.metadata.get(&file.sidecar_path(self.layout))?;
        Some(bytes)
    }

    /// The addresses on this machine.
    pub fn urls(&self) -> Result<Urls> {
        local_urls(&self.root)
    }
}

/// Where the packages of a shelf are.
pub(super) fn layout_of(shelf: &dyn Shelf) -> Result<Layout> {
    Ok(if shelf.has_dist()? {
        Layout::Dist
    } else {
        Layout::Flat
    })
}
