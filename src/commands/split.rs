//! `split`: moves the device code of fat artifacts into one artifact for each target.

use std::path::PathBuf;

use itertools::Itertools as _;
use serde_json::json;

use super::{
    World,
    args::{Jobs, Variables},
};
use crate::{
    artifact::{
        ArtifactOutput, ArtifactTree, TreeContent,
        split::{self, SplitPlan, WrittenArtifact},
    },
    fetch,
};
use rocwheel_base::{
    atomic::lock::{Lock, LockPurpose},
    error::{Context as _, Hint as _, Result},
    quantity::{many, shell_word, size},
};

/// Split device code out of fat artifacts
///
/// Writes one generic artifact, for every GPU, and one artifact for each target. Device code in
/// binaries goes into `.kpack` archives; kernel databases move to their target; all other files are
/// generic. Copies generic artifacts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel split --artifact-dir fat --output-dir artifacts")]
pub struct SplitArgs {
    /// Directory with unpacked artifacts, such as `blas_lib_gfx94X-dcgpu`
    #[arg(long, alias = "batch-artifact-parent-dir", value_name = "DIR")]
    artifact_dir: PathBuf,
    /// Directory for the split artifacts, none of which may exist yet
    #[arg(long, short = 'o', value_name = "DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    jobs: Jobs,
}

impl SplitArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.jobs.read_variables(variables)
    }
}

pub fn run(args: &SplitArgs, world: &World) -> Result<()> {
    fetch::fetched_for(&args.artifact_dir)?;
    let jobs = args.jobs.count();
    let stop = &world.stop;
    let tree = ArtifactTree::scan(&args.artifact_dir, jobs, stop)
        .hint("pass a directory of artifacts as `--artifact-dir`")?;
    let splittings = split::all(&tree.artifacts, jobs, stop)?;
    for warning in splittings.iter().flat_map(SplitPlan::kept_code) {
        world.console.warn(warning);
    }
    let names = splittings.iter().flat_map(SplitPlan::names).collect();
    let _lock = Lock::to_write(&args.output_dir, LockPurpose::Split)?;
    let output = ArtifactOutput::new(&args.output_dir, names)?;
    let artifacts = split_all(&splittings, &output, args, world)?;
    output.finish()?;
    let facts = json!({ "artifacts": artifacts });
    world.console.report("split", &facts, artifacts.iter().join("\n"))?;
    let shown = shell_word(&args.output_dir.to_string_lossy());
    world.console.next(format!("rocwheel build --artifact-dir {shown} --output-dir packages"));
    Ok(())
}

fn split_all(
    splittings: &[SplitPlan<'_>],
    output: &ArtifactOutput,
    args: &SplitArgs,
    world: &World,
) -> Result<Vec<WrittenArtifact>> {
    let count = splittings.len();
    let total = splittings.iter().map(split_size).sum();
    let what = many(count, "artifact");
    let _bar = world.console.joined_progress("Splitting", what, count, total);
    let mut artifacts = Vec::new();
    for splitting in splittings {
        artifacts.extend(split_one(splitting, output, args, world)?);
    }
    Ok(artifacts)
}

/// The size of the files of an artifact.
fn split_size(splitting: &SplitPlan<'_>) -> u64 {
    let files = splitting.files.iter();
    let sizes = files.map(|(file, _)| match &file.content {
        TreeContent::File(facts) => facts.len,
        TreeContent::Directory | TreeContent::Link { .. } => 0,
    });
    sizes.sum()
}

fn split_one(
    splitting: &SplitPlan<'_>,
    output: &ArtifactOutput,
    args: &SplitArgs,
    world: &World,
) -> Result<Vec<WrittenArtifact>> {
    let source = &splitting.artifact.name;
    let progress = world.console.progress("Splitting", source, split_size(splitting));
    let inc = |bytes| progress.inc(bytes);
    let written = split::write(splitting, output, args.jobs.count(), &world.stop, &inc)
        .with_context(|| format!("failed to split `{source}`"))?;
    drop(progress);
    let total = written.iter().map(|artifact| artifact.size).sum();
    let count = many(written.len(), "artifact");
    world.console.status("Split", format!("{source}: {count}, {}", size(total)));
    Ok(written)
}
