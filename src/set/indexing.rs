//! Writes the index of a place: reads the packages, writes the pages, and starts again if another
//! job changed the index meanwhile.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    ops::RangeInclusive,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;

use super::{
    as_text,
    known::KnownFacts,
    packages::{Layout, PackageSet},
    pages::{IndexPage, Phase, directory_of, document, pages},
    place::SetPlace,
    read::{ReadPackages, Reading, Watch},
    set_json::SetJson,
    write::{Action, Before, Guard, Item, REQUESTS, Writer},
    yank::YankList,
};
use crate::{
    console::{World, many, size},
    error::{Context as _, No, Result, bail},
    parallel,
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
    let mut directories = vec!["simple/".to_owned()];
    directories.extend(families.iter().map(|family| format!("{family}/")));
    let (guard, at_once) = match site.local() {
        Some(_) => (Guard::Nothing, options.jobs),
        None => (Guard::Pages, REQUESTS),
    };
    let watch = Watch {
        stop: &world.stop,
        progress: &world.console.progress("Reading", site, None),
    };
    let attempt = IndexAttempt {
        options,
        world,
        known: &known,
        before: Before::list(site, directories)?,
        writer: Writer {
            to: site,
            guard,
            watch,
            overtaken: AtomicBool::new(false),
        },
        at_once,
        changed: Mutex::default(),
    };
    match attempt.run(&families) {
        Err(_) if attempt.writer.overtaken.load(Ordering::Relaxed) => Ok(None),
        done => done.map(Some),
    }
}

struct IndexAttempt<'a> {
    options: &'a IndexOptions,
    world: &'a World,
    known: &'a KnownFacts,
    before: Before,
    writer: Writer<'a>,
    at_once: NonZeroUsize,
    /// What was written, without the bytes.
    changed: Mutex<Vec<(Item, Action)>>,
}

impl IndexAttempt<'_> {
    /// Installers may read the index at any moment, so the order of writes matters: sidecars, pages
    /// of projects, root pages, `set.json`, deletions last. No reader follows a link to a missing
    /// file.
    ///
    /// Everything is read back before `set.json`, because a set that has it is complete.
    fn run(&self, families: &[ArtifactGroup]) -> Result<Indexed> {
        let site = self.writer.to;
        let layout = self.options.layout.map_or_else(|| site.layout(), Ok)?;
        let mut found = self.read(layout)?;
        let set_json = set_json(self.known, &mut found, layout);
        let views = found.set.views();
        let mut pages = pages(&found.set, &views, layout);
        pages.push(document(&set_json));
        let is_unchanged = found.untouched == found.set.files().len();
        let mut lost = self.write(&pages, is_unchanged)?;
        lost.sort_unstable();
        self.writer.warn(&lost, &self.world.console)?;
        let mut stale = self.stale(&pages, families);
        stale.extend(found.orphans.iter().cloned());
        self.remove(&stale)?;
        if !stale.is_empty() {
            site.tidy(families);
        }
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Indexed {
            changes: changes(&changed, stale),
            families: found.set.families().into_iter().cloned().collect(),
            files: found.set.files().len(),
            facts: facts(&found.set),
        })
    }

    /// Reads the packages and writes their sidecars.
    fn read(&self, layout: Layout) -> Result<ReadPackages> {
        let site = self.writer.to;
        let reading = Reading {
            place: site,
            layout,
            known: self.known,
            at_once: self.at_once,
            watch: self.writer.watch,
            keep: Some(&|file, listed, bytes| {
                let item = Item::here(file.sidecar_path(layout), Phase::Sidecar, bytes);
                // Without a sidecar in the listing, no request is needed to compare it.
                let there = match listed {
                    Some(_) => self.before.find(site, &item)?,
                    None => None,
                };
                self.sync(&item, Action::of(&item, there, true))?;
                if self.options.is_dry_run {
                    return Ok(listed.cloned());
                }
                site.stamp(&item.path)
            }),
        };
        let mut found = reading.run()?;
        if let Some(list) = &self.options.yank {
            found.set = list.apply(found.set)?;
        }
        self.verify(Phase::Sidecar..=Phase::Sidecar)?;
        if !self.options.is_dry_run {
            reading.remember_sidecars(&mut found)?;
        }
        Ok(found)
    }

    /// Writes the pages, and reads them back. Returns the keys that the server drops.
    ///
    /// Root pages have a line for every file and take long to render, so they are rendered in
    /// parallel with the project pages, and first.
    fn write(&self, pages: &[IndexPage], is_unchanged: bool) -> Result<Vec<String>> {
        let (projects, roots): (Vec<_>, Vec<_>) =
            pages.iter().partition(|page| page.phase == Phase::Project);
        let all: Vec<&IndexPage> = roots.into_iter().chain(projects).collect();
        let make = |page: &&IndexPage| {
            let items = self.items(page);
            if page.phase > Phase::Project {
                return Ok(items);
            }
            items.iter().try_for_each(|item| self.compare(item, true))?;
            Ok(Vec::new())
        };
        let roots = parallel::try_map(&all, self.at_once, &self.world.stop, make)?;
        let mut lost = Vec::new();
        for item in roots.into_iter().flatten() {
            self.world.stop.check()?;
            if item.phase == Phase::Whole {
                lost.extend(self.verify(Phase::Project..=Phase::Root)?);
            }
            self.compare(&item, is_unchanged || item.phase < Phase::Whole)?;
        }
        lost.extend(self.verify(Phase::Whole..=Phase::Whole)?);
        Ok(lost)
    }

    /// A directory needs no pages under keys that end in `/`.
    fn items(&self, page: &IndexPage) -> Vec<Item> {
        let has_directory_pages =
            self.writer.to.directory_pages && self.writer.guard == Guard::Pages;
        let mut items = Item::page(page);
        items.retain(|item| has_directory_pages || !item.path.ends_with('/'));
        items
    }

    /// Writes a page if it differs. In a directory, `set.json` is also written with the same bytes
    /// if a package was read: its modification time says when the stamps in it were recorded (see
    /// `KnownFacts`).
    fn compare(&self, item: &Item, may_stay: bool) -> Result<()> {
        let there = self.before.find(self.writer.to, item)?;
        let action = match Action::of(item, there.clone(), true) {
            Action::Same if !may_stay && self.writer.guard == Guard::Nothing => {
                there.map_or(Action::New, Action::Replace)
            }
            action => action,
        };
        self.sync(item, action)
    }

    fn sync(&self, item: &Item, action: Action) -> Result<()> {
        if action == Action::Same {
            return Ok(());
        }
        if !self.options.is_dry_run {
            let written = self.writer.write(item, &action);
            if !written.with_context(|| format!("failed to write `{}`", item.path))? {
                return Ok(());
            }
        }
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.push((item.without_bytes(), action));
        Ok(())
    }

    /// Reads back what was written in some phases. Returns the keys that the server drops. A
    /// directory keeps what is written to it.
    fn verify(&self, phases: RangeInclusive<Phase>) -> Result<Vec<String>> {
        if self.options.is_dry_run || self.writer.guard == Guard::Nothing {
            return Ok(Vec::new());
        }
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let written = changed.iter().map(|(item, _)| item);
        self.writer
            .verify(written.filter(|item| phases.contains(&item.phase)))
    }

    /// The existing pages of projects and families that do not belong to this index, sorted.
    fn stale(&self, pages: &[IndexPage], families: &[ArtifactGroup]) -> Vec<String> {
        let current: HashSet<&str> = pages.iter().map(|page| page.path.as_str()).collect();
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
            self.world.stop.check()?;
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

/// The `set.json` of the set, with the stamps that spare the next run from reading each file.
fn set_json(known: &KnownFacts, found: &mut ReadPackages, layout: Layout) -> SetJson {
    let mut document = SetJson::new(known.identity.clone(), &found.set, layout);
    for file in &mut document.files {
        file.remembered = found.remembered.remove(&file.path);
    }
    document
}

/// All changes in the order of the writes. Changes that were made in parallel are sorted by path, so
/// that the output is the same each time.
fn changes(written: &[(Item, Action)], removed: Vec<String>) -> Vec<IndexChange> {
    let mut written: Vec<&(Item, Action)> = written.iter().collect();
    written.sort_by_key(|(item, _)| {
        let is_sorted = item.phase < Phase::Root;
        (item.phase, is_sorted.then_some(&item.path))
    });
    let written = written.into_iter().map(|(item, action)| IndexChange {
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
