//! The pins of an install in the forms of other tools, instead of an install.

use std::{fmt::Write as _, path::Path};

use super::{plan::Plan, requirements::Requirements};
use crate::{
    error::{Hint as _, No, Result, anyhow},
    set::PackageSource,
    wheel::DistName,
};

/// A form of pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// requirements.txt, for `pip install -r` and `uv pip install -r`
    Requirements,
    /// Dependencies, sources and indexes for the pyproject.toml of a uv project
    Uv,
    /// pylock.toml (PEP 751)
    Pylock,
}

impl Plan {
    /// The lines of a pyproject.toml. Each package is a dependency of its own, because
    /// `tool.uv.sources` ties only these to an index.
    pub(super) fn project(&self, requirements: &Requirements) -> Result<String> {
        let mut text = String::from("[project]\ndependencies = [\n");
        for package in &requirements.packages {
            writeln!(text, "    \"{package}\",")?;
        }
        text.push_str("]\n");
        let links: Vec<&str> = self
            .places
            .iter()
            .filter_map(PackageSource::links)
            .collect();
        if !links.is_empty() {
            writeln!(text, "\n[tool.uv]\nfind-links = {links:?}")?;
            if self.base.is_none() {
                text.push_str("no-index = true\n");
            }
        }
        let index = self.places.iter().find_map(PackageSource::index);
        if let Some(index) = index {
            text.push_str("\n[tool.uv.sources]\n");
            let promised = |name: &DistName| self.promised.iter().any(|it| it.project == *name);
            let packages = requirements.packages.iter().map(|it| &it.project);
            for project in packages.filter(|it| promised(it)) {
                writeln!(text, "{project} = {{ index = \"rocm\" }}")?;
            }
            let row = "[[tool.uv.index]]\nname = \"rocm\"";
            writeln!(text, "\n{row}\nurl = \"{index}\"\nexplicit = true")?;
        }
        if let Some(base) = &self.base {
            let row = "[[tool.uv.index]]\nname = \"base\"";
            writeln!(text, "\n{row}\nurl = \"{base}\"\ndefault = true")?;
        }
        Ok(text)
    }

    /// The files of ROCm as a pylock.toml.
    pub(super) fn pylock(&self) -> Result<String> {
        let mut text = String::from("lock-version = \"1.0\"\ncreated-by = \"rocwheel\"\n");
        for package in self.exact.iter().flat_map(|it| &it.packages) {
            let (name, version) = (&package.project, &package.version);
            writeln!(
                text,
                "\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\""
            )?;
            let files = self.files.iter().filter(|it| it.project == *name);
            let (mut sdist, mut wheels) = (String::new(), String::new());
            for file in files {
                let Some(sha256) = file.sha256 else {
                    let text = format!(
                        "`{}` does not say the SHA-256 of `{}`",
                        self.source, file.name
                    );
                    return Err(anyhow!(No(text)))
                        .hint("pass `--emit requirements`, or a set with a `set.json`");
                };
                let (name, url) = (&file.name, &file.url);
                let row = format!(
                    "{{ name = \"{name}\", url = \"{url}\", hashes = {{ sha256 = \"{sha256}\" }} }}"
                );
                if Path::new(name).extension().is_some_and(|it| it == "whl") {
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
}
