//! Writes the aggregate index of a stream, `rocm/whl-next`: one list of the projects of all products,
//! from the manifest that says who owns them, and the routes that a web server needs to answer for
//! their pages.
//!
//! A server without routes gets pages of its own (`is_static`), with links to the files of the
//! products. A project that is in the manifest and not published is an error before anything is
//! written: installers would find a link to a missing page.

mod decide;
mod outputs;

use std::collections::{BTreeMap, BTreeSet};

use self::decide::{AggregateIndex, ProductRoot};
use super::{
    indexing::{IndexChange, REMOVE},
    items::{Action, Before, Item, REQUESTS},
    links::{PageLink, html_links, resolve, root_links},
    local::because,
    ownership::{OwnedProject, OwnershipManifest},
    pages::{Phase, link, linked_page},
    place::SetPlace,
    set_json::is_package,
    upload::until_published,
    write::Writer,
};
use crate::{
    console::World,
    error::{Context as _, Hint as _, Result},
    location::{encode_path, percent_encode},
    parallel,
    store::Depth,
};

/// The directory of all products, below which both they and the aggregate index are.
const TOP: &str = "rocm/";
/// The directory of the aggregate index.
const BASE: &str = "rocm/whl-next";

/// What an aggregate index is made of.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct AggregateOptions<'a> {
    pub manifest: &'a OwnershipManifest,
    pub stream: &'a str,
    /// Whether each project gets a page, for servers without routes.
    pub is_static: bool,
    /// Whether a project that is published and not in the manifest is an error.
    pub is_strict: bool,
    /// Whether a project that is in the manifest and not published is left out.
    pub allows_unpublished: bool,
    /// Whether to list the changes only, and to write nothing.
    pub is_dry_run: bool,
}

/// An aggregate index that was written or, for a dry run, would be.
#[derive(Debug)]
pub struct Aggregated {
    /// The number of its projects.
    pub projects: usize,
    /// The projects of the manifest that no product publishes.
    pub unpublished: Vec<String>,
    pub changes: Vec<IndexChange>,
}

/// Writes the aggregate index of a stream to a place. `content` are the places of the products;
/// without any, the manifest alone says what there is. If another job changes the index meanwhile,
/// starts again.
pub fn aggregate(
    content: &[SetPlace],
    to: &SetPlace,
    options: &AggregateOptions,
    world: &World,
) -> Result<Aggregated> {
    let aggregation = Aggregation {
        content,
        to,
        options,
        world,
    };
    until_published(|| aggregation.once(), to, world)
}

struct Aggregation<'a> {
    content: &'a [SetPlace],
    to: &'a SetPlace,
    options: &'a AggregateOptions<'a>,
    world: &'a World,
}

impl Aggregation<'_> {
    /// One attempt. `None` if another writer changed the index.
    ///
    /// The pages of the index are listed before the products are read. If another job reads the
    /// products later and writes its pages first, ours do not replace them: their `ETag` is no longer
    /// the listed one, so the write fails, and this starts again.
    fn once(&self) -> Result<Option<Aggregated>> {
        let (to, stop) = (self.to, &self.world.stop);
        let mut before = Before::nothing(to);
        before.add(BASE)?;
        before.objects.extend(to.list("", Depth::Children)?);
        let (index, pages) = self.observe()?;
        let items = self.items(&index, pages)?;
        let stale = self.stale(&items, &before);
        let actions = before.actions(&items, true, stop)?;
        let mut planned: Vec<(Item, Action)> = items.into_iter().zip(actions).collect();
        planned.retain(|(_, action)| *action != Action::Same);
        if !self.options.is_dry_run && !self.write(&planned, &stale)? {
            return Ok(None);
        }
        let written = planned.into_iter().map(IndexChange::from);
        let removed = stale.into_iter().map(|path| IndexChange {
            action: REMOVE,
            path,
            size: 0,
        });
        Ok(Some(Aggregated {
            projects: index.projects.len(),
            unpublished: index
                .unpublished
                .iter()
                .map(|it| it.project.to_string())
                .collect(),
            changes: written.chain(removed).collect(),
        }))
    }

    /// Writes what differs, then removes the pages of projects that left. `false` if another writer
    /// came first.
    fn write(&self, planned: &[(Item, Action)], stale: &[String]) -> Result<bool> {
        let writer = Writer::of_pages(self.to, "Writing", self.world);
        let is_done = writer.update(planned, stale)?;
        self.to.tidy([BASE]);
        Ok(is_done)
    }

    /// What the index has, and the text of each page that it needs.
    fn observe(&self) -> Result<(AggregateIndex, BTreeMap<OwnedProject, String>)> {
        let options = self.options;
        let owned = options.manifest.of_stream(options.stream)?;
        if self.content.is_empty() {
            return Ok((AggregateIndex::declared(owned), BTreeMap::new()));
        }
        let mut owners: BTreeSet<&str> = owned.iter().map(|it| it.owner.as_str()).collect();
        if options.is_strict {
            owners.extend(options.manifest.owners());
        }
        let (mut roots, mut places) = (Vec::new(), BTreeMap::new());
        for owner in owners {
            for place in self.content {
                if let Some(root) = root(place, owner)? {
                    roots.push(root);
                    places.entry(owner.to_owned()).or_insert(place);
                }
            }
        }
        let mut index = AggregateIndex::decide(owned, &roots, options);
        let read = |project: &OwnedProject| page(places.get(&project.owner).copied(), project);
        let pages = parallel::try_map(&index.projects, REQUESTS, &self.world.stop, read)?;
        let pages: BTreeMap<_, _> = index.projects.iter().cloned().zip(pages).collect();
        let missing = pages.iter().filter(|(_, page)| page.trim().is_empty());
        let missing = missing.map(|(it, _)| format!("`{}` has no page", it.directory()));
        index.findings.extend(missing);
        let headline = format!("the index of `{}` cannot be written", options.stream);
        match because(headline, std::mem::take(&mut index.findings)) {
            None => Ok((index, pages)),
            Some(error) => Err(error).hint(
                "publish what is missing, edit the manifest, or pass `--allow-unpublished` to leave out what no product has",
            ),
        }
    }

    /// The objects of the index, in the order of writing.
    fn items(
        &self,
        index: &AggregateIndex,
        pages: BTreeMap<OwnedProject, String>,
    ) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        if self.options.is_static {
            let pages: Vec<(OwnedProject, String)> = pages.into_iter().collect();
            let render = |(project, page): &(OwnedProject, String)| {
                let page = static_page(project, page);
                let page = page.with_context(|| {
                    format!("failed to read the page of `{}`", project.directory())
                })?;
                Ok(Item::directory_page(
                    &format!("{BASE}/{}/", project.project),
                    Phase::Project,
                    &page,
                ))
            };
            let stop = &self.world.stop;
            let rendered = parallel::map(&pages, World::jobs(), stop, render)?;
            items.extend(rendered.into_iter().flatten());
        }
        items.extend(Item::directory_page(
            &format!("{BASE}/"),
            Phase::Root,
            &index.root(),
        ));
        let (routes, report) = (index.routes(self.options), index.report(self.options));
        items.push(Item::here(
            outputs::ROUTES.to_owned(),
            Phase::Root,
            routes?.as_bytes(),
        ));
        items.push(Item::here(
            outputs::REPORT.to_owned(),
            Phase::Root,
            report?.as_bytes(),
        ));
        let has_keys = self.to.directory_pages && self.to.local().is_none();
        items.retain(|item| has_keys || !item.is_directory());
        Ok(items)
    }

    /// The pages of projects that the index no longer has.
    fn stale(&self, items: &[Item], before: &Before) -> Vec<String> {
        let current: BTreeSet<&str> = items.iter().map(|it| it.path.as_str()).collect();
        let is_page = |path: &&String| {
            let below = path.strip_prefix(BASE).and_then(|it| it.strip_prefix('/'));
            let project = below.and_then(|it| it.strip_suffix("/index.html"));
            project.is_some_and(|it| !it.contains('/')) && !current.contains(path.as_str())
        };
        let there = before.objects.keys().filter(is_page).cloned();
        let mut stale: Vec<String> = there.filter(|_| self.options.is_static).collect();
        stale.sort_unstable();
        stale
    }
}

impl OwnedProject {
    fn directory(&self) -> String {
        format!("{TOP}{}/{}/", self.owner, self.project)
    }
}

/// The root page of a product, if the place has it.
fn root(place: &SetPlace, owner: &str) -> Result<Option<ProductRoot>> {
    let path = format!("{TOP}{owner}/index.html");
    let text = place.text(place.key(&path)?.as_str())?;
    Ok(text.map(|text| ProductRoot {
        owner: owner.to_owned(),
        shown: place.shown_in_full(&path),
        links: root_links(&text),
    }))
}

/// The page of a project, which is empty if there is none.
fn page(place: Option<&SetPlace>, project: &OwnedProject) -> Result<String> {
    let Some(place) = place else {
        return Ok(String::new());
    };
    let path = format!("{}index.html", project.directory());
    let text = place.text(place.key(&path)?.as_str())?;
    Ok(text.unwrap_or_default())
}

/// The page of a project in the aggregate index: the links of its own page, from another directory.
fn static_page(project: &OwnedProject, page: &str) -> Result<String> {
    let from = project.directory();
    let to = format!("{BASE}/{}/", project.project);
    let mut links = Vec::new();
    for of_file in html_links(page) {
        let address = resolve(&from, &of_file.href)?;
        let name = address
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if !is_package(&name) {
            continue;
        }
        let href = match &address.origin {
            Some(origin) => format!("{origin}/{}", encode_path(&address.path)),
            None => link(&to, &address.path),
        };
        links.push((name, PageLink { href, ..of_file }));
    }
    Ok(linked_page(project.project.normalized(), &links))
}
