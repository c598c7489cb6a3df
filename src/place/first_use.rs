//! The digests of files whose place does not say them, such as an index without hashes. Each file is read once, and
//! later files under its address must be the same: trust on first use.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use fs_err::File;
use serde::{Deserialize, Serialize};

use super::{install_source::OfferedFile, set_place::SetPlace, stored_package::StoredPackage};
use crate::{
    console::World,
    digest::{Hasher, Sha256},
    error::{Context as _, No, Result, anyhow, hinted},
    io::{FileCache, Proof, Tap},
    location::Key,
    parallel,
    quantity::many,
};

const SCHEMA: &str = "rocwheel-served-digests-v1";

/// By what a file on a server is known to be still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServedIdentity {
    size: u64,
    /// The digest of the text of its `ETag`.
    etag: Sha256,
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
    /// The directory of the cache, which need not exist.
    directory: PathBuf,
}

impl ServedDigests {
    /// What earlier commands have remembered in this file. Without a file, nothing is remembered.
    pub fn open(path: Option<PathBuf>) -> Self {
        let directory = path.as_deref().and_then(Path::parent).map(Path::to_owned);
        Self {
            cache: path.map(|path| FileCache::open(path, SCHEMA)),
            directory: directory.unwrap_or_default(),
        }
    }

    fn get(&self, address: &str, identity: Option<ServedIdentity>) -> Option<Sha256> {
        self.cache.as_ref()?.get(address, identity?).copied()
    }

    /// The digest of an earlier file under this address.
    fn get_earlier(&self, address: &str) -> Option<Sha256> {
        self.cache.as_ref()?.get_earlier(address).copied()
    }

    fn insert(&mut self, address: &str, identity: Option<ServedIdentity>, sha256: Sha256) {
        if let (Some(cache), Some(identity)) = (&mut self.cache, identity) {
            cache.insert(address, identity, sha256);
        }
    }

    fn write(&self) -> io::Result<()> {
        let Some(cache) = &self.cache else {
            return Ok(());
        };
        fs_err::create_dir_all(&self.directory)?;
        cache.write()
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
        self.say_first_use(unread.len(), world);
        let keep = keep.filter(|_| unread.len() == files.len());
        let read = self.read_files(&unread, keep, world)?;
        for (file, sha256) in unread.iter().zip(read) {
            Self::remember(&mut files[file.position], file, sha256, memory, world);
        }
        Self::write_memory(memory, world);
        Ok(keep.is_some())
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
        let read = self.read_files(&unread, keep, world)?;
        let mut paths = Vec::new();
        for ((offered, file), sha256) in files.iter_mut().zip(&unread).zip(read) {
            if let Some(promised) = offered.sha256
                && promised != sha256
            {
                let refusal = format!(
                    "`{}` has the SHA-256 {sha256}, and the source says {promised}: this is not the file that was \
                     built",
                    offered.name
                );
                return Err(hinted(anyhow!(No(refusal)), self.check_hint()));
            }
            if offered.sha256.is_none() {
                Self::remember(offered, file, sha256, memory, world);
            }
            paths.push(match self.local() {
                Some(root) => root.join(self.below_set(&offered.address().path)),
                None => directory.join(&offered.name),
            });
        }
        Self::write_memory(memory, world);
        Ok(paths)
    }

    /// Takes the digest that a file has now for the digest of the file.
    fn remember(
        offered: &mut OfferedFile,
        file: &UnreadFile,
        sha256: Sha256,
        memory: &mut ServedDigests,
        world: &World,
    ) {
        if memory.get_earlier(&offered.url).is_some_and(|earlier| earlier != sha256) {
            world.console.warn(format!(
                "`{}` is another file than when it was first read: a published package should not change",
                offered.url
            ));
        }
        memory.insert(&offered.url, file.identity, sha256);
        offered.sha256 = Some(sha256);
    }

    /// A file of this disk can be looked at, and is not worth a line.
    fn say_first_use(&self, count: usize, world: &World) {
        if self.local().is_none() && count > 0 {
            world.console.note(format!(
                "`{self}` does not say the SHA-256 of {}: they are read once, and trusted as they are now \
                 (trust on first use)",
                many(count, "file")
            ));
        }
    }

    fn write_memory(memory: &ServedDigests, world: &World) {
        if let Err(error) = memory.write() {
            world.console.debug(format!("the digests are not remembered: {error}"));
        }
    }

    fn look_at(&self, position: usize, file: &OfferedFile) -> Result<UnreadFile> {
        let address = file.address();
        let look = || -> Result<UnreadFile> {
            let key: Key = address.path.parse()?;
            let store = self.store_of(address)?;
            let object = store.head(&key)?;
            let etag = object.etag.filter(|_| self.local().is_none());
            let identity = etag.map(|etag| {
                let etag = Sha256::of(etag.as_bytes());
                ServedIdentity { size: object.size, etag }
            });
            let package = StoredPackage::new(file.name.clone(), &store, key, object.size);
            Ok(UnreadFile { position, identity, package })
        };
        look()
            .with_context(|| format!("failed to read `{}`", file.url))
            .map_err(|error| hinted(error, self.check_hint()))
    }

    /// Reads files for their digests.
    fn read_files(
        &self,
        files: &[UnreadFile],
        keep: Option<&Path>,
        world: &World,
    ) -> Result<Vec<Sha256>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let total = files.iter().map(|file| file.package.size).sum();
        let progress = world.console.progress_in_parts("Reading", self, files.len(), total);
        let read = |file: &UnreadFile| -> Result<Sha256> {
            let package = &file.package;
            progress.begin(&package.name);
            let mut hasher = Hasher::default();
            let copy = package.stream(0..package.size).and_then(|source| {
                let mut source = Tap::new(source, &world.stop, |bytes| progress.inc(bytes));
                match keep {
                    Some(directory) => {
                        let file = File::create(directory.join(&package.name))?;
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
