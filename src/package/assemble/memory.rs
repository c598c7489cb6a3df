//! What a build remembers beside `dist`, so that the next one reads only the files that changed, and
//! packs only the wheels that changed.
//!
//! Both are a [`FileCache`]. `.rocwheel-sources.json` has the digests of the contents that were packed.
//! `.rocwheel-built.json` says what the wheels were made from; the proof of a wheel is its SHA-256, so that a
//! copy of the set is as good. Neither has a path of this machine in it, and a build without them reads and
//! packs everything.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use rocwheel_base::{
    digest::Sha256,
    error::Result,
    io::{FileCache, FileIdentity},
    relpath::RelPath,
};
use rocwheel_elf::Rpath;
use rocwheel_wheel::PackSettings;

/// The names of the files. Programs that list a directory mostly leave such names out.
const SOURCES: &str = ".rocwheel-sources.json";
const WHEELS: &str = ".rocwheel-built.json";

/// Stands for the content of a member as long as the files that it is made of are the same.
#[derive(Clone, Debug)]
pub(super) struct ContentKey {
    digest: Sha256,
    /// The file that settles last: if a change of this file shows, a change of each of the others does.
    newest: FileIdentity,
}

impl ContentKey {
    /// The content of a file that has this identity now, and gets this run path.
    pub(super) fn of_file(path: &Path, identity: FileIdentity, rpath: Option<&Rpath>) -> Self {
        let digest = Sha256::of(format!("{:?}", (path, identity, rpath)).as_bytes());
        Self { digest, newest: identity }
    }

    /// The content that is made of other contents in the way that `how` says. `None` without any content.
    pub(super) fn derived(how: &str, parts: &[Self]) -> Option<Self> {
        let digests: Vec<Sha256> = parts.iter().map(|part| part.digest).collect();
        let newest = parts.iter().map(|part| part.newest).max_by_key(FileIdentity::settles)?;
        Some(Self { digest: Sha256::of(format!("{how} {digests:?}").as_bytes()), newest })
    }

    /// Its name in the cache.
    fn name(&self) -> String {
        self.digest.to_string()
    }
}

/// Stands for the bytes of a wheel: a digest of everything that they follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WheelRecipe(Sha256);

/// What a recipe knows of a member.
pub(super) struct RecipeMember<'a> {
    pub(super) path: &'a RelPath,
    pub(super) executable: bool,
    pub(super) sha256: Sha256,
}

impl WheelRecipe {
    /// `members` are all members but RECORD, in their order.
    pub(super) fn new<'a>(
        members: impl Iterator<Item = RecipeMember<'a>>,
        settings: &PackSettings,
    ) -> Self {
        let members: Vec<_> =
            members.map(|member| (member.path, member.executable, member.sha256)).collect();
        let time = settings.time;
        let compression = settings.compression.recipe();
        Self(Sha256::of(format!("{members:?} {time} {compression}").as_bytes()))
    }
}

/// What a build remembers.
#[derive(Debug)]
pub(super) struct BuildMemory {
    sources: FileCache<Sha256>,
    /// The recipes of the wheels, by their paths below `dist`.
    wheels: FileCache<WheelRecipe, Sha256>,
}

impl BuildMemory {
    /// Reads what an earlier build of this program remembers beside its set. `program` is the file of this
    /// program. `None` without that file, and on systems without inodes.
    pub(super) fn read(root: &Path, program: Option<&PathBuf>) -> Option<Self> {
        let schema = BuildSchema::of(program?)?;
        Some(Self {
            sources: FileCache::open(root.join(SOURCES), schema.of_sources()),
            wheels: FileCache::open(root.join(WHEELS), schema.of_wheels()),
        })
    }

    /// The memory of a new build, in which nothing of an earlier one is left.
    pub(super) fn new(root: &Path, program: Option<&PathBuf>) -> Option<Self> {
        let schema = BuildSchema::of(program?)?;
        Some(Self {
            sources: FileCache::new(root.join(SOURCES), schema.of_sources()),
            wheels: FileCache::new(root.join(WHEELS), schema.of_wheels()),
        })
    }

    pub(super) fn insert_content(&mut self, key: &ContentKey, sha256: Sha256) {
        self.sources.insert(&key.name(), key.newest, sha256);
    }

    /// The digest of a content.
    pub(super) fn content(&self, key: &ContentKey) -> Option<Sha256> {
        self.sources.get(&key.name(), key.newest).copied()
    }

    pub(super) fn insert_wheel(&mut self, path: &str, sha256: Sha256, recipe: WheelRecipe) {
        self.wheels.insert(path, sha256, recipe);
    }

    /// What the bytes of a wheel follow from, if the build wrote this wheel.
    pub(super) fn recipe(&self, path: &str, sha256: Sha256) -> Option<WheelRecipe> {
        self.wheels.get(path, sha256).copied()
    }

    /// Whether it is of use to know the digests of wheels.
    pub(super) fn has_wheels(&self) -> bool {
        !self.wheels.is_empty()
    }

    /// Writes both files.
    pub(super) fn write(&self) -> Result<()> {
        self.sources.write()?;
        Ok(self.wheels.write()?)
    }
}

/// Says in both files which program wrote them: another one may edit or pack the same sources in another way.
struct BuildSchema(FileIdentity);

impl BuildSchema {
    /// `None` if a later build of another program could not be told from one of this program.
    fn of(program: &Path) -> Option<Self> {
        let program = FileIdentity::of(program).ok()?;
        program.is_settled(SystemTime::now()).then_some(Self(program))
    }

    fn of_sources(&self) -> String {
        format!("rocwheel-sources-v2 by {:?}", self.0)
    }

    fn of_wheels(&self) -> String {
        format!("rocwheel-built-v5 by {:?}", self.0)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::{thread::sleep, time::Duration};

    use super::*;

    const WHEEL: &str = "a-1-py3-none-any.whl";

    fn key_of(path: &Path) -> ContentKey {
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
        let read = || BuildMemory::read(root, Some(&program)).unwrap();
        let key = key_of(&path);
        let tar = ContentKey::derived("tar", std::slice::from_ref(&key)).unwrap();
        assert_eq!(read().content(&key), None);
        let content = Sha256::of(b"x");
        let wheel = Sha256::of(b"a wheel");
        let recipe = WheelRecipe(Sha256::of(b"recipe"));
        let mut memory = BuildMemory::new(root, Some(&program)).unwrap();
        memory.insert_content(&key, content);
        memory.insert_wheel(WHEEL, wheel, recipe);
        memory.write().unwrap();

        let memory = read();
        assert!(memory.has_wheels());
        assert_eq!(memory.content(&key), Some(content));
        assert_eq!(memory.content(&tar), None, "what is made of it is another content");
        assert_eq!(memory.recipe(WHEEL, wheel), Some(recipe));
        assert_eq!(memory.recipe(WHEEL, content), None);
        // Another program may pack in another way.
        let other = BuildMemory::read(root, Some(&path)).unwrap();
        assert_eq!(other.content(&key), None);
        assert_eq!(other.recipe(WHEEL, wheel), None);
        assert!(BuildMemory::read(root, None).is_none());
        // The old time of the last write does not help.
        let time = fs_err::metadata(&path).unwrap().modified().unwrap();
        fs_err::write(&path, "y").unwrap();
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.file().set_modified(time).unwrap();
        assert_eq!(memory.content(&key_of(&path)), None);
        // What the next build does not need is forgotten.
        BuildMemory::new(root, Some(&program)).unwrap().write().unwrap();
        let memory = read();
        assert_eq!(memory.content(&key), None);
        assert!(!memory.has_wheels());
    }

    #[test]
    fn a_tar_is_as_young_as_the_youngest_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = |name: &str| root.join(name);
        for name in ["program", "old", "young"] {
            fs_err::write(path(name), "x").unwrap();
        }
        sleep(Duration::from_millis(100));
        // The other file gets another name later than this one is written. That is no change of its bytes.
        fs_err::write(path("young"), "y").unwrap();
        fs_err::hard_link(path("old"), path("link")).unwrap();
        let tar_of = |names: [&str; 2]| {
            let keys = names.map(|name| key_of(&path(name)));
            ContentKey::derived("tar", &keys).unwrap()
        };
        let mut memory = BuildMemory::new(root, Some(&path("program"))).unwrap();
        let sha256 = Sha256::of(b"a tar");
        memory.insert_content(&tar_of(["old", "young"]), sha256);
        memory.insert_content(&tar_of(["old", "old"]), sha256);
        assert_eq!(memory.content(&tar_of(["old", "young"])), None);
        assert_eq!(memory.content(&tar_of(["old", "old"])), Some(sha256));
    }
}
