//! Plans the SDK tree of the devel package: symlinks to the files that other packages ship, and
//! copies of all others. Reads and writes no files.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    artifact::{LinkEnd, Owned, TreeContent},
    error::{Result, bail},
    package::{
        plan::{MemberSource, WheelMemberPlan},
        runtime::{Claim, Claims, Files, RuntimeFile, escaping_link},
        sdk_tree::{SdkEntry, SdkTree, way},
        search,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    version::Version,
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
                    SdkEntry::Link(way(path, at))
                }
            }
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
    let found = RuntimeFile {
        owned,
        at: path,
        source: &owned.file.source,
        facts,
    };
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

/// `.devel_links/gfx942.json`: the symlinks that the devel tree needs for the files of this
/// package.
///
/// The text of a symlink is relative to its directory, so it begins with one `../` for each
/// component of the symlink's path. Names of libraries that the wheel leaves out are symlinks to
/// the name that it ships.
pub(super) fn device_links(
    claim: &Claim<'_>,
    version: &Version,
) -> Result<(RelPath, WheelMemberPlan)> {
    let shipped = claim.members.keys().map(|path| (path, path));
    let mut all: Vec<(&RelPath, &RelPath)> = shipped.chain(&claim.aliases).collect();
    all.sort_unstable();
    let links: Vec<_> = all
        .into_iter()
        .map(|(path, file)| {
            let up = "../".repeat(path.depth());
            json!({ "relpath": path.as_str(), "target": format!("{up}{}/{file}", claim.directory) })
        })
        .collect();
    let document = json!({ "version": version.to_string(), "links": links });
    let text = serde_json::to_string_pretty(&document)?;
    let target = claim.scope.iter().map(|scope| scope.base().to_string());
    let path = format!(".devel_links/{}.json", target.collect::<String>()).parse()?;
    let text = MemberSource::Text(escaped(&text));
    Ok((path, WheelMemberPlan::regular(text)))
}

/// Escapes non-ASCII characters of JSON. Its readers have always been given plain ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}
