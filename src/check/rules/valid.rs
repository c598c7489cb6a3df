//! Whether each package is a package: an archive that every installer reads in the same way.

use std::collections::BTreeMap;

use pep440_rs::VersionSpecifiers;

use crate::{
    check::{
        demands::Demands,
        facts::{ArchiveFault, Member, MemberKind, SdistFile, SetFacts, WheelFile},
        finding::Finding,
        reasons::reasons,
        rule,
    },
    relpath::RelPath,
    wheel::{DistName, Metadata, Record, WheelFilename, dist_info::WheelFacts},
};

/// The minor versions of Python 3 that a package may be for.
const PYTHONS: (u64, u64) = (6, 40);

pub(super) fn find(set: &SetFacts, demands: &Demands) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wheel in &set.wheels {
        let mut found: Vec<Finding> = Vec::new();
        found.extend(wheel.name.as_ref().err().map(unreadable));
        found.extend(wheel.faults.iter().map(archive_fault));
        // What could not be read has nothing that could be compared.
        if wheel.is_readable() {
            found.extend(wheel.members.iter().flat_map(member));
            found.extend(unmakeable_paths(wheel));
            found.extend(record(wheel));
            found.extend(metadata(wheel));
            found.extend(wheel_text(wheel));
        }
        findings.extend(found.into_iter().map(|it| it.in_file(&wheel.file)));
    }
    for sdist in &set.sdists {
        let found = sdist_metadata(sdist);
        findings.extend(found.into_iter().map(|it| it.in_file(&sdist.file)));
    }
    findings.extend(shared_paths(set));
    findings.extend(case_clashes(set));
    findings.extend(long_paths(set, demands));
    findings
}

fn unreadable(why: &String) -> Finding {
    Finding::new(rule::UNREADABLE_PACKAGE, why)
}

fn archive_fault(fault: &ArchiveFault) -> Finding {
    match fault {
        ArchiveFault::Unreadable(why) => unreadable(why),
        ArchiveFault::Around(len) => {
            let fact = format!("{len} bytes stand before the archive or after its end");
            Finding::new(rule::TRAILING_BYTES, fact)
        }
        ArchiveFault::Inconsistent(why) => Finding::new(rule::INCONSISTENT_ZIP, why),
    }
}

fn member(member: &Member) -> Vec<Finding> {
    let mut found = Vec::new();
    let path = member.path.strip_suffix('/').unwrap_or(&member.path);
    if let Err(why) = path.parse::<RelPath>() {
        found.push(Finding::new(rule::BAD_PATH, why.to_string()));
    }
    match member.kind {
        MemberKind::File => {}
        MemberKind::Symlink => found.push(Finding::new(rule::NOT_A_FILE, "a symbolic link")),
        MemberKind::Directory => found.push(Finding::new(rule::NOT_A_FILE, "a directory")),
        MemberKind::Special => found.push(Finding::new(rule::NOT_A_FILE, "a device or a pipe")),
    }
    if let Err(why) = &member.content {
        found.push(Finding::new(rule::DAMAGED_MEMBER, why));
    }
    found.into_iter().map(|it| it.at(&member.path)).collect()
}

/// Windows makes no file with some names.
fn unmakeable_paths(wheel: &WheelFile) -> Vec<Finding> {
    if !is_for_windows(wheel) {
        return Vec::new();
    }
    let paths = wheel.members.iter().map(|member| member.path.as_str());
    let paths = paths.filter(|path| path.split('/').any(|name| !windows_has(name)));
    let fact = "Windows makes no file of that name";
    paths
        .map(|path| Finding::new(rule::BAD_PATH, fact).at(path))
        .collect()
}

/// Whether Windows has files of this name.
fn windows_has(name: &str) -> bool {
    let is_refused = |c: char| c.is_control() || "<>:\"|?*".contains(c);
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_ascii_uppercase();
    let port = stem.strip_prefix("COM").or(stem.strip_prefix("LPT"));
    let is_port = port.is_some_and(|it| it.len() == 1 && it != "0" && it.parse::<u8>().is_ok());
    let is_device = is_port || matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL");
    !is_device && !name.contains(is_refused) && !name.ends_with([' ', '.'])
}

fn is_for_windows(wheel: &WheelFile) -> bool {
    let name = wheel.name.as_ref();
    name.is_ok_and(|name| name.tag().platform().contains("win"))
}

/// RECORD lists every member, as it is, and nothing else.
fn record(wheel: &WheelFile) -> Vec<Finding> {
    let Some((path, bytes)) = wheel.dist_info("RECORD") else {
        return vec![Finding::new(rule::INVALID_RECORD, missing(wheel, "RECORD"))];
    };
    let record = match Record::parse(bytes) {
        Ok(record) => record,
        Err(error) => {
            let why = reasons(&error);
            return vec![Finding::new(rule::INVALID_RECORD, why).at(path)];
        }
    };
    let mut members: BTreeMap<&str, &Member> = BTreeMap::new();
    for member in &wheel.members {
        members.insert(&member.path, member);
    }
    let mut found = Vec::new();
    for row in record.rows() {
        let Some(member) = members.remove(row.path.as_str()) else {
            let fact = "listed in RECORD, and not in the wheel";
            found.push(Finding::new(rule::MISSING_MEMBER, fact).at(row.path.as_str()));
            continue;
        };
        // RECORD cannot hold its own hash.
        if row.path.as_str() == path {
            continue;
        }
        if let Ok(content) = &member.content
            && let Err(mismatch) = row.verify(content.sha256, content.len)
        {
            let fact = mismatch.to_string();
            // The path stands before every fact.
            let path = format!("`{}` ", member.path);
            let fact = fact.strip_prefix(&path).unwrap_or(&fact);
            found.push(Finding::new(rule::RECORD_MISMATCH, fact).at(&member.path));
        }
    }
    let unlisted = members
        .values()
        .filter(|it| it.kind != MemberKind::Directory);
    found.extend(unlisted.map(|member| {
        let fact = "in the wheel, and not listed in RECORD";
        Finding::new(rule::UNRECORDED_MEMBER, fact).at(&member.path)
    }));
    found
}

/// Why there is no text of that name in the `.dist-info` directory.
fn missing(wheel: &WheelFile, name: &str) -> String {
    let end = format!(".dist-info/{name}");
    let member = wheel.members.iter().find(|it| it.path.ends_with(&end));
    match member.map(|it| &it.content) {
        Some(Ok(content)) => {
            let (path, len) = (&member.map_or(&end, |it| &it.path), content.len);
            format!("`{path}` has {len} bytes, more than installers read")
        }
        Some(Err(_)) => format!("no `*{end}` that can be read"),
        None => format!("no `*{end}`"),
    }
}

fn metadata(wheel: &WheelFile) -> Vec<Finding> {
    let finding = |fact: String| Finding::new(rule::METADATA_DISAGREES, fact);
    let Some((path, bytes)) = wheel.dist_info("METADATA") else {
        return vec![finding(missing(wheel, "METADATA"))];
    };
    let Ok(name) = &wheel.name else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let wanted = format!("{}/METADATA", name.dist_info());
    if path != wanted {
        found.push(finding(format!("it is not at `{wanted}`")).at(path));
    }
    match Metadata::parse(bytes) {
        Err(error) => {
            let why = reasons(&error);
            found.push(finding(why).at(path));
        }
        Ok(inside) => {
            let facts = disagreements(&inside, name.name(), &name.version().to_string());
            found.extend(facts.into_iter().map(|fact| finding(fact).at(path)));
            found.extend(requires_python(&inside).map(|it| it.at(path)));
        }
    }
    found
}

/// Some Python can install it.
fn requires_python(inside: &Metadata) -> Option<Finding> {
    let text = inside.requires_python.as_ref()?.as_str();
    let fact = match text.parse::<VersionSpecifiers>() {
        Err(_) => format!("`{text}` is not understood"),
        Ok(wanted) => {
            let mut pythons = (PYTHONS.0..PYTHONS.1)
                .flat_map(|minor| [0, 99].map(|patch| pep440_rs::Version::new([3, minor, patch])));
            if pythons.any(|python| wanted.contains(&python)) {
                return None;
            }
            format!("`{text}` is not for Python 3")
        }
    };
    Some(Finding::new(rule::REQUIRES_PYTHON, fact))
}

fn disagreements(inside: &Metadata, name: &DistName, version: &str) -> Vec<String> {
    let mut facts = Vec::new();
    if inside.name != *name {
        let (inside, outside) = (&inside.name, name.normalized());
        facts.push(format!(
            "it is of `{inside}`, and the file name of `{outside}`"
        ));
    }
    if inside.version.to_string() != version {
        let inside = &inside.version;
        facts.push(format!(
            "it is of version {inside}, and the file name of {version}"
        ));
    }
    facts
}

/// WHEEL says what the file name says, and that everything belongs into one directory.
fn wheel_text(wheel: &WheelFile) -> Vec<Finding> {
    let finding = |fact: String| Finding::new(rule::WHEEL_DISAGREES, fact);
    let Some((path, bytes)) = wheel.dist_info("WHEEL") else {
        return vec![finding(missing(wheel, "WHEEL"))];
    };
    let Ok(name) = &wheel.name else {
        return Vec::new();
    };
    let facts: WheelFacts = match String::from_utf8_lossy(bytes).parse() {
        Ok(facts) => facts,
        Err(error) => return vec![finding(reasons(&error)).at(path)],
    };
    let mut found = Vec::new();
    let (mut inside, mut outside) = (facts.tags, name.tag().expand());
    inside.sort();
    outside.sort();
    if inside != outside {
        let inside: Vec<String> = inside.iter().map(ToString::to_string).collect();
        let (inside, outside) = (inside.join(" "), name.tag());
        found.push(finding(format!(
            "its tag is `{inside}`, and the file name's `{outside}`"
        )));
    }
    if !facts.root_is_purelib && wheel.is_ours() {
        let fact = "`Root-Is-Purelib` is false, which parts it from the packages beside it";
        found.push(finding(fact.to_owned()));
    }
    found.into_iter().map(|it| it.at(path)).collect()
}

fn sdist_metadata(sdist: &SdistFile) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    found.extend(sdist.name.as_ref().err().map(unreadable));
    match (&sdist.name, &sdist.metadata) {
        (_, Err(why)) => found.push(unreadable(why)),
        (Ok(name), Ok(inside)) => {
            let facts = disagreements(inside, name.name(), &name.version().to_string());
            let finding = |fact| Finding::new(rule::METADATA_DISAGREES, fact).at("PKG-INFO");
            found.extend(facts.into_iter().map(finding));
            found.extend(requires_python(inside).map(|it| it.at("PKG-INFO")));
        }
        (Err(_), Ok(_)) => {}
    }
    if !sdist.copies_agree {
        let fact = "the copies of PKG-INFO differ";
        found.push(Finding::new(rule::METADATA_DISAGREES, fact));
    }
    found
}

/// What no other package has: the metadata of the package.
fn is_own(path: &str) -> bool {
    path.split('/')
        .next()
        .is_some_and(|top| top.ends_with(".dist-info"))
}

/// Whether both can be installed at once: not two of one project, nor of two platforms.
fn are_beside(one: &WheelFile, other: &WheelFile) -> bool {
    let (Ok(one), Ok(other)) = (&one.name, &other.name) else {
        return one.file != other.file;
    };
    let is_windows = |name: &WheelFilename| name.tag().platform().contains("win");
    one.name() != other.name() && is_windows(one) == is_windows(other)
}

/// Each path belongs to one package, because all are installed into one directory.
fn shared_paths(set: &SetFacts) -> Vec<Finding> {
    let mut owners: BTreeMap<&str, Vec<(&WheelFile, &Member)>> = BTreeMap::new();
    for wheel in &set.wheels {
        for member in wheel.members.iter().filter(|member| !is_own(&member.path)) {
            owners
                .entry(&member.path)
                .or_default()
                .push((wheel, member));
        }
    }
    let mut found = Vec::new();
    for (path, owners) in owners {
        let Some(((first, one), rest)) = owners.split_first() else {
            continue;
        };
        for (wheel, other) in rest.iter().filter(|(wheel, _)| are_beside(first, wheel)) {
            let digest = |member: &Member| Some(member.content.as_ref().ok()?.sha256);
            let (rule, fact) = if digest(one) == digest(other) {
                (rule::SHARED_PATH, "the same file")
            } else {
                (rule::CONFLICTING_PATH, "another file")
            };
            let fact = format!("`{}` has {fact} there", first.file);
            found.push(Finding::new(rule, fact).in_file(&wheel.file).at(path));
        }
    }
    found
}

fn case_clashes(set: &SetFacts) -> Vec<Finding> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for wheel in &set.wheels {
        for member in wheel.members.iter().filter(|member| !is_own(&member.path)) {
            let first = seen
                .entry(member.path.to_lowercase())
                .or_insert(&member.path);
            if *first != member.path {
                let fact = format!("`{first}` differs in case only");
                let finding = Finding::new(rule::CASE_CLASH, fact);
                found.push(finding.in_file(&wheel.file).at(&member.path));
            }
        }
    }
    found
}

/// Below the place where wheels for Windows are installed, every path can be opened there.
fn long_paths(set: &SetFacts, demands: &Demands) -> Vec<Finding> {
    /// `MAX_PATH`, without the NUL at the end.
    const MOST: usize = 259;
    let prefix = demands.windows_prefix.trim_end_matches(['\\', '/']);
    let finding = |wheel: &WheelFile, path: &str| {
        let len = prefix.encode_utf16().count().saturating_add(1);
        let len = len.saturating_add(path.encode_utf16().count());
        let fact = format!("{len} characters in `{prefix}`");
        let finding = || Finding::new(rule::LONG_PATH, fact).at(path);
        (len > MOST).then(|| finding().in_file(&wheel.file))
    };
    let mut found = Vec::new();
    for wheel in set.wheels.iter().filter(|it| is_for_windows(it)) {
        let members = wheel.members.iter().map(|member| member.path.as_str());
        let devel = wheel.devel.iter().flat_map(|tree| &tree.entries);
        let paths = members.chain(devel.map(|devel| devel.entry.path.as_str()));
        found.extend(paths.filter_map(|path| finding(wheel, path)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_keeps_for_itself_are_known() {
        for name in [
            "a:b", "CON", "nul.txt", "com1", "LPT9.log", "a.", "a ", "a?", "aux .c",
        ] {
            assert!(!windows_has(name), "{name}");
        }
        for name in [
            "a", "com", "com10", "console", "con1", "a.b", ".kpack", "lpt", "nul1", "ü",
        ] {
            assert!(windows_has(name), "{name}");
        }
    }
}
