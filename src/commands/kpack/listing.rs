//! `kpack ls`: lists the code objects of a file.

use std::{
    fmt::{self, Write as _},
    path::PathBuf,
};

use serde::Serialize;

use super::{TargetSelection, open, reading};
use crate::{
    commands::World,
    console::{many, size},
    error::{Context as _, Result},
    kpack::contents::{self, CodeFile, FoundCode},
};

/// List the code objects of a file: target, size, compression, kernels
///
/// FILE is a binary, an offload bundle as compilers write it, or a `.kpack` archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel kpack ls lib/librocblas.so.5
  rocwheel kpack ls .kpack/blas_lib_gfx942.kpack --target gfx942:xnack+")]
pub(super) struct ListArgs {
    /// Binary, bundle or archive
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    selection: TargetSelection,
}

#[derive(Debug, Serialize)]
struct ListAnswer {
    schema: &'static str,
    file: String,
    kind: String,
    code_objects: Vec<CodeRow>,
    /// The references of a split binary to the archives with its code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<Lead>,
}

#[derive(Debug, Serialize)]
struct CodeRow {
    #[serde(flatten)]
    code: FoundCode,
    kernels: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Lead {
    kernel_name: String,
    index: u64,
    search_paths: Vec<String>,
}

pub(super) fn run(args: &ListArgs, world: &World) -> Result<()> {
    let source = open(&args.file)?;
    let mut rows = Vec::new();
    let kind = contents::each(&source, |found, read| {
        world.stop.check()?;
        if args.selection.has(&found.target) {
            let kernels = contents::kernels(&read()?);
            let code = found.clone();
            rows.push(CodeRow { code, kernels });
        }
        Ok(())
    })
    .with_context(|| reading(&args.file))?;
    world.console.answer(&ListAnswer {
        schema: "rocwheel-kpack-v1",
        file: args.file.display().to_string(),
        kind: kind.to_string(),
        code_objects: rows,
        references: leads(kind),
    })
}

fn leads(kind: CodeFile) -> Vec<Lead> {
    let CodeFile::Split(references) = kind else {
        return Vec::new();
    };
    let leads = references.into_iter().map(|reference| Lead {
        kernel_name: reference.marker.kernel_name.clone(),
        index: reference.index,
        search_paths: reference.marker.kpack_search_paths.clone(),
    });
    leads.collect()
}

impl fmt::Display for ListAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.code_objects.iter().map(|row| row.code.size).sum();
        let many = many(self.code_objects.len(), "code object");
        writeln!(f, "{}: {}, {many}, {}", self.file, self.kind, size(total))?;
        let head = [
            "BUNDLE",
            "TARGET",
            "SIZE",
            "STORED",
            "COMPRESSION",
            "KERNELS",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        table.extend(self.code_objects.iter().map(CodeRow::cells));
        if table.len() > 1 {
            f.write_str(&aligned(&table))?;
        }
        for lead in &self.references {
            let paths = lead.search_paths.join(" ");
            writeln!(f, "{}#{} in {paths}", lead.kernel_name, lead.index)?;
        }
        Ok(())
    }
}

impl CodeRow {
    fn cells(&self) -> Vec<String> {
        let code = &self.code;
        let shown = self.kernels.iter().take(3).map(String::as_str);
        let mut kernels: Vec<&str> = shown.collect();
        let more = self.kernels.len().saturating_sub(kernels.len());
        let rest = format!("and {more} more");
        if more > 0 {
            kernels.push(&rest);
        }
        vec![
            format!("{}#{}", code.name, code.bundle),
            code.target.to_string(),
            code.size.to_string(),
            code.packed
                .map_or("-".to_owned(), |stored| stored.to_string()),
            code.compression.clone(),
            kernels.join(", "),
        ]
    }
}

/// Pads each column to its widest cell, except the last column.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = table.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
