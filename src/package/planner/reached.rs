//! Extends the run paths of libraries that have symlinks in other directories.
//!
//! The dynamic loader takes `$ORIGIN` from the path that it opens a library by, and does not
//! resolve symlinks in that path. A library opened as `share/x/libx.so -> ../../lib/libx.so.1` has
//! the `$ORIGIN` `share/x`, and run path entries that were made for `lib` lead to wrong
//! directories. So the library gets its entries a second time, adjusted, for each directory with a
//! symlink to it. Programs do not need this: their `$ORIGIN` comes from `/proc/self/exe`, which the
//! kernel has resolved. See `$ORIGIN` in ld.so(8).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    artifact::{ArtifactTree, FileKind, TreeContent},
    elf::Rpath,
    error::Result,
    package::{describe::Devel, plan::MemberSource, runtime::Claims, search},
    relpath::RelPath,
};

/// For each file, the symlinks to it that are in another directory than the file.
type Names = BTreeMap<RelPath, BTreeSet<RelPath>>;

/// Extends the run path of every library that a symlink in another directory leads to.
///
/// The symlinks come from the development trees in `devels`, and from the aliases in `claims`.
pub(super) fn extend(
    artifacts: &ArtifactTree,
    claims: &mut Claims<'_>,
    devels: &mut [Devel],
) -> Result<()> {
    let mut of_claims: Vec<Names> = claims
        .0
        .iter()
        .map(|claim| aliases(&claim.aliases))
        .collect();
    let mut of_trees = Vec::new();
    for devel in &*devels {
        let mut own = Names::new();
        for (name, file) in devel.tree.symlinks_to_files() {
            let owner = claims.owner(&file, devel.family.as_ref());
            let owner = owner.and_then(|index| of_claims.get_mut(index));
            add(owner.unwrap_or(&mut own), name, file);
        }
        of_trees.push(own);
    }
    let names = of_claims.iter().chain(&of_trees);
    if names.into_iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    let libraries = libraries(artifacts);
    for (claim, names) in claims.0.iter_mut().zip(of_claims) {
        for (path, names) in names {
            if let Some(MemberSource::Relink(origin, rpath)) =
                claim.members.0.get_mut(&path).map(|it| &mut it.source)
                && libraries.contains(origin.path.as_path())
            {
                *rpath = from_all(rpath, &path, &names)?;
            }
        }
    }
    for (devel, names) in devels.iter_mut().zip(of_trees) {
        for (path, names) in names {
            if let Some((origin, rpath)) = devel.tree.run_path_mut(&path)
                && libraries.contains(origin.path.as_path())
            {
                *rpath = from_all(rpath, &path, &names)?;
            }
        }
    }
    Ok(())
}

fn aliases(aliases: &BTreeMap<RelPath, RelPath>) -> Names {
    let mut names = Names::new();
    for (name, file) in aliases {
        add(&mut names, name.clone(), file.clone());
    }
    names
}

fn add(names: &mut Names, name: RelPath, file: RelPath) {
    if name.parent() != file.parent() {
        names.entry(file).or_default().insert(name);
    }
}

/// Paths of all shared objects on disk.
fn libraries(artifacts: &ArtifactTree) -> BTreeSet<&Path> {
    let files = artifacts.artifacts.iter().flat_map(|one| &one.files);
    files
        .filter(|file| match &file.content {
            TreeContent::File(facts) => facts.kind == FileKind::SharedObject,
            _ => false,
        })
        .map(|file| file.source.as_path())
        .collect()
}

/// The run path, followed by its entries as seen from the directory of each name.
fn from_all(rpath: &Rpath, file: &RelPath, names: &BTreeSet<RelPath>) -> Result<Rpath> {
    let mut all = rpath.clone();
    for name in names {
        all = all.join(&search::seen_from(rpath, file, name)?);
    }
    Ok(all)
}
