//! `framework env`: the environment in which frameworks are built against a set.

use std::path::{Path, PathBuf};

use fs_err as fs;
use itertools::Itertools as _;
use serde_json::json;

use super::World;
use crate::{
    framework::{
        env::{BuiltFramework, InstalledRocm, variables},
        version::suffix,
    },
    policy::DistNames,
    run::Platform,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow},
    target::{Target, TargetPattern, TargetTable},
    version::Version,
};
use rocwheel_wheel::DistName;

/// Print the variables that the build of a framework needs, for a shell
///
/// The packages are installed: `rocm[libraries,devel]`, and `rocm-sdk init` was run. Variables for parts
/// that they do not have are left out, with a note.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel framework env --site venv/lib/python3.12/site-packages --for torch --base-version 2.12.0
  eval \"$(rocwheel framework env --site venv/lib/python3.12/site-packages --for jax)\"")]
pub(super) struct EnvArgs {
    /// Directory in which the packages are installed: `site-packages`
    #[arg(long, value_name = "DIR")]
    site: PathBuf,
    /// What is built
    #[arg(long = "for", value_name = "FRAMEWORK", default_value = "cmake")]
    built: BuiltFramework,
    /// Version of the framework itself, for the variables that name it
    #[arg(long, value_name = "VERSION")]
    base_version: Option<Version>,
    /// Families or targets to build for, comma-separated [default: those with device code there]
    #[arg(long = "target", alias = "targets", value_name = "LIST", value_parser = TargetPattern::known)]
    targets: Option<TargetPattern>,
}

pub(super) fn run(args: &EnvArgs, world: &World) -> Result<()> {
    let rocm = args.installed()?;
    let exists = |path: &str| Path::new(&rocm.root).join(path).exists();
    let build = variables(&rocm, args.built, exists)?;
    for (why, names) in &build.left_out {
        let note = format!("left out: {}, since {why}", names.join(", "));
        world.console.note(note);
    }
    let lines = build.variables.iter().join("\n");
    // What a wheel that is built with it should require, and the suffix of its version.
    let version = rocm.version.to_string();
    let facts = json!({
        "rocm": version,
        "root": rocm.root,
        "targets": rocm.targets.iter().map(ToString::to_string).collect_vec(),
        "requirement": format!("{}[libraries]=={version}", DistNames::built_in().selector),
        "version-suffix": format!("+{}", suffix(&rocm.version, args.built.policy())),
        "variables": build.variables,
    });
    world.console.report("framework env", &facts, lines)
}

impl EnvArgs {
    fn installed(&self) -> Result<InstalledRocm> {
        let names = DistNames::built_in();
        // Not the real path: on Windows that begins with `\\?\`, which takes no `/`.
        let site = std::path::absolute(&self.site)?;
        let root = site.join(DistNames::import_name(&names.devel));
        let mut version = None;
        let mut with_code: Vec<Target> = Vec::new();
        for entry in fs::read_dir(&site)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".dist-info");
            let Some((name, installed)) = stem.and_then(|it| it.split_once('-')) else {
                continue;
            };
            let Ok(name) = name.parse::<DistName>() else {
                continue;
            };
            with_code.extend(names.device_target(&name));
            if name.normalized() == names.core {
                version = installed.parse().ok();
            }
        }
        let version = version
            .with_context(|| format!("no `{}` is installed in `{}`", names.core, site.display()))
            .hint("pass the `site-packages` into which `rocm[libraries,devel]` was installed")?;
        if !root.is_dir() {
            return Err(anyhow!("no development files in `{}`", site.display()))
                .hint("install `rocm[libraries,devel]`, and run `rocm-sdk init`");
        }
        with_code.sort();
        let targets = match &self.targets {
            None => with_code,
            Some(pattern) => chosen_targets(pattern, &with_code)?,
        };
        Ok(InstalledRocm {
            root: root.to_str().context("a directory whose name is not UTF-8")?.to_owned(),
            version,
            targets,
            base: self.base_version.clone(),
            platform: if cfg!(windows) { Platform::Windows } else { Platform::Linux },
        })
    }
}

/// The targets of a pattern, each of which must have device code.
fn chosen_targets(pattern: &TargetPattern, with_code: &[Target]) -> Result<Vec<Target>> {
    let selected = TargetTable::builtin().select(std::slice::from_ref(pattern))?;
    let targets: Vec<Target> = selected.iter().map(Target::base).unique().collect();
    let Some(target) = targets.iter().find(|target| !with_code.contains(target)) else {
        return Ok(targets);
    };
    let installed = match with_code {
        [] => "none at all".to_owned(),
        targets => format!("only for {}", targets.iter().join(", ")),
    };
    let package = DistNames::built_in().device(target);
    Err(anyhow!("no device code for {target} is installed, {installed}"))
        .hint(format!("add `{package}`, or leave {target} out of `--target`"))
}
