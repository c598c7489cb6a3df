//! The digests of files whose place does not say them, such as an index without hashes. Each file is read once, and
//! later files under its address must be the same: trust on first use.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use fs_err::File;
use serde::{Deserialize, Serialize};

use super::{
    install_source::OfferedFile, read_index::PublishedSet, set_place::SetPlace,
    stored_package::StoredPackage,
};
use crate::console::World;
use rocwheel_base::{
    digest::{Hasher, Sha256},
    error::{Context as _, Error, No, Result, anyhow, hinted},
    io::{FileCache, Proof, Tap},
    parallel,
    quantity::{many, sum},
};
use rocwheel_store::{Object, location::Key};

const SCHEMA: &str = "rocwheel-served-digests-v1";

/// By what a file on a server is known to be still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServedIdentity {
    size: u64,
    /// The digest of the text of its `ETag`, because a proof has no text.
    etag: Option<Sha256>,
}

impl Proof for ServedIdentity {
    fn is_settled(&self, _: SystemTime) -> bool {
        true
    }
}

/// The digests of files on servers, by the addresses of the files.
#[derive(Debug)]
pub struct ServedDigests {
    cache: Option<FileCache<Sha256, ServedIdentity>>,
    path: PathBuf,
}

impl ServedDigests {
    /// What earlier commands have remembered in this file. Without a file, nothing is remembered.
    pub fn open(path: Option<PathBuf>) -> Self {
        Self {
            path: path.clone().unwrap_or_default(),
            cache: path.map(|path| FileCache::open(path, SCHEMA)),
        }
    }

    /// The digest of a file. `None` if it may be another file now, which without an `ETag` only its bytes tell.
    fn get(&self, address: &str, identity: Option<ServedIdentity>) -> Option<Sha256> {
        let with_etag = identity.filter(|identity| identity.etag.is_some())?;
        self.cache.as_ref()?.get(address, with_etag).copied()
    }

    /// The digest of an earlier file under this address.
    fn get_earlier(&self, address: &str) -> Option<Sha256> {
        self.cache.as_ref()?.get_earlier(address).copied()
    }

    /// Remembers a digest that was just read. Fails if an earlier file under this address had another one. A file of this
    /// disk has no identity and is not remembered: the user may build it again.
    fn take(
        &mut self,
        address: &str,
        identity: Option<ServedIdentity>,
        sha256: Sha256,
    ) -> Result<()> {
        let Some(identity) = identity else {
            return Ok(());
        };
        if let Some(earlier) = self.get_earlier(address).filter(|earlier| *earlier != sha256) {
            let memory = self.path.display();
            return Err(hinted(
                anyhow!(No(format!(
                    "`{address}` is another file than when it was first read: it had the SHA-256 {earlier}, and has \
                     {sha256}"
                ))),
                format!(
                    "a published package does not change; if it is right that this one did, remove `{memory}`"
                ),
            ));
        }
        if let Some(cache) = &mut self.cache {
            cache.insert(address, identity, sha256);
        }
        Ok(())
    }

    /// Writes the cache. A command whose digests cannot be remembered has done its work nevertheless.
    fn write(&self, world: &World) {
        let Some(cache) = &self.cache else {
            return;
        };
        // The directory of the user's caches need not exist.
        let directory = self.path.parent().unwrap_or(&self.path);
        let written = fs_err::create_dir_all(directory).and_then(|()| cache.write());
        if let Err(error) = written {
            world.console.debug(format!("the digests are not remembered: {error}"));
        }
    }
}

/// A file that has to be read for its digest.
struct UnreadFile {
    /// Its position among the files that were asked for.
    position: usize,
    identity: Option<ServedIdentity>,
    package: StoredPackage,
}

impl SetPlace {
    /// Takes the digests of those files whose place does not say them.
    ///
    /// If no digest is known and `keep` is a directory, the files are written there, so that they need not be
    /// downloaded again. Returns whether the directory has all files.
    pub fn take_digests(
        &self,
        files: &mut [OfferedFile],
        memory: &mut ServedDigests,
        keep: Option<&Path>,
        world: &World,
    ) -> Result<bool> {
        let without_digest: Vec<usize> =
            (0..files.len()).filter(|position| files[*position].sha256.is_none()).collect();
        if without_digest.is_empty() {
            return Ok(false);
        }
        let look = |position: &usize| self.look_at(*position, &files[*position]);
        let mut unread = parallel::try_map(&without_digest, self.requests(), &world.stop, look)?;
        unread.retain(|file| {
            let offered = &mut files[file.position];
            offered.sha256 = memory.get(&offered.url, file.identity);
            offered.sha256.is_none()
        });
        let directory = keep.filter(|_| unread.len() == files.len());
        self.say_first_use(unread.len(), world);
        let packages: Vec<&StoredPackage> = unread.iter().map(|file| &file.package).collect();
        let read = self.read_files(&packages, "Reading", directory, world)?;
        for (file, sha256) in unread.iter().zip(read) {
            let offered = &mut files[file.position];
            memory.take(&offered.url, file.identity, sha256)?;
            offered.sha256 = Some(sha256);
        }
        memory.write(world);
        Ok(directory.is_some())
    }

    /// Brings files onto this disk, and compares their digests with those that the place says. Files of a server are
    /// written into `directory`. Returns their paths.
    pub fn obtain(
        &self,
        files: &mut [OfferedFile],
        memory: &mut ServedDigests,
        directory: &Path,
        world: &World,
    ) -> Result<Vec<PathBuf>> {
        let positions: Vec<usize> = (0..files.len()).collect();
        let look = |position: &usize| self.look_at(*position, &files[*position]);
        let unread = parallel::try_map(&positions, self.requests(), &world.stop, look)?;
        for file in &unread {
            let offered = &mut files[file.position];
            offered.sha256 = offered.sha256.or_else(|| memory.get(&offered.url, file.identity));
        }
        self.say_first_use(files.iter().filter(|file| file.sha256.is_none()).count(), world);
        let keep = self.local().is_none().then_some(directory);
        let packages: Vec<&StoredPackage> = unread.iter().map(|file| &file.package).collect();
        let read = self.read_files(&packages, "Reading", keep, world)?;
        let mut paths = Vec::new();
        for ((offered, file), sha256) in files.iter_mut().zip(&unread).zip(read) {
            if let Some(promised) = offered.sha256
                && promised != sha256
            {
                return Err(self.other_bytes(&offered.name, promised, sha256));
            }
            if offered.sha256.is_none() {
                memory.take(&offered.url, file.identity, sha256)?;
                offered.sha256 = Some(sha256);
            }
            paths.push(match self.local() {
                Some(root) => root.join(self.below_set(&offered.address().path)),
                None => directory.join(&offered.name),
            });
        }
        memory.write(world);
        Ok(paths)
    }

    /// Copies the packages of a set into a directory. A file must have the digest that the pages say; where they say
    /// none, it is trusted on first use. What `set.json` says is left to the check of the copy.
    pub fn copy_packages(
        &self,
        set: &PublishedSet,
        directory: &Path,
        memory: &mut ServedDigests,
        world: &World,
    ) -> Result<()> {
        let is_without_digest =
            |package: &&StoredPackage| set.claimed_digests(&package.name).next().is_none();
        let without_digest: Vec<&StoredPackage> =
            set.packages.iter().filter(is_without_digest).collect();
        let look = |package: &&StoredPackage| -> Result<(String, Option<ServedIdentity>)> {
            Ok((self.url_of(&package.address_from(self))?, self.identity_of(&package.head()?)))
        };
        let looked = parallel::try_map(&without_digest, self.requests(), &world.stop, look)?;
        let unknown = looked.iter().filter(|(url, identity)| memory.get(url, *identity).is_none());
        self.say_first_use(unknown.count(), world);
        let names = without_digest.into_iter().map(|package| &*package.name);
        let first_used: BTreeMap<&str, _> = names.zip(looked).collect();
        let packages: Vec<&StoredPackage> = set.packages.iter().collect();
        let read = self.read_files(&packages, "Fetching", Some(directory), world)?;
        for (package, sha256) in packages.into_iter().zip(read) {
            let name = &*package.name;
            if let Some((url, identity)) = first_used.get(name) {
                memory.take(url, *identity, sha256)?;
            } else if !set.is_described()
                && let Some(promised) = set.claimed_digests(name).find(|it| *it != sha256)
            {
                return Err(self.other_bytes(name, promised, sha256));
            }
        }
        memory.write(world);
        Ok(())
    }

    /// The refusal of a file that is not the promised one.
    fn other_bytes(&self, name: &str, promised: Sha256, sha256: Sha256) -> Error {
        let refusal = format!(
            "`{name}` has the SHA-256 {sha256}, and the source says {promised}: this is not the file that was built"
        );
        hinted(anyhow!(No(refusal)), self.check_hint())
    }

    /// Says that files are trusted because no page says their digests. A file of this disk can be looked at, and is not
    /// worth a line.
    fn say_first_use(&self, files: usize, world: &World) {
        if files > 0 && self.local().is_none() {
            world.console.note(format!(
                "`{self}` does not say the SHA-256 of {}: they are read once, and trusted as they are now \
                 (trust on first use)",
                many(files, "file")
            ));
        }
    }

    fn look_at(&self, position: usize, file: &OfferedFile) -> Result<UnreadFile> {
        let address = file.address();
        let look = || -> Result<UnreadFile> {
            let key: Key = address.path.parse()?;
            let store = self.store_of(address)?;
            let object = store.head(&key)?;
            let identity = self.identity_of(&object);
            let package = StoredPackage::new(file.name.clone(), &store, key, object.size);
            Ok(UnreadFile { position, identity, package })
        };
        look()
            .with_context(|| format!("failed to read `{}`", file.url))
            .map_err(|error| hinted(error, self.check_hint()))
    }

    /// By what an object is known to be the same later. `None` for a file of this disk.
    fn identity_of(&self, object: &Object) -> Option<ServedIdentity> {
        let etag = object.etag.as_ref().map(|etag| Sha256::of(etag.as_bytes()));
        self.local().is_none().then_some(ServedIdentity { size: object.size, etag })
    }

    /// Reads files for their digests, and writes them into a directory if there is one.
    fn read_files(
        &self,
        files: &[&StoredPackage],
        verb: &'static str,
        keep: Option<&Path>,
        world: &World,
    ) -> Result<Vec<Sha256>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let total = sum(files.iter().map(|package| package.size));
        let progress = world.console.progress_in_parts(verb, self, files.len(), total);
        let read = |package: &&StoredPackage| -> Result<Sha256> {
            progress.begin(&package.name);
            let mut hasher = Hasher::default();
            let copy = package.stream(0..package.size).and_then(|source| {
                let mut source = Tap::new(source, &world.stop, |bytes| progress.inc(bytes));
                match keep {
                    Some(directory) => {
                        // A package of one family lies in a directory of its own.
                        let target = directory.join(&package.name);
                        fs_err::create_dir_all(target.parent().unwrap_or(directory))?;
                        let file = File::create(target)?;
                        io::copy(&mut source, &mut HashedFile { file, hasher: &mut hasher })
                    }
                    None => io::copy(&mut source, &mut hasher),
                }
            });
            world.stop.check()?;
            package.outcome()?;
            copy.with_context(|| format!("failed to read `{}`", package.name))?;
            progress.finish_part();
            Ok(hasher.finish().0)
        };
        parallel::map(files, World::jobs(), &world.stop, read)
    }
}

/// Writes a file, and hashes what it writes.
struct HashedFile<'a> {
    file: File,
    hasher: &'a mut Hasher,
}

impl Write for HashedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
