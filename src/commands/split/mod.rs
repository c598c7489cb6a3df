//! `split`: takes the device code out of artifacts, into one artifact for each target.

pub mod observe;
mod staging;
mod tools;
pub mod work;
mod write;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

pub use self::staging::Staging;
use super::{
    World,
    args::Jobs,
    fetch,
    lock::{Lock, Work},
};
use crate::{
    artifact::ArtifactTree,
    console::{many, size},
    error::{Context as _, Hint as _, Result, bail},
};

/// Split fat artifacts into a part for every host and one for each target
///
/// The device code in binaries goes into `.kpack` archives, kernel databases move, and everything
/// else becomes the generic artifact. Generic artifacts are copied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel split --artifact-dir fat --output-dir artifacts")]
pub struct Args {
    /// The directory with unpacked artifacts, such as `blas_lib_gfx94X-dcgpu`
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_ARTIFACT_DIR")]
    artifact_dir: PathBuf,
    /// Where the split artifacts go; none of them may be there yet
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    jobs: Jobs,
}

/// What became of everything.
#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    artifacts: Vec<Written>,
}

#[derive(Debug, Serialize)]
struct Written {
    name: String,
    files: usize,
    size: u64,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    fetch::fetched_for(&args.artifact_dir)?;
    let tree = ArtifactTree::scan(&args.artifact_dir, args.jobs.count(), &world.stop)?;
    let splittings = observe::all(&tree.artifacts, args.jobs.count(), world)?;
    for splitting in &splittings {
        for name in splitting.names()? {
            let place = args.output_dir.join(&name);
            if place.symlink_metadata().is_ok() {
                return there_already(&place);
            }
        }
    }
    let _lock = Lock::to_write(&args.output_dir, Work::Split)?;
    let mut artifacts = Vec::new();
    for splitting in &splittings {
        let written = write::write(splitting, args, world)
            .with_context(|| format!("split `{}`", splitting.source))?;
        let total = written.iter().map(|artifact| artifact.size).sum();
        world.console.status(
            "Split",
            format!(
                "{}: {}, {}",
                splitting.source,
                many(written.len(), "artifact"),
                size(total)
            ),
        );
        artifacts.extend(written);
    }
    world.console.answer(&Answer {
        schema: "rocwheel-split-v1",
        artifacts,
    })
}

fn there_already(place: &Path) -> Result<()> {
    let refuse = || -> Result<()> { bail!("already there: `{}`", place.display()) };
    refuse().hint("remove it, or pass another `--output-dir`")
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.artifacts.iter().try_for_each(|artifact| {
            let files = many(artifact.files, "file");
            writeln!(f, "{}: {files}, {}", artifact.name, size(artifact.size))
        })
    }
}

/// Writes a link with this text, wherever that leads.
#[cfg(unix)]
pub(super) fn link(text: &str, place: &Path) -> Result<()> {
    Ok(fs::os::unix::fs::symlink(text, place)?)
}

#[cfg(not(unix))]
pub(super) fn link(text: &str, place: &Path) -> Result<()> {
    bail!(
        "links cannot be written here: `{}` to `{text}`",
        place.display()
    )
}
