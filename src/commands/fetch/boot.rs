//! What outlives a crash of the machine: which boot this is, and having on the disk what was written.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

/// The boot of the machine that something was written in. As long as it lasts, the system has what
/// was written, on the disk or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Boot(String);

impl Boot {
    /// Nothing, where the system does not tell.
    pub fn current() -> Option<Self> {
        let id = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id = id.trim();
        (!id.is_empty()).then(|| Self(id.to_owned()))
    }
}

/// Whether all that was written where a directory lies is on the disk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Yes,
    /// There is no way to tell here.
    Unknown,
}

/// Waits until it is: for all at once, because file by file that takes many times as long.
#[cfg(target_os = "linux")]
pub(super) fn settle(directory: &Path) -> io::Result<Settled> {
    let directory = fs_err::File::open(directory)?;
    known(rustix::fs::syncfs(&directory).map_err(io::Error::from))
}

/// Elsewhere no boot is told apart either.
#[cfg(not(target_os = "linux"))]
pub(super) fn settle(_directory: &Path) -> io::Result<Settled> {
    Ok(Settled::Unknown)
}

/// Sandboxes and older systems may not know the call, or not allow it: no reason to fail.
#[cfg(any(target_os = "linux", test))]
fn known(answer: io::Result<()>) -> io::Result<Settled> {
    match answer {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::Unsupported
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
            ) =>
        {
            Ok(Settled::Unknown)
        }
        answer => answer.map(|()| Settled::Yes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_cannot_tell_is_no_failure_and_a_disk_that_fails_is_one() {
        assert_eq!(known(Ok(())).unwrap(), Settled::Yes);
        let of_system = |code| known(Err(io::Error::from_raw_os_error(code)));
        for (code, name) in [
            (1, "EPERM"),
            (22, "EINVAL"),
            (38, "ENOSYS"),
            (95, "EOPNOTSUPP"),
        ] {
            assert_eq!(of_system(code).unwrap(), Settled::Unknown, "{name}");
        }
        for (code, name) in [(5, "EIO"), (28, "ENOSPC"), (122, "EDQUOT")] {
            assert!(of_system(code).is_err(), "{name}");
        }
    }
}
