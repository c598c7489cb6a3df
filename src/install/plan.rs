//! [`Plan`]: everything that an install will do, decided before anything is touched. It is what
//! `--dry-run` prints.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    Request,
    environment::{Action, Environment, State},
    installer::{CommandLine, Installer, source_arguments},
    python::{OfferedWheels, Python, PythonNeeds},
    requirements::{Pinned, Requirements},
    select::{self, RocmSelection, SELECTOR, no},
};
use crate::{
    console::shell_word,
    digest::Sha256,
    error::Result,
    run::Platform,
    set::{OfferedSet, PackageSource, is_ours},
    target::Target,
    version::Version,
    wheel::{DistName, Metadata, RequirementLine},
};

/// The file of requirements, in the commands that a plan prints.
const FILE: &str = "requirements.txt";
/// Where most people get all other packages, and where a stranger may have uploaded any name.
const REGISTRY: &str = "pypi.org";

/// What was observed before a decision.
#[derive(Debug)]
pub struct Facts<'a> {
    pub offered: &'a OfferedSet,
    /// `rocm` in the version to install, and what is asked for of it.
    pub rocm: Option<(Metadata, RocmSelection)>,
    /// The metadata of each package that the user asks for, if the source offers it.
    pub packages: Vec<(String, Option<Metadata>)>,
    pub environment: &'a Environment,
    pub state: State,
    /// What an existing environment has.
    pub installed: &'a [Metadata],
    /// `None` if uv has to find it, and may download it.
    pub python: Option<Python>,
    /// The Python that uv then has to find.
    pub wanted_python: Option<String>,
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
    #[serde(rename = "venv")]
    pub environment: PathBuf,
    pub action: Action,
    pub python: Option<Python>,
    pub installer: Installer,
    pub requirements: Vec<String>,
    /// `rocm==7.13.0`, for every project that the source offers.
    pub pins: Vec<String>,
    /// The arguments that say where packages are.
    pub sources: Vec<String>,
    /// The files of ROCm that are installed, as far as the source tells.
    pub files: Vec<PlannedFile>,
    #[serde(skip)]
    pub(super) wanted_python: Option<String>,
    /// The interpreter of the environment.
    #[serde(skip)]
    pub(super) own_python: String,
    #[serde(skip)]
    pub(super) needs: PythonNeeds,
    #[serde(skip)]
    pub(super) places: Vec<PackageSource>,
    /// The index with all other packages.
    #[serde(skip)]
    pub(super) base: Option<String>,
    /// Everything that is installed, if no installer has to be asked for that.
    #[serde(skip)]
    pub(super) exact: Option<Requirements>,
    /// The pins, with the digests that the source promises.
    #[serde(skip)]
    pub(super) promised: Vec<Pinned>,
}

/// A file that will be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    pub name: String,
    /// Where the file is.
    pub url: String,
    #[serde(skip)]
    pub(super) project: DistName,
    pub sha256: Option<Sha256>,
}

/// Decides what an install does.
pub fn plan(request: &Request, observed: Facts<'_>) -> Result<Plan> {
    let offered = observed.offered;
    let (rocm, selection) = match &observed.rocm {
        Some((metadata, selection)) => (Some(metadata), selection.clone()),
        None => (None, RocmSelection::default()),
    };
    let version = rocm.map(|it| it.version.clone());
    let known = version.as_ref().zip(rocm);
    let pins = select::pins(offered, selection.family.as_ref(), known, &request.packages);
    let mut projects = selection.projects.clone();
    if let Some((version, metadata)) = known {
        complete(offered, version, &selection)?;
        projects.insert(metadata.name.clone());
        projects.extend(along(&observed, metadata, &projects)?);
    }
    let (requirements, wheels) =
        requirements(request, &observed, version.as_ref(), &selection, &pins)?;
    let needs = PythonNeeds {
        rocm: rocm.cloned(),
        wheels,
    };
    if let Some(python) = &observed.python {
        python.ensure_suits(&needs)?;
    }
    let action = action(observed.state, request.recreate);
    match action {
        Action::Create => {}
        Action::Update => ensure_fits(&observed, &projects, &pins, &request.packages)?,
        Action::Recreate => observed.environment.ensure_replaceable()?,
    }
    let promised: Vec<Pinned> = pins
        .iter()
        .map(|it| promise(offered, &selection, it))
        .collect();
    let of_rocm = promised.iter().filter(|it| projects.contains(&it.project));
    let of_rocm: Vec<Pinned> = of_rocm.cloned().collect();
    // What is no package of ROCm, such as setuptools, is one that only an installer can choose.
    let is_all = request.packages.is_empty() && of_rocm.len() == projects.len();
    let sources = offered.sources(selection.family.as_ref());
    let exact = is_all.then(|| Requirements {
        sources: source_arguments(&sources, None),
        packages: of_rocm,
    });
    Ok(Plan {
        schema: "rocwheel-install-plan-v2",
        source: offered.place.clone(),
        targets: selection.targets.clone(),
        environment: observed.environment.root().to_owned(),
        own_python: observed.environment.python().to_string_lossy().into_owned(),
        action,
        wanted_python: observed.wanted_python,
        python: observed.python,
        needs,
        installer: observed.installer,
        requirements,
        pins: pins
            .iter()
            .map(|(name, version)| format!("{name}=={version}"))
            .collect(),
        sources: source_arguments(&sources, request.dependencies.as_deref()),
        files: files(offered, version.as_ref(), &selection, &projects),
        places: sources,
        base: request.dependencies.clone(),
        exact,
        promised,
        version,
    })
}

/// What an install does with the environment that is there.
pub fn action(state: State, recreate: bool) -> Action {
    match state {
        State::Absent => Action::Create,
        State::Present if recreate => Action::Recreate,
        State::Present => Action::Update,
    }
}

/// Fails if the source lacks a package that `rocm` asks for with these extras. A published set may
/// be without some, and an installer would find that out after downloading the others.
pub fn complete(offered: &OfferedSet, version: &Version, selection: &RocmSelection) -> Result<()> {
    let projects = selection.projects.iter();
    // What is no package of ROCm, such as setuptools, comes from the base index.
    let ours = projects.filter(|it| is_ours(it));
    let missing = ours.filter(|it| !offered.has(it.normalized(), version));
    let missing = missing.map(|it| format!("`{it}`")).join(", ");
    if missing.is_empty() {
        return Ok(());
    }
    let place = &offered.place;
    Err(no(
        format!("`{place}` does not have {missing} {version}, which `rocm` asks for"),
        "it may still be uploaded: pass `--wait`; or ask for fewer `--extras`".to_owned(),
    ))
}

/// The installed packages of another version of ROCm that nothing asks for: they are installed in the
/// new version too, because an environment with two versions does not work. Fails if the source does
/// not have one of them.
fn along(
    observed: &Facts<'_>,
    rocm: &Metadata,
    asked: &BTreeSet<DistName>,
) -> Result<Vec<DistName>> {
    let version = &rocm.version;
    let parts = select::parts(rocm);
    let old: Vec<&Metadata> = observed
        .installed
        .iter()
        .filter(|it| {
            parts.contains(&it.name) && !asked.contains(&it.name) && it.version != *version
        })
        .collect();
    let missing = old
        .iter()
        .filter(|it| !observed.offered.has(it.name.normalized(), version))
        .map(|it| format!("`{}` {}", it.name, it.version))
        .join(", ");
    if missing.is_empty() {
        return Ok(old.iter().map(|it| it.name.clone()).collect());
    }
    let (root, place) = (
        observed.environment.root().display(),
        &observed.offered.place,
    );
    Err(no(
        format!("`{root}` has {missing}, and `{place}` does not have that in {version}"),
        "uninstall it, name another directory, or replace the environment with `--recreate`"
            .to_owned(),
    ))
}

/// Fails if an installed package that stays needs another version of one that is installed now: a
/// framework, for example, that is tied to its version of ROCm.
fn ensure_fits(
    observed: &Facts<'_>,
    projects: &BTreeSet<DistName>,
    pins: &[(DistName, Version)],
    packages: &[String],
) -> Result<()> {
    let named = packages.iter().filter_map(|it| RequirementLine::parse(it));
    let named: Vec<DistName> = named.map(|it| it.name).collect();
    let is_new = |name: &DistName| projects.contains(name) || named.contains(name);
    for installed in observed.installed.iter().filter(|it| !is_new(&it.name)) {
        let lines = installed.requires_dist.iter();
        let lines = lines.filter_map(|it| RequirementLine::parse(it));
        for line in lines.filter(|it| it.extra.is_none() && is_new(&it.name)) {
            let pin = pins.iter().find(|it| it.0 == line.name);
            let misfit = pin.filter(|it| it.1.fulfils(line.specifier) == Some(false));
            let Some((project, version)) = misfit else {
                continue;
            };
            let (name, own, root) = (
                &installed.name,
                &installed.version,
                observed.environment.root().display(),
            );
            let needs = line.specifier;
            return Err(no(
                format!(
                    "`{root}` has `{name}` {own}, which needs `{project}` {needs}, and not {version}"
                ),
                format!("pass `--package {name}` too, name another directory, or `--recreate`"),
            ));
        }
    }
    Ok(())
}

/// A pin, with the digests of its files, if the source has those of all.
fn promise(
    offered: &OfferedSet,
    selection: &RocmSelection,
    (project, version): &(DistName, Version),
) -> Pinned {
    let files = offered.files.iter().filter(|it| {
        it.project == *project
            && it.version == *version
            && (it.family.is_none() || it.family == selection.family)
    });
    let digests: Option<Vec<Sha256>> = files.map(|it| it.sha256).collect();
    let is_rocm = project.normalized() == SELECTOR;
    let extras = is_rocm.then(|| selection.extras.join(","));
    Pinned {
        project: project.clone(),
        extras: extras.unwrap_or_default(),
        version: version.clone(),
        digests: digests.unwrap_or_default(),
    }
}

fn requirements(
    request: &Request,
    observed: &Facts<'_>,
    version: Option<&Version>,
    selection: &RocmSelection,
    pins: &[(DistName, Version)],
) -> Result<(Vec<String>, Vec<OfferedWheels>)> {
    let (mut requirements, mut wheels) = (Vec::new(), Vec::new());
    if let Some(version) = version {
        let extras = selection.extras.join(",");
        let extras = if extras.is_empty() {
            extras
        } else {
            format!("[{extras}]")
        };
        requirements.push(format!("{SELECTOR}{extras}=={version}"));
    }
    for (text, metadata) in &observed.packages {
        let line = RequirementLine::parse(text);
        let pin = line.and_then(|line| pins.iter().find(|it| it.0 == line.name));
        match (pin, metadata) {
            (Some(pin), Some(metadata)) => {
                if let Some(rocm) = version {
                    select::ensure_tied(text, pin, rocm, observed.offered)?;
                }
                wheels.push(OfferedWheels::of(observed.offered, pin));
                requirements.push(select::with_device_code(text, metadata, &selection.targets));
            }
            _ => requirements.push(elsewhere(request, observed.offered, text)?),
        }
    }
    if requirements.is_empty() {
        let place = &observed.offered.place;
        return Err(no(
            format!("`{place}` has no package `rocm`"),
            "name what to install from there with `--package`".to_owned(),
        ));
    }
    Ok((requirements, wheels))
}

/// A package that the source does not offer. It has to come from the base index.
fn elsewhere(request: &Request, offered: &OfferedSet, text: &str) -> Result<String> {
    let place = &offered.place;
    let Some(base) = &request.dependencies else {
        return Err(no(
            format!("`{place}` does not have `{text}`"),
            "name the index that has it with `--deps`".to_owned(),
        ));
    };
    if base.contains(REGISTRY) && !text.contains("==") {
        return Err(no(
            format!(
                "`{place}` does not have `{text}`, and {REGISTRY} may have any package of this name"
            ),
            format!("name its version if that is meant: `--package '{text}==1.2.3'`"),
        ));
    }
    Ok(text.to_owned())
}

fn files(
    offered: &OfferedSet,
    version: Option<&Version>,
    selection: &RocmSelection,
    projects: &BTreeSet<DistName>,
) -> Vec<PlannedFile> {
    let files = offered.files.iter().filter(|file| {
        projects.contains(&file.project)
            && version == Some(&file.version)
            && (file.family.is_none() || file.family == selection.family)
    });
    let files = files.map(|it| PlannedFile {
        name: it.name.clone(),
        url: it.url.clone(),
        project: it.project.clone(),
        sha256: it.sha256,
    });
    files.sorted_by(|a, b| a.name.cmp(&b.name)).collect()
}

impl Plan {
    /// The key of a cache of what is downloaded: the same for the same files and the same Python.
    pub fn cache_key(&self, platform: Platform, python: &Python) -> String {
        let files = self.files.iter().map(|file| {
            let sha256 = file.sha256.map(|it| it.to_string());
            format!("{}  {}\n", sha256.unwrap_or_default(), file.name)
        });
        let mut facts: Vec<String> = files.collect();
        if facts.is_empty() {
            facts.clone_from(&self.pins);
        }
        facts.sort();
        let digest = Sha256::of(facts.concat().as_bytes()).to_string();
        format!(
            "rocwheel-{platform}-{}-{}",
            python.tag(),
            digest.get(..16).unwrap_or_default()
        )
    }

    /// The command that creates the environment, if there is none yet.
    pub(super) fn create(&self) -> Option<CommandLine> {
        let path = self.python.as_ref().map(|it| it.path.to_string_lossy());
        let python = path.as_deref().or(self.wanted_python.as_deref());
        let is_new = self.action != Action::Update;
        is_new.then(|| {
            self.installer
                .create(&self.environment.to_string_lossy(), python)
        })
    }

    /// The command that installs what a file says.
    pub(super) fn install(&self, file: &str, requirements: &Requirements) -> CommandLine {
        let mut line = self.installer.verb("install", &self.own_python);
        let has_digests = requirements.has_digests();
        line.extend(has_digests.then(|| "--require-hashes".to_owned()));
        line.extend(["--requirement".to_owned(), file.to_owned()]);
        line
    }

    /// What to ask the installer for, if it has to choose: with the file of pins.
    pub(super) fn question(&self, pins: &str) -> CommandLine {
        let mut line = self.sources.clone();
        line.extend(["--constraint".to_owned(), pins.to_owned()]);
        line
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.version.as_ref();
        let what = what.map_or_else(|| "packages".to_owned(), |it| format!("ROCm {it}"));
        let targets = self.targets.iter().join(", ");
        let targets = if targets.is_empty() {
            "without device code".to_owned()
        } else {
            format!("for {targets}")
        };
        writeln!(f, "{what} {targets}, from {}", self.source)?;
        let python = self
            .python
            .as_ref()
            .map(|it| format!("Python {} (`{}`)", it.version, it.path.display()));
        let python = python.or(self.wanted_python.as_ref().map(|it| format!("Python {it}")));
        let python = python.unwrap_or_else(|| "a Python that uv finds".to_owned());
        let (action, path) = (self.action, self.environment.display());
        writeln!(f, "{action} `{path}`, with {python}")?;
        for file in &self.files {
            writeln!(f, "  {}", file.name)?;
        }
        let shell = |line: CommandLine| line.iter().map(|it| shell_word(it)).join(" ");
        writeln!(f, "\nThe same by hand:")?;
        if let Some(exact) = &self.exact {
            write!(f, "  cat > {FILE} <<'END'\n{exact}END\n")?;
        }
        if let Some(line) = self.create() {
            writeln!(f, "  {}", shell(line))?;
        }
        if let Some(exact) = &self.exact {
            return write!(f, "  {}", shell(self.install(FILE, exact)));
        }
        // The pins are a file when the installer chooses, and here arguments that can be pasted.
        let asked = self
            .requirements
            .iter()
            .filter_map(|it| RequirementLine::parse(it));
        let asked: Vec<DistName> = asked.map(|it| it.name).collect();
        let pins = self
            .promised
            .iter()
            .filter(|it| !asked.contains(&it.project));
        let mut line = self.installer.verb("install", &self.own_python);
        line.extend(self.sources.iter().chain(&self.requirements).cloned());
        line.extend(
            pins.filter(|it| self.files.iter().any(|file| file.project == it.project))
                .map(ToString::to_string),
        );
        write!(f, "  {}", shell(line))
    }
}
