//! `pipeline`: everything from artifacts to published packages, in order.

use std::{fmt, path::PathBuf};

use clap::ArgGroup;
use serde::Serialize;

use super::{
    World,
    build::{self, What, input},
    check,
    index::LocalSet,
    summary,
    upload::{Destination, Others, Published, Upload},
};
use crate::{
    artifact::{ArchiveName, ArtifactTree, sample},
    console::{many, size},
    error::{Context as _, Result},
    package::assemble::Existing,
    run::{ArtifactGroup, RunId, RunLocation},
};

/// Take a set of artifacts to packages that pip and uv install
///
/// Unpacks, builds, checks, indexes, publishes to a directory laid out like a bucket, and ends with the
/// commands that install what was made. Nothing leaves this machine.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true))]
pub struct Args {
    /// The built-in sample: a small run with everything that a real one has
    #[arg(long, env = "ROCWHEEL_SAMPLE", group = "source")]
    sample: bool,
    /// Where the artifacts are, as directories, as archives, or both
    #[arg(
        long,
        value_name = "DIR",
        env = "ROCWHEEL_ARTIFACT_DIR",
        group = "source"
    )]
    artifact_dir: Option<PathBuf>,
    /// Where everything goes: artifacts, packages and the published set
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    output_dir: PathBuf,
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
    let tree = args.artifacts(world)?;
    let set = args.build(&tree, world)?;
    let policy = args.policy.on(&args.what.jobs);
    check::gate(&args.output_dir.join("packages"), &policy, world)?;
    let published = args.publish(&set, world)?;
    args.summarise(&published)?;
    world.console.answer(&Answer::new(&published))
}

impl Args {
    fn artifacts(&self, world: &World) -> Result<ArtifactTree> {
        let _group = world.console.group("Artifacts");
        let unpacked = self.output_dir.join("artifacts");
        let Some(directory) = &self.artifact_dir else {
            let mut names: Vec<ArchiveName> = Vec::new();
            for archive in sample::archives() {
                let (name, bytes) = (archive.file_name().parse()?, archive.bytes()?);
                let size = bytes.len() as u64;
                input::unpack_one(bytes.as_slice(), size, &name, &unpacked, world)?;
                names.push(name);
            }
            let names: Vec<_> = names.iter().map(|name| &name.artifact).collect();
            return input::scan_only(&unpacked, &names, &self.what.jobs, world);
        };
        input::read(directory, &unpacked, &self.what.jobs, world)
    }

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
