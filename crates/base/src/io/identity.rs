//! How to tell whether a file is still the one that was read.

use std::{
    fs::Metadata,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// Twice the longest step in which Linux advances the times of its file systems, 10 ms.
const FINE_CLOCK: Duration = Duration::from_millis(20);
/// The longest step of any file system in use, that of FAT.
const COARSE_CLOCK: Duration = Duration::from_secs(2);

/// Shows whether a file is still the one that was seen: length, both times, device and inode.
///
/// If another program writes or replaces the file, at least one of them is expected to change. `ctime`, the
/// time of the last change of the inode, cannot be set by any program: a file that was changed and got its old
/// modification time back has another identity. So has a file that was only linked, renamed or got another
/// mode, unless the identity is one [`but_for_links`](Self::but_for_links).
///
/// On systems without inodes it is length and modification time. That is enough while one command runs. A later
/// one does not trust it: such an identity is never [settled](Self::is_settled).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The size in bytes.
    pub len: u64,
    modified: FileTime,
    /// All names (hard links) of a file have the same. `None` on systems without inodes.
    inode: Option<Inode>,
    /// `ctime`. `None` on systems without inodes, and if it does not matter.
    changed: Option<FileTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inode {
    device: u64,
    number: u64,
}

/// Nanoseconds since 1970, as Linux counts them. All times after the year 2262 are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileTime(i64);

impl FileTime {
    const NEVER: Self = Self(i64::MAX);

    #[cfg(unix)]
    fn new(seconds: i64, nanos: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    fn after(self, step: Duration) -> Self {
        let nanos = i64::try_from(step.as_nanos()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl From<SystemTime> for FileTime {
    fn from(time: SystemTime) -> Self {
        let epoch = SystemTime::UNIX_EPOCH;
        match time.duration_since(epoch) {
            Ok(since) => Self(0).after(since),
            Err(before) => Self(-Self(0).after(before.duration()).0),
        }
    }
}

impl FileIdentity {
    /// The identity of the file to which the path leads, through symlinks.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from_metadata(&fs_err::metadata(path)?))
    }

    /// The identity in what the system said of a file.
    #[cfg(unix)]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            len: metadata.len(),
            modified: FileTime::new(metadata.mtime(), metadata.mtime_nsec()),
            inode: Some(Inode { device: metadata.dev(), number: metadata.ino() }),
            changed: Some(FileTime::new(metadata.ctime(), metadata.ctime_nsec())),
        }
    }

    /// The identity in what the system said of a file.
    #[cfg(not(unix))]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().map_or(FileTime::NEVER, FileTime::from),
            inode: None,
            changed: None,
        }
    }

    /// When the file was last written, linked, renamed or given another mode. No program can set an earlier
    /// time, except on systems without inodes.
    pub fn changed_at(&self) -> FileTime {
        self.changed.unwrap_or(self.modified).max(self.modified)
    }

    /// The identity of a file that may get further hard links, or lose some, meanwhile.
    #[must_use]
    pub fn but_for_links(self) -> Self {
        Self { changed: None, ..self }
    }

    /// Whether a file that has the identity `now` is the file with this identity.
    pub fn is_same_as(&self, now: &Self) -> bool {
        let now = if self.changed.is_some() { *now } else { now.but_for_links() };
        *self == now
    }

    /// Whether it proves that two paths are names of one file.
    pub fn has_inode(&self) -> bool {
        self.inode.is_some()
    }

    /// Whether this file is at a path, also under another of its names.
    pub fn is_at(&self, path: &Path) -> bool {
        let file = self.but_for_links();
        self.has_inode() && Self::of(path).is_ok_and(|now| file.is_same_as(&now))
    }

    /// Fails if another file is at a path. `since` completes the message: `changed while it was packed`.
    pub fn ensure_at(&self, path: &Path, since: &str) -> io::Result<()> {
        self.ensure_same(&Self::of(path)?, path, since)
    }

    /// Like [`ensure_at`](Self::ensure_at), if the identity of the file at the path is known.
    pub fn ensure_same(&self, now: &Self, path: &Path, since: &str) -> io::Result<()> {
        if self.is_same_as(now) {
            return Ok(());
        }
        let path = path.display();
        Err(io::Error::other(format!("`{path}` changed {since}")))
    }

    /// Whether the last change of the file was so long before `now` that a later change shows in its
    /// times. A file that changes twice within one step of the clock has the same times after both; git
    /// calls an entry of its index that is younger "racy".
    pub fn is_settled(&self, now: SystemTime) -> bool {
        self.settles() <= FileTime::from(now)
    }

    /// The moment from which a change of the file shows.
    ///
    /// How long a step is shows in `ctime`, which no program can set: a coarse clock gives it whole
    /// milliseconds. With a fine clock `mtime` alone decides, because writing a file sets it. So a file
    /// that was just linked or renamed is settled. To deceive, a program would have to write to it and to
    /// set its old `mtime` again within the 10 ms after that.
    pub fn settles(&self) -> FileTime {
        match self.changed {
            None => FileTime::NEVER,
            Some(changed) if changed.0 % 1_000_000 != 0 => self.modified.after(FINE_CLOCK),
            Some(changed) => self.modified.max(changed).after(COARSE_CLOCK),
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_just_changed_may_change_again_and_look_the_same() {
        let identity = |modified: (i64, i64), changed: (i64, i64)| FileIdentity {
            len: 3,
            modified: FileTime::new(modified.0, modified.1),
            inode: Some(Inode { device: 1, number: 2 }),
            changed: Some(FileTime::new(changed.0, changed.1)),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(100_500);
        let is_settled = |modified, changed| identity(modified, changed).is_settled(now);
        // The clock is coarse.
        assert!(is_settled((5, 0), (98, 500_000_000)));
        assert!(!is_settled((5, 0), (98, 501_000_000)));
        // The clock is fine.
        assert!(is_settled((100, 480_000_000), (100, 480_000_123)));
        assert!(!is_settled((100, 480_000_001), (100, 480_000_123)));
        // It has just got another link.
        assert!(is_settled((5, 0), (100, 499_999_999)));
        // A modification time can be set to anything, also to the future.
        assert!(!is_settled((99, 1), (9, 0)));
        assert!(!is_settled((101, 0), (9, 1)));
        assert!(!is_settled((i64::MAX, 999_999_999), (9, 0)));
        assert!(is_settled((-5, 0), (-9, 0)));
        // Without `ctime` nothing shows that a program set the old `mtime` again.
        assert!(!identity((5, 0), (5, 123)).but_for_links().is_settled(now));
    }

    #[test]
    fn a_file_stays_the_same_under_a_further_name_only_if_links_may_come() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.whl");
        let link = directory.path().join("b.whl");
        fs_err::write(&path, "a wheel").unwrap();
        let before = FileIdentity::of(&path).unwrap();
        assert!(before.ensure_at(&path, "").is_ok());
        // Let the clock of the file system go on.
        std::thread::sleep(Duration::from_millis(30));
        fs_err::hard_link(&path, &link).unwrap();
        assert!(before.ensure_at(&path, "").is_err());
        assert!(before.but_for_links().ensure_at(&path, "").is_ok());
        assert!(before.is_at(&path) && before.is_at(&link));
        // What was just linked is settled: no byte of it changed.
        assert!(FileIdentity::of(&path).unwrap().is_settled(SystemTime::now()));
        let time = fs_err::metadata(&path).unwrap().modified().unwrap();
        fs_err::remove_file(&link).unwrap();
        fs_err::copy(&path, &link).unwrap();
        let copy = fs_err::OpenOptions::new().write(true).open(&link).unwrap();
        copy.file().set_modified(time).unwrap();
        // Length and time are the same, and it is another file.
        assert!(!before.is_at(&link));
    }
}
