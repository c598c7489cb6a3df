//! Removes old versions of a stream from release places, by rule.
//!
//! Pages first: a page no longer names a file, and only then, after a time of grace, the file goes. A
//! file that the page of any index still names stays. Every page is written, and every file deleted,
//! only if it is the one that was listed; if another job changed one of them, everything is decided
//! again. So an interrupted run leaves no page with a link to a missing file, and the next one goes on.

mod observe;
mod plan;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use itertools::Itertools as _;
use serde::Deserialize;
use time::Date;

pub use self::plan::{PrunePlan, PruneRule};
use self::{
    observe::{ObservedPlace, PageEntry, packages, parent, read_pins},
    plan::{PruneStep, PrunedFile, StoredPackage, decide},
};
use super::{
    items::{Action, Before, Item, REQUESTS},
    links::html_links,
    pages::{Phase, directory_root, linked_page},
    place::{SetPlace, found},
    pruned::{PruneRecord, RECORD},
    set_json::SIDECAR,
    upload::until_published,
    write::Writer,
};
use crate::{
    console::World,
    error::{Context as _, Result, bail},
    parallel,
    store::StoreFailureKind,
    version::{ReleaseStream, Version},
};

static USUAL: LazyLock<Usual> = LazyLock::new(|| {
    toml::from_str(include_str!("prune/streams.toml")).expect("a test reads the built-in policy")
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Usual {
    streams: Vec<UsualStream>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualStream {
    name: ReleaseStream,
    keep: Option<NonZeroUsize>,
    days: Option<u16>,
}

impl PruneRule {
    /// Fills in how long versions of the stream are usually kept, if the rule does not say it. `false`
    /// if nothing is usual.
    pub fn or_usual(&mut self) -> bool {
        if self.keep.is_none() && self.days.is_none() {
            let mut streams = USUAL.streams.iter();
            let usual = streams.find(|it| it.name == self.stream);
            self.keep = usual.and_then(|it| it.keep);
            self.days = usual.and_then(|it| it.days);
        }
        self.keep.is_some() || self.days.is_some()
    }
}

/// The places that `prune` reads.
#[derive(Debug)]
pub struct PrunedPlaces<'a> {
    /// Those of the products of the stream.
    pub places: &'a [SetPlace],
    /// Those of releases, whose candidates are kept.
    pub released: &'a [SetPlace],
}

/// Decides what goes, and carries it out if `is_real`.
pub fn prune(
    of: &PrunedPlaces,
    rule: &PruneRule,
    today: Date,
    is_real: bool,
    world: &World,
) -> Result<PrunePlan> {
    let Some(first) = of.places.first() else {
        bail!("no place to prune");
    };
    let mut released: BTreeSet<Version> = BTreeSet::new();
    for place in of.places.iter().chain(of.released) {
        released.extend(ObservedPlace::released(place)?);
    }
    let attempt = || {
        let read = |place| ObservedPlace::read(place, world);
        let places: Vec<ObservedPlace> = of.places.iter().map(read).collect::<Result<_>>()?;
        let mut packages = packages(&places);
        let mut plan = decide(&packages, rule, &released, today)?;
        if plan.packages().next().is_some() {
            read_pins(&mut packages, &places, world)?;
            plan = decide(&packages, rule, &released, today)?;
        }
        let pruning = Pruning {
            plan: &plan,
            rule,
            today,
            world,
        };
        let is_done = !is_real || pruning.carry_out(&places, &packages)?;
        Ok(is_done.then_some(plan))
    };
    until_published(attempt, first, world)
}

struct Pruning<'a> {
    plan: &'a PrunePlan,
    rule: &'a PruneRule,
    today: Date,
    world: &'a World,
}

impl Pruning<'_> {
    /// `false` if another writer changed something meanwhile.
    fn carry_out(&self, places: &[ObservedPlace], packages: &[StoredPackage]) -> Result<bool> {
        // All pages before the first file: a project of one place may require files of another.
        for (number, it) in places.iter().enumerate() {
            if !self.write_pages(number, it, packages)? {
                return Ok(false);
            }
        }
        for (number, it) in places.iter().enumerate() {
            if !self.delete_files(number, it)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What happens to the packages of a place, by path.
    fn steps(&self, place: usize) -> BTreeMap<&str, PruneStep> {
        let packages = self.plan.packages().filter(|it| it.place == place);
        packages.map(|it| (it.path.as_str(), it.step)).collect()
    }

    /// Writes the pages that lose links, and the record of the files that they lost.
    fn write_pages(
        &self,
        number: usize,
        at: &ObservedPlace,
        packages: &[StoredPackage],
    ) -> Result<bool> {
        let steps = self.steps(number);
        let (mut items, mut empty) = (Vec::new(), BTreeSet::new());
        for (directory, links) in &at.pages {
            let step = |it: &PageEntry| {
                let path = format!("{directory}/{}", it.name);
                steps.get(path.as_str()).copied().filter(|_| it.is_beside)
            };
            let mut kept = links.clone();
            kept.retain(|it| !step(it).is_some_and(PruneStep::unlists));
            for it in &mut kept {
                if step(it) == Some(PruneStep::Yank) {
                    it.link.yanked.clone_from(&self.rule.yank);
                }
            }
            if kept.is_empty() {
                empty.insert(directory.as_str());
            }
            if kept != *links {
                let project = directory.rsplit('/').next().unwrap_or(directory);
                let kept = kept.into_iter().map(|it| (it.name, it.link)).collect_vec();
                let page = linked_page(project, &kept);
                items.extend(Item::directory_page(
                    &format!("{directory}/"),
                    Phase::Project,
                    &page,
                ));
            }
        }
        if self.rule.yank.is_none() {
            items.extend(roots(at, &empty));
            let unlisted = packages
                .iter()
                .filter(|it| it.place == number)
                .filter_map(|it| {
                    let step = steps.get(it.path.as_str())?;
                    let since = it.unlisted.filter(|_| !it.is_listed).unwrap_or(self.today);
                    let is_left = step.unlists() && *step != PruneStep::UnlistAndDelete;
                    is_left.then(|| (it.path.clone(), since.to_string()))
                });
            items.extend(record(at, unlisted.collect())?);
        }
        self.write(at, items)
    }

    fn write(&self, at: &ObservedPlace, mut items: Vec<Item>) -> Result<bool> {
        let to = at.place;
        let has_keys = to.directory_pages && to.local().is_none();
        items.retain(|item| has_keys || !item.is_directory());
        let mut before = Before::nothing(to);
        before.objects.clone_from(&at.objects);
        let actions = before.actions(&items, true, &self.world.stop)?;
        let mut planned: Vec<(Item, Action)> = items.into_iter().zip(actions).collect();
        planned.retain(|(_, action)| *action != Action::Same);
        Writer::of_pages(to, "Pruning", self.world).update(&planned, &[])
    }

    /// Deletes the files whose time is over, then the pages of projects without files.
    fn delete_files(&self, number: usize, at: &ObservedPlace) -> Result<bool> {
        let due = self
            .plan
            .packages()
            .filter(|it| it.place == number && it.step.deletes());
        let due: Vec<&PrunedFile> = due.collect();
        let overtaken = AtomicBool::new(false);
        let delete = |it: &&PrunedFile| {
            // A sidecar without its wheel would not be found again.
            let sidecar = format!("{}{SIDECAR}", it.path);
            let is_same = self.delete(at, &sidecar)? && self.delete(at, &it.path)?;
            overtaken.fetch_or(!is_same, Ordering::Relaxed);
            Ok(())
        };
        parallel::try_each(&due, REQUESTS, &self.world.stop, delete, |it, ()| {
            self.world.console.debug(format!("Deleted {}", it.path));
        })?;
        if overtaken.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let gone: BTreeSet<&str> = due.iter().map(|it| it.path.as_str()).collect();
        let is_gone = |it: &str| gone.contains(it.strip_suffix(SIDECAR).unwrap_or(it));
        let left = at.objects.keys().filter(|it| !is_gone(it));
        let left: BTreeSet<&str> = left.filter(|it| is_file(it)).map(|it| parent(it)).collect();
        let without = at.pages.keys().filter(|it| !left.contains(it.as_str()));
        let is_removing = self.rule.yank.is_none();
        for directory in without.filter(|_| is_removing) {
            self.remove_page(at.place, directory)?;
        }
        at.place.tidy(["rocm"]);
        Ok(true)
    }

    /// Removes the page of a project without files, unless another job has just added one.
    fn remove_page(&self, place: &SetPlace, directory: &str) -> Result<()> {
        let has_key = place.directory_pages && place.local().is_none();
        for name in ["", "index.html"]
            .iter()
            .filter(|it| has_key || !it.is_empty())
        {
            self.world.stop.check()?;
            let path = format!("{directory}/{name}");
            let key = place.key(&path)?;
            let Some(page) = found(place.store.head(&key))? else {
                continue;
            };
            let text = place.text(key.as_str())?.unwrap_or_default();
            if !html_links(&text).is_empty() {
                return Ok(());
            }
            match place.store.delete_same(&key, page.etag.as_deref()) {
                Err(error) if error.kind() == StoreFailureKind::Exists => return Ok(()),
                deleted => deleted.with_context(|| format!("failed to remove `{path}`"))?,
            }
        }
        Ok(())
    }

    /// Deletes an object if it is the one that was listed. `false` if it is another one.
    fn delete(&self, at: &ObservedPlace, path: &str) -> Result<bool> {
        let Some(object) = at.objects.get(path) else {
            return Ok(true);
        };
        self.world.stop.check()?;
        let (store, key) = (&at.place.store, at.place.key(path)?);
        match store.delete_same(&key, object.etag.as_deref()) {
            Err(error) if error.kind() == StoreFailureKind::Exists => Ok(false),
            deleted => deleted
                .map(|()| true)
                .with_context(|| format!("failed to delete `{path}`")),
        }
    }
}

/// The pages of the products, without projects that have no link any more.
fn roots(at: &ObservedPlace, empty: &BTreeSet<&str>) -> Vec<Item> {
    let by_product = at.pages.keys().into_group_map_by(|it| parent(it));
    let roots = by_product
        .into_iter()
        .sorted()
        .filter_map(|(product, directories)| {
            let has_left = directories.iter().any(|it| empty.contains(it.as_str()));
            let left = directories.iter().filter(|it| !empty.contains(it.as_str()));
            let projects = left.filter_map(|it| it.rsplit('/').next());
            let projects: BTreeSet<String> = projects.map(str::to_owned).collect();
            let page = || directory_root(&projects);
            has_left.then(|| Item::directory_page(&format!("{product}/"), Phase::Root, &page()))
        });
    roots.flatten().collect()
}

/// The record of files that are off the pages. None where there was none and is nothing to record.
fn record(at: &ObservedPlace, unlisted: BTreeMap<String, String>) -> Result<Option<Item>> {
    if unlisted.is_empty() && !at.objects.contains_key(RECORD) {
        return Ok(None);
    }
    let record = serde_json::to_string_pretty(&PruneRecord::new(unlisted));
    let text = record.context("failed to render JSON")? + "\n";
    Ok(Some(Item::here(
        RECORD.to_owned(),
        Phase::Root,
        text.as_bytes(),
    )))
}

/// Whether an object is no page: a package, its sidecar, or a file of others.
fn is_file(path: &str) -> bool {
    Path::new(path).extension().is_none_or(|end| end != "html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_times_are_those_of_streams_that_end() {
        let usual = USUAL.streams.iter().map(|it| {
            let keep = it.keep.map(|it| format!("{it} versions"));
            let days = it.days.map(|it| format!("{it} days"));
            format!("{}: {}", it.name, keep.or(days).unwrap_or_default())
        });
        insta::assert_snapshot!(usual.collect_vec().join("\n"), @"
        dev: 30 days
        nightly: 120 versions
        rc: 730 days
        ");
    }
}
