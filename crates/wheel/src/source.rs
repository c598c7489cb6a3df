//! [`Source`]: where the bytes of a member come from.

use std::{
    fmt,
    io::{Cursor, Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err::File;

use super::StoredMember;
use rocwheel_base::{
    digest::Sha256,
    error::{Result, bail},
    io::{FileAt, FileIdentity, Unchanged},
    relpath::RelPath,
    spool::Spool,
};
use rocwheel_elf::{Patch, PatchedReader, ReadAt};

/// Where the bytes of a member come from. All but [`Source::Bytes`] are read only when the member is packed.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bytes in memory: a text, or a launcher.
    Bytes(Arc<[u8]>),
    /// A file of this disk, which is opened when it is packed.
    File(Arc<FileSource>),
    /// A binary that was read before, with a change.
    Patched(Arc<Spool>, Patch),
    /// A member of another wheel, whose compressed bytes are copied.
    Kept(KeptMember),
    /// An archive of other files, which is made while it is read.
    Made(Arc<dyn MadeBytes>),
}

/// Bytes that are made while they are read.
///
/// **Contract:** every reader gives the same bytes, as many as `member_len` says.
pub trait MadeBytes: fmt::Debug + Send + Sync {
    /// The number of bytes that a reader gives.
    fn member_len(&self) -> u64;

    /// Begins to make them. It is called once more for each time that they are read.
    fn open(self: Arc<Self>) -> Result<MemberReader>;
}

/// Reads the bytes of a member once.
pub type MemberReader = Box<dyn Read + Send>;

/// A member to pack.
#[derive(Clone, Debug)]
pub struct SourceMember {
    /// Its path in the wheel.
    pub path: RelPath,
    /// Whether it may be executed once it is installed.
    pub executable: bool,
    /// Where its bytes come from.
    pub source: Source,
}

impl Source {
    /// A text, whose line ends stay as they are.
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }

    /// A file as it is now.
    pub fn file(path: &Path) -> Result<Self> {
        let identity = FileIdentity::of(path)?;
        let patches = [Patch::nothing(identity.len), Patch::nothing(identity.len)];
        Ok(Self::File(Arc::new(FileSource { path: path.to_owned(), identity, patches })))
    }

    /// The length of the member, which is known before its bytes are read.
    pub fn member_len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(file) => file.member_len(),
            Self::Patched(_, patch) => patch.total_len(),
            Self::Kept(kept) => kept.stored.len,
            Self::Made(made) => made.member_len(),
        }
    }

    /// The bytes, if they are in memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn as_kept(&self) -> Option<&KeptMember> {
        match self {
            Self::Kept(kept) => Some(kept),
            _ => None,
        }
    }

    /// Reads the member from its first byte.
    pub fn open(&self) -> Result<MemberReader> {
        Ok(match self {
            Self::Bytes(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Self::File(file) => file.open()?,
            Self::Patched(bytes, patch) => {
                Box::new(PatchedReader::new(Arc::clone(bytes), patch.clone()))
            }
            Self::Kept(_) => bail!("a member whose compressed bytes are copied has no other bytes"),
            Self::Made(made) => Arc::clone(made).open()?,
        })
    }

    /// Gives the bytes to a function, which may read at any offset. `None` if they can be read only from the
    /// first to the last. Fails if a file has changed since the source was made, or changes meanwhile.
    pub fn examine<T>(&self, look: impl FnOnce(&dyn ReadAt) -> T) -> Result<Option<T>> {
        Ok(match self {
            Self::Bytes(bytes) => Some(look(bytes)),
            Self::File(file) => Some(file.examine(look)?),
            Self::Patched(bytes, patch) => {
                Some(look(&PatchedReader::new(Arc::clone(bytes), patch.clone())))
            }
            Self::Kept(_) | Self::Made(_) => None,
        })
    }
}

/// A file on disk, and the changes that it gets on its way into a wheel.
///
/// **Contract:** a reader that reaches the end has read the file with this identity, and fails otherwise.
#[derive(Debug)]
pub struct FileSource {
    /// Where the file is.
    pub path: PathBuf,
    /// What it was when it was first looked at. A file that has changed since is an error.
    pub identity: FileIdentity,
    /// The second one changes what the first one gives. One that changes nothing stands for none.
    pub patches: [Patch; 2],
}

impl FileSource {
    /// The size after both patches.
    pub fn member_len(&self) -> u64 {
        self.patches[1].total_len()
    }

    /// See [`Source::examine`].
    pub fn examine<T>(&self, look: impl FnOnce(&dyn ReadAt) -> T) -> Result<T> {
        self.ensure_unchanged()?;
        let seen = look(&self.patched()?);
        self.ensure_unchanged()?;
        Ok(seen)
    }

    /// Reads the patched bytes. The file is compared with its identity before the last of them.
    pub fn open(&self) -> Result<MemberReader> {
        Ok(Box::new(Unchanged {
            reader: self.patched()?,
            path: self.path.clone(),
            identity: self.identity,
            left: self.member_len(),
        }))
    }

    fn patched(&self) -> Result<PatchedReader<PatchedReader<FileAt>>> {
        let [first, second] = self.patches.clone();
        let reader = PatchedReader::new(FileAt::open(&self.path)?, first);
        Ok(PatchedReader::new(reader, second))
    }

    fn ensure_unchanged(&self) -> Result<()> {
        Ok(self.identity.ensure_at(&self.path, "after it was packed")?)
    }
}

/// A wheel on this disk that members are taken from.
#[derive(Debug)]
struct KeptWheel {
    path: PathBuf,
    identity: FileIdentity,
}

/// A compressed member of another wheel. The caller knows that its bytes are right.
#[derive(Clone, Debug)]
pub struct KeptMember {
    /// What the directory of the other wheel says about it.
    pub stored: StoredMember,
    /// The digest of its content: what RECORD of that wheel says, or what was hashed.
    pub sha256: Option<Sha256>,
    wheel: Arc<KeptWheel>,
}

/// Takes members from one wheel.
#[derive(Clone, Debug)]
pub struct MemberKeeper(Arc<KeptWheel>);

impl MemberKeeper {
    /// Remembers which file the wheel is now. No member is read.
    pub fn new(wheel: &Path) -> Result<Self> {
        // Publishing gives a finished wheel another hard link, and changes no byte.
        let identity = FileIdentity::of(wheel)?.but_for_links();
        Ok(Self(Arc::new(KeptWheel { path: wheel.to_owned(), identity })))
    }

    /// The wheel as it was when members were first taken from it.
    pub(crate) fn identity(&self) -> FileIdentity {
        self.0.identity
    }

    /// A source that copies the compressed bytes. If `sha256` is not given, the digest must be found by
    /// who writes RECORD.
    pub fn keep(&self, stored: &StoredMember, sha256: Option<Sha256>) -> Source {
        Source::Kept(KeptMember { stored: stored.clone(), sha256, wheel: Arc::clone(&self.0) })
    }
}

impl KeptMember {
    /// Reads its compressed bytes. Fails at the last one if the wheel has changed since members were taken from
    /// it.
    pub(crate) fn open_packed(&self) -> Result<MemberReader> {
        let bytes = &self.stored.bytes;
        let left = bytes.end.saturating_sub(bytes.start);
        let KeptWheel { path, identity } = &*self.wheel;
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        Ok(Box::new(Unchanged {
            reader: file.take(left),
            path: path.clone(),
            identity: *identity,
            left,
        }))
    }
}
