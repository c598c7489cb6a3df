//! Plans the SDK tree of the devel package: symlinks to the files that other packages ship, and
//! copies of all others. Reads and writes no files.

use crate::{
    artifact::{LinkEnd, Owned, TreeContent},
    error::{Result, bail},
    package::{
        claims::{ClaimReference, Claims},
        runtime::{Files, RuntimeFile, escaping_link},
        sdk_tree::{SdkEntry, SdkTree, way},
        search,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
};

/// Decides for each path of the tree whether it is a file, a symlink or an empty file.
pub(super) fn tree(
    top: RelPath,
    files: &Files<'_>,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkTree> {
    let mut tree = SdkTree::new(top);
    tree.add("__init__.py".parse()?, SdkEntry::Empty);
    for (path, owned) in files {
        let path = *path;
        let entry = match claims.find(path, scope) {
            _ if owned.file.content == TreeContent::Directory => SdkEntry::Directory,
            Some(ClaimReference::Alias(library)) => {
                add_library(library, claims, scope, &mut tree);
                SdkEntry::Link(way(path, library))
            }
            Some(ClaimReference::Shipped { directory }) => shipped(path, directory),
            None => own(path, owned, platform)?,
        };
        tree.add(path.clone(), entry);
    }
    if let Some((above, path)) = tree.contradiction() {
        let owner = files.get(&above).map(|owned| &owned.artifact.name);
        let owner = owner.map(|name| format!(" of artifact `{name}`"));
        bail!(
            "`{above}`{} is no directory, and `{path}` lies below it",
            owner.unwrap_or_default()
        );
    }
    Ok(tree)
}

/// Adds the library that an alias leads to. Without this the tree may lack it, because the
/// artifacts need not have a file of that name.
fn add_library(library: &RelPath, claims: &Claims, scope: Option<&Scope>, tree: &mut SdkTree) {
    if let Some(ClaimReference::Shipped { directory }) = claims.find(library, scope) {
        tree.add(library.clone(), shipped(library, directory));
    }
}

/// A symlink to a file of another package, whose directory is beside the one of the tree.
fn shipped(path: &RelPath, directory: &str) -> SdkEntry {
    let up = "../".repeat(path.depth());
    SdkEntry::Shipped(format!("{up}{directory}/{path}"))
}

/// The entry for a path that no other package ships: a file, or the symlink as it is.
fn own(path: &RelPath, owned: &Owned<'_>, platform: Platform) -> Result<SdkEntry> {
    let source = &owned.file.source;
    match &owned.file.content {
        TreeContent::Directory => Ok(SdkEntry::Directory),
        TreeContent::File(facts) => own_file(
            path,
            &RuntimeFile {
                owned,
                source,
                facts,
            },
            platform,
        ),
        TreeContent::Link { text, end } => match end {
            LinkEnd::Escapes => Err(escaping_link(path, text, owned)),
            LinkEnd::Dangling | LinkEnd::Directory | LinkEnd::File { .. } => {
                Ok(SdkEntry::Link(text.clone()))
            }
        },
    }
}

/// A file that only the tree has. It keeps its run path, but as `DT_RPATH`: the dynamic loader
/// searches `LD_LIBRARY_PATH` before `DT_RUNPATH`, but after `DT_RPATH`.
fn own_file(path: &RelPath, found: &RuntimeFile<'_>, platform: Platform) -> Result<SdkEntry> {
    let searched = found.loaded().filter(|elf| {
        platform == Platform::Linux && elf.run_path().is_some() && search::is_searched(elf)
    });
    let rpath = searched.map(|elf| search::own(path, elf)).transpose()?;
    Ok(SdkEntry::File {
        origin: found.origin(),
        mode: found.mode(),
        rpath,
    })
}
