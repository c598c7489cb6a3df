//! Expands the development files as `rocm-sdk init` does: the tree in `_devel.tar`, with a second name in place of each
//! link to a file of another package, and the files of device packages that belong into it.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use fs_err::{self as fs, File};
use serde::Deserialize;

use super::unpack::{UnpackedTree, link_file, write_file};
use crate::{
    archive::{ArchiveFormat, Decompressor, TarKind, TarReader},
    console::World,
    error::{Context as _, Result, bail, ensure},
    io::Tap,
    policy::DistNames,
    relpath::{RelPath, join},
};

/// The longest tar that is unpacked. Real ones have 4 GiB.
const LIMIT: u64 = 256 << 30;
/// The longest list of links that is read.
const LIST_LIMIT: u64 = 64 << 20;

/// The links of a device package into the development files: `.devel_links/NAME.json`.
#[derive(Deserialize)]
struct DeviceLinks {
    links: Vec<DeviceLink>,
}

#[derive(Deserialize)]
struct DeviceLink {
    relpath: String,
    target: String,
}

/// Does nothing if the tree has no development files.
pub(super) fn expand_development_files(
    tree: &mut UnpackedTree,
    root: &Path,
    world: &World,
) -> Result<()> {
    let devel = &DistNames::built_in().devel;
    let package = devel.replace('-', "_");
    let top: RelPath = DistNames::import_name(devel).parse()?;
    for name in ["_devel.tar", "_devel.tar.xz"] {
        let path: RelPath = format!("{package}/{name}").parse()?;
        if tree.files.remove(&path).is_none() {
            continue;
        }
        let archive = root.join(path.as_str());
        let failed = || format!("failed to expand `{path}`");
        expand(tree, root, &top, &archive, world).with_context(failed)?;
        fs::remove_file(archive)?;
        add_device_files(tree, root, &top).with_context(failed)?;
    }
    Ok(())
}

fn expand(
    tree: &mut UnpackedTree,
    root: &Path,
    top: &RelPath,
    archive: &Path,
    world: &World,
) -> Result<()> {
    let file = BufReader::new(File::open(archive)?);
    let is_packed = archive.extension().is_some_and(|extension| extension == "xz");
    let source: Box<dyn Read + Send> = if is_packed {
        Box::new(Decompressor::new(ArchiveFormat::TarXz, file)?)
    } else {
        Box::new(file)
    };
    let mut tar = TarReader::new(Tap::new(source, &world.stop, |_| ()), LIMIT);
    let mut links = Vec::new();
    while let Some(entry) = tar.next_entry()? {
        let path = entry.path;
        ensure!(
            path == *top || path.ancestors().next().as_ref() == Some(top),
            "`{path}` does not belong to the development files"
        );
        match entry.kind {
            TarKind::Directory => fs::create_dir_all(root.join(path.as_str()))?,
            TarKind::File { executable, .. } => {
                let file = write_file(root, &path, executable, &mut tar)?;
                tree.files.insert(path, file);
            }
            // They are made last, so that no file is written through one of them.
            TarKind::Symlink(text) => links.push((path, text)),
            TarKind::Hardlink(target) => link_file(tree, root, &target, path)?,
        }
    }
    for (path, text) in links {
        // Where it leads below the directory. `None` for a link that leads out of it.
        let end = join(path.as_str(), &text).and_then(|end| end.parse::<RelPath>().ok());
        match end {
            Some(end)
                if end.ancestors().next().as_ref() != Some(top)
                    && tree.files.contains_key(&end) =>
            {
                link_file(tree, root, &end, path)?;
            }
            Some(end)
                if end.ancestors().next().as_ref() != Some(top)
                    && !root.join(end.as_str()).is_dir() =>
            {
                bail!(
                    "`{path}` leads to `{end}`, which no package has: ask for its package with `--extras`"
                );
            }
            Some(_) | None => {
                make_symlink(&text, &root.join(path.as_str()))?;
                tree.links.insert(path, text);
            }
        }
    }
    Ok(())
}

/// Gives the files of device packages, which lists of the packages name, a place among the development files.
fn add_device_files(tree: &mut UnpackedTree, root: &Path, top: &RelPath) -> Result<()> {
    let is_list = |path: &&RelPath| {
        let is_below = path.parent().is_some_and(|parent| parent.file_name() == ".devel_links");
        is_below && Path::new(path.file_name()).extension().is_some_and(|end| end == "json")
    };
    let lists: Vec<RelPath> = tree.files.keys().filter(is_list).cloned().collect();
    for list in lists {
        let read = || -> Result<DeviceLinks> {
            let path = root.join(list.as_str());
            ensure!(fs::metadata(&path)?.len() <= LIST_LIMIT, "it is too long");
            Ok(serde_json::from_slice(&fs::read(path)?)?)
        };
        let DeviceLinks { links } = read().with_context(|| format!("failed to read `{list}`"))?;
        for DeviceLink { relpath, target } in links {
            let place: RelPath = format!("{top}/{relpath}").parse()?;
            let source = join(place.as_str(), &target).and_then(|end| end.parse::<RelPath>().ok());
            let source = source.filter(|end| end.ancestors().next().as_ref() != Some(top));
            if let Some(source) = source.filter(|end| tree.files.contains_key(end)) {
                link_file(tree, root, &source, place)?;
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_symlink(text: &str, path: &Path) -> Result<()> {
    fs::create_dir_all(path.parent().context("a link at the top")?)?;
    Ok(fs_err::os::unix::fs::symlink(text, path)?)
}

#[cfg(not(unix))]
fn make_symlink(text: &str, path: &Path) -> Result<()> {
    bail!("`{}` is a link to `{text}`: unpack development files on Linux", path.display());
}
