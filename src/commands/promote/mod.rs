//! `promote`: a tested set under another version, or at another place.

mod means;
mod source;
mod tarballs;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use self::{
    means::{FloatPatch, PromotionMeans},
    source::SourceSet,
    tarballs::TarballArgs,
};
use super::{
    World,
    args::{AccessArgs, Sourced},
    build::BuildInputs,
    check, known, products,
    summary::PublisherSummary,
};
use crate::{
    atomic::StagedDir,
    check::{Report, facts_of},
    diff::Baseline,
    error::{Context as _, Hint as _, Result, anyhow},
    framework::tie::VersionPin,
    glob::Glob,
    promote::{
        self, CandidateSet, CandidateTarballs, FrameworkTies, PromotionPlan, PromotionRecord,
        PromotionRequest, ReleasePlaces,
    },
    set::{
        self, AttachedFile, Layout, LocalSet, NamedPlace, PackageDirectories, PlaceDepth,
        ProductDirectories, SetPlace, UploadOptions,
    },
    target::TargetList,
    version::PromotionGoal,
};

/// Promote a tested package set to another version or place
///
/// Copies each file that does not name the version without compressing it again, and changes the
/// others. The packages are the same bytes as those of a build under the other version. Checks the
/// set first, and the promoted set before it is published; with errors, publishes nothing. Packages
/// that are there already with other contents are an error. Leaves `promotion.json` with every
/// digest before and after.
#[derive(Debug, clap::Args)]
#[command(mut_arg("version", |it| it.hide(true)))]
#[command(after_help = "Examples:
  rocwheel promote packages --to release --into released --dry-run
  rocwheel promote s3://bucket/candidates/7.14.0rc1 --to release --into released
  rocwheel promote packages --to rc1 --targets gfx942,gfx950 --into s3://bucket/candidates/7.14.0rc1")]
pub struct PromoteArgs {
    /// The set that was tested: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(value_name = "SET", env = "ROCWHEEL_PACKAGES_DIR")]
    source: PathBuf,
    /// What it becomes: `release` (7.14.0), `rcN`, `postN`, or `same` to copy it
    #[arg(long, value_name = "GOAL")]
    to: PromotionGoal,
    /// Directory or `s3://bucket/directory` for the promoted set and its index
    #[arg(long, value_name = "PLACE", required_unless_present = "dry_run")]
    into: Option<NamedPlace>,
    /// Keep only the device packages of these families or targets, comma-separated
    #[arg(long, value_name = "LIST")]
    targets: Option<TargetList>,
    /// Files that may name the old version, by globs of their paths in a package, comma-separated
    #[arg(long, value_name = "GLOBS", value_delimiter = ',')]
    leave: Vec<String>,
    /// Where the packages are: in `dist`, beside `simple`, or in a directory for each project
    #[arg(long, value_enum, value_name = "LAYOUT", default_value_t)]
    layout: PromotionLayout,
    /// With `--layout product`, publish only these products: `core`, `pytorch`, `jax`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    product: Vec<String>,
    /// Write no pages under keys that end in `/`, for servers that reject such keys; installers
    /// then need `--find-links`
    #[arg(long)]
    no_directory_pages: bool,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    summary: PublisherSummary,
    /// When frameworks accept later patch releases of ROCm
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    float_patch: FloatPatch,
    /// At the end, yank the packages that were tested where they are, with this reason
    #[arg(long, value_name = "REASON")]
    yank_source: Option<String>,
    /// How the packages get their version
    #[arg(long, value_enum, value_name = "MEANS", default_value_t)]
    by: PromotionMeans,
    /// With `--by build`, the directory with the artifacts that the set was built from
    #[arg(long, value_name = "DIR", required_if_eq("by", "build"))]
    artifact_dir: Option<PathBuf>,
    #[command(flatten)]
    tarballs: TarballArgs,
    #[command(flatten, next_help_heading = "Build options, for --by build")]
    what: Sourced<BuildInputs>,
    /// Check neither the set nor what it becomes
    #[arg(long, help_heading = "Check options")]
    no_check: bool,
    #[command(flatten, next_help_heading = "Check options")]
    policy: check::Policy,
    #[command(flatten)]
    access: AccessArgs,
}

/// Where the packages are published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum PromotionLayout {
    /// In `dist`, beside `simple`
    #[default]
    Dist,
    /// Beside `simple`, where TheRock's uploader puts them
    Flat,
    /// In `rocm/{product}/whl-next/{project}`, among other versions, as release places have them
    Product,
    /// In `whl/{project}`, as release places before ROCm 10.1 have them
    Whl,
}

pub fn run(args: &PromoteArgs, world: &World) -> Result<()> {
    let request = args.request()?;
    args.ensure_yankable(world)?;
    let baseline = args.summary.baseline(&args.access, world)?;
    let source = SourceSet::fetch(&args.source(world)?, world)?;
    args.check(source.path(), world)?;
    let set = args.read(source.path(), world)?;
    let candidate = CandidateSet::read(&set, args.what.jobs.count(), world)?;
    let directories = args.directories(&set)?;
    let (plan, parts) = args.plan(&candidate, &request, world)?;
    if args.dry_run {
        return world.console.answer(&plan.placed(directories.as_ref()));
    }
    let staged = args.staged()?;
    let (record, tarballs) = args.write(set, &parts, &plan, staged.path(), world)?;
    let report = args.check(staged.path(), world)?;
    let mut promoted = promoted(&record, &plan, staged.path(), world)?;
    promoted.attach_files(tarballs);
    source.name_copies(&record, &mut promoted);
    match directories {
        Some(it) => args.publish_products(&promoted, &it, &plan, world)?,
        None => args.publish(&promoted, report.as_ref(), baseline.as_ref(), world)?,
    }
    args.yank(&candidate, world)
}

/// What is promoted.
struct PromotedParts<'a> {
    set: &'a CandidateSet,
    ties: Option<FrameworkTies<'a>>,
    tarballs: Option<CandidateTarballs>,
}

/// Where the promoted packages are made, before they are published.
enum PromotionStaging {
    /// Beside the directory that they are published to, so that they are linked there.
    Beside(StagedDir),
    Elsewhere(TempDir),
}

impl PromotionStaging {
    fn path(&self) -> &Path {
        match self {
            Self::Beside(staged) => staged.path(),
            Self::Elsewhere(directory) => directory.path(),
        }
    }
}

impl PromoteArgs {
    fn request(&self) -> Result<PromotionRequest> {
        self.ensure_buildable()?;
        let targets = self.targets.as_ref().map(TargetList::targets);
        if targets.is_some_and(<[_]>::is_empty) {
            return Err(anyhow!("`--targets` names no target"))
                .hint("name the targets to keep, or leave it out to keep all");
        }
        Ok(PromotionRequest {
            goal: self.to,
            is_rebuilt: self.by == PromotionMeans::Build,
            targets: targets.unwrap_or_default().to_vec(),
            leave: self.leave.iter().map(Glob::new).collect(),
        })
    }

    /// The place of the set that was tested.
    fn source(&self, world: &World) -> Result<SetPlace> {
        let mut place = self.access.place(&self.source, &world.stop)?;
        place.directory_pages = !self.no_directory_pages;
        Ok(place)
    }

    fn read(&self, root: &Path, world: &World) -> Result<LocalSet> {
        let (of, from_bytes) = (PackageDirectories::Built, self.policy.is_from_bytes());
        // Otherwise the wheels are hashed while they are copied.
        let set = if self.dry_run {
            LocalSet::read(root, of, from_bytes, world)?
        } else {
            LocalSet::described(root, of, from_bytes, world)?
        };
        if !self.no_check {
            set.ensure_as_described(false)?;
        }
        Ok(set)
    }

    fn check(&self, root: &Path, world: &World) -> Result<Option<Report>> {
        if self.no_check {
            return Ok(None);
        }
        let mut policy = self.policy.clone();
        policy.jobs = self.what.jobs.clone();
        let report = check::look(root, &AccessArgs::default(), &policy, world)?;
        policy.verdict(&report)?;
        Ok(Some(report))
    }

    /// What becomes of the set, of its frameworks and of its tarballs.
    fn plan<'a>(
        &self,
        set: &'a CandidateSet,
        request: &PromotionRequest,
        world: &World,
    ) -> Result<(PromotionPlan, PromotedParts<'a>)> {
        let mut plan = promote::decide(set, request)?;
        self.ensure_version(&plan.to)?;
        if let Some(NamedPlace::Bucket(place)) = &self.into {
            ReleasePlaces::builtin().ensure_takes(place, &plan.to)?;
        }
        if self.yank_source.is_some() {
            plan.yanked = set.replaced();
        }
        plan.compared = self.rebuilt_from().map(|it| it.display().to_string());
        let pin = self.float_patch.pin(&plan.to)?;
        let parts = PromotedParts {
            set,
            ties: self.ties(set, &mut plan, pin, world)?,
            tarballs: self.plan_tarballs(set, &mut plan, world)?,
        };
        Ok((plan, parts))
    }

    /// How the frameworks of the set are tied to what it becomes, if there are any.
    fn ties<'a>(
        &self,
        set: &'a CandidateSet,
        plan: &mut PromotionPlan,
        pin: VersionPin,
        world: &World,
    ) -> Result<Option<FrameworkTies<'a>>> {
        if set.frameworks.is_empty() || plan.packages.is_empty() {
            return Ok(None);
        }
        let (jobs, known) = (self.what.jobs.count(), known::wheels(&set.root));
        let place = SetPlace::directory(&set.root, &world.stop);
        let depth = PlaceDepth::Packages(PackageDirectories::Built);
        let facts = facts_of(&place, depth, &known, jobs, world)?;
        FrameworkTies::decide(set, plan, &facts, pin, jobs, world).map(Some)
    }

    /// Writes the promoted packages, and fails if they are made of others than `set.json` describes, or
    /// are not those of a build.
    fn write(
        &self,
        mut set: LocalSet,
        parts: &PromotedParts<'_>,
        plan: &PromotionPlan,
        staged: &Path,
        world: &World,
    ) -> Result<(PromotionRecord, Vec<AttachedFile>)> {
        let (packages, jobs) = ((parts.set, parts.ties.as_ref()), self.what.jobs.count());
        let mut record = promote::write(packages, plan, staged, jobs, world)?;
        let sources = record.files.iter();
        set.confirm(sources.map(|it| (it.from.as_str(), it.from_sha256)));
        if !self.no_check {
            set.ensure_as_described(false)?;
        }
        self.rebuild(parts.set, (plan, &record), staged, world)?;
        let tarballs = parts.tarballs.as_ref();
        let tarballs = self.write_tarballs(tarballs, plan, &mut record, world)?;
        Ok((record, tarballs))
    }

    fn destination(&self) -> Result<&NamedPlace> {
        self.into
            .as_ref()
            .context("no place was named")
            .hint("pass `--into`")
    }

    fn staged(&self) -> Result<PromotionStaging> {
        Ok(match self.destination()? {
            NamedPlace::Directory(path) => PromotionStaging::Beside(StagedDir::beside(path)?),
            NamedPlace::Bucket(_) => PromotionStaging::Elsewhere(tempfile::tempdir()?),
        })
    }

    fn place(&self, world: &World) -> Result<SetPlace> {
        let mut place = self.access.named(self.destination()?, &world.stop)?;
        place.directory_pages = !self.no_directory_pages;
        Ok(place)
    }

    /// The directories of the projects, at a release place.
    fn directories(&self, set: &LocalSet) -> Result<Option<ProductDirectories>> {
        let is_older = match self.layout {
            PromotionLayout::Product => false,
            PromotionLayout::Whl => true,
            PromotionLayout::Dist | PromotionLayout::Flat => return Ok(None),
        };
        let places = ReleasePlaces::builtin();
        let directories = places.directories(&set.document, &self.product, is_older);
        directories.map(Some)
    }

    /// Publishes the packages and the tarballs among those of other versions.
    fn publish_products(
        &self,
        promoted: &LocalSet,
        directories: &ProductDirectories,
        plan: &PromotionPlan,
        world: &World,
    ) -> Result<()> {
        let place = self.place(world)?;
        products::publish(promoted, directories, &place, world)?;
        match plan.tarball_directory() {
            Some(directory) => set::index_tarballs(&place, directory, world),
            None => Ok(()),
        }
    }

    /// Publishes the set, and says where it is.
    fn publish(
        &self,
        promoted: &LocalSet,
        report: Option<&Report>,
        baseline: Option<&Baseline>,
        world: &World,
    ) -> Result<()> {
        let place = self.place(world)?;
        let options = UploadOptions {
            is_part: false,
            layout: match self.layout {
                PromotionLayout::Flat => Layout::Flat,
                _ => Layout::Dist,
            },
            overwrite: false,
            is_dry_run: false,
        };
        let changes = PublisherSummary::changes(baseline, promoted, world)?;
        let identity = &promoted.document.identity;
        let published = set::publish(promoted, identity, &place, options, world)?;
        let urls = Some(&published.urls);
        let summary = &self.summary;
        let page = summary.page(&published.set, urls, report, changes.as_ref());
        summary.tell(&page, world)?;
        world.console.answer(&published)
    }
}

/// The promoted packages with what is known of them, and the record of the promotion.
fn promoted(
    record: &PromotionRecord,
    plan: &PromotionPlan,
    directory: &Path,
    world: &World,
) -> Result<LocalSet> {
    let written = record.files.iter();
    let written: Vec<_> = written.map(|it| (it.path.clone(), it.sha256)).collect();
    let mut set = LocalSet::promoted(directory, record.identity(plan), &written, world)?;
    set.attach(PromotionRecord::FILE, record.render()?);
    Ok(set)
}
