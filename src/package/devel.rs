//! The packed SDK tree: links to what other packages ship, and files of its own besides.
//! Decides; reads nothing, writes nothing.

use crate::{
    artifact::{Content, LinkEnd, Owned},
    error::{Result, bail},
    package::{
        claims::{Claims, Reference},
        runtime::{Files, Found, escaping_link},
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
    files: &Files<'_>,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkTree> {
    let mut tree = SdkTree::new(top);
    tree.add("__init__.py".parse()?, SdkEntry::Empty);
    for (path, owned) in files {
        tree.add(
            (*path).clone(),
            entry(path, owned, claims, scope, platform)?,
        );
    }
    if let Some((above, path)) = tree.contradiction() {
        let owner = files
            .get(&above)
            .map(|owned| owned.artifact.name.to_string());
        bail!(
            "`{above}` is a directory, because of `{path}`, and no directory in artifact `{}`",
            owner.unwrap_or_default()
        );
    }
    Ok(tree)
}

fn entry(
    path: &RelPath,
    owned: &Owned<'_>,
    claims: &Claims,
    scope: Option<&Scope>,
    platform: Platform,
) -> Result<SdkEntry> {
    let content = &owned.file.content;
    if *content == Content::Directory {
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
    match content {
        Content::Link {
            text,
            end: LinkEnd::Escapes,
        } => Err(escaping_link(path, text, owned)),
        Content::Link { text, .. } => Ok(SdkEntry::Link(text.clone())),
        Content::File(facts) => own_file(
            path,
            &Found {
                owned,
                source: &owned.file.source,
                facts,
            },
            platform,
        ),
        Content::Directory => Ok(SdkEntry::Directory),
    }
}

/// A file of the tree itself keeps its run path, as `DT_RPATH`, so that `LD_LIBRARY_PATH` cannot
/// come before it.
fn own_file(path: &RelPath, found: &Found<'_>, platform: Platform) -> Result<SdkEntry> {
    let elf = found
        .facts
        .elf
        .as_ref()
        .filter(|_| found.facts.kind.is_loaded());
    let searched = elf.filter(|elf| platform == Platform::Linux && elf.run_path().is_some());
    let rpath = searched
        .filter(|elf| search::is_searched(elf))
        .map(|elf| search::own(path, elf));
    Ok(SdkEntry::File {
        origin: found.origin(),
        mode: found.mode(),
        rpath: rpath.transpose()?,
    })
}
