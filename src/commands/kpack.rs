//! `kpack`: lists and extracts device code.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Serialize;
use serde_json::json;
use zip::ZipArchive;

use super::World;
use crate::{
    artifact::FileAt,
    console::{aligned, many, size},
    error::{Context as _, Hint as _, Result, anyhow},
    kpack::{
        CodeTarget,
        contents::{self, CodeFile, FoundCode},
        host::{self, FatFileKind, WrapperReference},
    },
    relpath::RelPath,
    spool::Spool,
};

/// Larger members of a wheel go to a temporary file.
const IN_MEMORY: usize = 64 << 20;

/// Inspect device code
///
/// FILE is a binary, an offload bundle as compilers write it, a `.kpack` archive, or a wheel with such
/// files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack extract blas_lib_gfx942.kpack --output-dir code --target gfx942")]
pub struct KpackArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(alias = "list")]
    Ls(ListArgs),
    Extract(ExtractArgs),
}

/// List the code objects of a file: target, size, compression, kernels
///
/// FILE is a binary, an offload bundle as compilers write it, a `.kpack` archive, or a wheel with such
/// files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack ls packages/dist/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl
  rocwheel kpack ls .kpack/blas_lib_gfx942.kpack --target gfx942:xnack+")]
struct ListArgs {
    /// Binary, bundle, archive or wheel
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    selection: TargetSelection,
}

/// Write the code objects of a file to a directory
///
/// FILE is a binary, an offload bundle as compilers write it, a `.kpack` archive, or a wheel with such
/// files. Each code object becomes `NAME.BUNDLE.TARGET.hsaco`, with `-` for every colon. Code objects
/// of an archive keep the directories of their keys, and those of a wheel the paths of their files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack extract lib/librocblas.so.5 --output-dir code
  rocwheel kpack extract .kpack/blas_lib_gfx942.kpack --output-dir code --target gfx942")]
struct ExtractArgs {
    /// Binary, bundle, archive or wheel
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory to write to
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    selection: TargetSelection,
}

/// Which code objects are meant.
#[derive(Debug, clap::Args)]
struct TargetSelection {
    /// Only code for this target, and for its variants if it names no features; can be repeated
    #[arg(long = "target", value_name = "TARGET", value_delimiter = ',')]
    targets: Vec<CodeTarget>,
}

#[derive(Debug, Serialize)]
struct CodeRow {
    #[serde(flatten)]
    code: FoundCode,
    kernels: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ExtractedCode {
    path: String,
    target: String,
    size: u64,
}

pub fn run(args: &KpackArgs, world: &World) -> Result<()> {
    match &args.verb {
        Verb::Ls(args) => list(args, world),
        Verb::Extract(args) => extract(args, world),
    }
}

fn list(args: &ListArgs, world: &World) -> Result<()> {
    let mut rows = Vec::new();
    let (kind, references) = each_code(&args.file, &mut |found, read| {
        world.stop.check()?;
        if args.selection.has(&found.target) {
            let kernels = contents::kernels(&read()?);
            let code = found.clone();
            rows.push(CodeRow { code, kernels });
        }
        Ok(())
    })?;
    let file = args.file.display().to_string();
    let total = rows.iter().map(|row| row.code.size).sum();
    let count = many(rows.len(), "code object");
    let mut text = format!("{file}: {kind}, {count}, {}\n", size(total));
    if !rows.is_empty() {
        let head = "BUNDLE TARGET SIZE STORED COMPRESSION KERNELS".split(' ');
        let mut table = vec![head.map(str::to_owned).collect()];
        table.extend(rows.iter().map(CodeRow::cells));
        text.push_str(&aligned(&table));
    }
    let mut facts = json!({ "file": file, "kind": kind, "code_objects": rows });
    // Those of a split binary to the archives with its code.
    if !references.is_empty() {
        let leads = references.iter().map(|it| {
            let (marker, paths) = (&it.marker, it.marker.kpack_search_paths.join(" "));
            format!("{}#{} in {paths}\n", marker.kernel_name, it.index)
        });
        text.extend(leads);
        let references = references.iter().map(|it| {
            let (name, paths) = (&it.marker.kernel_name, &it.marker.kpack_search_paths);
            json!({ "kernel_name": name, "index": it.index, "search_paths": paths })
        });
        facts["references"] = references.collect();
    }
    world.console.report("kpack ls", &facts, text)
}

fn extract(args: &ExtractArgs, world: &World) -> Result<()> {
    let mut files = Vec::new();
    let mut seen = 0_usize;
    let (_, references) = each_code(&args.file, &mut |found, read| {
        world.stop.check()?;
        seen += 1;
        if args.selection.has(&found.target) {
            files.push(write(args, found, &read()?)?);
        }
        Ok(())
    })?;
    if files.is_empty() && !references.is_empty() {
        return Err(anyhow!("no code left in `{}`", args.file.display()))
            .hint("extract the archives that `rocwheel kpack ls` names");
    }
    if files.is_empty() {
        let seen = many(seen, "code object");
        return Err(anyhow!("none of {seen} is for a wanted target"))
            .hint("`rocwheel kpack ls` lists the targets");
    }
    let total = files.iter().map(|file| file.size).sum();
    let count = many(files.len(), "code object");
    world
        .console
        .status("Extracted", format!("{count}, {}", size(total)));
    let facts = json!({ "files": files });
    let paths = files.iter().map(|file| &file.path).join("\n");
    world.console.report("kpack extract", &facts, paths)
}

/// What is done with a code object, which the function reads.
type EachCode<'a> = dyn FnMut(&FoundCode, &dyn Fn() -> Result<Vec<u8>>) -> Result<()> + 'a;

/// Calls `each` with every code object of a file. Returns what the file is, and the references of a
/// split binary.
fn each_code(file: &Path, each: &mut EachCode<'_>) -> Result<(String, Vec<WrapperReference>)> {
    if file.extension().is_some_and(|it| it == "whl") {
        each_of_wheel(file, each).with_context(|| reading(file))?;
        return Ok(("wheel".to_owned(), Vec::new()));
    }
    let source = open(file)?;
    let kind = contents::each(&source, each).with_context(|| reading(file))?;
    Ok(match kind {
        CodeFile::Split(references) => ("split binary".to_owned(), references),
        other => (other.to_string(), Vec::new()),
    })
}

/// The code objects of the archives and binaries in a wheel, with the paths of these files.
fn each_of_wheel(wheel: &Path, each: &mut EachCode<'_>) -> Result<()> {
    let mut zip = ZipArchive::new(fs::File::open(wheel)?)?;
    for index in 0..zip.len() {
        let mut member = zip.by_index(index)?;
        let path = member.name()?.into_owned();
        let is_archive = Path::new(&path).extension().is_some_and(|it| it == "kpack");
        if !is_archive && !path.contains(".so") {
            continue;
        }
        let mut bytes = Spool::new(IN_MEMORY);
        io::copy(&mut member, &mut bytes)?;
        let has_code = is_archive
            || matches!(
                host::look(&bytes).with_context(|| format!("failed to read `{path}`"))?,
                FatFileKind::Fat(_) | FatFileKind::Unsplittable { .. }
            );
        if !has_code {
            continue;
        }
        let each = |found: &FoundCode, read: &dyn Fn() -> Result<Vec<u8>>| {
            let inside = Some(found.name.as_str()).filter(|name| !name.is_empty());
            let inside = inside.map_or(String::new(), |name| format!("/{name}"));
            let found = FoundCode {
                name: format!("{path}{inside}"),
                ..found.clone()
            };
            each(&found, read)
        };
        contents::each(&bytes, each).with_context(|| format!("failed to read `{path}`"))?;
    }
    Ok(())
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

impl TargetSelection {
    fn has(&self, target: &CodeTarget) -> bool {
        let mut wanted = self.targets.iter();
        self.targets.is_empty() || wanted.any(|wanted| wanted == target || *wanted == target.base())
    }
}

fn open(file: &Path) -> Result<FileAt> {
    if file.is_dir() {
        return Err(anyhow!("a directory: `{}`", file.display()))
            .hint("pass a file: a binary, a bundle, a `.kpack` archive or a wheel");
    }
    Ok(FileAt::open(file)?)
}

fn reading(file: &Path) -> String {
    format!("failed to read `{}`", file.display())
}

impl CodeRow {
    fn cells(&self) -> Vec<String> {
        let code = &self.code;
        let (shown, rest) = self.kernels.split_at(self.kernels.len().min(3));
        let mut kernels = shown.join(", ");
        if !rest.is_empty() {
            let more = format!(", and {} more", rest.len());
            kernels.push_str(&more);
        }
        vec![
            format!("{}#{}", code.name, code.bundle),
            code.target.to_string(),
            code.size.to_string(),
            code.packed
                .map_or("-".to_owned(), |stored| stored.to_string()),
            code.compression.clone(),
            kernels,
        ]
    }
}
