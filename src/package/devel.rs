//! The packed SDK tree: links to what other packages ship, and files of its own besides.
//! Decides; reads nothing, writes nothing.

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

/// Decides what stands at every path of the tree.
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

/// Adds the library that a name is an alias of: no artifact may have it under its SONAME.
fn add_library(library: &RelPath, claims: &Claims, scope: Option<&Scope>, tree: &mut SdkTree) {
    if let Some(ClaimReference::Shipped { directory }) = claims.find(library, scope) {
        tree.add(library.clone(), shipped(library, directory));
    }
}

/// The link to a file of another package, which lies beside this one.
fn shipped(path: &RelPath, directory: &str) -> SdkEntry {
    let up = "../".repeat(path.depth());
    SdkEntry::Shipped(format!("{up}{directory}/{path}"))
}

/// What no other package ships: links as they are, and files.
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

/// A file of the tree itself keeps its run path, as `DT_RPATH`, so that `LD_LIBRARY_PATH` cannot
/// come before it.
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
