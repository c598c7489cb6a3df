//! `kpack`: lists device code.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use fs_err::File;
use itertools::Itertools as _;
use serde::Serialize;
use serde_json::json;

use super::World;
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow},
    io::FileAt,
    quantity::{aligned, many, size},
    spool::Spool,
    target::{TargetPattern, TargetTable},
};
use rocwheel_elf::ReadAt;
use rocwheel_kpack::{
    CodeTarget,
    contents::{self, CodeFile, FoundCode},
};
use rocwheel_wheel::Archive;

/// Inspect device code
///
/// FILE is a wheel, a binary, an offload bundle as compilers write it, or a `.kpack` archive.
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
/// FILE is a wheel, whose files with device code are listed one after the other, a binary, an offload bundle as
/// compilers write it, or a `.kpack` archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls packages/dist/rocm_sdk_device_gfx942-7.14.0-py3-none-linux_x86_64.whl
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack ls .kpack/blas_lib_gfx942.kpack --target gfx942:xnack+")]
struct ListArgs {
    /// Wheel, binary, bundle or archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only code for these targets or families, comma-separated; for all variants of a target without features
    #[arg(long = "target", value_name = "LIST")]
    targets: Vec<TargetPattern>,
}

/// The largest code object, or compressed bundle, that is read for the names of its kernels. The largest of ROCm have
/// some hundred megabytes.
const MOST_READ: u64 = 512 << 20;
/// What a member of a wheel may take of the memory; the rest goes to a temporary file.
const MOST_IN_MEMORY: usize = 64 << 20;
/// The columns of a terminal.
const COLUMNS: usize = 80;
/// The least that is left for the names of kernels.
const LEAST_KERNELS: usize = 20;

/// A file with device code, or a member of a wheel.
struct ListedFile {
    name: String,
    kind: CodeFile,
    rows: Vec<CodeRow>,
}

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
    let path = &args.file;
    let file = path.display().to_string();
    let reading = || format!("failed to read `{file}`");
    let wanted = args.wanted()?;
    if path.extension().is_some_and(|it| it == "whl") && path.is_file() {
        let members = args.members(path, &wanted, world).with_context(reading)?;
        let count = many(members.len(), "file");
        let texts = members.iter().map(ListedFile::text).join("\n");
        let answer = format!("{file}: wheel, {count} with device code\n\n{texts}");
        let documents: Vec<_> = members.iter().map(ListedFile::facts).collect();
        let facts = json!({ "file": file, "kind": "wheel", "files": documents });
        return world.console.report("kpack ls", &facts, answer.trim_end().to_owned() + "\n");
    }
    let listed = args
        .listed(file.clone(), &open(path)?, &wanted, world)
        .with_context(reading)?
        .ok_or_else(|| anyhow!("no device code: neither an archive, nor bundles, nor a fat binary"))
        .with_context(reading)?;
    world.console.report("kpack ls", &listed.facts(), listed.text())
}

impl ListArgs {
    /// The members of a wheel that have device code; for some targets, those that have code for them.
    fn members(
        &self,
        wheel: &Path,
        wanted: &BTreeSet<CodeTarget>,
        world: &World,
    ) -> Result<Vec<ListedFile>> {
        let mut source = File::open(wheel)?;
        let archive = Archive::read(&mut source)?;
        let mut listed = Vec::new();
        for (path, member) in &archive.members {
            let mut content = Spool::new(MOST_IN_MEMORY);
            // A damaged wheel may have more than it says.
            let bytes = member.content(&mut source)?;
            io::copy(&mut bytes.take(member.len), &mut content)?;
            let reading = || format!("failed to read `{path}`");
            let file =
                self.listed(path.to_string(), &content, wanted, world).with_context(reading)?;
            listed.extend(file.filter(|it| wanted.is_empty() || !it.rows.is_empty()));
        }
        Ok(listed)
    }

    /// The code of a file that is asked for. `None` if it has no device code.
    fn listed(
        &self,
        name: String,
        source: &dyn ReadAt,
        wanted: &BTreeSet<CodeTarget>,
        world: &World,
    ) -> Result<Option<ListedFile>> {
        let mut rows = Vec::new();
        let kind = contents::each(source, MOST_READ, |found, read| {
            world.stop.check()?;
            let target = &found.target;
            let base = target.base();
            if self.targets.is_empty() || wanted.contains(target) || wanted.contains(&base) {
                let kernels = read()?.map(|code| contents::kernels(&code));
                let code = found.clone();
                rows.push(CodeRow { code, kernels });
            }
            Ok(())
        })?;
        Ok(kind.map(|kind| ListedFile { name, kind, rows }))
    }

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
            .hint("pass a file: a wheel, a binary, a bundle or a `.kpack` archive");
    }
    Ok(FileAt::open(file)?)
}

impl ListedFile {
    /// `split binary`
    fn kind(&self) -> String {
        match &self.kind {
            CodeFile::Split(_) => "split binary".to_owned(),
            kind => kind.to_string(),
        }
    }

    /// A line about the file, then a table. The names of an archive are headings in the table, because each may
    /// be the path of a library.
    fn text(&self) -> String {
        let total = self.rows.iter().map(|row| row.code.size).sum();
        let count = many(self.rows.len(), "code object");
        let mut text = format!("{}: {}, {count}, {}\n", self.name, self.kind(), size(total));
        if !self.rows.is_empty() {
            let head = ["BUNDLE", "TARGET", "SIZE", "STORED", "COMPRESSION"].map(str::to_owned);
            let mut table = vec![head.to_vec()];
            table.extend(self.rows.iter().map(CodeRow::cells));
            let width = aligned(&table).lines().map(|line| line.chars().count()).max();
            let left = COLUMNS.saturating_sub(width.unwrap_or(0) + 2).max(LEAST_KERNELS);
            table[0].push("KERNELS".to_owned());
            for (cells, row) in table[1..].iter_mut().zip(&self.rows) {
                cells.push(row.kernels(left));
            }
            let table = aligned(&table);
            let mut lines = table.lines();
            text.extend(lines.next().map(|head| format!("{head}\n")));
            let mut name = "";
            for (line, row) in lines.zip(&self.rows) {
                if row.code.name != name {
                    name = &row.code.name;
                    let _ = writeln!(text, "{name}");
                }
                let _ = writeln!(text, "{line}");
            }
        }
        // A split binary has no code: its references say in which archives it is.
        if let CodeFile::Split(references) = &self.kind {
            for ((name, paths), references) in &references.iter().chunk_by(|reference| {
                let marker = &reference.marker;
                (marker.kernel_name.clone(), marker.kpack_search_paths.join(" "))
            }) {
                let numbers = references.map(|it| format!("#{}", it.index)).join(" ");
                let _ = writeln!(text, "{name} {numbers}\n  in {paths}");
            }
        }
        text
    }

    fn facts(&self) -> serde_json::Value {
        let mut facts =
            json!({ "file": self.name, "kind": self.kind(), "code_objects": self.rows });
        if let CodeFile::Split(references) = &self.kind
            && !references.is_empty()
        {
            let rows = references.iter().map(|reference| {
                json!({
                    "kernel_name": reference.marker.kernel_name,
                    "index": reference.index,
                    "search_paths": reference.marker.kpack_search_paths,
                })
            });
            facts["references"] = rows.collect();
        }
        facts
    }
}

impl CodeRow {
    /// The cells of a row but for the kernels.
    fn cells(&self) -> Vec<String> {
        let code = &self.code;
        vec![
            format!("#{}", code.bundle),
            code.target.to_string(),
            code.size.to_string(),
            code.packed.map_or("-".to_owned(), |stored| stored.to_string()),
            code.compression.clone(),
        ]
    }

    /// The first names of kernels that fit in a cell, and how many more there are. The names of C++ may have hundreds
    /// of letters: then only the beginning of the first one is shown.
    fn kernels(&self, width: usize) -> String {
        let Some(kernels) = &self.kernels else {
            return "not read: too large".to_owned();
        };
        let cell = |count: usize| {
            let more = match kernels.len() - count {
                0 => String::new(),
                rest => format!(", and {rest} more"),
            };
            kernels[..count].join(", ") + &more
        };
        let mut cells = (1..=kernels.len().min(3)).rev().map(cell);
        match (cells.find(|it| it.chars().count() <= width), kernels.as_slice()) {
            (Some(cell), _) => cell,
            (None, []) => String::new(),
            (None, [first, rest @ ..]) => {
                let more = match rest.len() {
                    0 => String::new(),
                    rest => format!(" +{rest}"),
                };
                let room = width.saturating_sub(more.len() + 1);
                first.chars().take(room).collect::<String>() + "…" + &more
            }
        }
    }
}
