//! [`KnownFacts`]: what earlier commands know of the files of a place, and when that still holds.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use itertools::Itertools as _;

use super::{
    files::ListedPackage,
    place::SetPlace,
    set_json::{Identity, Layout, PART, SetFile, SetJson, SetStamp, is_ours, is_wheel},
};
use crate::{
    artifact::FileIdentity,
    digest::{BegunHash, Sha256},
    error::{Context as _, Hint as _, Result},
    package::assemble::UnchangedPackages,
    run::ArtifactGroup,
};

/// The coarsest resolution of modification times, in nanoseconds. Within it a file can change and
/// keep its time.
const GRAIN: u64 = 2_000_000_000;

/// The facts of an earlier run about each file.
#[derive(Debug, Default)]
pub(super) struct KnownFacts {
    pub(super) identity: Identity,
    pub(super) files: HashMap<String, SetFile>,
    /// The facts, by path, of packages that a build made and that are still the same files.
    pub(super) made: HashMap<String, MadeFacts>,
    /// The digests that `set.json` says of wheels, by path, where the caller compares them.
    pub(super) claimed: BTreeMap<String, Sha256>,
    /// The stamp of `set.json` itself, to compare with the times of the files.
    pub(super) stamp: Option<SetStamp>,
}

/// What a build knows of a package.
#[derive(Clone, Debug)]
pub(super) struct MadeFacts {
    pub(super) size: u64,
    pub(super) sha256: Sha256,
    /// METADATA of a wheel, PKG-INFO of an sdist.
    pub(super) metadata: Vec<u8>,
    /// The file that it wrote. `None` on systems without inodes.
    pub(super) identity: Option<FileIdentity>,
    /// The hash of what a promoted wheel begins with.
    pub(super) begun: Option<BegunHash>,
}

impl KnownFacts {
    /// Reads `set.json`, and `part.json` if a part was uploaded since: the parts of a set replace
    /// what was there before, such as a set of others only.
    pub(super) fn read(place: &SetPlace) -> Result<Self> {
        let document = |name| -> Result<_> {
            let Some((text, stamp)) = place.document(name)? else {
                return Ok(None);
            };
            let document = SetJson::parse(&text)
                .with_context(|| format!("failed to read `{}`", place.shown_in_full(name)))
                .hint("remove it, so that it is written again")?;
            Ok(Some((document, stamp)))
        };
        let (set, part) = (document("set.json")?, document(PART)?);
        let newer = part.as_ref().filter(|(_, part)| {
            let set = set.as_ref().map(|(_, stamp)| stamp.modified);
            set.is_some_and(|set| part.modified > set)
        });
        let identity = newer.map(|(part, _)| part.identity.clone());
        let mut known = match set.or(part) {
            Some((document, stamp)) => Self::new(document, Some(stamp)),
            None => Self::default(),
        };
        known.identity = identity.unwrap_or(known.identity);
        known.made = place.local().map(made_by_build).unwrap_or_default();
        Ok(known)
    }

    pub(super) fn new(document: SetJson, stamp: Option<SetStamp>) -> Self {
        let by_path = |file: SetFile| (file.path.clone(), file);
        Self {
            files: document.files.into_iter().map(by_path).collect(),
            made: HashMap::new(),
            claimed: BTreeMap::new(),
            identity: document.identity,
            stamp,
        }
    }

    /// Forgets what would save the reading of a package. What only an index can know of it stays, such
    /// as why it is yanked.
    pub(super) fn forget_packages(&mut self) {
        self.made.clear();
        for file in self.files.values_mut() {
            file.remembered = None;
        }
    }

    /// The families of an earlier index, whose pages may exist.
    pub(super) fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.values().filter_map(SetFile::family);
        families.sorted().dedup().collect()
    }

    /// The digest of a file, if the file is unchanged.
    pub(super) fn sha256(&self, listed: &ListedPackage) -> Option<Sha256> {
        self.same(listed).map(|file| file.sha256)
    }

    /// Takes the digest of each wheel of ours from `set.json`, if nothing better is known of it.
    pub(super) fn claim(&mut self, listed: &[ListedPackage], root: &Path) -> Result<()> {
        for package in listed {
            let file = self.files.get(&package.path);
            let file = file.filter(|it| it.size == package.stamp.size && is_ours(&it.project));
            let Some(file) = file.filter(|_| is_wheel(&package.name)) else {
                continue;
            };
            let found = FileIdentity::of(&root.join(&package.path))?;
            if self.made(package, found).is_none() && self.sha256(package).is_none() {
                self.claimed.insert(package.path.clone(), file.sha256);
            }
        }
        Ok(())
    }

    /// What a build knows of a file, if `found` is the one that it wrote.
    pub(super) fn made(
        &self,
        listed: &ListedPackage,
        found: Option<FileIdentity>,
    ) -> Option<&MadeFacts> {
        let made = self.made.get(&listed.path)?;
        (made.size == listed.stamp.size && made.identity == found).then_some(made)
    }

    /// Whether only an earlier index says that a file has this digest. The index knows the file by its
    /// size and its modification time, and another file can be given both. A build knows its own by
    /// more than that: `found`.
    pub(super) fn is_hearsay(
        &self,
        listed: &ListedPackage,
        sha256: Sha256,
        found: Option<FileIdentity>,
    ) -> bool {
        let made = self.made(listed, found);
        made.is_none_or(|made| made.sha256 != sha256) && self.sha256(listed).is_some()
    }

    /// Everything known about a file, if the file and its sidecar are both unchanged.
    pub(super) fn all(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
    ) -> Option<SetFile> {
        let file = self.same(listed)?;
        let remembered = file.remembered.as_ref()?;
        let is_wheel = is_wheel(&listed.name);
        let is_same = remembered.sidecar.as_ref() == sidecar
            && is_wheel == sidecar.is_some()
            && is_wheel == remembered.sidecar_sha256.is_some();
        is_same.then(|| SetFile {
            size: listed.stamp.size,
            metadata: remembered.sidecar_sha256,
            requires_python: remembered.requires_python.clone(),
            ..file.clone()
        })
    }

    fn same(&self, listed: &ListedPackage) -> Option<&SetFile> {
        let file = self.files.get(&listed.path)?;
        let is_same = file.remembered.as_ref()?.file == listed.stamp;
        (is_same && self.is_settled(&listed.stamp)).then_some(file)
    }

    /// Whether equal stamps prove equal bytes.
    ///
    /// An `ETag` does, because it depends on the bytes. A modification time does only if it is older
    /// than `set.json` by `GRAIN`: some clocks are so coarse that a file can change right after its
    /// digest was taken and keep its time.
    fn is_settled(&self, stamp: &SetStamp) -> bool {
        if stamp.etag.is_some() {
            return true;
        }
        let written = self.stamp.as_ref().and_then(|stamp| stamp.modified);
        let ages = stamp.modified.zip(written);
        ages.is_some_and(|(changed, written)| changed.saturating_add(GRAIN) <= written)
    }
}

/// The facts of packages in a directory that `build` made there and that have not changed since.
fn made_by_build(root: &Path) -> HashMap<String, MadeFacts> {
    let mut made = HashMap::new();
    for layout in [Layout::Dist, Layout::Flat] {
        let directory = layout.files();
        let packages = UnchangedPackages::read(&root.join(directory));
        made.extend(packages.iter().map(|(package, identity)| {
            let facts = MadeFacts {
                size: identity.len,
                sha256: package.sha256,
                metadata: package.metadata.clone().into_bytes(),
                identity: Some(identity),
                begun: package.begun.clone(),
            };
            (format!("{directory}{}", package.path), facts)
        }));
    }
    made
}
