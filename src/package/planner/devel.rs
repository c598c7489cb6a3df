//! Plans the SDK tree of the devel package: symlinks to the files that other packages ship, and
//! copies of all others. Extends the run paths of libraries that symlinks lead to. Reads and writes
//! no files.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    artifact::{LinkEnd, Owned, TreeContent},
    elf::Rpath,
    error::{Result, bail},
    package::{
        describe::Devel,
        plan::{BuildOrigin, MemberSource, SdkEntry, SdkTree, relative_path},
        runtime::{Claims, Files, escaping_link, loaded, origin, own_rpath},
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
};

/// Decides for each path of the tree whether it is a file, a symlink or an empty file.
pub(super) fn tree(
    top: RelPath,
    files: &Files<'_>,
    claims: &Claims<'_>,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkTree> {
    let mut tree = SdkTree::new(top);
    tree.add("__init__.py".parse()?, SdkEntry::Empty);
    for (path, owned) in files {
        let path = *path;
        let found = claims.find(path, scope);
        let entry = match found.and_then(|(index, at)| Some((claims.0.get(index)?, at))) {
            _ if owned.file.content == TreeContent::Directory => SdkEntry::Directory,
            Some((claim, at)) => {
                // A symlink to a file of another package, whose directory is beside the one of the
                // tree.
                let up = "../".repeat(at.depth());
                let shipped = SdkEntry::Shipped(format!("{up}{}/{at}", claim.directory));
                if at == path {
                    shipped
                } else {
                    // Without this the tree may lack the library that an alias leads to, because
                    // the artifacts need not have a file of that name.
                    tree.add(at.clone(), shipped);
                    SdkEntry::Link(relative_path(path, at))
                }
            }
            None => own(path, owned, platform)?,
        };
        tree.add(path.clone(), entry);
    }
    if let Some((above, path)) = tree.contradiction() {
        let owner = files.get(&above).map(|owned| &owned.artifact.name);
        let owner = owner.map(|name| format!(" of artifact `{name}`"));
        bail!("`{above}`{} is no directory, and `{path}` lies below it", owner.unwrap_or_default());
    }
    Ok(tree)
}

/// The entry for a path that no other package ships: a file, or the symlink as it is.
///
/// A file keeps its run path, but as `DT_RPATH`: the dynamic loader searches `LD_LIBRARY_PATH`
/// before `DT_RUNPATH`, but after `DT_RPATH`.
fn own(path: &RelPath, owned: &Owned<'_>, platform: Platform) -> Result<SdkEntry> {
    let facts = match &owned.file.content {
        TreeContent::Directory => return Ok(SdkEntry::Directory),
        TreeContent::File(facts) => facts,
        TreeContent::Link { text, end } => match end {
            LinkEnd::Escapes => return Err(escaping_link(path, text, owned)),
            _ => return Ok(SdkEntry::Link(text.clone())),
        },
    };
    let searched = loaded(facts)
        .filter(|elf| platform == Platform::Linux && elf.run_path().is_some() && elf.is_searched());
    let rpath = searched.map(|elf| own_rpath(path, elf)).transpose()?;
    let origin = origin(owned, &owned.file.source, facts);
    Ok(SdkEntry::File(origin, rpath))
}

/// For each file, the symlinks to it that are in another directory than the file.
type Names = BTreeMap<RelPath, BTreeSet<RelPath>>;

/// Extends the run path of every library that has a symlink in another directory.
///
/// The symlinks come from the development trees in `devels`, and from the aliases in `claims`.
///
/// The dynamic loader takes `$ORIGIN` from the path that it opens a library by, and does not
/// resolve symlinks in that path. A library opened as `share/x/libx.so -> ../../lib/libx.so.1` has
/// the `$ORIGIN` `share/x`, and run path entries that were made for `lib` lead to wrong
/// directories. So the library gets its entries a second time, adjusted, for each directory with a
/// symlink to it. Programs do not need this: their `$ORIGIN` comes from `/proc/self/exe`, which the
/// kernel has resolved. See `$ORIGIN` in ld.so(8).
pub(super) fn extend_run_paths(claims: &mut Claims<'_>, devels: &mut [Devel]) {
    let mut of_claims = vec![Names::new(); claims.0.len()];
    let mut of_trees = vec![Names::new(); devels.len()];
    for (claim, names) in claims.0.iter().zip(&mut of_claims) {
        for (name, file) in &claim.aliases {
            add(names, name.clone(), file.clone());
        }
    }
    for (devel, own) in devels.iter().zip(&mut of_trees) {
        for (name, file) in devel.tree.symlinks_to_files() {
            let owner = claims.owner(&file, devel.family.as_ref());
            let owner = owner.and_then(|index| of_claims.get_mut(index));
            add(owner.unwrap_or(&mut *own), name, file);
        }
    }
    for (claim, names) in claims.0.iter_mut().zip(of_claims) {
        for (path, names) in names {
            if let Some(MemberSource::File(origin, Some(rpath))) = claim.members.0.get_mut(&path) {
                extend(origin, rpath, &path, &names);
            }
        }
    }
    for (devel, names) in devels.iter_mut().zip(of_trees) {
        for (path, names) in names {
            if let Some((origin, rpath)) = devel.tree.run_path_mut(&path) {
                extend(origin, rpath, &path, &names);
            }
        }
    }
}

fn add(names: &mut Names, name: RelPath, file: RelPath) {
    if name.parent() != file.parent() {
        names.entry(file).or_default().insert(name);
    }
}

/// Adds the entries of a library's run path as seen from the directory of each name.
fn extend(origin: &BuildOrigin, rpath: &mut Rpath, file: &RelPath, names: &BTreeSet<RelPath>) {
    let own = rpath.clone();
    for name in names.iter().filter(|_| origin.is_library) {
        *rpath = rpath.join(&own.seen_from(file, name));
    }
}
