//! [`LocalSet`]: the packages of a local directory and their metadata.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use super::{
    read_packages::{
        KnownFacts, KnownPackage, KnownPackages, ReadFacts, Reading, metadata_of, remember,
    },
    set_place::{PackageDirectories, SetPlace},
};
use crate::{
    console::World,
    index::{
        PackageFile,
        pages::{Phase, is_index_page, pages},
        set_json::{Identity, SetJson},
    },
};
use rocwheel_base::{
    atomic,
    digest::{HashedStart, Sha256},
    error::{Context as _, Error, Hint as _, No, Result, anyhow, one_line},
    io::{DigestCache, FileIdentity, read_text},
};
use rocwheel_store::CopySource;

/// The packages of a local directory, and what its `set.json` says about them.
#[derive(Debug)]
pub struct LocalSet {
    /// The directory that holds `set.json`, `simple/`, and `dist/` or the packages themselves.
    pub root: PathBuf,
    pub document: SetJson,
    /// What was read of each package, by path.
    pub(super) facts: HashMap<String, ReadFacts>,
    /// The digests in `set.json`, by path. The files may have others.
    described: BTreeMap<String, Sha256>,
    /// The record that is published beside the packages.
    pub(super) record: Option<RecordFile>,
    /// Objects with the bytes of packages, by the path of the package.
    pub(super) copies: BTreeMap<String, CopySource>,
}

/// A document that is published beside the packages of a set.
#[derive(Debug)]
pub(super) struct RecordFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl LocalSet {
    /// Reads every package in some directories of `root`, except those that this process, `build` or `index`
    /// read and that have not changed since.
    pub fn read(
        root: &Path,
        directories: PackageDirectories,
        read: KnownPackages,
        world: &World,
    ) -> Result<Self> {
        let place = SetPlace::existing(root, &world.stop)?;
        let known = KnownFacts { made: read, ..KnownFacts::read(&place, None)? };
        Self::read_known(root, &place, known, directories, |_| true, world)
    }

    /// Describes the packages in `{dest}/dist`, which `build` has just made, and the run that they
    /// were made from, in `{dest}/set.json`. No package is opened: the facts come from packing. Only
    /// a file that changed since is read. Other files in `dist` came in during the build, and are not of
    /// the set.
    pub fn built(
        dest: &Path,
        identity: Identity,
        made: KnownPackages,
        world: &World,
    ) -> Result<Self> {
        let place = SetPlace::directory(dest, &world.stop);
        let page = dest.join("set.json");
        // Remove the `set.json` of an earlier build first, with the index that names its packages: they
        // must not stay beside the new packages if anything below fails.
        remove_index(&place, dest)?;
        atomic::clear(&page)?;
        let packed: HashMap<String, Sha256> =
            made.iter().map(|(path, known)| (path.clone(), known.file.sha256)).collect();
        let known = KnownFacts { identity, made, ..KnownFacts::default() };
        let directories = PackageDirectories::Built;
        let is_packed = |path: &str| packed.contains_key(path);
        // Before any package is read.
        let cache = DigestCache::of_directory(dest);
        let set = Self::read_known(dest, &place, known, directories, is_packed, world)
            .context("failed to read the finished set")?;
        for file in &set.document.files {
            let sha256 = packed.get(&file.path);
            if sha256.is_some_and(|sha256| *sha256 != file.sha256) {
                return Err(anyhow!("`{}` changed after it was packed", file.path))
                    .hint("build again, while no other program writes there");
            }
        }
        // No times in it, so that the same set gives the same bytes.
        atomic::write(&page, set.document.pretty())?;
        if let Err(error) = remember(cache, &set.facts, &set.document) {
            let why = one_line(&error);
            world.console.warn(format!("the next command reads the packages again: {why}"));
        }
        Ok(set)
    }

    fn read_known(
        root: &Path,
        place: &SetPlace,
        known: KnownFacts,
        directories: PackageDirectories,
        is_of_set: impl Fn(&str) -> bool,
        world: &World,
    ) -> Result<Self> {
        let layouts = place.layouts(directories)?;
        let mut files = place.files(&layouts)?;
        files.retain(|file| is_of_set(&file.path));
        let bytes: u64 = files.iter().map(|file| file.stamp.size).sum();
        let reading = Reading {
            place,
            layouts,
            known: &known,
            at_once: World::jobs(),
            world,
            progress: &world.console.progress("Reading", root.display(), bytes),
        };
        let packages = reading.run(files)?;
        Ok(Self {
            root: root.to_owned(),
            document: SetJson::new(known.identity.clone(), packages.files)?,
            facts: packages.facts,
            described: known.files.into_iter().map(|(path, it)| (path, it.sha256)).collect(),
            record: None,
            copies: BTreeMap::new(),
        })
    }

    /// The packages that a promotion has just written below `root`. Their digests are not taken again.
    pub fn promoted(
        root: &Path,
        identity: Identity,
        written: Vec<PackageFile>,
        world: &World,
    ) -> Result<Self> {
        let mut known = KnownFacts { identity, ..KnownFacts::default() };
        for file in written {
            let path = root.join(&file.path);
            let metadata = metadata_of(&path)?;
            let identity = Some(FileIdentity::of(&path)?);
            let path = file.path.clone();
            known.made.insert(path, KnownPackage { file, identity, metadata, start: None });
        }
        let place = SetPlace::directory(root, &world.stop);
        let directories = PackageDirectories::Built;
        Self::read_known(root, &place, known, directories, |_| true, world)
    }

    /// The beginning of a wheel, and which file begins so, if `build` remembers it.
    pub fn start_of(&self, path: &str) -> Option<(FileIdentity, &HashedStart)> {
        let facts = self.facts.get(path)?;
        Some((facts.identity?, facts.start.as_ref()?))
    }

    /// Names an object with the bytes of a package, for servers that can copy it.
    pub fn copy_from(&mut self, path: &str, source: CopySource) {
        self.copies.insert(path.to_owned(), source);
    }

    /// Sets the record that is published beside the packages. A set has one.
    pub fn set_record(&mut self, path: &str, text: String) {
        self.record = Some(RecordFile { path: path.to_owned(), text });
    }

    /// An error if a file that `set.json` describes is missing or has another digest. With
    /// `is_exact`, also if the directory has a package that `set.json` does not describe.
    ///
    /// A wheel from another build can have the same name and version. It looks right, but does not
    /// work with the other packages of this set.
    pub fn ensure_as_described(&self, is_exact: bool) -> Result<()> {
        let files: BTreeMap<&String, Sha256> =
            self.document.files.iter().map(|file| (&file.path, file.sha256)).collect();
        let mut differences = Vec::new();
        for (path, built) in &self.described {
            match files.get(path) {
                None => differences.push(format!("`{path}` is missing")),
                Some(sha256) if sha256 != built => differences
                    .push(format!("`{path}` has the sha256 {sha256}, and `set.json` says {built}")),
                Some(_) => {}
            }
        }
        // No advice to run `index` on other bytes: it would describe them as what `build` made.
        let hint = if differences.is_empty() {
            "remove what was added, or run `rocwheel index` on it to keep its files"
        } else {
            "build again: these are not the files that were built"
        };
        let added =
            files.keys().filter(|path| is_exact && !self.described.contains_key(path.as_str()));
        differences.extend(added.map(|path| format!("`{path}` is not described")));
        let place = self.root.display();
        let headline = format!("`{place}` does not hold the set that `build` described there");
        because(headline, differences).map_or(Ok(()), |refusal| Err(refusal).hint(hint))
    }
}

/// Removes the pages that an `index` of the packages in `set.json` wrote beside `dist`. A page that another
/// program put there stays.
fn remove_index(place: &SetPlace, root: &Path) -> Result<()> {
    let Some(earlier) = place.find_set_json()? else {
        return Ok(());
    };
    let mut removed = Vec::new();
    for page in pages(&earlier, &earlier.views(), None) {
        let file = root.join(&page.path);
        let is_ours = page.phase < Phase::Whole
            && read_text(&file).is_ok_and(|text| is_index_page(&page.path, &text));
        if is_ours {
            fs_err::remove_file(file)?;
            removed.push(page.path);
        }
    }
    place.tidy(&removed);
    Ok(())
}

/// A negative answer with a cause for each line. `None` without any.
pub fn because(headline: String, mut causes: Vec<String>) -> Option<Error> {
    // The exit code depends on the type of the innermost cause, so that one has to be a `No`.
    let innermost = Error::from(No(causes.pop()?));
    Some(causes.into_iter().rev().fold(innermost, Error::context).context(headline))
}
