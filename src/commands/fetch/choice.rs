//! Which artifacts of a run, from where, and how many at once: what `fetch` and `pipeline` both ask.

use std::{num::NonZeroUsize, path::Path, time::Duration};

use super::{find::Wait, place::PlaceArgs};
use crate::{
    artifact::ArtifactName,
    atomic::lock::{Lock, Work},
    commands::World,
    console::{many, took},
    error::{No, Result, TimeOver, hinted},
    fetch::{
        completeness::{Completeness, subset},
        deliver::deliver,
        inventory::Archive,
        leftovers,
        output::{OutputDir, OutputForm},
        plan::FetchPlan,
        select::{Selection, Wish, select},
        source::{Pace, Source},
        state::Sufficiency,
    },
    package::catalog::Catalog,
    run::{ArtifactGroup, Run},
    target::split_list,
};

/// The artifacts of a run.
#[derive(Debug, clap::Args)]
pub struct ChoiceArgs {
    /// Family that the run was built for: fetch its artifacts and the generic ones
    #[arg(long, value_name = "GROUP", env = "ARTIFACT_GROUP")]
    artifact_group: Option<ArtifactGroup>,
    /// Fetch only these families, plus generic artifacts: `gfx94X-dcgpu,gfx110X-all`
    #[arg(long, value_name = "FAMILIES", env = "AMDGPU_FAMILIES")]
    amdgpu_families: Option<String>,
    /// Fetch only these targets and their variants, plus generic artifacts: `gfx942,gfx1100`
    #[arg(long, value_name = "TARGETS", env = "AMDGPU_TARGETS")]
    amdgpu_targets: Option<String>,
    /// Fetch even if artifacts that the packages need are missing
    #[arg(long, env = "ROCWHEEL_ALLOW_INCOMPLETE")]
    allow_incomplete: bool,
    /// Number of parallel downloads
    #[arg(
        long,
        value_name = "N",
        default_value = "8",
        env = "ROCWHEEL_DOWNLOADS"
    )]
    downloads: NonZeroUsize,
    /// Time limit for all downloads together: `90s`, `30m`, `2h`
    #[arg(long, value_name = "DURATION", env = "ROCWHEEL_DOWNLOAD_TIMEOUT")]
    download_timeout: Option<Wait>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// What will be fetched, from where and to where.
#[derive(Debug)]
pub struct Errand<'a> {
    /// The run that the artifacts are of.
    pub run: Run,
    pub plan: FetchPlan,
    enough: Sufficiency,
    source: Box<dyn Source + 'a>,
    output: OutputDir,
    at_once: NonZeroUsize,
    time: Option<Duration>,
    /// Until what was fetched has been used.
    lock: Option<Lock>,
}

/// What an errand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To say what would be done.
    Tell,
    Do,
}

impl Purpose {
    pub fn of_dry_run(dry_run: bool) -> Self {
        if dry_run { Self::Tell } else { Self::Do }
    }
}

impl ChoiceArgs {
    /// Looks what there is, and decides. `wish` may ask for less than all of it.
    pub fn errand<'a>(
        &'a self,
        wish: Wish,
        (to, kept): (&Path, OutputForm),
        purpose: Purpose,
        world: &'a World,
    ) -> Result<Errand<'a>> {
        let wish = self.also(wish);
        let choose = |source: &dyn Source| self.choose(source, &wish, world);
        let (source, candidate, selection) = self.place.settle(world, choose)?;
        let pace = Pace {
            jobs: self.downloads,
            stop: world.stop.clone(),
        };
        let parcels = source.parcels(&selection.archives, &pace)?;
        let lock = match purpose {
            Purpose::Tell => None,
            Purpose::Do => Some(Lock::take(to, Work::Fetch)?),
        };
        let output = OutputDir::open(to, kept)?;
        if lock.as_ref().is_some_and(Lock::is_held) {
            leftovers::clear(output.work())?;
        }
        let plan = FetchPlan::new(&*source, &output, parcels)?;
        if plan.unverified() > 0 {
            let count = many(plan.unverified(), "archive");
            let text = format!("{count} without a digest: only the checksums inside are verified");
            world.console.note(text);
        }
        Ok(Errand {
            run: self.place.resolve(candidate.as_ref())?,
            plan,
            enough: wish.enough(),
            source,
            output,
            at_once: self.downloads,
            time: self.download_timeout.map(|it| it.0),
            lock,
        })
    }

    /// The flag that searches for a run, if one does.
    pub fn search_flag(&self) -> Option<&'static str> {
        self.place.search_flag()
    }

    /// The run that is named, and not looked for; without one, a run of this machine.
    pub fn named_run(&self, world: &World) -> Result<Run> {
        self.place.named_run(world)
    }

    /// The family that the run is for.
    pub fn group(&self) -> Option<&ArtifactGroup> {
        self.artifact_group.as_ref()
    }

    /// Whether only some families or targets are wanted.
    pub fn narrows(&self) -> bool {
        self.amdgpu_families.is_some() || self.amdgpu_targets.is_some()
    }

    /// Whether there is anything that says which run is meant.
    pub fn knows_a_run(&self) -> bool {
        self.place.knows_a_run()
    }

    fn also(&self, wish: Wish) -> Wish {
        let list = |names: &Option<String>| {
            let names = names.as_deref().unwrap_or_default();
            split_list(names).map(str::to_owned).collect()
        };
        Wish {
            group: self.artifact_group.clone(),
            families: list(&self.amdgpu_families),
            targets: list(&self.amdgpu_targets),
            ..wish
        }
    }

    /// The archives that are wanted, once it is known that they are enough.
    fn choose(&self, source: &dyn Source, wish: &Wish, world: &World) -> Result<Selection> {
        let inventory = source.inventory()?;
        if inventory.is_empty() {
            return Err(self.place.nothing(source));
        }
        let count = many(inventory.archives().len(), "artifact");
        world
            .console
            .status("Listed", format!("{count} in {source}"));
        let mut selection = select(&inventory, wish)?;
        let catalog = Catalog::built_in()?;
        let platform = self.place.platform();
        let mut of = None;
        if !wish.only.is_empty() {
            let subset = subset(&wish.only, &selection, &inventory, &catalog, platform)?;
            selection.narrow(&subset, &inventory);
            of = Some(subset);
        }
        let found = Completeness::of(&selection, &inventory, &catalog, platform, of.as_ref())?;
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
}

impl Errand<'_> {
    pub fn carry_out(&self, world: &World) -> Result<()> {
        if let Some(lock) = &self.lock
            && !self.plan.due().is_empty()
        {
            lock.ensure_writable()?;
        }
        let to = (&self.output, &self.enough);
        let work = || deliver(&*self.source, &self.plan, to, self.at_once, world);
        self.in_time(work, world)?;
        self.output.state.end(&self.enough)
    }

    fn in_time(&self, work: impl FnOnce() -> Result<()>, world: &World) -> Result<()> {
        let Some(time) = self.time else { return work() };
        world.stop.within(time, work).map_err(|error| {
            if !error.is::<TimeOver>() {
                return error;
            }
            let text = format!("not everything was fetched in {}", took(time));
            let hint =
                "run it again: what is whole is kept; or allow more with `--download-timeout`";
            hinted(No(text), hint)
        })
    }

    /// A warning, where there is something from elsewhere too.
    pub fn others(&self) -> Option<String> {
        leftovers::of_others(&self.output, &self.plan)
    }

    /// The artifacts that are there afterwards, among others perhaps.
    pub fn artifacts(&self) -> Vec<&ArtifactName> {
        self.plan.archives().map(Archive::artifact).collect()
    }
}
