//! The forms in which build systems and workflows take targets.

use itertools::Itertools as _;

use super::TargetsAnswer;
use crate::commands::args::Variables;
use rocwheel_base::{
    error::Result,
    quantity::aligned,
    target::{Target, TargetTable},
};

#[derive(Debug, clap::Args)]
pub(super) struct FormArgs {
    /// Form in which targets are printed
    #[arg(long, value_name = "FORM", conflicts_with = "output_mode")]
    emit: Option<TargetForm>,
    /// What TheRock's script prints: `gfx942`, or `device-gfx942` for `pip install rocm[device-gfx942]`
    #[arg(long, value_name = "WHAT")]
    output_mode: Option<ScriptMode>,
    /// Workflow run, for which the matrix always has the same runners
    ///
    /// [env: `GITHUB_RUN_ID`]
    #[arg(long, value_name = "RUN")]
    pub(super) run_id: Option<String>,
}

/// What TheRock's script calls its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScriptMode {
    Targets,
    DeviceExtras,
}

impl FormArgs {
    pub(super) fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.run_id, "GITHUB_RUN_ID")
    }

    /// The form that was asked for. A line of TheRock's script is answered as the script does.
    pub(super) fn form(&self, is_script: bool) -> TargetForm {
        match (self.emit, self.output_mode) {
            (Some(form), _) => form,
            (None, Some(ScriptMode::DeviceExtras)) => TargetForm::Extras,
            (None, Some(ScriptMode::Targets)) => TargetForm::Commas,
            (None, None) if is_script => TargetForm::Commas,
            (None, None) => TargetForm::List,
        }
    }
}

/// How targets are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TargetForm {
    /// `gfx942 gfx1100`
    #[default]
    List,
    /// A table with products and families
    Table,
    /// `-DGPU_TARGETS=gfx942;gfx1100`, for the libraries of ROCm
    Cmake,
    /// `device-gfx942,device-gfx1100`: extras of `rocm`
    Extras,
    /// A matrix of jobs for GitHub Actions, with the runners of TheRock
    Github,
    /// `gfx942,gfx1100`, as TheRock's script prints it
    Commas,
}

impl TargetsAnswer {
    pub(super) fn text(&self) -> String {
        let targets = |separator: &str| self.names.iter().join(separator);
        match self.form {
            TargetForm::List => targets(" "),
            TargetForm::Commas => targets(","),
            TargetForm::Table => table(&self.names),
            TargetForm::Cmake => format!("-DGPU_TARGETS={}", targets(";")),
            TargetForm::Extras => self.device_extras.join(","),
            TargetForm::Github => self.matrix.to_string(),
        }
    }
}

fn table(targets: &[Target]) -> String {
    let table = TargetTable::builtin();
    let rows = targets.iter().map(|target| {
        let base = target.packaged();
        let product = table.product(&base).unwrap_or_default();
        let families = table.families_of(&base).iter().join(" ");
        vec![target.to_string(), product.to_owned(), families]
    });
    aligned(&rows.collect::<Vec<_>>())
}
