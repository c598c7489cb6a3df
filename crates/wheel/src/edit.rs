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
    digest::Sha256,
    error::{Context as _, Result, Stop, ensure},
    relpath::RelPath,
};

/// A wheel to write: its members by their paths. RECORD is made when it is written.
pub struct WheelEdit {
    name: PackageFilename,
    dist_info: RelPath,
    members: BTreeMap<RelPath, EditedMember>,
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
        Ok(Self { dist_info: name.dist_info().parse()?, name, members: BTreeMap::new() })
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
        Ok(Self { name, dist_info, members })
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
        let Self { name, dist_info, members } = self;
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
        let sha256 = written.digest(file.file())?;
        file.replace(target)?;
        Ok(ChangedFile { file: name.to_string(), size: written.len, sha256 })
    }
}
