//! [`Plan`]: everything that an install will do, decided before anything is touched. It is what
//! `--dry-run` prints.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    Request,
    environment::{Action, Environment},
    installer::{CommandLine, Installer, source_arguments},
    python::{Python, PythonNeed},
    requirements::{Pinned, Requirements},
    select::{self, RocmSelection, no},
};
use crate::{
    console::shell_word,
    digest::Sha256,
    error::Result,
    package::DistNames,
    set::{OfferedFile, OfferedSet, PackageSource},
    target::Target,
    version::Version,
    wheel::{DistName, Metadata, PackageFilename, RequirementLine, Tag},
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
    pub action: Action,
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
    pub(super) requirements: Vec<String>,
    /// Every project that the source offers, with the digests that it promises.
    pub(super) pins: Vec<Pinned>,
    /// The arguments that say where packages are.
    pub(super) sources: Vec<String>,
    /// The files of ROCm that are installed, as far as the source tells.
    pub files: Vec<PlannedFile>,
    #[serde(skip)]
    pub(super) wanted_python: Option<String>,
    /// The interpreter of the environment.
    #[serde(skip)]
    pub(super) own_python: PathBuf,
    #[serde(skip)]
    pub(super) needs: Vec<PythonNeed>,
    #[serde(skip)]
    pub(super) places: Vec<PackageSource>,
    /// The index with all other packages.
    #[serde(skip)]
    pub(super) base: Option<String>,
    /// Everything that is installed, if no installer has to be asked for that.
    #[serde(skip)]
    pub(super) exact: Option<Requirements>,
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
pub fn plan(request: &Request, facts: Facts<'_>) -> Result<Plan> {
    let offered = facts.offered;
    let rocm = facts.rocm.as_ref().map(|it| &it.0);
    let selection = facts.rocm.as_ref().map(|it| it.1.clone());
    let selection = selection.unwrap_or_default();
    let pins = select::pins(offered, selection.family.as_ref(), rocm, &request.packages);
    let files_of = |project: &DistName, version: &Version| -> Vec<&OfferedFile> {
        let files = offered.files.iter().filter(|it| {
            it.project == *project
                && it.version == *version
                && (it.family.is_none() || it.family == selection.family)
        });
        files.sorted_by(|a, b| a.name.cmp(&b.name)).collect()
    };
    let mut projects = selection.projects.clone();
    if let Some(rocm) = rocm {
        select::ensure_has_all(offered, &rocm.version, &selection)?;
        projects.insert(rocm.name.clone());
        projects.extend(along(&facts, rocm, &projects)?);
    }
    let (requirements, needs) = requirements(request, &facts, &selection, &pins, &files_of)?;
    if let Some(python) = &facts.python {
        python.ensure_suits(&needs)?;
    }
    ensure_fits(&facts, &projects, &pins, &request.packages)?;
    let pins: Vec<Pinned> = pins
        .into_iter()
        .map(|(project, version)| {
            let files = files_of(&project, &version);
            let digests: Option<Vec<Sha256>> = files.iter().map(|it| it.sha256).collect();
            Pinned {
                project,
                extras: String::new(),
                version,
                digests: digests.unwrap_or_default(),
            }
        })
        .collect();
    let mut exact: Vec<Pinned> = pins.clone();
    exact.retain(|it| projects.contains(&it.project));
    if let Some(rocm) = exact
        .iter_mut()
        .find(|it| Some(&it.project) == rocm.map(|it| &it.name))
    {
        rocm.extras = selection.extras.join(",");
    }
    let planned = rocm.into_iter().flat_map(|rocm| {
        let files = projects.iter().flat_map(|it| files_of(it, &rocm.version));
        files.map(|it| PlannedFile {
            name: it.name.clone(),
            url: it.url.clone(),
            project: it.project.clone(),
            sha256: it.sha256,
        })
    });
    let places = offered.sources(selection.family.as_ref());
    // What is no package of ROCm, such as setuptools, is one that only an installer can choose.
    let is_all = request.packages.is_empty() && exact.len() == projects.len();
    Ok(Plan {
        schema: "rocwheel-install-plan-v2",
        source: offered.place.clone(),
        version: rocm.map(|it| it.version.clone()),
        files: planned.sorted_by(|a, b| a.name.cmp(&b.name)).collect(),
        exact: is_all.then(|| Requirements {
            sources: source_arguments(&places, None),
            packages: exact,
        }),
        sources: source_arguments(&places, request.dependencies.as_deref()),
        base: request.dependencies.clone(),
        environment: facts.environment.root().to_owned(),
        own_python: facts.environment.python(),
        action: facts.action,
        targets: selection.targets,
        wanted_python: facts.wanted_python,
        python: facts.python,
        installer: facts.installer,
        requirements,
        needs,
        places,
        pins,
    })
}

/// The installed packages of another version of ROCm that nothing asks for: they are installed in the
/// new version too, because an environment with two versions does not work. Fails if the source does
/// not have one of them.
fn along(facts: &Facts<'_>, rocm: &Metadata, asked: &BTreeSet<DistName>) -> Result<Vec<DistName>> {
    let (version, parts) = (&rocm.version, select::parts(rocm));
    let is_old = |it: &&Metadata| {
        parts.contains(&it.name) && !asked.contains(&it.name) && it.version != *version
    };
    let (along, missing): (Vec<&Metadata>, Vec<&Metadata>) = facts
        .installed
        .iter()
        .filter(is_old)
        .partition(|it| facts.offered.has(it.name.normalized(), version));
    if missing.is_empty() {
        return Ok(along.iter().map(|it| it.name.clone()).collect());
    }
    let missing = missing.iter();
    let missing = missing.map(|it| format!("`{}` {}", it.name, it.version));
    let (root, place) = (facts.environment.root().display(), &facts.offered.place);
    Err(no(
        format!(
            "`{root}` has {}, and `{place}` does not have that in {version}",
            missing.format(", ")
        ),
        "uninstall it, name another directory, or remove the environment first",
    ))
}

/// Fails if an installed package that stays needs another version of one that is installed now: a
/// framework, for example, that is tied to its version of ROCm.
fn ensure_fits(
    facts: &Facts<'_>,
    projects: &BTreeSet<DistName>,
    pins: &[(DistName, Version)],
    packages: &[String],
) -> Result<()> {
    let named = packages.iter().filter_map(|it| RequirementLine::parse(it));
    let named: Vec<DistName> = named.map(|it| it.name).collect();
    let is_new = |name: &DistName| projects.contains(name) || named.contains(name);
    for installed in facts.installed.iter().filter(|it| !is_new(&it.name)) {
        let lines = select::requirements(installed);
        for line in lines.filter(|it| it.extra.is_none() && is_new(&it.name)) {
            let mut pins = pins.iter().filter(|it| it.0 == line.name);
            let Some((project, version)) =
                pins.find(|it| it.1.fulfils(line.specifier) == Some(false))
            else {
                continue;
            };
            let (name, own, needs) = (&installed.name, &installed.version, line.specifier);
            let root = facts.environment.root().display();
            return Err(no(
                format!(
                    "`{root}` has `{name}` {own}, which needs `{project}` {needs}, and not {version}"
                ),
                format!("pass `--package {name}` too, or name another directory"),
            ));
        }
    }
    Ok(())
}

/// The requirements that stand for what the user asks for, and what they need of a Python.
fn requirements<'a>(
    request: &Request,
    facts: &Facts<'a>,
    selection: &RocmSelection,
    pins: &[(DistName, Version)],
    files_of: &dyn Fn(&DistName, &Version) -> Vec<&'a OfferedFile>,
) -> Result<(Vec<String>, Vec<PythonNeed>)> {
    let (mut requirements, mut needs) = (Vec::new(), Vec::new());
    let need = |metadata: &Metadata, tags: Vec<Tag>| PythonNeed {
        project: metadata.name.clone(),
        version: metadata.version.clone(),
        requires_python: metadata.requires_python.clone(),
        tags,
    };
    let rocm = facts.rocm.as_ref().map(|it| &it.0);
    if let Some(rocm) = rocm {
        let extras = selection.extras.join(",");
        let brackets = if extras.is_empty() {
            extras
        } else {
            format!("[{extras}]")
        };
        requirements.push(format!("{}{brackets}=={}", rocm.name, rocm.version));
        needs.push(need(rocm, Vec::new()));
    }
    for (text, metadata) in &facts.packages {
        let line = RequirementLine::parse(text);
        let pin = line.and_then(|line| pins.iter().find(|it| it.0 == line.name));
        let Some((pin, metadata)) = pin.zip(metadata.as_ref()) else {
            requirements.push(elsewhere(request, facts.offered, text)?);
            continue;
        };
        if let Some(rocm) = rocm {
            select::ensure_for(text, pin, &rocm.version, facts.offered)?;
        }
        let files = files_of(&pin.0, &pin.1).into_iter();
        let names = files.filter_map(|it| it.name.parse::<PackageFilename>().ok());
        let tags: Option<Vec<Tag>> = names.map(|it| it.tag).collect();
        let tags = tags.unwrap_or_default();
        needs.push(need(metadata, tags.iter().flat_map(Tag::expand).collect()));
        requirements.push(select::with_device_code(text, metadata, &selection.targets));
    }
    if requirements.is_empty() {
        let (place, rocm) = (&facts.offered.place, &DistNames::built_in().selector);
        return Err(no(
            format!("`{place}` has no package `{rocm}`"),
            "name what to install from there with `--package`",
        ));
    }
    Ok((requirements, needs))
}

/// A package that the source does not offer. It has to come from the base index.
fn elsewhere(request: &Request, offered: &OfferedSet, text: &str) -> Result<String> {
    let place = &offered.place;
    let Some(base) = &request.dependencies else {
        return Err(no(
            format!("`{place}` does not have `{text}`"),
            "name the index that has it with `--deps`",
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

impl Plan {
    /// What is installed: `ROCm 7.13.0 for gfx942`.
    pub(super) fn summary(&self) -> String {
        let version = self.version.as_ref().map(|it| format!("ROCm {it}"));
        let what = version.unwrap_or_else(|| "packages".to_owned());
        if self.targets.is_empty() {
            format!("{what} without device code")
        } else {
            format!("{what} for {}", self.targets.iter().format(", "))
        }
    }

    /// The command that creates the environment, if there is none yet.
    pub(super) fn create(&self) -> Option<CommandLine> {
        let path = self.python.as_ref().map(|it| it.path.to_string_lossy());
        let python = path.as_deref().or(self.wanted_python.as_deref());
        (self.action == Action::Create).then(|| self.installer.create(&self.environment, python))
    }

    /// The command that installs what a file says.
    pub(super) fn install(&self, file: &Path, requirements: &Requirements) -> CommandLine {
        let mut line = self.installer.verb("install", &self.own_python);
        let has_digests = requirements.has_digests();
        line.extend(has_digests.then(|| "--require-hashes".to_owned()));
        line.extend(["--requirement".into(), file.to_string_lossy().into_owned()]);
        line
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, from {}", self.summary(), self.source)?;
        write!(f, "{} `{}`, with ", self.action, self.environment.display())?;
        match (&self.python, &self.wanted_python) {
            (Some(it), _) => writeln!(f, "Python {} (`{}`)", it.version, it.path.display())?,
            (None, Some(wanted)) => writeln!(f, "Python {wanted}")?,
            (None, None) => writeln!(f, "a Python that uv finds")?,
        }
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
            return write!(f, "  {}", shell(self.install(FILE.as_ref(), exact)));
        }
        // The pins are a file when the installer chooses, and here arguments that can be pasted.
        let asked = self.requirements.iter();
        let asked = asked.filter_map(|it| RequirementLine::parse(it));
        let asked: Vec<DistName> = asked.map(|it| it.name).collect();
        let pins = self.pins.iter().filter(|it| {
            let is_planned = self.files.iter().any(|file| file.project == it.project);
            is_planned && !asked.contains(&it.project)
        });
        let mut line = self.installer.verb("install", &self.own_python);
        line.extend(self.sources.iter().chain(&self.requirements).cloned());
        line.extend(pins.map(ToString::to_string));
        write!(f, "  {}", shell(line))
    }
}
