//! `pipeline`: everything from artifacts to published packages, in order.

mod forecast;
mod origin;

use std::{fmt, path::PathBuf};

use serde::Serialize;

use self::{forecast::Forecast, origin::OriginArgs};
use super::{
    World,
    build::{self, What},
    check,
    index::LocalSet,
    summary,
    upload::{Destination, Others, Published, Upload},
};
use crate::{
    artifact::ArtifactTree,
    console::{many, size},
    error::{Context as _, Result},
    package::assemble::Existing,
    run::{ArtifactGroup, RunId, RunLocation},
};

/// Take the artifacts of a run to packages that pip and uv install
///
/// Fetches or unpacks them, builds, checks, indexes, publishes to a directory laid out like a bucket,
/// and ends with the commands that install what was made. Nothing leaves this machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    origin: OriginArgs,
    /// Where everything goes: artifacts, packages and the published set
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
    /// Only say what would be done
    #[arg(long, env = "ROCWHEEL_DRY_RUN", value_parser = clap::builder::FalseyValueParser::new())]
    dry_run: bool,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    policy: check::Policy,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE", env = "ROCWHEEL_SUMMARY")]
    summary: Option<PathBuf>,
    /// Append the summary to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_STEP_SUMMARY")]
    step_summary: Option<PathBuf>,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    github_output: Option<PathBuf>,
    /// Where runs and commits have their pages
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_SERVER_URL",
        default_value = "https://github.com"
    )]
    server: String,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let unpacked = args.output_dir.join("artifacts");
    let origin = args.origin.settle(&unpacked, world)?;
    if args.dry_run {
        return world
            .console
            .answer(&Forecast::new(&origin, &args.output_dir)?);
    }
    let tree = origin.read(&unpacked, &args.what, world)?;
    let set = args.build(&tree, world)?;
    let policy = args.policy.on(&args.what.jobs);
    check::gate(&args.output_dir.join("packages"), &policy, world)?;
    let published = args.publish(&set, world)?;
    args.summarise(&published)?;
    world.console.answer(&Answer::new(&published))
}

impl Args {
    fn build(&self, tree: &ArtifactTree, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.output_dir.join("packages");
        let apart = self.what.apart(tree, &packages, world)?;
        let plan = build::decide(&apart.tree, &self.what, world)?;
        let _archives = apart.write(&self.what.jobs, world)?;
        build::make(
            &plan,
            &apart.tree,
            &self.what,
            &packages,
            Existing::Replace,
            world,
        )?;
        LocalSet::read_aloud(&packages, world)
    }

    fn publish(&self, set: &LocalSet, world: &World) -> Result<Published> {
        let _group = world.console.group("Index");
        let identity = set.document.identity.clone();
        let run = identity.run_id.clone().unwrap_or_else(RunId::local);
        let platform = identity.platform.unwrap_or(self.what.platform);
        let location = RunLocation::new("local".parse()?, None, &run, platform);
        let python = location.python(&ArtifactGroup::default());
        let destination = Destination::local(&self.output_dir, python.root().key())?;
        // What an earlier run left here is this user's own, and is replaced.
        Upload::plan(set, identity, destination, Others::Replace, &world.stop)?.carry_out(world)
    }

    fn summarise(&self, published: &Published) -> Result<()> {
        let (set, urls) = (&published.set, &published.urls);
        let text = |limit| summary::markdown::render(set, urls, &self.server, limit);
        if let Some(file) = &self.summary {
            fs_err::write(file, text(summary::markdown::LIMIT))?;
        }
        if let Some(file) = &self.step_summary {
            summary::append(file, &text(summary::room(file)))?;
        }
        if let Some(file) = &self.github_output {
            let outputs = summary::outputs::of(set, urls);
            summary::append(file, &summary::outputs::render(&outputs)?)
                .context("write step outputs")?;
        }
        Ok(())
    }
}

/// What was made, and how to install it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Answer<'a> {
    schema: &'static str,
    index_url: String,
    find_links_url: String,
    set: &'a crate::index::SetJson,
    install: Vec<Install>,
}

#[derive(Debug, Serialize)]
struct Install {
    with: &'static str,
    command: String,
}

impl<'a> Answer<'a> {
    fn new(published: &'a Published) -> Self {
        let (set, urls) = (&published.set, &published.urls);
        let install = summary::install::Way::ALL.into_iter().filter_map(|way| {
            let command = summary::install::lines(set, urls, way).into_iter().last()?;
            Some(Install {
                with: way.title(),
                command,
            })
        });
        Self {
            schema: "rocwheel-pipeline-v1",
            index_url: urls.index(),
            find_links_url: urls.find_links(),
            set,
            install: install.collect(),
        }
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.set.files().iter().map(|file| file.size).sum();
        for file in self.set.files() {
            writeln!(f, "{:>10}  {}", size(file.size).to_string(), file.name())?;
        }
        writeln!(
            f,
            "{:>10}  in {}",
            size(total).to_string(),
            many(self.set.files().len(), "package")
        )?;
        for (number, install) in self.install.iter().enumerate() {
            let end = if number + 1 < self.install.len() {
                "\n"
            } else {
                ""
            };
            write!(f, "\n{}:\n\n    {}\n{end}", install.with, install.command)?;
        }
        Ok(())
    }
}
