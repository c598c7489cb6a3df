//! Plans the SDK tree of the devel package: symlinks to the files that other packages ship, and
//! copies of all others. Extends the run paths of libraries that symlinks lead to. Reads and writes
//! no files.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    artifact::{LinkEnd, Owned, TreeContent},
    package::{
        describe::Devel,
        plan::{BuildOrigin, Contradiction, MemberSource, SdkEntry, SdkTree, relative_path},
        runtime::{Claims, Files, loadable_elf, parse_rpath, refuse_escaping_link},
    },
    run::Platform,
};
use rocwheel_base::{
    error::{Result, bail},
    relpath::RelPath,
    target::Scope,
};
use rocwheel_elf::Rpath;

/// Decides for each path of the tree whether it is a file, a symlink or an empty file.
pub(super) fn plan_tree(
    top: RelPath,
    files: &Files<'_>,
    claims: &Claims<'_>,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkTree> {
    let mut tree = SdkTree::new(top);
    tree.add("__init__.py".parse()?, SdkEntry::Empty);
    for (&path, owned) in files {
        let shipped = claims.find_shipped(path, scope);
        let entry = match shipped.and_then(|it| Some((claims.0.get(it.claim)?, it.path))) {
            // A directory of the artifacts stays one, even if a package ships a file of this name.
            _ if owned.file.content == TreeContent::Directory => SdkEntry::Directory,
            Some((claim, shipped_path)) => {
                // The file is in the directory of another package, which is beside the directory of
                // the tree.
                let up = "../".repeat(shipped_path.depth());
                let link = SdkEntry::Shipped(format!("{up}{}/{shipped_path}", claim.directory));
                if shipped_path == path {
                    link
                } else {
                    // Without this the tree may lack the library that an alias leads to, because
                    // the artifacts need not have a file of that name.
                    tree.add(shipped_path.clone(), link);
                    SdkEntry::Link(relative_path(path, shipped_path))
                }
            }
            None => plan_unshipped(path, owned, platform)?,
        };
        tree.add(path.clone(), entry);
    }
    if let Some(Contradiction { file, below }) = tree.find_contradiction() {
        let artifact = files
            .get(&file)
            .map(|owned| format!(" of artifact `{}`", owned.artifact.name))
            .unwrap_or_default();
        bail!("`{file}`{artifact} is no directory, and `{below}` lies below it");
    }
    Ok(tree)
}

/// Plans the entry for a path that no other package ships: a file, or the symlink as it is.
///
/// A file keeps its run path, but as `DT_RPATH`: the dynamic loader searches `LD_LIBRARY_PATH`
/// before `DT_RUNPATH`, but after `DT_RPATH`.
fn plan_unshipped(path: &RelPath, owned: &Owned<'_>, platform: Platform) -> Result<SdkEntry> {
    let facts = match &owned.file.content {
        TreeContent::Directory => return Ok(SdkEntry::Directory),
        TreeContent::File(facts) => facts,
        TreeContent::Link { text, end } => match end {
            LinkEnd::Escapes => return Err(refuse_escaping_link(path, text, owned)),
            _ => return Ok(SdkEntry::Link(text.clone())),
        },
    };
    let rpath = loadable_elf(facts)
        .filter(|elf| {
            platform == Platform::Linux && elf.run_path().is_some() && elf.uses_run_path()
        })
        .map(|elf| parse_rpath(path, elf))
        .transpose()?;
    let origin = BuildOrigin::of(owned, &owned.file.source, facts);
    Ok(SdkEntry::File(origin, rpath))
}

/// For each file, the symlinks to it that are in another directory than the file.
type LinksByFile = BTreeMap<RelPath, BTreeSet<RelPath>>;

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
    let mut links_by_claim = vec![LinksByFile::new(); claims.0.len()];
    let mut links_by_tree = vec![LinksByFile::new(); devels.len()];
    for (claim, links) in claims.0.iter().zip(&mut links_by_claim) {
        for (alias, file) in &claim.aliases {
            add_link(links, alias.clone(), file.clone());
        }
    }
    for (devel, links_in_tree) in devels.iter().zip(&mut links_by_tree) {
        for (link, file) in devel.tree.symlinks_to_files() {
            // The run path to extend is in the package that ships the file, or else in the tree.
            let links = claims
                .owner(&file, devel.family.as_ref())
                .and_then(|index| links_by_claim.get_mut(index))
                .unwrap_or(&mut *links_in_tree);
            add_link(links, link, file);
        }
    }
    for (claim, links_by_file) in claims.0.iter_mut().zip(links_by_claim) {
        for (path, links) in links_by_file {
            if let Some(MemberSource::File(origin, Some(rpath))) = claim.members.0.get_mut(&path) {
                extend_run_path(origin, rpath, &path, &links);
            }
        }
    }
    for (devel, links_by_file) in devels.iter_mut().zip(links_by_tree) {
        for (path, links) in links_by_file {
            if let Some((origin, rpath)) = devel.tree.run_path_mut(&path) {
                extend_run_path(origin, rpath, &path, &links);
            }
        }
    }
}

fn add_link(links: &mut LinksByFile, link: RelPath, file: RelPath) {
    // From the directory of the file, its run path is right already.
    if link.parent() != file.parent() {
        links.entry(file).or_default().insert(link);
    }
}

/// Adds the entries of a library's run path as seen from the directory of each symlink.
fn extend_run_path(
    origin: &BuildOrigin,
    rpath: &mut Rpath,
    file: &RelPath,
    links: &BTreeSet<RelPath>,
) {
    // A program finds its directory without symlinks, see `extend_run_paths`.
    if !origin.is_library {
        return;
    }
    let planned = rpath.clone();
    for link in links {
        *rpath = rpath.join(&planned.seen_from(file, link));
    }
}
