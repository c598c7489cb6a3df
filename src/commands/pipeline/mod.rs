//! `pipeline`: runs all steps from artifacts to published packages.

mod origin;

use std::path::PathBuf;

use self::origin::{ArtifactsOrigin, OriginArgs};
use super::{World, args::AccessArgs, build::BuildInputs, check, summary};
use crate::{
    artifact::ArtifactTree,
    atomic::lock::{Lock, LockPurpose},
    check::Report,
    console::many,
    error::{Hint as _, Result, anyhow},
    fetch::Purpose,
    package::{
        assemble::Existing,
        build::{Build, BuildSelection},
    },
    report::{LIMIT, PipelineAnswer, SummaryPage, Whereabouts},
    set::{
        LocalSet, Places, PlannedUpload, PublishedUpload, SetJson, SetPlace, UploadOptions, Urls,
    },
};

/// Run every step from artifacts to packages that pip and uv can install
///
/// Fetches or unpacks the artifacts, builds, checks, indexes, and publishes to a directory laid out
/// like the run's bucket. Ends with the commands that install the packages. Uploads nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel pipeline --sample --output-dir out
  rocwheel pipeline --artifact-dir artifacts --output-dir out --dry-run
  rocwheel pipeline --run-id 21440027240 --output-dir out")]
pub struct PipelineArgs {
    #[command(flatten)]
    origin: OriginArgs,
    /// Directory for the artifacts, the packages and the published set
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Check and publish the packages that an earlier call built, without building them again
    #[arg(long)]
    resume: bool,
    /// Print what would be read and written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Index for third-party dependencies; adds a second index to the install lines
    #[arg(long, value_name = "URL")]
    base_index: Option<Urls>,
    /// Compare package sizes with this set: a directory or a `set.json`
    #[arg(long, value_name = "SET")]
    baseline: Option<PathBuf>,
    /// Write the summary to this file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    steps: summary::Steps,
    #[command(flatten, next_help_heading = "Build options")]
    what: BuildInputs,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
}

pub fn run(args: &PipelineArgs, world: &World) -> Result<()> {
    let unpacked = args.output_dir.join("artifacts");
    let purpose = Purpose::of_dry_run(args.dry_run || args.resume);
    let origin = args.origin.settle(&unpacked, purpose, world)?;
    if args.dry_run {
        return world
            .console
            .answer(&origin.forecast(&args.output_dir, &args.what, world)?);
    }
    let _lock = Lock::to_write(&args.output_dir, LockPurpose::Pipeline)?;
    let set = if args.resume {
        args.resumed(world)?
    } else {
        args.build(&origin.read(&unpacked, &args.what, world)?, world)?
    };
    let hint = format!(
        "the packages are in `{}`: the same command with `--resume` goes on with them, and takes \
         `--accept` or `--ignore` for findings that may stay",
        args.packages().display()
    );
    let report = args.check(&set, world).hint(hint)?;
    let PublishedUpload { set, urls, .. } = args.publish(&set, &origin, world)?;
    let earlier = args.earlier(world)?;
    let page = args.page(&set, Some(&urls), &report, earlier.as_ref());
    args.tell(&page, world)?;
    let outputs = args.steps.github_output.as_deref();
    summary::append_outputs(outputs, &set, Some(&urls), world)?;
    world.console.answer(&PipelineAnswer(page))
}

impl PipelineArgs {
    fn packages(&self) -> PathBuf {
        self.output_dir.join("packages")
    }

    fn build(&self, tree: &ArtifactTree, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.packages();
        let options = self.what.options()?;
        let build = Build::plan(tree, &options, &BuildSelection::All, &packages, world)?;
        build.ensure_complete()?;
        let _lock = Lock::to_write(&packages, LockPurpose::BuildBelow)?;
        let made = build.make(&packages, Existing::Replace, world)?;
        LocalSet::built(&packages, &build.plan, &build.manifest()?, &made, world)
    }

    /// The packages of an earlier call, for `--resume`. Fails if they have changed since.
    fn resumed(&self, world: &World) -> Result<LocalSet> {
        let _group = world.console.group("Packages");
        let packages = self.packages();
        if !packages.join("set.json").is_file() {
            return Err(anyhow!("no finished packages in `{}`", packages.display()))
                .hint("run the same command without `--resume`");
        }
        let set = LocalSet::read(&packages, world)?;
        set.ensure_as_described(true)?;
        let (count, packages) = (many(set.set.files().len(), "package"), packages.display());
        let facts = format!("with {count} in `{packages}`");
        world.console.status("Resumed", facts);
        Ok(set)
    }

    /// Publishes the set below the output directory, under the key that `place` prints for the run.
    fn publish(
        &self,
        set: &LocalSet,
        origin: &ArtifactsOrigin<'_>,
        world: &World,
    ) -> Result<PublishedUpload> {
        let _group = world.console.group("Index");
        let identity = set.document.identity.clone().or_of(&origin.run);
        let destination = SetPlace::below(&self.output_dir, origin.place().key(), &world.stop);
        let options = UploadOptions {
            is_part: false,
            // Files of an earlier call in this directory belong to the same user.
            overwrite: true,
            is_dry_run: false,
        };
        PlannedUpload::plan(set, identity, destination, options, world)?.carry_out(world)
    }

    /// Checks the set. If it has errors, writes a summary that says so, and fails.
    fn check(&self, set: &LocalSet, world: &World) -> Result<Report> {
        let mut policy = self.policy.clone();
        policy.jobs = self.what.jobs.clone();
        let report = check::look(&self.packages(), &AccessArgs::default(), &policy, world)?;
        let verdict = policy.verdict(&report);
        if verdict.is_err() {
            let earlier = self.earlier(world)?;
            let page = self.page(&set.document, None, &report, earlier.as_ref());
            self.tell(&page, world)?;
        }
        verdict.map(|()| report)
    }

    fn earlier(&self, world: &World) -> Result<Option<SetJson>> {
        let earlier = self.baseline.as_deref();
        let earlier = earlier.map(|place| summary::local_document(place, world));
        earlier.transpose()
    }

    fn page<'a>(
        &'a self,
        set: &'a SetJson,
        urls: Option<&'a Urls>,
        report: &'a Report,
        earlier: Option<&'a SetJson>,
    ) -> SummaryPage<'a> {
        let base = self.base_index.as_ref();
        SummaryPage {
            set,
            whereabouts: urls.map_or(Whereabouts::Nowhere, |set| {
                Whereabouts::Published(Places { set, base })
            }),
            server: &self.steps.server,
            report: Some(report),
            earlier,
        }
    }

    fn tell(&self, page: &SummaryPage<'_>, world: &World) -> Result<()> {
        if let Some(file) = &self.summary {
            fs_err::write(file, page.render(LIMIT))?;
        }
        self.steps.page(page, world)
    }
}
