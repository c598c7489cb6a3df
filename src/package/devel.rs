//! The packed SDK tree: links to what other packages ship, and files of its own besides.
//! Decides; reads nothing, writes nothing.

use std::collections::BTreeMap;

use crate::{
    artifact::{Content, Leaf, LinkEnd, TreeFile},
    error::{Result, bail},
    package::{
        claims::{Claims, Reference},
        origin::Origin,
        runtime::escaping_link,
        sdk_tree::{SdkEntry, SdkTree},
        search,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
};

/// Decides what stands at every path of the tree.
pub(super) fn tree(
    top: RelPath,
    files: &BTreeMap<RelPath, TreeFile>,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkTree> {
    let mut tree = SdkTree::new(top);
    tree.add("__init__.py".parse()?, SdkEntry::Empty);
    for (path, file) in files {
        tree.add(path.clone(), entry(path, file, claims, scope, platform)?);
    }
    if let Some((above, path)) = tree.contradiction() {
        let owner = files.get(&above).map(|file| file.artifact.to_string());
        bail!(
            "`{above}` is a directory, because of `{path}`, and no directory in artifact `{}`",
            owner.unwrap_or_default()
        );
    }
    Ok(tree)
}

fn entry(
    path: &RelPath,
    file: &TreeFile,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkEntry> {
    if let Content::Directory = file.content {
        return Ok(SdkEntry::Directory);
    }
    match claims.find(path, scope) {
        Some(Reference::Alias(text)) => return Ok(SdkEntry::Link(text.to_owned())),
        Some(Reference::Shipped { directory }) => {
            let up = "../".repeat(path.depth());
            return Ok(SdkEntry::Shipped(format!("{up}{directory}/{path}")));
        }
        None => {}
    }
    match &file.content {
        Content::Link { text, end: LinkEnd::Escapes } => Err(escaping_link(path, text, file)),
        Content::Link { text, .. } => Ok(SdkEntry::Link(text.clone())),
        Content::File(leaf) => own_file(path, leaf, file, platform),
        Content::Directory => Ok(SdkEntry::Directory),
    }
}

/// A file of the tree itself keeps its run path, as DT_RPATH, so that `LD_LIBRARY_PATH` cannot
/// come before it.
fn own_file(path: &RelPath, leaf: &Leaf, file: &TreeFile, platform: Platform) -> Result<SdkEntry> {
    let loaded = leaf.elf.as_ref().filter(|elf| {
        platform == Platform::Linux && elf.run_path().is_some() && search::is_searched(elf)
    });
    Ok(SdkEntry::File {
        origin: Origin { artifact: file.artifact.clone(), path: leaf.source.clone(), len: leaf.len },
        mode: leaf.mode(),
        rpath: loaded.map(|elf| search::own(path, elf)).transpose()?,
    })
}
