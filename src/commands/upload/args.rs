//! The arguments of `upload`, and the run and identity that follow from them.

use std::path::PathBuf;

use clap::ArgGroup;

use crate::{
    commands::{
        World,
        args::{AccessArgs, GitHubArgs, RunArgs},
        check,
    },
    error::{Hint as _, Result, Stop, ensure},
    index::Identity,
    location::Location,
    run::{ArtifactGroup, Run, RunId},
    set::{
        SetPlace,
        publish::{Others, UploadExtent},
    },
};

/// Publish a package set and its index to the place of its run
///
/// Checks the set first; with errors, uploads nothing. The set goes to
/// {external_repo}{run_id}-{platform}/python/{artifact_group}/: packages and their metadata first,
/// then the pages of the index, its root page last. Skips identical files that exist already. A
/// file that exists with other contents is an error, and nothing is changed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("set").required(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = "Examples:
  rocwheel upload --packages-dir packages --multi-target --output-dir published --dry-run
  rocwheel upload --packages-dir packages --multi-target --run-id 21440027240
  rocwheel upload --packages-dir packages --to s3://bucket/directory")]
pub struct UploadArgs {
    /// Directory with packages in it or in its `dist`
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_PACKAGES_DIR")]
    pub packages_dir: PathBuf,
    /// Family of the set, which names its directory
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP", group = "set")]
    pub artifact_group: Option<ArtifactGroup>,
    /// The set is for all targets and goes directly into `python/`
    #[arg(long, env = "ROCWHEEL_MULTI_TARGET", group = "set")]
    pub multi_target: bool,
    /// Write to this address, `s3://bucket/directory`, instead of the place of the run
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "ROCWHEEL_TO",
        group = "set",
        conflicts_with = "output_dir"
    )]
    pub to: Option<Location>,
    /// Upload a part of a set, without an index; run `index` when all parts are uploaded
    #[arg(long, env = "ROCWHEEL_PART")]
    pub part: bool,
    /// Write to this directory, laid out like the bucket, instead of to S3
    #[arg(long, value_name = "DIR", env = "ROCWHEEL_OUTPUT_DIR")]
    pub output_dir: Option<PathBuf>,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long, env = "ROCWHEEL_NO_DIRECTORY_PAGES")]
    pub no_directory_pages: bool,
    /// Replace existing packages that have other contents
    #[arg(long, env = "ROCWHEEL_OVERWRITE")]
    pub overwrite: bool,
    /// Print what would be written, and write nothing
    #[arg(long, env = "ROCWHEEL_DRY_RUN")]
    pub dry_run: bool,
    /// Append step outputs to this file
    #[arg(long, value_name = "FILE", env = "GITHUB_OUTPUT")]
    pub github_output: Option<PathBuf>,
    /// Publish without checking the set
    #[arg(long, env = "ROCWHEEL_NO_CHECK", help_heading = "Check options")]
    pub no_check: bool,
    #[command(flatten, next_help_heading = "Check options")]
    pub policy: check::Policy,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub github: GitHubArgs,
}

impl UploadArgs {
    pub fn others(&self) -> Others {
        if self.overwrite {
            Others::Replace
        } else {
            Others::Refuse
        }
    }

    /// Resolves the run of the set.
    pub fn resolve(&self, world: &World) -> Result<Run> {
        let reference = match self.run.run() {
            // With `--to` or `--output-dir`, the set need not come from a run.
            Err(_) if self.is_elsewhere() => &RunId::local().into(),
            run => run?,
        };
        let args = match &self.to {
            Some(to) => &self.run.clone().in_bucket(to.bucket()),
            None => &self.run,
        };
        args.resolve(reference, &self.github, world)
    }

    pub fn extent(&self) -> UploadExtent {
        if self.part {
            UploadExtent::Part
        } else {
            UploadExtent::Whole
        }
    }

    /// The identity of the set: what its packages say, completed from the arguments and the run.
    pub fn identity(&self, known: &Identity, run: &Run) -> Result<Identity> {
        let platform = self.run.platform();
        let mut identity = known.clone();
        let check = || -> Result<()> {
            let built = identity.platform.unwrap_or(platform);
            ensure!(
                built == platform,
                "a set that was built for {built} is to be uploaded for {platform}"
            );
            Ok(())
        };
        check().hint("pass the right `--platform`")?;
        identity.platform = Some(platform);
        Ok(identity.or_of(run))
    }

    pub fn destination(&self, run: &Run, stop: &Stop) -> Result<SetPlace> {
        let root = run.python(&self.artifact_group.clone().unwrap_or_default());
        let place = match (&self.to, &self.output_dir) {
            (Some(to), _) => self.access.bucket(to, stop)?,
            (None, Some(directory)) => SetPlace::below(directory, root.key(), stop),
            (None, None) => self.access.bucket(&root, stop)?,
        };
        Ok(place.with_directory_pages(!self.no_directory_pages))
    }

    /// Whether the destination was given with `--to` or `--output-dir`, so that it is not that of a
    /// run.
    fn is_elsewhere(&self) -> bool {
        self.output_dir.is_some() || self.to.is_some()
    }
}
