//! A file that is not there yet: it has its name only once it is whole, and goes if that never comes.

use std::{
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use fs_err as fs;

/// Names of unfinished files begin so; no key may.
pub(super) const UNFINISHED: &str = ".rocwheel-";

pub(super) struct Unfinished {
    path: PathBuf,
    is_renamed: bool,
}

impl Unfinished {
    pub(super) fn beside(path: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            path: path.with_file_name(format!("{UNFINISHED}{}-{number}", process::id())),
            is_renamed: false,
        }
    }

    pub(super) fn create(&self) -> io::Result<fs::File> {
        fs::File::create(&self.path)
    }

    /// Takes a name that nothing has; of two that try, one does. Nobody need look before.
    pub(super) fn claim(&mut self, path: &Path) -> io::Result<()> {
        match rename_new(&self.path, path) {
            Err(error) if is_unknown(&error) => self.link(path),
            done => {
                self.is_renamed = done.is_ok();
                done
            }
        }
    }

    /// Takes a name, whatever has it.
    pub(super) fn replace(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.is_renamed = true;
        Ok(())
    }

    /// Of two links of one name the second fails. FAT and some network file systems have none:
    /// there, and only there, two writers can both think that they were first.
    fn link(&mut self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, path) {
            Err(error) if is_unknown(&error) && fs::symlink_metadata(path).is_err() => {
                self.replace(path)
            }
            done => done,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_renamed {
            // A leftover does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(target_os = "linux")]
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a file system, or the system, does not know how.
fn is_unknown(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    type Claim = fn(&mut Unfinished, &Path) -> io::Result<()>;

    fn unfinished(path: &Path, text: &str) -> Unfinished {
        let unfinished = Unfinished::beside(path);
        io::Write::write_all(&mut unfinished.create().unwrap(), text.as_bytes()).unwrap();
        unfinished
    }

    #[test]
    fn a_name_is_claimed_once_in_either_way() {
        let directory = tempfile::tempdir().unwrap();
        let ways: [Claim; 2] = [Unfinished::claim, Unfinished::link];
        for (number, claim) in ways.into_iter().enumerate() {
            let path = directory.path().join(format!("{number}.txt"));
            claim(&mut unfinished(&path, "first"), &path).unwrap();
            let refused = claim(&mut unfinished(&path, "second"), &path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), "first");
            unfinished(&path, "third").replace(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
