//! [`KnownFacts`]: what an earlier run wrote into `set.json`, and whether a file is unchanged
//! since, so that it need not be read again.

use std::collections::{BTreeMap, HashMap};

use itertools::Itertools as _;

use super::{
    files::ListedPackage,
    packages::{Sidecar, is_wheel},
    place::SetPlace,
    set_json::{Identity, PART, SetJson, SetJsonFile, SetStamp},
};
use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, Result},
    run::ArtifactGroup,
    version::Version,
    wheel::DistName,
};

/// The coarsest resolution of modification times, in nanoseconds. Within it a file can change and
/// keep its time.
const GRAIN: u64 = 2_000_000_000;

/// The facts of one package that an index shows, from its metadata: METADATA of a wheel ([PEP
/// 427](https://peps.python.org/pep-0427/)), PKG-INFO of an sdist ([PEP
/// 625](https://peps.python.org/pep-0625/)).
#[derive(Debug)]
pub(super) struct PackageFacts {
    pub(super) project: DistName,
    pub(super) version: Version,
    pub(super) requires_python: Option<String>,
}

/// The facts of an earlier run about each file.
#[derive(Debug, Default)]
pub(super) struct KnownFacts {
    pub(super) identity: Identity,
    files: HashMap<String, SetJsonFile>,
    /// Sizes and digests, by path, of what this process wrote itself.
    made: HashMap<String, (u64, Sha256)>,
    /// The stamp of `set.json` itself, to compare with the times of the files.
    pub(super) stamp: Option<SetStamp>,
}

impl KnownFacts {
    /// Reads `set.json`, or `part.json` if only parts were uploaded so far.
    pub(super) fn read(place: &SetPlace) -> Result<Self> {
        for name in ["set.json", PART] {
            if let Some((text, stamp)) = place.document(name)? {
                let document = SetJson::parse(&text)
                    .with_context(|| format!("failed to read `{}`", place.shown_in_full(name)))
                    .hint("remove it, so that it is written again")?;
                return Ok(Self::new(document, Some(stamp)));
            }
        }
        Ok(Self::default())
    }

    fn new(document: SetJson, stamp: Option<SetStamp>) -> Self {
        let by_path = |file: SetJsonFile| (file.path.clone(), file);
        Self {
            files: document.files.into_iter().map(by_path).collect(),
            made: HashMap::new(),
            identity: document.identity,
            stamp,
        }
    }

    /// Sizes and digests, by path, of what this process wrote itself.
    pub(super) fn made(made: HashMap<String, (u64, Sha256)>) -> Self {
        Self {
            made,
            ..Self::default()
        }
    }

    /// The digest of every file, by path.
    pub(super) fn digests(&self) -> BTreeMap<String, Sha256> {
        let digests = self
            .files
            .iter()
            .map(|(path, file)| (path.clone(), file.sha256));
        digests.collect()
    }

    /// The families of an earlier index, whose pages may exist.
    pub(super) fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.values().filter_map(SetJsonFile::family);
        families.sorted().dedup().collect()
    }

    /// The reason why a file is yanked, if it is.
    pub(super) fn yanked(&self, path: &str) -> Option<String> {
        self.files.get(path)?.yanked.clone()
    }

    /// The digest of a file, if the file is unchanged.
    pub(super) fn sha256(&self, listed: &ListedPackage) -> Option<Sha256> {
        match self.made.get(&listed.path) {
            Some((size, sha256)) if *size == listed.stamp.size => Some(*sha256),
            _ => self.same(listed).map(|file| file.sha256),
        }
    }

    /// Everything known about a file, if the file and its sidecar are both unchanged.
    pub(super) fn all(
        &self,
        listed: &ListedPackage,
        sidecar: Option<&SetStamp>,
    ) -> Option<(Sha256, PackageFacts, Option<Sidecar>)> {
        let file = self.same(listed)?;
        let remembered = file.remembered.as_ref()?;
        let metadata = sidecar.zip(remembered.sidecar_sha256);
        let metadata = metadata.map(|(stamp, sha256)| Sidecar {
            size: stamp.size,
            sha256,
        });
        let facts = PackageFacts {
            project: file.project.clone(),
            version: file.version.clone(),
            requires_python: remembered.requires_python.clone(),
        };
        let is_wheel = is_wheel(&listed.name);
        let is_same = remembered.sidecar.as_ref() == sidecar
            && is_wheel == sidecar.is_some()
            && is_wheel == metadata.is_some();
        is_same.then_some((file.sha256, facts, metadata))
    }

    fn same(&self, listed: &ListedPackage) -> Option<&SetJsonFile> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stamp(modified: u64, etag: Option<&str>) -> SetStamp {
        SetStamp {
            size: 1,
            modified: Some(modified),
            etag: etag.map(str::to_owned),
        }
    }

    fn known(file: &SetStamp, written: u64) -> KnownFacts {
        let sha256 = Sha256::of(b"a");
        let text = serde_json::json!({ "schema": 1, "files": [{
            "path": "dist/a-1.tar.gz", "project": "a", "version": "1", "size": 1,
            "sha256": sha256.to_string(), "remembered": { "file": file },
        }, {
            "path": "dist/b-1-py3-none-any.whl", "project": "b", "version": "1", "size": 1,
            "sha256": sha256.to_string(),
            "remembered": { "file": file, "sidecar": file, "sidecar-sha256": sha256.to_string() },
        }] });
        let document = SetJson::parse(&text.to_string()).unwrap();
        KnownFacts::new(document, Some(stamp(written, None)))
    }

    fn listed(name: &str, stamp: SetStamp) -> ListedPackage {
        ListedPackage {
            path: format!("dist/{name}"),
            family: None,
            name: name.into(),
            stamp,
            uploaded: None,
        }
    }

    #[test]
    fn a_digest_holds_for_the_same_size_time_and_mark_only() {
        let (old, late) = (stamp(SECOND, None), 3 * SECOND);
        let is_known = |known: &KnownFacts, stamp: SetStamp| {
            known.sha256(&listed("a-1.tar.gz", stamp)).is_some()
        };
        assert!(is_known(&known(&old, late), old.clone()));
        assert!(!is_known(&known(&old, late), stamp(SECOND + 1, None)));
        assert!(!is_known(
            &known(&old, late),
            SetStamp {
                size: 2,
                ..old.clone()
            }
        ));
        assert!(!is_known(&known(&old, late), stamp(SECOND, Some("mark"))));
        assert!(
            !is_known(&known(&old, late - 1), old),
            "it may have changed since"
        );
        let marked = stamp(SECOND, Some("mark"));
        assert!(
            is_known(&known(&marked, 0), marked.clone()),
            "a mark needs no time"
        );
        assert!(!is_known(&known(&marked, 0), stamp(SECOND, Some("other"))));
    }

    #[test]
    fn what_a_wheel_says_holds_as_long_as_its_sidecar_does() {
        let old = stamp(SECOND, None);
        let known = known(&old, 3 * SECOND);
        let wheel = listed("b-1-py3-none-any.whl", old.clone());
        let all = |sidecar| known.all(&wheel, sidecar).is_some();
        assert!(all(Some(&old)));
        assert!(!all(None), "the sidecar is gone");
        assert!(!all(Some(&stamp(SECOND + 1, None))), "it was touched");
        let sdist = listed("a-1.tar.gz", old.clone());
        assert!(known.all(&sdist, None).is_some());
        assert!(known.all(&sdist, Some(&old)).is_none());
    }
}
