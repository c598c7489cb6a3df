//! `fetch`: the artifacts of a run, each in one stream from where it is kept to a directory.

pub mod completeness;
mod either;
mod find;
pub mod inventory;
mod ledger;
mod place;
pub mod plan;
mod receive;
mod run_artifacts;
pub mod select;
pub mod source;
mod zip_directory;

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, time::Instant};

use self::{
    completeness::Completeness,
    ledger::{Extent, Ledger},
    place::PlaceArgs,
    plan::{FetchPlan, Kept},
    receive::Ground,
    select::{Pattern, Selection, Wish, select},
    source::{Pace, Parcel, Source},
};
use super::World;
use crate::{
    artifact::Component,
    console::{many, size, took},
    error::{Error, No, Result, causes, hinted, hints, message},
    package::catalog::Catalog,
    run::ArtifactGroup,
    store::transfer,
    target::split_list,
};

/// Fetch the artifacts of a run
///
/// Each archive that is wanted is downloaded, verified and unpacked in one stream into a directory
/// of its name; without patterns and lists, all are. What is there already and whole is kept.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Regular expressions: only archives in whose names one of them matches
    #[arg(value_name = "PATTERN")]
    include: Vec<Pattern>,
    /// Regular expressions: no archive in whose name one of them matches
    #[arg(long, value_name = "PATTERN", num_args = 1.., env = "ROCWHEEL_EXCLUDE")]
    exclude: Vec<Pattern>,
    /// The family that the run was built for: what is for it, or for everything
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP")]
    artifact_group: Option<ArtifactGroup>,
    /// Only what is for these families, or for everything: `gfx94X-dcgpu,gfx110X-all`
    #[arg(long, value_name = "FAMILIES", env = "AMDGPU_FAMILIES")]
    amdgpu_families: Option<String>,
    /// Only what is for these targets with or without features, or for everything: `gfx942,gfx1100`
    #[arg(long, value_name = "TARGETS", env = "AMDGPU_TARGETS")]
    amdgpu_targets: Option<String>,
    /// Only these components: lib, run, dbg, dev, doc, test
    #[arg(long, value_delimiter = ',', env = "ROCWHEEL_COMPONENTS")]
    components: Vec<Component>,
    /// Where the artifacts go
    #[arg(
        long,
        value_name = "DIR",
        default_value = "build/artifacts",
        env = "ROCWHEEL_OUTPUT_DIR"
    )]
    output_dir: PathBuf,
    /// Keep the archives, and do not unpack them
    #[arg(long, env = "ROCWHEEL_NO_EXTRACT", value_parser = clap::builder::FalseyValueParser::new())]
    no_extract: bool,
    /// Fetch what there is, even if it is not enough for packages
    #[arg(long, env = "ROCWHEEL_ALLOW_INCOMPLETE", value_parser = clap::builder::FalseyValueParser::new())]
    allow_incomplete: bool,
    /// Only say what would be fetched
    #[arg(long, env = "ROCWHEEL_DRY_RUN", value_parser = clap::builder::FalseyValueParser::new())]
    dry_run: bool,
    /// How many archives are fetched at once
    #[arg(
        long,
        value_name = "N",
        default_value = "8",
        env = "ROCWHEEL_DOWNLOADS"
    )]
    downloads: NonZeroUsize,
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(args: &Args, world: &World) -> Result<()> {
    let choose = |source: &dyn Source| args.choose(source, world);
    let (source, selection) = args.place.settle(world, choose)?;
    let pace = Pace {
        jobs: args.downloads,
        stop: world.stop.clone(),
    };
    let parcels = source.parcels(&selection.archives, &pace)?;
    let ledger = Ledger::read(&args.output_dir)?;
    let plan = FetchPlan::new(&*source, &args.output_dir, args.kept(), parcels, &ledger)?;
    if plan.unverified() > 0 {
        let count = many(plan.unverified(), "archive");
        world
            .console
            .note(format!("no digest to verify {count} by"));
    }
    if !args.dry_run {
        fetch(&*source, &plan, &ledger, args, world)?;
    }
    world.console.answer(&plan)
}

impl Args {
    /// The archives that are wanted, once it is known that they are enough.
    fn choose(&self, source: &dyn Source, world: &World) -> Result<Selection> {
        let inventory = source.inventory()?;
        if inventory.is_empty() {
            return Err(self.place.nothing(source));
        }
        let count = many(inventory.archives().len(), "artifact");
        world
            .console
            .status("Listed", format!("{count} in {source}"));
        let selection = select(&inventory, &self.wish())?;
        let catalog = Catalog::built_in()?;
        let platform = self.place.platform();
        let found = Completeness::of(&selection, &inventory, &catalog, platform)?;
        for remark in &found.remarks {
            world.console.note(remark);
        }
        if self.allow_incomplete {
            for lack in &found.lacks {
                world.console.warn(lack);
            }
        } else {
            found.require()?;
        }
        Ok(selection)
    }

    fn wish(&self) -> Wish {
        let list = |names: &Option<String>| {
            let names = names.as_deref().unwrap_or_default();
            split_list(names).map(str::to_owned).collect()
        };
        Wish {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            group: self.artifact_group.clone(),
            families: list(&self.amdgpu_families),
            targets: list(&self.amdgpu_targets),
            components: self.components.iter().copied().collect::<BTreeSet<_>>(),
        }
    }

    fn kept(&self) -> Kept {
        if self.no_extract {
            Kept::Packed
        } else {
            Kept::Unpacked
        }
    }
}

/// Reads what is due, all of it whatever fails, and then says what did.
fn fetch(
    source: &dyn Source,
    plan: &FetchPlan,
    ledger: &Ledger,
    args: &Args,
    world: &World,
) -> Result<()> {
    let due = plan.due();
    let start = Instant::now();
    let mut failures = Vec::new();
    {
        let progress = world
            .console
            .progress("Fetching", source, Some(plan.size()));
        let ground = Ground {
            directory: &args.output_dir,
            kept: plan.kept,
            ledger,
            stop: &world.stop,
            progress: &|bytes| progress.inc(bytes),
        };
        let work = |parcel: &&Parcel| Ok(receive::receive(source, parcel, &ground));
        transfer::each(
            &due,
            args.downloads,
            &world.stop,
            work,
            |parcel, done| match done {
                Ok(extents) => world.console.status("Fetched", facts(parcel, &extents)),
                Err(error) => failures.push(error),
            },
        )?;
    }
    if !failures.is_empty() {
        return Err(together(&failures, due.len()));
    }
    if !due.is_empty() {
        let (all, time) = (size(plan.size()), took(start.elapsed()));
        let count = many(due.len(), "archive");
        world
            .console
            .status("Finished", format!("{count}, {all} in {time}"));
    }
    Ok(())
}

fn facts(parcel: &Parcel, extents: &[Extent]) -> String {
    let files: u64 = extents.iter().map(|extent| extent.files).sum();
    let files = many(usize::try_from(files).unwrap_or(usize::MAX), "file");
    format!("{}: {}, {files}", parcel.id, size(parcel.size))
}

/// One answer for all that failed, with a line for each.
fn together(failures: &[Error], tried: usize) -> Error {
    let mut text = format!(
        "{} of {} not fetched",
        failures.len(),
        many(tried, "archive")
    );
    let mut advice = BTreeSet::new();
    for error in failures {
        let causes = causes(error).into_iter();
        let line: Vec<String> = [message(error)].into_iter().chain(causes).collect();
        text.push_str("\n  ");
        text.push_str(&line.join(": "));
        advice.extend(hints(error));
    }
    advice.insert("run it again: what is whole is kept".to_owned());
    advice.into_iter().fold(Error::new(No(text)), hinted)
}
