//! `index aggregate`: the index of all products of a stream.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use fs_err as fs;
use serde::Serialize;

use super::{AccessArgs, World, change_line};
use crate::{
    console::many,
    error::{Context as _, Result},
    set::{
        self, AggregateOptions, Aggregated, IndexChange, NamedPlace, OwnershipManifest, SetPlace,
    },
};

/// Write the index of all products of a stream
///
/// Reads which product owns which project from FILE, and writes to PLACE the list of projects
/// (`rocm/whl-next/index.html`), the routes for a web server (`rocm-whl-next-routes.json`) and a
/// report (`validation.json`). With `--content`, checks first that the products have what the
/// manifest says. Without PLACE, only reads the manifest, and counts the projects of each stream.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel index aggregate --manifest owners.yaml
  rocwheel index aggregate --manifest owners.yaml --stream rc --content s3://core/v5 s3://all/v5
  rocwheel index aggregate --manifest owners.yaml --stream bkc --content released --static released")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct AggregateArgs {
    /// Directory or `s3://bucket/directory` for the index
    #[arg(value_name = "PLACE", requires = "stream", env = "ROCWHEEL_INTO")]
    into: Option<NamedPlace>,
    /// The ownership manifest, in YAML
    #[arg(long, value_name = "FILE")]
    manifest: PathBuf,
    /// The stream whose index is written: `nightly`, `rc`, `bkc`
    #[arg(long, value_name = "STREAM", requires = "into")]
    stream: Option<String>,
    /// Where products are published, above their `rocm/{product}/whl-next`; may be given several times
    #[arg(long, value_name = "PLACE", requires = "into")]
    content: Vec<PathBuf>,
    /// Write a page for each project, with links to the files of its product, for servers without
    /// routes
    #[arg(long = "static", requires = "content")]
    is_static: bool,
    /// Refuse projects that a product has and the manifest does not have
    #[arg(long, requires = "content")]
    strict_completeness: bool,
    /// Leave out projects of the manifest that no product has
    #[arg(long, requires = "content")]
    allow_unpublished: bool,
    /// Write no pages under keys that end in `/`, for servers that reject such keys
    #[arg(long)]
    no_directory_pages: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(super) fn run(args: &AggregateArgs, world: &World) -> Result<()> {
    let manifest = args.read()?;
    let (Some(into), Some(stream)) = (&args.into, &args.stream) else {
        return world.console.answer(&ManifestAnswer::of(&manifest));
    };
    let mut to = args.access.named(into, &world.stop)?;
    to.directory_pages = !args.no_directory_pages;
    let content = args.content.iter();
    let content = content.map(|it| args.access.place(it, &world.stop));
    let content: Vec<SetPlace> = content.collect::<Result<_>>()?;
    let options = args.options(&manifest, stream);
    let done = set::aggregate(&content, &to, &options, world)?;
    if !done.unpublished.is_empty() {
        let left_out = done.unpublished.join(", ");
        let text = format!("not published, and left out: {left_out}");
        world.console.warn(text);
    }
    let answer = AggregateAnswer::of(done, &options, &to)?;
    world.console.answer(&answer)
}

impl AggregateArgs {
    fn read(&self) -> Result<OwnershipManifest> {
        let manifest = OwnershipManifest::parse(&fs::read_to_string(&self.manifest)?);
        manifest.with_context(|| format!("failed to read `{}`", self.manifest.display()))
    }

    fn options<'a>(
        &self,
        manifest: &'a OwnershipManifest,
        stream: &'a str,
    ) -> AggregateOptions<'a> {
        AggregateOptions {
            manifest,
            stream,
            is_static: self.is_static,
            is_strict: self.strict_completeness,
            allows_unpublished: self.allow_unpublished,
            is_dry_run: self.dry_run,
        }
    }
}

/// The answer without a place: what the manifest says.
#[derive(Debug, Serialize)]
struct ManifestAnswer {
    schema: &'static str,
    streams: Vec<StreamCount>,
}

#[derive(Debug, Serialize)]
struct StreamCount {
    stream: String,
    projects: usize,
    /// The number of projects of each product.
    owners: BTreeMap<String, usize>,
}

impl ManifestAnswer {
    fn of(manifest: &OwnershipManifest) -> Self {
        let count = |stream: &String| {
            let owners = manifest.counts(stream).into_iter();
            let owners: BTreeMap<_, _> = owners
                .map(|(owner, count)| (owner.to_owned(), count))
                .collect();
            StreamCount {
                stream: stream.clone(),
                projects: owners.values().sum(),
                owners,
            }
        };
        Self {
            schema: "rocwheel-ownership-v1",
            streams: manifest.streams.iter().map(count).collect(),
        }
    }
}

impl fmt::Display for ManifestAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for StreamCount {
            stream,
            projects,
            owners,
        } in &self.streams
        {
            write!(f, "{stream}: {}", many(*projects, "project"))?;
            let owners = owners
                .iter()
                .map(|(owner, count)| format!("{count} of {owner}"));
            match owners.collect::<Vec<_>>().as_slice() {
                [] => writeln!(f)?,
                owners => writeln!(f, " ({})", owners.join(", "))?,
            }
        }
        Ok(())
    }
}

/// The answer after the index was written, or after a dry run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct AggregateAnswer<'a> {
    schema: &'static str,
    index_url: String,
    stream: &'a str,
    #[serde(rename = "dry-run")]
    is_dry_run: bool,
    projects: usize,
    unpublished: Vec<String>,
    actions: Vec<IndexChange>,
}

impl<'a> AggregateAnswer<'a> {
    fn of(done: Aggregated, options: &AggregateOptions<'a>, to: &SetPlace) -> Result<Self> {
        Ok(Self {
            schema: "rocwheel-aggregate-v1",
            index_url: to.urls()?.path("rocm/whl-next/"),
            stream: options.stream,
            is_dry_run: options.is_dry_run,
            projects: done.projects,
            unpublished: done.unpublished,
            actions: done.changes,
        })
    }
}

impl fmt::Display for AggregateAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_dry_run {
            return f.write_str(&self.index_url);
        }
        self.actions.iter().try_for_each(|it| change_line(it, f))?;
        let changes = many(self.actions.len(), "change");
        writeln!(
            f,
            "{} of {}, {changes}",
            many(self.projects, "project"),
            self.stream
        )
    }
}
