//! [`VerdictMemory`]: what `check` said about the set of a directory, so that `summary` can say it too.
//!
//! `.rocwheel-checked.json` beside `set.json` is a [`FileCache`] with one entry. It holds while each package is
//! the file that was read, `set.json` has the same bytes, the accept list is the same, and the same version of
//! rocwheel asks. Accepted findings expire, so a verdict with an accept list holds for one day. The verdict about a set
//! with pages holds only while these and the sidecars are the same files too. The verdict about a set without pages holds
//! on when `index` writes them: it looks at the set itself.

use std::path::{Path, PathBuf};

use super::{CheckOptions, Report};
use crate::place::{PublishedUpload, SetFiles, SetPlace};
use rocwheel_base::{digest::Sha256, error::Result, io::FileCache};

const FILE: &str = ".rocwheel-checked.json";
/// The same of a place in a bucket, in the directory where this machine keeps what it knows of the place.
const FILE_OF_BUCKET: &str = "checked.json";
const SCHEMA: &str = concat!("rocwheel-checked-v1 ", env!("CARGO_PKG_VERSION"));

/// The verdict about the set of a directory, as its files are now, with this accept list.
#[derive(Debug, PartialEq)]
pub struct VerdictMemory {
    path: PathBuf,
    of_packages: Sha256,
    /// `None` if a page has just changed.
    with_pages: Option<Sha256>,
}

impl VerdictMemory {
    /// Where the verdict about a set is remembered. `None` if none is: the set is not on this disk or has no
    /// `set.json`, a package has just changed, or the options are not those of every check.
    ///
    /// **Contract:** the caller that checks the set asks before the first package is read, and again at the end.
    pub fn of(place: &SetPlace, options: &CheckOptions) -> Result<Option<Self>> {
        let Some(root) = place.local().filter(|_| options.are_usual()) else {
            return Ok(None);
        };
        let accept = options.accept.dated(&options.today)?;
        let proof = |files| -> Result<Option<Sha256>> {
            let state = place.state(files)?;
            Ok(state.map(|state| Sha256::of(format!("{state}\n{accept}").as_bytes())))
        };
        let Some(of_packages) = proof(SetFiles::Packages)? else {
            return Ok(None);
        };
        let with_pages = proof(SetFiles::PackagesAndPages)?;
        Ok(Some(Self { path: root.join(FILE), of_packages, with_pages }))
    }

    /// Where the verdict about the packages in a bucket is remembered, without the pages there. `None` if none is: the
    /// user has no directory of caches, the bucket does not say enough of its objects, or the options are not usual.
    pub fn of_bucket(place: &SetPlace, options: &CheckOptions) -> Result<Option<Self>> {
        let Some(directory) = place.caches().filter(|_| options.are_usual()) else {
            return Ok(None);
        };
        Self::of_state(directory, place.state_in_bucket()?, options)
    }

    /// The same, with what was published there a moment ago.
    pub fn of_published(
        place: &SetPlace,
        published: &PublishedUpload,
        options: &CheckOptions,
    ) -> Result<Option<Self>> {
        let Some(directory) = place.caches().filter(|_| options.are_usual()) else {
            return Ok(None);
        };
        Self::of_state(directory, published.state, options)
    }

    fn of_state(
        directory: &Path,
        state: Option<Sha256>,
        options: &CheckOptions,
    ) -> Result<Option<Self>> {
        let Some(state) = state else {
            return Ok(None);
        };
        let accept = options.accept.dated(&options.today)?;
        let of_packages = Sha256::of(format!("{state}\n{accept}").as_bytes());
        let path = directory.join(FILE_OF_BUCKET);
        Ok(Some(Self { path, of_packages, with_pages: Some(of_packages) }))
    }

    /// What was said about this set.
    pub fn report(&self) -> Option<Report> {
        let cache: FileCache<Report, Sha256> = FileCache::open(self.path.clone(), SCHEMA);
        let of_packages = cache.get(SetFiles::Packages.name(), self.of_packages);
        let with_pages = || cache.get(SetFiles::PackagesAndPages.name(), self.with_pages?);
        of_packages.or_else(with_pages).cloned()
    }

    /// Remembers a report, in place of an earlier one. The directory must exist.
    pub fn remember(&self, report: &Report) -> Result<()> {
        let mut cache = FileCache::new(self.path.clone(), SCHEMA);
        // Without pages, both are proofs of the same files.
        let has_pages = self.with_pages != Some(self.of_packages);
        let (files, proof) = if has_pages {
            (SetFiles::PackagesAndPages, self.with_pages)
        } else {
            (SetFiles::Packages, Some(self.of_packages))
        };
        if let Some(proof) = proof {
            cache.insert(files.name(), proof, report.clone());
        }
        Ok(cache.write()?)
    }
}
