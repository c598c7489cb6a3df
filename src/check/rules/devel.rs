//! Rules about the development files: `rocm-sdk init` must unpack them to a complete tree.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Observed;
use crate::{
    archive::TarKind,
    check::{
        facts::{DevelTree, WheelFile},
        finding::Findings,
        rule,
    },
    loader::{InstalledTree, join},
    package::devel_manifest,
    relpath::RelPath,
};

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    for wheel in &seen.set.wheels {
        let Some(tree) = &wheel.devel else {
            continue;
        };
        if let Some(why) = &tree.fault {
            findings.at(rule::UNREADABLE_DEVEL, (&wheel.file, &tree.member), why);
            continue;
        }
        manifest(wheel, tree, findings);
        order(wheel, tree, findings);
        links(wheel, tree, &seen.tree, findings);
    }
}

/// The top directory of the archive.
fn root(tree: &DevelTree) -> Option<RelPath> {
    let first = tree.entries.first()?;
    first.entry.path.components().next()?.parse().ok()
}

/// The manifest agrees with the contents of the archive.
fn manifest(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let path = devel_manifest::PATH;
    let Some(bytes) = wheel.text(path) else {
        // Only our builds write it.
        let rule = match wheel.tables() {
            Some(_) => rule::DEVEL_MANIFEST_DISAGREES,
            None => rule::NO_DEVEL_MANIFEST,
        };
        return findings.of(rule, &wheel.file, format!("no `{path}`"));
    };
    let place = (wheel.file.as_str(), path);
    let Ok(found) = serde_json::from_slice::<Value>(bytes) else {
        return findings.at(rule::DEVEL_MANIFEST_DISAGREES, place, "not JSON");
    };
    let wanted = expected_manifest(wheel, tree).unwrap_or_else(|| found.clone());
    let keys = [
        "version",
        "files",
        "links",
        "directories",
        "bytes",
        "sha256",
    ];
    if let Some(key) = keys.iter().find(|key| found.get(key) != wanted.get(key)) {
        let value = |from: &Value| {
            from.get(key)
                .map_or("not there".to_owned(), Value::to_string)
        };
        let (found, wanted) = (value(&found), value(&wanted));
        let fact = format!("`{key}` is {found}, and {wanted} in the archive");
        findings.at(rule::DEVEL_MANIFEST_DISAGREES, place, fact);
    }
}

fn expected_manifest(wheel: &WheelFile, tree: &DevelTree) -> Option<Value> {
    let root = root(tree)?;
    let members = tree.entries.iter().filter_map(|devel| {
        let path = devel.entry.path.strip_prefix(&root)?;
        Some((path, &devel.entry.kind))
    });
    let members: Vec<(RelPath, &TarKind)> = members.collect();
    let members = members.iter().map(|(path, kind)| (path, *kind));
    let version = wheel.name.as_ref().ok()?.version().to_string();
    serde_json::from_str(&devel_manifest::render(&version, members)).ok()
}

/// The order of entries on which TheRock's `rocm-sdk` relies.
///
/// When it unpacks the first entry of a directory, it empties that directory. So a directory must
/// not come after entries of its subdirectories: they would be deleted. Hard links are not
/// unpacked.
fn order(wheel: &WheelFile, tree: &DevelTree, findings: &mut Findings) {
    let root = root(tree);
    let mut touched: BTreeSet<RelPath> = BTreeSet::new();
    let mut seen: BTreeSet<&RelPath> = BTreeSet::new();
    for devel in &tree.entries {
        let path = &devel.entry.path;
        let place = (wheel.file.as_str(), path.as_str());
        if path.components().next() != root.as_ref().map(RelPath::as_str) || path.depth() < 2 {
            let fact = "it does not lie below the first directory";
            findings.at(rule::DEVEL_ORDER, place, fact);
        }
        if !seen.insert(path) {
            findings.at(rule::DEVEL_ORDER, place, "it is in the archive twice");
        }
        if matches!(devel.entry.kind, TarKind::Hardlink(_)) {
            let fact = "a hard link, which is passed over";
            findings.at(rule::DEVEL_ORDER, place, fact);
        }
        let emptied = match devel.entry.kind {
            TarKind::Directory => Some(path.clone()),
            _ => path.parent(),
        };
        let Some(emptied) = emptied.filter(|it| !touched.contains(it)) else {
            continue;
        };
        let mut lost = touched.iter();
        if let Some(lost) = lost.find(|it| it.strip_prefix(&emptied).is_some()) {
            let fact = format!("it comes after `{lost}`, which `rocm-sdk` then deletes");
            findings.at(rule::DEVEL_ORDER, place, fact);
        }
        touched.insert(emptied);
    }
}

/// No symlink is dangling: an error for symlinks to other packages, less severe within the tree.
fn links(
    wheel: &WheelFile,
    tree: &DevelTree,
    installed: &InstalledTree<'_>,
    findings: &mut Findings,
) {
    let root = root(tree);
    for devel in &tree.entries {
        let path = devel.entry.path.as_str();
        let TarKind::Symlink(text) = &devel.entry.kind else {
            continue;
        };
        if installed.has(path) {
            continue;
        }
        let place = join(path, text);
        let top = place.as_deref().and_then(|place| place.split('/').next());
        let is_inside = top.is_some() && top == root.as_ref().map(RelPath::as_str);
        let rule = if is_inside {
            rule::DANGLING_TREE_LINK
        } else {
            rule::DANGLING_DEVEL_LINK
        };
        let fact = format!("it leads to `{text}`, which does not exist");
        findings.at(rule, (wheel.file.as_str(), path), fact);
    }
}
