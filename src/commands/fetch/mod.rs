//! `fetch`: the artifacts of a run, each in one stream from where it is kept to a directory.

mod choice;
mod find;
mod place;

use std::{collections::BTreeSet, path::PathBuf};

pub use self::choice::{ChoiceArgs, Errand, Purpose};
use super::World;
use crate::{
    artifact::Component,
    error::Result,
    fetch::{
        output::OutputForm,
        select::{Pattern, Wish},
    },
};

/// Fetch the artifacts of a run
///
/// Each archive that is wanted is downloaded, verified and unpacked in one stream into a directory
/// of its name; without patterns and lists, all are. What is there already and whole is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel fetch --run-id 21440027240 --output-dir artifacts --dry-run
  rocwheel fetch --latest --amdgpu-families gfx94X-dcgpu --output-dir artifacts
  rocwheel fetch --pr 1234 blas --components lib,dev --output-dir artifacts")]
pub struct Args {
    /// Regular expressions: only archives in whose names one of them matches
    #[arg(value_name = "PATTERN")]
    include: Vec<Pattern>,
    /// Regular expressions: no archive in whose name one of them matches
    #[arg(long, value_name = "PATTERN", num_args = 1.., env = "ROCWHEEL_EXCLUDE")]
    exclude: Vec<Pattern>,
    /// Only these components, with commas between: `lib`, `run`, `dbg`, `dev`, `doc`, `test`
    #[arg(long, value_delimiter = ',', env = "ROCWHEEL_COMPONENTS")]
    components: Vec<Component>,
    /// Only what `build --only` makes these packages of: `core`, `device-gfx942`, `rocm-sdk-devel`
    #[arg(
        long,
        value_name = "PACKAGE",
        value_delimiter = ',',
        env = "ROCWHEEL_ONLY"
    )]
    only: Vec<String>,
    /// Where the artifacts go
    #[arg(
        long,
        value_name = "DIR",
        default_value = "build/artifacts",
        env = "ROCWHEEL_OUTPUT_DIR"
    )]
    output_dir: PathBuf,
    /// Keep the archives, and do not unpack them
    #[arg(long, env = "ROCWHEEL_NO_EXTRACT", conflicts_with = "flatten")]
    no_extract: bool,
    /// Make one install tree of all artifacts, if no two of them differ about a path
    #[arg(long, env = "ROCWHEEL_FLATTEN")]
    flatten: bool,
    /// Only say what would be fetched
    #[arg(long, env = "ROCWHEEL_DRY_RUN")]
    dry_run: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let to = (args.output_dir.as_path(), args.kept());
    let purpose = Purpose::of_dry_run(args.dry_run);
    let errand = args.choice.errand(args.wish(), to, purpose, world)?;
    if !args.dry_run {
        errand.carry_out(world)?;
    }
    if let Some(others) = errand.others() {
        world.console.warn(others);
    }
    world.console.answer(&errand.plan)
}

impl Args {
    fn wish(&self) -> Wish {
        Wish {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            components: self.components.iter().copied().collect::<BTreeSet<_>>(),
            only: self.only.clone(),
            ..Wish::default()
        }
    }

    fn kept(&self) -> OutputForm {
        if self.no_extract {
            OutputForm::Packed
        } else if self.flatten {
            OutputForm::Merged
        } else {
            OutputForm::Unpacked
        }
    }
}
