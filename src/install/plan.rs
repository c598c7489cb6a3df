//! [`InstallPlan`]: everything that an install will do, decided before anything is touched. It is
//! what `--dry-run` prints.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    InstallRequest,
    environment::{EnvironmentAction, EnvironmentState, python_of},
    installer::{CommandLine, Installer, source_arguments},
    lockfile::HashLock,
    python::{OfferedWheels, Python, PythonNeeds},
    select::{self, RocmSelection, SELECTOR, no},
};
use crate::{
    console::shell_word,
    digest::Sha256,
    error::Result,
    run::Platform,
    set::OfferedSet,
    target::Target,
    version::Version,
    wheel::{DistName, Metadata, RequirementLine},
};

/// The file of pins, in the commands of a plan.
const PINS: &str = "PINS";
/// Where most people get all other packages, and where a stranger may have uploaded any name.
const REGISTRY: &str = "pypi.org";

/// What was observed before a decision.
#[derive(Debug)]
pub struct InstallFacts<'a> {
    pub offered: &'a OfferedSet,
    /// `rocm` in the version to install, and what is asked for of it.
    pub rocm: Option<(Metadata, RocmSelection)>,
    /// The metadata of each package that the user asks for, if the source offers it.
    pub packages: Vec<(String, Option<Metadata>)>,
    pub state: EnvironmentState,
    pub environment: PathBuf,
    /// `None` if it is known only once uv has made the environment.
    pub python: Option<Python>,
    /// The Python that uv then has to take: a path or a version.
    pub wanted_python: Option<String>,
    pub installer: Installer,
}

/// A decided install.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstallPlan {
    schema: &'static str,
    pub source: String,
    /// The version of ROCm. `None` for packages of others.
    pub version: Option<Version>,
    pub targets: Vec<Target>,
    #[serde(rename = "venv")]
    pub environment: PathBuf,
    pub action: EnvironmentAction,
    pub python: Option<Python>,
    /// The Python that uv has to take, if `python` is not known yet.
    #[serde(skip)]
    pub(super) wanted_python: Option<String>,
    #[serde(skip)]
    pub(super) needs: PythonNeeds,
    pub installer: Installer,
    pub requirements: Vec<String>,
    /// `rocm==7.13.0`, for every project that the source offers.
    pub pins: Vec<String>,
    /// The arguments that say where packages are.
    pub sources: Vec<String>,
    /// The files of ROCm that are installed, as far as the source tells.
    pub files: Vec<PlannedFile>,
    /// A file with the version and the digest of everything to install, which decides alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_lock: Option<PathBuf>,
    /// What the locked versions are, for the check after the install.
    #[serde(skip)]
    pub(super) expected: Vec<(DistName, Version)>,
    #[serde(skip)]
    pub(super) digests: Vec<(DistName, Version, Sha256)>,
}

/// A file that will be installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    pub name: String,
    pub sha256: Option<Sha256>,
}

/// Decides what an install does.
pub fn plan(request: &InstallRequest, observed: InstallFacts<'_>) -> Result<InstallPlan> {
    let offered = observed.offered;
    let (rocm, selection) = match &observed.rocm {
        Some((metadata, selection)) => (Some(metadata), selection.clone()),
        None => (None, RocmSelection::default()),
    };
    let version = rocm.map(|it| it.version.clone());
    let known = version.as_ref().zip(rocm);
    let pins = select::pins(offered, selection.family.as_ref(), known, &request.packages);
    let mut needs = PythonNeeds::default();
    if let Some((version, metadata)) = known {
        complete(offered, version, &selection)?;
        needs.rocm = Some(metadata.clone());
    }
    let (requirements, wheels) =
        requirements(request, &observed, version.as_ref(), &selection, &pins)?;
    needs.wheels = wheels;
    if let Some(python) = &observed.python {
        python.ensure_suits(&needs)?;
    }
    let files = files(offered, version.as_ref(), &selection);
    let digests = offered.files.iter();
    let digests =
        digests.filter_map(|it| Some((it.project.clone(), it.version.clone(), it.sha256?)));
    Ok(InstallPlan {
        schema: "rocwheel-install-plan-v1",
        source: offered.place.clone(),
        version,
        targets: selection.targets.clone(),
        action: action(observed.state, request.recreate),
        environment: observed.environment,
        python: observed.python,
        wanted_python: observed.wanted_python,
        needs,
        installer: observed.installer,
        requirements,
        pins: pins
            .iter()
            .map(|(name, version)| format!("{name}=={version}"))
            .collect(),
        sources: source_arguments(
            &offered.sources(selection.family.as_ref()),
            request.dependencies.as_deref(),
        ),
        files,
        from_lock: None,
        digests: digests.collect(),
        expected: pins,
    })
}

/// Decides an install of exactly what a lock file says.
pub fn plan_locked(
    request: &InstallRequest,
    lock: &HashLock,
    (path, environment): (PathBuf, PathBuf),
    (state, python, wanted_python, installer): (
        EnvironmentState,
        Option<Python>,
        Option<String>,
        Installer,
    ),
) -> InstallPlan {
    let version = lock.version(SELECTOR).cloned();
    let targets = lock.targets();
    InstallPlan {
        schema: "rocwheel-install-plan-v1",
        source: path.display().to_string(),
        version,
        targets,
        action: action(state, request.recreate),
        environment,
        python,
        wanted_python,
        needs: PythonNeeds::default(),
        installer,
        requirements: Vec::new(),
        pins: lock.pins(),
        sources: Vec::new(),
        files: Vec::new(),
        from_lock: Some(path),
        digests: Vec::new(),
        expected: lock.versions(),
    }
}

/// What an install does with the environment that is there.
pub fn action(state: EnvironmentState, recreate: bool) -> EnvironmentAction {
    match state {
        EnvironmentState::Absent | EnvironmentState::Unfinished => EnvironmentAction::Create,
        _ if recreate => EnvironmentAction::Recreate,
        EnvironmentState::Present | EnvironmentState::Kept => EnvironmentAction::Update,
    }
}

/// Fails if the source lacks a package that `rocm` asks for with these extras. A published set may
/// be without some, and an installer would find that out after downloading the others.
pub fn complete(offered: &OfferedSet, version: &Version, selection: &RocmSelection) -> Result<()> {
    let projects = selection.projects.iter();
    // What is no package of ROCm, such as setuptools, comes from the base index.
    let ours = projects.filter(|it| crate::set::is_ours(it));
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

fn requirements(
    request: &InstallRequest,
    observed: &InstallFacts<'_>,
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
fn elsewhere(request: &InstallRequest, offered: &OfferedSet, text: &str) -> Result<String> {
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
) -> Vec<PlannedFile> {
    let files = offered.files.iter().filter(|file| {
        let is_asked = selection.projects.contains(&file.project);
        (is_asked || file.project.normalized() == SELECTOR)
            && version == Some(&file.version)
            && (file.family.is_none() || file.family == selection.family)
    });
    let files = files.map(|it| PlannedFile {
        name: it.name.clone(),
        sha256: it.sha256,
    });
    files.sorted_by(|a, b| a.name.cmp(&b.name)).collect()
}

impl InstallPlan {
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

    /// The commands, with `PINS` for the file of pins.
    pub(super) fn command_lines(&self) -> Vec<CommandLine> {
        let environment = self.environment.to_string_lossy();
        let create = (self.action != EnvironmentAction::Update).then(|| {
            let wanted = self.wanted_python.as_deref();
            self.installer
                .create(&environment, self.python.as_ref(), wanted)
        });
        let install = self.install(&python_of(&self.environment), PINS);
        create.into_iter().chain([install]).collect()
    }

    /// The command that installs, with the path of the file of pins.
    pub(super) fn install(&self, python: &Path, pins: &str) -> CommandLine {
        let mut line = self.installer.verb(&["install"], python);
        match &self.from_lock {
            Some(lock) => line.extend(locked_arguments(&lock.to_string_lossy())),
            None => line.extend(self.arguments(pins)),
        }
        line
    }

    /// What to install, and from where.
    pub(super) fn arguments(&self, pins: &str) -> CommandLine {
        let mut line = self.sources.clone();
        line.extend(["--constraint".to_owned(), pins.to_owned()]);
        line.extend(self.requirements.iter().cloned());
        line
    }
}

/// The arguments that install what a lock file says, and nothing else.
pub(super) fn locked_arguments(lock: &str) -> CommandLine {
    let arguments = ["--require-hashes", "--no-deps", "--requirement", lock];
    arguments.map(str::to_owned).to_vec()
}

impl fmt::Display for InstallPlan {
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
        writeln!(f, "\nPINS, for every project that the source offers:")?;
        for pin in &self.pins {
            writeln!(f, "  {pin}")?;
        }
        write!(f, "\ncommands:")?;
        for line in self.command_lines() {
            write!(f, "\n  {}", line.iter().map(|it| shell_word(it)).join(" "))?;
        }
        Ok(())
    }
}
