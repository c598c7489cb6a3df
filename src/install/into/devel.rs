//! Expands the development files as `rocm-sdk init` does: the tree in `_devel.tar`, with a second name in place of each
//! link to a file of another package, and the files of device packages that belong into it.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use fs_err::{self as fs, File};
use itertools::Itertools as _;
use serde::Deserialize;

use super::unpack::{UnpackedTree, link_file, write_file};
use crate::{console::World, policy::DistNames};
use rocwheel_base::{
    error::{Context as _, Result, bail, ensure},
    io::Tap,
    relpath::{RelPath, join},
};
use rocwheel_wheel::tar::{ArchiveFormat, Decompressor, TarKind, TarReader};

/// The longest tar that is unpacked. Real ones have 4 GiB.
const LIMIT: u64 = 256 << 30;
/// The largest number of members. Real trees have some 50,000.
const MOST_MEMBERS: usize = 4_000_000;
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
    let mut archives = Vec::new();
    for name in ["_devel.tar", "_devel.tar.xz"] {
        let path: RelPath = format!("{package}/{name}").parse()?;
        archives.extend(tree.files.remove(&path).map(|_| path));
    }
    ensure!(
        archives.len() < 2,
        "two archives of development files: `{}`",
        archives.iter().format("`, `")
    );
    for path in archives {
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
        tree.ensure_below_no_link(&path)?;
        ensure!(tree.files.len() + links.len() < MOST_MEMBERS, "more than {MOST_MEMBERS} members");
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
                tree.ensure_below_no_link(&path)?;
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
            let end = join(place.as_str(), &target).and_then(|end| end.parse::<RelPath>().ok());
            if let Some(source) = end
                && source.ancestors().next().as_ref() != Some(top)
                && tree.files.contains_key(&source)
            {
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::console::{Console, Options};
    use rocwheel_base::error::Stop;
    use rocwheel_test_files::tars::{Craft, compress};

    /// Expands archives of development files in a directory, beside which there is another one.
    fn expand_in(place: &Path, archives: &[(&str, Vec<u8>)]) -> Result<()> {
        let root = place.join("root");
        let package = root.join("rocm_sdk_devel");
        fs::create_dir_all(&package)?;
        fs::create_dir_all(place.join("other"))?;
        let mut tree = UnpackedTree::default();
        for (name, bytes) in archives {
            let path: RelPath = format!("rocm_sdk_devel/{name}").parse()?;
            let mut packed = Vec::new();
            if name.ends_with("xz") {
                compress(ArchiveFormat::TarXz.extension(), bytes.as_slice(), &mut packed)?;
            } else {
                packed.clone_from(bytes);
            }
            let file = write_file(&root, &path, false, &mut packed.as_slice())?;
            tree.files.insert(path, file);
        }
        let console = Console::of_this_process(Options::silent());
        expand_development_files(&mut tree, &root, &World { console, stop: Stop::default() })
    }

    /// Archives for a directory of development files, and for a directory outside of it.
    type Archives = fn(&str, &str) -> Vec<(&'static str, Vec<u8>)>;

    #[test]
    fn nothing_is_written_through_a_link() {
        let top = "_rocm_sdk_devel";
        let out = |path: &Path| path.join("other").display().to_string();
        let hostile: [Archives; 3] = [
            |top, out| {
                let link = Craft::default().symlink(&format!("{top}/a"), out).end();
                let file = Craft::default().file(&format!("{top}/a/evil"), b"x").end();
                vec![("_devel.tar", link), ("_devel.tar.xz", file)]
            },
            |top, out| {
                let link = Craft::default().symlink(&format!("{top}/a"), out);
                vec![("_devel.tar", link.symlink(&format!("{top}/a/b/evil"), "/etc/passwd").end())]
            },
            |_, _| vec![("_devel.tar", Craft::default().file("elsewhere/evil", b"x").end())],
        ];
        for archives in hostile {
            let place = tempfile::tempdir().unwrap();
            let archives = archives(top, &out(place.path()));
            let refused = expand_in(place.path(), &archives).unwrap_err();
            assert_eq!(fs::read_dir(place.path().join("other")).unwrap().count(), 0, "{refused:#}");
        }
    }
}
