//! Names, modes and symlinks, as Unix, macOS and Windows have them.

use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

#[cfg(windows)]
use crate::artifact::name::encode_colons;
use rocwheel_base::{error::Result, relpath::links::ResolvedLink};

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
    let local_text = encode_colons(text).replace('/', "\\");
    let made = if *end == ResolvedLink::Directory {
        symlink_dir(local_text, at)
    } else {
        symlink_file(local_text, at)
    };
    made.hint("turn on the developer mode of Windows, or unpack on Linux")
}

/// Whether a name of an artifact is valid on Windows. A `:` is written as `%3A` there, and a name that
/// has `%3A` would be read back as a name with `:`.
pub(super) fn windows_allows(name: &str) -> bool {
    !name.to_ascii_lowercase().contains("%3a") && is_valid(&name.replace(':', "%3A"))
}

/// Whether Windows takes a name: no separators, no `:` (drive or alternate stream), no device
/// name such as `con` or `lpt1`, and no trailing dots and spaces, which Windows removes. Superscript digits
/// count as digits of a device.
fn is_valid(name: &str) -> bool {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let is_digit = |text: &str| matches!(text.as_bytes(), [b'1'..=b'9']) || "¹²³".contains(text);
    let numbered = ["com", "lpt"].into_iter().any(|device| {
        stem.strip_prefix(device).is_some_and(|number| !number.is_empty() && is_digit(number))
    });
    !name.contains(|c: char| c.is_control() || "<>:\"/\\|?*".contains(c))
        && !name.ends_with([' ', '.'])
        && !numbered
        && !DEVICES.contains(&stem.as_str())
}

/// A form that is the same for all names that Windows or macOS regard as one name.
pub(super) fn fold(path: &str) -> String {
    if path.is_ascii() {
        path.to_ascii_lowercase()
    } else {
        path.chars().flat_map(char::to_lowercase).nfc().collect()
    }
}
