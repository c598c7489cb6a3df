//! `upload`: publishes a package set with its index to the place of its run.

use std::path::PathBuf;

use clap::ArgGroup;

use super::{
    World,
    args::{AccessArgs, GitHubArgs, RunArgs},
    check, products,
    summary::PublisherSummary,
};
use crate::{
    check::Report,
    diff::{Baseline, Difference},
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    location::Location,
    promote::{ProductName, ReleasePlaces},
    report::SummaryPage,
    run::{ArtifactGroup, Run, RunId},
    set::{
        self, Identity, Layout, LocalSet, PackageDirectories, PlannedUpload, PublishedUpload,
        SetPlace, UploadOptions,
    },
};

/// Publish a package set and its index to the place of its run
///
/// Checks the set first; with errors, uploads nothing. The set goes to
/// {external_repo}{run_id}-{platform}/python/{artifact_group}/: packages and their metadata first,
/// then the pages of the index, its root page last. Skips identical files that exist already. A
/// file that exists with other contents is an error, and nothing is changed. Writes the job summary
/// and the step outputs of the published set, as `summary` does.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("set").required(true).multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = "Examples:
  rocwheel upload --packages-dir packages --multi-target --output-dir published --dry-run
  rocwheel upload --packages-dir packages --multi-target --run-id 21440027240
  rocwheel upload --packages-dir packages --to s3://bucket/directory
  rocwheel upload --packages-dir published --product pytorch --release-type nightly")]
pub struct UploadArgs {
    /// Directory with packages in it or in its `dist`
    #[arg(long, alias = "input-packages-dir", value_name = "DIR")]
    packages_dir: PathBuf,
    /// Family of the set, which names its directory; with `--multi-target` only a name
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP", group = "set")]
    artifact_group: Option<ArtifactGroup>,
    /// The set is for all targets and goes directly into `python/`
    #[arg(long, alias = "multiarch", group = "set")]
    multi_target: bool,
    /// Write to this address, `s3://bucket/directory`, instead of the place of the run
    #[arg(
        long,
        value_name = "ADDRESS",
        group = "set",
        conflicts_with_all = ["output_dir", "artifact_group", "multi_target"]
    )]
    to: Option<Location>,
    /// Publish frameworks to a directory for each project of this product, as release places have
    /// them: `pytorch`, `jax`, or another name. Their place follows from `--release-type`, or is `--to`
    #[arg(
        long,
        value_name = "NAME",
        group = "set",
        conflicts_with_all = ["artifact_group", "multi_target", "part", "layout", "overwrite"]
    )]
    product: Option<ProductName>,
    /// Where the packages are: in `dist` beside `simple`, or beside it as TheRock's uploader puts them
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: Layout,
    /// Upload a part of a set, without an index; run `index` when all parts are uploaded
    #[arg(long)]
    part: bool,
    /// Write to this directory, laid out like the bucket, instead of to S3
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long)]
    no_directory_pages: bool,
    /// Replace existing packages that have other contents
    #[arg(long)]
    overwrite: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    summary: PublisherSummary,
    /// Publish without checking the set
    #[arg(long, help_heading = "Check options")]
    no_check: bool,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

pub fn run(args: &UploadArgs, world: &World) -> Result<()> {
    if let Some(product) = &args.product {
        return args.publish_product(product, world);
    }
    let run = args.resolve(world)?;
    let destination = args.destination(&run, &world.stop)?;
    let baseline = args.summary.baseline(&args.access, world)?;
    let report = args.check(baseline.as_ref(), world)?;
    let set = args.read(world)?;
    if !args.no_check {
        set.ensure_as_described(false)?;
    }
    let identity = args.identity(&set.document.identity, &run)?;
    let options = args.options();
    if args.dry_run {
        let plan = PlannedUpload::plan(&set, identity, &destination, options, world)?;
        return world.console.answer(&plan);
    }
    let changes = PublisherSummary::changes(baseline.as_ref(), &set, world)?;
    let published = set::publish(&set, &identity, &destination, options, world)?;
    if args.part {
        return Ok(());
    }
    let page = args.page(&published, report.as_ref(), changes.as_ref());
    args.summary.tell(&page, world)?;
    world.console.answer(&published)
}

impl UploadArgs {
    fn page<'a>(
        &'a self,
        published: &'a PublishedUpload,
        report: Option<&'a Report>,
        changes: Option<&'a Difference>,
    ) -> SummaryPage<'a> {
        let (set, urls) = (&published.set, Some(&published.urls));
        self.summary.page(set, urls, report, changes)
    }

    fn options(&self) -> UploadOptions {
        UploadOptions {
            is_part: self.part,
            layout: self.layout,
            overwrite: self.overwrite,
            is_dry_run: self.dry_run,
        }
    }

    /// Resolves the run of the set.
    fn resolve(&self, world: &World) -> Result<Run> {
        let reference = match self.run.run() {
            // With `--to` or `--output-dir`, the set need not come from a run.
            Err(_) if self.output_dir.is_some() || self.to.is_some() => &RunId::local().into(),
            run => run?,
        };
        let args = match &self.to {
            Some(to) => &self.run.clone().in_bucket(&to.bucket),
            None => &self.run,
        };
        args.resolve(reference, &self.github, world)
    }

    fn read(&self, world: &World) -> Result<LocalSet> {
        let (directory, from_bytes) = (&self.packages_dir, self.policy.is_from_bytes());
        LocalSet::read(directory, PackageDirectories::Built, from_bytes, world)
    }

    /// Checks the set. If it has errors, writes a summary that says so, and fails.
    fn check(&self, since: Option<&Baseline>, world: &World) -> Result<Option<Report>> {
        if self.no_check {
            return Ok(None);
        }
        let mut policy = self.policy.clone();
        policy.is_part = self.part;
        let report = check::look(&self.packages_dir, &AccessArgs::default(), &policy, world)?;
        let verdict = policy.verdict(&report);
        if verdict.is_err() && !self.part && !self.dry_run {
            // A set can be so broken that nothing more is known of it than its findings.
            if let Ok(set) = self.read(&world.quiet()) {
                let changes = PublisherSummary::changes(since, &set, world)?;
                let summary = &self.summary;
                summary.refuse(&set.document, &report, changes.as_ref(), world)?;
            }
        }
        verdict.map(|()| Some(report))
    }

    /// The identity of the set: what its packages say, completed from the arguments and the run.
    fn identity(&self, known: &Identity, run: &Run) -> Result<Identity> {
        let platform = self.run.platform();
        if let Some(built) = known.platform.filter(|built| *built != platform) {
            return Err(anyhow!(
                "a set that was built for {built} is to be uploaded for {platform}"
            ))
            .hint("pass the right `--platform`");
        }
        let identity = Identity {
            platform: Some(platform),
            ..known.clone()
        };
        Ok(identity.or_of(run))
    }

    /// Publishes frameworks among those of other versions.
    fn publish_product(&self, product: &ProductName, world: &World) -> Result<()> {
        self.check(None, world)?;
        let set = self.read(world)?;
        if !self.no_check {
            set.ensure_as_described(false)?;
        }
        let directories = ReleasePlaces::builtin().directories_of(&set.document, product)?;
        let destination = self.product_place(product, &world.stop)?;
        if self.dry_run {
            let plan = set::plan_products(&set, &directories, &destination, world)?;
            return world.console.answer(&plan);
        }
        products::publish(&set, &directories, &destination, world)
    }

    fn product_place(&self, product: &ProductName, stop: &Stop) -> Result<SetPlace> {
        let mut place = if let Some(directory) = &self.output_dir {
            SetPlace::directory(directory, stop)
        } else {
            let to = if let Some(to) = &self.to {
                to.clone()
            } else {
                let release = self.run.release_type();
                let release = release.context("no place was named");
                let release = release.hint("pass `--release-type` or `--to`")?;
                let place = ReleasePlaces::builtin().place(product, release);
                place.hint("pass `--to` for a product of your own")?.address
            };
            let online = self.run.ensure_online(format!("an upload to `{to}`"));
            online.hint("pass `--output-dir`, or ask `place --offline` where it would go")?;
            self.access.bucket(&to, stop)?
        };
        place.directory_pages = !self.no_directory_pages;
        Ok(place)
    }

    fn destination(&self, run: &Run, stop: &Stop) -> Result<SetPlace> {
        let group = self.artifact_group.clone().filter(|_| !self.multi_target);
        let root = run.python(&group.unwrap_or_default());
        let mut place = if let Some(directory) = &self.output_dir {
            SetPlace::below(directory, &root.key, stop)
        } else {
            let to = self.to.as_ref().unwrap_or(&root);
            let online = self.run.ensure_online(format!("an upload to `{to}`"));
            online.hint("pass `--output-dir`, or ask `place --offline` where it would go")?;
            self.access.bucket(to, stop)?
        };
        place.directory_pages = !self.no_directory_pages;
        Ok(place)
    }
}
