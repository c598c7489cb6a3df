//! All disk access of unpacking. The callers have validated the paths.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use fs_err::OpenOptions;

#[cfg(windows)]
use crate::error::Hint;
use crate::{artifact::resolve::ResolvedLink, error::Result, relpath::RelPath};

/// Permissions of files: only the owner may write.
pub(super) const REGULAR: u32 = 0o644;
pub(super) const EXECUTABLE: u32 = 0o755;
#[cfg(unix)]
const DIRECTORY: u32 = 0o755;

/// Writes a new file. Fails if the path exists, even as a symlink.
pub(super) fn write_file(
    root: &Path,
    path: &RelPath,
    mode: u32,
    content: &mut impl Read,
    buffer: &mut [u8],
) -> Result<()> {
    let at = root.join(path.as_str());
    let mut file = OpenOptions::new().write(true).create_new(true).open(&at)?;
    loop {
        let read = match content.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        let (read, _) = buffer.split_at(read);
        if read.is_empty() {
            break;
        }
        file.write_all(read)?;
    }
    #[cfg(unix)]
    file.set_permissions(with_mode(file.metadata()?.permissions(), mode))?;
    #[cfg(not(unix))]
    let _ = mode;
    Ok(())
}

pub(super) fn create_directory(root: &Path, path: &RelPath) -> Result<()> {
    let at = root.join(path.as_str());
    fs_err::create_dir(&at)?;
    #[cfg(unix)]
    fs_err::set_permissions(
        &at,
        with_mode(fs_err::metadata(&at)?.permissions(), DIRECTORY),
    )?;
    Ok(())
}

pub(super) fn hard_link(root: &Path, target: &RelPath, path: &RelPath) -> Result<()> {
    fs_err::hard_link(root.join(target.as_str()), root.join(path.as_str()))?;
    Ok(())
}

#[cfg(unix)]
pub(super) fn symlink(root: &Path, path: &RelPath, text: &str, _: &ResolvedLink) -> Result<()> {
    fs_err::os::unix::fs::symlink(text, root.join(path.as_str()))?;
    Ok(())
}

/// Windows has separate symlinks for files and directories, and only some users may create them.
#[cfg(windows)]
pub(super) fn symlink(root: &Path, path: &RelPath, text: &str, end: &ResolvedLink) -> Result<()> {
    use fs_err::os::windows::fs::{symlink_dir, symlink_file};
    let (text, at) = (text.replace('/', "\\"), root.join(path.as_str()));
    let made = if *end == ResolvedLink::Directory {
        symlink_dir(text, at)
    } else {
        symlink_file(text, at)
    };
    made.hint("turn on the developer mode of Windows, or unpack on Linux")
}

/// Sets the exact mode; without this, the umask would remove bits.
#[cfg(unix)]
fn with_mode<P: std::os::unix::fs::PermissionsExt>(mut permissions: P, mode: u32) -> P {
    permissions.set_mode(mode);
    permissions
}
