//! A lock file that lets only one process at a time work in a directory. The operating system
//! releases the lock when the process ends.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

use fs_err::{self as fs, File, OpenOptions};

use crate::error::{Context as _, Hint as _, Result, anyhow};

/// What a process locks a directory for. Each kind of work has a lock file of its own, so different
/// kinds do not exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum LockPurpose {
    /// Artifacts are downloaded into the directory.
    Fetch,
    /// Packages are built into the directory.
    Build,
    /// A build inside the output directory of a pipeline.
    #[strum(to_string = "build")]
    BuildBelow,
    /// Pages beside the packages of a build. A build removes old pages, so the two exclude each other. Several
    /// of these may run at once.
    #[strum(to_string = "build")]
    Index,
    /// A whole pipeline writes below the directory.
    Pipeline,
    /// Device code is split into the directory.
    Split,
    /// Packages are installed into the directory.
    Install,
}

/// How often to try again when another process removes the lock file, or the directory, before it is locked.
const ATTEMPTS: u32 = 100;

/// An exclusive lock on a directory, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    hold: Hold,
    work: LockPurpose,
    directory: PathBuf,
    /// The directories that were created for it, innermost first. If the work leaves them empty,
    /// they are removed with the lock.
    created: Vec<PathBuf>,
}

#[derive(Debug)]
enum Hold {
    Held(File),
    /// This user or this file system cannot lock, so work goes on without a lock.
    Without,
    /// The lock file does not exist and cannot be created, for this reason. `ensure_writable`
    /// reports it.
    Barred(String),
}

impl LockPurpose {
    /// The name of the lock file in the locked directory.
    pub fn file_name(self) -> String {
        format!(".rocwheel-{self}.lock")
    }

    /// Who may hold the lock.
    fn holder(self) -> String {
        match self {
            Self::Build | Self::BuildBelow => "another build, or an index,".to_owned(),
            Self::Index => "a build".to_owned(),
            _ => format!("another {self}"),
        }
    }

    /// Whether several processes may hold the lock at once.
    fn is_shared(self) -> bool {
        self == Self::Index
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Install | Self::Index => "choose another directory",
            _ => "choose another `--output-dir`",
        }
    }
}

impl Lock {
    /// Creates and locks the directory. Fails if another process holds the lock.
    pub fn take(directory: &Path, work: LockPurpose) -> Result<Self> {
        let place = directory.display();
        let mut created = Vec::new();
        for attempts_left in (0..ATTEMPTS).rev() {
            // Until the lock file is there, another process may remove directories that it has created and left empty.
            let may_be_removed =
                |error: &io::Error| error.kind() == io::ErrorKind::NotFound && attempts_left > 0;
            match create_directories(directory, &mut created) {
                Err(error) if may_be_removed(&error) => continue,
                answer => answer
                    .with_context(|| format!("no directory to write to: `{place}`"))
                    .hint(work.way_out())?,
            }
            match attempt(&directory.join(work.file_name()), work.is_shared()) {
                Ok(Some(hold)) => {
                    return Ok(Self { hold, work, directory: directory.to_owned(), created });
                }
                Ok(None) => {}
                Err(error) if may_be_removed(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let holder = work.holder();
                    return Err(anyhow!("{holder} is running in `{place}`"))
                        .hint(format!("wait until it has ended, or {}", work.way_out()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self { hold: Hold::Without, work, directory: directory.to_owned(), created })
    }

    /// Like `take`, but also fails if the directory is not writable.
    pub fn to_write(directory: &Path, work: LockPurpose) -> Result<Self> {
        let lock = Self::take(directory, work)?;
        lock.ensure_writable()?;
        Ok(lock)
    }

    /// Whether the directory did not exist, and was created for this lock.
    pub fn has_created_directory(&self) -> bool {
        self.created.contains(&self.directory)
    }

    /// Whether others are kept out. It is false where the user or the file system cannot lock, and the
    /// work goes on.
    pub fn is_held(&self) -> bool {
        matches!(self.hold, Hold::Held(_))
    }

    /// The lock file as the standard input of a program, which reads an empty file. On Unix the lock
    /// is then held until that program ends, even if this process is killed before.
    pub fn as_stdin(&self) -> Stdio {
        match &self.hold {
            Hold::Held(file) => file.file().try_clone().map_or_else(|_| Stdio::null(), Stdio::from),
            Hold::Without | Hold::Barred(_) => Stdio::null(),
        }
    }

    /// Fails if nothing can be written to the directory.
    pub fn ensure_writable(&self) -> Result<()> {
        match &self.hold {
            Hold::Held(_) | Hold::Without => Ok(()),
            Hold::Barred(why) => {
                Err(anyhow!("nothing can be written: {why}")).hint(self.work.way_out())
            }
        }
    }
}

/// Creates a directory, with those around it that are missing. `created` gets the ones that this process has
/// created and no other one, innermost first.
fn create_directories(directory: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    let ancestors = directory.ancestors().filter(|it| !it.as_os_str().is_empty());
    let missing: Vec<&Path> = ancestors.take_while(|it| !it.is_dir()).collect();
    for place in missing.into_iter().rev() {
        match fs::create_dir(place) {
            Ok(()) => {
                created.retain(|it| it != place);
                created.insert(0, place.to_owned());
            }
            // Another process was first, and may have removed it since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !fs::metadata(place)?.is_dir() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `None` if the previous holder has removed the file since it was opened. The error is
/// `WouldBlock` if another process holds the lock.
fn attempt(path: &Path, is_shared: bool) -> io::Result<Option<Hold>> {
    let mut options = OpenOptions::new();
    let file = match options.read(true).append(true).create(true).open(path) {
        // The lock file of another user cannot be opened, but other files may still be writable.
        Err(error) if may_not(&error) && fs::symlink_metadata(path).is_err() => {
            return Ok(Some(Hold::Barred(error.to_string())));
        }
        // If the disk is full, the next write reports it, and there may be nothing to write.
        Err(error) if may_not(&error) || is_full(&error) => return Ok(Some(Hold::Without)),
        file => file?,
    };
    let locked = if is_shared { file.file().try_lock_shared() } else { file.try_lock() };
    match locked.map_err(io::Error::from) {
        Ok(()) if is_at(&file, path)? => Ok(Some(Hold::Held(file))),
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        // Some network file systems have no locks.
        Err(_) => Ok(Some(Hold::Without)),
    }
}

fn may_not(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the path still names this file. The last holder removes the lock file, and a lock on a
/// removed file would exclude no other process.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let opened = file.metadata()?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        named => named.map(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())),
    }
}

/// The lock file is not removed on other systems, so it always keeps its name.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A shared lock is tried to be made exclusive: the file has to stay as long as another process holds
        // it.
        if let Hold::Held(file) = &self.hold
            && cfg!(unix)
            && (!self.work.is_shared() || file.try_lock().is_ok())
        {
            // Removed while it is locked, so that no other process holds a lock on it. A file that
            // is left behind does no harm.
            let _ = fs::remove_file(file.path());
        }
        // A directory with files cannot be removed, and the ones around it are not empty then. The work may have
        // removed the directory itself.
        let is_gone = |it: &PathBuf| fs::remove_dir(it).is_ok() || !it.exists();
        self.created.iter().all(is_gone);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;
    use crate::error::{Exit, render};

    #[test]
    fn a_directory_is_one_fetch_s_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        let lock = Lock::take(&directory, LockPurpose::Fetch).unwrap();
        let error = Lock::take(&directory, LockPurpose::Fetch).unwrap_err();
        assert_eq!(Exit::of(&error), Exit::CouldNotTry);
        let text = render(&error).replace(directory.to_str().unwrap(), "OUT");
        insta::assert_snapshot!(text, @"
        error: another fetch is running in `OUT`

        hint: wait until it has ended, or choose another `--output-dir`
        ");
        drop(lock);
        assert_eq!(directory.exists(), cfg!(not(unix)));
        assert!(Lock::take(&directory, LockPurpose::Fetch).unwrap().is_held());
    }

    #[cfg(unix)]
    #[test]
    fn only_directories_that_the_lock_created_and_that_stay_empty_are_removed() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("own")).unwrap();
        for (directory, file, left) in [
            ("own/a/b", None, "own"),
            ("own", None, "own"),
            ("own/a/b", Some("own/a/file"), "own/a"),
        ] {
            let directory = place.path().join(directory);
            let lock = Lock::take(&directory, LockPurpose::Fetch).unwrap();
            if let Some(file) = file {
                fs::write(place.path().join(file), "").unwrap();
            }
            drop(lock);
            let nearest = directory.ancestors().find(|it| it.exists());
            assert_eq!(nearest, Some(place.path().join(left).as_path()));
        }
    }

    #[test]
    fn a_directory_that_another_process_removes_is_created_again() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a/b");
        thread::scope(|scope| {
            for work in [LockPurpose::Fetch, LockPurpose::Pipeline, LockPurpose::Split] {
                let directory = &directory;
                let take = move |_| Lock::take(directory, work).map(drop);
                scope.spawn(move || (0..3000).try_for_each(take).unwrap());
            }
        });
    }

    #[test]
    fn indexes_may_run_at_once_and_a_build_excludes_them() {
        let directory = tempfile::tempdir().unwrap();
        let take = |work| Lock::take(directory.path(), work);
        let one = take(LockPurpose::Index).unwrap();
        let two = take(LockPurpose::Index).unwrap();
        drop(one);
        let refused = take(LockPurpose::Build).unwrap_err().to_string();
        assert!(refused.starts_with("another build, or an index, is running in "), "{refused}");
        drop(two);
        let build = take(LockPurpose::BuildBelow).unwrap();
        let refused = take(LockPurpose::Index).unwrap_err().to_string();
        assert!(refused.starts_with("a build is running in "), "{refused}");
        drop(build);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), usize::from(!cfg!(unix)));
    }

    #[test]
    fn a_lock_file_that_a_killed_fetch_left_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(LockPurpose::Fetch.file_name()), "").unwrap();
        assert!(Lock::take(directory.path(), LockPurpose::Fetch).unwrap().is_held());
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_on_a_file_that_was_removed_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LockPurpose::Fetch.file_name());
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        let other = File::create(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        assert!(is_at(&other, &path).unwrap());
    }

    #[test]
    fn of_many_at_once_only_one_holds_it() {
        const MANY: usize = 8;
        let directory = tempfile::tempdir().unwrap();
        let (begin, end) = (Barrier::new(MANY), Barrier::new(MANY));
        let held = || {
            begin.wait();
            let lock = Lock::take(directory.path(), LockPurpose::Fetch);
            end.wait();
            lock.is_ok()
        };
        for _ in 0..20 {
            let holders = thread::scope(|scope| {
                let threads = [(); MANY].map(|()| scope.spawn(held));
                threads.map(|it| usize::from(it.join().unwrap()))
            });
            assert_eq!(holders.iter().sum::<usize>(), 1);
        }
    }

    #[test]
    fn a_file_in_the_way_is_an_error_that_names_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let text = render(&Lock::take(&file, LockPurpose::Fetch).unwrap_err());
        insta::assert_snapshot!(text.replace(file.to_str().unwrap(), "OUT"), @"
        error: no directory to write to: `OUT`
          caused by: failed to create directory `OUT`: File exists (os error 17)

        hint: choose another `--output-dir`
        ");
    }
}
