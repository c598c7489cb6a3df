//! Modes and symlinks, as Unix and Windows have them.

use std::path::Path;

#[cfg(windows)]
use crate::{artifact::name::encode_colons, error::Hint as _};
use crate::{error::Result, relpath::links::ResolvedLink};

#[cfg(unix)]
pub(super) fn mode_of(at: &Path) -> Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs_err::metadata(at)?.permissions().mode())
}

#[cfg(not(unix))]
pub(super) fn mode_of(_: &Path) -> Result<u32> {
    Ok(u32::MAX)
}

/// Sets the exact mode; without this, the umask would remove bits.
#[cfg(unix)]
pub(super) fn set_mode(at: &Path, mode: u32) -> Result<()> {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};
    Ok(fs_err::set_permissions(at, Permissions::from_mode(mode))?)
}

#[cfg(not(unix))]
pub(super) fn set_mode(_: &Path, _: u32) -> Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn symlink(at: &Path, text: &str, _: &ResolvedLink) -> Result<()> {
    fs_err::os::unix::fs::symlink(text, at)?;
    Ok(())
}

/// Windows has separate symlinks for files and directories, and only some users may create them.
#[cfg(windows)]
pub(super) fn symlink(at: &Path, text: &str, end: &ResolvedLink) -> Result<()> {
    use fs_err::os::windows::fs::{symlink_dir, symlink_file};
    let text = encode_colons(text).replace('/', "\\");
    let made = if *end == ResolvedLink::Directory {
        symlink_dir(text, at)
    } else {
        symlink_file(text, at)
    };
    made.hint("turn on the developer mode of Windows, or unpack on Linux")
}
