//! Whether the development files unpack to a whole tree.

use std::collections::BTreeSet;

use crate::{
    archive::TarKind,
    check::{
        facts::{DevelTree, SetFacts, WheelFile},
        finding::Finding,
        rule,
    },
    loader::{InstalledTree, join},
    package::devel_manifest,
    relpath::RelPath,
};

pub(super) fn find(set: &SetFacts, installed: &InstalledTree<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wheel in &set.wheels {
        let Some(tree) = &wheel.devel else {
            continue;
        };
        if let Some(why) = &tree.fault {
            let finding = Finding::new(rule::UNREADABLE_DEVEL, why);
            findings.push(finding.in_file(&wheel.file).at(&tree.member));
            continue;
        }
        let mut found: Vec<Finding> = manifest(wheel, tree).into_iter().collect();
        found.extend(order(tree));
        found.extend(links(tree, installed));
        findings.extend(found.into_iter().map(|it| it.in_file(&wheel.file)));
    }
    findings
}

/// The directory that everything lies in.
fn root(tree: &DevelTree) -> Option<RelPath> {
    let first = tree.entries.first()?;
    first.entry.path.components().next()?.parse().ok()
}

fn manifest(wheel: &WheelFile, tree: &DevelTree) -> Option<Finding> {
    let finding = |fact: &str| Finding::new(rule::DEVEL_MANIFEST_DISAGREES, fact);
    let path = devel_manifest::PATH;
    let Some(bytes) = wheel.text(path) else {
        // Only our builds have it.
        let fact = format!("no `{path}`");
        return Some(Finding::new(rule::NO_DEVEL_MANIFEST, fact));
    };
    let Ok(found) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return Some(finding("not JSON").at(path));
    };
    let root = root(tree)?;
    let members = tree.entries.iter().filter_map(|devel| {
        let path = devel.entry.path.strip_prefix(&root)?;
        Some((path, &devel.entry.kind))
    });
    let members: Vec<(RelPath, &TarKind)> = members.collect();
    let version = wheel.name.as_ref().ok()?.version().to_string();
    let members = members.iter().map(|(path, kind)| (path, *kind));
    let text = devel_manifest::render(&version, members);
    let wanted: serde_json::Value = serde_json::from_str(&text).ok()?;
    let different = [
        "version",
        "files",
        "links",
        "directories",
        "bytes",
        "sha256",
    ];
    let different = different
        .into_iter()
        .find(|key| found.get(key) != wanted.get(key))?;
    let value = |from: &serde_json::Value| from.get(different).map(ToString::to_string);
    let (found, wanted) = (value(&found), value(&wanted));
    let fact = format!(
        "`{different}` is {}, and {} in the archive",
        found.unwrap_or_else(|| "not there".to_owned()),
        wanted.unwrap_or_default()
    );
    Some(finding(&fact).at(path))
}

/// What upstream's unpacking relies on: it empties a directory when it first comes to it.
fn order(tree: &DevelTree) -> Vec<Finding> {
    let finding =
        |path: &RelPath, fact: String| Finding::new(rule::DEVEL_ORDER, fact).at(path.as_str());
    let mut found = Vec::new();
    let root = root(tree);
    let mut touched: BTreeSet<RelPath> = BTreeSet::new();
    let mut seen: BTreeSet<&RelPath> = BTreeSet::new();
    for devel in &tree.entries {
        let path = &devel.entry.path;
        if path.components().next() != root.as_ref().map(RelPath::as_str) || path.depth() < 2 {
            found.push(finding(
                path,
                "it does not lie below the first directory".to_owned(),
            ));
        }
        if !seen.insert(path) {
            found.push(finding(path, "it is in the archive twice".to_owned()));
        }
        if matches!(devel.entry.kind, TarKind::Hardlink(_)) {
            found.push(finding(
                path,
                "a hard link, which is passed over".to_owned(),
            ));
        }
        let emptied = match devel.entry.kind {
            TarKind::Directory => Some(path.clone()),
            _ => path.parent(),
        };
        let Some(emptied) = emptied.filter(|it| !touched.contains(it)) else {
            continue;
        };
        let lost = touched
            .iter()
            .find(|it| it.strip_prefix(&emptied).is_some());
        if let Some(lost) = lost {
            let fact = format!("it comes after `{lost}`, which `rocm-sdk` then deletes");
            found.push(finding(path, fact));
        }
        touched.insert(emptied);
    }
    found
}

/// Links lead to something: those to other packages must, those within the tree should.
fn links(tree: &DevelTree, installed: &InstalledTree<'_>) -> Vec<Finding> {
    let root = root(tree);
    let mut found = Vec::new();
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
        found.push(Finding::new(rule, fact).at(path));
    }
    found
}
