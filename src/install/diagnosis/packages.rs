//! Packages that are missing, not what their name says, not whole, or in a wrong version.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::{Diagnosis, Repair, files_are, need, quoted};
use crate::{
    index::is_ours,
    install::{
        installed_package::{DEVICE, InstalledPackage, PackageRemains},
        site_packages::{PLATFORM, SitePackages},
    },
    policy::DistNames,
};
use rocwheel_base::{
    quantity::few,
    target::{Target, TargetTable},
};
use rocwheel_wheel::{DistName, Requirement};

/// The beginning of an extra for the device code of a target: `device-gfx942`.
const DEVICE_EXTRA: &str = "device-";

/// `.dist-info` directories that a removal has left. No installer can remove them, and some fail at them.
pub(super) fn remains(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let diagnosis = |remains: &PackageRemains| {
        let name = &remains.name;
        let info = remains.info.display();
        let install = repair.install_one(name, &format!("`{name}`"), None);
        Diagnosis::new(
            format!("`{name}` was removed in part: `{info}` has no {}", remains.lacks),
            format!("remove the directory `{info}`, and then: {install}"),
        )
    };
    site.remains.iter().map(diagnosis).collect()
}

/// Packages that are there in two versions: each program sees one of them by accident.
pub(super) fn twice(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let judged = site.packages.iter().filter(|package| package.is_of_rocm);
    let by_name =
        judged.into_group_map_by(|package| &package.name).into_iter().sorted_by_key(|it| it.0);
    let diagnosis = |(name, packages): (&DistName, Vec<&InstalledPackage>)| {
        let infos = packages.iter().map(|package| format!("`{}`", package.info.display()));
        let versions = packages.iter().map(|package| &package.version).join(" and ");
        let install = repair.install_one(name, &format!("`{name}`"), None);
        (packages.len() > 1).then(|| {
            Diagnosis::new(
                format!("`{name}` is there {} times, as {versions}", packages.len()),
                format!("remove {}, and then: {install}", infos.collect::<Vec<_>>().join(" and ")),
            )
        })
    };
    by_name.filter_map(diagnosis).collect()
}

/// `rocm` itself was installed here, and is not any more.
pub(super) fn lost_selector(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let selector = &DistNames::built_in().selector;
    // Who removed all of them did it on purpose.
    let has_others = site.packages.iter().any(|package| is_ours(&package.name));
    let is_known = site.remains.iter().any(|remains| remains.name.normalized() == selector)
        || site.named.iter().any(|(name, _)| name.normalized() == selector);
    let version = repair.version().filter(|_| has_others && !is_known)?;
    if site.find(selector).is_some() {
        return None;
    }
    Some(Diagnosis::new(
        format!("`{selector}` {version}, which was installed here, is gone"),
        repair.install(&format!("`{selector}`"), None),
    ))
}

/// A package that has ROCm in it, and another one that brings the same files: the package that was installed last has written
/// over the other one, and to uninstall one of them breaks the other.
pub(super) fn two_rocms(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let (bundling, others): (Vec<_>, Vec<_>) =
        site.packages.iter().partition(|package| package.bundled.is_some());
    let ours = others.into_iter().filter(|package| is_ours(&package.name)).collect_vec();
    let first = bundling.first()?;
    let has = format!("`{}` {} has ROCm in it", first.name, first.version);
    if let Some(second) = bundling.iter().find(|package| package.name != first.name) {
        return Some(Diagnosis::new(
            format!(
                "{has}, and so has `{}` {}: the files of one are written over the files of the other",
                second.name, second.version
            ),
            format!(
                "uninstall `{}` and `{}`, and install one of them again",
                first.name, second.name
            ),
        ));
    }
    if ours.is_empty() {
        return None;
    }
    let names = quoted(ours.iter().map(|package| package.name.normalized()));
    Some(Diagnosis::new(
        format!(
            "{has}, and {names} are installed over it or under it, with files at the same paths"
        ),
        format!(
            "uninstall `{}`, and then: {}; or uninstall {names}, and install `{}` again",
            first.name,
            repair.install("all packages of ROCm again", None),
            first.name
        ),
    ))
}

/// Whether a package is there more than once.
pub(super) fn is_twice(site: &SitePackages, name: &DistName) -> bool {
    site.packages.iter().filter(|package| package.name == *name).count() > 1
}

/// Packages with the name of one of ours, or of a device package, that have nothing of what such a package is.
/// Strangers have uploaded such stubs to PyPI.
pub(super) fn stubs(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let stubs = site.packages.iter().filter(|package| is_stub(package) && !is_emptied(package));
    let diagnosis = |package: &InstalledPackage| {
        let name = &package.name;
        let version = &package.version;
        Diagnosis::new(
            format!("`{name}` {version} is a stub: it has nothing of what such a package is"),
            repair.install_one(name, &format!("`{name}`"), None),
        )
    };
    stubs.map(diagnosis).collect()
}

/// Whether a package lacks what our builder, and TheRock's scripts, put into each package of that name.
pub(super) fn is_stub(package: &InstalledPackage) -> bool {
    let name = package.name.normalized();
    let module = format!("{}/", package.name.filename_form());
    let mut files = package.files.iter().chain(&package.missing);
    if name == DistNames::built_in().selector {
        return !files.any(|path| path == "rocm_sdk/__init__.py");
    }
    if is_ours(&package.name) {
        let tables = format!("{module}_dist_info.py");
        return !files.any(|path| path.starts_with(PLATFORM) || *path == tables);
    }
    // A device package of a framework has its files beside the files of the framework.
    let is_payload = |path: &String| !path.starts_with(&module) && !path.contains(".dist-info/");
    name.contains(DEVICE) && !files.any(is_payload)
}

/// Whether nothing is left of a package: its files were removed, and it is no stub of a stranger.
fn is_emptied(package: &InstalledPackage) -> bool {
    package.files.is_empty() && !package.missing.is_empty()
}

/// Requirements that are not installed, or in another version. A requirement behind an extra counts if a package that
/// is judged asks for the extra, or if `install` did. Extras for GPUs are the subject of [`device_gaps`].
pub(super) fn unmet_requirements(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let mut missing: BTreeMap<&DistName, Unmet> = BTreeMap::new();
    let mut wrong: BTreeMap<(String, String), Unmet<'_>> = BTreeMap::new();
    let extras = asked_extras(site);
    for package in site.packages.iter().filter(|package| package.is_of_rocm) {
        let asked: Vec<&str> = extras
            .get(package.name.normalized())
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        for line in &package.requires {
            // What the environment does not say, such as the release of its kernel, is not held against it.
            let holds = line.marker.evaluate(&site.python, &asked).unwrap_or(false);
            let is_for_gpu =
                line.marker.extras().iter().any(|extra| extra.starts_with(DEVICE_EXTRA));
            if !holds || is_for_gpu {
                continue;
            }
            let by = format!("`{}` {}", package.name, package.version);
            match site.version_of(&line.name) {
                None => {
                    let entry = missing.entry(&line.name).or_default();
                    entry.by.insert(by);
                    entry.line = Some(line);
                }
                // Packages of ROCm in two versions have a rule of `check`.
                Some(_) if is_ours(&package.name) && is_ours(&line.name) => {}
                // A stub has a version of its own, and is said already.
                Some(_) if site.find(line.name.normalized()).is_some_and(is_stub) => {}
                Some(version) if line.allows(version) == Some(false) => {
                    let installed = version.to_string();
                    let entry = wrong.entry((installed, line.to_string())).or_default();
                    entry.by.insert(by);
                    entry.line = Some(line);
                }
                Some(_) => {}
            }
        }
    }
    // What is left of a package that was removed in part is a diagnosis of its own.
    missing.retain(|name, _| !site.remains.iter().any(|remains| remains.name == **name));
    let not_installed = missing.into_iter().map(|(name, Unmet { by, line })| {
        let specifier = line.map(Requirement::specifier).unwrap_or_default();
        let directory = format!("_{}/", name.filename_form());
        // Its `.dist-info` was removed, and its files were not.
        let has_files = site.strays.iter().any(|path| path.starts_with(&directory));
        let but = if has_files { ": only files of it are there" } else { "" };
        Diagnosis::new(
            format!("{} `{name}`{specifier}, which is not installed{but}", need(&by)),
            fix_of(name, line, repair),
        )
    });
    let other_versions = wrong.into_iter().filter_map(|((installed, _), Unmet { by, line })| {
        let name = &line?.name;
        let specifier = line?.specifier();
        Some(Diagnosis::new(
            format!("{} `{name}`{specifier}, and {installed} is installed", need(&by)),
            fix_of(name, line, repair),
        ))
    });
    not_installed.chain(other_versions).collect()
}

/// What brings a package that a line requires. A line that another version of ROCm fulfils is not met by installing
/// the same again.
fn fix_of(name: &DistName, line: Option<&Requirement>, repair: &Repair<'_>) -> String {
    let specifier = line.map(Requirement::specifier).unwrap_or_default();
    let what = format!("`{name}{specifier}`");
    let extras: Vec<String> = line
        .map(|line| line.marker.extras().into_iter().map(str::to_owned).collect())
        .unwrap_or_default();
    match (repair.version(), line) {
        (Some(version), Some(line)) if is_ours(name) && line.allows(version) == Some(false) => {
            format!(
                "install what needs {what} in a build for ROCm {version}, or another version of ROCm"
            )
        }
        _ if is_ours(name) => repair.install_with(&what, None, &extras),
        _ => repair.install_one(name, &what, None),
    }
}

/// A requirement that is not met: who needs it, and the line that says so.
#[derive(Default)]
struct Unmet<'a> {
    by: BTreeSet<String>,
    line: Option<&'a Requirement>,
}

/// Whether the environment has all packages of ROCm that these require, and all their files.
pub(super) fn has_all_of_rocm(site: &SitePackages) -> bool {
    let mut ours = site.packages.iter().filter(|package| is_ours(&package.name));
    let is_whole = |package: &InstalledPackage| {
        let plain = package.requires.iter().filter(|line| line.marker.is_empty());
        let mut required = plain.filter(|line| is_ours(&line.name));
        !is_stub(package)
            && !package.is_damaged()
            && required.all(|line| site.version_of(&line.name).is_some())
    };
    site.remains.is_empty() && ours.all(is_whole)
}

/// The extras that are asked for, of each package by its name.
fn asked_extras(site: &SitePackages) -> BTreeMap<&str, BTreeSet<String>> {
    let mut asked: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    if let Some((_, origin)) = &site.origin {
        let selector = DistNames::built_in().selector.as_str();
        asked.entry(selector).or_default().extend(origin.extras.iter().cloned());
    }
    for package in site.packages.iter().filter(|package| package.is_of_rocm) {
        for line in package.requires.iter().filter(|line| !line.marker.needs_extra()) {
            let extras = line.extras.iter().map(|extra| extra.normalized().to_owned());
            asked.entry(line.name.normalized()).or_default().extend(extras);
        }
    }
    asked
}

/// torch without ROCm in an environment that has ROCm.
pub(super) fn torch(site: &SitePackages) -> Option<Diagnosis> {
    let torch = site.find("torch")?;
    let has_library = |name: &str| torch.files.iter().any(|path| path.contains(name));
    let is_rocm = torch.version.to_string().contains("rocm") || has_library("torch_hip");
    if is_rocm || !site.packages.iter().any(|package| is_ours(&package.name)) {
        return None;
    }
    let version = &torch.version;
    let kind = if has_library("torch_cuda") {
        "CUDA"
    } else if has_library("libtorch") || has_library("torch_cpu") {
        "CPUs"
    } else {
        // Its libraries are elsewhere, as in an editable install.
        return None;
    };
    Some(Diagnosis::new(
        format!("torch {version} is built for {kind}, and not for ROCm"),
        "install a torch that is built for ROCm, from the index of its packages: PyPI has the other one",
    ))
}

/// Device packages for a target that an installed package asks for, and that are missing or have a wrong version. An
/// installed package asks for them by an extra for each target, `device-gfx942`. An extra may need several packages:
/// AMD's torch has one for the target itself, and one for its family.
pub(super) fn device_gaps(
    site: &SitePackages,
    target: &Target,
    repair: &Repair<'_>,
) -> Vec<Diagnosis> {
    let wanted = target.base().to_string();
    let gaps = |package| gaps_of(site, package, &wanted, repair);
    site.packages.iter().flat_map(gaps).collect()
}

fn gaps_of(
    site: &SitePackages,
    package: &InstalledPackage,
    wanted: &str,
    repair: &Repair<'_>,
) -> Vec<Diagnosis> {
    let name = &package.name;
    let version = &package.version;
    let lines = package.requires.iter().flat_map(|line| {
        // A marker that cannot be evaluated counts as met here: the name of the extra says which target the package is
        // for.
        let extras = line
            .marker
            .extras()
            .into_iter()
            .filter(|extra| line.marker.evaluate(&site.python, &[extra]).unwrap_or(true));
        let targets = extras.filter_map(|extra| extra.strip_prefix(DEVICE_EXTRA));
        targets.filter(|target| target.starts_with("gfx")).map(move |target| (target, line))
    });
    // An extra may be for a family: `device-gfx94X-dcgpu`.
    let is_wanted = |name: &str| {
        name == wanted
            || TargetTable::builtin().targets_named(name).iter().any(|it| it.to_string() == wanted)
    };
    let (lines, others): (Vec<_>, Vec<_>) = lines.partition(|(target, _)| is_wanted(target));
    if lines.is_empty() && !others.is_empty() {
        let targets = few(others.into_iter().map(|(target, _)| target.to_owned()).unique());
        return vec![Diagnosis::new(
            format!("`{name}` {version} has no code for `{wanted}`, only for {targets}"),
            format!("install another build of `{name}`, which has `{wanted}`"),
        )];
    }
    let gap = |line: &Requirement| {
        let device = &line.name;
        let target: Option<Target> = wanted.parse().ok();
        let fix = || repair.install_one(device, &format!("`{device}`"), target.as_ref());
        if site.remains.iter().any(|remains| remains.name == *device) {
            return None;
        }
        let Some(installed) = site.version_of(device) else {
            let defect = format!(
                "`{name}` {version} has no code for `{wanted}`: `{device}` is not installed"
            );
            return Some(Diagnosis::new(defect, fix()));
        };
        let is_refused = line.allows(installed) == Some(false);
        let needs = line.pin().map_or_else(|| line.specifier().to_owned(), |pin| pin.to_string());
        let defect =
            format!("`{name}` {version} needs `{device}` {needs}, and {installed} is installed");
        is_refused.then(|| Diagnosis::new(defect, fix()))
    };
    lines.iter().filter_map(|(_, line)| gap(line)).collect()
}

/// Files that RECORD has and the environment has not, or with another size. Packages of ROCm have one command, so
/// they are one diagnosis.
pub(super) fn damage(site: &SitePackages, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let damaged = site
        .packages
        .iter()
        .filter(|package| package.is_damaged() && (is_emptied(package) || !is_stub(package)));
    let (ours, others): (Vec<_>, Vec<_>) = damaged.partition(|package| is_ours(&package.name));
    let damage_of = |package: &InstalledPackage| {
        let lists = [(&package.missing, "missing"), (&package.changed, "changed")];
        let damage = lists
            .iter()
            .filter(|(files, _)| !files.is_empty())
            .map(|(files, what)| files_are(what, files))
            .join("; ");
        format!("`{}` {}: {damage}", package.name, package.version)
    };
    let mut diagnoses = Vec::new();
    if !ours.is_empty() {
        let names = quoted(ours.iter().map(|package| package.name.normalized()));
        let fix = repair.install(&format!("{names} again"), None);
        let facts = ours.iter().map(|package| damage_of(package)).collect();
        diagnoses.push(Diagnosis { facts, fix });
    }
    diagnoses.extend(others.into_iter().map(|package| {
        let what = format!("`{}` {}", package.name, package.version);
        let install = repair.install_one(&package.name, &what, None);
        let Some(other) = &package.replaced_by else {
            return Diagnosis::new(damage_of(package), install);
        };
        Diagnosis::new(
            format!(
                "`{}` {} has replaced files of {}",
                other.name,
                other.version,
                damage_of(package)
            ),
            format!("uninstall `{}`, and then: {install}", other.name),
        )
    }));
    diagnoses
}

impl InstalledPackage {
    /// Whether it has not all files of RECORD as they were installed.
    pub(super) fn is_damaged(&self) -> bool {
        !self.missing.is_empty() || !self.changed.is_empty()
    }
}
