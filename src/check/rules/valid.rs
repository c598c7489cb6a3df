//! Rules about single packages: a wheel ([PEP 427](https://peps.python.org/pep-0427/)) is an
//! archive that every installer reads in the same way, and its metadata is correct.

use std::collections::BTreeMap;

use pep440_rs::VersionSpecifiers;

use super::Observed;
use crate::{
    check::{
        error_lines::reasons,
        facts::{ArchiveFault, MemberFacts, MemberKind, SdistFile, SetFacts, WheelFile},
        finding::Findings,
        options::CheckOptions,
        rule,
    },
    relpath::RelPath,
    wheel::{DistName, Metadata, Record, WheelFilename, dist_info::WheelFacts},
};

/// The minor versions of Python 3 tried against `Requires-Python`.
const PYTHONS: (u64, u64) = (6, 40);

pub(super) fn find(seen: &Observed<'_>, options: &CheckOptions, findings: &mut Findings) {
    let set = seen.all;
    for wheel in &set.wheels {
        if let Err(why) = &wheel.name {
            findings.add_cause(rule::UNREADABLE_PACKAGE, &wheel.file, why);
        }
        for fault in &wheel.faults {
            archive_fault(wheel, fault, findings);
        }
        // Without the members there is nothing to compare.
        if wheel.is_readable() {
            for it in &wheel.members {
                member(wheel, it, findings);
            }
            record(wheel, findings);
            metadata(wheel, findings);
            wheel_text(wheel, findings);
        }
    }
    for sdist in &set.sdists {
        sdist_metadata(sdist, findings);
    }
    shared_paths(set, findings);
    case_clashes(set, findings);
    long_paths(set, options, findings);
    for file in set.foreign() {
        findings.add(rule::FOREIGN_PACKAGE, file, "a package of another project");
    }
}

fn archive_fault(wheel: &WheelFile, fault: &ArchiveFault, findings: &mut Findings) {
    match fault {
        ArchiveFault::Unreadable(why) => {
            findings.add_cause(rule::UNREADABLE_PACKAGE, &wheel.file, why);
        }
        ArchiveFault::Around(len) => {
            let fact = format!("{len} bytes stand before the archive or after its end");
            findings.add(rule::TRAILING_BYTES, &wheel.file, fact);
        }
        ArchiveFault::Inconsistent(why) => {
            findings.add(rule::INCONSISTENT_ZIP, &wheel.file, why);
        }
    }
}

fn member(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let place = (&wheel.file, &member.path);
    let path = member.path.strip_suffix('/').unwrap_or(&member.path);
    if let Err(why) = path.parse::<RelPath>() {
        findings.add(rule::BAD_PATH, place, why.to_string());
    }
    if is_for_windows(wheel) && path.split('/').any(|name| !windows_has(name)) {
        let fact = "Windows makes no file of that name";
        findings.add(rule::BAD_PATH, place, fact);
    }
    let kind = match member.kind {
        MemberKind::File => None,
        MemberKind::Symlink => Some("a symbolic link"),
        MemberKind::Directory => Some("a directory"),
        MemberKind::Special => Some("a device or a pipe"),
    };
    if let Some(fact) = kind {
        findings.add(rule::NOT_A_FILE, place, fact);
    }
    if let Err(why) = &member.content {
        findings.add(rule::DAMAGED_MEMBER, place, why);
    }
}

/// Whether Windows allows this file name.
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

/// RECORD lists every member with its digest and size, and nothing else.
fn record(wheel: &WheelFile, findings: &mut Findings) {
    let file = wheel.file.as_str();
    let Some((path, bytes)) = wheel.dist_info("RECORD") else {
        let fact = missing(wheel, "RECORD");
        return findings.add(rule::INVALID_RECORD, file, fact);
    };
    let record = match Record::parse(bytes) {
        Ok(record) => record,
        Err(error) => {
            let why = reasons(&error);
            return findings.add(rule::INVALID_RECORD, (file, path), why);
        }
    };
    let members = wheel.members.iter();
    let mut members: BTreeMap<&str, &MemberFacts> =
        members.map(|it| (it.path.as_str(), it)).collect();
    for row in record.rows() {
        let place = (file, row.path.as_str());
        let Some(member) = members.remove(row.path.as_str()) else {
            let fact = "listed in RECORD, and not in the wheel";
            findings.add(rule::MISSING_MEMBER, place, fact);
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
            // The finding shows the path already. Do not repeat it in the fact.
            let path = format!("`{}` ", member.path);
            let fact = fact.strip_prefix(&path).unwrap_or(&fact);
            findings.add(rule::RECORD_MISMATCH, place, fact);
        }
    }
    for (path, member) in members {
        if member.kind != MemberKind::Directory {
            let fact = "in the wheel, and not listed in RECORD";
            findings.add(rule::UNRECORDED_MEMBER, (file, path), fact);
        }
    }
}

/// Why a file of the `.dist-info` directory has no text.
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

fn metadata(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::METADATA_DISAGREES;
    let Some((path, bytes)) = wheel.dist_info("METADATA") else {
        return findings.add(rule, &wheel.file, missing(wheel, "METADATA"));
    };
    let Ok(name) = &wheel.name else {
        return;
    };
    let place = (wheel.file.as_str(), path);
    let wanted = format!("{}/METADATA", name.dist_info());
    if path != wanted {
        findings.add(rule, place, format!("it is not at `{wanted}`"));
    }
    match Metadata::parse(bytes) {
        Err(error) => findings.add(rule, place, reasons(&error)),
        Ok(inside) => {
            let version = name.version().to_string();
            compare(place, &inside, name.name(), &version, findings);
        }
    }
}

/// The metadata agrees with the file name, and some Python can install the package.
fn compare(
    place: (&str, &str),
    inside: &Metadata,
    name: &DistName,
    version: &str,
    findings: &mut Findings,
) {
    for fact in disagreements(inside, name, version) {
        findings.add(rule::METADATA_DISAGREES, place, fact);
    }
    if let Some(fact) = requires_python(inside) {
        findings.add(rule::REQUIRES_PYTHON, place, fact);
    }
}

/// Why no Python can install it. `None` if one can.
fn requires_python(inside: &Metadata) -> Option<String> {
    let text = inside.requires_python.as_ref()?.as_str();
    let Ok(wanted) = text.parse::<VersionSpecifiers>() else {
        return Some(format!("`{text}` is not understood"));
    };
    let mut pythons = (PYTHONS.0..PYTHONS.1)
        .flat_map(|minor| [0, 99].map(|patch| pep440_rs::Version::new([3, minor, patch])));
    let is_met = pythons.any(|python| wanted.contains(&python));
    (!is_met).then(|| format!("`{text}` is not for Python 3"))
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

/// WHEEL agrees with the file name. `Root-Is-Purelib` is true in all our wheels, so that they are
/// installed into the same directory (`purelib`).
fn wheel_text(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::WHEEL_DISAGREES;
    let Some((path, bytes)) = wheel.dist_info("WHEEL") else {
        return findings.add(rule, &wheel.file, missing(wheel, "WHEEL"));
    };
    let Ok(name) = &wheel.name else {
        return;
    };
    let place = (wheel.file.as_str(), path);
    let facts: WheelFacts = match String::from_utf8_lossy(bytes).parse() {
        Ok(facts) => facts,
        Err(error) => return findings.add(rule, place, reasons(&error)),
    };
    let (mut inside, mut outside) = (facts.tags, name.tag().expand());
    inside.sort();
    outside.sort();
    if inside != outside {
        let inside: Vec<String> = inside.iter().map(ToString::to_string).collect();
        let (inside, outside) = (inside.join(" "), name.tag());
        let fact = format!("its tag is `{inside}`, and the file name's `{outside}`");
        findings.add(rule, place, fact);
    }
    if !facts.root_is_purelib && wheel.is_ours() {
        let fact = "`Root-Is-Purelib` is false, which parts it from the packages beside it";
        findings.add(rule, place, fact);
    }
}

fn sdist_metadata(sdist: &SdistFile, findings: &mut Findings) {
    if let Err(why) = &sdist.name {
        findings.add_cause(rule::UNREADABLE_PACKAGE, &sdist.file, why);
    }
    match (&sdist.name, &sdist.metadata) {
        (_, Err(why)) => findings.add_cause(rule::UNREADABLE_PACKAGE, &sdist.file, why),
        (Ok(name), Ok(inside)) => {
            let place = (sdist.file.as_str(), "PKG-INFO");
            let version = name.version().to_string();
            compare(place, inside, name.name(), &version, findings);
        }
        (Err(_), Ok(_)) => {}
    }
    if !sdist.copies_agree {
        let fact = "the copies of PKG-INFO differ";
        findings.add(rule::METADATA_DISAGREES, &sdist.file, fact);
    }
}

/// Whether a path is in the metadata of the package, which no other package has.
fn is_own(path: &str) -> bool {
    path.split('/')
        .next()
        .is_some_and(|top| top.ends_with(".dist-info"))
}

/// Whether both can be installed together: they are of different projects and of the same platform.
fn are_beside(one: &WheelFile, other: &WheelFile) -> bool {
    let (Ok(one), Ok(other)) = (&one.name, &other.name) else {
        return one.file != other.file;
    };
    let is_windows = |name: &WheelFilename| name.tag().platform().contains("win");
    one.name() != other.name() && is_windows(one) == is_windows(other)
}

/// Each path belongs to one package, because all packages are installed into one directory.
fn shared_paths(set: &SetFacts, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, Vec<(&WheelFile, &MemberFacts)>> = BTreeMap::new();
    for (wheel, member) in set.members().filter(|(_, it)| !is_own(&it.path)) {
        let owners = owners.entry(&member.path).or_default();
        owners.push((wheel, member));
    }
    for (path, owners) in owners {
        let Some(((first, one), rest)) = owners.split_first() else {
            continue;
        };
        for (wheel, other) in rest.iter().filter(|(wheel, _)| are_beside(first, wheel)) {
            let digest = |member: &MemberFacts| Some(member.content.as_ref().ok()?.sha256);
            let (rule, fact) = if digest(one) == digest(other) {
                (rule::SHARED_PATH, "the same file")
            } else {
                (rule::CONFLICTING_PATH, "another file")
            };
            let fact = format!("`{}` has {fact} there", first.file);
            findings.add(rule, (wheel.file.as_str(), path), fact);
        }
    }
}

fn case_clashes(set: &SetFacts, findings: &mut Findings) {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (wheel, member) in set.members().filter(|(_, it)| !is_own(&it.path)) {
        let first = seen.entry(member.path.to_lowercase());
        let first = first.or_insert(&member.path);
        if *first != member.path {
            let fact = format!("`{first}` differs in case only");
            findings.add(rule::CASE_CLASH, (&wheel.file, &member.path), fact);
        }
    }
}

/// Windows can open every path below the directory into which its wheels are installed.
fn long_paths(set: &SetFacts, options: &CheckOptions, findings: &mut Findings) {
    /// `MAX_PATH`, without the NUL at the end.
    const MOST: usize = 259;
    let prefix = options.windows_prefix.trim_end_matches(['\\', '/']);
    let before = prefix.encode_utf16().count().saturating_add(1);
    for wheel in set.wheels.iter().filter(|it| is_for_windows(it)) {
        let members = wheel.members.iter().map(|member| member.path.as_str());
        let unpacked = wheel.unpacked().map(|it| it.entry.path.as_str());
        for path in members.chain(unpacked) {
            let len = before.saturating_add(path.encode_utf16().count());
            if len > MOST {
                let fact = format!("{len} characters in `{prefix}`");
                findings.add(rule::LONG_PATH, (&*wheel.file, path), fact);
            }
        }
    }
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
