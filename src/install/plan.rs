//! [`Plan`]: everything that an install will do, decided before anything is touched. It is what
//! `--dry-run` prints.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    Request,
    environment::{Action, Environment},
    installed_package::DEVICE,
    installer::{CommandLine, Installer, source_arguments},
    origin::InstallOrigin,
    requirements::{Pinned, Requirements},
    select::{self, RocmSelection, no},
};
use crate::{
    console::World,
    index::is_ours,
    place::{OfferedFile, OfferedSet, PackageSource, ServedDigests, SetPlace, urls_of_directory},
    policy::DistNames,
    run::ArtifactGroup,
};
use rocwheel_base::{error::Result, target::Target, version::Version};
use rocwheel_wheel::{DistName, Metadata, Requirement};

/// Where most people get all other packages, and where a stranger may have uploaded any name.
const REGISTRY: &str = "pypi.org";

/// What was observed before the decision.
#[derive(Debug)]
pub struct Facts<'a> {
    pub offered: &'a OfferedSet,
    /// `rocm` in the version to install, and what is asked for of it.
    pub rocm: Option<(Metadata, RocmSelection)>,
    /// The metadata of each package that the user asks for, if the source offers it.
    pub packages: Vec<(Requirement, Option<Metadata>)>,
    pub environment: &'a Environment,
    pub action: Action,
    /// What an existing environment has.
    pub installed: &'a [Metadata],
    /// Which of these are stubs or damaged.
    pub broken: Vec<DistName>,
    /// The SET argument that names the source from any directory.
    pub source: String,
    /// The Python of a new environment, by its version or its path. `None` for the usual one.
    pub python: Option<String>,
    pub installer: Installer,
}

/// A decided install.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    schema: &'static str,
    pub source: String,
    /// The version of ROCm. `None` for packages of others.
    pub version: Option<Version>,
    pub targets: Vec<Target>,
    /// The family whose packages are installed, of a set with an index for each.
    pub family: Option<String>,
    #[serde(rename = "venv")]
    pub environment: PathBuf,
    pub action: Action,
    /// The Python of a new environment, if the user names one.
    pub python: Option<String>,
    pub installer: Installer,
    pub(super) requirements: Vec<String>,
    /// Every project that the source offers, with the digests that it promises.
    pub(super) pins: Vec<Pinned>,
    /// The arguments that say where packages are.
    pub(super) sources: Vec<String>,
    #[serde(skip)]
    pub(super) places: Vec<PackageSource>,
    /// The address of a file of each project that the source offers.
    #[serde(skip)]
    pub(super) addresses: BTreeMap<DistName, String>,
    /// The files of ROCm that are installed, as far as the source tells.
    pub files: Vec<OfferedFile>,
    /// The packages that are installed again although the environment has them, because they are stubs or
    /// damaged.
    pub(super) reinstalled: Vec<DistName>,
    /// Whether all packages are installed again.
    pub(super) reinstalls_all: bool,
    /// What is written into the environment.
    pub origin: InstallOrigin,
    /// The interpreter of the environment.
    #[serde(skip)]
    pub(super) own_python: PathBuf,
    /// Everything that is installed, if no installer has to be asked for that.
    #[serde(skip)]
    pub(super) exact: Option<Requirements>,
}

/// Decides what an install does.
pub fn plan(request: &Request, facts: Facts<'_>) -> Result<Plan> {
    let offered = facts.offered;
    let rocm = facts.rocm.as_ref().map(|(metadata, _)| metadata);
    let selection = facts.rocm.as_ref().map(|(_, selection)| selection.clone()).unwrap_or_default();
    let family = selection.family.as_ref();
    let pins = select::pins(offered, family, rocm, &request.packages);
    let mut projects = selection.projects.clone();
    projects.extend(rocm.map(|rocm| rocm.name.clone()));
    let requirements = plan_requirements(request, &facts, &selection, &pins)?;
    ensure_fits(&facts, &projects, &pins)?;
    let mut exact = Vec::new();
    for pin in pins.iter().filter(|pin| projects.contains(&pin.project)) {
        let is_rocm = rocm.is_some_and(|rocm| rocm.name == pin.project);
        let extras = if is_rocm { selection.extras.join(",") } else { String::new() };
        exact.push(Pinned { extras, ..pin.clone() });
    }
    let mut files: Vec<OfferedFile> = Vec::new();
    if let Some(rocm) = rocm {
        for project in &projects {
            files.extend(select::files_of(offered, family, project, &rocm.version).cloned());
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let places = offered.sources(family);
    let address_of = |pin: &Pinned| {
        let file = select::files_of(offered, family, &pin.project, &pin.version).next()?;
        Some((pin.project.clone(), file.url.clone()))
    };
    // The targets stand for the extras of device code, and are written beside the other extras.
    let is_other_extra = |extra: &&String| !extra.starts_with(select::DEVICE);
    let origin = InstallOrigin {
        targets: match &selection.family {
            Some(family) => vec![family.to_string()],
            None => selection.targets.iter().map(Target::to_string).collect(),
        },
        extras: selection.extras.iter().filter(is_other_extra).cloned().collect(),
        packages: request.packages.iter().map(Requirement::to_string).collect(),
        dependencies: request.dependencies.clone(),
        no_check: request.no_check,
        ..InstallOrigin::new(facts.source, rocm.map(|it| it.version.clone()))
    };
    // The version of a package of others, such as setuptools, is chosen by the installer. Without such a package
    // no installer has to be asked.
    let is_all_pinned = request.packages.is_empty() && exact.len() == projects.len();
    // Before an installer runs, each package has a digest, so that the other index can only supply what builds an
    // sdist, such as setuptools.
    let base = request.dependencies.as_deref();
    Ok(Plan {
        schema: "rocwheel-install-plan-v3",
        source: offered.place.clone(),
        version: rocm.map(|it| it.version.clone()),
        files,
        exact: is_all_pinned
            .then(|| Requirements { sources: source_arguments(&places, base), packages: exact }),
        sources: source_arguments(&places, request.dependencies.as_deref()),
        places,
        addresses: pins.iter().filter_map(address_of).collect(),
        environment: facts.environment.root().to_owned(),
        own_python: facts.environment.python(),
        action: facts.action,
        reinstalled: facts.broken,
        reinstalls_all: request.reinstall,
        origin,
        family: selection.family.as_ref().map(ArtifactGroup::to_string),
        targets: selection.targets,
        python: facts.python,
        installer: facts.installer,
        requirements,
        pins,
    })
}

/// Fails if a package of an existing environment stays, and is a package of another version of ROCm, or needs
/// another version of a package that is installed now, as a framework that is tied to ROCm does.
fn ensure_fits(facts: &Facts<'_>, projects: &BTreeSet<DistName>, pins: &[Pinned]) -> Result<()> {
    let is_named = |name: &DistName| facts.packages.iter().any(|(wish, _)| wish.name == *name);
    let is_new = |name: &DistName| projects.contains(name) || is_named(name);
    let rocm = facts.rocm.as_ref().map(|(metadata, _)| metadata);
    let parts = rocm.map(select::parts).unwrap_or_default();
    let find_conflict = |installed: &Metadata| {
        if let Some(rocm) = rocm
            && parts.contains(&installed.name)
            && rocm.version != installed.version
        {
            return Some(format!("and this is ROCm {}", rocm.version));
        }
        installed
            .requirements()
            .filter(|requirement| !requirement.marker.needs_extra() && is_new(&requirement.name))
            .find_map(|requirement| {
                let Pinned { project, version, .. } =
                    pins.iter().find(|pin| pin.project == requirement.name)?;
                let needs = requirement.specifier();
                let is_refused = requirement.allows(version) == Some(false);
                is_refused.then(|| format!("which needs `{project}` {needs}, and not {version}"))
            })
    };
    for installed in facts.installed.iter().filter(|installed| !is_new(&installed.name)) {
        if let Some(conflict) = find_conflict(installed) {
            let Metadata { name, version, .. } = installed;
            let root = facts.environment.root().display();
            return Err(no(
                format!("`{root}` has `{name}` {version}, {conflict}"),
                "ask for that package too, with `--extras`, `--target` or `--package`, uninstall it, or name \
                 another directory",
            ));
        }
    }
    Ok(())
}

/// Plans the requirements that stand for what the user asks for.
fn plan_requirements(
    request: &Request,
    facts: &Facts<'_>,
    selection: &RocmSelection,
    pins: &[Pinned],
) -> Result<Vec<String>> {
    let mut requirements = Vec::new();
    let rocm = facts.rocm.as_ref().map(|(metadata, _)| metadata);
    if let Some(rocm) = rocm {
        let extras = selection.extras.join(",");
        let brackets = if extras.is_empty() { String::new() } else { format!("[{extras}]") };
        requirements.push(format!("{}{brackets}=={}", rocm.name, rocm.version));
    }
    for (wish, metadata) in &facts.packages {
        let pin = pins.iter().find(|pin| pin.project == wish.name);
        let Some((pin, metadata)) = pin.zip(metadata.as_ref()) else {
            requirements.push(require_from_base_index(request, facts.offered, wish)?);
            continue;
        };
        if let Some(rocm) = rocm {
            select::ensure_for(wish, pin, &rocm.version, facts.offered)?;
        }
        requirements.push(select::with_device_code(wish, metadata, &selection.targets));
    }
    if requirements.is_empty() {
        return Err(no(
            format!(
                "`{}` has no package `{}`",
                facts.offered.place,
                DistNames::built_in().selector
            ),
            "name what to install from there with `--package`",
        ));
    }
    Ok(requirements)
}

/// The requirement for a package that the source does not offer. It has to come from the base index.
///
/// Fails where the package of the base index may be a package of a stranger.
fn require_from_base_index(
    request: &Request,
    offered: &OfferedSet,
    wish: &Requirement,
) -> Result<String> {
    let place = &offered.place;
    let Some(base) = &request.dependencies else {
        return Err(no(
            format!("`{place}` does not have `{wish}`"),
            "name the index that has it with `--deps`",
        ));
    };
    let is_of_rocm = |name: &DistName| is_ours(name) || name.normalized().contains(DEVICE);
    if is_public(base) && is_of_rocm(&wish.name) {
        return Err(no(
            format!(
                "`{place}` does not have `{wish}`, and on {REGISTRY} it is a package of a stranger"
            ),
            "name a set or an index that has it",
        ));
    }
    if is_public(base) && wish.pin().is_none() {
        return Err(no(
            format!(
                "`{place}` does not have `{wish}`, and anybody may have uploaded a package of this name to \
                 {REGISTRY}"
            ),
            "name the version that is meant: `==1.2.3` behind the name",
        ));
    }
    Ok(wish.to_string())
}

/// Whether an address leads to the public registry, by one of its names.
fn is_public(address: &str) -> bool {
    let without_scheme = address.split_once("://").map_or(address, |(_, rest)| rest);
    let user_and_host = without_scheme.split(['/', ':']).next().unwrap_or_default();
    let host = user_and_host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    host == REGISTRY || host.ends_with(&format!(".{REGISTRY}")) || host == "pypi.python.org"
}

impl Plan {
    /// What is installed: `ROCm 7.13.0 for gfx942`.
    pub(super) fn summary(&self) -> String {
        let packages = match &self.version {
            Some(version) => format!("ROCm {version}"),
            None => "packages".to_owned(),
        };
        if let Some(family) = &self.family {
            format!("{packages} for {family}")
        } else if self.targets.is_empty() {
            format!("{packages} without device code")
        } else {
            format!("{packages} for {}", self.targets.iter().format(", "))
        }
    }

    /// Whether no installer has to be asked what packages of others are needed.
    pub fn is_exact(&self) -> bool {
        self.exact.is_some()
    }

    /// Whether the source does not say each digest.
    pub fn lacks_digests(&self) -> bool {
        self.files.iter().any(|file| file.sha256.is_none())
    }

    /// Takes the digests that the source does not say. Returns whether `keep` has all files of ROCm now.
    pub fn take_digests(
        &mut self,
        place: &SetPlace,
        memory: &mut ServedDigests,
        keep: Option<&Path>,
        world: &World,
    ) -> Result<bool> {
        let is_kept = place.take_digests(&mut self.files, memory, keep, world)?;
        let exact = self.exact.iter_mut().flat_map(|exact| &mut exact.packages);
        for pin in self.pins.iter_mut().chain(exact).filter(|pin| pin.digests.is_empty()) {
            let files = self.files.iter();
            let files =
                files.filter(|file| file.project == pin.project && file.version == pin.version);
            pin.digests = files.filter_map(|file| file.sha256).collect();
        }
        Ok(is_kept)
    }

    /// Lets the installer take the packages of ROCm from a directory that has all of them.
    pub fn install_from(&mut self, directory: Option<&Path>) -> Result<()> {
        if let (Some(exact), Some(directory)) = (&mut self.exact, directory) {
            let links = PackageSource::Links(urls_of_directory(directory)?.to_string());
            exact.sources = source_arguments(&[links], self.origin.dependencies.as_deref());
        }
        Ok(())
    }

    /// A command for the interpreter of the environment.
    pub(super) fn verb(&self, verb: &str) -> CommandLine {
        let python = self.own_python.to_string_lossy();
        self.installer.verb(verb, Some(&python))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, from {}", self.summary(), self.source)?;
        let environment = self.environment.display();
        writeln!(f, "{} `{environment}` with {}", self.action, self.installer)?;
        if self.reinstalls_all {
            writeln!(f, "each package again, also an installed one")?;
        }
        for file in &self.files {
            writeln!(f, "  {}", file.name)?;
        }
        Ok(())
    }
}
