//! The links of the development files, to files of other packages and to each other. `rocm-sdk init`
//! puts them in place in the same way.

use std::{collections::BTreeSet, path::Path};

use fs_err as fs;
use serde::Deserialize;

use super::{archive::ROOT, wheel::InstalledWheel};
use crate::{
    error::{Context as _, Hint as _, Result, anyhow},
    package::plan::is_links,
    relpath::RelPath,
};

/// A link that a device package adds to the development files.
#[derive(Deserialize)]
struct DeviceLink {
    relpath: String,
    target: String,
}

#[derive(Deserialize)]
struct DeviceLinks {
    links: Vec<DeviceLink>,
}

/// Makes the links of the development files: one to a file of another package becomes a hard link, so
/// that programs which look for themselves find the development files; one between development
/// files stays a link.
pub(super) fn link(root: &Path, wheels: &mut [InstalledWheel]) -> Result<()> {
    let mut of_devices = BTreeSet::new();
    for wheel in wheels.iter_mut() {
        for (path, text) in std::mem::take(&mut wheel.links) {
            make(root, &path, &text).with_context(|| format!("failed to link `{path}`"))?;
        }
        for (path, text) in device_links(root, &wheel.members)? {
            make(root, &path, &text).with_context(|| format!("failed to link `{path}`"))?;
            of_devices.insert(path.clone());
            wheel.add(path);
        }
    }
    let devel = wheels.iter_mut().find(|it| it.members.iter().any(is_devel));
    let devel = devel.context("no `rocm-sdk-devel` among the packages")?;
    for file in tree(root, &ROOT.parse()?)? {
        if !of_devices.contains(&file) {
            devel.add(file);
        }
    }
    Ok(())
}

fn is_devel(path: &RelPath) -> bool {
    path.components().next() == Some("rocm_sdk_devel")
}

fn device_links(root: &Path, members: &[RelPath]) -> Result<Vec<(RelPath, String)>> {
    let lists = members.iter().filter(|path| is_links(path));
    let mut links = Vec::new();
    for list in lists {
        let text = fs::read(root.join(list.as_str()))?;
        let read: DeviceLinks =
            serde_json::from_slice(&text).with_context(|| format!("failed to read `{list}`"))?;
        for link in read.links {
            links.push((format!("{ROOT}/{}", link.relpath).parse()?, link.target));
        }
    }
    Ok(links)
}

fn make(root: &Path, path: &RelPath, text: &str) -> Result<()> {
    let at = root.join(path.as_str());
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    let to = path.resolve_link(text);
    let to = to.with_context(|| format!("it leads out of the directory: `{text}`"))?;
    let is_own = to.components().next() == Some(ROOT);
    let there = root.join(to.as_str());
    if is_own || there.is_dir() {
        return symlink(text, &there, &at);
    }
    if !there.is_file() {
        return Err(anyhow!("`{to}`, to which it leads, is in no package"))
            .hint("build the packages of the set together");
    }
    Ok(fs::hard_link(&there, &at)?)
}

#[cfg(unix)]
fn symlink(text: &str, _: &Path, at: &Path) -> Result<()> {
    Ok(fs::os::unix::fs::symlink(text, at)?)
}

/// On Windows few users may make symlinks, and the development files have none there.
#[cfg(not(unix))]
fn symlink(_: &str, there: &Path, at: &Path) -> Result<()> {
    Ok(fs::hard_link(there, at)?)
}

/// The files, links and empty directories below a directory.
fn tree(root: &Path, directory: &RelPath) -> Result<Vec<RelPath>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root.join(directory.as_str())).sort_by_file_name() {
        let entry = entry.context("failed to list the development files")?;
        if entry.file_type().is_dir() && fs::read_dir(entry.path())?.next().is_some() {
            continue;
        }
        let below = entry.path().strip_prefix(root)?;
        let below = below.to_str().context("a name that is not UTF-8")?;
        files.push(below.replace('\\', "/").parse()?);
    }
    Ok(files)
}
