//! Rules of `check --planned`: a set has the packages and files of its plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    archive::TarKind,
    check::{
        facts::{
            ContentFacts, DevelEntry, DevelTree, Elf, MemberFacts, SdistFile, SetFacts, WheelFile,
        },
        finding::Finding,
        planned::{Digests, original},
        rule,
    },
    digest::Sha256,
    package::document::{PlanDocument, PlannedMember, PlannedPackage, PlannedSource as Source},
};

/// The differences between a set and a plan. The bytes of a file are compared if `digests` has it.
pub fn differences(set: &SetFacts, plan: &PlanDocument, digests: &Digests) -> Vec<Finding> {
    let mut found = Vec::new();
    let planned: BTreeMap<&str, &PlannedPackage> = plan
        .packages
        .iter()
        .map(|package| (package.path.as_str(), package))
        .collect();
    let wheels = set.wheels.iter();
    let wheels: BTreeMap<&str, &WheelFile> =
        wheels.map(|it| (it.file.as_str(), it.as_ref())).collect();
    let sdists = set.sdists.iter();
    let sdists: BTreeMap<&str, &SdistFile> =
        sdists.map(|it| (it.file.as_str(), it.as_ref())).collect();
    let there: BTreeSet<&str> = wheels.keys().chain(sdists.keys()).copied().collect();
    for (file, package) in &planned {
        if let Some(wheel) = wheels.get(file) {
            let changes = wheel_changes(wheel, package, digests).into_iter();
            found.extend(changes.map(|it| it.in_file(&wheel.file)));
        } else if let Some(sdist) = sdists.get(file) {
            let changes = sdist_changes(sdist, package).into_iter();
            found.extend(changes.map(|it| it.in_file(&sdist.file)));
        } else {
            let fact = "planned, and not in the set";
            found.push(Finding::new(rule::PLANNED_MISSING, fact).in_file(*file));
        }
    }
    for file in there.iter().filter(|file| !planned.contains_key(*file)) {
        let fact = "in the set, and not planned";
        found.push(Finding::new(rule::UNPLANNED, fact).in_file(*file));
    }
    found
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn sdist_changes(sdist: &SdistFile, package: &PlannedPackage) -> Vec<Finding> {
    let members = package.members.iter();
    let planned = members.clone().map(|it| it.path.clone());
    let mut found = outside(planned, sdist.files.keys().map(String::as_str));
    for planned in members {
        if let (Some(file), Source::Text { size, sha256 }) =
            (sdist.files.get(&planned.path), &planned.source)
            && (file.len != *size || sha256.is_some_and(|sha256| sha256 != file.sha256))
        {
            let fact = "another text than planned";
            found.push(Finding::new(rule::NOT_AS_PLANNED, fact).at(&planned.path));
        }
    }
    found
}

fn wheel_changes(wheel: &WheelFile, package: &PlannedPackage, digests: &Digests) -> Vec<Finding> {
    let own = wheel.members.iter().filter(|it| !is_record(&it.path));
    let there: BTreeMap<&str, &MemberFacts> = own.map(|it| (it.path.as_str(), it)).collect();
    let mut found = outside(
        package.members.iter().map(|it| it.path.clone()),
        there.keys().copied(),
    );
    for planned in &package.members {
        let Some(member) = there.get(planned.path.as_str()) else {
            continue;
        };
        let Ok(content) = &member.content else {
            continue;
        };
        let differs = |fact| Finding::new(rule::NOT_AS_PLANNED, fact).at(&planned.path);
        if let (Source::Tree { top, members }, Some(tree)) = (&planned.source, &wheel.devel) {
            found.extend(tree_changes(top, members, tree, digests));
            continue;
        }
        found.extend(content_change(content, &planned.source, digests).map(differs));
        let is_executable = member.mode & 0o111 != 0;
        if is_executable != planned.executable {
            let fact = if planned.executable {
                "it is no program, as planned"
            } else {
                "it is a program, which was not planned"
            };
            found.push(differs(fact.to_owned()));
        }
    }
    found
}

/// RECORD is not compared: it follows from all other members.
fn is_record(path: &str) -> bool {
    path.ends_with(".dist-info/RECORD")
}

/// The paths that only one side has.
fn outside<'a>(
    planned: impl Iterator<Item = String>,
    there: impl Iterator<Item = &'a str>,
) -> Vec<Finding> {
    let planned: BTreeSet<String> = planned.collect();
    let there: BTreeSet<String> = there.map(str::to_owned).collect();
    let missing = planned.difference(&there).map(|path| {
        let fact = "planned, and not in the package";
        Finding::new(rule::PLANNED_MISSING, fact).at(path)
    });
    let extra = there.difference(&planned).map(|path| {
        let fact = "in the package, and not planned";
        Finding::new(rule::UNPLANNED, fact).at(path)
    });
    missing.chain(extra).collect()
}

/// How a file differs from the planned edit of its source. `None` if it does not.
fn content_change(content: &ContentFacts, source: &Source, digests: &Digests) -> Option<String> {
    let elf = match &content.elf {
        Some(Elf::Read(elf)) => Some(elf),
        _ => None,
    };
    match source {
        Source::Copy {
            size: Some(size), ..
        }
        | Source::Text { size, .. }
            if content.len != *size =>
        {
            return Some(format!("{} bytes, but {size} were planned", content.len));
        }
        Source::Launcher { target } => {
            let runs = elf.and_then(|elf| elf.launches.as_ref());
            let shown = runs.map_or("nothing".to_owned(), |runs| format!("`{runs}`"));
            return (runs != Some(target))
                .then(|| format!("it runs {shown}, but `{target}` was planned"));
        }
        Source::Relink { rpath, .. } => {
            let found = elf.and_then(|elf| elf.facts.run_path()).unwrap_or_default();
            if found != rpath {
                return Some(format!(
                    "its run path is `{found}`, but `{rpath}` was planned"
                ));
            }
        }
        _ => {}
    }
    bytes_change(content.sha256, source, digests)
}

fn bytes_change(sha256: Sha256, source: &Source, digests: &Digests) -> Option<String> {
    if let Source::Text {
        sha256: Some(expected),
        ..
    } = source
    {
        return (sha256 != *expected).then(|| "another text than planned".to_owned());
    }
    let original = original(source)?;
    let expected = digests.get(&original)?;
    (sha256 != *expected)
        .then(|| format!("its bytes are not those made from `{}`", name(&original.1)))
}

/// How the development files differ from the plan.
fn tree_changes(
    top: &str,
    members: &[PlannedMember],
    tree: &DevelTree,
    digests: &Digests,
) -> Vec<Finding> {
    let entries = tree.entries.iter();
    let there: BTreeMap<&str, &DevelEntry> =
        entries.map(|it| (it.entry.path.as_str(), it)).collect();
    let path = |member: &PlannedMember| format!("{top}/{}", member.path);
    let mut found = outside(members.iter().map(path), there.keys().copied());
    for member in members {
        let path = path(member);
        let Some(entry) = there.get(path.as_str()) else {
            continue;
        };
        let change = || bytes_change(entry.sha256?, &member.source, digests);
        if let Some(fact) = entry_change(entry, member).or_else(change) {
            found.push(Finding::new(rule::NOT_AS_PLANNED, fact).at(path));
        }
    }
    found
}

fn entry_change(entry: &DevelEntry, member: &PlannedMember) -> Option<String> {
    let shown = match &entry.entry.kind {
        TarKind::Directory => "a directory".to_owned(),
        TarKind::Symlink(text) => format!("a link to `{text}`"),
        TarKind::Hardlink(to) => format!("a hard link to `{to}`"),
        TarKind::File { len, executable } => {
            let program = if *executable { "program" } else { "file" };
            format!("a {program} of {len} bytes")
        }
    };
    let program = if member.executable { "program" } else { "file" };
    let expected = match &member.source {
        Source::Directory => "a directory".to_owned(),
        Source::Link { target } => format!("a link to `{target}`"),
        Source::Copy {
            size: Some(size), ..
        }
        | Source::Text { size, .. } => format!("a {program} of {size} bytes"),
        // Its length depends on the run path. Compare the run path instead.
        Source::Relink { rpath, .. } => {
            let Some(Elf::Read(elf)) = &entry.elf else {
                return Some(format!("{shown}, but a library was planned"));
            };
            let found = elf.facts.run_path().unwrap_or_default();
            return (found != rpath)
                .then(|| format!("its run path is `{found}`, but `{rpath}` was planned"));
        }
        _ => return None,
    };
    (shown != expected).then(|| format!("{shown}, but {expected} was planned"))
}
