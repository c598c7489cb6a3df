//! `kpack extract`: writes the code objects of a file to files of their own.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::Serialize;

use super::{TargetSelection, open, reading};
use crate::{
    commands::World,
    console::{many, size},
    error::{Context as _, Hint as _, Result, bail},
    kpack::contents::{self, CodeFile, FoundCode},
    relpath::RelPath,
};

/// Write the code objects of a file to a directory
///
/// FILE is a binary, an offload bundle as compilers write it, or a `.kpack` archive. Each code object
/// becomes `NAME.BUNDLE.TARGET.hsaco`, with `-` for every colon. Code objects of an archive keep
/// the directories of their keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack extract lib/librocblas.so.5 --output-dir code
  rocwheel kpack extract .kpack/blas_lib_gfx942.kpack --output-dir code --target gfx942")]
pub(super) struct ExtractArgs {
    /// Binary, bundle or archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory to write to
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    selection: TargetSelection,
}

#[derive(Debug, Serialize)]
struct ExtractAnswer {
    schema: &'static str,
    files: Vec<ExtractedCode>,
}

#[derive(Debug, Serialize)]
struct ExtractedCode {
    path: String,
    target: String,
    size: u64,
}

pub(super) fn run(args: &ExtractArgs, world: &World) -> Result<()> {
    let source = open(&args.file)?;
    let mut files = Vec::new();
    let mut seen = 0_usize;
    let kind = contents::each(&source, |found, read| {
        world.stop.check()?;
        seen += 1;
        if args.selection.has(&found.target) {
            files.push(write(args, found, &read()?)?);
        }
        Ok(())
    })
    .with_context(|| reading(&args.file))?;
    if files.is_empty() {
        let nothing: Result<()> = match kind {
            CodeFile::Split(_) => return no_code(&args.file),
            _ => Err(crate::error::anyhow!(
                "none of {} is for a wanted target",
                many(seen, "code object")
            )),
        };
        return nothing.hint("`rocwheel kpack ls` lists the targets");
    }
    let total = files.iter().map(|file| file.size).sum();
    world.console.status(
        "Extracted",
        format!("{}, {}", many(files.len(), "code object"), size(total)),
    );
    world.console.answer(&ExtractAnswer {
        schema: "rocwheel-kpack-extract-v1",
        files,
    })
}

fn no_code(file: &Path) -> Result<()> {
    let refuse = || -> Result<()> { bail!("no code left in `{}`", file.display()) };
    refuse().hint("extract the archives that `rocwheel kpack ls` names")
}

fn write(args: &ExtractArgs, found: &FoundCode, code: &[u8]) -> Result<ExtractedCode> {
    let name = if found.name.is_empty() {
        let name = args.file.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    } else {
        found.name.clone()
    };
    // The name comes from the archive, so it must not lead out of the directory. `RelPath` rejects
    // `..` and absolute paths; a colon could begin a drive letter on Windows.
    let path: RelPath = format!("{name}.{}.{}.hsaco", found.bundle, found.target)
        .replace(':', "-")
        .parse()
        .context("failed to make a file name of a code object")?;
    let place = args.output_dir.join(path.as_str());
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&place, code)?;
    Ok(ExtractedCode {
        path: place.display().to_string(),
        target: found.target.to_string(),
        size: found.size,
    })
}

impl fmt::Display for ExtractAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files
            .iter()
            .try_for_each(|file| writeln!(f, "{}", file.path))
    }
}
