//! The pins of a [`Plan`] in the forms of other tools: `--emit`.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use itertools::Itertools as _;

use super::{
    act::ResolvedForm,
    plan::Plan,
    requirements::{Pinned, Requirements},
};
use crate::{console::World, place::PackageSource};
use rocwheel_base::error::{Context as _, Result};
use rocwheel_wheel::{DistName, Requirement};

/// A form of pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// requirements.txt, for `pip install -r` and `uv pip install -r`
    Requirements,
    /// pylock.toml (PEP 751)
    Pylock,
    /// What `pyproject.toml` needs for uv: dependencies, indexes and sources
    Uv,
    /// Constraints, for `pip install -c` and `uv pip install -c`
    Constraints,
}

impl Emit {
    pub fn has_digests(self) -> bool {
        matches!(self, Self::Requirements | Self::Pylock)
    }
}

impl Plan {
    /// The pins in another form, without an environment.
    pub fn emit(&self, form: Emit, world: &World) -> Result<String> {
        if let Some(exact) = &self.exact {
            return self.write_form(exact, form);
        }
        match form {
            Emit::Pylock => self.resolve_without_environment(ResolvedForm::Pylock, world),
            Emit::Requirements | Emit::Uv | Emit::Constraints => {
                let resolved =
                    self.resolve_without_environment(ResolvedForm::Requirements, world)?;
                self.write_form(&self.read_resolved(&resolved)?, form)
            }
        }
    }

    fn write_form(&self, requirements: &Requirements, form: Emit) -> Result<String> {
        match form {
            Emit::Requirements => Ok(requirements.to_string()),
            Emit::Pylock => self.pylock(requirements),
            Emit::Uv => self.uv_project(requirements),
            Emit::Constraints => self.constraints(requirements),
        }
    }

    /// The files of ROCm as a pylock.toml.
    fn pylock(&self, exact: &Requirements) -> Result<String> {
        let mut text = String::from("lock-version = \"1.0\"\ncreated-by = \"rocwheel\"\n");
        for package in &exact.packages {
            let Pinned { project, version, .. } = package;
            writeln!(text, "\n[[packages]]\nname = \"{project}\"\nversion = \"{version}\"")?;
            let mut sdist = String::new();
            let mut wheels = String::new();
            for file in self.files.iter().filter(|file| file.project == *project) {
                let name = &file.name;
                let url = &file.url;
                let sha256 = file.sha256.with_context(|| format!("no digest for `{name}`"))?;
                let row = format!(
                    "{{ name = \"{name}\", url = \"{url}\", hashes = {{ sha256 = \"{sha256}\" }} }}"
                );
                if Path::new(name).extension().is_some_and(|extension| extension == "whl") {
                    writeln!(wheels, "    {row},")?;
                } else {
                    sdist = format!("sdist = {row}\n");
                }
            }
            text.push_str(&sdist);
            if !wheels.is_empty() {
                write!(text, "wheels = [\n{wheels}]\n")?;
            }
        }
        Ok(text)
    }

    /// The packages that the source offers, and not another index.
    fn pins_of_source<'a>(
        &'a self,
        requirements: &'a Requirements,
    ) -> impl Iterator<Item = &'a Pinned> {
        requirements.packages.iter().filter(|package| {
            let same =
                |pin: &&Pinned| pin.project == package.project && pin.version == package.version;
            self.pins.iter().any(|pin| same(&pin))
        })
    }

    /// The versions of ROCm and its frameworks, so that an installer does not replace them by packages of others, such as
    /// the torch for CUDA.
    fn constraints(&self, requirements: &Requirements) -> Result<String> {
        let mut text = format!("# {}, from {}\n", self.summary(), self.source);
        for Pinned { project, version, .. } in self.pins_of_source(requirements) {
            writeln!(text, "{project}=={version}")?;
        }
        Ok(text)
    }

    /// What the `pyproject.toml` of a project needs.
    ///
    /// uv takes a package from an explicit index only if the project names the package in `tool.uv.sources`, and reads
    /// these sources only for what the project itself requires. So each package of ROCm is a dependency with a source.
    fn uv_project(&self, requirements: &Requirements) -> Result<String> {
        let extras = self.extras_asked_for();
        let mut dependencies = String::new();
        let mut sources = String::new();
        let mut undated_rows = Vec::new();
        for Pinned { project, version, .. } in self.pins_of_source(requirements) {
            let brackets = extras.get(project).map(|it| format!("[{it}]")).unwrap_or_default();
            writeln!(dependencies, "    \"{project}{brackets}=={version}\",")?;
            let index = index_name(self.position_of_source(project));
            writeln!(sources, "{project} = {{ index = \"{index}\" }}")?;
            undated_rows.push(format!("{project} = false"));
        }
        let mut indexes = String::new();
        for (position, place) in self.places.iter().enumerate() {
            let name = index_name(position);
            let (url, format) = match place {
                PackageSource::Index(url) => (url, ""),
                PackageSource::Links(url) => (url, "format = \"flat\"\n"),
            };
            writeln!(
                indexes,
                "\n[[tool.uv.index]]\nname = \"{name}\"\nurl = \"{url}\"\n{format}explicit = true"
            )?;
        }
        if let Some(base) = &self.origin.dependencies {
            writeln!(
                indexes,
                "\n[[tool.uv.index]]\nname = \"base\"\nurl = \"{base}\"\ndefault = true"
            )?;
        }
        let undated = undated_rows.join(", ");
        Ok(format!(
            "# {}, from {}\n[project]\ndependencies = [\n{dependencies}]\n{indexes}\n[tool.uv.sources]\n{sources}\n\
             [tool.uv]\n# The index does not say when its files were uploaded.\n\
             exclude-newer-package = {{ {undated} }}\n",
            self.summary(),
            self.source
        ))
    }

    /// The extras of each package that was asked for: `libraries,device-gfx942` of `rocm`.
    fn extras_asked_for(&self) -> BTreeMap<DistName, String> {
        let asked = self.requirements.iter().filter_map(|line| line.parse::<Requirement>().ok());
        let with_extras = asked.filter(|requirement| !requirement.extras.is_empty());
        with_extras
            .map(|requirement| (requirement.name, requirement.extras.iter().join(",")))
            .collect()
    }

    /// Which of the places has a package. A set with a directory for each family has several.
    fn position_of_source(&self, project: &DistName) -> usize {
        let address = self.addresses.get(project);
        let directory = address.and_then(|url| Some(url.rsplit_once('/')?.0));
        let is_in = |place: &PackageSource| {
            let links = place.links().and_then(|url| Some(url.rsplit_once('/')?.0));
            links.is_some() && links == directory
        };
        self.places.iter().position(is_in).unwrap_or(0)
    }
}

/// `rocm`, `rocm-2`
fn index_name(position: usize) -> String {
    match position {
        0 => "rocm".to_owned(),
        position => format!("rocm-{}", position + 1),
    }
}
