//! `kpack`: lists and extracts device code, and recombines split artifacts.

mod extract;
mod listing;
mod recombine;

use std::path::Path;

use super::World;
use crate::{
    artifact::FileAt,
    error::{Hint as _, Result, anyhow},
    kpack::CodeTarget,
};

/// Inspect device code, and recombine split artifacts
///
/// FILE is a binary, an offload bundle as compilers write it, or a `.kpack` archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack extract blas_lib_gfx942.kpack --output-dir code --target gfx942
  rocwheel kpack recombine --artifact-dir artifacts --output-dir fat --family gfx94X-dcgpu")]
pub struct KpackArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Ls(listing::ListArgs),
    Extract(extract::ExtractArgs),
    Recombine(recombine::RecombineArgs),
}

/// Which code objects are meant.
#[derive(Debug, clap::Args)]
struct TargetSelection {
    /// Only code for this target, and for its variants if it names no features; can be repeated
    #[arg(
        long = "target",
        value_name = "TARGET",
        value_delimiter = ',',
        env = "ROCWHEEL_KPACK_TARGET"
    )]
    targets: Vec<CodeTarget>,
}

pub fn run(args: &KpackArgs, world: &World) -> Result<()> {
    match &args.verb {
        Verb::Ls(args) => listing::run(args, world),
        Verb::Extract(args) => extract::run(args, world),
        Verb::Recombine(args) => recombine::run(args, world),
    }
}

impl TargetSelection {
    fn has(&self, target: &CodeTarget) -> bool {
        let mut wanted = self.targets.iter();
        self.targets.is_empty() || wanted.any(|wanted| wanted == target || *wanted == target.base())
    }
}

fn open(file: &Path) -> Result<FileAt> {
    if file.is_dir() {
        return Err(anyhow!("a directory: `{}`", file.display()))
            .hint("pass a file: a binary, a bundle or a `.kpack` archive");
    }
    Ok(FileAt::open(file)?)
}

fn reading(file: &Path) -> String {
    format!("failed to read `{}`", file.display())
}
