//! Rules of `check --planned`: a set has the packages and files of its plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    archive::TarKind,
    check::{
        facts::{ContentFacts, DevelEntry, SetFacts, WheelFile},
        rule::{self, Finding, Findings},
    },
    digest::Sha256,
    package::document::{PlannedMember, PlannedPackage, PlannedSource as Source},
};

/// A file of an artifact (artifact and path), and its planned run path.
type Original = (String, String, Option<String>);

/// The digests of these files after the planned edit, as far as they were computed.
pub type Digests = BTreeMap<Original, Sha256>;

/// Every file of an artifact that a plan names.
pub fn originals(plan: &[PlannedPackage]) -> BTreeSet<Original> {
    let members = plan.iter().flat_map(|it| &it.members);
    let with_trees = members.flat_map(|member| match &member.source {
        Source::Tree { members, .. } => members.iter().collect(),
        _ => vec![member],
    });
    with_trees.filter_map(|it| original(&it.source)).collect()
}

fn original(source: &Source) -> Option<Original> {
    match source {
        Source::Copy { artifact, file, .. } => Some((artifact.clone(), file.clone(), None)),
        Source::Relink {
            artifact,
            file,
            rpath,
            ..
        } => Some((artifact.clone(), file.clone(), Some(rpath.clone()))),
        _ => None,
    }
}

/// The differences between a set and a plan. The bytes of a file are compared if `digests` has it.
pub fn differences(set: &SetFacts, plan: &[PlannedPackage], digests: &Digests) -> Vec<Finding> {
    let mut findings = Findings::default();
    let planned = plan.iter().map(|it| (it.path.as_str(), it));
    let mut planned: BTreeMap<&str, &PlannedPackage> = planned.collect();
    for package in set.packages().filter(|it| !planned.contains_key(&*it.file)) {
        let fact = "in the set, and not planned";
        findings.of(rule::UNPLANNED, &package.file, fact);
    }
    for wheel in &set.wheels {
        if let Some(package) = planned.remove(wheel.file.as_str()) {
            wheel_changes(wheel, package, digests, &mut findings);
        }
    }
    for sdist in &set.sdists {
        if let Some(package) = planned.remove(sdist.file.as_str()) {
            let there = sdist.files.iter().map(|(path, it)| (path.as_str(), it));
            let both = in_both(&sdist.file, ("", &package.members), there, &mut findings);
            for (path, content, planned) in both {
                let change = content_change(content, &planned.source, &Digests::new());
                findings.at_each(rule::NOT_AS_PLANNED, (&sdist.file, &path), change);
            }
        }
    }
    for file in planned.into_keys() {
        findings.of(rule::PLANNED_MISSING, file, "planned, and not in the set");
    }
    findings.into_vec()
}

/// The paths that are there and planned. Reports those that only one side has.
fn in_both<'a, 'p, T>(
    file: &str,
    (top, planned): (&str, &'p [PlannedMember]),
    there: impl Iterator<Item = (&'a str, T)>,
    findings: &mut Findings,
) -> Vec<(String, T, &'p PlannedMember)> {
    let mut there: BTreeMap<&str, T> = there.collect();
    let mut both = Vec::new();
    for member in planned {
        let path = format!("{top}{}", member.path);
        if let Some(it) = there.remove(path.as_str()) {
            both.push((path, it, member));
        } else {
            let fact = "planned, and not in the package";
            findings.at(rule::PLANNED_MISSING, (file, &path), fact);
        }
    }
    for path in there.into_keys() {
        let fact = "in the package, and not planned";
        findings.at(rule::UNPLANNED, (file, path), fact);
    }
    both
}

fn wheel_changes(
    wheel: &WheelFile,
    package: &PlannedPackage,
    digests: &Digests,
    findings: &mut Findings,
) {
    let file = wheel.file.as_str();
    // RECORD is not compared: it follows from all other members.
    let is_compared = |path: &str| !path.ends_with(".dist-info/RECORD");
    let there = wheel.members.iter().map(|it| (it.path.as_str(), it));
    let there = there.filter(|(path, _)| is_compared(path));
    for (path, member, planned) in in_both(file, ("", &package.members), there, findings) {
        let Ok(content) = &member.content else {
            continue;
        };
        if let (Source::Tree { top, members }, Some(tree)) = (&planned.source, &wheel.devel) {
            let there = tree.entries.iter();
            let there = there.map(|it| (it.entry.path.as_str(), it));
            let top = format!("{top}/");
            for (path, entry, planned) in in_both(file, (&top, members), there, findings) {
                let facts = entry_changes(entry, planned, digests);
                findings.at_each(rule::NOT_AS_PLANNED, (file, &path), facts);
            }
        } else {
            let facts = file_changes(content, member.mode & 0o111 != 0, planned, digests);
            findings.at_each(rule::NOT_AS_PLANNED, (file, &path), facts);
        }
    }
}

fn entry_changes(entry: &DevelEntry, planned: &PlannedMember, digests: &Digests) -> Vec<String> {
    let shown = match &entry.entry.kind {
        TarKind::Directory => "a directory".to_owned(),
        TarKind::Symlink(text) => format!("a link to `{text}`"),
        TarKind::Hardlink(to) => format!("a hard link to `{to}`"),
        TarKind::File { .. } => "a file".to_owned(),
    };
    let expected = match &planned.source {
        Source::Directory => "a directory".to_owned(),
        Source::Link { target } => format!("a link to `{target}`"),
        Source::Other => return Vec::new(),
        _ => "a file".to_owned(),
    };
    match (&entry.entry.kind, &entry.content) {
        _ if shown != expected => vec![format!("{shown}, but {expected} was planned")],
        (TarKind::File { executable, .. }, Some(content)) => {
            file_changes(content, *executable, planned, digests)
        }
        _ => Vec::new(),
    }
}

fn file_changes(
    content: &ContentFacts,
    is_executable: bool,
    planned: &PlannedMember,
    digests: &Digests,
) -> Vec<String> {
    let change = content_change(content, &planned.source, digests);
    let mode = match (is_executable, planned.executable) {
        (false, true) => Some("it is no program, as planned"),
        (true, false) => Some("it is a program, which was not planned"),
        _ => None,
    };
    change.into_iter().chain(mode.map(str::to_owned)).collect()
}

/// How a file differs from the planned edit of its source. `None` if it does not.
fn content_change(content: &ContentFacts, source: &Source, digests: &Digests) -> Option<String> {
    let elf = content.elf();
    match source {
        Source::Text {
            sha256: Some(expected),
            ..
        } => {
            let is_other = content.sha256 != Some(*expected);
            return is_other.then(|| "another text than planned".to_owned());
        }
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
        // Its length depends on the run path.
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
    let original = original(source)?;
    let is_other = content.sha256? != *digests.get(&original)?;
    let (_, path, _) = original;
    let name = path.rsplit('/').next().unwrap_or(&path);
    is_other.then(|| format!("its bytes are not those made from `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::document;

    #[test]
    fn the_files_that_a_plan_names_are_found_once_each() {
        let text = r#"{"schema":"rocwheel-plan-v1","version":"1","mode":"split","platform":"linux",
            "targets":[],"notes":[],"packages":[{"path":"a.whl","package":"a","name":"a","members":[
            {"path":"a","executable":true,"source":"copy","artifact":"x","file":"/x/a","size":3},
            {"path":"d","source":"tree","top":"t","members":[
                {"path":"b","source":"relink","artifact":"x","file":"/x/b","size":3,"rpath":"$ORIGIN"},
                {"path":"c","source":"copy","artifact":"x","file":"/x/a","size":3}]}]}]}"#;
        let x = |file: &str, rpath: Option<&str>| {
            ("x".to_owned(), file.to_owned(), rpath.map(str::to_owned))
        };
        assert_eq!(
            originals(&document::parse(text).unwrap()),
            [x("/x/a", None), x("/x/b", Some("$ORIGIN"))].into()
        );
    }
}
