//! Rules about single packages: a wheel ([PEP 427](https://peps.python.org/pep-0427/)) is an
//! archive that every installer reads in the same way, and its metadata is correct.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use itertools::Itertools as _;
use pep440_rs::VersionSpecifiers;

use super::Observed;
use crate::{
    check::{
        facts::{ContentFacts, MemberFacts, MemberKind, SdistFile, SetFacts, WheelFile},
        rule::{self, Findings, Rule},
    },
    policy::catalog::CATALOG,
    relpath::RelPath,
    wheel::{Headers, Metadata, PackageFilename, Record, RecordRow, Tag, dist_info::WheelFacts},
};

/// The minor versions of Python 3 that are tried against `Requires-Python`.
const MINORS: Range<u64> = 6..40;

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    for wheel in &set.wheels {
        archive(wheel, findings);
    }
    for sdist in &set.sdists {
        self::sdist(sdist, findings);
    }
    for wheel in &seen.all.wheels {
        if let (Some(name), Some(metadata)) = (wheel.package.identity(), wheel.metadata())
            && let Some(fact) = no_python(name, &metadata)
        {
            findings.of(rule::TAG_AND_PYTHON_DISAGREE, &wheel.package.file, fact);
        }
    }
    for wheel in &set.wheels {
        licenses(wheel, findings);
    }
    shared_paths(set, findings);
    long_paths(set, findings);
}

/// A wheel is an archive that installers read in one way, with all that it lists.
pub(super) fn archive(wheel: &WheelFile, findings: &mut Findings) {
    let file = &wheel.package.file;
    if let Err(why) = &wheel.package.name {
        findings.cause(rule::UNREADABLE_PACKAGE, file, None, why);
    }
    for why in &wheel.contradictions {
        findings.of(rule::INCONSISTENT_ZIP, file, why);
    }
    // Without the members there is nothing to compare.
    if let Some(why) = &wheel.unreadable {
        let project = wheel.package.identity().map(|it| &it.name);
        return findings.cause(rule::UNREADABLE_PACKAGE, file, project, why);
    }
    for it in &wheel.members {
        member(wheel, it, findings);
    }
    record(wheel, findings);
    metadata(wheel, findings);
    wheel_text(wheel, findings);
}

fn member(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let place = (wheel, member);
    let path = member.path.strip_suffix('/').unwrap_or(&member.path);
    if let Err(why) = path.parse::<RelPath>() {
        findings.at(rule::BAD_PATH, place, why.to_string());
    }
    if is_for_windows(wheel) && !path.split('/').all(windows_has) {
        findings.at(rule::BAD_PATH, place, "Windows makes no file of that name");
    }
    match member.kind {
        MemberKind::File => {}
        MemberKind::Symlink => findings.at(rule::NOT_A_FILE, place, "a symbolic link"),
        // Others write entries for directories, which installers ignore.
        MemberKind::Directory if !wheel.package.is_ours() => {}
        MemberKind::Directory => findings.at(rule::NOT_A_FILE, place, "a directory"),
        MemberKind::Special => findings.at(rule::NOT_A_FILE, place, "a device or a pipe"),
    }
    if let Err(why) = &member.content {
        findings.at(rule::DAMAGED_MEMBER, place, why);
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
    wheel.package.platform().is_some_and(|it| it.contains("win"))
}

/// A file in the `.dist-info` directory: its path and bytes. Reports why it has none.
fn dist_info<'a>(
    wheel: &'a WheelFile,
    name: &str,
    rule: &'static Rule,
    findings: &mut Findings,
) -> Option<(&'a str, &'a [u8])> {
    let found = wheel.dist_info(name);
    if found.is_none() {
        let end = format!(".dist-info/{name}");
        let member = wheel.members.iter().find(|it| it.path.ends_with(&end));
        let why = match member.map(|it| (&it.path, &it.content)) {
            Some((path, Ok(content))) => {
                let len = content.len;
                format!("`{path}` has {len} bytes, more than installers read")
            }
            Some((_, Err(_))) => format!("no `*{end}` that can be read"),
            None => format!("no `*{end}`"),
        };
        findings.of(rule, &wheel.package.file, why);
    }
    found
}

/// RECORD lists every member with its digest and size, and nothing else.
fn record(wheel: &WheelFile, findings: &mut Findings) {
    let file = wheel.package.file.as_str();
    let rule = rule::RECORD_DISAGREES;
    let Some((path, bytes)) = dist_info(wheel, "RECORD", rule, findings) else {
        return;
    };
    let record = match Record::parse(bytes) {
        Ok(record) => record,
        Err(error) => return findings.at(rule, (file, path), format!("{error:#}")),
    };
    let members = wheel.members.iter().map(|it| (it.path.as_str(), it));
    let mut members: BTreeMap<&str, &MemberFacts> = members.collect();
    for row in record.rows() {
        let place = (file, row.path.as_str());
        let Some(member) = members.remove(place.1) else {
            let fact = "listed in RECORD, and not in the wheel";
            findings.at(rule, place, fact);
            continue;
        };
        // RECORD cannot hold its own hash. Of packages of others only some files were read.
        if place.1 != path
            && let Ok(content) = &member.content
            && let Some(fact) = mismatch(row, content, wheel.package.is_ours())
        {
            findings.at(rule, place, fact);
        }
    }
    members.retain(|_, member| member.kind != MemberKind::Directory);
    if !wheel.package.is_ours() {
        // Others do without a row for RECORD itself, and for signatures of it.
        members.retain(|it, _| !it.starts_with(path));
    }
    for path in members.into_keys() {
        let fact = "in the wheel, and not listed in RECORD";
        findings.at(rule, (file, path), fact);
    }
}

/// What differs between a member and its row. Builders of others may leave out hashes.
fn mismatch(row: &RecordRow, content: &ContentFacts, is_ours: bool) -> Option<String> {
    let len = content.len;
    if let Some(sha256) = content.sha256.filter(|_| is_ours || row.digest.is_some()) {
        return row.mismatch(sha256, len);
    }
    let listed = row.len.filter(|it| *it != len)?;
    Some(format!("has {len} bytes, but {listed} in RECORD"))
}

fn metadata(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::METADATA_DISAGREES;
    let found = dist_info(wheel, "METADATA", rule, findings);
    let (Some((path, bytes)), Ok(name)) = (found, &wheel.package.name) else {
        return;
    };
    let place = (wheel.package.file.as_str(), path);
    let infos = wheel.members.iter();
    let infos = infos.filter_map(|it| Some(it.path.split_once('/')?.0));
    let infos = infos.filter(|it| it.ends_with(".dist-info")).unique();
    let infos: Vec<&str> = infos.collect();
    if infos.len() > 1 {
        let infos = infos.join("`, `");
        let fact = format!("several directories of metadata: `{infos}`");
        findings.of(rule::METADATA_DISAGREES, &wheel.package.file, fact);
    }
    let wanted = format!("{}/METADATA", name.dist_info());
    if path != wanted && wheel.package.is_ours() {
        findings.at(rule, place, format!("it is not at `{wanted}`"));
    }
    match Metadata::parse(bytes) {
        Err(error) => findings.at(rule, place, format!("{error:#}")),
        Ok(inside) => compare(place, &inside, name, findings),
    }
}

/// The metadata agrees with the file name, and some Python can install the package.
fn compare(
    place: (&str, &str),
    inside: &Metadata,
    PackageFilename { name, version, .. }: &PackageFilename,
    findings: &mut Findings,
) {
    if inside.name != *name {
        let (inside, outside) = (&inside.name, name);
        let fact = format!("it is of `{inside}`, and the file name of `{outside}`");
        findings.at(rule::METADATA_DISAGREES, place, fact);
    }
    if inside.version != *version {
        let inside = &inside.version;
        let fact = format!("it is of version {inside}, and the file name of {version}");
        findings.at(rule::METADATA_DISAGREES, place, fact);
    }
    if let Some(fact) = requires_python(inside) {
        findings.at(rule::REQUIRES_PYTHON, place, fact);
    }
}

/// A wheel says under which licenses its files come, and has the texts that it names
/// ([PEP 639](https://peps.python.org/pep-0639/)).
fn licenses(wheel: &WheelFile, findings: &mut Findings) {
    let Some((path, bytes)) = wheel.dist_info("METADATA") else {
        return;
    };
    // `metadata-disagrees` says that METADATA cannot be read.
    let Ok(headers) = String::from_utf8_lossy(bytes).parse::<Headers>() else {
        return;
    };
    let expressions: Vec<&str> = headers.all("License-Expression").collect();
    let files: Vec<&str> = headers.all("License-File").collect();
    let mut facts = Vec::new();
    if expressions.is_empty() && files.is_empty() && headers.get("License").is_none() {
        facts.push("it names no license".to_owned());
    }
    let terms = expressions.iter().flat_map(|it| it.split([' ', '(', ')']));
    let unknown = terms
        .filter(|it| it.starts_with("LicenseRef-ROCm-") && !CATALOG.knows_license(it))
        .map(|it| format!("`packages.toml` does not say what `{it}` is"));
    facts.extend(unknown.unique());
    let directory = path.trim_end_matches("METADATA");
    let missing = files.iter().filter(|file| {
        let place = format!("{directory}licenses/{file}");
        wheel.members.iter().all(|it| it.path != place)
    });
    facts.extend(missing.map(|it| format!("`licenses/{it}` is missing")));
    findings.at_each(rule::UNKNOWN_LICENSE, (&wheel.package.file, path), facts);
    let is_text = |it: &MemberFacts| {
        let inside = it.path.split_once('/').map(|(_, inside)| inside);
        let mut globs = CATALOG.metadata.license_files.iter();
        inside.is_some_and(|it| globs.any(|glob| glob.matches(it)))
            && it.content.as_ref().is_ok_and(|it| it.len > 0)
    };
    let mut texts = wheel.members.iter().filter(|it| is_text(it));
    // A build of ours names each text that it packs.
    if files.is_empty()
        && !wheel.is_made_by_others()
        && let Some(text) = texts.find(|it| !it.path.starts_with(directory))
    {
        let fact = format!("no `License-File`, and `{}` is a license text", text.path);
        findings.at(rule::METADATA_DISAGREES, (&wheel.package.file, path), fact);
    }
}

/// Why no Python can install it. `None` if one can.
pub(super) fn requires_python(inside: &Metadata) -> Option<String> {
    let text = inside.requires_python.as_deref()?;
    let Ok(wanted) = text.parse::<VersionSpecifiers>() else {
        return Some(format!("`{text}` is not understood"));
    };
    let is_met = MINORS.flat_map(|minor| pythons_of(&wanted, minor)).any(|it| wanted.contains(&it));
    (!is_met).then(|| format!("`{text}` is not for Python 3"))
}

/// The versions of a minor version of Python 3 that show whether any of them fits: the first, a late
/// one, and those around each patch that a specifier names, because `==3.12.3` fits only that one.
fn pythons_of(wanted: &VersionSpecifiers, minor: u64) -> impl Iterator<Item = pep440_rs::Version> {
    let named = wanted.iter().filter_map(|specifier| specifier.version().release().get(2).copied());
    let around = named.flat_map(|patch| [patch.saturating_sub(1), patch, patch.saturating_add(1)]);
    around.chain([0, 99]).map(move |patch| pep440_rs::Version::new([3, minor, patch]))
}

/// Why no Python that the tags of a wheel name may install it, if the tags are for some versions
/// only: a wheel for `cp315` with `Requires-Python: <3.15`.
fn no_python(name: &PackageFilename, inside: &Metadata) -> Option<String> {
    let text = inside.requires_python.as_deref()?;
    let wanted = text.parse::<VersionSpecifiers>().ok()?;
    let tags = name.tag.as_ref()?.expand();
    let minors: Option<BTreeSet<u64>> = tags.iter().map(python_of).collect();
    // A tag for any Python 3, or one that is not known, is met by some version.
    let minors = minors?;
    let is_met = |minor: &u64| pythons_of(&wanted, *minor).any(|it| wanted.contains(&it));
    let tags = name.tag.as_ref()?;
    (!minors.iter().any(is_met))
        .then(|| format!("its tag is `{tags}`, and its Requires-Python `{text}`"))
}

/// The minor version of Python 3 that a tag is for. `None` if it is for several: a stable ABI is for
/// each later version too.
fn python_of(tag: &Tag) -> Option<u64> {
    let text = tag.to_string();
    let mut parts = text.split('-');
    let (python, abi) = (parts.next()?, parts.next()?);
    let minor = python.strip_prefix("cp3")?.parse().ok()?;
    (abi != "abi3" && abi != "none").then_some(minor)
}

/// WHEEL agrees with the file name. `Root-Is-Purelib` is true in all our wheels, so that they are
/// installed into the same directory (`purelib`).
fn wheel_text(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::METADATA_DISAGREES;
    let found = dist_info(wheel, "WHEEL", rule, findings);
    let tag = wheel.package.identity().and_then(|name| name.tag.as_ref());
    let (Some((path, bytes)), Some(outside)) = (found, tag) else {
        return;
    };
    let place = (wheel.package.file.as_str(), path);
    let facts: WheelFacts = match String::from_utf8_lossy(bytes).parse() {
        Ok(facts) => facts,
        Err(error) => return findings.at(rule, place, format!("{error:#}")),
    };
    if !wheel.package.is_ours() {
        return;
    }
    let tags = |tags: &[Tag]| tags.iter().map(ToString::to_string).sorted().join(" ");
    let inside = tags(&facts.tags);
    if inside != tags(&outside.expand()) {
        let fact = format!("its tag is `{inside}`, and the file name's `{outside}`");
        findings.at(rule, place, fact);
    }
    if !facts.root_is_purelib {
        let fact = "`Root-Is-Purelib` is false, which parts it from the packages beside it";
        findings.at(rule, place, fact);
    }
}

/// An sdist is an archive that stays in its directory, and its metadata is of the package that its name
/// says.
pub(super) fn sdist(sdist: &SdistFile, findings: &mut Findings) {
    let file = sdist.package.file.as_str();
    let project = sdist.package.identity().map(|it| &it.name);
    if let Err(why) = &sdist.package.name {
        findings.cause(rule::UNREADABLE_PACKAGE, file, None, why);
    }
    match (&sdist.metadata, sdist.package.identity()) {
        (Err(why), _) => findings.cause(rule::UNREADABLE_PACKAGE, file, project, why),
        (Ok(inside), Some(name)) => compare((file, "PKG-INFO"), inside, name, findings),
        (Ok(_), None) => {}
    }
    for path in &sdist.contents.escapes {
        let fact = "a symbolic link that leads out of the directory of the sdist";
        findings.at(rule::BAD_PATH, (file, path), fact);
    }
    if !sdist.copies_agree && sdist.package.is_ours() {
        let fact = "the copies of PKG-INFO differ";
        findings.of(rule::METADATA_DISAGREES, file, fact);
    }
}

/// Whether both can be installed together: they are of different projects and of the same platform.
fn are_beside(one: &WheelFile, other: &WheelFile) -> bool {
    match (one.project(), other.project()) {
        (Some(own), Some(others)) => own != others && is_for_windows(one) == is_for_windows(other),
        _ => one.package.file != other.package.file,
    }
}

/// Each path belongs to one package, because all packages are installed into one directory. No two
/// paths differ in case only.
fn shared_paths(set: &SetFacts, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, (&WheelFile, &MemberFacts)> = BTreeMap::new();
    let mut spellings: BTreeMap<String, &str> = BTreeMap::new();
    for (wheel, member) in set.members() {
        let path = &*member.path;
        let place = (&*wheel.package.file, path);
        let top = path.split('/').next().unwrap_or_default();
        // No other package has the metadata of a package.
        if top.ends_with(".dist-info") {
            continue;
        }
        let first = spellings.entry(path.to_lowercase()).or_insert(path);
        if *first != path {
            let fact = format!("`{first}` differs in case only");
            findings.at(rule::CASE_CLASH, place, fact);
        }
        let (first, one) = *owners.entry(path).or_insert((wheel, member));
        if are_beside(first, wheel) {
            let digest = |member: &MemberFacts| member.content.as_ref().ok()?.sha256;
            let (rule, fact) = if digest(one) == digest(member) {
                (rule::SHARED_PATH, "the same file")
            } else {
                (rule::CONFLICTING_PATH, "another file")
            };
            findings.at(rule, place, format!("`{}` has {fact} there", first.package.file));
        }
    }
}

/// Windows can open every path below `site-packages` on the Windows runners of GitHub.
fn long_paths(set: &SetFacts, findings: &mut Findings) {
    const PREFIX: &str = r"C:\hostedtoolcache\windows\Python\3.12.10\x64\Lib\site-packages";
    /// `MAX_PATH`, without the NUL at the end.
    const MOST: usize = 259;
    let before = PREFIX.encode_utf16().count() + 1;
    for wheel in set.wheels.iter().filter(|it| is_for_windows(it)) {
        let members = wheel.members.iter().map(|member| member.path.as_str());
        let unpacked = wheel.unpacked().map(|it| it.entry.path.as_str());
        for path in members.chain(unpacked) {
            let len = before + path.encode_utf16().count();
            if len > MOST {
                let fact = format!("{len} characters in `{PREFIX}`");
                findings.at(rule::LONG_PATH, (&wheel.package.file, path), fact);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_of_one_patch_is_a_python() {
        let refused = |python: &str| {
            let text =
                format!("Metadata-Version: 2.4\nName: a\nVersion: 1\nRequires-Python: {python}\n");
            requires_python(&Metadata::parse(text.as_bytes()).unwrap())
        };
        for python in ["==3.12.3", "===3.12.3", ">=3.12.3,<3.12.4", ">3.12.4,<3.12.6", "~=3.12.3"] {
            assert_eq!(refused(python), None, "{python}");
        }
        insta::assert_snapshot!(refused(">3.12.4,<3.12.5").unwrap(), @"`>3.12.4,<3.12.5` is not for Python 3");
        insta::assert_snapshot!(refused("==2.7.18").unwrap(), @"`==2.7.18` is not for Python 3");
    }

    #[test]
    fn names_that_windows_keeps_for_itself_are_known() {
        for name in ["a:b", "CON", "nul.txt", "com1", "LPT9.log", "a.", "a ", "a?", "aux .c"] {
            assert!(!windows_has(name), "{name}");
        }
        for name in ["a", "com", "com10", "console", "con1", "a.b", ".kpack", "lpt", "nul1", "ü"] {
            assert!(windows_has(name), "{name}");
        }
    }
}
