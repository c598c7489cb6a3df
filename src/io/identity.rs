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

/// Length, modification time and inode of a file. If another program writes or replaces the file,
/// at least one of them is expected to change. All names (hard links) of a file have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    pub len: u64,
    modified: Option<SystemTime>,
    /// With the device; zeros outside Unix.
    inode: (u64, u64),
}

impl FileStamp {
    pub fn from_metadata(found: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt as _;
            (found.dev(), found.ino())
        };
        #[cfg(not(unix))]
        let inode = (0, 0);
        Self { len: found.len(), modified: found.modified().ok(), inode }
    }
}

/// The properties of a file that a write changes, for a later process. Unlike a [`FileStamp`] it
/// has the time of the last change of the inode (`ctime`), which no program can set. So a file
/// that was changed and got its old modification time back has another identity, but also one that
/// was only linked or got another mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    pub len: u64,
    /// Seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    /// `None` on systems without inodes.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        Ok(Self::from_metadata(&fs_err::metadata(path)?))
    }

    #[cfg(unix)]
    pub fn from_metadata(found: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    pub fn from_metadata(_: &Metadata) -> Option<Self> {
        None
    }

    /// Whether at most the time of the last change of the inode differs, as after the file got
    /// another hard link.
    pub fn is_but_for_ctime(self, other: Self) -> bool {
        let changed = other.changed;
        Self { changed, ..self } == other
    }

    /// Whether this file is at a path, also under another of its names.
    pub fn is_at(self, path: &Path) -> bool {
        Self::of(path).is_ok_and(|found| found.is_some_and(|it| it.is_but_for_ctime(self)))
    }

    /// When the file or its inode changed last: seconds since 1970, and nanoseconds.
    pub fn last_change(&self) -> (i64, i64) {
        self.modified.max(self.changed)
    }

    /// Whether the last change of the file was so long before `now` that a later change shows in its
    /// times. A file that changes twice within one step of the clock has the same times after both; git
    /// calls an entry of its index that is younger "racy".
    ///
    /// How long a step is shows in `ctime`, which no program can set: a coarse clock gives it whole
    /// milliseconds. With a fine clock `mtime` alone decides, because writing a file sets it. So a file
    /// that was just linked or renamed is settled. To deceive, a program would have to write to it and to
    /// set its old `mtime` again within the 10 ms after that.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let is_fine = self.changed.1 % 1_000_000 != 0;
        let ((seconds, nanos), step) =
            if is_fine { (self.modified, FINE_CLOCK) } else { (self.last_change(), COARSE_CLOCK) };
        let newest = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanos).unwrap_or_default(),
        );
        let settles = SystemTime::UNIX_EPOCH.checked_add(newest.saturating_add(step));
        settles.is_some_and(|settles| settles <= now)
    }
}

/// By what it shows that a file changed while a command works with it: its stamp and, where the system has
/// one, its identity. So it also shows if the file got its old modification time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    pub stamp: FileStamp,
    identity: Option<FileIdentity>,
}

impl FileState {
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from_metadata(&fs_err::metadata(path)?))
    }

    pub fn from_metadata(found: &Metadata) -> Self {
        Self {
            stamp: FileStamp::from_metadata(found),
            identity: FileIdentity::from_metadata(found),
        }
    }

    /// The same for a file that may get further hard links meanwhile.
    #[must_use]
    pub fn but_for_links(self) -> Self {
        let identity = None;
        Self { identity, ..self }
    }

    /// Fails if the file at a path is in another state. `since` completes the message: `changed while it
    /// was packed`.
    pub fn ensure(&self, path: &Path, since: &str) -> io::Result<()> {
        self.ensure_same(&Self::of(path)?, path, since)
    }

    /// The same, for a file whose present state is known.
    pub fn ensure_same(&self, now: &Self, path: &Path, since: &str) -> io::Result<()> {
        let is_same = now.identity == self.identity || self.identity.is_none();
        if now.stamp == self.stamp && is_same {
            return Ok(());
        }
        let path = path.display();
        Err(io::Error::other(format!("`{path}` changed {since}")))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_just_changed_may_change_again_and_look_the_same() {
        let identity =
            |modified, changed| FileIdentity { device: 1, inode: 2, len: 3, modified, changed };
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
    }
}
