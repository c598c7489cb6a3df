//! `targets`: the GPU targets of families, of package sets and of this machine.

mod form;
mod machine;

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Value, json};

use self::{
    form::{FormArgs, TargetForm},
    machine::GpuFacts,
};
use super::{
    World,
    args::{MachineArgs, StepOutputs, Variables},
};
use crate::console::OutputFormat;
use rocwheel_base::{
    digest::Sha256,
    error::{Hint as _, Result, anyhow},
    target::{Target, TargetPattern, TargetTable},
};

/// Print GPU targets: of families, or of this machine
///
/// Prints them for people, build systems or workflows. `--detect` reads which GPUs this machine has
/// from the files of its kernel, so it needs no part of ROCm; `--check` also opens their devices, and
/// says why one cannot be used and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel targets gfx94X-dcgpu gfx110X-all --emit cmake
  rocwheel targets --detect --emit extras
  rocwheel targets --check

Exit codes: 0 targets were found, and with `--check` can be used, 1 there are none, or a GPU cannot be \
used, 2 usage, environment or access error")]
pub struct TargetsArgs {
    /// Targets, families (`gfx94X-dcgpu`), sub-families (`gfx12-0`), generic targets
    /// (`gfx11-generic`), or `all`
    #[arg(
        value_name = "NAME",
        conflicts_with_all = ["amdgpu_families", "detect", "check"]
    )]
    names: Vec<TargetPattern>,
    /// Families or targets, comma-separated, as TheRock's script takes them [default: `AMDGPU_FAMILIES`]
    #[arg(long, value_name = "LIST", conflicts_with_all = ["detect", "check"])]
    amdgpu_families: Option<TargetPattern>,
    // What a job of TheRock asks for. Anything else replaces it.
    #[arg(skip)]
    own_families: Option<TargetPattern>,
    /// Targets of the GPUs of this machine
    #[arg(long)]
    detect: bool,
    /// Targets of the GPUs of this machine; fail if one cannot be used
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    outputs: StepOutputs,
    #[command(flatten)]
    machine: MachineArgs,
}

pub fn run(args: &TargetsArgs, world: &World) -> Result<()> {
    let (answer, verdict) = args.answer(world)?;
    args.outputs.append(&answer.outputs())?;
    if answer.form == TargetForm::Github && answer.matrix["include"] == json!([]) {
        world
            .console
            .warn("no runner has one of these targets, and GitHub refuses an empty matrix");
    }
    let is_text = matches!(world.console.format(), OutputFormat::Text | OutputFormat::Github);
    // The reader of a refusal wants no `-DGPU_TARGETS=` without targets.
    if !is_text || !answer.names.is_empty() || verdict.is_ok() {
        world.console.report("targets", &answer, answer.text())?;
    }
    verdict
}

/// The answer of `targets`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TargetsAnswer {
    targets: Vec<Value>,
    families: Vec<String>,
    device_extras: Vec<String>,
    /// With the jobs as `include`.
    matrix: Value,
    /// The GPUs of this machine, if it was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus: Option<Vec<GpuFacts>>,
    #[serde(skip)]
    names: Vec<Target>,
    #[serde(skip)]
    form: TargetForm,
}

impl TargetsArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.own_families, "AMDGPU_FAMILIES")?;
        self.form.read_variables(variables)?;
        self.outputs.read_variables(variables);
        self.machine.read_variables(variables)
    }

    /// The answer, and an error if it means no.
    fn answer(&self, world: &World) -> Result<(TargetsAnswer, Result<()>)> {
        if self.detect || self.check {
            let machine = machine::observe(&self.machine, self.check, world)?;
            let answer = self.of_targets(machine.targets);
            return Ok((TargetsAnswer { gpus: Some(machine.gpus), ..answer }, machine.verdict));
        }
        Ok((self.of_targets(self.named()?), Ok(())))
    }

    /// The families of `--amdgpu-families` or of `AMDGPU_FAMILIES`, with which the command answers as TheRock's
    /// script does.
    fn families(&self) -> Option<&TargetPattern> {
        let of_variable = self.own_families.as_ref().filter(|_| self.names.is_empty());
        self.amdgpu_families.as_ref().or(of_variable)
    }

    fn named(&self) -> Result<Vec<Target>> {
        let patterns = self.families().map_or(self.names.as_slice(), std::slice::from_ref);
        if patterns.is_empty() {
            return Err(anyhow!("no target was named"))
                .hint("name targets or families, `all`, or pass `--detect`");
        }
        Ok(TargetTable::builtin().select(patterns)?)
    }

    fn of_targets(&self, names: Vec<Target>) -> TargetsAnswer {
        let table = TargetTable::builtin();
        let run = self.form.run_id.as_deref().unwrap_or_default();
        // The same run draws the same number for a text, so that all its jobs agree on the runners. 15 hexadecimal
        // digits are 60 bits, which fit into a `u64`.
        let draw = |text: &str| {
            let digest = Sha256::of(format!("{run} {text}").as_bytes()).to_string();
            u64::from_str_radix(&digest[..15], 16).unwrap_or(0)
        };
        let facts = names.iter().map(|target| {
            json!({
                "name": target,
                "product": table.product(&target.packaged()),
                "families": table.families_of(&target.packaged()),
                "extra": target.extra(),
            })
        });
        TargetsAnswer {
            targets: facts.collect(),
            families: table.ci_families(&names),
            device_extras: names.iter().map(Target::extra).unique().collect(),
            matrix: json!({ "include": table.jobs(&names, &draw) }),
            gpus: None,
            form: self.form.form(self.families().is_some()),
            names,
        }
    }
}

impl TargetsAnswer {
    /// The last one is TheRock's name.
    fn outputs(&self) -> Vec<(&'static str, String)> {
        let extras = self.device_extras.join(",");
        vec![
            ("targets", self.names.iter().join(",")),
            ("families", self.families.join(";")),
            ("device-extras", extras.clone()),
            ("matrix", self.matrix.to_string()),
            ("device_extras", extras),
        ]
    }
}
