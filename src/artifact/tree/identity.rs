//! How to tell whether a file is still the one that was read.

use std::{
    fs::Metadata,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::atomic::AtomicFile;

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
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from_metadata(&fs_err::metadata(path)?))
    }

    pub fn from_metadata(found: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt as _;
            (found.dev(), found.ino())
        };
        #[cfg(not(unix))]
        let inode = (0, 0);
        Self {
            len: found.len(),
            modified: found.modified().ok(),
            inode,
        }
    }

    /// Whether both are one file under two names. Outside Unix this is not known.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self == other && self.has_inode()
    }

    /// Whether it can tell a file from one that replaced it. Outside Unix it cannot.
    pub fn has_inode(&self) -> bool {
        self.inode != (0, 0)
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
    /// The longest tick of a clock that counts nanoseconds: 10 ms on Linux, and as much again.
    const TICK: Duration = Duration::from_millis(20);
    /// The same for clocks of whole or even seconds.
    const COARSE_TICK: Duration = Duration::from_secs(3);
    /// A time long ago that every file system can keep: in 2001.
    const LONG_AGO: Duration = Duration::from_secs(1_000_000_000);

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

    /// Whether the file system of a directory notes by itself when an inode changes. FAT, and some
    /// that are mounted over a network, show the modification time instead, which can be set: there,
    /// a file that was changed may have the same identity. False if nothing can be written there.
    pub fn is_kept_in(directory: &Path) -> bool {
        let try_it = || -> io::Result<bool> {
            let mut probe = AtomicFile::beside(&directory.join("probe"))?;
            let file = probe.file().file();
            file.set_modified(SystemTime::UNIX_EPOCH + Self::LONG_AGO)?;
            let found = Self::from_metadata(&file.metadata()?);
            Ok(found.is_some_and(|it| it.changed > it.modified))
        };
        try_it().unwrap_or(false)
    }

    /// Waits until the last of some files settles, if that is about to happen.
    pub fn wait(settles: Option<SystemTime>) {
        let left = settles.and_then(|it| it.duration_since(SystemTime::now()).ok());
        std::thread::sleep(left.unwrap_or_default().min(Self::TICK));
    }

    /// Whether at most the time of the last change of the inode differs, as after the file got
    /// another hard link.
    pub fn is_but_for_ctime(self, other: Self) -> bool {
        let changed = other.changed;
        Self { changed, ..self } == other
    }

    /// When this identity begins to mean that the file is the same. A file that is changed twice
    /// within a tick of the clock of its file system has the same times after both. Most clocks
    /// tick every few milliseconds; FAT has only even seconds, and old file systems whole ones.
    pub fn settles(&self) -> SystemTime {
        let (seconds, nanos) = self.modified.max(self.changed);
        let is_coarse = nanos % 10_000_000 == 0;
        let tick = if is_coarse {
            Self::COARSE_TICK
        } else {
            Self::TICK
        };
        let newest = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanos).unwrap_or_default(),
        );
        // A time that cannot be represented is far in the future.
        let settles = SystemTime::UNIX_EPOCH.checked_add(newest.saturating_add(tick));
        settles.unwrap_or_else(|| SystemTime::now() + Self::COARSE_TICK)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_asked_and_nothing_is_left_there() {
        let directory = tempfile::tempdir().unwrap();
        assert!(FileIdentity::is_kept_in(directory.path()));
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 0);
        assert!(!FileIdentity::is_kept_in(&directory.path().join("missing")));
    }

    #[test]
    fn a_clock_of_whole_seconds_needs_more_time() {
        let identity = |modified, changed| FileIdentity {
            device: 1,
            inode: 2,
            len: 3,
            modified,
            changed,
        };
        let settles = |identity: FileIdentity| {
            let time = identity.settles().duration_since(SystemTime::UNIX_EPOCH);
            time.unwrap().as_millis()
        };
        assert_eq!(settles(identity((5, 0), (9, 123_456_789))), 9143);
        assert_eq!(settles(identity((5, 0), (9, 0))), 12_000);
        // A modification time can be set to anything, also to the future.
        assert_eq!(settles(identity((99, 1), (9, 0))), 99_020);
        assert_eq!(settles(identity((-5, 0), (-9, 0))), 3000);
        let last = identity((i64::MAX, 999_999_999), (0, 0));
        assert!(last.settles() > SystemTime::now());
    }
}
