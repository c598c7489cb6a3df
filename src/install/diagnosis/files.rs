//! Files that disagree: libraries that are not found, archives that hide others, development files of another
//! version.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use itertools::Itertools as _;

use super::{
    Diagnosis, Repair, files_are,
    packages::{is_stub, is_twice},
};
use crate::{
    check::{CheckOptions, Finding, Judgement, Rule, RuleSelection, SetFacts, install_tree, judge},
    index::is_ours,
    install::{
        installed_package::InstalledPackage, runtime::RuntimeFacts, site_packages::SitePackages,
    },
    policy::DistNames,
};
use rocwheel_base::quantity::{few, shell_word};
use rocwheel_elf::loader::missing_libraries;

/// The rules of `check` that make sense for installed packages: device code that is not found or cannot be used, and
/// run paths that lead elsewhere.
const RULES: [&str; 5] = ["RW306", "RW308", "RW314", "RW601", "RW602"];
/// Packages of two versions. Everything else may follow from that.
const VERSIONS: &str = "RW204";
/// More findings of one kind are counted.
const MOST: usize = 5;

/// What the rules of `check` say about the ROCm packages. If files of ROCm are missing, only whether versions differ.
pub(super) fn findings(site: &SitePackages, is_whole: bool, repair: &Repair<'_>) -> Vec<Diagnosis> {
    let rules = RULES.iter().filter(|_| is_whole).chain([&VERSIONS]);
    let options = CheckOptions {
        selection: RuleSelection {
            select: rules.filter_map(|rule| rule.parse().ok()).collect(),
            ..RuleSelection::default()
        },
        ..CheckOptions::default()
    };
    let Judgement { report, .. } = judge(&set_of(site), &options, Vec::new());
    let mut diagnoses = Vec::new();
    for (rule, mut findings) in report.by_rule() {
        // That a package is there in two versions is a cause of its own.
        findings.retain(|finding| {
            let package = finding.file.as_ref().and_then(|file| package_of(site, file));
            let is_said =
                |package: &InstalledPackage| is_twice(site, &package.name) || is_stub(package);
            rule.id != VERSIONS || package.is_none_or(|package| !is_said(package))
        });
        if !findings.is_empty() {
            diagnoses.push(of_rule(rule, &findings, site, repair));
        }
    }
    diagnoses
}

fn of_rule(
    rule: &Rule,
    findings: &[&Finding],
    site: &SitePackages,
    repair: &Repair<'_>,
) -> Diagnosis {
    let shown = findings.iter().take(MOST).map(|finding| {
        let package = finding.file.as_ref().map(|file| name_of(site, file));
        match finding.member.as_ref().or(package.as_ref()) {
            Some(place) => format!("`{place}`: {}", finding.text()),
            None => finding.text(),
        }
    });
    let hidden = findings.len().saturating_sub(MOST);
    let more = (hidden > 0).then(|| format!("and {hidden} more"));
    let defect = format!("{} ({})", shown.chain(more).join("; "), rule.id);
    // The files are as the package ships them. Installing the same package again would change nothing.
    let fix = if rule.id == VERSIONS {
        repair.install("all packages of ROCm in one version", None)
    } else {
        let files = findings.iter().filter_map(|finding| finding.file.as_ref());
        let packages = files.map(|file| format!("`{}`", name_of(site, file))).unique().join(", ");
        format!(
            "no install of the same packages mends this, because it is in the files of {packages}: install another build of it"
        )
    };
    Diagnosis::new(defect, fix)
}

/// The installed package of which facts have the name of the wheel.
fn package_of<'a>(site: &'a SitePackages, file: &str) -> Option<&'a InstalledPackage> {
    site.packages.iter().find(|package| package.wheel.package.file == file)
}

fn name_of(site: &SitePackages, file: &str) -> String {
    package_of(site, file).map_or_else(|| file.to_owned(), |package| package.name.to_string())
}

fn set_of(site: &SitePackages) -> SetFacts {
    let ours = site.packages.iter().filter(|package| is_ours(&package.name));
    SetFacts {
        wheels: ours.map(|package| Arc::clone(&package.wheel)).collect(),
        ..SetFacts::default()
    }
}

/// Libraries that packages of ROCm need, and that neither they nor this machine have.
pub(super) fn host_libraries(site: &SitePackages, runtime: &RuntimeFacts) -> Vec<Diagnosis> {
    let set = set_of(site);
    let names: BTreeSet<&str> = set
        .wheels
        .iter()
        .flat_map(|wheel| &wheel.members)
        .filter_map(|member| member.path.rsplit('/').next())
        .collect();
    let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for library in missing_libraries(&install_tree(&set)) {
        // What a package has may be found once another library is loaded.
        let is_known = library.is_found_with_others || names.contains(library.name.as_str());
        if !is_known && !runtime.has_library(&library.name) {
            needed.entry(library.name).or_default().insert(library.path);
        }
    }
    let diagnosis = |(name, files): (String, BTreeSet<String>)| {
        let files = few(files.iter().map(|file| format!("`{file}`")));
        Diagnosis::new(
            format!("this machine does not have `{name}`, which {files} loads"),
            format!("install the package of this machine's system that has `{name}`"),
        )
    };
    needed.into_iter().map(diagnosis).collect()
}

/// Libraries and archives that no package has, in the directories of packages: of an older version, or of a copy by
/// hand.
pub(super) fn strays(site: &SitePackages) -> Vec<Diagnosis> {
    let mut directories: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for path in &site.strays {
        let top = path.split('/').next().unwrap_or_default();
        directories.entry(top).or_default().push(path.clone());
    }
    // If only the `.dist-info` of a package is gone, its files are no strays: `packages::unmet_requirements` reports that
    // the package is missing.
    let is_needed = |top: &str| {
        let mut lines = site.packages.iter().flat_map(|package| &package.requires);
        lines.any(|line| {
            let is_installed = site.find(line.name.normalized()).is_some();
            !is_installed && format!("_{}", line.name.filename_form()) == top
        })
    };
    let remains = |top: &str| {
        site.remains.iter().any(|remains| format!("_{}", remains.name.filename_form()) == top)
    };
    let left = directories.into_iter().filter(|(top, _)| !is_needed(top) && !remains(top));
    let diagnosis = |(top, files): (&str, Vec<String>)| {
        let place = site.root.join(top);
        Diagnosis::new(
            format!(
                "{}, and the loader or the runtime may find them",
                files_are("of no installed package", &files)
            ),
            format!("remove what no package has from `{}`", place.display()),
        )
    };
    left.map(diagnosis).collect()
}

/// The development files, if they are not complete, or of another version than their package. `rocm-sdk init` unpacks
/// the archive that an install brings.
pub(super) fn development_files(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let devel = site.devel.as_ref()?;
    if devel.present.files == 0 && devel.has_archive() {
        // An installer has left directories. The first program that needs the files unpacks them.
        return None;
    }
    let name = &DistNames::built_in().devel;
    let directory = devel.directory.display();
    let Some(package) = site.find(name) else {
        return Some(Diagnosis::new(
            format!("`{directory}` has development files, and `{name}` is not installed"),
            format!(
                "remove `{directory}`, or install `{name}` from the index that this ROCm came from"
            ),
        ));
    };
    let fact = match site.other_devel_version() {
        Some(version) => format!(
            "the development files are of ROCm {version}, and `{name}` is {}",
            package.version
        ),
        None if devel.is_complete() => return None,
        None => {
            let wanted = devel.wanted.unwrap_or_default();
            format!(
                "the development files are not complete: {} of {} files, {} of {} bytes",
                devel.present.files, wanted.files, devel.present.bytes, wanted.bytes
            )
        }
    };
    let init = match repair.environment() {
        // The programs of an environment that was copied run another Python.
        Some(environment) => {
            let program = if cfg!(windows) { "Scripts/python" } else { "bin/python" };
            let python = shell_word(&environment.join(program).to_string_lossy());
            format!("{python} -m rocm_sdk init")
        }
        None => "rocm-sdk init".to_owned(),
    };
    Some(match (devel.has_archive(), repair.environment()) {
        (true, _) => Diagnosis::new(fact, init),
        (false, Some(_)) => {
            Diagnosis::new(fact, format!("{} && {init}", repair.install(name, None)))
        }
        (false, None) => {
            let install = repair.install(&format!("`{name}` again"), None);
            Diagnosis::new(fact, format!("{install}; then `{init}` unpacks them"))
        }
    })
}

/// Libraries of others with run paths of the machine that built them, which do not find a library that
/// a ROCm package has.
pub(super) fn lost_libraries(site: &SitePackages) -> Vec<Diagnosis> {
    let (ours, others): (Vec<_>, Vec<_>) =
        site.packages.iter().partition(|package| is_ours(&package.name));
    let provided: BTreeSet<&str> =
        ours.iter().flat_map(|package| &package.files).map(String::as_str).collect();
    let diagnosis = |package: &InstalledPackage| {
        let lost = lost_in(package, &provided, site);
        let name = &package.name;
        let version = &package.version;
        (!lost.is_empty()).then(|| {
            Diagnosis::new(
                format!("`{name}` {version}: {}", few(lost.into_iter())),
                format!("tie the wheel of `{name}` to this ROCm with `rocwheel framework tie`, and install that"),
            )
        })
    };
    others.into_iter().filter_map(diagnosis).collect()
}

/// What the libraries of a package look for in a directory of another machine, although `provided`, or the package
/// itself, has it.
fn lost_in(
    package: &InstalledPackage,
    provided: &BTreeSet<&str>,
    site: &SitePackages,
) -> Vec<String> {
    let names: BTreeSet<&str> =
        provided.iter().filter_map(|path| path.rsplit('/').next()).collect();
    let bundled: BTreeSet<&str> =
        package.files.iter().filter_map(|path| path.rsplit('/').next()).collect();
    let is_in_site = |entry: &str| {
        let path = Path::new(entry);
        path.starts_with(&site.root) || path.starts_with(&site.real_root)
    };
    let mut lost = Vec::new();
    for member in &package.wheel.members {
        let elf = member.content.as_ref().ok().and_then(|content| content.elf());
        let Some((elf, run_path)) = elf.and_then(|elf| Some((elf, elf.facts.run_path()?))) else {
            continue;
        };
        // Built against this environment.
        if run_path.split(':').any(is_in_site) {
            continue;
        }
        let mut absolute = run_path.split(':').filter(|entry| entry.starts_with('/'));
        let of_rocm = absolute.clone().find(|entry| entry.contains("rocm"));
        let Some(absolute) = of_rocm.or_else(|| absolute.next()) else {
            continue;
        };
        let directory = member.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let is_reached = |name: &str| {
            let relative = run_path.split(':').filter_map(|entry| {
                entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))
            });
            let mut places = relative.map(|entry| normal(&format!("{directory}{entry}/{name}")));
            places.any(|place| provided.contains(place.as_str()))
        };
        let is_lost =
            |name: &&str| names.contains(name) && !bundled.contains(name) && !is_reached(name);
        let needed = elf.facts.needed.iter().map(|name| &**name).filter(is_lost);
        lost.extend(
            needed.map(|name| format!("`{}` looks for `{name}` in `{absolute}`", member.path)),
        );
    }
    lost
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
