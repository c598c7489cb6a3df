//! Files and directories that get their final name only once they are complete.
//!
//! Both are written beside their target under a random name, and renamed at the end. A killed
//! process leaves such a temporary file or directory behind; [`sweep`] recognizes it by its name
//! and removes it.

pub mod lock;

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use fs_err::{self as fs, File, OpenOptions};
use tempfile::{NamedTempFile, TempDir};

/// Prefix of the names of unfinished files and directories.
pub const PREFIX: &str = ".rocwheel-";
const SUFFIX: &str = ".part";

/// How long an unfinished file of another machine must have been unmodified before [`sweep`] may
/// treat it as abandoned.
const QUIET: Duration = Duration::from_mins(10);
/// The same for file systems without locks, where only the age tells a slow writer from a dead one.
const QUIET_WITHOUT_LOCKS: Duration = Duration::from_hours(24);

/// A temporary file. It is deleted on drop unless it was renamed to its target.
#[derive(Debug)]
pub struct AtomicFile(NamedTempFile<File>);

impl AtomicFile {
    /// Creates an empty file in the directory of `target`.
    ///
    /// The name is random and created exclusively. A process id would not do: two containers that
    /// share a directory both run as process 1, and would write into one file.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let create = |path: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).open(path)
        };
        loop {
            let file = named().make_in(directory_of(target), create)?;
            if is_held(file.as_file(), file.path()) {
                return Ok(Self(file));
            }
        }
    }

    pub fn file(&mut self) -> &mut File {
        self.0.as_file_mut()
    }

    /// Renames the file to `target`, replacing an existing file.
    pub fn replace(self, target: &Path) -> io::Result<()> {
        match self.0.persist(target) {
            Ok(_) => Ok(()),
            Err(failed) => Err(rename_failed(&failed.error, target)),
        }
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

/// Gives a file another name (a hard link), replacing an existing file of that name.
pub fn link(file: &Path, target: &Path) -> io::Result<()> {
    let linked = named().make_in(directory_of(target), |path| fs::hard_link(file, path))?;
    let temporary = linked.path().to_owned();
    if let Err(failed) = linked.persist(target) {
        return Err(rename_failed(&failed.error, target));
    }
    // Renaming a file to another name of the same file does nothing and reports success, so the
    // temporary name may still exist.
    let _ = fs::remove_file(temporary);
    Ok(())
}

/// Makes an empty file share the blocks of another one (a reflink), on file systems that can.
#[cfg(target_os = "linux")]
pub fn share_blocks(from: &Path, to: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(to, &File::open(from)?)?)
}

#[cfg(not(target_os = "linux"))]
pub fn share_blocks(_: &Path, _: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes a file atomically, replacing an existing one.
pub fn write(target: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = AtomicFile::beside(target)?;
    file.file().write_all(bytes.as_ref())?;
    file.replace(target)
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
            // Outside Unix a directory cannot be opened as a file. Without a lock, only its age
            // protects it from `sweep`. On Unix, a concurrent `sweep` may have removed it already.
            let lock = File::open(staging.path()).ok();
            let path = staging.path();
            let is_ours = lock.as_ref().map_or(exists(path), |it| is_held(it, path));
            if is_ours {
                return Ok(Self {
                    staging,
                    target: target.to_owned(),
                    _lock: lock,
                });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Renames the directory to its target. An existing target is removed only after the rename.
    pub fn replace(self) -> io::Result<()> {
        let (staging, target) = (self.staging, &self.target);
        if exists(target) {
            match exchange(staging.path(), target) {
                // The old directory has the temporary name now, and is deleted with it.
                Ok(()) => return staging.close(),
                Err(error) if is_unknown(&error) => return swap(staging, target),
                Err(error) => return Err(rename_failed(&error, target)),
            }
        }
        fs::rename(staging.path(), target)?;
        let _ = staging.keep();
        Ok(())
    }
}

/// Replaces the target with two renames, for file systems that cannot exchange two names
/// atomically. Between them the target is missing. If the process is killed there, [`restore`] puts
/// the old directory back.
fn swap(staging: TempDir, target: &Path) -> io::Result<()> {
    let old = old_name(target);
    clear(&old)?;
    fs::rename(target, &old)?;
    if let Err(error) = fs::rename(staging.path(), target) {
        fs::rename(&old, target)?;
        return Err(error);
    }
    let _ = staging.keep();
    clear(&old)
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
/// A writer holds a lock on its unfinished file. If the name says that the writer runs under this
/// kernel, in any container, the lock alone tells whether it is alive. A network file system may
/// hide the locks of other machines, so their files must also have been unmodified for a while.
/// Failures are ignored: a leftover does no harm, as readers ignore its name.
pub fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if is_unfinished(&entry.file_name()) {
            let _ = remove_if_abandoned(&entry.path());
        }
    }
}

fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_str();
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    let modified = fs::symlink_metadata(path)?.modified()?;
    let quiet = SystemTime::now().duration_since(modified);
    let quiet = quiet.unwrap_or_default();
    let name = path.file_name().and_then(OsStr::to_str);
    let is_of_this_kernel = name
        .zip(OF_THIS_KERNEL.as_deref())
        .is_some_and(|(name, ours)| name.starts_with(ours));
    if quiet < QUIET && !is_of_this_kernel {
        return Ok(());
    }
    // Stays open, and so locked, until the file is removed: of two concurrent sweeps one removes
    // it.
    let file = File::open(path);
    let is_abandoned = match file.as_ref().map(try_lock) {
        Ok(Ok(())) => true,
        Ok(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => false,
        Ok(Err(_)) | Err(_) => quiet >= QUIET_WITHOUT_LOCKS,
    };
    if is_abandoned { clear(path) } else { Ok(()) }
}

/// Locks a newly created file, and returns whether it is still ours.
///
/// Between its creation and the lock it looks abandoned, so a concurrent `sweep` may lock and
/// remove it; the caller then creates another one. On a file system without locks this returns
/// true, and `sweep` decides by the age of the file alone.
fn is_held(file: &File, path: &Path) -> bool {
    let is_being_swept =
        try_lock(file).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    !is_being_swept && exists(path)
}

fn try_lock(file: &File) -> io::Result<()> {
    Ok(file.try_lock()?)
}

/// The prefix of names that writers under this kernel use, so that `sweep` knows whose locks it can
/// see. It contains the boot id, which only Linux has.
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
    let directory = target.parent();
    let directory = directory.filter(|directory| !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}

/// Removes a file, a symlink or a whole directory, if it exists.
pub fn clear(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// The free space at a directory, which need not exist yet. `None` if the system does not tell.
pub fn free_space(directory: &Path) -> Option<u64> {
    let mut there = directory.ancestors();
    let there = there.find(|path| fs::metadata(path).is_ok());
    fs4::available_space(there.unwrap_or(Path::new("."))).ok()
}

/// Whether the path exists; a dangling symlink counts.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename_failed(error: &io::Error, target: &Path) -> io::Error {
    let text = format!("failed to rename to `{}`: {error}", target.display());
    io::Error::new(error.kind(), text)
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
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(target: &Path, text: &str) -> AtomicFile {
        let mut file = AtomicFile::beside(target).unwrap();
        file.file().write_all(text.as_bytes()).unwrap();
        file
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn age(path: &Path, by: Duration) {
        let file = File::open(path).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    }

    #[test]
    fn a_name_is_claimed_once_and_replaced_at_will() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        file(&path, "first").claim(&path).unwrap();
        let refused = file(&path, "second").claim(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        file(&path, "third").replace(&path).unwrap();
        drop(file(&path, "fourth"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(names(directory.path()), ["a.txt"]);
    }

    #[test]
    fn a_directory_replaces_another_whole_and_goes_if_it_is_not_finished() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a/dist");
        let in_two = |staged: StagedDir| swap(staged.staging, &staged.target);
        for number in 0..4 {
            let staged = StagedDir::beside(&target).unwrap();
            fs::write(staged.path().join(number.to_string()), "").unwrap();
            if number % 2 == 0 {
                staged.replace().unwrap();
            } else {
                in_two(staged).unwrap();
            }
            drop(StagedDir::beside(&target).unwrap());
            assert_eq!(names(&target), [number.to_string()]);
            assert_eq!(names(target.parent().unwrap()), ["dist"]);
        }
    }

    #[test]
    fn a_directory_that_was_taken_out_of_its_place_is_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("dist");
        fs::create_dir_all(old_name(&target).join("old")).unwrap();
        drop(StagedDir::beside(&target).unwrap());
        assert_eq!(names(&target), ["old"]);
        assert_eq!(names(directory.path()), ["dist"]);
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_what_was_written() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (plain, ours) = (
            directory.path().join("plain"),
            directory.path().join("ours"),
        );
        fs::write(&plain, "").unwrap();
        write(&ours, "").unwrap();
        assert_eq!(mode(&ours), mode(&plain));
        let (plain, ours) = (directory.path().join("d"), directory.path().join("e"));
        fs::create_dir(&plain).unwrap();
        StagedDir::beside(&ours).unwrap().replace().unwrap();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[test]
    fn what_has_no_writer_is_swept_and_of_other_machines_only_once_it_is_old() {
        const HOUR: Duration = Duration::from_hours(1);
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [
            ".rocwheel-young.part",
            ".rocwheel-old.part",
            ".rocwheel-fetch.lock",
        ] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir_all(at(".rocwheel-tree.part/a")).unwrap();
        if let Some(ours) = OF_THIS_KERNEL.as_deref() {
            fs::write(at(&format!("{ours}killed.part")), "").unwrap();
            fs::create_dir(at(&format!("{ours}tree.part"))).unwrap();
        }
        let (written, made) = (
            file(&at("target"), "slow"),
            StagedDir::beside(&at("slow")).unwrap(),
        );
        for name in [
            ".rocwheel-old.part",
            ".rocwheel-fetch.lock",
            ".rocwheel-tree.part",
        ] {
            age(&at(name), HOUR);
        }
        age(written.0.path(), HOUR);
        age(made.path(), HOUR);
        sweep(directory.path());
        assert!(written.0.path().exists() && made.path().exists());
        drop((written, made));
        assert_eq!(
            names(directory.path()),
            [".rocwheel-fetch.lock", ".rocwheel-young.part"]
        );
    }

    /// Two writers with the same process id (in two containers) must get different names.
    #[test]
    fn a_name_does_not_depend_on_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a");
        let pid = std::process::id().to_string();
        let name = AtomicFile::beside(&target).unwrap().0.path().to_owned();
        let again = AtomicFile::beside(&target).unwrap().0.path().to_owned();
        let random = name.file_name().unwrap().to_str().unwrap();
        assert!(!random.contains(&format!("-{pid}-")), "{random}");
        assert_ne!(name, again);
    }

    #[test]
    fn a_directory_that_is_to_come_has_the_room_of_what_it_will_be_in() {
        let place = tempfile::tempdir().unwrap();
        assert!(free_space(&place.path().join("a/b")).is_some());
        assert!(free_space(Path::new("not/here/yet")).is_some());
    }
}
