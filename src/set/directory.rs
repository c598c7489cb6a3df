//! [`LocalSet`]: the packages of a local directory and their metadata, as `upload` and `summary`
//! use them.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use super::{
    address::local_urls,
    known::KnownFacts,
    place::SetPlace,
    read::{Kept, MetadataDepth, Reading, SetReadProgress},
};
use crate::{
    console::World,
    digest::Sha256,
    error::{Error, Hint as _, No, Result},
    index::{Layout, PackageSet, SetFile, SetJson, Urls},
};

/// The packages of a local directory, and what its `set.json` says about them.
#[derive(Debug)]
pub struct LocalSet {
    /// The directory that holds `set.json`, `simple/`, and `dist/` or the packages themselves.
    pub root: PathBuf,
    pub layout: Layout,
    pub set: PackageSet,
    pub document: SetJson,
    /// The METADATA of each wheel, by the path of its sidecar.
    metadata: HashMap<String, Vec<u8>>,
    /// The digests in `set.json`, by path. They may differ from those of the files.
    described: BTreeMap<String, Sha256>,
}

impl LocalSet {
    /// Reads and hashes every package: in `dist/` if it exists, otherwise in `root`.
    pub fn read(root: &Path, world: &World) -> Result<Self> {
        let place = SetPlace::directory(root, &world.stop);
        let (layout, known) = (place.layout()?, KnownFacts::read(&place)?);
        let progress = world.console.progress("Reading", root.display(), None);
        Self::read_known((root, &place), layout, known, world, &|bytes| {
            progress.inc(bytes);
        })
    }

    /// Reads packages in `dist/` that this process has just made. `made` has their sizes and
    /// digests by path.
    pub fn made(root: &Path, made: HashMap<String, (u64, Sha256)>, world: &World) -> Result<Self> {
        let place = SetPlace::directory(root, &world.stop);
        Self::read_known(
            (root, &place),
            Layout::Dist,
            KnownFacts::made(made),
            world,
            &|_| {},
        )
    }

    fn read_known(
        (root, place): (&Path, &SetPlace),
        layout: Layout,
        known: KnownFacts,
        world: &World,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self> {
        let kept = Kept::default();
        let reading = Reading {
            place,
            layout,
            known: &known,
            metadata: MetadataDepth::Wanted,
            at_once: world.jobs(),
            watch: SetReadProgress {
                stop: &world.stop,
                progress,
            },
            keep: &|file, _, bytes| {
                kept.keep(file.sidecar_path(layout), bytes);
                Ok(None)
            },
        };
        let set = reading.run()?.set;
        Ok(Self {
            root: root.to_owned(),
            layout,
            described: known.digests(),
            document: SetJson::new(known.identity, &set, layout),
            set,
            metadata: kept.into_inner(),
        })
    }

    /// An error if a file that `set.json` describes is missing or has another digest.
    ///
    /// A wheel from another build can have the same name and version. It looks right, but does not
    /// work with the other packages of this set.
    pub fn ensure_as_described(&self) -> Result<()> {
        let files = self.set.files().iter();
        let files = files.map(|file| (file.path(self.layout), file.sha256));
        let files: BTreeMap<String, Sha256> = files.collect();
        let mut differences = Vec::new();
        for (path, built) in &self.described {
            match files.get(path) {
                None => differences.push(format!("`{path}` is missing")),
                Some(sha256) if sha256 != built => differences.push(format!(
                    "`{path}` has the sha256 {sha256}, and `set.json` says {built}"
                )),
                Some(_) => {}
            }
        }
        let Some(innermost) = differences.pop() else {
            return Ok(());
        };
        let innermost = Error::new(No(innermost));
        let cause = differences
            .into_iter()
            .rev()
            .fold(innermost, Error::context);
        let place = self.root.display();
        Err(cause.context(format!(
            "`{place}` does not hold the set that `build` described there"
        )))
        .hint("build again, or run `rocwheel index` on it if the files were replaced on purpose")
    }

    /// An error if the directory has a package that `set.json` does not describe.
    pub fn ensure_nothing_added(&self) -> Result<()> {
        let paths = self.set.files().iter().map(|file| file.path(self.layout));
        let mut added = paths.filter(|path| !self.described.contains_key(path));
        match added.next() {
            None => Ok(()),
            Some(path) => Err(Error::new(No(format!(
                "`{path}` in `{}` is not of the set that `build` described there",
                self.root.display()
            ))))
            .hint("remove it, or build again"),
        }
    }

    /// The path of a package on disk.
    pub fn path(&self, file: &SetFile) -> PathBuf {
        self.root.join(file.path(self.layout))
    }

    /// The contents of a wheel's sidecar. `None` for an sdist.
    pub fn metadata(&self, file: &SetFile) -> Option<&[u8]> {
        let bytes = self.metadata.get(&file.sidecar_path(self.layout))?;
        Some(bytes)
    }

    /// The `file://` URLs of the set.
    pub fn urls(&self) -> Result<Urls> {
        local_urls(&self.root)
    }
}
