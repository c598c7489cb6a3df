//! Lists everything below a base directory. Files are not opened and symlinks are not followed.

use std::path::{Path, PathBuf};

use crate::{
    artifact::tree::PermissionBits,
    error::{Context, Result, bail},
    relpath::RelPath,
};

/// An entry found on disk.
pub(super) struct WalkedPath {
    pub(super) path: RelPath,
    pub(super) source: PathBuf,
    pub(super) what: WalkedKind,
}

pub(super) enum WalkedKind {
    Directory,
    File { len: u64, mode: PermissionBits },
    Link(String),
}

/// All entries below `top`, sorted by path.
pub(super) fn walk(top: &Path) -> Result<Vec<WalkedPath>> {
    let mut found = Vec::new();
    let mut ahead = vec![(top.to_owned(), None::<RelPath>)];
    while let Some((directory, path)) = ahead.pop() {
        for child in fs_err::read_dir(&directory)? {
            let child = look(&child?, path.as_ref())
                .with_context(|| format!("failed to scan `{}`", directory.display()))?;
            if let WalkedKind::Directory = child.what {
                ahead.push((child.source.clone(), Some(child.path.clone())));
            }
            found.push(child);
        }
    }
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn look(child: &fs_err::DirEntry, parent: Option<&RelPath>) -> Result<WalkedPath> {
    let name = child.file_name();
    let Some(name) = name.to_str() else {
        bail!("a name that is not UTF-8: {:?}", name.to_string_lossy());
    };
    let name: RelPath = name.parse()?;
    let path = parent.map_or(name.clone(), |parent| parent.join(&name));
    let source = child.path();
    let found = child.metadata()?;
    let what = if found.is_symlink() {
        WalkedKind::Link(link_text(&source)?)
    } else if found.is_dir() {
        WalkedKind::Directory
    } else if found.is_file() {
        #[cfg(unix)]
        let mode = mode(std::os::unix::fs::MetadataExt::mode(&found));
        #[cfg(not(unix))]
        let mode = PermissionBits {
            read_only: found.permissions().readonly(),
            ..PermissionBits::default()
        };
        WalkedKind::File {
            len: found.len(),
            mode,
        }
    } else {
        bail!("neither a file, a directory nor a link: `{path}`");
    };
    Ok(WalkedPath { path, source, what })
}

fn link_text(source: &Path) -> Result<String> {
    let text = fs_err::read_link(source)?;
    match text.to_str() {
        Some(text) if cfg!(windows) => Ok(text.replace('\\', "/")),
        Some(text) => Ok(text.to_owned()),
        None => bail!(
            "link `{}` has a text that is not UTF-8: {:?}",
            source.display(),
            text.to_string_lossy()
        ),
    }
}

#[cfg(unix)]
fn mode(bits: u32) -> PermissionBits {
    PermissionBits {
        executable: bits & 0o111 != 0,
        read_only: bits & 0o200 == 0,
        setuid: bits & 0o6000 != 0,
    }
}
