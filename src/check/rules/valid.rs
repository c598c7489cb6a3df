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
        rule::{self, Findings, PackagePath, Rule},
    },
    policy::catalog::CATALOG,
};
use rocwheel_base::relpath::RelPath;
use rocwheel_wheel::{
    Headers, Metadata, PackageFilename, Record, RecordRow, Tag, dist_info::WheelFacts,
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
        if let (Some(name), Some(metadata)) = (wheel.package.filename(), wheel.metadata())
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

/// Every installer reads the archive of a wheel in the same way, and the wheel has what its RECORD lists.
pub(super) fn archive(wheel: &WheelFile, findings: &mut Findings) {
    let file = &wheel.package.file;
    if let Err(why) = &wheel.package.filename {
        findings.cause(rule::UNREADABLE_PACKAGE, file, None, why);
    }
    for why in &wheel.contradictions {
        findings.of(rule::INCONSISTENT_ZIP, file, why);
    }
    // Without the members there is nothing to compare.
    if let Some(why) = &wheel.unreadable {
        let project = wheel.package.filename().map(|it| &it.name);
        return findings.cause(rule::UNREADABLE_PACKAGE, file, project, why);
    }
    for member in &wheel.members {
        self::member(wheel, member, findings);
    }
    record(wheel, findings);
    metadata(wheel, findings);
    wheel_text(wheel, findings);
}

/// A member is a file, which can be read and written on the platform of the wheel.
fn member(wheel: &WheelFile, member: &MemberFacts, findings: &mut Findings) {
    let place = PackagePath::new(wheel, member);
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
        // Other builders write entries for directories, which installers ignore.
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
    // Windows ignores the extension, and the case: `nul.txt` is the device `NUL`.
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let port = stem.strip_prefix("COM").or(stem.strip_prefix("LPT"));
    let is_port = port.is_some_and(|it| it.len() == 1 && it != "0" && it.parse::<u8>().is_ok());
    let is_device = is_port || matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL");
    !is_device && !name.contains(is_refused) && !name.ends_with([' ', '.'])
}

fn is_for_windows(wheel: &WheelFile) -> bool {
    wheel.package.platform().is_some_and(|it| it.contains("win"))
}

/// The path and the bytes of a file in the `.dist-info` directory. Reports why the wheel has no such file.
fn dist_info<'a>(
    wheel: &'a WheelFile,
    name: &str,
    rule: &'static Rule,
    findings: &mut Findings,
) -> Option<(&'a str, &'a [u8])> {
    let file = wheel.dist_info(name);
    if file.is_none() {
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
    file
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
        Err(error) => return findings.at(rule, PackagePath::new(file, path), format!("{error:#}")),
    };
    let mut unlisted: BTreeMap<&str, &MemberFacts> =
        wheel.members.iter().map(|member| (member.path.as_str(), member)).collect();
    for row in record.rows() {
        let place = PackagePath::new(file, row.path.as_str());
        let Some(member) = unlisted.remove(place.path) else {
            let fact = "listed in RECORD, and not in the wheel";
            findings.at(rule, place, fact);
            continue;
        };
        // RECORD cannot hold its own hash. Only some files of a package of another project are read if the
        // package is in a store: the other files have no digest to compare.
        if place.path != path
            && let Ok(content) = &member.content
            && let Some(fact) = mismatch(row, content, wheel.package.is_ours())
        {
            findings.at(rule, place, fact);
        }
    }
    unlisted.retain(|_, member| member.kind != MemberKind::Directory);
    if !wheel.package.is_ours() {
        // Other builders write no row for RECORD itself, nor for its signatures: `RECORD.jws`.
        unlisted.retain(|member_path, _| !member_path.starts_with(path));
    }
    for member_path in unlisted.into_keys() {
        let fact = "in the wheel, and not listed in RECORD";
        findings.at(rule, PackagePath::new(file, member_path), fact);
    }
}

/// The difference between a member and its row. Other builders may leave out hashes.
fn mismatch(row: &RecordRow, content: &ContentFacts, is_ours: bool) -> Option<String> {
    let len = content.len;
    if let Some(sha256) = content.sha256.filter(|_| is_ours || row.digest.is_some()) {
        return row.mismatch(sha256, len);
    }
    let listed = row.len.filter(|it| *it != len)?;
    Some(format!("has {len} bytes, but {listed} in RECORD"))
}

/// The wheel has one METADATA, which agrees with the file name.
fn metadata(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::METADATA_DISAGREES;
    let metadata_file = dist_info(wheel, "METADATA", rule, findings);
    let (Some((path, bytes)), Ok(name)) = (metadata_file, &wheel.package.filename) else {
        return;
    };
    let place = PackagePath::new(wheel, path);
    let directories: Vec<&str> = wheel
        .members
        .iter()
        .filter_map(|member| Some(member.path.split_once('/')?.0))
        .filter(|top| top.ends_with(".dist-info"))
        .unique()
        .collect();
    if directories.len() > 1 {
        let fact = format!("several directories of metadata: `{}`", directories.join("`, `"));
        findings.of(rule, &wheel.package.file, fact);
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
    place: PackagePath<'_>,
    inside: &Metadata,
    PackageFilename { name, version, .. }: &PackageFilename,
    findings: &mut Findings,
) {
    if inside.name != *name {
        let fact = format!("it is of `{}`, and the file name of `{name}`", inside.name);
        findings.at(rule::METADATA_DISAGREES, place, fact);
    }
    if inside.version != *version {
        let fact = format!("it is of version {}, and the file name of {version}", inside.version);
        findings.at(rule::METADATA_DISAGREES, place, fact);
    }
    if let Some(fact) = requires_python(inside) {
        findings.at(rule::REQUIRES_PYTHON, place, fact);
    }
}

/// A wheel names the licenses of its files, and has the license texts that it names
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
        let builder = wheel.other_builder();
        let suffix = builder.map_or(String::new(), |it| format!(", and `{it}` built it"));
        facts.push(format!("it names no license{suffix}"));
    }
    let terms = expressions.iter().flat_map(|it| it.split([' ', '(', ')']));
    let unknown = terms
        .filter(|it| it.starts_with("LicenseRef-ROCm-") && !CATALOG.knows_license(it))
        .map(|it| format!("`packages.toml` does not say what `{it}` is"));
    facts.extend(unknown.unique());
    let directory = path.trim_end_matches("METADATA");
    let missing = files.iter().filter(|file| {
        let path = format!("{directory}licenses/{file}");
        wheel.members.iter().all(|member| member.path != path)
    });
    facts.extend(missing.map(|it| format!("`licenses/{it}` is missing")));
    findings.at_each(rule::UNKNOWN_LICENSE, PackagePath::new(wheel, path), facts);
    let is_license_text = |member: &MemberFacts| {
        let inside = member.path.split_once('/').map(|(_, inside)| inside);
        let mut globs = CATALOG.metadata.license_files.iter();
        inside.is_some_and(|path| globs.any(|glob| glob.matches(path)))
            && member.content.as_ref().is_ok_and(|content| content.len > 0)
    };
    let mut license_texts = wheel.members.iter().filter(|member| is_license_text(member));
    // rocwheel names each license text that it packs.
    if files.is_empty()
        && wheel.other_builder().is_none()
        && let Some(member) = license_texts.find(|member| !member.path.starts_with(directory))
    {
        let fact = format!("no `License-File`, and `{}` is a license text", member.path);
        findings.at(rule::METADATA_DISAGREES, PackagePath::new(wheel, path), fact);
    }
}

/// Why no Python can install a package with this metadata. `None` if one can.
pub(super) fn requires_python(inside: &Metadata) -> Option<String> {
    let requires_python = inside.requires_python.as_deref()?;
    let Ok(wanted) = requires_python.parse::<VersionSpecifiers>() else {
        return Some(format!("`{requires_python}` is not understood"));
    };
    let is_met = MINORS.flat_map(|minor| pythons_of(&wanted, minor)).any(|it| wanted.contains(&it));
    (!is_met).then(|| format!("`{requires_python}` is not for Python 3"))
}

/// The versions of a minor version of Python 3 that show whether any of them fits: the first, a late
/// one, and the versions around each patch that a specifier names, because `==3.12.3` fits only 3.12.3.
fn pythons_of(wanted: &VersionSpecifiers, minor: u64) -> impl Iterator<Item = pep440_rs::Version> {
    let named = wanted.iter().filter_map(|specifier| specifier.version().release().get(2).copied());
    let around = named.flat_map(|patch| [patch.saturating_sub(1), patch, patch.saturating_add(1)]);
    around.chain([0, 99]).map(move |patch| pep440_rs::Version::new([3, minor, patch]))
}

/// Why no Python that the tags of a wheel name may install the wheel, if the tags are for some versions
/// only: a wheel for `cp315` with `Requires-Python: <3.15`.
fn no_python(name: &PackageFilename, inside: &Metadata) -> Option<String> {
    let requires_python = inside.requires_python.as_deref()?;
    let wanted = requires_python.parse::<VersionSpecifiers>().ok()?;
    let tags = name.tag.as_ref()?;
    // If one tag is for any Python 3, or is not known, some version meets it.
    let minors = tags.expand().iter().map(python_of).collect::<Option<BTreeSet<u64>>>()?;
    let is_met = |minor: &u64| pythons_of(&wanted, *minor).any(|it| wanted.contains(&it));
    (!minors.iter().any(is_met))
        .then(|| format!("its tag is `{tags}`, and its Requires-Python `{requires_python}`"))
}

/// The minor version of Python 3 that a tag is for. `None` if it is for several: a stable ABI is for
/// each later version too.
fn python_of(tag: &Tag) -> Option<u64> {
    let tag_text = tag.to_string();
    let mut parts = tag_text.split('-');
    let python = parts.next()?;
    let abi = parts.next()?;
    let minor = python.strip_prefix("cp3")?.parse().ok()?;
    (abi != "abi3" && abi != "none").then_some(minor)
}

/// WHEEL agrees with the file name. `Root-Is-Purelib` is true in all our wheels, so that installers
/// unpack them into the same directory (`purelib`).
fn wheel_text(wheel: &WheelFile, findings: &mut Findings) {
    let rule = rule::METADATA_DISAGREES;
    let wheel_file = dist_info(wheel, "WHEEL", rule, findings);
    let tag = wheel.package.filename().and_then(|name| name.tag.as_ref());
    let (Some((path, bytes)), Some(outside)) = (wheel_file, tag) else {
        return;
    };
    let place = PackagePath::new(wheel, path);
    let facts: WheelFacts = match String::from_utf8_lossy(bytes).parse() {
        Ok(facts) => facts,
        Err(error) => return findings.at(rule, place, format!("{error:#}")),
    };
    // Another rule compares the tags of other projects, whose wheels may be for `platlib`.
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

/// Every path in an sdist stays in the directory of the sdist, and its metadata agrees with its file name.
pub(super) fn sdist(sdist: &SdistFile, findings: &mut Findings) {
    let file = sdist.package.file.as_str();
    let project = sdist.package.filename().map(|it| &it.name);
    if let Err(why) = &sdist.package.filename {
        findings.cause(rule::UNREADABLE_PACKAGE, file, None, why);
    }
    match (&sdist.metadata, sdist.package.filename()) {
        (Err(why), _) => findings.cause(rule::UNREADABLE_PACKAGE, file, project, why),
        (Ok(inside), Some(name)) => {
            compare(PackagePath::new(file, "PKG-INFO"), inside, name, findings);
        }
        (Ok(_), None) => {}
    }
    for path in &sdist.contents.escapes {
        let fact = "a symbolic link that leads out of the directory of the sdist";
        findings.at(rule::BAD_PATH, PackagePath::new(file, path), fact);
    }
    if !sdist.copies_agree && sdist.package.is_ours() {
        let fact = "the copies of PKG-INFO differ";
        findings.of(rule::METADATA_DISAGREES, file, fact);
    }
}

/// Whether two wheels can be installed together: they are of different projects, for the same platform.
fn can_be_together(first: &WheelFile, second: &WheelFile) -> bool {
    match (first.project(), second.project()) {
        (Some(first_project), Some(second_project)) => {
            first_project != second_project && is_for_windows(first) == is_for_windows(second)
        }
        // The file name of one wheel is invalid, so its project and platform are unknown.
        _ => first.package.file != second.package.file,
    }
}

/// Each path belongs to one package, because all packages are installed into one directory. No two
/// paths differ in case only.
fn shared_paths(set: &SetFacts, findings: &mut Findings) {
    let mut owners: BTreeMap<&str, (&WheelFile, &MemberFacts)> = BTreeMap::new();
    let mut spellings: BTreeMap<String, &str> = BTreeMap::new();
    for (wheel, member) in set.members() {
        let path = &*member.path;
        let place = PackagePath::new(wheel, path);
        let top = path.split('/').next().unwrap_or_default();
        // A `.dist-info` directory is named after its project: two packages do not share it.
        if top.ends_with(".dist-info") {
            continue;
        }
        let first_spelling = *spellings.entry(path.to_lowercase()).or_insert(path);
        if first_spelling != path {
            let fact = format!("`{first_spelling}` differs in case only");
            findings.at(rule::CASE_CLASH, place, fact);
        }
        let (first_wheel, first_member) = *owners.entry(path).or_insert((wheel, member));
        if can_be_together(first_wheel, wheel) {
            let content = |member: &MemberFacts| {
                let content = member.content.as_ref().ok()?;
                Some((content.sha256, content.len))
            };
            let is_unread = |member: &MemberFacts| {
                member.content.as_ref().is_ok_and(|content| content.is_unread)
            };
            let (rule, what) = if content(first_member) != content(member) {
                (rule::CONFLICTING_PATH, "another file")
            } else if is_unread(member) {
                (rule::SHARED_PATH, "a file of the same size")
            } else {
                (rule::SHARED_PATH, "the same file")
            };
            findings.at(rule, place, format!("`{}` has {what} there", first_wheel.package.file));
        }
    }
}

/// A Windows runner of GitHub can open every path below its `site-packages`.
fn long_paths(set: &SetFacts, findings: &mut Findings) {
    const PREFIX: &str = r"C:\hostedtoolcache\windows\Python\3.12.10\x64\Lib\site-packages";
    /// `MAX_PATH`, without the NUL at the end.
    const MOST: usize = 259;
    let prefix_len = PREFIX.encode_utf16().count() + 1;
    for wheel in set.wheels.iter().filter(|it| is_for_windows(it)) {
        let members = wheel.members.iter().map(|member| member.path.as_str());
        let unpacked = wheel.unpacked().map(|it| it.entry.path.as_str());
        for path in members.chain(unpacked) {
            let len = prefix_len + path.encode_utf16().count();
            if len > MOST {
                let fact = format!("{len} characters in `{PREFIX}`");
                findings.at(rule::LONG_PATH, PackagePath::new(&wheel.package, path), fact);
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
