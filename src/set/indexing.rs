//! Writes the index of a place: reads the packages, writes the pages, and starts again if another
//! job changed the index meanwhile. Which files are yanked, and why
//! ([PEP 592](https://peps.python.org/pep-0592/)), is in the list of `--yank`.

use std::{
    collections::{BTreeSet, HashSet},
    iter,
    num::NonZeroUsize,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use super::{
    items::{Action, Before, ExistingObject, Item, REQUESTS},
    known::KnownFacts,
    pages::Phase,
    place::SetPlace,
    read::Reading,
    set_json::{Layout, PackageDirectories, SetFile, SetJson, is_package},
    write::{Guard, Writer},
};

use crate::{
    console::World,
    error::{Context as _, No, Result, bail, ensure},
    run::ArtifactGroup,
    version::Version,
    wheel::DistName,
};

/// Attempts before giving up, if other writers change the index each time.
const ATTEMPTS: u32 = 5;
/// The action for a page that the index no longer has.
pub const REMOVE: &str = "remove";
/// The pages of a family that do not belong to one project.
const ROOTS: [&str; 3] = ["index.html", "simple/index.html", "simple/_json/index.json"];

/// Options of `rocwheel index`.
#[derive(Debug)]
pub struct IndexOptions {
    /// Where the packages are.
    pub directories: PackageDirectories,
    /// Packages that are left out of the index, by path: they are about to be removed.
    pub without: BTreeSet<String>,
    /// The complete list of yanks. `None` keeps the yanks of the existing `set.json`.
    pub yank: Option<YankList>,
    /// Whether to list the changes only, and to write nothing.
    pub is_dry_run: bool,
    /// Whether packages are read that an earlier command knows.
    pub is_from_bytes: bool,
    pub jobs: NonZeroUsize,
}

/// One change to an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexChange {
    /// The name of an [`Action`].
    pub action: &'static str,
    /// Relative to the directory of the set.
    pub path: String,
    pub size: u64,
}

impl From<(Item, Action)> for IndexChange {
    fn from((item, action): (Item, Action)) -> Self {
        Self {
            action: action.into(),
            path: item.path,
            size: item.size,
        }
    }
}

/// An index that was written or, for a dry run, would be.
#[derive(Debug)]
pub struct Indexed {
    /// The objects that were written or removed, in order.
    pub changes: Vec<IndexChange>,
    pub set: SetJson,
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
/// The existing pages are listed before the packages, and before `set.json` is read. Suppose another
/// job adds a package after our list of packages, and writes its pages. Our pages lack that package.
/// They must not replace the new ones, and do not: the `ETag` from before our list no longer matches,
/// the write fails, and the index starts again.
fn once(site: &SetPlace, options: &IndexOptions, world: &World) -> Result<Option<Indexed>> {
    let mut before = Before::list(site)?;
    let mut known = KnownFacts::read(site)?;
    if options.is_from_bytes {
        known.forget_packages();
    }
    let families = known.families();
    for family in &families {
        before.add(family.as_str())?;
    }
    let attempt = IndexAttempt {
        options,
        before,
        writer: Writer {
            to: site,
            guard: match site.local() {
                Some(_) => Guard::Nothing,
                None => Guard::Pages,
            },
            world,
            progress: world.console.progress("Reading", site, None),
            layout: Some(site.layout()?),
            overtaken: AtomicBool::new(false),
        },
    };
    match attempt.run(&known, &families) {
        Err(_) if attempt.writer.overtaken.load(Ordering::Relaxed) => Ok(None),
        done => done.map(Some),
    }
}

struct IndexAttempt<'a> {
    options: &'a IndexOptions,
    before: Before<'a>,
    writer: Writer<'a>,
}

impl IndexAttempt<'_> {
    /// Installers may read the index at any moment, so the order of writes matters: sidecars, pages
    /// of projects, root pages, `set.json`, deletions last. No reader follows a link to a missing
    /// file.
    fn run(&self, known: &KnownFacts, families: &[ArtifactGroup]) -> Result<Indexed> {
        let (site, options, stop) = (self.writer.to, self.options, &self.writer.world.stop);
        let is_local = self.writer.guard == Guard::Nothing;
        let reading = Reading {
            place: site,
            layouts: site.layouts(options.directories)?,
            known,
            at_once: if is_local { options.jobs } else { REQUESTS },
            world: self.writer.world,
            progress: &self.writer.progress,
            is_index: true,
        };
        // In a bucket the pages are listed before the packages: see `once`.
        let mut listed = if site.local().is_some_and(Path::is_dir) {
            site.files_among(&reading.layouts, &self.before.objects)
        } else {
            site.files(&reading.layouts)?
        };
        listed.retain(|it| !options.without.contains(&it.path));
        let mut found = reading.run(listed)?;
        if let Some(list) = &options.yank {
            list.apply(&mut found.set.files)?;
        }
        let sidecars = found.metadata.drain();
        let sidecars = sidecars.map(|(path, bytes)| Item::here(path, Phase::Sidecar, bytes));
        let sidecars: Vec<Item> = sidecars.collect();
        let written: HashSet<String> = sidecars.iter().map(|item| item.path.clone()).collect();
        let mut changes = self.write(sidecars, true)?;
        if !written.is_empty() && !options.is_dry_run {
            reading.remember_sidecars(&mut found.set.files, &written)?;
        }
        let mut pages = Item::pages(&found.set, options.jobs, stop)?;
        let mut stale = self.stale(&pages, families);
        // A directory needs no pages under keys that end in `/`.
        pages.retain(|item| !item.path.ends_with('/') || (site.directory_pages && !is_local));
        changes.extend(self.write(pages, found.is_unchanged)?);
        stale.extend(found.orphans);
        if !stale.is_empty() && !options.is_dry_run {
            self.writer.remove(&stale)?;
            let families = families.iter().map(ArtifactGroup::as_str);
            site.tidy(iter::once("simple").chain(families));
        }
        changes.extend(stale.into_iter().map(|path| IndexChange {
            action: REMOVE,
            path,
            size: 0,
        }));
        let set = found.set;
        Ok(Indexed { changes, set })
    }

    /// Writes the objects that differ, and returns the changes in order.
    ///
    /// In a directory, `set.json` is also written with the same bytes if a package was read: its
    /// modification time says when the stamps in it were recorded (see `KnownFacts`).
    fn write(&self, mut items: Vec<Item>, may_stay: bool) -> Result<Vec<IndexChange>> {
        // Objects that are written in parallel are sorted by path, so that the output is the same
        // each time. Root pages have an order of their own.
        items.sort_by_cached_key(|item| {
            let is_sorted = item.phase < Phase::Root;
            (item.phase, is_sorted.then(|| item.path.clone()))
        });
        let actions = self.before.actions(&items, true, &self.writer.world.stop)?;
        let is_rewritten = self.writer.guard == Guard::Nothing && !may_stay;
        let mut planned: Vec<(Item, Action)> = items.into_iter().zip(actions).collect();
        for (item, action) in &mut planned {
            if is_rewritten && item.phase == Phase::Whole && *action == Action::Same {
                *action = Action::Replace(ExistingObject::same(item));
            }
        }
        planned.retain(|(_, action)| *action != Action::Same);
        if !self.options.is_dry_run {
            self.writer.carry_out(&planned, |_, _| ())?;
        }
        Ok(planned.into_iter().map(IndexChange::from).collect())
    }

    /// The existing pages of projects and families that do not belong to this index, sorted.
    fn stale(&self, pages: &[Item], families: &[ArtifactGroup]) -> Vec<String> {
        let current: HashSet<&str> = pages.iter().map(|page| &*page.path).collect();
        let is_ours = |path: &&String| {
            let below = path.strip_prefix(Layout::Dist.files()).unwrap_or(path);
            // `gfx94X-dcgpu/index.html`, and `gfx94X-dcgpu.html` beside the directory.
            let of_family = |family: &ArtifactGroup| {
                let rest = below.strip_prefix(family.as_str())?;
                (rest == ".html")
                    .then_some(ROOTS[0])
                    .or_else(|| rest.strip_prefix('/'))
            };
            match families.iter().find_map(of_family) {
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
}

/// Whether a path is `simple/{project}/index.html` or `simple/_json/{project}/index.json`.
fn is_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    // No project is called `_json`: the bucket's own indexer puts the list of that directory there.
    match parts[..] {
        ["simple", project, "index.html"] => project != "_json",
        ["simple", "_json", _, "index.json"] => true,
        _ => false,
    }
}

/// A list of files or releases, one per line, each optionally followed by a reason:
///
/// ```text
/// # broken launchers
/// rocm-sdk-core==7.13.0  launcher is broken
/// rocm-7.13.0.tar.gz
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct YankList(Vec<YankLine>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct YankLine {
    text: String,
    what: YankSubject,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum YankSubject {
    File(String),
    /// `rocm-sdk-core==7.13.0`: every file of it.
    Release(DistName, Version),
}

impl YankSubject {
    fn has(&self, file: &SetFile) -> bool {
        match self {
            Self::File(name) => file.name() == *name,
            Self::Release(project, version) => file.project == *project && file.version == *version,
        }
    }
}

impl YankList {
    /// Parses the list. Blank lines and lines that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines: Vec<YankLine> = Vec::new();
        let numbered = text.trim_start_matches('\u{feff}').lines().zip(1..);
        for (line, number) in numbered {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = || -> Result<YankLine> {
                let (text, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                let line = YankLine {
                    text: text.to_owned(),
                    what: what(text)?,
                    reason: reason.trim().to_owned(),
                };
                Self::ensure_plain(&line.reason)?;
                if lines.iter().any(|other| other.what == line.what) {
                    bail!("`{text}` is there twice");
                }
                Ok(line)
            };
            let line = read().with_context(|| format!("line {number}"))?;
            lines.push(line);
        }
        Ok(Self(lines))
    }

    /// Fails if pages cannot show the reason for a yank.
    pub fn ensure_plain(reason: &str) -> Result<()> {
        let is_plain = !reason.contains(char::is_control);
        ensure!(is_plain, "a control character in the reason: {reason:?}");
        Ok(())
    }

    /// The yanks that files of an index have already, and those of some files for one reason.
    pub fn adding(files: &[SetFile], names: &[String], reason: &str) -> Self {
        let already = files
            .iter()
            .filter_map(|file| Some((file.name(), file.yanked.as_deref()?)));
        let already = already.filter(|(name, _)| names.iter().all(|it| it != name));
        let added = names.iter().map(|name| (&**name, reason));
        let line = |(name, reason): (&str, &str)| YankLine {
            text: name.to_owned(),
            what: YankSubject::File(name.to_owned()),
            reason: reason.to_owned(),
        };
        Self(already.chain(added).map(line).collect())
    }

    /// Yanks exactly the files in the list, and no others. A line that matches no file is an error,
    /// because the file that it meant would stay available.
    fn apply(&self, files: &mut [SetFile]) -> Result<()> {
        let mut used = BTreeSet::new();
        for file in files {
            file.yanked = None;
            for line in &self.0 {
                if line.what.has(file) {
                    used.insert(&*line.text);
                    // The reason for a file takes precedence over that for its release.
                    if file.yanked.is_none() || matches!(line.what, YankSubject::File(_)) {
                        file.yanked = Some(line.reason.clone());
                    }
                }
            }
        }
        let unused = self.0.iter().filter(|line| !used.contains(&*line.text));
        let unused: Vec<&str> = unused.map(|line| line.text.as_str()).collect();
        ensure!(
            unused.is_empty(),
            No(format!(
                "not in the set, so not to be yanked: `{}`",
                unused.join("`, `")
            ))
        );
        Ok(())
    }
}

fn what(text: &str) -> Result<YankSubject> {
    match text.split_once("==") {
        Some((project, version)) => Ok(YankSubject::Release(project.parse()?, version.parse()?)),
        None if is_package(text) => Ok(YankSubject::File(text.to_owned())),
        None => bail!("neither the name of a file nor `project==version`: `{text}`"),
    }
}

#[cfg(test)]
mod tests;
