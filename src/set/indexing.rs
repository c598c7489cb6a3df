//! Writes the index of a place: reads the packages, writes the pages, and starts again if another
//! job changed the index meanwhile.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use super::{
    as_text,
    known::KnownFacts,
    packages::{Layout, PackageSet},
    pages::{Phase, directory_of},
    place::SetPlace,
    read::Reading,
    set_json::SetJson,
    write::{Action, Before, ExistingObject, Guard, Item, REQUESTS, Writer},
    yank::YankList,
};
use crate::{
    console::{World, many, size},
    error::{Context as _, No, Result, bail},
    run::ArtifactGroup,
};

/// Attempts before giving up, if other writers change the index each time.
const ATTEMPTS: u32 = 5;
/// The pages of an index that do not belong to one project.
const ROOTS: [&str; 3] = ["index.html", "simple/index.html", "simple/_json/index.json"];

/// Options of `rocwheel index`.
#[derive(Debug)]
pub struct IndexOptions {
    /// Where the packages are. `None`: in `dist/` if it exists.
    pub layout: Option<Layout>,
    /// The complete list of yanks. `None` keeps the yanks of the existing `set.json`.
    pub yank: Option<YankList>,
    /// Whether to list the changes only, and to write nothing.
    pub is_dry_run: bool,
    pub jobs: NonZeroUsize,
}

/// One change to an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexChange {
    #[serde(serialize_with = "as_text::one::serialize")]
    pub action: Action,
    /// Relative to the directory of the set.
    pub path: String,
    pub size: u64,
}

/// An index that was written or, for a dry run, would be.
#[derive(Debug)]
pub struct Indexed {
    /// The objects that were written or removed, in order.
    pub changes: Vec<IndexChange>,
    pub families: Vec<ArtifactGroup>,
    pub files: usize,
    /// One line of numbers for messages: files, size, projects.
    pub facts: String,
}

/// Updates the index of a place. If another writer changes the index meanwhile, starts again with
/// the new list of packages.
pub fn index(site: &SetPlace, options: &IndexOptions, world: &World) -> Result<Indexed> {
    for _ in 0..ATTEMPTS {
        if let Some(indexed) = once(site, options, world)? {
            return Ok(indexed);
        }
        let note = "another writer changed the index meanwhile: retrying";
        world.console.note(note);
    }
    bail!(No(format!(
        "other writers changed the index in all {ATTEMPTS} attempts: `{site}`"
    )));
}

/// One attempt. `None` if another writer changed the index.
///
/// The existing pages are listed before the packages. Suppose another job adds a package after our
/// list of packages, and writes its pages. Our pages lack that package. They must not replace the
/// new ones, and do not: the `ETag` from before our list no longer matches, the write fails, and the
/// index starts again.
fn once(site: &SetPlace, options: &IndexOptions, world: &World) -> Result<Option<Indexed>> {
    let known = KnownFacts::read(site)?;
    let families = known.families();
    let attempt = IndexAttempt {
        options,
        before: Before::list(site, &families)?,
        writer: Writer {
            to: site,
            guard: match site.local() {
                Some(_) => Guard::Nothing,
                None => Guard::Pages,
            },
            world,
            progress: world.console.progress("Reading", site, None),
            overtaken: AtomicBool::new(false),
        },
    };
    match attempt.run(known, &families) {
        Err(_) if attempt.writer.overtaken.load(Ordering::Relaxed) => Ok(None),
        done => done.map(Some),
    }
}

struct IndexAttempt<'a> {
    options: &'a IndexOptions,
    before: Before,
    writer: Writer<'a>,
}

impl IndexAttempt<'_> {
    /// Installers may read the index at any moment, so the order of writes matters: sidecars, pages
    /// of projects, root pages, `set.json`, deletions last. No reader follows a link to a missing
    /// file.
    fn run(&self, known: KnownFacts, families: &[ArtifactGroup]) -> Result<Indexed> {
        let (site, options) = (self.writer.to, self.options);
        let is_local = self.writer.guard == Guard::Nothing;
        let reading = Reading {
            place: site,
            layout: options.layout.map_or_else(|| site.layout(), Ok)?,
            known: &known,
            at_once: if is_local { options.jobs } else { REQUESTS },
            watch: self.writer.watch(),
            is_index: true,
        };
        let layout = reading.layout;
        let mut found = reading.run()?;
        if let Some(list) = &options.yank {
            found.set = list.apply(found.set)?;
        }
        let sidecars = found.metadata.drain();
        let sidecars = sidecars.map(|(path, bytes)| Item::here(path, Phase::Sidecar, bytes));
        let sidecars: Vec<Item> = sidecars.collect();
        let has_sidecars = !sidecars.is_empty();
        let mut written = self.write(sidecars, true)?;
        if has_sidecars && !options.is_dry_run {
            reading.remember_sidecars(&mut found)?;
        }
        let mut document = SetJson::new(known.identity.clone(), &found.set, layout);
        for file in &mut document.files {
            file.remembered = found.remembered.remove(&file.path);
        }
        let mut pages = Item::pages(&found.set, &document, layout, self.writer.world)?;
        let mut stale = self.stale(&pages, families);
        // A directory needs no pages under keys that end in `/`.
        pages.retain(|item| !item.path.ends_with('/') || (site.directory_pages && !is_local));
        written.extend(self.write(pages, found.is_unchanged)?);
        stale.extend(found.orphans);
        self.remove(&stale)?;
        if !stale.is_empty() {
            site.tidy(families);
        }
        Ok(Indexed {
            changes: changes(&written, stale),
            families: found.set.families().into_iter().cloned().collect(),
            files: found.set.files().len(),
            facts: facts(&found.set),
        })
    }

    /// Writes the objects that differ, and returns them in order.
    ///
    /// In a directory, `set.json` is also written with the same bytes if a package was read: its
    /// modification time says when the stamps in it were recorded (see `KnownFacts`).
    fn write(&self, mut items: Vec<Item>, may_stay: bool) -> Result<Vec<(Item, Action)>> {
        let (site, stop) = (self.writer.to, &self.writer.world.stop);
        // Objects that are written in parallel are sorted by path, so that the output is the same
        // each time. Root pages have an order of their own.
        items.sort_by_cached_key(|item| {
            let is_sorted = item.phase < Phase::Root;
            (item.phase, is_sorted.then(|| item.path.clone()))
        });
        let actions = self.before.actions(site, &items, true, stop)?;
        let is_rewritten = self.writer.guard == Guard::Nothing && !may_stay;
        let mut planned: Vec<(Item, Action)> = Vec::new();
        for (item, action) in items.into_iter().zip(actions) {
            let action = match action {
                Action::Same if is_rewritten && item.phase == Phase::Whole => {
                    Action::Replace(ExistingObject::same(&item))
                }
                Action::Same => continue,
                action => action,
            };
            planned.push((item, action));
        }
        if !self.options.is_dry_run {
            self.writer.carry_out(&planned, |_, _| ())?;
        }
        Ok(planned)
    }

    /// The existing pages of projects and families that do not belong to this index, sorted.
    fn stale(&self, pages: &[Item], families: &[ArtifactGroup]) -> Vec<String> {
        let current: HashSet<&str> = pages.iter().map(|page| &*page.path).collect();
        let families: Vec<String> = families.iter().map(|family| format!("{family}/")).collect();
        let is_ours = |path: &&String| {
            let mut families = families.iter();
            match families.find_map(|family| path.strip_prefix(family.as_str())) {
                // The roots of a family are removed with the family; the set always has its own
                // roots.
                Some(below) => is_page(below) || ROOTS.contains(&below),
                None => is_page(path),
            }
        };
        let there = self.before.objects.keys().filter(is_ours);
        let stale = there.filter(|path| !current.contains(path.as_str()));
        let mut stale: Vec<String> = stale.cloned().collect();
        stale.sort_unstable();
        stale
    }

    /// Deletes stale pages and sidecars.
    fn remove(&self, paths: &[String]) -> Result<()> {
        let site = self.writer.to;
        for path in paths.iter().filter(|_| !self.options.is_dry_run) {
            self.writer.world.stop.check()?;
            // Delete the key that ends in `/` first. Stale pages are found by their file names in a
            // listing, so an interrupted run leaves the name by which the next one finds both.
            let directory = directory_of(path).filter(|_| site.directory_pages);
            let directory = directory.filter(|_| self.writer.guard == Guard::Pages);
            for path in directory.into_iter().chain([path.as_str()]) {
                let deleted = site.store.delete(&site.key(path)?);
                deleted.with_context(|| format!("failed to remove `{path}`"))?;
            }
        }
        Ok(())
    }
}

/// Whether a path is `simple/{project}/index.html` or `simple/_json/{project}/index.json`.
fn is_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts[..],
        ["simple", _, "index.html"] | ["simple", "_json", _, "index.json"]
    )
}

/// All changes, in the order of the writes.
fn changes(written: &[(Item, Action)], removed: Vec<String>) -> Vec<IndexChange> {
    let written = written.iter().map(|(item, action)| IndexChange {
        action: action.clone(),
        path: item.path.clone(),
        size: item.size,
    });
    let removed = removed.into_iter().map(|path| IndexChange {
        action: Action::Remove,
        path,
        size: 0,
    });
    written.chain(removed).collect()
}

fn facts(set: &PackageSet) -> String {
    let files = set.files();
    let yanked = match files.iter().filter(|file| file.yanked.is_some()).count() {
        0 => String::new(),
        count => format!(", {count} of them yanked"),
    };
    let projects = files.chunk_by(|a, b| a.project == b.project).count();
    format!(
        "{}{yanked}, {}, of {}",
        many(files.len(), "file"),
        size(files.iter().map(|file| file.size).sum()),
        many(projects, "project")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_projects_can_be_stale() {
        assert!(is_page("simple/rocm/index.html"));
        assert!(is_page("simple/_json/rocm/index.json"));
        for path in [
            "simple/index.html",
            "simple/rocm/notes.html",
            "simple/a/b/index.html",
            "simple/_json/index.json",
            "index.html",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }
}
