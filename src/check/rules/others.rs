//! Rules about packages of other projects. Each project tests its own packages, so no rule is about the code
//! in them. But they are published beside our packages, and installed into the same environment. So each
//! package must be what its name says, every installer must be able to read it, and it must leave the files
//! of ROCm alone.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pep440_rs::VersionSpecifiers;

use super::{Observed, python, valid};
use crate::{
    check::{
        facts::{CheckedPackage, MemberFacts, SdistFile, WheelFile},
        path_facts::has_extension,
        rule::{self, Finding, Findings, PackagePath},
    },
    index::is_directory_of_ours,
    policy::catalog::CATALOG,
};
use rocwheel_base::version::Version;
use rocwheel_wheel::{
    DistName, InstalledPlace, Metadata, PackageFilename, Requirement, Tag, dist_info::WheelFacts,
    installed_place,
};

/// A `.pth` file that is known to come with a project of another name: setuptools has had it for years.
const KNOWN_PTH: &str = "distutils-precedence.pth";

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.all;
    let bundling: Vec<&WheelFile> = others_with_rocm(set.wheels.iter().map(|it| &**it)).collect();
    findings.extend(conflicting_bundles(&bundling));
    let has_ours = set.packages().any(CheckedPackage::is_ours);
    for wheel in bundling.iter().filter(|_| has_ours) {
        let fact = "it has ROCm in it, and the set has packages of ROCm, which installers would write over it: publish \
                    it in an index without them";
        findings.of(rule::CONFLICTING_PATH, &wheel.package.file, fact);
    }
    let bundling: BTreeSet<&str> =
        bundling.iter().map(|wheel| wheel.package.file.as_str()).collect();
    for wheel in set.wheels.iter().filter(|it| !it.package.is_ours()) {
        let mut defects = Findings::default();
        valid::archive(wheel, &mut defects);
        report_damage(defects, findings);
        // One finding says that a wheel has ROCm in it, and not one for each of its files.
        let has_rocm = bundling.contains(wheel.package.file.as_str());
        findings.extend(defects_beside_ours(wheel, &|_, _| has_rocm));
    }
    for sdist in set.sdists.iter().filter(|it| !it.package.is_ours()) {
        let mut defects = Findings::default();
        valid::sdist(sdist, &mut defects);
        report_damage(defects, findings);
        top_directory(sdist, findings);
        if let Ok(metadata) = &sdist.metadata {
            requirements(PackagePath::new(&sdist.package, "PKG-INFO"), metadata, findings);
        }
    }
}

/// The wheels that have ROCm in them.
pub fn others_with_rocm<'a>(
    wheels: impl Iterator<Item = &'a WheelFile>,
) -> impl Iterator<Item = &'a WheelFile> {
    wheels.filter(|wheel| !wheel.package.is_ours() && wheel.bundled_rocm().is_some())
}

/// The wheels of several projects that have ROCm in them: each one would overwrite the files of the others.
pub fn conflicting_bundles(bundling: &[&WheelFile]) -> Vec<Finding> {
    let finding = |wheel: &&WheelFile| {
        let other = bundling.iter().find(|other| other.project() != wheel.project())?;
        let fact = format!(
            "it has ROCm in it, and so has `{}`: let one of the two require the other (`framework tie --bundle`)",
            other.package.file
        );
        Some(Finding::new(rule::CONFLICTING_PATH, fact).in_file(&wheel.package.file))
    };
    bundling.iter().filter_map(finding).collect()
}

/// Reports the defects of a package of another project that make installers fail.
fn report_damage(defects: Findings, findings: &mut Findings) {
    let damage = defects
        .into_vec()
        .into_iter()
        .filter(|it| it.rule.is_damage || it.rule == rule::METADATA_DISAGREES)
        .map(|defect| Finding { rule: rule::DAMAGED_FOREIGN_PACKAGE, ..defect })
        .collect();
    findings.extend(damage);
}

/// The defects of a wheel of another project that is installed beside ROCm's packages. `may_have` says whether the wheel
/// may have a member, which is installed at a path, in a directory of these packages.
pub fn defects_beside_ours(
    wheel: &WheelFile,
    may_have: &dyn Fn(&str, &MemberFacts) -> bool,
) -> Vec<Finding> {
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
                (is_directory_of_ours(top) && !may_have(path, member))
                    .then(|| format!("`{top}` is a directory of ROCm's packages"))
            }
            InstalledPlace::Scripts(name) => command_of_ours(name),
            InstalledPlace::Elsewhere => None,
        };
        if let Some(fact) = fact {
            findings.at(rule::CONFLICTING_PATH, place, fact);
        }
    }
    if let Some((path, entry_points)) = wheel.dist_info("entry_points.txt") {
        let names = python::script_names(entry_points);
        let facts = names.iter().filter_map(|name| command_of_ours(name));
        findings.at_each(rule::CONFLICTING_PATH, PackagePath::new(wheel, path), facts);
    }
    tags(wheel, &mut findings);
    if let Some((path, _)) = wheel.dist_info("METADATA")
        && let Some(metadata) = wheel.metadata()
    {
        requirements(PackagePath::new(wheel, path), &metadata, &mut findings);
    }
    findings.into_vec()
}

/// The fact that a script has the name of a command of ours, if it has.
fn command_of_ours(script: &str) -> Option<String> {
    let file_name = script.to_ascii_lowercase();
    let command = file_name.strip_suffix(".exe").unwrap_or(&file_name);
    let mut scripts_of_ours = CATALOG.packages().iter().flat_map(|package| &package.scripts);
    let is_ours = scripts_of_ours.any(|script| script.name.eq_ignore_ascii_case(command));
    is_ours.then(|| format!("`{command}` is a command of ROCm's packages"))
}

/// Whether a path in `site-packages` is a `.pth` file that Python reads: one in no subdirectory.
fn is_path_file(path: &str) -> bool {
    !path.contains('/') && has_extension(path, "pth")
}

/// Whether the name of a `.pth` file contains the name of its project, as `a1_coverage.pth` does in `coverage`.
fn is_named_after(path: &str, wheel: &WheelFile) -> bool {
    let letters = |text: &str| text.to_ascii_lowercase().replace(['-', '_', '.'], "");
    let project = wheel.project().map(letters);
    path == KNOWN_PTH || project.is_some_and(|project| letters(path).contains(&project))
}

/// WHEEL names the same tags as the file.
fn tags(wheel: &WheelFile, findings: &mut Findings) {
    let file_tag = wheel.package.filename().and_then(|name| name.tag.as_ref());
    let (Some((path, bytes)), Some(file_tag)) = (wheel.dist_info("WHEEL"), file_tag) else {
        return;
    };
    // RW124 says that WHEEL cannot be read.
    let Ok(facts) = String::from_utf8_lossy(bytes).parse::<WheelFacts>() else {
        return;
    };
    let inside: BTreeSet<String> =
        facts.tags.iter().flat_map(Tag::expand).map(|tag| tag.to_string()).collect();
    let outside: BTreeSet<String> = file_tag.expand().iter().map(ToString::to_string).collect();
    if inside != outside {
        let fact = format!(
            "its tags are `{}`, and those of the file name `{}`",
            inside.iter().join(" "),
            outside.iter().join(" "),
        );
        findings.at(rule::ODD_FOREIGN_PACKAGE, PackagePath::new(wheel, path), fact);
    }
}

/// Installers understand each requirement, and `Requires-Python`.
fn requirements(place: PackagePath<'_>, metadata: &Metadata, findings: &mut Findings) {
    for line in &metadata.requires_dist {
        let Ok(requirement) = line.parse::<Requirement>() else {
            let fact = format!("no requirement: {line:?}");
            findings.at(rule::DAMAGED_FOREIGN_PACKAGE, place, fact);
            continue;
        };
        // RW129 and RW130 say that most installers cannot read it.
        if requirement.marker.names_variants() {
            continue;
        }
        if let Err(error) = requirement.ensure_exact() {
            let fact = format!("the requirement {line:?}: {error:#}");
            findings.at(rule::ODD_FOREIGN_PACKAGE, place, fact);
        }
    }
    let Some(requires_python) = &metadata.requires_python else {
        return;
    };
    // pip ignores what it does not understand, and refuses a package that is for no Python.
    if requires_python.parse::<VersionSpecifiers>().is_err() {
        let fact = format!("`Requires-Python: {requires_python}` is not understood");
        findings.at(rule::ODD_FOREIGN_PACKAGE, place, fact);
    } else if let Some(fact) = valid::requires_python(metadata) {
        findings.at(rule::DAMAGED_FOREIGN_PACKAGE, place, fact);
    }
}

/// An sdist has one directory, `{name}-{version}`, in which installers build its wheel.
fn top_directory(sdist: &SdistFile, findings: &mut Findings) {
    let tops = &sdist.contents.tops;
    let Some(name) = sdist.package.filename() else { return };
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
