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

/// Waits until all that was written where a directory lies is on the disk: at once, because file by
/// file that takes many times as long.
#[cfg(target_os = "linux")]
pub(super) fn settle(directory: &Path) -> io::Result<()> {
    let directory = fs_err::File::open(directory)?;
    Ok(rustix::fs::syncfs(&directory)?)
}

/// Elsewhere no boot is told apart either.
#[cfg(not(target_os = "linux"))]
pub(super) fn settle(_directory: &Path) -> io::Result<()> {
    Ok(())
}
