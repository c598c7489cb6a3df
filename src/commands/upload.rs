//! `upload`: publishes a package set with its index to the place of its run.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    World,
    args::{AccessArgs, GitHubArgs, PageArgs, RunArgs, SetArg, Variables, unusual},
    check,
    publish::{self, Publication, PublisherSummary},
    summary::changes_since,
};
use crate::{
    check::{Destination, Report},
    diff::Baseline,
    index::{Identity, Layout, install::ProductIndex},
    place::{
        Existing, LocalSet, PackageDirectories, PlaceArg, PlaceDepth, ProductUpload,
        PublishedUpload, SetPlace, Upload, UploadOptions,
    },
    promote::{ProductName, ProductPlace, ReleasePlaces},
    report::SummaryPage,
    run::{ArtifactGroup, Run, RunId},
};
use rocwheel_base::error::{self, Context as _, Error, Hint as _, Result, anyhow};
use rocwheel_store::{StoreError, StoreFailureKind, location::Location};

/// Flags that only `--help` lists.
const UNUSUAL: [&str; 7] =
    ["part", "no_directory_pages", "base_index", "baseline", "summary", "bucket", "offline"];

/// Publish a package set and its index to the place of its run
///
/// Checks the set first; with errors, uploads nothing. The set goes to
/// {external_repo}{run_id}-{platform}/python/{artifact_group}/: packages and their metadata first,
/// then the pages of the index, its root page last. Skips identical files that exist already. A
/// file that exists with other contents is an error, and nothing is changed; but a later attempt of a
/// run replaces the set of an earlier one. Writes the job summary and the step outputs of the published
/// set, as `summary` does.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "rocwheel upload [OPTIONS] <--artifact-group <GROUP>|--multi-target|--to <ADDRESS>|--product <NAME>> [SET]"
)]
#[command(mut_arg("set", |it| it.help("Directory with packages in it or in its `dist`")))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(mut_args(|it| unusual(it, &UNUSUAL)))]
#[command(after_help = "Examples:
  rocwheel upload packages --multi-target --output-dir published --dry-run
  rocwheel upload packages --multi-target --run-id 21440027240
  rocwheel upload packages --to s3://bucket/directory
  rocwheel upload published --product pytorch --release-type nightly")]
pub struct UploadArgs {
    #[command(flatten)]
    set: SetArg,
    /// Family of the set, which names its directory; with `--multi-target` only a name
    ///
    /// [env: `ARTIFACT_GROUP`]
    #[arg(long, value_name = "GROUP")]
    artifact_group: Option<ArtifactGroup>,
    /// The set is for all targets and goes directly into `python/`
    #[arg(long, alias = "multiarch")]
    multi_target: bool,
    /// Write to this address, `s3://bucket/directory`, instead of the place of the run
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with_all = ["output_dir", "multi_target"]
    )]
    to: Option<Location>,
    /// Publish frameworks to a directory for each project of this product, as release places have
    /// them: `pytorch`, `jax`, or another name. Their place follows from `--release-type`, or is `--to`
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["multi_target", "part", "layout", "overwrite"]
    )]
    product: Option<ProductName>,
    /// Where the packages are: in `dist` beside `simple`, or beside it as TheRock's uploader puts them
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: Layout,
    /// Upload a part of a set, without an index; run `index` when all parts are uploaded
    #[arg(long)]
    part: bool,
    /// Write to this directory, laid out like the bucket, instead of to S3
    #[arg(long, short = 'o', value_name = "DIR")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    pages: PageArgs,
    /// Replace existing packages that have other contents; in the place of a run, the set that is there
    #[arg(long)]
    overwrite: bool,
    /// Print what would be written, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    summary: PublisherSummary,
    #[command(flatten)]
    gate: check::GateArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

pub fn run(args: &UploadArgs, world: &World) -> Result<()> {
    args.ensure_destination()?;
    if let Some(product) = &args.product {
        return args.publish_product(product, world);
    }
    let run = args.resolve(world)?;
    let place = args.destination(&run, world)?;
    let baseline = args.summary.inputs.baseline(&args.access, world)?;
    let (set, report) = args.set(Some(&place), baseline.as_ref(), world)?;
    let identity = args.identity(&set.document.identity, &run, world)?;
    let upload =
        Upload { set: &set, identity: &identity, place: &place, options: args.options(), world };
    if args.dry_run {
        return world.console.answer(&upload.plan().map_err(advise_offline)?);
    }
    let changes = changes_since(baseline.as_ref(), &set, world)?;
    let publication =
        Publication { upload, group: None, report: report.as_ref(), changes: changes.as_ref() };
    let answer = |published: &PublishedUpload, _: SummaryPage<'_>| {
        if let Some(report) = &report {
            args.gate.remember_published(report, &place, published, world)?;
        }
        if !args.part {
            return world.console.answer(published);
        }
        let facts = json!({
            "place": place.to_string(),
            "uploaded": published.uploaded,
            "unchanged": published.unchanged,
        });
        world.console.report("upload", &facts, &place)
    };
    publication.run(&args.summary, answer)
}

/// Adds the hint that a plan can be made without the network.
fn advise_offline(error: Error) -> Error {
    let is_away = |failure: &StoreError| failure.kind() == StoreFailureKind::Unavailable;
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref());
    if !failures.any(is_away) {
        return error;
    }
    error::hinted(error, "add `--offline`: the plan then assumes that the place is empty")
}

impl UploadArgs {
    /// Fails if neither a flag nor a variable says whose directory the set goes to.
    fn ensure_destination(&self) -> Result<()> {
        let is_named = self.artifact_group.is_some() || self.to.is_some() || self.product.is_some();
        (is_named || self.multi_target)
            .then_some(())
            .context("neither a family nor another destination of the set was named")
            .hint("pass `--multi-target`, `--artifact-group`, `--to` or `--product`")
    }

    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.artifact_group, "ARTIFACT_GROUP")?;
        self.pages.read_variables(variables)?;
        self.summary.read_variables(variables)?;
        self.gate.read_variables(variables);
        self.run.read_variables(variables)?;
        self.access.read_variables(variables)?;
        self.github.read_variables(variables)
    }

    fn options(&self) -> UploadOptions {
        UploadOptions {
            is_part: self.part,
            layout: self.layout,
            existing: if self.overwrite { Existing::Replace } else { Existing::Refuse },
        }
    }

    /// Resolves the run of the set.
    fn resolve(&self, world: &World) -> Result<Run> {
        let reference = match self.run.run() {
            // With `--to` or `--output-dir`, the set need not come from a run.
            Err(_) if self.output_dir.is_some() || self.to.is_some() => &RunId::local().into(),
            run => run?,
        };
        let args = match (&self.to, &self.output_dir) {
            (Some(to), _) => self.run.clone().in_bucket(&to.bucket),
            (None, Some(_)) => self.run.clone().of_directory(),
            (None, None) => self.run.clone(),
        };
        args.resolve(reference, &self.github, world)
    }

    /// Checks the set, and reads it. If it has errors, writes a summary that says so, and fails.
    fn set(
        &self,
        to: Option<&SetPlace>,
        since: Option<&Baseline>,
        world: &World,
    ) -> Result<(LocalSet, Option<Report>)> {
        let named = self.set.required()?;
        let PlaceArg::Directory(directory) = named else {
            return Err(anyhow!("not a directory on this machine: `{named}`"))
                .hint("pass the directory that `rocwheel build` wrote to");
        };
        // The pages beside a part list the whole set, and not the part.
        let depth = if self.part {
            PlaceDepth::Packages(PackageDirectories::Built)
        } else {
            PlaceDepth::Pages
        };
        let place = SetPlace::directory(directory, &world.stop);
        let jobs = World::jobs();
        // The check finds a `set.json` that cannot be read.
        let document = place.find_set_json().ok().flatten();
        let known = document.map(|it| it.identity).unwrap_or_default();
        if let Some(to) = to {
            to.ensure_takes(known.foreign_code.as_ref())?;
        }
        let destination = to.and_then(|to| Destination::of(to, known.run_id));
        let gate = check::GateArgs { policy: self.gate.policy.going_to(destination), ..self.gate };
        let checked = gate.check(&place, depth, jobs, self.part, world)?;
        if let Some(report) = checked.report.as_ref().filter(|_| checked.verdict.is_err())
            && !self.part
            && !self.dry_run
        {
            // A set can be so broken that nothing more is known of it than its findings.
            let built = PackageDirectories::Built;
            let quiet = world.quiet();
            if let Ok(set) = LocalSet::read(directory, built, checked.read.clone(), &quiet) {
                let changes = changes_since(since, &set, world)?;
                let summary = &self.summary;
                summary.refuse(&set.document, report, changes.as_ref(), world)?;
            }
        }
        checked.set(directory, world)
    }

    /// The identity of the set: what its packages say, completed from the arguments and the run.
    fn identity(&self, known: &Identity, run: &Run, world: &World) -> Result<Identity> {
        let platform = self.run.platform();
        if let Some(built) = known.platform.filter(|built| *built != platform) {
            return Err(anyhow!(
                "a set that was built for {built} is to be uploaded for {platform}"
            ))
            .hint("pass the right `--platform`");
        }
        let identity = Identity { platform: Some(platform), ..known.clone() };
        Ok(publish::relabelled(&identity, run, world))
    }

    /// Publishes frameworks beside the packages of their other versions.
    fn publish_product(&self, product: &ProductName, world: &World) -> Result<()> {
        // A place that cannot be written must not cost a check.
        let place = self.product_place(product, world)?;
        let (set, report) = self.set(None, None, world)?;
        let directories = ReleasePlaces::builtin().directories_of(&set.document, product)?;
        let upload = ProductUpload { set: &set, directories: &directories, place: &place, world };
        if self.dry_run {
            return world.console.answer(&upload.plan().map_err(advise_offline)?);
        }
        publish::products("upload", &upload)?;
        // The index of a stream has all that its packages require. Any other place has only the pages of the
        // product.
        let stream = self.stream_place(product).ok().filter(|stream| {
            let is_there = |to: &Location| to.directory() == stream.address.directory();
            self.output_dir.is_none() && self.to.as_ref().is_none_or(is_there)
        });
        let is_complete = stream.is_some();
        let address = if let Some(stream) = stream {
            stream.index
        } else {
            let directory = ReleasePlaces::builtin().directory_of(product);
            place.urls()?.path(&format!("{directory}/"))
        };
        let index = ProductIndex { address: &address, base: None, is_complete };
        self.summary.product(&set.document, index, report.as_ref(), world)
    }

    /// The place of a product: a directory, the address of the user, or the bucket of a stream.
    fn product_place(&self, product: &ProductName, world: &World) -> Result<SetPlace> {
        let bucket = || Ok(self.stream_place(product)?.address);
        self.open(bucket, |directory| SetPlace::directory(directory, &world.stop), world)
    }

    /// Where the stream of the release type publishes a product.
    fn stream_place(&self, product: &ProductName) -> Result<ProductPlace> {
        let release = self
            .run
            .release_type()
            .context("no place was named")
            .hint("pass `--release-type` or `--to`")?;
        ReleasePlaces::builtin()
            .place(product, release)
            .hint("pass `--to` for a product of your own")
    }

    fn destination(&self, run: &Run, world: &World) -> Result<SetPlace> {
        let group = self.artifact_group.clone().filter(|_| !self.multi_target);
        let root = run.python(&group.unwrap_or_default());
        let below = |directory: &Path| SetPlace::below(directory, &root.key, &world.stop);
        self.open(|| Ok(root.clone()), below, world)
    }

    /// Opens `--output-dir` if it is given, else `--to` or the usual place in a bucket.
    fn open(
        &self,
        usual: impl FnOnce() -> Result<Location>,
        directory: impl FnOnce(&Path) -> SetPlace,
        world: &World,
    ) -> Result<SetPlace> {
        let mut place = if let Some(output) = &self.output_dir {
            directory(output)
        } else {
            let to = self.to.clone().map_or_else(usual, Ok)?;
            self.bucket(to, world)?
        };
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    fn bucket(&self, to: Location, world: &World) -> Result<SetPlace> {
        let shown = to.to_string();
        let open = || self.access.destination(&PlaceArg::Bucket(to), &world.stop);
        if self.dry_run && self.run.is_offline() {
            world.console.note(format!("assumed that `{shown}` is empty"));
            return Ok(open()?.assumed_empty());
        }
        let online = self.run.ensure_online(format!("an upload to `{shown}`"));
        online.hint(
            "pass `--output-dir`; or `--dry-run`, which then assumes that the place is empty",
        )?;
        open()
    }
}
