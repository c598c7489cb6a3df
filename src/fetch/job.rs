//! One fetch: [`FetchRequest`] says what the user asked for, `decide` makes a [`FetchJob`] of it,
//! and `carry_out` downloads.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path, time::Duration};

use itertools::Itertools as _;

use super::{
    completeness::{Completeness, subset},
    download_all::deliver,
    inventory::ArtifactArchive,
    output::{OutputDir, OutputForm},
    plan::FetchPlan,
    query::RunQuery,
    select::{ArchiveSelection, Wish, select},
    source::ArchiveSource,
    state::Sufficiency,
};
use crate::{
    artifact::ArtifactName,
    atomic::lock::{Lock, LockPurpose},
    console::{World, few, many, took},
    error::{No, Result, TimeOver, hinted},
    package::catalog::Catalog,
    run::Run,
};

/// What the user asked for.
pub struct FetchRequest<'a> {
    pub query: RunQuery<'a>,
    pub wish: Wish,
    /// Fetch even if the artifacts are not enough to build packages.
    pub allow_incomplete: bool,
    pub downloads: NonZeroUsize,
    /// Time limit for all downloads together.
    pub time: Option<Duration>,
}

/// A decided fetch: the plan, the source that the artifacts come from, and the output directory.
pub struct FetchJob<'a> {
    /// The run that the artifacts belong to.
    pub run: Run,
    pub plan: FetchPlan,
    enough: Sufficiency,
    source: Box<dyn ArchiveSource + 'a>,
    output: OutputDir,
    downloads: NonZeroUsize,
    time: Option<Duration>,
    /// Held until the job is dropped, so that no other fetch changes the artifacts while they are
    /// used.
    lock: Option<Lock>,
}

/// Whether a job is only printed or carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A dry run: it takes no lock and changes nothing.
    Tell,
    Do,
}

impl Purpose {
    pub fn of_dry_run(dry_run: bool) -> Self {
        if dry_run { Self::Tell } else { Self::Do }
    }
}

impl<'a> FetchRequest<'a> {
    /// Lists the artifacts of the run, selects from them, and compares that with directory `to`.
    pub fn decide(
        self,
        (to, form): (&Path, OutputForm),
        purpose: Purpose,
        world: &'a World,
    ) -> Result<FetchJob<'a>> {
        let choose = |source: &dyn ArchiveSource, inventory: &[ArtifactArchive]| {
            let count = many(inventory.len(), "artifact");
            let facts = format!("{count} in {source}");
            world.console.status("Listed", facts);
            self.choose(inventory, world)
        };
        let (run, (source, selection)) = self.query.settle(world, choose)?;
        let parcels = source.parcels(&selection.archives, self.downloads)?;
        // Take the lock before reading the state: until then, another fetch may change both the
        // state and the files.
        let lock = match purpose {
            Purpose::Tell => None,
            Purpose::Do => Some(Lock::take(to, LockPurpose::Fetch)?),
        };
        let output = OutputDir::open(to, form)?;
        if lock.as_ref().is_some_and(Lock::is_held) {
            output.clear()?;
        }
        let plan = FetchPlan::new(&*source, &output, parcels)?;
        let due = plan.due().into_iter();
        let unverified = due.filter(|parcel| !parcel.is_vouched_for()).count();
        if unverified > 0 {
            let count = many(unverified, "archive");
            let text = format!("{count} without a digest: only the checksums inside are verified");
            world.console.note(text);
        }
        Ok(FetchJob {
            run,
            plan,
            enough: self.wish.enough(),
            source,
            output,
            downloads: self.downloads,
            time: self.time,
            lock,
        })
    }

    /// The selected archives. Fails if packages need more, unless `--allow-incomplete` is set.
    fn choose(&self, inventory: &[ArtifactArchive], world: &World) -> Result<ArchiveSelection> {
        let (wish, platform) = (&self.wish, self.query.platform);
        let mut selection = select(inventory, wish)?;
        let catalog = Catalog::built_in()?;
        let mut of = None;
        if !wish.only.is_empty() {
            let subset = subset(&wish.only, &selection, inventory, &catalog, platform)?;
            selection.narrow(&subset, inventory);
            of = Some(subset);
        }
        let found = Completeness::of(&selection, inventory, &catalog, platform, of.as_ref())?;
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

impl FetchJob<'_> {
    pub fn carry_out(&self, world: &World) -> Result<()> {
        if let Some(lock) = &self.lock
            && !self.plan.due().is_empty()
        {
            lock.ensure_writable()?;
        }
        let work = || {
            let to = (&self.output, &self.enough);
            deliver(&*self.source, &self.plan, to, self.downloads, world)
        };
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

    /// A warning about artifacts in the output directory that are not in the plan and come from
    /// another place; `None` if there are none.
    pub fn others(&self) -> Option<String> {
        let (own, output) = (self.plan.wanted(), &self.output);
        let others = output.state.fetched.iter().filter(|(name, it)| {
            it.from != self.plan.from && !own.contains(*name) && output.has(name)
        });
        let (names, places): (Vec<String>, BTreeSet<String>) = others
            .map(|(name, it)| (format!("`{name}`"), format!("`{}`", it.from)))
            .unzip();
        (!names.is_empty()).then(|| {
            format!(
                "`{}` also has {} from {}: {}; remove what does not belong together, or choose another `--output-dir`",
                output.root.display(),
                many(names.len(), "artifact"),
                places.iter().join(" and "),
                few(names.into_iter())
            )
        })
    }

    /// The artifacts of this job, which are complete on disk after [`FetchJob::carry_out`]. The
    /// directory may have others too.
    pub fn artifacts(&self) -> Vec<&ArtifactName> {
        let archives = self.plan.archives();
        archives.map(|archive| &archive.name.artifact).collect()
    }
}
