//! [`LocalSet`]: the packages of a local directory and their metadata.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use super::{
    known::{KnownFacts, MadeFacts},
    place::SetPlace,
    read::{self, Reading},
    set_json::{Identity, Layout, PackageDirectories, SetJson},
};
use crate::{
    artifact::{FileIdentity, FileStamp, TherockManifest},
    atomic,
    console::World,
    digest::{BegunHash, Sha256},
    error::{Context as _, Error, Hint as _, No, Result, anyhow},
    package::{BuildPlan, assemble::MadePackage},
    store::CopySource,
};

/// The packages of a local directory, and what its `set.json` says about them.
#[derive(Debug)]
pub struct LocalSet {
    /// The directory that holds `set.json`, `simple/`, and `dist/` or the packages themselves.
    pub root: PathBuf,
    pub document: SetJson,
    /// The METADATA of each wheel, by the path of its sidecar.
    pub(super) metadata: HashMap<String, Vec<u8>>,
    /// The stamp that each package had before its digest was taken, by path. Not of those of which
    /// only an earlier index says that they have their digest.
    pub(super) stamps: HashMap<String, FileStamp>,
    /// The packages whose digest is only what `set.json` says.
    claimed: BTreeSet<String>,
    /// The hash of what a wheel begins with, by path, of those that were built here.
    begun: BTreeMap<String, BegunHash>,
    /// The digests in `set.json`, by path. They may differ from those of the files.
    described: BTreeMap<String, Sha256>,
    /// Further documents that are published with the set, by path.
    pub(super) documents: BTreeMap<String, String>,
    /// Files that are no packages and are published with them.
    pub(super) attached: Vec<AttachedFile>,
    /// Objects with the bytes of packages, by the path of the package.
    pub(super) copies: BTreeMap<String, CopySource>,
}

/// A file that is no package: a tarball.
#[derive(Clone, Debug)]
pub struct AttachedFile {
    /// Where it is published.
    pub path: String,
    pub on_disk: PathBuf,
    pub size: u64,
    pub sha256: Sha256,
    /// An object with these bytes.
    pub copy: Option<CopySource>,
}

impl LocalSet {
    /// Reads every package in some directories of `root`, except those of which an earlier command
    /// knows everything: `build` of those that it made, `index` of those that it listed. With
    /// `is_from_bytes` also those.
    pub fn read(
        root: &Path,
        directories: PackageDirectories,
        is_from_bytes: bool,
        world: &World,
    ) -> Result<Self> {
        let (place, known) = known(root, is_from_bytes, world)?;
        Self::read_known(root, &place, known, directories, world)
    }

    /// Like [`LocalSet::read`], but believes `set.json` the digests of wheels that are not known. The
    /// caller reads these wheels in any case, and has to [`confirm`](LocalSet::confirm) the digests.
    pub fn described(
        root: &Path,
        directories: PackageDirectories,
        is_from_bytes: bool,
        world: &World,
    ) -> Result<Self> {
        let (place, mut known) = known(root, is_from_bytes, world)?;
        let listed = place.files(&place.layouts(directories)?)?;
        known.claim(&listed, root)?;
        Self::read_known(root, &place, known, directories, world)
    }

    /// Whether the digest of a package is only what `set.json` says.
    pub fn is_claimed(&self, path: &str) -> bool {
        self.claimed.contains(path)
    }

    /// The hash of what a wheel begins with, if its build remembers it.
    pub fn begun(&self, path: &str) -> Option<&BegunHash> {
        self.begun.get(path)
    }

    /// Sets the digests that packages really have.
    pub fn confirm<'a>(&mut self, digests: impl IntoIterator<Item = (&'a str, Sha256)>) {
        let digests: HashMap<&str, Sha256> = digests.into_iter().collect();
        for file in &mut self.document.files {
            if let Some(sha256) = digests.get(file.path.as_str()) {
                file.sha256 = *sha256;
                self.claimed.remove(&file.path);
            }
        }
    }

    /// Describes the packages in `{dest}/dist`, which `build` has just made, and the run that they
    /// were made from, in `{dest}/set.json`. No package is opened: the facts come from packing. Only
    /// a file that changed since is read.
    pub fn built(
        dest: &Path,
        plan: &BuildPlan,
        manifest: &TherockManifest,
        made: &[MadePackage],
        world: &World,
    ) -> Result<Self> {
        let page = dest.join("set.json");
        // Remove the `set.json` of an earlier build first: it must not stay beside the new packages
        // if anything below fails.
        atomic::clear(&page)?;
        let commit = manifest.commit.as_deref();
        let run_id = manifest.run_id.as_deref();
        let path = |made: &MadePackage| format!("{}{}", Layout::Dist.files(), made.path);
        let known = made.iter().filter_map(|made| {
            let facts = MadeFacts {
                size: made.size,
                sha256: made.sha256,
                metadata: made.metadata()?.to_vec(),
                identity: made.identity,
                begun: None,
            };
            Some((path(made), facts))
        });
        let known = KnownFacts {
            identity: Identity {
                platform: Some(plan.platform),
                commit: commit.and_then(|commit| commit.parse().ok()),
                run_id: run_id.and_then(|run| run.parse().ok()),
                version: Some(plan.version.clone()),
                targets: plan.targets.clone(),
                repository: None,
                without: plan.without.clone(),
                promoted_from: None,
            },
            made: known.collect(),
            ..KnownFacts::default()
        };
        let place = SetPlace::directory(dest, &world.stop);
        let set = Self::read_known(dest, &place, known, PackageDirectories::Built, world)
            .context("failed to read the finished set")?;
        let made = made.iter().map(|made| (path(made), made.sha256));
        let made: HashMap<String, Sha256> = made.collect();
        for file in &set.document.files {
            let sha256 = made.get(&file.path);
            if sha256.is_some_and(|sha256| *sha256 != file.sha256) {
                return Err(anyhow!("`{}` changed after it was packed", file.path))
                    .hint("build again, while no other program writes there");
            }
        }
        // No times in it, so that the same set gives the same bytes.
        atomic::write(&page, set.document.pretty())?;
        Ok(set)
    }

    fn read_known(
        root: &Path,
        place: &SetPlace,
        known: KnownFacts,
        directories: PackageDirectories,
        world: &World,
    ) -> Result<Self> {
        let layouts = place.layouts(directories)?;
        let files = place.files(&layouts)?;
        let bytes: u64 = files.iter().map(|file| file.stamp.size).sum();
        let reading = Reading {
            place,
            layouts,
            known: &known,
            at_once: World::jobs(),
            world,
            progress: &world.console.progress("Reading", root.display(), bytes),
            is_index: false,
        };
        let found = reading.run(files)?;
        Ok(Self {
            root: root.to_owned(),
            document: found.set,
            metadata: found.metadata,
            stamps: found.stamps,
            claimed: known.claimed.into_keys().collect(),
            begun: known
                .made
                .into_iter()
                .filter_map(|(path, it)| Some((path, it.begun?)))
                .collect(),
            described: known
                .files
                .into_iter()
                .map(|(path, it)| (path, it.sha256))
                .collect(),
            documents: BTreeMap::new(),
            attached: Vec::new(),
            copies: BTreeMap::new(),
        })
    }

    /// The packages that a promotion has just written below `root`, each with its digest, which is
    /// not taken again.
    pub fn promoted(
        root: &Path,
        identity: Identity,
        written: &[(String, Sha256)],
        world: &World,
    ) -> Result<Self> {
        let mut known = KnownFacts {
            identity,
            ..KnownFacts::default()
        };
        for (path, sha256) in written {
            let file = root.join(path);
            let metadata = read::metadata_of(&file)?;
            let facts = MadeFacts {
                size: fs_err::metadata(&file)?.len(),
                sha256: *sha256,
                metadata,
                identity: FileIdentity::of(&file)?,
                begun: None,
            };
            known.made.insert(path.clone(), facts);
        }
        let place = SetPlace::directory(root, &world.stop);
        Self::read_known(root, &place, known, PackageDirectories::Built, world)
    }

    /// Names an object with the bytes of a package, for servers that can copy it.
    pub fn copy_from(&mut self, path: &str, source: CopySource) {
        self.copies.insert(path.to_owned(), source);
    }

    /// Adds files that are published at a release place with the packages.
    pub fn attach_files(&mut self, files: Vec<AttachedFile>) {
        self.attached.extend(files);
    }

    /// Adds a document that is published beside the packages.
    pub fn attach(&mut self, path: &str, text: String) {
        self.documents.insert(path.to_owned(), text);
    }

    /// An error if a file that `set.json` describes is missing or has another digest. With
    /// `is_exact`, also if the directory has a package that `set.json` does not describe.
    ///
    /// A wheel from another build can have the same name and version. It looks right, but does not
    /// work with the other packages of this set.
    pub fn ensure_as_described(&self, is_exact: bool) -> Result<()> {
        let files = self.document.files.iter();
        let files = files.map(|file| (&file.path, file.sha256));
        let files: BTreeMap<&String, Sha256> = files.collect();
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
        let added = files
            .keys()
            .filter(|path| is_exact && !self.described.contains_key(path.as_str()));
        differences.extend(added.map(|path| format!("`{path}` is not described")));
        let place = self.root.display();
        let headline = format!("`{place}` does not hold the set that `build` described there");
        let hint =
            "build again, remove what was added, or run `rocwheel index` on it to keep its files";
        because(headline, differences).map_or(Ok(()), |refusal| Err(refusal).hint(hint))
    }
}

/// A directory with packages, and what earlier commands know of them.
fn known(root: &Path, is_from_bytes: bool, world: &World) -> Result<(SetPlace, KnownFacts)> {
    let place = SetPlace::existing(root, &world.stop)?;
    let mut known = KnownFacts::read(&place)?;
    if is_from_bytes {
        known.forget_packages();
    }
    Ok((place, known))
}

/// A negative answer with a cause for each line. `None` without any.
pub fn because(headline: String, mut causes: Vec<String>) -> Option<Error> {
    // The exit code depends on the type of the innermost cause, so that one has to be a `No`.
    let innermost = Error::from(No(causes.pop()?));
    let causes = causes.into_iter().rev();
    Some(causes.fold(innermost, Error::context).context(headline))
}
