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

/// Download and unpack the artifacts of a run
///
/// Downloads, verifies and unpacks each archive in one stream, into a directory of its name.
/// Without patterns and lists, fetches all archives. Keeps complete artifacts of an earlier fetch.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel fetch --run-id 21440027240 --output-dir artifacts --dry-run
  rocwheel fetch --latest --amdgpu-families gfx94X-dcgpu --output-dir artifacts
  rocwheel fetch --pr 1234 blas --components lib,dev --output-dir artifacts")]
pub struct Args {
    /// Regular expressions: fetch only archives whose name matches one of them
    #[arg(value_name = "PATTERN")]
    include: Vec<Pattern>,
    /// Regular expressions: skip archives whose name matches one of them
    #[arg(long, value_name = "PATTERN", num_args = 1.., env = "ROCWHEEL_EXCLUDE")]
    exclude: Vec<Pattern>,
    /// Fetch only these components, comma-separated: `lib`, `run`, `dbg`, `dev`, `doc`, `test`
    #[arg(long, value_delimiter = ',', env = "ROCWHEEL_COMPONENTS")]
    components: Vec<Component>,
    /// Fetch only the artifacts that `build --only` needs for these packages: `core`,
    /// `device-gfx942`, `rocm-sdk-devel`
    #[arg(
        long,
        value_name = "PACKAGE",
        value_delimiter = ',',
        env = "ROCWHEEL_ONLY"
    )]
    only: Vec<String>,
    /// Directory for the artifacts
    #[arg(
        long,
        value_name = "DIR",
        default_value = "build/artifacts",
        env = "ROCWHEEL_OUTPUT_DIR"
    )]
    output_dir: PathBuf,
    /// Save the archives without unpacking them
    #[arg(long, env = "ROCWHEEL_NO_EXTRACT", conflicts_with = "flatten")]
    no_extract: bool,
    /// Merge all artifacts into one install tree; different files at one path are an error
    #[arg(long, env = "ROCWHEEL_FLATTEN")]
    flatten: bool,
    /// Print what would be fetched, and fetch nothing
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
