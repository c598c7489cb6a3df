//! [`WheelEdit`]: a wheel that is made from another one, or from parts of several. Members that do
//! not change are copied as they are compressed, and a binary is patched while it is packed.
//!
//! To tie, to split and to promote a wheel differ in what changes. How the result is written is the
//! same: sorted, with the metadata behind everything else, RECORD last, and under its name once it is
//! whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use fs_err::File;
use serde::Serialize;

use super::{
    Archive, MemberKeeper, PackSettings, PackageFilename, Source, SourceMember,
    pack::{WheelContents, sort_key, write_contents},
};
use rocwheel_base::{
    atomic::AtomicFile,
    digest::{HashedStart, Sha256},
    error::{Context as _, Result, Stop, ensure},
    io::FileIdentity,
    relpath::RelPath,
};

/// A wheel to write: its members by their paths. RECORD is made when it is written.
pub struct WheelEdit {
    name: PackageFilename,
    dist_info: RelPath,
    members: BTreeMap<RelPath, EditedMember>,
    /// The wheel that most members are of.
    original: Option<FileIdentity>,
    /// What is known of the beginning of that wheel.
    start: Option<HashedStart>,
}

struct EditedMember {
    executable: bool,
    source: Source,
}

/// A wheel that was written, or an sdist beside it.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedFile {
    /// The file name.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// The digest of the whole file.
    pub sha256: Sha256,
}

impl WheelEdit {
    /// A wheel without members.
    pub fn new(name: PackageFilename) -> Result<Self> {
        let dist_info = name.dist_info().parse()?;
        Ok(Self { dist_info, name, members: BTreeMap::new(), original: None, start: None })
    }

    /// The wheel at a path under another name: all members except RECORD and its signatures.
    /// `dist_info` is the directory of the metadata under the new name. `digest` says what is known of a member.
    pub fn of(
        path: &Path,
        archive: &Archive,
        name: PackageFilename,
        dist_info: RelPath,
        digest: impl Fn(&RelPath) -> Option<Sha256>,
    ) -> Result<Self> {
        let keeper = MemberKeeper::new(path)?;
        let members = archive
            .members
            .iter()
            .filter(|(path, _)| !archive.is_record(path))
            .map(|(path, stored)| {
                let source = keeper.keep(stored, digest(path));
                let member = EditedMember { executable: stored.executable, source };
                Ok((archive.renamed(path, &dist_info)?, member))
            })
            .collect::<Result<_>>()?;
        Ok(Self { name, dist_info, members, original: Some(keeper.identity()), start: None })
    }

    /// Says what is known of the beginning of the original wheel, which had this identity when it was hashed. What
    /// the written wheel has of these bytes is then not hashed again. A wheel that changed since is hashed.
    pub fn know_start(&mut self, original: FileIdentity, start: HashedStart) {
        let is_same = self.original.is_some_and(|it| it.is_same_as(&original));
        self.start = Some(start).filter(|_| is_same);
    }

    /// The path in this wheel of a member of the original wheel.
    pub fn renamed(&self, archive: &Archive, path: &RelPath) -> Result<RelPath> {
        archive.renamed(path, &self.dist_info)
    }

    /// Removes a member, if there is one.
    pub fn drop(&mut self, path: &RelPath) {
        self.members.remove(path);
    }

    /// Adds a member, or replaces one.
    pub fn add(&mut self, path: RelPath, executable: bool, source: Source) {
        self.members.insert(path, EditedMember { executable, source });
    }

    /// Adds members of the wheel at a path, as they are compressed there. `new_path` says where a member goes; without
    /// a path it is left out. `digest` says what is known of a member.
    ///
    /// Fails if a path is taken, in any case: some file systems do not distinguish case, and an installer would write one
    /// file over the other.
    pub fn join(
        &mut self,
        path: &Path,
        new_path: impl Fn(&Archive, &RelPath) -> Result<Option<RelPath>>,
        digest: impl Fn(&RelPath) -> Option<Sha256>,
    ) -> Result<()> {
        let keeper = MemberKeeper::new(path)?;
        let archive = Archive::read(File::open(path)?)?;
        let mut taken: BTreeSet<String> =
            self.members.keys().map(|path| path.as_str().to_lowercase()).collect();
        for (path, stored) in &archive.members {
            if let Some(new_path) = new_path(&archive, path)? {
                let is_free = taken.insert(new_path.as_str().to_lowercase());
                ensure!(is_free, "`{new_path}` is in the wheel already");
                self.add(new_path, stored.executable, keeper.keep(stored, digest(path)));
            }
        }
        Ok(())
    }

    /// Gives a member other bytes. Its mode stays.
    pub fn replace(&mut self, path: &RelPath, source: Source) -> Result<()> {
        let member = self.members.get_mut(path);
        member.with_context(|| format!("no `{path}` in the wheel"))?.source = source;
        Ok(())
    }

    /// The file name that the wheel will have.
    pub fn name(&self) -> &PackageFilename {
        &self.name
    }

    /// How many bytes all members have together.
    pub fn unpacked_size(&self) -> u64 {
        self.members.values().map(|member| member.source.member_len()).sum()
    }

    /// Writes the wheel into a directory. `progress` is called from any thread with the number of bytes that
    /// were read since the last call.
    pub fn write(
        self,
        directory: &Path,
        settings: &PackSettings,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<ChangedFile> {
        let file = self.name.to_string();
        self.write_to(&directory.join(&file), settings, stop, progress)
            .with_context(|| format!("failed to write `{file}`"))
    }

    fn write_to(
        self,
        target: &Path,
        settings: &PackSettings,
        stop: &Stop,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<ChangedFile> {
        let Self { name, dist_info, members, start, .. } = self;
        let mut members: Vec<SourceMember> = members
            .into_iter()
            .map(|(path, EditedMember { executable, source })| SourceMember {
                path,
                executable,
                source,
            })
            .collect();
        members.sort_by_cached_key(|member| sort_key(&member.path));
        let contents = WheelContents {
            members: &members,
            texts: &[],
            record: &dist_info.join(&"RECORD".parse()?),
        };
        let mut file = AtomicFile::beside(target)?;
        let written = write_contents(file.file(), &contents, settings, stop, progress)?;
        let sha256 = written.digest(file.file(), start.as_ref())?.sha256;
        file.replace(target)?;
        Ok(ChangedFile { file: name.to_string(), size: written.len, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::WheelCompression;
    use rocwheel_base::digest::Hasher;

    #[test]
    fn the_beginning_of_a_wheel_that_is_known_is_not_hashed_again() {
        let place = tempfile::tempdir().unwrap();
        let settings = PackSettings::new(WheelCompression::Store, NonZeroUsize::MIN);
        let write = |edit: WheelEdit| {
            edit.write(place.path(), &settings, &Stop::default(), &|_| {}).unwrap().sha256
        };
        let mut edit = WheelEdit::new("a-1-py3-none-any.whl".parse().unwrap()).unwrap();
        edit.add("a/b.bin".parse().unwrap(), false, Source::Bytes(vec![7; 5 << 20].into()));
        edit.add("a-1.dist-info/METADATA".parse().unwrap(), false, Source::text("Version: 1\n"));
        write(edit);
        let path = place.path().join("a-1-py3-none-any.whl");
        let archive = Archive::read(File::open(&path).unwrap()).unwrap();
        let identity = FileIdentity::of(&path).unwrap();
        let bytes = fs_err::read(&path).unwrap();
        let end = usize::try_from(archive.members["a/b.bin"].bytes.end).unwrap();
        let crc = crc32fast::hash(&bytes[..end]);
        let hashed = |bytes: &[u8], crc| {
            let mut hasher = Hasher::default();
            hasher.update(bytes);
            HashedStart::new(&hasher, crc)
        };
        let promoted = |identity, start| {
            let name = "a-2-py3-none-any.whl".parse().unwrap();
            let dist_info = "a-2.dist-info".parse().unwrap();
            let digest = |_: &RelPath| Some(Sha256::of(b""));
            let mut edit = WheelEdit::of(&path, &archive, name, dist_info, digest).unwrap();
            edit.know_start(identity, start);
            let sha256 = write(edit);
            let bytes = fs_err::read(place.path().join("a-2-py3-none-any.whl")).unwrap();
            sha256 == Sha256::of(&bytes)
        };
        assert!(promoted(identity, hashed(&bytes[..end], crc)));
        // Only the identity of the file says that it begins so.
        let forged = hashed(&vec![0; end], crc);
        assert!(!promoted(identity, forged.clone()));
        let other = FileIdentity::of(place.path()).unwrap();
        assert!(promoted(other, forged));
        // Another beginning says nothing about this one.
        assert!(promoted(identity, hashed(&bytes[..end], crc + 1)));
        assert!(promoted(identity, hashed(&bytes[..end - 1], crc)));
    }
}
