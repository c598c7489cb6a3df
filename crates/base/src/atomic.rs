//! Files and directories that get their final name only once they are complete.
//!
//! Both are written beside their target under a random name, and renamed at the end. A killed
//! process leaves such a temporary file or directory behind, which [`sweep`] removes.

pub mod lock;

use std::{
    ffi::OsString,
    fs::TryLockError,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use fs_err::{self as fs, File, OpenOptions};
use tempfile::{NamedTempFile, TempDir};
use walkdir::WalkDir;

/// Prefix of the names of unfinished files and directories.
pub const PREFIX: &str = ".rocwheel-";
const SUFFIX: &str = ".part";

/// A temporary file, or a second name of another file. It is deleted on drop unless it was renamed to
/// its target.
#[derive(Debug)]
pub struct AtomicFile<T = File>(NamedTempFile<T>);

/// A second name of a file (a hard link).
pub type AtomicLink = AtomicFile<()>;

impl AtomicFile {
    /// Creates an empty file in the directory of `target`.
    ///
    /// The name is random and created exclusively. A process id would not do: two containers that
    /// share a directory both run as process 1, and would write into one file.
    pub fn beside(target: &Path) -> io::Result<Self> {
        loop {
            let file = Self::without_lock(target)?;
            if is_held(file.0.as_file(), file.0.path()) {
                return Ok(file);
            }
        }
    }

    /// Like [`beside`](Self::beside), but a concurrent [`sweep`] may remove the file.
    fn without_lock(target: &Path) -> io::Result<Self> {
        let create = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).open(path)
        };
        named().make_in(directory_of(target), create).map(Self)
    }

    /// The temporary file, to be written.
    pub fn file(&mut self) -> &mut File {
        self.0.as_file_mut()
    }
}

impl AtomicLink {
    /// Gives `file` a temporary name in the directory of `target`.
    pub fn to(file: &Path, target: &Path) -> io::Result<Self> {
        let link = |path: &Path| fs::hard_link(file, path);
        named().make_in(directory_of(target), link).map(Self)
    }

    /// The temporary name, which exists until the link is renamed or dropped.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Renames the link to `target`, replacing an existing file.
    pub fn replace_link(self, target: &Path) -> io::Result<()> {
        let temporary = self.0.path().to_owned();
        self.replace(target)?;
        // Renaming a file to another name of the same file does nothing and reports success, so the
        // temporary name may still exist.
        let _ = fs::remove_file(temporary);
        Ok(())
    }
}

impl<T> AtomicFile<T> {
    /// Renames the file to `target`, replacing an existing file.
    pub fn replace(self, target: &Path) -> io::Result<()> {
        let renamed = self.0.persist(target).map(drop);
        renamed.map_err(|failed| rename_failed(&failed.error, target))
    }

    /// Renames the file to `target`, or fails with `AlreadyExists`: of two writers exactly one
    /// succeeds.
    pub fn claim(self, target: &Path) -> io::Result<()> {
        let Err(failed) = self.0.persist_noclobber(target) else {
            return Ok(());
        };
        // FAT and some network file systems have neither an exclusive rename nor hard links. There,
        // and only there, two writers can both believe that they were first.
        let is_unsupported = matches!(
            failed.error.kind(),
            io::ErrorKind::Unsupported
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::InvalidInput
        );
        if is_unsupported && !exists(target) {
            return Self(failed.file).replace(target);
        }
        Err(rename_failed(&failed.error, target))
    }
}

/// Writes a file atomically, replacing an existing one.
pub fn write(target: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_at_once(target, bytes.as_ref(), AtomicFile::replace)
}

/// Writes a file atomically, or fails with `AlreadyExists`: see [`AtomicFile::claim`].
pub fn create(target: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_at_once(target, bytes.as_ref(), AtomicFile::claim)
}

/// Writes bytes that are all in memory. The unfinished file is so young when it gets its name that it is not locked:
/// an index of small packages consists of thousands of such files, and a lock is as much work as the bytes. A
/// concurrent [`sweep`] may take the file for an abandoned one and remove it. Then it cannot be renamed, and is
/// written once more with a lock.
fn write_at_once(
    target: &Path,
    bytes: &[u8],
    name: impl Fn(AtomicFile, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let finish = |mut file: AtomicFile| {
        file.file().write_all(bytes)?;
        name(file, target)
    };
    match finish(AtomicFile::without_lock(target)?) {
        Err(error) if is_gone(&error) => finish(AtomicFile::beside(target)?),
        finished => finished,
    }
}

/// A temporary directory. It is deleted on drop unless it was renamed to its target.
#[derive(Debug)]
pub struct StagedDir {
    staging: TempDir,
    target: PathBuf,
    /// Locks the directory, so that [`sweep`] does not remove it while the writer runs.
    _lock: Option<File>,
}

impl StagedDir {
    /// Creates an empty directory beside `target`, and its parents if they are missing. First
    /// cleans up what killed writers have left there.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let directory = directory_of(target);
        fs::create_dir_all(directory)?;
        restore(target)?;
        sweep(directory);
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut name = named();
        #[cfg(unix)]
        {
            use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};
            // The default is 0700, with which only the owner could read the finished directory. The
            // umask still applies.
            name.permissions(Permissions::from_mode(0o777));
        }
        loop {
            let staging = name.tempdir_in(directory)?;
            // Outside Unix a directory cannot be opened as a file, and there is no `sweep`. On Linux,
            // a concurrent one may have removed it already.
            let lock = File::open(staging.path()).ok();
            let path = staging.path();
            let is_ours = lock.as_ref().map_or(exists(path), |it| is_held(it, path));
            if is_ours {
                return Ok(Self { staging, target: target.to_owned(), _lock: lock });
            }
        }
    }

    /// The temporary directory, to be filled. It is removed unless it is given its name.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Gives the directory the name of its target. Fails with `AlreadyExists` if anything has that name by now.
    pub fn claim(self) -> io::Result<()> {
        rename_exclusively(self.staging.path(), &self.target)
            .map_err(|error| rename_failed(&error, &self.target))?;
        let _ = self.staging.keep();
        Ok(())
    }

    /// Gives the directory the name of its target. Of a directory that has the name, the files for which
    /// `is_replaced` says yes are removed; all others are kept, and their paths returned.
    ///
    /// **Contract:** no file is lost that came into the target while this writer worked. `is_replaced` gets
    /// the directory that the files are in, which has another name once it is exchanged, and the path below it
    /// with `/`. It says yes only for what this program may replace.
    pub fn replace(self, is_replaced: impl Fn(&Path, &str) -> bool) -> io::Result<Vec<String>> {
        let staging = self.staging;
        let target = &self.target;
        if !exists(target) {
            match rename_exclusively(staging.path(), target) {
                Ok(()) => {
                    let _ = staging.keep();
                    return Ok(Vec::new());
                }
                // Another process has made the target since.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(rename_failed(&error, target)),
            }
        }
        // Before the exchange, so that a kill right after it loses nothing: `sweep` removes the old directory
        // then. Afterwards once more, for what came between the two.
        let mut kept = keep_others(target, staging.path(), &is_replaced)?;
        // The old directory is about to get the temporary name. With a lock, a concurrent `sweep` leaves it alone
        // until all is kept.
        let lock = File::open(target).ok().filter(|it| it.try_lock().is_ok());
        match exchange(staging.path(), target) {
            Ok(()) => {
                let old = staging.keep();
                kept.extend(keep_others(&old, target, &is_replaced)?);
                clear(&old)?;
            }
            Err(error) if is_unknown(&error) => {
                kept.extend(swap(staging, target, &is_replaced)?);
            }
            Err(error) => return Err(rename_failed(&error, target)),
        }
        drop(lock);
        kept.sort();
        kept.dedup();
        Ok(kept)
    }
}

/// Replaces the target with two renames, for file systems that cannot exchange two names
/// atomically. Between them the target is missing. If the process is killed there, [`restore`] puts
/// the old directory back.
fn swap(
    staging: TempDir,
    target: &Path,
    is_replaced: &dyn Fn(&Path, &str) -> bool,
) -> io::Result<Vec<String>> {
    let old = old_name(target);
    clear(&old)?;
    fs::rename(target, &old)?;
    if let Err(error) = fs::rename(staging.path(), target) {
        fs::rename(&old, target)?;
        return Err(error);
    }
    let _ = staging.keep();
    let kept = keep_others(&old, target, is_replaced)?;
    clear(&old)?;
    Ok(kept)
}

/// Gives each file below `from` that is not replaced a second name at the same path below `to`, and returns
/// these paths. Their directories are made; a symlink is a file here.
fn keep_others(
    from: &Path,
    to: &Path,
    is_replaced: &dyn Fn(&Path, &str) -> bool,
) -> io::Result<Vec<String>> {
    let mut kept = Vec::new();
    // A symlink goes alone: what it leads to stays where it is.
    if !fs::symlink_metadata(from)?.is_dir() {
        return Ok(kept);
    }
    for entry in WalkDir::new(from).min_depth(1) {
        let entry = match entry {
            // Somebody has removed it.
            Err(error) if error.io_error().is_some_and(is_gone) => continue,
            entry => entry?,
        };
        let below = entry.path().strip_prefix(from).unwrap_or(from);
        let name = below.to_string_lossy().replace('\\', "/");
        if entry.file_type().is_dir() || is_replaced(from, &name) {
            continue;
        }
        let place = to.join(below);
        fs::create_dir_all(directory_of(&place))?;
        match fs::hard_link(entry.path(), &place) {
            Ok(()) => kept.push(name),
            Err(error) if is_gone(&error) => {}
            // It was kept before.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && is_same_file(entry.path(), &place) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(kept)
}

/// Whether two names are of one file.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let inode = |path: &Path| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    inode(one).is_some_and(|file| Some(file) == inode(other))
}

#[cfg(not(unix))]
fn is_same_file(_: &Path, _: &Path) -> bool {
    true
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Cleans up after a process that was killed inside `swap`: puts the old directory back, or deletes
/// it if the new one is in place.
pub fn restore(target: &Path) -> io::Result<()> {
    let old = old_name(target);
    match (exists(&old), exists(target)) {
        (true, false) => fs::rename(&old, target),
        (true, true) => clear(&old),
        (false, _) => Ok(()),
    }
}

/// Removes the unfinished files and directories that killed processes have left in `directory`.
///
/// A writer holds a lock on its unfinished file, and the name says under which kernel it runs. So a
/// file of this kernel, in any container, is abandoned if it has no lock. A network file system may
/// hide the locks of other machines, so their files are left alone, and so is everything on systems
/// without a boot id. Failures are ignored: a leftover does no harm, as readers ignore its name.
pub fn sweep(directory: &Path) {
    let (Ok(entries), Some(ours)) = (fs::read_dir(directory), OF_THIS_KERNEL.as_deref()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = |name: &str| name.starts_with(ours) && name.ends_with(SUFFIX);
        // Stays open, and so locked, until the file is removed: of two concurrent sweeps one
        // removes it.
        if name.to_str().is_some_and(is_ours)
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = clear(&entry.path());
        }
    }
}

/// Locks a newly created file, and returns whether it is still ours.
///
/// Between its creation and the lock it looks abandoned, so a concurrent `sweep` may lock and
/// remove it; the caller then creates another one. On a file system without locks this returns
/// true, and no `sweep` can lock the file.
fn is_held(file: &File, path: &Path) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && exists(path)
}

/// The prefix of names that writers under this kernel use, so that `sweep` knows whose locks it can
/// see: it has the boot id, which only Linux has.
static OF_THIS_KERNEL: LazyLock<Option<String>> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{PREFIX}{}-", boot.get(..8)?))
});

fn named() -> tempfile::Builder<'static, 'static> {
    let mut name = tempfile::Builder::new();
    let prefix = OF_THIS_KERNEL.as_deref().unwrap_or(PREFIX);
    name.prefix(prefix).suffix(SUFFIX).rand_bytes(12);
    name
}

/// The name of the old directory while `swap` renames the new one.
fn old_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(PREFIX);
    name.push(target.file_name().unwrap_or_default());
    name.push(".old");
    target.with_file_name(name)
}

fn directory_of(target: &Path) -> &Path {
    match target.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Removes a file, a symlink or a whole directory, if it exists.
pub fn clear(path: &Path) -> io::Result<()> {
    let removed = fs::symlink_metadata(path).and_then(|found| {
        if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    });
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The free space at a directory, which need not exist yet. `None` if the system does not tell.
pub fn free_space(directory: &Path) -> Option<u64> {
    let existing = directory.ancestors().find(|path| fs::metadata(path).is_ok());
    fs4::available_space(existing.unwrap_or(Path::new("."))).ok()
}

/// Whether the path exists; a dangling symlink counts.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename_failed(error: &io::Error, target: &Path) -> io::Error {
    let message = format!("failed to rename to `{}`: {error}", target.display());
    io::Error::new(error.kind(), message)
}

/// Fails with `AlreadyExists` if anything has the name `to`, even an empty directory. Elsewhere than on Linux,
/// that is asked right before the rename.
#[cfg(target_os = "linux")]
fn rename_exclusively(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unknown(&error.into()) => rename_if_free(from, to),
        renamed => Ok(renamed?),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_exclusively(from: &Path, to: &Path) -> io::Result<()> {
    rename_if_free(from, to)
}

fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    if exists(to) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the file system or the operating system cannot exchange names.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

#[cfg(test)]
mod tests;
