//! The archive of the development files in `rocm-sdk-devel`. Its links lead to files of other packages,
//! too.

use std::{
    collections::BTreeSet,
    io::{self, Read},
    path::Path,
};

use fs_err::{self as fs, File, OpenOptions};

use crate::{
    archive::{ArchiveFormat, Decompressor, TarEntry, TarKind, TarReader},
    artifact::UnpackLimits,
    error::{Result, bail, ensure},
    relpath::RelPath,
};

/// The directory of the development files.
pub(super) const ROOT: &str = "_rocm_sdk_devel";
const ARCHIVES: [&str; 2] = ["rocm_sdk_devel/_devel.tar", "rocm_sdk_devel/_devel.tar.xz"];

/// Whether an installed path is that of the archive.
pub(super) fn is_archive(path: &RelPath) -> bool {
    ARCHIVES.contains(&path.as_str())
}

/// Writes the files of the archive. Returns its links, which are made once all packages are there.
pub(super) fn unpack(
    path: &RelPath,
    content: &mut impl Read,
    root: &Path,
) -> Result<Vec<(RelPath, String)>> {
    if path.as_str() == ARCHIVES[0] {
        return members(content, root);
    }
    members(&mut Decompressor::new(ArchiveFormat::TarXz, content)?, root)
}

fn members(content: &mut impl Read, root: &Path) -> Result<Vec<(RelPath, String)>> {
    let top: RelPath = ROOT.parse()?;
    let mut tar = TarReader::new(content, UnpackLimits::default().bytes);
    let (mut links, mut places) = (Vec::new(), BTreeSet::new());
    while let Some(TarEntry { path, kind }) = tar.next_entry()? {
        ensure!(
            path == top || path.strip_prefix(&top).is_some(),
            "a development file that is not below `{ROOT}`: `{path}`"
        );
        // No link exists while files are written, so that none can be written through one.
        let through = path.ancestors().find(|above| places.contains(above));
        ensure!(
            through.is_none(),
            "`{path}` is below a link: `{}`",
            through.as_ref().map_or("", RelPath::as_str)
        );
        match kind {
            TarKind::Directory => fs::create_dir_all(root.join(path.as_str()))?,
            TarKind::File { executable, .. } => {
                io::copy(&mut tar, &mut create(root, &path, executable)?)?;
            }
            TarKind::Symlink(text) => {
                places.insert(path.clone());
                links.push((path, text));
            }
            TarKind::Hardlink(_) => bail!("`{path}` is a hard link"),
        }
    }
    Ok(links)
}

/// Creates a file that must not exist yet, and the directories above it.
pub(super) fn create(root: &Path, path: &RelPath, executable: bool) -> Result<File> {
    let at = root.join(path.as_str());
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    ensure!(!at.exists(), "two packages have `{path}`");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o777 } else { 0o666 });
    }
    #[cfg(not(unix))]
    let _ = executable;
    Ok(options.open(at)?)
}
