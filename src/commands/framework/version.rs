//! `framework version`: the version of a framework wheel that is built for a set.

use std::{fmt, path::PathBuf};

use serde::Serialize;

use super::World;
use crate::{
    commands::args::AccessArgs,
    error::{Context as _, Hint as _, No, Result, anyhow, hinted},
    framework::version::{flat_suffix, suffix, with_suffix, without_rocm},
    set::{self, PlaceDepth},
    version::{GitSha, Version},
    wheel::DistName,
};

/// Compute the version of a framework wheel
///
/// Appends the part that names ROCm, as the builds of PyTorch do: `2.12.0+rocm7.14.0`. With `--over` or
/// `--over-index`, fails if installers would take the new version for an older one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework version 2.12.0 --set packages
  rocwheel framework version 2.12.0 --set 10.1.0 --over 2.12.0+rocm7.14.0
  rocwheel framework version 2.12.0 --set packages --over-index published --project torch")]
pub(super) struct FrameworkVersionArgs {
    /// Version of the framework itself
    #[arg(value_name = "BASE")]
    base: Version,
    /// ROCm packages that it is built for, or their version
    #[arg(long, value_name = "SET")]
    set: PathBuf,
    /// How to name ROCm: `+rocm7.14.0`, `+rocm7140`, or not at all
    #[arg(long, value_name = "STYLE", default_value = "upstream")]
    style: SuffixStyle,
    /// Commit of the framework, for builds that are no release
    #[arg(long, value_name = "SHA")]
    commit: Option<GitSha>,
    /// Versions that it must not sort below, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    over: Vec<Version>,
    /// Index whose versions of `--project` it must not sort below: a directory, `s3://bucket/directory`,
    /// or a URL
    #[arg(long, value_name = "PLACE", requires = "project")]
    over_index: Option<PathBuf>,
    /// Name of the framework in that index
    #[arg(long, value_name = "NAME")]
    project: Option<DistName>,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SuffixStyle {
    Upstream,
    Flat,
    None,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct FrameworkVersionAnswer {
    schema: &'static str,
    version: String,
    /// The part behind `+`.
    suffix: Option<String>,
    /// The set.
    rocm: String,
    requirement: String,
    /// The version as a part of file names.
    filename_part: String,
}

pub(super) fn run(args: &FrameworkVersionArgs, world: &World) -> Result<()> {
    let rocm = args.rocm(world)?;
    let version = args.version(&rocm)?;
    let there = args.there(world)?;
    let text = version.to_string();
    world.console.answer(&FrameworkVersionAnswer {
        schema: "rocwheel-framework-version-v1",
        suffix: text.split_once('+').map(|(_, local)| local.to_owned()),
        rocm: rocm.to_string(),
        requirement: format!("=={text}"),
        filename_part: version.filename_form(),
        version: text,
    })?;
    match there.iter().max().filter(|there| version < **there) {
        Some(there) => Err(hinted(
            anyhow!(No(format!(
                "{version} sorts below {there}, so installers would take it for older"
            ))),
            "publish it in another index, raise the base version, or let users pin it exactly",
        )),
        None => Ok(()),
    }
}

impl FrameworkVersionArgs {
    /// The version of the set, from the names of its packages.
    fn rocm(&self, world: &World) -> Result<Version> {
        let named = self.set.to_str().and_then(|text| text.parse().ok());
        if let Some(version) = named.filter(|_| !self.set.exists()) {
            return Ok(version);
        }
        let place = self.access.place(&self.set, &world.stop)?;
        let found = set::find(&place, PlaceDepth::Pages)?;
        let mut packages = found
            .packages
            .iter()
            .filter_map(|it| set::identity(&it.name));
        let rocm =
            packages.find(|(name, _)| ["rocm", "rocm-sdk-core"].contains(&name.normalized()));
        rocm.map(|(_, version)| version)
            .with_context(|| format!("no `rocm` in `{place}`"))
            .hint("pass the directory that `rocwheel build` wrote to, or the version itself")
    }

    /// The versions that it must not sort below.
    fn there(&self, world: &World) -> Result<Vec<Version>> {
        let mut there = self.over.clone();
        if let Some(index) = &self.over_index {
            let place = self.access.place(index, &world.stop)?;
            let found = set::find(&place, PlaceDepth::Pages)?;
            let packages = found.packages.iter();
            let packages = packages.filter_map(|it| set::identity(it.name.rsplit('/').next()?));
            let own = packages.filter(|(name, _)| Some(name) == self.project.as_ref());
            there.extend(own.map(|(_, version)| version));
        }
        Ok(there)
    }

    fn version(&self, rocm: &Version) -> Result<Version> {
        let mut version = without_rocm(&self.base);
        if let Some(commit) = &self.commit {
            version = with_suffix(&version, &format!("git{}", commit.short()))?;
        }
        match self.style {
            SuffixStyle::Upstream => with_suffix(&version, &suffix(rocm)),
            SuffixStyle::Flat => with_suffix(&version, &flat_suffix(rocm)),
            SuffixStyle::None => Ok(version),
        }
    }
}

impl fmt::Display for FrameworkVersionAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)
    }
}
