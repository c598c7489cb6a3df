//! `promote`: a tested set under another version, or at another place.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tempfile::TempDir;

use super::{
    World,
    args::{AccessArgs, Jobs, PageArgs},
    check::{self, Checked},
    publish::{self, Publication, PublisherSummary},
    summary::changes_since,
};
use crate::{
    atomic::StagedDir,
    check::{Report, facts_of},
    diff::Baseline,
    error::{Context as _, Hint as _, Result, anyhow},
    framework::tie::VersionPin,
    glob::Glob,
    promote::{
        self, CandidateSet, FrameworkTies, PromotionPlan, PromotionRecord, PromotionRequest,
        ReleasePlaces,
    },
    report::SummaryPage,
    set::{
        self, Existing, Layout, LocalSet, NamedPlace, PackageDirectories, PlaceDepth,
        ProductDirectories, ProductUpload, PublishedUpload, SetPlace, Upload, UploadOptions,
    },
    store::CopySource,
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
#[command(after_help = "Examples:
  rocwheel promote packages --to release --into released --dry-run
  rocwheel promote s3://bucket/candidates/7.14.0rc1 --to release --into released
  rocwheel promote packages --to rc1 --target gfx942,gfx950 --into s3://bucket/candidates/7.14.0rc1")]
pub struct PromoteArgs {
    /// The set that was tested: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(value_name = "SET")]
    source: PathBuf,
    /// What it becomes: `release` (7.14.0), `rcN`, `postN`, or `same` to copy it
    #[arg(long, value_name = "GOAL")]
    to: PromotionGoal,
    /// Directory or `s3://bucket/directory` for the promoted set and its index
    #[arg(long, value_name = "PLACE", required_unless_present = "dry_run")]
    into: Option<NamedPlace>,
    /// Keep only the device packages of these families or targets, comma-separated
    #[arg(long = "target", alias = "targets", value_name = "LIST")]
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
    #[command(flatten)]
    pages: PageArgs,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    summary: PublisherSummary,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    gate: check::GateArgs,
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
}

pub fn run(args: &PromoteArgs, world: &World) -> Result<()> {
    let request = args.request()?;
    let baseline = args.summary.inputs.baseline(&args.access, world)?;
    let source = SourceSet::fetch(&args.source(world)?, world)?;
    let (set, _) = args
        .check(source.path(), world)?
        .set(source.path(), world)?;
    let candidate = CandidateSet::read(&set, args.jobs.count(), world)?;
    let directories = args.directories(&set)?;
    let (plan, ties) = args.plan(&candidate, &request, world)?;
    if args.dry_run {
        return world.console.answer(&plan.placed(directories.as_ref()));
    }
    let staged = args.staged()?;
    let jobs = args.jobs.count();
    let record = promote::write(&candidate, ties.as_ref(), &plan, staged.path(), jobs, world)?;
    let Checked {
        report, verdict, ..
    } = args.check(staged.path(), world)?;
    verdict?;
    let mut promoted = promoted(&record, &plan, staged.path(), world)?;
    source.name_copies(&record, &mut promoted);
    let Some(directories) = directories else {
        return args.publish(&promoted, report.as_ref(), baseline.as_ref(), world);
    };
    let upload = ProductUpload {
        set: &promoted,
        directories: &directories,
        place: &args.place(world)?,
        world,
    };
    publish::products("promote", &upload)
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
        let targets = self.targets.as_ref().map(TargetList::targets);
        if targets.is_some_and(<[_]>::is_empty) {
            return Err(anyhow!("`--target` names no target"))
                .hint("name the targets to keep, or leave it out to keep all");
        }
        Ok(PromotionRequest {
            goal: self.to,
            targets: targets.unwrap_or_default().to_vec(),
            leave: self.leave.iter().map(Glob::new).collect(),
        })
    }

    /// The place of the set that was tested.
    fn source(&self, world: &World) -> Result<SetPlace> {
        let mut place = self.access.place(&self.source, &world.stop)?;
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    fn check(&self, root: &Path, world: &World) -> Result<Checked> {
        let place = SetPlace::directory(root, &world.stop);
        let jobs = self.jobs.count();
        self.gate
            .check(&place, PlaceDepth::Pages, jobs, false, world)
    }

    /// What becomes of the set and of its frameworks.
    fn plan<'a>(
        &self,
        set: &'a CandidateSet,
        request: &PromotionRequest,
        world: &World,
    ) -> Result<(PromotionPlan, Option<FrameworkTies<'a>>)> {
        let mut plan = promote::decide(set, request)?;
        if let Some(NamedPlace::Bucket(place)) = &self.into {
            ReleasePlaces::ensure_takes(place, &plan.to)?;
        }
        let ties = self.ties(set, &mut plan, world)?;
        Ok((plan, ties))
    }

    /// How the frameworks of the set are tied to what it becomes, if there are any.
    fn ties<'a>(
        &self,
        set: &'a CandidateSet,
        plan: &mut PromotionPlan,
        world: &World,
    ) -> Result<Option<FrameworkTies<'a>>> {
        if set.frameworks.is_empty() || plan.packages.is_empty() {
            return Ok(None);
        }
        let jobs = self.jobs.count();
        let place = SetPlace::directory(&set.root, &world.stop);
        let depth = PlaceDepth::Packages(PackageDirectories::Built);
        let facts = facts_of(&place, depth, jobs, world)?;
        let pin = VersionPin::usual(&plan.to);
        FrameworkTies::decide(set, plan, &facts, pin, jobs, world).map(Some)
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
        place.directory_pages = !self.pages.no_directory_pages;
        Ok(place)
    }

    /// The directories of the projects, at a release place.
    fn directories(&self, set: &LocalSet) -> Result<Option<ProductDirectories>> {
        if self.layout != PromotionLayout::Product {
            return Ok(None);
        }
        let directories = ReleasePlaces::builtin().directories(&set.document, &self.product);
        directories.map(Some)
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
            existing: Existing::Keep,
        };
        let changes = changes_since(baseline, promoted, world)?;
        let publication = Publication {
            upload: Upload {
                set: promoted,
                identity: &promoted.document.identity,
                place: &place,
                options,
                world,
            },
            group: None,
            report,
            changes: changes.as_ref(),
        };
        let answer =
            |published: &PublishedUpload, _: SummaryPage<'_>| world.console.answer(published);
        publication.run(&self.summary, answer)
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

/// The set on this disk: where it is, or a copy of it.
enum SourceSet {
    Here(PathBuf),
    /// With the objects that the files are copies of, by name.
    Copied(TempDir, BTreeMap<String, CopySource>),
}

impl SourceSet {
    /// Copies a set to a temporary directory, if it is not on this disk.
    fn fetch(place: &SetPlace, world: &World) -> Result<Self> {
        if let Some(root) = place.local() {
            return Ok(Self::Here(root.to_owned()));
        }
        let copy = tempfile::tempdir()?;
        let dist = copy.path().join("dist");
        let found = set::find(place, PlaceDepth::Pages)?;
        let bytes: u64 = found.packages.iter().map(|it| it.size).sum();
        let progress = world.console.progress("Fetching", place, bytes);
        let mut sources = BTreeMap::new();
        for package in &found.packages {
            let target = dist.join(&package.name);
            // Before its bytes are read: a later object is not copied.
            let object = package.copy_source()?;
            sources.extend(object.map(|it| (package.name.clone(), it)));
            fs::create_dir_all(target.parent().unwrap_or(&dist))?;
            package.save(&target, &world.stop, &|bytes| progress.inc(bytes))?;
        }
        // Its paths may be those of another layout, and its digests have to be those of the copies.
        if let Ok(document) = place.set_json() {
            let document = document.in_layout(Layout::Dist)?;
            fs::write(copy.path().join("set.json"), document.pretty())?;
        }
        Ok(Self::Copied(copy, sources))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Here(path) => path,
            Self::Copied(copy, _) => copy.path(),
        }
    }

    /// Says which packages have the bytes of an object.
    fn name_copies(&self, record: &PromotionRecord, promoted: &mut LocalSet) {
        let Self::Copied(_, sources) = self else {
            return;
        };
        let files = record.files.iter().filter(|it| it.sha256 == it.from_sha256);
        for file in files {
            let name = file.from.strip_prefix("dist/").unwrap_or(&file.from);
            if let Some(source) = sources.get(name) {
                promoted.copy_from(&file.path, source.clone());
            }
        }
    }
}
