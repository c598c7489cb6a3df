//! Rules about the files that the set's own Python code looks up by name in `_dist_info.py`.

use super::Observed;
use crate::{
    check::{facts::WheelFile, finding::Findings, options::CheckOptions, rule},
    package::{
        Catalog,
        promise::{self, Promise, PromiseKind},
    },
    run::Platform,
};

/// Paths of a package in the form that promises use, and whether each is executable.
type Names<'a> = Vec<(&'a str, bool)>;

/// Each `_dist_info.py` has the promises of all packages; a wheel must keep its own.
pub(super) fn find(seen: &Observed<'_>, _: &CheckOptions, findings: &mut Findings) {
    let platform = match seen.set.platforms().as_slice() {
        ["linux"] => Platform::Linux,
        ["win32"] => Platform::Windows,
        _ => return,
    };
    // Skip packages that could not be read to the end: their files only seem to be missing.
    let is_whole = |it: &WheelFile| {
        let is_tree_whole = it.devel.as_ref().is_none_or(|tree| tree.fault.is_none());
        is_tree_whole && it.members.iter().all(|member| member.content.is_ok())
    };
    let readable = seen.set.wheels.iter().filter(|it| it.is_readable());
    for wheel in readable.filter(|it| is_whole(it)) {
        let Some((text, package)) = dist_info(wheel) else {
            continue;
        };
        match promise::read(text, platform) {
            Ok(promises) => {
                let names = names(wheel);
                for promise in promises.iter().filter(|it| it.package == package) {
                    kept(wheel, promise, &names, platform, findings);
                }
            }
            Err(error) => {
                findings.add(rule::UNKEPT_PROMISE, &wheel.file, format!("{error:#}"));
            }
        }
    }
}

/// The `_dist_info.py` of a wheel, and the package that it names as its own.
fn dist_info(wheel: &WheelFile) -> Option<(&str, &str)> {
    const OWN: &str = "THIS_PACKAGE_ENTRY = ALL_PACKAGES['";
    let text = wheel.tables()?;
    let (_, rest) = text.rsplit_once(OWN)?;
    Some((text, rest.split('\'').next()?))
}

/// The files of ROCm in a wheel and in its development tree, relative to their top directory.
fn names(wheel: &WheelFile) -> Names<'_> {
    let members = wheel.members.iter();
    let members = members.map(|it| (it.path.as_str(), it.mode & 0o111 != 0));
    // Programs in the tree are mostly symlinks to other packages, which have no mode.
    let devel = wheel.unpacked().map(|it| (it.entry.path.as_str(), true));
    let all = members
        .chain(devel)
        .filter(|(path, _)| path.starts_with('_'));
    all.filter_map(|(path, runs)| Some((path.split_once('/')?.1, runs)))
        .collect()
}

/// Whether a file exists for a promise, and is executable if it must be.
fn kept(
    wheel: &WheelFile,
    promise: &Promise,
    names: &Names<'_>,
    platform: Platform,
    findings: &mut Findings,
) {
    let there = names.iter();
    let mut there = there
        .filter(|(path, _)| promise.pattern.matches(path))
        .peekable();
    if there.peek().is_none() {
        let artifact = artifact(promise, platform);
        let artifact = artifact.map_or(String::new(), |it| format!("; artifact `{it}` has it"));
        let fact = format!("its Python needs {promise}, which is missing{artifact}");
        return findings.add(rule::UNKEPT_PROMISE, &wheel.file, fact);
    }
    let is_program = matches!(promise.kind, PromiseKind::Command(_)) && platform == Platform::Linux;
    if let Some((path, _)) = there.find(|(_, runs)| is_program && !runs) {
        let fact = format!(
            "the command `{}` runs `{path}`, which has no execute bits",
            promise.name()
        );
        findings.add(rule::NOT_EXECUTABLE, &wheel.file, fact);
    }
}

/// The artifact that should contain the file, according to the policy.
fn artifact(promise: &Promise, platform: Platform) -> Option<String> {
    let catalog = Catalog::built_in().ok()?;
    let package = catalog.get(&promise.package)?;
    let known = package.promises(platform).into_iter();
    let mut known = known.filter(|it| it.kind == promise.kind && it.name() == promise.name());
    Some(known.next()?.artifact?.to_string())
}
