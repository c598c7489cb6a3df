//! Rules about packages of other projects. Each project tests its own packages, so no rule is about the code
//! in them. But they are published beside ours, and installed into the same environment: each must be what
//! its name says, be readable by every installer, and leave the files of ROCm alone.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pep440_rs::VersionSpecifiers;

use super::{Observed, python, valid};
use crate::{
    check::{
        facts::{SdistFile, WheelFile},
        path_facts::has_extension,
        rule::{self, Finding, Findings, PackagePath},
    },
    index::is_ours,
    policy::catalog::CATALOG,
    version::Version,
    wheel::{
        DistName, InstalledPlace, Metadata, PackageFilename, Requirement, Tag,
        dist_info::WheelFacts, installed_place,
    },
};

/// A `.pth` file that is known to come with a project of another name: setuptools has had it for years.
const KNOWN_PTH: &str = "distutils-precedence.pth";

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.all;
    for wheel in set.wheels.iter().filter(|it| !it.package.is_ours()) {
        let mut defects = Findings::default();
        valid::archive(wheel, &mut defects);
        damaged(defects, findings);
        findings.extend(beside_ours(wheel));
    }
    for sdist in set.sdists.iter().filter(|it| !it.package.is_ours()) {
        let mut defects = Findings::default();
        valid::sdist(sdist, &mut defects);
        damaged(defects, findings);
        top_directory(sdist, findings);
        if let Ok(metadata) = &sdist.metadata {
            requirements(PackagePath::new(&sdist.package, "PKG-INFO"), metadata, findings);
        }
    }
}

/// Reports the defects of a package of another project that make installers fail.
fn damaged(defects: Findings, findings: &mut Findings) {
    let mut defects = defects.into_vec();
    defects.retain(|it| it.rule.is_damage || it.rule == rule::METADATA_DISAGREES);
    for finding in &mut defects {
        finding.rule = rule::DAMAGED_FOREIGN_PACKAGE;
    }
    findings.extend(defects);
}

/// What is wrong with a wheel of another project in an environment that ROCm's packages are in.
pub fn beside_ours(wheel: &WheelFile) -> Vec<Finding> {
    let mut findings = Findings::default();
    for member in &wheel.members {
        let place = PackagePath::new(wheel, member);
        let fact = match installed_place(&member.path) {
            InstalledPlace::Packages(path) => {
                let top = path.split('/').next().unwrap_or_default();
                if is_path_file(path) && !is_named_after(path, wheel) {
                    let fact = "Python reads it each time it starts";
                    findings.at(rule::ODD_FOREIGN_PACKAGE, place, fact);
                }
                is_directory_of_ours(top)
                    .then(|| format!("`{top}` is a directory of ROCm's packages"))
            }
            InstalledPlace::Scripts(name) => command_of_ours(name),
            InstalledPlace::Elsewhere => None,
        };
        if let Some(fact) = fact {
            findings.at(rule::CONFLICTING_PATH, place, fact);
        }
    }
    if let Some((path, text)) = wheel.dist_info("entry_points.txt") {
        let facts = python::script_names(text);
        let facts = facts.iter().filter_map(|name| command_of_ours(name));
        findings.at_each(rule::CONFLICTING_PATH, PackagePath::new(wheel, path), facts);
    }
    tags(wheel, &mut findings);
    if let Some((path, metadata)) = wheel.dist_info("METADATA").map(|it| it.0).zip(wheel.metadata())
    {
        requirements(PackagePath::new(wheel, path), &metadata, &mut findings);
    }
    findings.into_vec()
}

/// Whether packages of ours are installed below this directory of `site-packages`. Some disks do not
/// distinguish case.
fn is_directory_of_ours(top: &str) -> bool {
    let top = top.to_ascii_lowercase();
    let mut packages = CATALOG.packages().iter();
    // The files of `rocm-sdk-core` are in `_rocm_sdk_core`, and its Python module is `rocm_sdk_core`.
    let project = top.strip_prefix('_').and_then(|it| it.parse::<DistName>().ok());
    packages.any(|it| it.python == top) || project.is_some_and(|it| is_ours(&it))
}

fn command_of_ours(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let mut scripts = CATALOG.packages().iter().flat_map(|it| &it.scripts);
    let is_it = scripts.any(|it| it.name.eq_ignore_ascii_case(name));
    is_it.then(|| format!("`{name}` is a command of ROCm's packages"))
}

/// Whether it is a `.pth` file directly in `site-packages`.
fn is_path_file(path: &str) -> bool {
    !path.contains('/') && has_extension(path, "pth")
}

/// Whether the name of a file has the name of its project in it, as `a1_coverage.pth` of `coverage`.
fn is_named_after(path: &str, wheel: &WheelFile) -> bool {
    let letters = |text: &str| text.to_ascii_lowercase().replace(['-', '_', '.'], "");
    let project = wheel.project().map(letters);
    path == KNOWN_PTH || project.is_some_and(|it| letters(path).contains(&it))
}

/// WHEEL names the same tags as the file.
fn tags(wheel: &WheelFile, findings: &mut Findings) {
    let outside = wheel.package.identity().and_then(|it| it.tag.as_ref());
    let (Some((path, text)), Some(outside)) = (wheel.dist_info("WHEEL"), outside) else {
        return;
    };
    // RW124 says that WHEEL cannot be read.
    let Ok(facts) = String::from_utf8_lossy(text).parse::<WheelFacts>() else {
        return;
    };
    let inside: BTreeSet<String> =
        facts.tags.iter().flat_map(Tag::expand).map(|it| it.to_string()).collect();
    let outside: BTreeSet<String> = outside.expand().iter().map(ToString::to_string).collect();
    if inside != outside {
        let inside = inside.iter().join(" ");
        let outside = outside.iter().join(" ");
        let fact = format!("its tags are `{inside}`, and those of the file name `{outside}`");
        findings.at(rule::ODD_FOREIGN_PACKAGE, PackagePath::new(wheel, path), fact);
    }
}

/// Installers understand each requirement, and `Requires-Python`.
fn requirements(place: PackagePath<'_>, metadata: &Metadata, findings: &mut Findings) {
    for text in &metadata.requires_dist {
        let Ok(requirement) = text.parse::<Requirement>() else {
            let fact = format!("no requirement: {text:?}");
            findings.at(rule::DAMAGED_FOREIGN_PACKAGE, place, fact);
            continue;
        };
        if let Err(error) = requirement.ensure_exact() {
            let fact = format!("the requirement {text:?}: {error:#}");
            findings.at(rule::ODD_FOREIGN_PACKAGE, place, fact);
        }
    }
    let Some(text) = &metadata.requires_python else {
        return;
    };
    if text.parse::<VersionSpecifiers>().is_err() {
        let fact = format!("`Requires-Python: {text}` is not understood");
        findings.at(rule::ODD_FOREIGN_PACKAGE, place, fact);
    } else if let Some(fact) = valid::requires_python(metadata) {
        findings.at(rule::DAMAGED_FOREIGN_PACKAGE, place, fact);
    }
}

/// Installers unpack an sdist, and go on in its only directory, `{name}-{version}`.
fn top_directory(sdist: &SdistFile, findings: &mut Findings) {
    let tops = &sdist.contents.tops;
    let Some(name) = sdist.package.identity() else { return };
    match tops.iter().collect_vec().as_slice() {
        [] => {}
        [top] if is_top_of(top, name) => {}
        [top] => {
            let fact = format!("its directory is `{top}`, and not `{}`", name.top());
            findings.of(rule::ODD_FOREIGN_PACKAGE, &sdist.package.file, fact);
        }
        tops => {
            let tops = rule::some(tops, 3);
            let fact = format!("it has {tops} at its top, and not one directory");
            findings.of(rule::DAMAGED_FOREIGN_PACKAGE, &sdist.package.file, fact);
        }
    }
}

/// Whether a directory has the name and the version of a package, in any spelling.
fn is_top_of(top: &str, name: &PackageFilename) -> bool {
    let Some((project, version)) = top.rsplit_once('-') else {
        return false;
    };
    let is_version = version.parse::<Version>().is_ok_and(|it| it == name.version);
    is_version && project.parse::<DistName>().is_ok_and(|it| it == name.name)
}
