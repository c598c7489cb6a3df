//! [`Plan`]: everything that an install will do, decided before anything is touched. It is what
//! `--dry-run` prints.

use std::{collections::BTreeSet, fmt, path::PathBuf};

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
    error::Result,
    index::is_ours,
    place::{OfferedFile, OfferedSet},
    policy::DistNames,
    run::ArtifactGroup,
    target::Target,
    version::Version,
    wheel::{DistName, Metadata, Requirement},
};

/// Where most people get all other packages, and where a stranger may have uploaded any name.
const REGISTRY: &str = "pypi.org";

/// What was observed before a decision.
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
    /// The files of ROCm that are installed, as far as the source tells.
    pub files: Vec<OfferedFile>,
    /// The packages that are installed again although the environment has them, because they are stubs or
    /// damaged.
    pub(super) reinstalled: Vec<DistName>,
    /// Whether all packages are.
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
    let rocm = facts.rocm.as_ref().map(|it| &it.0);
    let selection = facts.rocm.as_ref().map(|it| it.1.clone());
    let selection = selection.unwrap_or_default();
    let family = selection.family.as_ref();
    let pins = select::pins(offered, family, rocm, &request.packages);
    let mut projects = selection.projects.clone();
    projects.extend(rocm.map(|it| it.name.clone()));
    let requirements = requirements(request, &facts, &selection, &pins)?;
    ensure_fits(&facts, &projects, &pins)?;
    let exact = pins.iter().filter(|it| projects.contains(&it.project));
    let exact = exact.map(|it| {
        let is_rocm = rocm.is_some_and(|rocm| rocm.name == it.project);
        let extras = is_rocm.then(|| selection.extras.join(","));
        Pinned { extras: extras.unwrap_or_default(), ..it.clone() }
    });
    let exact: Vec<Pinned> = exact.collect();
    let files = rocm.into_iter().flat_map(|rocm| {
        let of = |it| select::files_of(offered, family, it, &rocm.version);
        projects.iter().flat_map(of)
    });
    let places = offered.sources(family);
    let is_device = |it: &&String| !it.starts_with(select::DEVICE);
    let origin = InstallOrigin {
        targets: match &selection.family {
            Some(family) => vec![family.to_string()],
            None => selection.targets.iter().map(Target::to_string).collect(),
        },
        extras: selection.extras.iter().filter(is_device).cloned().collect(),
        packages: request.packages.iter().map(Requirement::to_string).collect(),
        dependencies: request.dependencies.clone(),
        no_check: request.no_check,
        ..InstallOrigin::new(facts.source, rocm.map(|it| it.version.clone()))
    };
    // What is no package of ROCm, such as setuptools, is one that only an installer can choose.
    let is_all = request.packages.is_empty() && exact.len() == projects.len();
    // With a digest of each package, only what builds one, such as setuptools, can come from the other index.
    let has_digests = exact.iter().all(|it| !it.digests.is_empty());
    let base = request.dependencies.as_deref().filter(|_| has_digests);
    Ok(Plan {
        schema: "rocwheel-install-plan-v3",
        source: offered.place.clone(),
        version: rocm.map(|it| it.version.clone()),
        files: files.sorted_by(|a, b| a.name.cmp(&b.name)).cloned().collect(),
        exact: is_all
            .then(|| Requirements { sources: source_arguments(&places, base), packages: exact }),
        sources: source_arguments(&places, request.dependencies.as_deref()),
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

/// Fails if a package of an existing environment stays, and is one of another version of ROCm, or needs
/// another version of a package that is installed now, as a framework that is tied to ROCm does.
fn ensure_fits(facts: &Facts<'_>, projects: &BTreeSet<DistName>, pins: &[Pinned]) -> Result<()> {
    let is_named = |name: &DistName| facts.packages.iter().any(|(wish, _)| wish.name == *name);
    let is_new = |name: &DistName| projects.contains(name) || is_named(name);
    let rocm = facts.rocm.as_ref().map(|it| &it.0);
    let parts = rocm.map(select::parts).unwrap_or_default();
    let conflict = |installed: &Metadata| {
        let rocm = rocm.filter(|_| parts.contains(&installed.name));
        if let Some(rocm) = rocm.filter(|it| it.version != installed.version) {
            return Some(format!("and this is ROCm {}", rocm.version));
        }
        let needed = |it: &Requirement| !it.marker.needs_extra() && is_new(&it.name);
        installed.requirements().filter(needed).find_map(|requirement| {
            let Pinned { project, version, .. } =
                pins.iter().find(|it| it.project == requirement.name)?;
            let needs = requirement.specifier();
            let is_refused = requirement.allows(version) == Some(false);
            is_refused.then(|| format!("which needs `{project}` {needs}, and not {version}"))
        })
    };
    let staying = facts.installed.iter().filter(|it| !is_new(&it.name));
    let mut conflicts = staying.filter_map(|it| Some((it, conflict(it)?)));
    let Some((installed, why)) = conflicts.next() else {
        return Ok(());
    };
    let (name, version) = (&installed.name, &installed.version);
    let root = facts.environment.root().display();
    Err(no(
        format!("`{root}` has `{name}` {version}, {why}"),
        "ask for that package too, with `--extras`, `--target` or `--package`, uninstall it, or name another \
         directory",
    ))
}

/// The requirements that stand for what the user asks for.
fn requirements(
    request: &Request,
    facts: &Facts<'_>,
    selection: &RocmSelection,
    pins: &[Pinned],
) -> Result<Vec<String>> {
    let mut requirements = Vec::new();
    let rocm = facts.rocm.as_ref().map(|it| &it.0);
    if let Some(rocm) = rocm {
        let extras = selection.extras.join(",");
        let brackets = if extras.is_empty() { extras } else { format!("[{extras}]") };
        requirements.push(format!("{}{brackets}=={}", rocm.name, rocm.version));
    }
    for (wish, metadata) in &facts.packages {
        let pin = pins.iter().find(|pin| pin.project == wish.name);
        let Some((pin, metadata)) = pin.zip(metadata.as_ref()) else {
            requirements.push(elsewhere(request, facts.offered, wish)?);
            continue;
        };
        if let Some(rocm) = rocm {
            select::ensure_for(wish, pin, &rocm.version, facts.offered)?;
        }
        requirements.push(select::with_device_code(wish, metadata, &selection.targets));
    }
    if requirements.is_empty() {
        let (place, rocm) = (&facts.offered.place, &DistNames::built_in().selector);
        return Err(no(
            format!("`{place}` has no package `{rocm}`"),
            "name what to install from there with `--package`",
        ));
    }
    Ok(requirements)
}

/// A package that the source does not offer. It has to come from the base index.
fn elsewhere(request: &Request, offered: &OfferedSet, wish: &Requirement) -> Result<String> {
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

/// Whether an address is that of the public registry, by one of its names.
fn is_public(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |it| it.1);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    host == REGISTRY || host.ends_with(&format!(".{REGISTRY}")) || host == "pypi.python.org"
}

impl Plan {
    /// What is installed: `ROCm 7.13.0 for gfx942`.
    pub(super) fn summary(&self) -> String {
        let version = self.version.as_ref().map(|it| format!("ROCm {it}"));
        let what = version.unwrap_or_else(|| "packages".to_owned());
        if let Some(family) = &self.family {
            format!("{what} for {family}")
        } else if self.targets.is_empty() {
            format!("{what} without device code")
        } else {
            format!("{what} for {}", self.targets.iter().format(", "))
        }
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
        let (environment, installer) = (self.environment.display(), self.installer);
        writeln!(f, "{} `{environment}` with {installer}", self.action)?;
        if self.reinstalls_all {
            writeln!(f, "each package again, also what is there")?;
        }
        for file in &self.files {
            writeln!(f, "  {}", file.name)?;
        }
        Ok(())
    }
}
