//! `build`: artifacts to the packages of a set.

mod args;
mod document;
pub mod input;
mod kpack;
mod space;

use std::{io, path::Path, sync::Mutex, time::Instant};

pub use args::{Args, What};
pub use kpack::Apart;

use super::World;
use crate::{
    artifact::{ArtifactTree, ensure_fit, same_content},
    console::{Progress, many, size, took},
    error::{Context as _, Result},
    index::{Identity, Layout, SetJson},
    package::{
        BuildPlan, Catalog, Mode, Request, Subset,
        assemble::{self, Existing, Made, Watch},
        complete::{self, Extent},
        planner,
    },
    set::LocalSet,
};

pub fn run(args: &Args, world: &World) -> Result<()> {
    let subset = args.subset()?;
    args.ensure_enough(subset.as_ref())?;
    let _lock = args.lock()?;
    let unpacked = args.dest_dir.join("artifacts");
    let tree = input::read(&args.artifact_dir, &unpacked, &args.what.jobs, world)?;
    let apart = args.what.apart(&tree, &args.dest_dir, world)?;
    let catalog = args.what.catalog()?;
    let mut plan = plan(&apart.tree, &catalog, &args.what, subset.clone(), world)?;
    match subset {
        Some(subset) => subset.keep(&mut plan)?,
        None if !args.only.is_empty() => plan.keep(&args.only)?,
        None => {}
    }
    let extent = if args.only.is_empty() {
        Extent::Whole
    } else {
        Extent::Part
    };
    complete::check(&catalog, &plan, extent)?;
    if args.plan {
        return world.console.answer(&document::Document(&plan));
    }
    let _archives = apart.write(&args.what.jobs, world)?;
    let (made, _) = make(
        &plan,
        &apart.tree,
        &args.what,
        &args.dest_dir,
        args.existing(),
        world,
    )?;
    world.console.answer(&document::Answer::new(made))
}

/// Decides what the set holds.
pub fn decide(tree: &ArtifactTree, what: &What, world: &World) -> Result<BuildPlan> {
    let catalog = what.catalog()?;
    let plan = plan(tree, &catalog, what, None, world)?;
    complete::check(&catalog, &plan, Extent::Whole)?;
    Ok(plan)
}

/// Decides what the set holds, or that part of it which is to be made.
fn plan(
    tree: &ArtifactTree,
    catalog: &Catalog,
    what: &What,
    subset: Option<Subset>,
    world: &World,
) -> Result<BuildPlan> {
    let request = Request {
        subset,
        ..what.request(tree)?
    };
    if request.mode == Mode::Split {
        ensure_fit(&tree.artifacts, what.jobs.count(), &world.stop)?;
    }
    let plan = planner::plan(catalog, tree, &request, &same_content)?;
    for note in &plan.notes {
        world.console.note(note);
    }
    let form = match plan.mode {
        Mode::Split => "with device code apart",
        Mode::Legacy => "with device code inside",
    };
    let packages = many(plan.wheels.len() + plan.sdists.len(), "package");
    world.console.status(
        "Planned",
        format!(
            "{packages} of ROCm {} for {}, {form}",
            plan.version, plan.platform
        ),
    );
    Ok(plan)
}

/// The plan of some artifacts, as `--plan --format json` says it; nothing is made.
pub fn document(artifacts: &Path, what: &What, world: &World) -> Result<String> {
    input::ensure_all(artifacts)?;
    let tree = input::scan(artifacts, &what.jobs, world)?;
    let apart = what.apart(&tree, Path::new(""), world)?;
    let plan = plan(&apart.tree, &what.catalog()?, what, None, world)?;
    serde_json::to_string(&document::Document(&plan)).context("write the plan")
}

/// Makes the set at `{dest}/dist`, and says in `{dest}/set.json` what it was made from.
///
/// The set is handed on with the digests that packing found: nothing is hashed a second time.
pub fn make(
    plan: &BuildPlan,
    tree: &ArtifactTree,
    what: &What,
    dest: &Path,
    existing: Existing,
    world: &World,
) -> Result<(Vec<Made>, LocalSet)> {
    fs_err::create_dir_all(dest)?;
    let (place, settings) = (dest.join("dist"), what.settings());
    space::check(plan, settings.compression, &place, world)?;
    let began = Instant::now();
    let made = assemble::assemble(
        plan,
        &place,
        existing,
        &settings,
        &world.stop,
        &Aloud::new(world),
    )?;
    let set = describe(plan, tree, &made, dest, world)?;
    let bytes = made.iter().map(|made| made.size).sum();
    let packages = many(made.len(), "package");
    world.console.status(
        "Built",
        format!("{packages}, {}, in {}", size(bytes), took(began.elapsed())),
    );
    Ok((made, set))
}

/// Says what a set was made from, for whoever publishes it.
fn describe(
    plan: &BuildPlan,
    tree: &ArtifactTree,
    made: &[Made],
    dest: &Path,
    world: &World,
) -> Result<LocalSet> {
    // What it says of another set is no longer true.
    let (page, part) = (dest.join("set.json"), dest.join("set.json.part"));
    remove_if_there(&page)?;
    let manifest = tree.therock_manifest()?;
    let identity = Identity {
        platform: Some(plan.platform),
        commit: manifest
            .commit
            .as_deref()
            .and_then(|commit| commit.parse().ok()),
        run_id: manifest.run_id.as_deref().and_then(|run| run.parse().ok()),
        version: Some(plan.version.clone()),
        targets: plan.targets.clone(),
        repository: None,
        without: plan.without.clone(),
    };
    let made = made.iter().map(|made| {
        let path = format!("{}{}", Layout::Dist.files(), made.path);
        (path, (made.size, made.sha256))
    });
    let mut set = LocalSet::made(dest, made.collect(), world).context("read the finished set")?;
    set.document = SetJson::new(identity, &set.set, Layout::Dist);
    // Without times: the same set is described by the same bytes.
    fs_err::write(&part, set.document.page().body)?;
    fs_err::rename(part, page)?;
    Ok(set)
}

fn remove_if_there(file: &Path) -> Result<()> {
    match fs_err::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Tells the console how packages come along.
struct Aloud<'a> {
    world: &'a World,
    progress: Mutex<Option<Progress>>,
}

impl<'a> Aloud<'a> {
    fn new(world: &'a World) -> Self {
        Self {
            world,
            progress: Mutex::new(None),
        }
    }
}

impl Watch for Aloud<'_> {
    fn begins(&self, path: &str, bytes: u64) {
        if let Ok(mut progress) = self.progress.lock() {
            *progress = Some(self.world.console.progress("Packing", path, Some(bytes)));
        }
    }

    fn reads(&self, bytes: u64) {
        if let Ok(progress) = self.progress.lock()
            && let Some(progress) = &*progress
        {
            progress.inc(bytes);
        }
    }

    fn made(&self, made: &Made) {
        if let Ok(mut progress) = self.progress.lock() {
            *progress = None;
        }
        let facts = format!(
            "{}: {}, {}",
            made.path,
            many(made.members, "member"),
            size(made.size)
        );
        self.world.console.status("Packed", facts);
    }
}
