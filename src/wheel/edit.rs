//! [`WheelEdit`]: a wheel that is made from another one, or from parts of several. Members that do
//! not change are copied as they are compressed, and a binary is patched while it is packed.
//!
//! To tie, to split and to promote a wheel differ in what changes. How the result is written is the
//! same: sorted, with the metadata behind everything else, RECORD last, and under its name once it is
//! whole.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err::File;
use serde::Serialize;

use super::{
    Archive, PackSettings, PackageFilename, StoredMember, WheelMember,
    pack::{WheelWork, sort_key, write_wheel},
};
use crate::{
    atomic::AtomicFile,
    digest::Sha256,
    elf::{Patch, PatchedReader},
    error::{Context as _, Result, Stop, bail},
    io::{FileState, Unchanged},
    relpath::RelPath,
    spool::Spool,
};

/// A wheel to write: its members by their paths. RECORD is made when it is written.
pub struct WheelEdit {
    name: PackageFilename,
    dist_info: RelPath,
    members: BTreeMap<RelPath, EditedMember>,
}

struct EditedMember {
    executable: bool,
    content: EditedContent,
}

/// Where the bytes of a member come from.
#[derive(Clone)]
pub enum EditedContent {
    /// A member of another wheel, whose compressed bytes are taken over.
    Kept {
        wheel: Arc<Path>,
        member: StoredMember,
        /// What RECORD of that wheel says, or what was hashed.
        sha256: Option<Sha256>,
    },
    /// A binary with a change.
    Patched(Arc<Spool>, Patch),
    /// A file of this length.
    File(PathBuf, u64),
    Bytes(Arc<[u8]>),
}

/// A wheel that was written, or an sdist beside it.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedFile {
    pub file: String,
    pub size: u64,
    pub sha256: Sha256,
}

/// A compressed member of another wheel.
#[derive(Clone, Debug)]
pub struct TakenMember {
    pub stored: StoredMember,
    /// Of its content.
    pub sha256: Sha256,
    wheel: Arc<Path>,
    state: FileState,
}

impl TakenMember {
    /// A member of a wheel on this disk, of which the caller knows that the bytes are right.
    pub fn of_file(wheel: &Arc<Path>, stored: StoredMember, sha256: Sha256) -> Result<Self> {
        let state = FileState::of(wheel)?.but_for_links();
        Ok(Self { stored, sha256, wheel: Arc::clone(wheel), state })
    }

    /// Reads its compressed bytes. Fails at the last one if the wheel has changed since it was
    /// opened first.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        let bytes = &self.stored.bytes;
        let left = bytes.end.saturating_sub(bytes.start);
        let mut file = File::open(&*self.wheel)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        Ok(Box::new(Unchanged {
            reader: file.take(left),
            path: self.wheel.to_path_buf(),
            state: self.state,
            left,
        }))
    }
}

impl EditedContent {
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }

    fn len(&self) -> u64 {
        match self {
            Self::Kept { member, .. } => member.len,
            Self::Patched(_, patch) => patch.total_len(),
            Self::File(_, len) => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The compressed bytes that are copied, if there are such.
    fn taken(&self, path: &RelPath) -> Result<Option<TakenMember>> {
        match self {
            Self::Kept { wheel, member, sha256 } => {
                let sha256 = sha256.with_context(|| format!("RECORD has no digest of `{path}`"))?;
                Ok(Some(TakenMember::of_file(wheel, member.clone(), sha256)?))
            }
            _ => Ok(None),
        }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Kept { .. } => bail!("a member that is copied"),
            Self::Patched(bytes, patch) => {
                Box::new(PatchedReader::new(Arc::clone(bytes), patch.clone()))
            }
            Self::File(path, _) => Box::new(File::open(path)?),
            Self::Bytes(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
        })
    }
}

impl WheelEdit {
    /// A wheel without members.
    pub fn new(name: PackageFilename) -> Result<Self> {
        Ok(Self { dist_info: name.dist_info().parse()?, name, members: BTreeMap::new() })
    }

    /// The wheel at a path under another name: all its members but RECORD and signatures of it.
    /// `dist_info` is the directory of its metadata then. `digest` says what is known of a member.
    pub fn of(
        path: &Path,
        archive: &Archive,
        name: PackageFilename,
        dist_info: RelPath,
        digest: impl Fn(&RelPath) -> Option<Sha256>,
    ) -> Result<Self> {
        let wheel: Arc<Path> = path.into();
        let files = archive.members.iter();
        let files = files.filter(|(path, _)| !archive.is_record(path));
        let members = files.map(|(path, member)| {
            let content = EditedContent::Kept {
                wheel: Arc::clone(&wheel),
                member: member.clone(),
                sha256: digest(path),
            };
            let member = EditedMember { executable: member.executable, content };
            Ok((archive.renamed(path, &dist_info)?, member))
        });
        Ok(Self { members: members.collect::<Result<_>>()?, name, dist_info })
    }

    /// The path that a member of the wheel that is changed has here.
    pub fn renamed(&self, archive: &Archive, path: &RelPath) -> Result<RelPath> {
        archive.renamed(path, &self.dist_info)
    }

    /// Removes a member, if there is one.
    pub fn drop(&mut self, path: &RelPath) {
        self.members.remove(path);
    }

    /// Adds a member, or replaces one.
    pub fn add(&mut self, path: RelPath, executable: bool, content: EditedContent) {
        let member = EditedMember { executable, content };
        self.members.insert(path, member);
    }

    /// Gives a member another content. Its mode stays.
    pub fn replace(&mut self, path: &RelPath, content: EditedContent) -> Result<()> {
        let member = self.members.get_mut(path);
        member.with_context(|| format!("no `{path}` in the wheel"))?.content = content;
        Ok(())
    }

    pub fn name(&self) -> &PackageFilename {
        &self.name
    }

    /// How many bytes all members have together.
    pub fn unpacked_size(&self) -> u64 {
        self.members.values().map(|member| member.content.len()).sum()
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
        let mut all: Vec<(WheelMember, EditedContent)> = members
            .into_iter()
            .map(|(path, member)| {
                let (executable, len) = (member.executable, member.content.len());
                let as_member = WheelMember { path, executable, len };
                (as_member, member.content)
            })
            .collect();
        all.sort_by_cached_key(|(it, _)| sort_key(&it.path));
        let taken = all
            .iter()
            .map(|(member, content)| content.taken(&member.path))
            .collect::<Result<Vec<_>>>()?;
        let (members, contents): (Vec<WheelMember>, Vec<EditedContent>) = all.into_iter().unzip();
        let mut file = AtomicFile::beside(target)?;
        let work = WheelWork {
            members: &members,
            open: &|index| contents.get(index).context("no such member")?.open(),
            taken: &taken,
            texts: &[],
            record: &dist_info.join(&"RECORD".parse()?),
            settings,
            stop,
            progress,
        };
        let written = write_wheel(file.file(), &work)?;
        let sha256 = written.digest(file.file())?;
        file.replace(target)?;
        Ok(ChangedFile { file: name.to_string(), size: written.len, sha256 })
    }
}
