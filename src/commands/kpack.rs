//! `kpack`: lists device code.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

use super::World;
use crate::{
    error::{Context as _, Hint as _, Result, anyhow},
    io::FileAt,
    kpack::{
        CodeTarget,
        contents::{self, CodeFile, FoundCode},
    },
    quantity::{aligned, many, size},
    target::{TargetPattern, TargetTable},
};

/// Inspect device code
///
/// FILE is a binary, an offload bundle as compilers write it, or a `.kpack` archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack ls blas_lib_gfx942.kpack --target gfx942")]
pub struct KpackArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(alias = "list")]
    Ls(ListArgs),
}

/// List the code objects of a file: target, size, compression, kernels
///
/// FILE is a binary, an offload bundle as compilers write it, or a `.kpack` archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack ls .kpack/blas_lib_gfx942.kpack --target gfx942:xnack+")]
struct ListArgs {
    /// Binary, bundle or archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only code for these targets or families, comma-separated; for all variants of a target without features
    #[arg(long = "target", value_name = "LIST")]
    targets: Vec<TargetPattern>,
}

/// The largest code object, or compressed bundle, that is read for the names of its kernels. The largest of ROCm have
/// some hundred megabytes.
const MOST_READ: u64 = 512 << 20;

#[derive(Debug, Serialize)]
struct CodeRow {
    #[serde(flatten)]
    code: FoundCode,
    /// `None` if the code object is larger than [`MOST_READ`].
    kernels: Option<Vec<String>>,
}

pub fn run(args: &KpackArgs, world: &World) -> Result<()> {
    match &args.verb {
        Verb::Ls(args) => list(args, world),
    }
}

fn list(args: &ListArgs, world: &World) -> Result<()> {
    let mut rows = Vec::new();
    let wanted = args.wanted()?;
    let kind = contents::each(&open(&args.file)?, MOST_READ, |found, read| {
        world.stop.check()?;
        let target = &found.target;
        let base = target.base();
        if args.targets.is_empty() || wanted.contains(target) || wanted.contains(&base) {
            let kernels = read()?.map(|code| contents::kernels(&code));
            let code = found.clone();
            rows.push(CodeRow { code, kernels });
        }
        Ok(())
    });
    let file = args.file.display().to_string();
    let (kind, references) = match kind.with_context(|| format!("failed to read `{file}`"))? {
        CodeFile::Split(references) => ("split binary".to_owned(), references),
        other => (other.to_string(), Vec::new()),
    };
    let total = rows.iter().map(|row| row.code.size).sum();
    let count = many(rows.len(), "code object");
    let mut answer = format!("{file}: {kind}, {count}, {}\n", size(total));
    if !rows.is_empty() {
        let head = "BUNDLE TARGET SIZE STORED COMPRESSION KERNELS".split(' ');
        let mut table = vec![head.map(str::to_owned).collect()];
        table.extend(rows.iter().map(CodeRow::cells));
        answer.push_str(&aligned(&table));
    }
    let mut facts = json!({ "file": file, "kind": kind, "code_objects": rows });
    // A split binary has no code: its references say in which archives it is.
    if !references.is_empty() {
        answer.extend(references.iter().map(|reference| {
            let paths = reference.marker.kpack_search_paths.join(" ");
            format!("{}#{} in {paths}\n", reference.marker.kernel_name, reference.index)
        }));
        let rows = references.iter().map(|reference| {
            json!({
                "kernel_name": reference.marker.kernel_name,
                "index": reference.index,
                "search_paths": reference.marker.kpack_search_paths,
            })
        });
        facts["references"] = rows.collect();
    }
    world.console.report("kpack ls", &facts, answer)
}

impl ListArgs {
    /// The targets whose code is asked for.
    fn wanted(&self) -> Result<BTreeSet<CodeTarget>> {
        let table = TargetTable::builtin();
        let mut wanted = BTreeSet::new();
        for name in self.targets.iter().flat_map(TargetPattern::names) {
            let known = table.targets_named(name);
            // Code for a generic target has the name of that target on each GPU that runs it.
            if known.is_empty() || table.is_generic(name) {
                let code = name.parse::<CodeTarget>();
                wanted.insert(code.map_err(|_| table.unknown(vec![name.to_owned()]))?);
            } else {
                wanted.extend(known.iter().map(CodeTarget::from));
            }
        }
        Ok(wanted)
    }
}

fn open(file: &Path) -> Result<FileAt> {
    if file.is_dir() {
        return Err(anyhow!("a directory: `{}`", file.display()))
            .hint("pass a file: a binary, a bundle or a `.kpack` archive");
    }
    Ok(FileAt::open(file)?)
}

impl CodeRow {
    fn cells(&self) -> Vec<String> {
        let code = &self.code;
        let kernels = match &self.kernels {
            None => format!("not read: more than {}", size(MOST_READ)),
            Some(kernels) => {
                let (shown, rest) = kernels.split_at(kernels.len().min(3));
                let more = format!(", and {} more", rest.len());
                let end = if rest.is_empty() { "" } else { &more };
                shown.join(", ") + end
            }
        };
        vec![
            format!("{}#{}", code.name, code.bundle),
            code.target.to_string(),
            code.size.to_string(),
            code.packed.map_or("-".to_owned(), |stored| stored.to_string()),
            code.compression.clone(),
            kernels,
        ]
    }
}
