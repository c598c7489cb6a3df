//! What a build remembers beside `dist`, so that the next one reads only the files that changed, and
//! packs only the wheels that changed.
//!
//! `.rocwheel-sources.json` is a [`DigestCache`] of the contents that it packed. `.rocwheel-built.json` says
//! which wheels it wrote, by their SHA-256, and from what: a file with such a digest is that wheel, wherever
//! it is. Neither has a path of this machine in it, and a build without them reads and packs everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use crate::{
    atomic,
    digest::Sha256,
    elf::Rpath,
    error::Result,
    io::{CachedFile, DigestCache, FileIdentity},
    relpath::RelPath,
    wheel::PackSettings,
};

/// The names of the files. Programs that list a directory mostly leave such names out.
const SOURCES: &str = ".rocwheel-sources.json";
const WHEELS: &str = ".rocwheel-built.json";
const SCHEMA: &str = "rocwheel-built-v5";
/// The longest list of wheels that is read: 100,000.
const LIMIT: u64 = 16 << 20;

/// Stands for the content of a member as long as the files that it is made of are the same.
#[derive(Clone, Debug)]
pub(super) struct ContentKey {
    digest: Sha256,
    /// The file that settles last.
    newest: FileIdentity,
}

impl ContentKey {
    /// Of a file that has this identity just now, and gets this run path. `None` if the file changed so recently
    /// that a further change might not show, and on systems without inodes.
    pub(super) fn of_file(
        path: &Path,
        newest: FileIdentity,
        rpath: Option<&Rpath>,
    ) -> Option<Self> {
        if !newest.is_settled(SystemTime::now()) {
            return None;
        }
        let digest = Sha256::of(format!("{:?}", (path, newest, rpath)).as_bytes());
        Some(Self { digest, newest })
    }

    /// Of something that is made of several files in a certain way. `None` if there are no files.
    pub(super) fn derived(how: &str, parts: &[Self]) -> Option<Self> {
        let digests: Vec<Sha256> = parts.iter().map(|part| part.digest).collect();
        let newest = parts.iter().map(|part| part.newest);
        Some(Self {
            digest: Sha256::of(format!("{how} {digests:?}").as_bytes()),
            newest: newest.max_by_key(FileIdentity::settles)?,
        })
    }
}

/// Stands for the bytes of a wheel: a digest of everything that they follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WheelRecipe(Sha256);

impl WheelRecipe {
    /// `members` are all but RECORD in their order: path, whether it is executable, and digest.
    pub(super) fn new<'a>(
        members: impl Iterator<Item = (&'a RelPath, bool, Sha256)>,
        settings: &PackSettings,
    ) -> Self {
        let members: Vec<_> = members.collect();
        let (time, how) = (settings.time, settings.compression.recipe());
        Self(Sha256::of(format!("{members:?} {time} {how}").as_bytes()))
    }
}

/// The wheels that builds wrote. `program` is the one that wrote them: another one may edit or pack the same
/// sources in another way.
#[derive(Debug, Default, Serialize, Deserialize)]
struct BuiltWheels {
    schema: String,
    program: Option<FileIdentity>,
    wheels: BTreeMap<Sha256, WheelRecipe>,
}

/// What builds remember.
#[derive(Debug)]
pub(super) struct BuildMemory {
    program: Option<FileIdentity>,
    sources: DigestCache,
    /// The sources of this build. All others are forgotten.
    used: BTreeSet<String>,
    wheels: BTreeMap<Sha256, WheelRecipe>,
}

impl BuildMemory {
    /// What the builds of a set remember. Nothing if there is no such file, or if it cannot be read.
    /// `program` is the file of this program; without it, nothing is remembered of the sources.
    pub(super) fn read(root: &Path, program: Option<&PathBuf>) -> Self {
        let read = || -> Result<BuiltWheels> {
            let file = fs_err::File::open(root.join(WHEELS))?;
            Ok(serde_json::from_reader(file.take(LIMIT))?)
        };
        let program = program.and_then(|path| FileIdentity::of(path).ok());
        let program = program.filter(FileIdentity::has_inode);
        let found = read().unwrap_or_default();
        let is_ours = found.schema == SCHEMA && found.program == program && program.is_some();
        Self {
            program,
            sources: DigestCache::open(root.join(SOURCES)),
            used: BTreeSet::new(),
            wheels: if is_ours { found.wheels } else { BTreeMap::new() },
        }
    }

    /// The name of a content in the cache. What another program packed has another one.
    fn name(&self, key: &ContentKey) -> Option<String> {
        let parts = format!("{:?} {}", self.program?, key.digest);
        Some(Sha256::of(parts.as_bytes()).to_string())
    }

    /// Remembers the digest of a content.
    pub(super) fn learn(&mut self, key: &ContentKey, sha256: Sha256) {
        if let Some(name) = self.name(key) {
            let file = CachedFile { sha256, metadata: None };
            self.sources.insert(&name, key.newest, file);
            self.used.insert(name);
        }
    }

    /// The digest of a content.
    pub(super) fn recall(&self, key: &ContentKey) -> Option<Sha256> {
        Some(self.sources.get(&self.name(key)?, key.newest)?.sha256)
    }

    /// What the bytes of a wheel with this digest follow from, if a build of this program wrote it.
    pub(super) fn recipe(&self, wheel: Sha256) -> Option<WheelRecipe> {
        self.wheels.get(&wheel).copied()
    }

    /// Whether it is of use to know the digests of wheels.
    pub(super) fn has_wheels(&self) -> bool {
        !self.wheels.is_empty()
    }

    /// Writes both files. `wheels` are those of the new set.
    pub(super) fn write(
        mut self,
        root: &Path,
        wheels: impl IntoIterator<Item = (Sha256, WheelRecipe)>,
    ) -> Result<()> {
        self.sources.retain(|name| self.used.contains(name));
        self.sources.write()?;
        let built = BuiltWheels {
            schema: SCHEMA.to_owned(),
            program: self.program,
            wheels: wheels.into_iter().collect(),
        };
        Ok(atomic::write(&root.join(WHEELS), serde_json::to_vec(&built)?)?)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    fn key_of(path: &Path) -> Option<ContentKey> {
        ContentKey::of_file(path, FileIdentity::of(path).unwrap(), None)
    }

    #[test]
    fn a_source_is_remembered_until_it_is_touched_in_any_way() {
        let directory = tempfile::tempdir().unwrap();
        let (root, program) = (directory.path(), directory.path().join("program"));
        let path = root.join("libx.so");
        for path in [&path, &program] {
            fs_err::write(path, "x").unwrap();
        }
        // The time of a change of the inode cannot be set, so time has to pass.
        sleep(Duration::from_millis(100));
        let key = key_of(&path).unwrap();
        let tar = ContentKey::derived("tar", std::slice::from_ref(&key)).unwrap();
        let mut memory = BuildMemory::read(root, Some(&program));
        assert_eq!(memory.recall(&key), None);
        let (content, recipe) = (Sha256::of(b"x"), WheelRecipe(Sha256::of(b"recipe")));
        memory.learn(&key, content);
        let wheel = Sha256::of(b"a wheel");
        memory.write(root, [(wheel, recipe)]).unwrap();

        let memory = BuildMemory::read(root, Some(&program));
        assert_eq!(memory.recall(&key), Some(content));
        assert_eq!(memory.recall(&tar), None, "what is made of it is another content");
        assert_eq!(memory.recipe(wheel), Some(recipe));
        assert_eq!(memory.recipe(content), None);
        // Another program may pack in another way.
        for other in [Some(&path), None] {
            let memory = BuildMemory::read(root, other);
            assert_eq!((memory.recall(&key), memory.recipe(wheel)), (None, None));
        }
        // The old time of the last write does not help.
        let time = fs_err::metadata(&path).unwrap().modified().unwrap();
        fs_err::write(&path, "y").unwrap();
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.file().set_modified(time).unwrap();
        sleep(Duration::from_millis(100));
        assert_eq!(memory.recall(&key_of(&path).unwrap()), None);
        // What this build did not need is forgotten.
        memory.write(root, []).unwrap();
        let memory = BuildMemory::read(root, Some(&program));
        assert_eq!((memory.recall(&key), memory.recipe(wheel)), (None, None));
        fs_err::write(root.join(WHEELS), "{").unwrap();
        fs_err::write(root.join(SOURCES), "{").unwrap();
        assert!(!BuildMemory::read(root, Some(&program)).has_wheels());
    }
}
