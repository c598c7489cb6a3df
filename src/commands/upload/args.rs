//! The arguments of `upload`, and what they come to.

use std::path::PathBuf;

use clap::ArgGroup;
use fs_err as fs;

use super::{
    destination::{Destination, local},
    plan::Others,
};
use crate::{
    commands::args::RunArgs,
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    index::Identity,
    location::Bucket,
    run::{
        ArtifactGroup, Choices, Environment, Event, Origin, Platform, Repository, RunContext,
        RunFacts, RunId, RunReference,
    },
    version::ReleaseType,
};

/// Publish a package set and its index where its run keeps them
///
/// The set goes to {external_repo}{run_id}-{platform}/python/{artifact_group}/: the packages and
/// their metadata first, then the pages of the index, then its root. Bytes that are there already
/// are left alone; other bytes under the same name are an error, and nothing is changed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("set").required(true))]
pub struct Args {
    /// The directory that `build` wrote: packages are in it, or in its `dist`
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR")]
    pub packages_dir: PathBuf,
    #[command(flatten)]
    pub run: RunArgs,
    /// The family that the set is for, which names its directory
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP", group = "set")]
    pub artifact_group: Option<String>,
    /// The set is for all targets, and has no directory of its own below `python/`
    #[arg(long, env = "ROCWHEEL_MULTI_TARGET", group = "set")]
    pub multi_target: bool,
    /// Write to this bucket, whatever the repository and release type say
    #[arg(long, value_name = "BUCKET", env = "ROCWHEEL_BUCKET")]
    pub bucket: Option<String>,
    /// Write to this directory, laid out as the bucket would be
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    pub output_dir: Option<PathBuf>,
    /// Replace packages that are there with other bytes
    #[arg(long, env = "ROCWHEEL_OVERWRITE")]
    pub overwrite: bool,
    /// Say what would be written, and write nothing
    #[arg(long, env = "ROCWHEEL_DRY_RUN")]
    pub dry_run: bool,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    pub github_output: Option<PathBuf>,
    /// What started this run, which tells whether it builds a fork's code
    #[arg(long, value_name = "FILE", env = "GITHUB_EVENT_PATH", hide = true)]
    event: Option<PathBuf>,
    /// The run that this process is part of
    #[arg(long, value_name = "ID", env = "GITHUB_RUN_ID", hide = true)]
    this_run: Option<String>,
}

impl Args {
    pub fn others(&self) -> Others {
        if self.overwrite {
            Others::Replace
        } else {
            Others::Refuse
        }
    }

    /// What the set says it was built from, completed by what was asked for.
    pub fn identity(&self, known: &Identity) -> Result<Identity> {
        let platform = self.platform()?;
        let mut identity = known.clone();
        let check = || -> Result<()> {
            let built = identity.platform.unwrap_or(platform);
            ensure!(
                built == platform,
                "a set for {built} was built, to be uploaded for {platform}"
            );
            Ok(())
        };
        check().hint("pass the right `--platform`")?;
        identity.platform = Some(platform);
        if identity.run_id.is_none() {
            identity.run_id = Some(self.run_id()?);
            identity.repository = identity.repository.or(Some(self.repository()?));
        }
        Ok(identity)
    }

    pub fn destination(&self) -> Result<Destination> {
        let place = self.context()?.place(&self.run_id()?.into())?;
        let run = place.run(&self.run_id()?, self.platform()?);
        let root = run.python(&self.group()?).root().clone();
        match &self.output_dir {
            Some(directory) => local(directory, root.key()),
            None => Err(anyhow!(
                "no store for `{root}`: this version writes to directories only"
            ))
            .hint("pass `--output-dir`"),
        }
    }

    fn context(&self) -> Result<RunContext> {
        let bucket: Option<Bucket> = self.bucket.as_deref().map(str::parse).transpose()?;
        let release: ReleaseType = self
            .run
            .release_type
            .parse()
            .context("read `--release-type`")?;
        let event = match &self.event {
            None => None,
            Some(file) => {
                let payload = fs::read_to_string(file)
                    .hint("`GITHUB_EVENT_PATH` must name a JSON file, or be unset")?;
                Some(Event::parse(&payload)?)
            }
        };
        let this_run: Option<RunId> = self.this_run.as_deref().map(str::parse).transpose()?;
        let mut context = RunContext {
            choices: Choices {
                repository: Some(self.repository()?),
                release_type: Some(release),
                bucket,
            },
            environment: Environment {
                repository: None,
                release_type: None,
                run_id: this_run,
                event,
            },
            run: None,
        };
        let run: RunReference = self.run_id()?.into();
        // A directory on this machine needs no question to GitHub: an unknown run is the
        // repository's own.
        if self.output_dir.is_some() && context.needs_lookup(&run)? {
            let origin = Origin::Own;
            context.run = Some(RunFacts {
                origin,
                updated_at: None,
            });
        }
        Ok(context)
    }

    fn run_id(&self) -> Result<RunId> {
        match &self.run.run_id {
            Some(id) => id.parse().context("read `--run-id`"),
            None => Ok(RunId::local()),
        }
    }

    fn platform(&self) -> Result<Platform> {
        self.run.platform.parse().context("read `--platform`")
    }

    fn repository(&self) -> Result<Repository> {
        self.run.repository.parse().context("read `--repository`")
    }

    fn group(&self) -> Result<ArtifactGroup> {
        let group = self.artifact_group.as_deref().unwrap_or_default();
        group.parse().context("read `--artifact-group`")
    }
}
