//! What is wrong with an installed environment: pure, from what was read of it. A [`Diagnosis`] is one cause with its
//! evidence, and what to do about it. What follows from a cause is no diagnosis of its own.
//!
//! Only packages of ROCm are judged, packages with device code, and packages that require ROCm.

mod files;
mod packages;
mod repair;
mod runtime;

use std::collections::BTreeSet;

use self::repair::Repair;
use super::{
    environment::Environment,
    installed_package::InstalledPackage,
    installer::Installer,
    runtime::RuntimeFacts,
    site_packages::{DevelFiles, SitePackages},
};
use crate::{index::is_ours, policy::DistNames};
use rocwheel_base::{
    error::{Hint as _, No, Result, anyhow},
    quantity::{few, shell_word},
    target::Target,
};
use rocwheel_wheel::DistName;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is wrong: a fact, or several with one remedy, such as a fact for each package.
    pub facts: Vec<String>,
    /// What to do: a command that mends it, or a sentence.
    pub fix: String,
}

impl Diagnosis {
    fn new(fact: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { facts: vec![fact.into()], fix: fix.into() }
    }
}

/// What is wrong with an environment whose code should run on GPUs of these targets. `gpus` is how many GPUs this
/// machine has.
pub fn diagnose(
    site: &SitePackages,
    runtime: &RuntimeFacts,
    targets: &[Target],
    gpus: usize,
) -> Vec<Diagnosis> {
    let repair = Repair::new(site);
    let mut diagnoses = Vec::new();
    diagnoses.extend(runtime::interpreter(site, &repair));
    diagnoses.extend(runtime::moved(site, &repair));
    if let Some(two) = packages::two_rocms(site, &repair) {
        // Files that are changed or missing, and packages that do not fit, follow from it.
        diagnoses.push(two);
        return diagnoses;
    }
    diagnoses.extend(packages::remains(site, &repair));
    diagnoses.extend(packages::twice(site, &repair));
    diagnoses.extend(packages::lost_selector(site, &repair));
    diagnoses.extend(packages::stubs(site, &repair));
    diagnoses.extend(packages::unmet_requirements(site, &repair));
    diagnoses.extend(packages::torch(site));
    let acts_as = runtime::acts_as(runtime, targets);
    let gaps: Vec<Diagnosis> =
        acts_as.iter().flat_map(|target| packages::device_gaps(site, target, &repair)).collect();
    let has_code = gaps.is_empty();
    diagnoses.extend(gaps);
    diagnoses.extend(packages::damage(site, &repair));
    let two_sites = runtime::two_sites(site);
    let is_whole = packages::has_all_of_rocm(site);
    // Packages in two directories may have two versions. `two_sites` is the cause then, and the rules of `check` would
    // only report what follows from it.
    if two_sites.is_none() {
        diagnoses.extend(files::findings(site, is_whole, &repair));
    }
    // If packages or files of ROCm are missing, these checks would report what follows from that: libraries that are
    // not found, and files whose package is not listed.
    if is_whole {
        diagnoses.extend(files::host_libraries(site, runtime));
    }
    if is_whole && has_code {
        diagnoses.extend(files::strays(site));
    }
    diagnoses.extend(files::lost_libraries(site));
    diagnoses.extend(files::development_files(site, &repair));
    diagnoses.extend(two_sites);
    if site.packages.iter().any(|package| is_ours(&package.name)) {
        diagnoses.extend(runtime::variables(site, runtime, targets, gpus));
    }
    with_one_fix_each(diagnoses)
}

/// What one command mends is one diagnosis, with all evidence.
fn with_one_fix_each(diagnoses: Vec<Diagnosis>) -> Vec<Diagnosis> {
    let mut merged: Vec<Diagnosis> = Vec::new();
    for diagnosis in diagnoses {
        match merged.iter_mut().find(|other| other.fix == diagnosis.fix) {
            Some(other) => other.facts.extend(diagnosis.facts),
            None => merged.push(diagnosis),
        }
    }
    merged
}

/// The packages that are not as they were installed, or are not what their name says. An installer leaves them
/// alone, because their version is right.
pub fn broken(site: &SitePackages) -> Vec<DistName> {
    let is_broken = |package: &&InstalledPackage| {
        let is_devel = package.name.normalized() == DistNames::built_in().devel;
        let needs_archive = |devel: &DevelFiles| {
            let is_right = devel.is_complete() && site.other_devel_version().is_none();
            !is_right && !devel.has_archive()
        };
        let lacks_files = is_devel && site.devel.as_ref().is_some_and(needs_archive);
        packages::is_stub(package) || package.is_damaged() || lacks_files
    };
    site.packages.iter().filter(is_broken).map(|package| package.name.clone()).collect()
}

/// Fails if a package of an environment has ROCm in it: packages of ROCm would be written over its files.
pub fn ensure_no_other_rocm(
    site: &SitePackages,
    environment: &Environment,
    installer: Installer,
) -> Result<()> {
    let is_beside = |package: &&InstalledPackage| package.site() == site.root;
    let mut bundling = site.packages.iter().filter(|package| package.bundled.is_some());
    let Some(InstalledPackage { name, version, .. }) = bundling.find(is_beside) else {
        return Ok(());
    };
    let python = shell_word(&environment.python().to_string_lossy());
    let uninstall = match installer {
        Installer::Uv => format!("uv pip uninstall --python {python} {name}"),
        Installer::Pip => format!("{python} -m pip uninstall {name}"),
    };
    let refusal = format!(
        "`{name}` {version} in `{}` has ROCm in it, and packages of ROCm would overwrite its files",
        environment.root().display()
    );
    Err(anyhow!(No(refusal)))
        .hint(format!("name another environment with `--venv`, or first run `{uninstall}`"))
}

/// `` `a`, `b` and 3 more``
fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let sorted = names.into_iter().collect::<BTreeSet<&str>>();
    few(sorted.into_iter().map(|name| format!("`{name}`")))
}

/// ``1 file is missing: `a` ``, or `2 files are missing: …`.
fn files_are(what: &str, files: &[String]) -> String {
    let names = few(files.iter().map(|file| format!("`{file}`")));
    match files.len() {
        1 => format!("1 file is {what}: {names}"),
        count => format!("{count} files are {what}: {names}"),
    }
}

/// `a needs`, `a and b need`.
fn need(names: &BTreeSet<String>) -> String {
    let verb = if names.len() == 1 { "needs" } else { "need" };
    format!("{} {verb}", few(names.iter().cloned()))
}
