//! `kpack recombine`: the inverse of `split`. Puts device code back into its binaries.

use std::{fmt, path::PathBuf};

use serde::Serialize;

use crate::{
    artifact::{ArtifactOutput, ArtifactTree, RecombinedArtifact, parts_by_name, recombine},
    atomic::lock::{Lock, LockPurpose},
    commands::{World, args::Jobs},
    console::{many, size},
    error::{Context as _, Result},
    target::Family,
};

/// Merge split artifacts into fat ones: the inverse of `split`
///
/// Merges the generic part of an artifact and the parts for its targets into one fat artifact for a
/// family. Every code object comes back byte for byte, uncompressed. It goes to the end of its
/// binary; nothing else in the binary moves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack recombine --artifact-dir artifacts --output-dir fat --family gfx94X-dcgpu")]
pub(super) struct RecombineArgs {
    /// Directory with the artifacts that `split` wrote
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_ARTIFACT_DIR")]
    artifact_dir: PathBuf,
    /// Directory for the fat artifacts, none of which may exist yet
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
    /// Family in the names of the fat artifacts: `gfx94X-dcgpu`
    #[arg(long, value_name = "FAMILY", env = "ROCWHEEL_KPACK_FAMILY")]
    family: Family,
    #[command(flatten)]
    jobs: Jobs,
}

#[derive(Debug, Serialize)]
struct RecombineAnswer {
    schema: &'static str,
    artifacts: Vec<RecombinedArtifact>,
}

pub(super) fn run(args: &RecombineArgs, world: &World) -> Result<()> {
    let jobs = args.jobs.count();
    let tree = ArtifactTree::scan(&args.artifact_dir, jobs, &world.stop)?;
    let parts = parts_by_name(&tree.artifacts, &args.family);
    let _lock = Lock::to_write(&args.output_dir, LockPurpose::Recombine)?;
    let names = parts.iter().map(|(name, _)| name.to_string());
    let output = ArtifactOutput::new(&args.output_dir, names.collect())?;
    let mut artifacts = Vec::new();
    for (name, parts) in &parts {
        let made = recombine(name, parts, &output, jobs, &world.stop);
        let made = made.with_context(|| format!("failed to recombine `{name}`"))?;
        let count = many(made.code_objects, "code object");
        let facts = format!("{name}: {count}, {}", size(made.size));
        world.console.status("Recombined", facts);
        artifacts.push(made);
    }
    output.finish()?;
    world.console.answer(&RecombineAnswer {
        schema: "rocwheel-kpack-recombine-v1",
        artifacts,
    })
}

impl fmt::Display for RecombineAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.artifacts.iter().try_for_each(|made| {
            let (binaries, code) = (many(made.binaries, "binary"), made.code_objects);
            let code = many(code, "code object");
            writeln!(f, "{}: {binaries}, {code}, {}", made.name, size(made.size))
        })
    }
}
