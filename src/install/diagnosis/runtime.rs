//! What decides at run time: the Python of the environment, the other directories that it imports from, and the
//! variables of the process.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use itertools::Itertools as _;

use super::{Diagnosis, Repair, quoted};
use crate::{
    check::is_library,
    index::is_ours,
    install::{
        runtime::{NamedRocm, RuntimeFacts},
        site_packages::SitePackages,
    },
};
use rocwheel_base::{quantity::many, target::Target};

/// The Python of the environment does not run: the Python that the environment was made with is gone, or stops at
/// `pyvenv.cfg`.
pub(super) fn interpreter(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let defect = match (&site.python.gone, &site.python.unreadable) {
        (Some(program), _) => {
            let shown = program.display();
            format!("`{shown}` does not run: the Python of the environment is gone")
        }
        (None, Some(why)) => format!("the Python of the environment does not run: {why}"),
        (None, None) => return None,
    };
    let fix = match repair.environment() {
        Some(environment) => format!(
            "remove the directory `{}` with everything that others have installed in it, and then: {}",
            environment.display(),
            repair.install("its packages", None)
        ),
        None => "remove the environment, and make it again".to_owned(),
    };
    Some(Diagnosis::new(defect, fix))
}

/// The environment was moved or copied: its programs run another Python.
pub(super) fn moved(site: &SitePackages, repair: &Repair<'_>) -> Option<Diagnosis> {
    let other = site.moved_from.as_ref()?.display();
    let install = repair.environment().map(|_| repair.install("its packages", None));
    let fix = match install {
        Some(command) => format!("{command} --reinstall"),
        None => "make the environment again where it is".to_owned(),
    };
    Some(Diagnosis::new(
        format!(
            "the programs of this environment run the Python in `{other}`: it was moved or copied"
        ),
        fix,
    ))
}

/// Packages of ROCm in two directories. Their files find each other by relative paths, so only in one of them.
pub(super) fn two_sites(site: &SitePackages) -> Option<Diagnosis> {
    let mut sites: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for package in site.packages.iter().filter(|package| is_ours(&package.name)) {
        sites.entry(package.site()).or_default().push(package.name.normalized());
    }
    if sites.len() < 2 {
        return None;
    }
    let mut parts = sites.iter().map(|(place, names)| {
        format!("{} in `{}`", quoted(names.iter().copied()), place.display())
    });
    Some(Diagnosis::new(
        format!("packages of ROCm are in {} directories: {}", sites.len(), parts.join("; ")),
        "keep them in one: make the environment again without `--system-site-packages`, or unset `PYTHONPATH`",
    ))
}

/// Variables that lead programs to another ROCm, or hide GPUs.
pub(super) fn variables(
    site: &SitePackages,
    runtime: &RuntimeFacts,
    targets: &[Target],
    gpus: usize,
) -> Vec<Diagnosis> {
    let mut diagnoses = Vec::new();
    diagnoses.extend(library_path(site, runtime));
    diagnoses.extend(named_rocm(site, runtime));
    diagnoses.extend(gfx_override(runtime, targets));
    diagnoses.extend(hidden_gpus(runtime, gpus));
    diagnoses
}

/// `LD_LIBRARY_PATH` has libraries of the names that packages of ROCm have. The loader looks there first, except for
/// files with `DT_RPATH`, and for libraries that are loaded already.
fn library_path(site: &SitePackages, runtime: &RuntimeFacts) -> Vec<Diagnosis> {
    let ours = site.packages.iter().filter(|package| is_ours(&package.name));
    let files = ours.flat_map(|package| &package.files);
    let names: BTreeSet<&str> =
        files.filter_map(|path| path.rsplit('/').next()).filter(|name| is_library(name)).collect();
    let diagnosis = |(directory, present): &(PathBuf, BTreeSet<String>)| {
        let is_own = directory.starts_with(&site.root) || directory.starts_with(&site.real_root);
        let same: Vec<&str> =
            present.iter().map(String::as_str).filter(|name| names.contains(name)).collect();
        (!is_own && !same.is_empty()).then(|| {
            let shown = directory.display();
            Diagnosis::new(
                format!(
                    "`LD_LIBRARY_PATH` has `{shown}`, from where programs may load {} instead of the libraries of this environment",
                    quoted(same)
                ),
                format!("remove `{shown}` from `LD_LIBRARY_PATH`"),
            )
        })
    };
    runtime.library_path.iter().filter_map(diagnosis).collect()
}

/// A variable names another ROCm, or one that is not there. hipcc, CMake and some libraries look there.
fn named_rocm(site: &SitePackages, runtime: &RuntimeFacts) -> Vec<Diagnosis> {
    let diagnosis = |named: &NamedRocm| {
        let shown = named.directory.display();
        let variable = named.variable;
        let is_own =
            named.directory.starts_with(&site.root) || named.directory.starts_with(&site.real_root);
        let defect = if !named.exists {
            format!("`{variable}` names `{shown}`, which is not there")
        } else if is_own {
            return None;
        } else {
            let version = named.version.as_ref()?;
            let rocm = site.rocm.as_ref().filter(|rocm| *rocm != version)?;
            format!(
                "`{variable}` names `{shown}` with ROCm {version}, and this environment has {rocm}"
            )
        };
        Some(Diagnosis::new(defect, format!("unset `{variable}`")))
    };
    runtime.rocm.iter().filter_map(diagnosis).collect()
}

/// The targets whose code GPUs of these targets load. Users set `HSA_OVERRIDE_GFX_VERSION` for a GPU that no build is
/// for, and name a relative of its generation: `gfx1030` for `gfx1035`.
pub(super) fn acts_as(runtime: &RuntimeFacts, targets: &[Target]) -> Vec<Target> {
    let named = overridden(runtime);
    let act = |target: &Target| match &named {
        Some(named) if generation(named) == generation(target) => named.clone(),
        _ => target.clone(),
    };
    targets.iter().map(act).unique().collect()
}

/// `gfx11` of `gfx1151`: without the digits of minor version and stepping. Before gfx10, no target runs the code of
/// another one, so that each is a generation of its own.
fn generation(target: &Target) -> String {
    let base = target.base().to_string();
    let is_recent = base.starts_with("gfx1") && base.len() > "gfx10".len();
    let shared = base.get(..base.len().saturating_sub(2)).filter(|_| is_recent);
    shared.unwrap_or(&base).to_owned()
}

/// `HSA_OVERRIDE_GFX_VERSION` makes each GPU one of another generation, whose code it cannot run.
fn gfx_override(runtime: &RuntimeFacts, targets: &[Target]) -> Option<Diagnosis> {
    let value = runtime.variables.gfx_override.as_ref()?;
    let named = overridden(runtime);
    let is_relative = |target: &&Target| {
        named.as_ref().is_some_and(|named| generation(named) == generation(target))
    };
    let strangers = targets
        .iter()
        .filter(|target| !is_relative(target))
        .map(|target| format!("`{target}`"))
        .unique()
        .join(", ");
    if strangers.is_empty() {
        return None;
    }
    let acts_as = named.map_or_else(|| "another GPU".to_owned(), |target| format!("`{target}`"));
    Some(Diagnosis::new(
        format!(
            "`HSA_OVERRIDE_GFX_VERSION={value}` makes each GPU act as {acts_as}, and the code for {strangers} is not used"
        ),
        "unset `HSA_OVERRIDE_GFX_VERSION`",
    ))
}

/// The target that `HSA_OVERRIDE_GFX_VERSION` stands for.
fn overridden(runtime: &RuntimeFacts) -> Option<Target> {
    target_of_version(runtime.variables.gfx_override.as_deref()?)
}

/// `gfx90a` for `9.0.10`.
fn target_of_version(version: &str) -> Option<Target> {
    let numbers: Vec<u32> =
        version.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [major, minor, stepping] = numbers[..] else {
        return None;
    };
    format!("gfx{major}{minor:x}{stepping:x}").parse().ok()
}

/// A variable names only GPUs that this machine has not.
fn hidden_gpus(runtime: &RuntimeFacts, gpus: usize) -> Vec<Diagnosis> {
    let diagnosis = |(variable, value): &(&'static str, String)| {
        let is_there = |item: &str| match item.trim().parse::<i64>() {
            Ok(number) => usize::try_from(number).is_ok_and(|number| number < gpus),
            // `GPU-…`, the identity of one.
            Err(_) => true,
        };
        let hides = gpus > 0 && !value.split(',').any(is_there);
        hides.then(|| {
            Diagnosis::new(
                format!("`{variable}={value}` hides {} of this machine", many(gpus, "GPU")),
                format!("unset `{variable}`, or name a GPU of this machine, counted from 0"),
            )
        })
    };
    runtime.variables.visible.iter().filter_map(diagnosis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_for_a_target() {
        let all = ["11.0.0", "9.0.10", "9.4.2", "10.3.0", "x", "11.0"].map(target_of_version);
        let shown = all.map(|target| target.map_or("none".to_owned(), |it| it.to_string()));
        assert_eq!(shown, ["gfx1100", "gfx90a", "gfx942", "gfx1030", "none", "none"]);
    }
}
