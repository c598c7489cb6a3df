//! What a build remembers, in `.rocwheel-built.json` beside `dist`: the digests of its sources, so
//! that the next build does not read unchanged files again; and which packages it wrote, with their
//! digests and metadata, so that no command reads them to learn that.
//!
//! Both are believed only while the files are the same: size, both times in nanoseconds, inode and
//! device, as cargo and git do it. No program can set the time of the last change of an inode
//! (`ctime`), so neither a wheel that was damaged and got its old modification time back, nor a
//! directory that was copied or unpacked together with this file, agrees with it. Systems without
//! inodes, and file systems whose `ctime` is not of their own, remember nothing. Nor is anything
//! believed once the machine was started again, because nothing waits until the packages are on the
//! disk. A digest of the file's own contents finds a file that was cut off or edited.

use std::{
    collections::BTreeMap,
    fs::Metadata,
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::AssembleSettings;
use crate::{
    artifact::FileIdentity,
    atomic,
    digest::{BegunHash, Sha256},
    elf::Rpath,
    error::Result,
    wheel::{Record, WheelMember},
};

/// The name of the file. Programs that list a directory mostly leave such names out.
const FILE: &str = ".rocwheel-built.json";
const SCHEMA: &str = "rocwheel-built-v2";
/// The longest file that is read: half a million sources.
const LIMIT: u64 = 128 << 20;

/// Stands for the content of a member as long as the files that it is made of are the same.
#[derive(Clone, Debug)]
pub(super) struct ContentKey {
    digest: Sha256,
    /// When the identities of all files begin to mean that they are the same.
    settles: SystemTime,
}

impl ContentKey {
    /// Of a file with these properties that gets this run path. `None` on systems without inodes.
    pub(super) fn of_file(path: &Path, found: &Metadata, rpath: Option<&Rpath>) -> Option<Self> {
        let identity = FileIdentity::from_metadata(found)?;
        Some(Self {
            digest: Sha256::of(format!("{:?}", (path, identity, rpath)).as_bytes()),
            settles: identity.settles(),
        })
    }

    /// Of something that is made of several files in a certain way.
    pub(super) fn of_all(how: &str, parts: &[Self]) -> Self {
        let digests: Vec<Sha256> = parts.iter().map(|part| part.digest).collect();
        let settles = parts.iter().map(|part| part.settles).max();
        Self {
            digest: Sha256::of(format!("{how} {digests:?}").as_bytes()),
            settles: settles.unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

/// Stands for the bytes of a wheel: a digest of everything that they follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WheelRecipe(Sha256);

impl WheelRecipe {
    /// `record` has the digests of all members, in their order.
    pub(super) fn new(
        record: &Record,
        members: &[WheelMember],
        settings: &AssembleSettings,
    ) -> Self {
        let executable: Vec<bool> = members.iter().map(|member| member.executable).collect();
        let (time, how) = (settings.time, settings.compression.recipe());
        Self(Sha256::of(
            format!("{record}{executable:?} {time} {how}").as_bytes(),
        ))
    }
}

/// The contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct BuildMemory {
    schema: String,
    /// The program that wrote it: another one may edit or pack the same sources in another way.
    program: Option<FileIdentity>,
    /// What was not on the disk when the power failed may have been lost.
    boot: Option<Sha256>,
    /// Digest and length of a member, by the digest of its key.
    contents: BTreeMap<Sha256, (Sha256, u64)>,
    packages: Vec<RememberedPackage>,
    /// The digest of this document without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Sha256>,
}

/// A package that a build wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RememberedPackage {
    /// Its path below `dist`.
    pub path: String,
    pub sha256: Sha256,
    /// The METADATA of a wheel, or the PKG-INFO of an sdist.
    pub metadata: String,
    /// Only of a wheel. `None` if another program wrote it, because its wheels may differ from
    /// ours.
    pub(super) recipe: Option<WheelRecipe>,
    /// The hash of what a promoted wheel begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<BegunHash>,
    pub(super) identity: Option<FileIdentity>,
}

impl BuildMemory {
    /// Remembers nothing yet. `program` is the file of this program, if it is known.
    pub(super) fn new(program: Option<&PathBuf>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            program: program.and_then(|path| FileIdentity::of(path).ok().flatten()),
            boot: atomic::boot(),
            ..Self::default()
        }
    }

    /// What the build of a set remembers, as far as this program can use it for the next build.
    /// Nothing if there is no such file, or if it cannot be read: a build can always do without.
    pub(super) fn read(dist: &Path, program: Option<&PathBuf>) -> Self {
        let mut memory = Self::new(program);
        if let Some(found) = Self::found(dist) {
            memory.packages = found.packages;
            if found.program == memory.program && memory.program.is_some() {
                memory.contents = found.contents;
            } else {
                memory.packages.iter_mut().for_each(|it| it.recipe = None);
            }
        }
        memory
    }

    /// What the file beside `dist` says, if it was written since the machine was started.
    fn found(dist: &Path) -> Option<Self> {
        let file = fs_err::File::open(dist.with_file_name(FILE)).ok()?;
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes).ok()?;
        let mut found: Self = serde_json::from_slice(&bytes).ok()?;
        let digest = found.digest.take()?;
        let is_whole = found.schema == SCHEMA && found.own_digest().ok()? == digest;
        (is_whole && found.boot == atomic::boot()).then_some(found)
    }

    /// The digest of the document, which must not have one yet.
    fn own_digest(&self) -> Result<Sha256> {
        Ok(Sha256::of(&serde_json::to_vec(self)?))
    }

    /// Remembers the digest of a content. `began` is a time before its files were looked at.
    pub(super) fn learn(&mut self, key: &ContentKey, content: (Sha256, u64), began: SystemTime) {
        if key.settles <= began {
            self.contents.insert(key.digest, content);
        }
    }

    /// The digest and the length of a content.
    pub(super) fn recall(&self, key: &ContentKey) -> Option<(Sha256, u64)> {
        self.contents.get(&key.digest).copied()
    }

    /// The package at a path below `dist`, if `file` is still what the build wrote there.
    pub(super) fn package(&self, path: &str, file: &Path) -> Option<&RememberedPackage> {
        let identity = FileIdentity::of(file).ok()??;
        let mut packages = self.packages.iter();
        packages.find(|package| package.path == path && package.identity == Some(identity))
    }

    /// Remembers these packages, which have their final names, and writes the file beside `dist`.
    ///
    /// It holds no path of this machine, only digests of them, so it tells nothing if somebody
    /// publishes it.
    pub(super) fn write(mut self, dist: &Path, packages: Vec<RememberedPackage>) -> Result<()> {
        self.packages = packages;
        self.write_as_is(dist)
    }

    /// Leaves out the packages whose next change would not be seen.
    fn write_as_is(mut self, dist: &Path) -> Result<()> {
        let identities = self.packages.iter().filter_map(|it| it.identity);
        FileIdentity::wait(identities.map(|it| it.settles()).max());
        let now = SystemTime::now();
        let is_settled = |it: FileIdentity| it.settles() <= now;
        self.packages
            .retain(|it| it.identity.is_some_and(is_settled));
        let file = dist.with_file_name(FILE);
        if !file.parent().is_some_and(FileIdentity::is_kept_in) {
            self.contents.clear();
            self.packages.clear();
        }
        self.digest = Some(self.own_digest()?);
        Ok(atomic::write(&file, serde_json::to_vec(&self)?)?)
    }
}

/// The packages of a set that are still what its build wrote.
#[derive(Debug)]
pub struct UnchangedPackages {
    dist: PathBuf,
    memory: BuildMemory,
}

impl UnchangedPackages {
    /// Compares the files in `dist` with what their build remembers. There are none if there is no
    /// memory of the build, or if it cannot be read.
    pub fn read(dist: &Path) -> Self {
        let mut memory = BuildMemory::found(dist).unwrap_or_default();
        let is_same = |package: &RememberedPackage| {
            let found = FileIdentity::of(&dist.join(&package.path)).ok().flatten();
            found.is_some() && found == package.identity
        };
        memory.packages.retain(is_same);
        Self {
            dist: dist.to_owned(),
            memory,
        }
    }

    pub fn all(&self) -> &[RememberedPackage] {
        &self.memory.packages
    }

    /// All of them, with the files that they are.
    pub fn iter(&self) -> impl Iterator<Item = (&RememberedPackage, FileIdentity)> {
        let packages = self.memory.packages.iter();
        packages.filter_map(|package| Some((package, package.identity?)))
    }

    /// The package at a path below `dist`.
    pub fn get(&self, path: &str) -> Option<&RememberedPackage> {
        let mut packages = self.memory.packages.iter();
        packages.find(|package| package.path == path)
    }

    /// Believes these packages again after they got another hard link, which changes the `ctime` of
    /// a file. Read the packages right before they are linked: a change in between is not noticed
    /// if it restores the modification time.
    pub fn renew(mut self, linked: &[String]) -> Result<()> {
        let mut is_changed = false;
        for package in &mut self.memory.packages {
            let found = FileIdentity::of(&self.dist.join(&package.path))?;
            let (Some(old), Some(new)) = (package.identity, found) else {
                continue;
            };
            if new != old && new.is_but_for_ctime(old) && linked.contains(&package.path) {
                package.identity = Some(new);
                is_changed = true;
            }
        }
        if is_changed {
            self.memory.write_as_is(&self.dist)?;
        }
        Ok(())
    }
}

/// Stands for the file of a program. `None` on systems without inodes.
pub fn program_digest(program: Option<&Path>) -> Option<Sha256> {
    let identity = FileIdentity::of(program?).ok()??;
    Some(Sha256::of(format!("{identity:?}").as_bytes()))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn recipe() -> WheelRecipe {
        WheelRecipe(Sha256::of(b"recipe"))
    }

    fn key_of(path: &Path) -> ContentKey {
        ContentKey::of_file(path, &fs_err::metadata(path).unwrap(), None).unwrap()
    }

    /// A directory with one wheel, and what its build knows of it.
    fn made() -> (tempfile::TempDir, PathBuf, RememberedPackage) {
        let directory = tempfile::tempdir().unwrap();
        let dist = directory.path().join("dist");
        let wheel = dist.join("a.whl");
        fs_err::create_dir(&dist).unwrap();
        fs_err::write(&wheel, "a wheel").unwrap();
        let made = RememberedPackage {
            path: "a.whl".to_owned(),
            sha256: Sha256::of(b"a wheel"),
            metadata: "Name: x\n".to_owned(),
            recipe: Some(recipe()),
            begun: None,
            identity: FileIdentity::of(&wheel).unwrap(),
        };
        (directory, dist, made)
    }

    /// A set of one wheel, which is remembered.
    fn remembered() -> (tempfile::TempDir, PathBuf) {
        let (directory, dist, made) = made();
        BuildMemory::new(None).write(&dist, vec![made]).unwrap();
        (directory, dist)
    }

    /// Lets the clock of the file system go on.
    fn tick() {
        std::thread::sleep(Duration::from_millis(30));
    }

    fn is_known(dist: &Path) -> bool {
        let known = UnchangedPackages::read(dist);
        let Some(known) = known.get("a.whl") else {
            return false;
        };
        assert_eq!(known.sha256, Sha256::of(b"a wheel"));
        assert_eq!(known.metadata, "Name: x\n");
        true
    }

    #[test]
    fn a_package_is_known_until_it_or_the_memory_changes() {
        let (_directory, dist) = remembered();
        assert!(is_known(&dist));
        let file = dist.with_file_name(FILE);
        let text = fs_err::read_to_string(&file).unwrap();
        for (from, to) in [
            ("Name: x", "Name: y"),
            ("\"digest\"", "\"digits\""),
            ("v2", "v1"),
        ] {
            assert!(text.contains(from), "{from}");
            fs_err::write(&file, text.replace(from, to)).unwrap();
            assert!(!is_known(&dist), "{to}");
        }
        for len in 0..text.len() {
            fs_err::write(&file, &text[..len]).unwrap();
            assert!(!is_known(&dist), "{len} of {}", text.len());
        }
        fs_err::write(&file, &text).unwrap();
        assert!(is_known(&dist));
        fs_err::write(dist.join("a.whl"), "another").unwrap();
        assert!(!is_known(&dist));
    }

    #[test]
    fn a_package_that_was_linked_is_known_again_and_one_that_was_written_is_not() {
        let (directory, dist) = remembered();
        let wheel = dist.join("a.whl");
        let linked = ["a.whl".to_owned()];
        let before = UnchangedPackages::read(&dist);
        tick();
        fs_err::hard_link(&wheel, directory.path().join("published.whl")).unwrap();
        assert!(!is_known(&dist));
        before.renew(&[]).unwrap();
        assert!(!is_known(&dist), "it is not among those that were linked");
        // It is too late: it does not agree with the memory any more.
        UnchangedPackages::read(&dist).renew(&linked).unwrap();
        assert!(!is_known(&dist));
        let (directory, dist) = remembered();
        let wheel = dist.join("a.whl");
        let before = UnchangedPackages::read(&dist);
        tick();
        fs_err::hard_link(&wheel, directory.path().join("published.whl")).unwrap();
        before.renew(&linked).unwrap();
        assert!(is_known(&dist));
        let before = UnchangedPackages::read(&dist);
        tick();
        fs_err::write(&wheel, "a whale").unwrap();
        before.renew(&linked).unwrap();
        assert!(!is_known(&dist));
    }

    #[test]
    fn nothing_is_believed_after_the_machine_was_started_again() {
        let (_directory, dist, made) = made();
        let mut memory = BuildMemory::new(None);
        memory.boot = Some(Sha256::of(b"another boot"));
        memory.write(&dist, vec![made]).unwrap();
        assert!(!is_known(&dist));
        assert!(BuildMemory::read(&dist, None).packages.is_empty());
    }

    #[test]
    fn a_package_whose_next_change_would_not_be_seen_is_not_remembered() {
        let (_directory, dist, mut made) = made();
        let wheel = dist.join("a.whl");
        // As the times of a file look on a coarse clock that goes on later.
        let file = fs_err::OpenOptions::new().write(true).open(&wheel).unwrap();
        file.file().set_modified(SystemTime::now() + HOUR).unwrap();
        made.identity = FileIdentity::of(&wheel).unwrap();
        BuildMemory::new(None).write(&dist, vec![made]).unwrap();
        assert!(!is_known(&dist));
    }

    #[test]
    fn only_what_was_settled_before_the_build_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        fs_err::write(&path, "x").unwrap();
        let key = key_of(&path);
        let content = (Sha256::of(b"x"), 1);
        let mut memory = BuildMemory::new(None);
        let (before, after) = (SystemTime::now() - HOUR, SystemTime::now() + HOUR);
        memory.learn(&key, content, before);
        assert_eq!(memory.recall(&key), None);
        memory.learn(&key, content, after);
        assert_eq!(memory.recall(&key), Some(content));
        // What is made of it is as new as it, and is another content.
        let tar = ContentKey::of_all("tar", &[key]);
        assert_eq!(memory.recall(&tar), None);
        memory.learn(&tar, content, before);
        assert_eq!(memory.recall(&tar), None);
    }

    #[test]
    fn a_file_that_was_touched_in_any_way_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libx.so");
        fs_err::write(&path, "x").unwrap();
        let key = || key_of(&path).digest;
        let first = key();
        assert_eq!(first, key());
        let modified = || fs_err::metadata(&path).unwrap().modified().unwrap();
        let time = modified();
        tick();
        fs_err::write(&path, "y").unwrap();
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        file.file().set_modified(time).unwrap();
        assert_eq!(modified(), time);
        assert_ne!(first, key());
    }

    #[test]
    fn another_program_believes_the_wheels_but_neither_their_recipes_nor_the_sources() {
        let (directory, dist, made) = made();
        let programs = ["one", "two"].map(|name| directory.path().join(name));
        for path in &programs {
            fs_err::write(path, "a program").unwrap();
        }
        let wheel = dist.join("a.whl");
        let key = key_of(&wheel);
        let mut memory = BuildMemory::new(Some(&programs[0]));
        memory.learn(&key, (Sha256::of(b"x"), 1), SystemTime::now() + HOUR);
        memory.write(&dist, vec![made]).unwrap();
        let read = |program| {
            let memory = BuildMemory::read(&dist, program);
            let known = memory.package("a.whl", &wheel).map(|known| known.recipe);
            (known, memory.recall(&key).is_some())
        };
        assert_eq!(read(Some(&programs[0])), (Some(Some(recipe())), true));
        assert_eq!(read(Some(&programs[1])), (Some(None), false));
        assert_eq!(read(None), (Some(None), false));
        // Neither a name that was linked since, nor a file that is no memory.
        fs_err::hard_link(&wheel, dist.join("b.whl")).unwrap();
        assert_eq!(read(Some(&programs[0])), (None, true));
        fs_err::write(directory.path().join(FILE), "{").unwrap();
        assert_eq!(read(Some(&programs[0])), (None, false));
    }
}
