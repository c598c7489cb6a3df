//! `promote`: a tested set under another version, or at another place.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tempfile::TempDir;

use super::{
    World,
    args::{AccessArgs, Jobs, PageArgs, Variables},
    check::{self, Checked},
    publish::{self, Publication, PublisherSummary},
    summary::changes_since,
};
use crate::{
    check::facts_of,
    framework::tie::VersionPin,
    index::Layout,
    place::{
        self, Existing, LocalSet, PackageDirectories, PlaceArg, PlaceDepth, ProductUpload,
        PublishedUpload, ServedDigests, SetPlace, Upload, UploadOptions,
    },
    promote::{
        self, CandidateSet, FrameworkTies, PromotionPlan, PromotionRecord, PromotionRequest,
        ReleasePlaces,
    },
    report::SummaryPage,
};
use rocwheel_base::{
    atomic::StagedDir,
    error::{Context as _, Hint as _, No, Result, anyhow},
    glob::Glob,
    target::{TargetPattern, TargetTable},
    version::{PromotionGoal, Version},
};
use rocwheel_store::CopySource;

/// Promote a tested package set to another version or place
///
/// Copies each file that does not name the version without compressing it again, and changes the
/// others. A build under the other version makes packages with the same bytes. Checks the
/// set first, and the promoted set before it is published; with errors, publishes nothing. Packages
/// that are there already with other contents are an error. Leaves `promotion.json` with every
/// digest before and after.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel promote packages --to release --into released --dry-run
  rocwheel promote s3://bucket/candidates/7.14.0rc1 --to release --into released
  rocwheel promote packages --to rc1 --target gfx942,gfx950 --into s3://bucket/candidates/7.14.0rc1
  rocwheel promote https://host/simple/ --version 10.1.0a20260823 --to same --into kept")]
pub struct PromoteArgs {
    /// The set that was tested: a directory, `s3://bucket/directory`, or the URL of an index
    #[arg(value_name = "SET")]
    source: PlaceArg,
    /// The version to take from an index that has several [default: the newest]
    #[arg(long, value_name = "VERSION")]
    version: Option<Version>,
    /// What it becomes: `release` (7.14.0), `rcN`, `postN`, or `same` to copy it
    #[arg(long, value_name = "GOAL")]
    to: PromotionGoal,
    /// Directory or `s3://bucket/directory` for the promoted set and its index
    // Most commands call it `--output-dir`.
    #[arg(long, value_name = "PLACE", alias = "output-dir", required_unless_present = "dry_run")]
    into: Option<PlaceArg>,
    /// Keep only the device packages of these families or targets, comma-separated
    #[arg(long = "target", alias = "targets", value_name = "LIST", value_parser = TargetPattern::known)]
    targets: Option<TargetPattern>,
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
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    summary: PublisherSummary,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    gate: check::GateArgs,
    #[command(flatten)]
    access: AccessArgs,
    // The rest has no flag here: variables say it.
    /// The file that remembers the digests of files on servers.
    #[arg(skip)]
    served_digests: Option<PathBuf>,
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
    // Opened first: a place that cannot be written must not cost a check.
    let destination = match &args.into {
        Some(into) => Some(args.access.destination(into, &world.stop)?),
        None => None,
    };
    let baseline = args.summary.inputs.baseline(&args.access, world)?;
    let mut place = args.access.place(&args.source, &world.stop)?;
    place.directory_pages = !args.pages.no_directory_pages;
    place.version.clone_from(&args.version);
    let source = SourceSet::fetch(&place, args.served_digests.as_deref(), world)?;
    let (set, _) = args.check(source.path(), world)?.set(source.path(), world)?;
    let jobs = args.jobs.count();
    let candidate = CandidateSet::read(&set, jobs, world)?;
    let directories = match args.layout {
        PromotionLayout::Product => {
            Some(ReleasePlaces::builtin().directories(&set.document, &args.product)?)
        }
        PromotionLayout::Dist | PromotionLayout::Flat => None,
    };
    let mut plan = promote::decide(&candidate, &request)?;
    if let Some(wanted) = args.version.as_ref().filter(|wanted| **wanted != plan.from) {
        let refusal = format!("`{}` has version {}, and not {wanted}", args.source, plan.from);
        return Err(anyhow!(No(refusal))).hint("leave out `--version`, or name another set");
    }
    if let Some(PlaceArg::Bucket(place)) = &args.into {
        ReleasePlaces::ensure_takes(place, &plan.to)?;
    }
    let ties = args.ties(&candidate, &mut plan, world)?;
    if args.dry_run {
        return world.console.answer(&plan.placed(directories.as_ref()));
    }
    let mut into = destination.context("no place was named")?;
    into.directory_pages = !args.pages.no_directory_pages;
    // Staged on the file system of the destination, so that publishing can link the packages instead of copying
    // them.
    let staged = into.local().map(StagedDir::beside).transpose()?;
    let temporary = tempfile::tempdir()?;
    let directory = staged.as_ref().map_or(temporary.path(), StagedDir::path);
    let record = promote::write(&candidate, ties.as_ref(), &plan, directory, jobs, world)?;
    let Checked { report, verdict, .. } = args.check(directory, world)?;
    verdict?;
    let identity = record.identity(&plan);
    let mut promoted = LocalSet::promoted(directory, identity, record.package_files()?, world)?;
    promoted.set_record(PromotionRecord::FILE, record.render()?);
    source.name_copies(&record, &mut promoted);
    if let Some(directories) = directories {
        let upload =
            ProductUpload { set: &promoted, directories: &directories, place: &into, world };
        return publish::products("promote", &upload);
    }
    let changes = changes_since(baseline.as_ref(), &promoted, world)?;
    let publication = Publication {
        upload: Upload {
            set: &promoted,
            identity: &promoted.document.identity,
            place: &into,
            options: UploadOptions {
                is_part: false,
                layout: match args.layout {
                    PromotionLayout::Flat => Layout::Flat,
                    PromotionLayout::Dist | PromotionLayout::Product => Layout::Dist,
                },
                existing: Existing::Keep,
            },
            world,
        },
        group: None,
        report: report.as_ref(),
        changes: changes.as_ref(),
    };
    let answer = |published: &PublishedUpload, _: SummaryPage<'_>| world.console.answer(published);
    publication.run(&args.summary, answer)
}

impl PromoteArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.served_digests = variables.cache_file("served-digests.json");
        self.pages.read_variables(variables)?;
        self.summary.read_variables(variables)?;
        self.jobs.read_variables(variables)?;
        self.gate.read_variables(variables);
        self.access.read_variables(variables)
    }

    fn request(&self) -> Result<PromotionRequest> {
        if self.targets.as_ref().is_some_and(TargetPattern::is_empty) {
            return Err(anyhow!("`--target` names no target"))
                .hint("name the targets to keep, or leave it out to keep all");
        }
        Ok(PromotionRequest {
            goal: self.to,
            targets: TargetTable::builtin().select(self.targets.as_slice())?,
            leave: self.leave.iter().map(Glob::new).collect(),
        })
    }

    fn check(&self, root: &Path, world: &World) -> Result<Checked> {
        let place = SetPlace::directory(root, &world.stop);
        let jobs = self.jobs.count();
        self.gate.check(&place, PlaceDepth::Pages, jobs, false, world)
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
}

/// The set on this disk: where it is, or a copy of it.
enum SourceSet {
    Here(PathBuf),
    /// With the objects that the files are copies of, by name.
    Copied(TempDir, BTreeMap<String, CopySource>),
}

impl SourceSet {
    /// Copies a set to a temporary directory, if it is not on this disk.
    fn fetch(place: &SetPlace, memory: Option<&Path>, world: &World) -> Result<Self> {
        if let Some(root) = place.local() {
            return Ok(Self::Here(root.to_owned()));
        }
        let copy = tempfile::tempdir()?;
        let set = place::find(place, PlaceDepth::Pages)?;
        if let Some(note) = set.choice_note(place) {
            world.console.note(note);
        }
        let mut sources = BTreeMap::new();
        for package in &set.packages {
            // Asked before the bytes are read. If the object is replaced meanwhile, the server refuses the copy.
            let object = package.copy_source()?;
            sources.extend(object.map(|it| (package.name.clone(), it)));
        }
        let mut memory = ServedDigests::open(memory.map(Path::to_owned));
        place.copy_packages(&set, &copy.path().join("dist"), &mut memory, world)?;
        // The copies lie in `dist`, wherever the set has its files. The digests stay: the check compares the
        // copies with them.
        if let Some(document) = place.find_set_json()? {
            let moved = document.in_layout(Layout::Dist)?;
            fs::write(copy.path().join("set.json"), moved.pretty())?;
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
