//! One process at a time into a directory, by a lock of the system's, which ends with its process.

use std::{io, path::Path};

use fs_err::{self as fs, File, OpenOptions};

use crate::error::{Context as _, Hint as _, Result, anyhow};

/// What a process has a directory to itself for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPurpose {
    Fetch,
    Build,
    /// A build below the directory of a pipeline.
    BuildBelow,
    Pipeline,
    Split,
    Recombine,
}

/// How often somebody else may remove the file between its opening and its lock.
const ATTEMPTS: u32 = 100;

/// The right to change a directory, for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    hold: Hold,
    work: LockPurpose,
}

#[derive(Debug)]
enum Hold {
    Held(File),
    /// There are no locks here, or none that this user may take.
    Without,
    /// There is no file to lock, and none may be made.
    Barred(String),
}

/// What an attempt came to.
#[derive(Debug)]
enum LockAttempt {
    Done(Hold),
    /// Whoever had it has removed the file since it was opened.
    Gone,
    Taken,
}

impl LockPurpose {
    fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Build | Self::BuildBelow => "build",
            Self::Pipeline => "pipeline",
            Self::Split => "split",
            Self::Recombine => "recombine",
        }
    }

    fn file_name(self) -> String {
        format!(".rocwheel-{}.lock", self.name())
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Build => "choose another `--dest-dir`",
            _ => "choose another `--output-dir`",
        }
    }
}

impl Lock {
    /// Makes the directory, and is refused where another process does such work.
    pub fn take(directory: &Path, work: LockPurpose) -> Result<Self> {
        let place = directory.display();
        fs::create_dir_all(directory)
            .with_context(|| format!("no directory to write to: `{place}`"))
            .hint(work.way_out())?;
        for _ in 0..ATTEMPTS {
            match attempt(&directory.join(work.file_name()))? {
                LockAttempt::Done(hold) => return Ok(Self { hold, work }),
                LockAttempt::Gone => {}
                LockAttempt::Taken => {
                    return Err(anyhow!("another {} is running in `{place}`", work.name()))
                        .hint(format!("wait until it has ended, or {}", work.way_out()));
                }
            }
        }
        let hold = Hold::Without;
        Ok(Self { hold, work })
    }

    /// The same, where it is certain that something is to be written.
    pub fn to_write(directory: &Path, work: LockPurpose) -> Result<Self> {
        let lock = Self::take(directory, work)?;
        lock.ensure_writable()?;
        Ok(lock)
    }

    pub fn is_held(&self) -> bool {
        matches!(self.hold, Hold::Held(_))
    }

    /// An error where nothing can be written anyway.
    pub fn ensure_writable(&self) -> Result<()> {
        match &self.hold {
            Hold::Held(_) | Hold::Without => Ok(()),
            Hold::Barred(why) => {
                Err(anyhow!("nothing can be written: {why}")).hint(self.work.way_out())
            }
        }
    }
}

fn attempt(path: &Path) -> io::Result<LockAttempt> {
    let mut options = OpenOptions::new();
    let file = match options.read(true).append(true).create(true).open(path) {
        Err(error) if may_not(&error) => {
            // One that another user has left keeps nobody from writing others.
            let is_there = fs::symlink_metadata(path).is_ok();
            return Ok(LockAttempt::Done(if is_there {
                Hold::Without
            } else {
                Hold::Barred(error.to_string())
            }));
        }
        // Whatever is written next will say so, and there may be nothing to write.
        Err(error) if is_full(&error) => return Ok(LockAttempt::Done(Hold::Without)),
        file => file?,
    };
    Ok(match file.try_lock().map_err(io::Error::from) {
        Ok(()) if is_at(&file, path)? => LockAttempt::Done(Hold::Held(file)),
        Ok(()) => LockAttempt::Gone,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => LockAttempt::Taken,
        // Some file systems of networks know no locks.
        Err(_) => LockAttempt::Done(Hold::Without),
    })
}

fn may_not(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Whether a file still has its name: a lock on another one would keep nobody out.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata()?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        named => named.map(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())),
    }
}

/// Elsewhere the file stays when a lock ends.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Hold::Held(file) = &self.hold
            && cfg!(unix)
        {
            // While it is locked, so that nobody else has it; one that is left does no harm.
            let _ = fs::remove_file(file.path());
        }
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
        let left = fs::read_dir(&directory).unwrap().count();
        assert_eq!(left, usize::from(cfg!(not(unix))));
        assert!(
            Lock::take(&directory, LockPurpose::Fetch)
                .unwrap()
                .is_held()
        );
    }

    #[test]
    fn a_file_that_a_killed_fetch_has_left_keeps_nobody_out() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(LockPurpose::Fetch.file_name()), "").unwrap();
        assert!(
            Lock::take(directory.path(), LockPurpose::Fetch)
                .unwrap()
                .is_held()
        );
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
    fn a_file_in_the_way_is_told() {
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
