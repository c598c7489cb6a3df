//! `framework version`: the version of a framework wheel that is built for a set.

use serde_json::json;

use super::World;
use crate::{
    commands::args::{AccessArgs, Variables},
    error::{Context as _, Hint as _, Result},
    framework::{
        env::BuiltFramework,
        version::{suffix, with_suffix, without_rocm},
    },
    index,
    place::{self, PlaceArg, PlaceDepth},
    policy::DistNames,
    version::{GitSha, Version},
};

/// Compute the version of a framework wheel
///
/// Appends the part that names ROCm, as the builds of PyTorch do: `2.12.0+rocm7.14.0`. `check --with` compares
/// the versions of wheels with the versions in an index.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework version 2.12.0 --set packages
  rocwheel framework version 0.8.2 --set packages --for jax
  rocwheel framework version 2.12.0 --set 10.1.0")]
pub(super) struct FrameworkVersionArgs {
    /// Version of the framework itself
    #[arg(value_name = "BASE")]
    base: Version,
    /// ROCm packages that it is built for, or their version
    #[arg(long, value_name = "SET")]
    set: PlaceArg,
    /// What is built: builds of JAX name a ROCm under development in another way
    #[arg(long = "for", value_name = "FRAMEWORK", default_value = "torch")]
    built: BuiltFramework,
    /// Commit of the framework, for builds that are no release
    #[arg(long, value_name = "SHA")]
    commit: Option<GitSha>,
    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &FrameworkVersionArgs, world: &World) -> Result<()> {
    let rocm = args.rocm(world)?;
    let mut version = without_rocm(&args.base);
    if let Some(commit) = &args.commit {
        version = with_suffix(&version, &format!("git{}", commit.short()))?;
    }
    version = with_suffix(&version, &suffix(&rocm, args.built.policy()))?;
    let shown = version.to_string();
    let facts = json!({
        "version": shown,
        "suffix": shown.split_once('+').map(|(_, local)| local),
        "rocm": rocm.to_string(),
        "requirement": format!("=={shown}"),
        "filename-part": version.filename_form(),
    });
    world.console.report("framework version", &facts, &shown)
}

impl FrameworkVersionArgs {
    pub(super) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.access.read_variables(variables)
    }

    /// The version of the set, from the names of its packages.
    fn rocm(&self, world: &World) -> Result<Version> {
        // `--set 10.1.0` is a version, unless a directory has this name.
        if let PlaceArg::Directory(path) = &self.set
            && !path.exists()
            && let Ok(version) = self.set.to_string().parse()
        {
            return Ok(version);
        }
        let ours = DistNames::built_in();
        let place = self.access.place(&self.set, &world.stop)?;
        let set = place::find(&place, PlaceDepth::Pages)?;
        let mut packages = set.packages.iter().filter_map(|it| index::identity(&it.name));
        let rocm =
            packages.find(|(name, _)| [&ours.selector, &ours.core].contains(&&name.to_string()));
        rocm.map(|(_, version)| version)
            .with_context(|| format!("no `{}` in `{place}`", ours.selector))
            .hint("pass the directory that `rocwheel build` wrote to, or the version itself")
    }
}
