//! `targets`: lists the GPU targets of families.

use std::{fmt, path::PathBuf};

use itertools::Itertools as _;
use serde::Serialize;

use super::{World, summary};
use crate::{
    error::{Context as _, Result},
    report::outputs,
    target::{Target, TargetTable, UnknownFamilies, split_list},
};

/// List the GPU targets of families
///
/// Prints them comma-separated: as targets for compilers, or as the extras of `rocm` that install
/// their device code.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel targets --amdgpu-families gfx94X-dcgpu,gfx120X-all
  rocwheel targets --amdgpu-families gfx94X-dcgpu --output-mode device-extras")]
pub struct TargetsArgs {
    /// Families or targets, comma-separated
    #[arg(long, value_name = "LIST", env = "AMDGPU_FAMILIES")]
    amdgpu_families: String,
    /// What to print: `gfx942`, or `device-gfx942` for `pip install rocm[device-gfx942]`
    #[arg(long, value_name = "WHAT", default_value = "targets")]
    output_mode: TargetForm,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    github_output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TargetForm {
    Targets,
    DeviceExtras,
}

pub fn run(args: &TargetsArgs, world: &World) -> Result<()> {
    let answer = args.answer()?;
    if let Some(file) = &args.github_output {
        let outputs = outputs::render(&answer.outputs());
        summary::append(file, &outputs?).context("failed to write step outputs")?;
    }
    world.console.answer(&answer)
}

/// The answer of `targets`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TargetsAnswer {
    schema: &'static str,
    targets: Vec<String>,
    device_extras: Vec<String>,
    #[serde(skip)]
    form: TargetForm,
}

impl TargetsArgs {
    fn answer(&self) -> Result<TargetsAnswer> {
        let names: Vec<&str> = split_list(&self.amdgpu_families).collect();
        let targets = TargetTable::builtin().expand(&names);
        let targets = targets.map_err(UnknownFamilies::hinted)?;
        let bases: Vec<Target> = targets.iter().map(Target::base).unique().collect();
        Ok(TargetsAnswer {
            schema: "rocwheel-targets-v1",
            targets: targets.iter().map(ToString::to_string).collect(),
            device_extras: bases.iter().map(|it| format!("device-{it}")).collect(),
            form: self.output_mode,
        })
    }
}

impl TargetsAnswer {
    /// The last one is TheRock's name.
    fn outputs(&self) -> Vec<(&'static str, String)> {
        let extras = self.device_extras.join(",");
        vec![
            ("targets", self.targets.join(",")),
            ("device-extras", extras.clone()),
            ("device_extras", extras),
        ]
    }
}

impl fmt::Display for TargetsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self.form {
            TargetForm::Targets => &self.targets,
            TargetForm::DeviceExtras => &self.device_extras,
        };
        f.write_str(&shown.join(","))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::error::render;

    #[derive(Debug, Parser)]
    struct Probe {
        #[command(flatten)]
        targets: TargetsArgs,
    }

    fn told(line: &[&str]) -> String {
        let line = [&["probe", "--amdgpu-families"], line].concat();
        let args = Probe::try_parse_from(line).unwrap().targets;
        match args.answer() {
            Ok(answer) => answer.to_string(),
            Err(error) => render(&error),
        }
    }

    #[test]
    fn families_become_their_targets_each_once() {
        assert_eq!(
            told(&["gfx94X-dcgpu;gfx120X-all, gfx942"]),
            "gfx942,gfx1200,gfx1201"
        );
        assert_eq!(told(&[" ; "]), "");
    }

    #[test]
    fn an_extra_installs_the_code_of_a_target_with_all_its_variants() {
        let line = [
            "gfx942:xnack+,gfx94X-dcgpu,gfx1201",
            "--output-mode=device-extras",
        ];
        assert_eq!(told(&line), "device-gfx942,device-gfx1201");
        assert_eq!(
            told(&["gfx942:xnack+,gfx94X-dcgpu"]),
            "gfx942:xnack+,gfx942"
        );
    }

    #[test]
    fn a_mistyped_family_is_refused_with_the_nearest_ones() {
        let error = told(&["gfx94x-dcgpu"]);
        let hint =
            "error: unknown GPU family: `gfx94x-dcgpu`\n\nhint: did you mean `gfx94X-dcgpu`?";
        assert!(error.starts_with(hint), "{error}");
    }
}
