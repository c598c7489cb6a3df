//! Writes the index of a place: reads the packages, writes the pages, and starts again if another
//! job changed the index meanwhile.

use std::num::NonZeroUsize;

use super::{
    known::KnownFacts,
    place::SetPlace,
    read::{MetadataDepth, ReadPackages, Reading, SetReadProgress},
    write::{IndexChange, Overtaken, WriteMode, Writer},
    yank::YankList,
};
use crate::{
    console::{World, many, size},
    error::{No, Result, bail},
    index::{Draft, IndexPage, Layout, Rank, SetJson, drafts},
    parallel,
    run::ArtifactGroup,
};

/// Attempts before giving up, if other writers change the index each time.
const ATTEMPTS: u32 = 5;
/// Parallel requests to a bucket. They mostly wait for the network.
const REQUESTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Options of `rocwheel index`.
#[derive(Debug)]
pub struct IndexOptions {
    /// Where the packages are. `None`: in `dist/` if it exists.
    pub layout: Option<Layout>,
    /// The complete list of yanks. `None` keeps the yanks of the existing `set.json`.
    pub yank: Option<YankList>,
    pub mode: WriteMode,
    pub jobs: NonZeroUsize,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            layout: None,
            yank: None,
            mode: WriteMode::Make,
            jobs: NonZeroUsize::MIN,
        }
    }
}

/// An index that was written or, with [`WriteMode::Tell`], would be.
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
        match once(site, options, world)? {
            Ok(indexed) => return Ok(indexed),
            Err(overtaken) => world.console.note(format!("{overtaken}: retrying")),
        }
    }
    bail!(No(format!(
        "other writers changed the index in all {ATTEMPTS} attempts: `{site}`"
    )));
}

/// One attempt. The inner error means that another writer changed the index.
///
/// The existing pages are listed (`Writer::new`) before the packages, so that no page of a newer
/// index is replaced by one that lacks its packages.
fn once(
    site: &SetPlace,
    options: &IndexOptions,
    world: &World,
) -> Result<Result<Indexed, Overtaken>> {
    let known = KnownFacts::read(site)?;
    let writer = Writer::new(site, options.mode, &world.stop, &known.families())?;
    let attempt = IndexAttempt {
        site,
        options,
        world,
        known: &known,
        writer: &writer,
        at_once: match site.local() {
            Some(_) => options.jobs,
            None => REQUESTS,
        },
    };
    match (attempt.run(), writer.is_overtaken()) {
        (Err(_), Some(overtaken)) => Ok(Err(overtaken)),
        (done, _) => done.map(|(files, families, facts)| {
            Ok(Indexed {
                changes: writer.into_changes(),
                families,
                files,
                facts,
            })
        }),
    }
}

struct IndexAttempt<'a> {
    site: &'a SetPlace,
    options: &'a IndexOptions,
    world: &'a World,
    known: &'a KnownFacts,
    writer: &'a Writer<'a>,
    at_once: NonZeroUsize,
}

impl IndexAttempt<'_> {
    /// Installers may read the index at any moment, so the order of writes matters: sidecars, pages
    /// of projects, root pages, `set.json`, deletions last. No reader follows a link to a missing
    /// file.
    ///
    /// Everything is read back before `set.json`, because a set that has it is complete.
    fn run(&self) -> Result<(usize, Vec<ArtifactGroup>, String)> {
        let layout = match self.options.layout {
            Some(layout) => layout,
            None => self.site.layout()?,
        };
        let mut found = self.read(layout)?;
        let document = document(self.known, &mut found, layout);
        let mut lost = Vec::new();
        for page in self.projects(&found, &document, layout)? {
            self.world.stop.check()?;
            if page.rank < Rank::Whole {
                self.writer.page(&page)?;
                continue;
            }
            lost.extend(self.writer.verify(self.at_once)?);
            if found.untouched == found.set.files().len() {
                self.writer.page(&page)?;
            } else {
                self.writer.rewrite(&page)?;
            }
            lost.extend(self.writer.verify(self.at_once)?);
        }
        self.tell(&lost)?;
        self.clean(&mut found)?;
        let families = found.set.families().into_iter().cloned().collect();
        Ok((found.set.files().len(), families, facts(&found)))
    }

    /// Reads the packages and writes their sidecars.
    fn read(&self, layout: Layout) -> Result<ReadPackages> {
        let progress = self.world.console.progress("Reading", self.site, None);
        let reading = Reading {
            place: self.site,
            layout,
            known: self.known,
            metadata: MetadataDepth::Remembered,
            at_once: self.at_once,
            watch: SetReadProgress {
                stop: &self.world.stop,
                progress: &|bytes| progress.inc(bytes),
            },
            keep: &|file, listed, bytes| {
                let path = file.sidecar_path(layout);
                self.writer.sidecar(&path, listed, &bytes)?;
                match self.options.mode {
                    WriteMode::Make => self.site.stamp(&path),
                    WriteMode::Tell => Ok(listed.cloned()),
                }
            },
        };
        let mut found = reading.run()?;
        if let Some(list) = &self.options.yank {
            found.set = list.apply(found.set)?;
        }
        if self.options.mode == WriteMode::Make {
            self.writer.verify(self.at_once)?;
            reading.remember_sidecars(&mut found)?;
        }
        Ok(found)
    }

    /// Writes the pages of projects, and returns the pages to be written after them.
    ///
    /// The latter have a line for every file and take long to render, so they are rendered in
    /// parallel with the project pages, and first.
    fn projects(
        &self,
        found: &ReadPackages,
        document: &SetJson,
        layout: Layout,
    ) -> Result<Vec<IndexPage>> {
        let views = found.set.views();
        let mut all = drafts(&found.set, &views, layout);
        all.push(Draft::of_set(document));
        let (mut all, projects): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|draft| draft.rank() > Rank::Project);
        all.extend(projects);
        let make = |draft: &Draft| {
            let page = draft.page();
            if draft.rank() > Rank::Project {
                return Ok(Some(page));
            }
            self.writer.page(&page)?;
            Ok(None)
        };
        let pages = parallel::try_map(&all, self.at_once, &self.world.stop, make)?;
        Ok(pages.into_iter().flatten().collect())
    }

    fn tell(&self, lost: &[String]) -> Result<()> {
        if let Some(path) = lost.first() {
            let (key, url) = (self.site.key(path)?, self.site.urls()?.find_links());
            self.world.console.warn(format!(
                "this server drops the pages of directories, such as `{key}`: install with `--find-links {url}`"
            ));
        }
        Ok(())
    }

    fn clean(&self, found: &mut ReadPackages) -> Result<()> {
        let families = self.known.families();
        let mut stale = self.writer.stale(&families);
        stale.append(&mut found.orphans);
        if !stale.is_empty() {
            self.writer.remove(stale)?;
            self.site.tidy(&families);
        }
        Ok(())
    }
}

/// The `set.json` of the set, with the stamps that spare the next run from reading each file.
fn document(known: &KnownFacts, found: &mut ReadPackages, layout: Layout) -> SetJson {
    let mut document = SetJson::new(known.identity.clone(), &found.set, layout);
    for file in document.files_mut() {
        file.remembered = found.remembered.remove(file.path());
    }
    document
}

fn facts(found: &ReadPackages) -> String {
    let files = found.set.files().len();
    let yanked = found
        .set
        .files()
        .iter()
        .filter(|file| file.yanked.is_some());
    let yanked = match yanked.count() {
        0 => String::new(),
        count => format!(", {count} of them yanked"),
    };
    format!(
        "{}{yanked}, {}, of {}",
        many(files, "file"),
        size(found.set.size()),
        many(found.set.projects().count(), "project")
    )
}
