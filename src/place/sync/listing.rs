//! [`Listing`]: the objects that a place had before anything was written.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    Changes,
    item::{Action, ExistingObject, Item, ItemBytes, ObjectHeaders, Removal, page_of_directory},
};
use crate::{
    console::World,
    index::{
        PageLink,
        package_file::is_package,
        pages::{Phase, is_index_page},
        parse::{self, Address, is_directory_list},
        set_json::TOP,
    },
    place::{
        object_memory::{ListedIdentity, newest},
        set_place::{SetPlace, none_if_missing},
    },
};
use rocwheel_base::{
    digest::Checksum,
    error::{Context as _, Result, Stop},
    parallel,
};
use rocwheel_store::{Depth, Object};

/// The objects that a place had before anything was written, from listings of some directories.
#[derive(Debug)]
pub(in crate::place) struct Listing<'a> {
    pub(in crate::place) place: &'a SetPlace,
    pub(in crate::place) objects: HashMap<String, Object>,
    /// The directories that were listed completely. An object below one of them, or directly in the
    /// set, that is not in `objects` did not exist.
    directories: Vec<String>,
    /// What the store was asked for, to ask for it again.
    asked: Vec<(String, Depth)>,
    /// The time of the object that was written last.
    newest: u64,
}

/// What a listing has shown, without the place.
#[derive(Debug, Default)]
pub(super) struct ListedObjects {
    pub(super) objects: HashMap<String, Object>,
    directories: Vec<String>,
    asked: Vec<(String, Depth)>,
}

impl ListedObjects {
    /// The same directories as they are now.
    pub(super) fn again(&self, place: &SetPlace) -> Result<Self> {
        let mut objects = HashMap::new();
        for (directory, depth) in &self.asked {
            objects.extend(place.list_with_pages(directory, *depth)?);
        }
        Ok(Self { objects, directories: self.directories.clone(), asked: self.asked.clone() })
    }

    fn lacks(&self, path: &str) -> bool {
        let is_listed = |directory: &String| path.starts_with(directory.as_str());
        self.directories.iter().any(is_listed) && !self.objects.contains_key(path)
    }

    /// Whether an object of an earlier listing may be there, or was not asked for. A page that a server drops is there
    /// under its file name only.
    pub(super) fn may_have(&self, path: &str) -> bool {
        !self.lacks(path) || path.ends_with('/') && !self.lacks(&page_of_directory(path))
    }

    /// Whether an object is still the one that an earlier listing has shown.
    pub(super) fn has_same(&self, path: &str, earlier: &Self) -> bool {
        let identity = |listed: &Self| ListedIdentity::of(listed.objects.get(path)?);
        identity(self).is_some_and(|now| identity(earlier) == Some(now))
    }
}

impl<'a> Listing<'a> {
    /// No directory is listed yet.
    pub(super) fn nothing(place: &'a SetPlace) -> Self {
        Self {
            place,
            objects: HashMap::new(),
            directories: Vec::new(),
            asked: Vec::new(),
            newest: 0,
        }
    }

    pub(super) fn into_objects(self) -> ListedObjects {
        let Self { objects, directories, asked, .. } = self;
        ListedObjects { objects, directories, asked }
    }

    fn ask(&mut self, directory: &str, depth: Depth) -> Result<()> {
        let listed = self.place.list_with_pages(directory, depth)?;
        self.newest = self.newest.max(newest(listed.iter().map(|(_, object)| object)));
        self.objects.extend(listed);
        self.asked.push((directory.to_owned(), depth));
        Ok(())
    }

    /// Lists the objects of the set: its packages and its pages, with those in the directories of
    /// families.
    pub(in crate::place) fn add_set(&mut self) -> Result<()> {
        if self.place.local().is_none() {
            self.ask("", Depth::All)?;
            self.directories.push(String::new());
            return Ok(());
        }
        // A directory of a user may have more beside a set, at any depth.
        self.add_top()?;
        self.add("simple")?;
        self.add("dist")?;
        if self.place.local().is_some_and(Path::is_dir) {
            for family in self.place.flat_families()? {
                self.add(&family)?;
            }
        }
        Ok(())
    }

    /// Lists the objects directly in the directory of the set.
    pub(in crate::place) fn add_top(&mut self) -> Result<()> {
        self.ask("", Depth::Children)
    }

    /// Lists the directory of a family too.
    pub(in crate::place) fn add(&mut self, directory: &str) -> Result<()> {
        let prefix = format!("{directory}/");
        if self.directories.iter().any(|it| prefix.starts_with(it.as_str())) {
            return Ok(());
        }
        self.ask(&prefix, Depth::All)?;
        self.directories.push(prefix);
        Ok(())
    }

    /// The removal of an object that was listed.
    pub(in crate::place) fn removal(&self, path: String) -> Removal {
        let etag = self.objects.get(&path).and_then(|object| object.etag.clone());
        Removal { path, etag }
    }

    /// Removes pages, but none that another program wrote: those stay, with a warning.
    pub(in crate::place) fn removals_of_pages(
        &self,
        paths: Vec<String>,
        world: &World,
    ) -> Result<Vec<Removal>> {
        let place = self.place;
        let read = |path: &String| self.page(path);
        let pages = parallel::try_map(&paths, place.requests(), &world.stop, read)?;
        let mut removals = Vec::new();
        for (path, page) in paths.into_iter().zip(pages) {
            match page {
                Some(page) if is_index_page(&path, &page) => removals.push(self.removal(path)),
                // The bucket's own indexer writes a list of the files beside it, and will write it again.
                Some(page) if is_directory_list(&page) => {}
                Some(_) => world.console.warn(format!(
                    "`{}` stays, because another program wrote it: the index has no page there",
                    place.shown_in_full(&path)
                )),
                // It is gone since.
                None => {}
            }
        }
        Ok(removals)
    }

    /// The text of a page. `None` if it is gone since.
    pub(in crate::place) fn page(&self, path: &str) -> Result<Option<String>> {
        let place = self.place;
        // The page of another program may have any encoding, and then it is none of ours.
        let bytes = place.bytes(&Address::here(place.key(path)?.as_str()))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Leaves out a page that gives way to the one that is there: it lists packages that stay, or it is no page of a
    /// set. A list of the bucket's own indexer is replaced, because the indexer writes it again. Returns what to say
    /// about it.
    pub(super) fn give_way(&self, changes: &mut Changes) -> Result<Option<String>> {
        let mut items = changes.items.iter();
        let Some(item) = items.find(|item| item.gives_way && !item.is_directory()) else {
            return Ok(None);
        };
        let Some(listed) = self.objects.get(&item.path) else {
            return Ok(None);
        };
        if self.place.local().is_none() && has_bytes_of(item, listed) {
            return Ok(None);
        }
        let Some(page) = self.page(&item.path)? else {
            return Ok(None);
        };
        let key = self.place.key(&item.path)?;
        let links = parse::html_links(&page);
        let stays = |link: &PageLink| {
            let address = parse::resolve(key.as_str(), &link.href);
            let package = address.map(|address| self.place.below_set(&address.path));
            package.is_ok_and(|path| {
                let is_there = is_package(&path) && self.objects.contains_key(&path);
                is_there && !changes.removed.iter().any(|removal| removal.path == path)
            })
        };
        let is_ours = is_index_page(&item.path, &page);
        let why = if links.iter().any(stays) {
            "it lists packages that are there"
        } else if is_ours && links.iter().any(|link| link.href == "set.json")
            || item.is_replaced_by_indexer(&page)
        {
            return Ok(None);
        } else if is_ours {
            "it belongs to another index"
        } else {
            "another program wrote it"
        };
        let page = self.place.shown_in_full(&item.path);
        changes.items.retain(|item| !item.gives_way);
        Ok(Some(format!("`{page}` stays, because {why}: it does not lead to the pages of the set")))
    }

    /// Decides what to do with each item, in the order of the items.
    pub(super) fn actions(
        &self,
        items: &[Item],
        replaces: bool,
        links: bool,
        dropped: &HashSet<String>,
        stop: &Stop,
    ) -> Result<Vec<Action>> {
        let is_of_run = self.place.run_place().is_some();
        parallel::try_map(items, self.place.requests(), stop, |item| {
            if dropped.contains(&item.path) {
                return Ok(Action::Same);
            }
            let existing = self.find(item, replaces && links)?;
            let action = Action::of(item, existing, replaces, is_of_run);
            Ok(self.clash(item)?.map_or(action, Action::Refuse))
        })
    }

    /// The keys that end in `/` whose pages the server has dropped before this machine's eyes: to write the same bytes
    /// once more would change nothing. One of them is asked for, in case the server keeps such pages by now.
    pub(super) fn dropped(&self, items: &[Item]) -> Result<HashSet<String>> {
        let Some(memory) = self.place.memory() else {
            return Ok(HashSet::new());
        };
        let is_dropped = |item: &&Item| {
            item.is_directory()
                && !self.objects.contains_key(&item.path)
                && self
                    .objects
                    .get(&page_of_directory(&item.path))
                    .and_then(|page| memory.get(&item.path, page))
                    .is_some_and(|facts| facts.sha256 == item.sha256)
        };
        let dropped: HashSet<String> =
            items.iter().filter(is_dropped).map(|item| item.path.clone()).collect();
        let Some(one) = dropped.iter().min() else {
            return Ok(dropped);
        };
        let object = none_if_missing(self.place.store.head(&self.place.key(one)?))
            .with_context(|| format!("failed to read `{one}`"))?;
        let is_empty = object.is_some_and(|object| object.size == 0);
        Ok(if is_empty { dropped } else { HashSet::new() })
    }

    /// The file of the same name in the other layout, if it has other bytes: an index of the place
    /// could list only one of them.
    fn clash(&self, item: &Item) -> Result<Option<ExistingObject>> {
        let Some(twin) = item.twin().filter(|twin| self.objects.contains_key(twin)) else {
            return Ok(None);
        };
        if self.has_file_of(item, &twin) {
            return Ok(None);
        }
        let existing = ExistingObject::find(self.place, &twin)
            .with_context(|| format!("failed to read `{twin}`"))?;
        Ok(existing
            .filter(|object| !object.has_bytes_of(item))
            .map(|object| ExistingObject { twin: Some(twin), ..object }))
    }

    /// Whether an object is another name of the file of an item.
    fn has_file_of(&self, item: &Item, path: &str) -> bool {
        let root = self.place.local();
        root.is_some_and(|root| item.is_file_of(root, path))
    }

    /// The existing object of an item, if there is one. A package that a link replaces is not read:
    /// that costs more than the link, and with the link the bytes are stored once.
    fn find(&self, item: &Item, is_linked: bool) -> Result<Option<ExistingObject>> {
        let listed = self.objects.get(&item.path);
        if listed.is_none() && !self.is_likely(&item.path) {
            return Ok(None);
        }
        if item.bytes == ItemBytes::There || listed.is_some() && self.has_file_of(item, &item.path)
        {
            return Ok(Some(ExistingObject::same(item)));
        }
        if let Some(object) = listed
            && let Some(known) = self.remembered(&item.path, object)
        {
            return Ok(Some(known));
        }
        let is_shown =
            |object: &&Object| self.place.local().is_none() && has_bytes_of(item, object);
        if let Some(object) = listed.filter(is_shown) {
            return self.find_headers(item, object);
        }
        let is_linked = is_linked && item.phase == Phase::File && item.is_proven_file();
        if let Some(object) = listed.filter(|_| is_linked) {
            return Ok(Some(ExistingObject::unread(object)));
        }
        // The listing of a directory says all that another look at the file would. The listing of a
        // bucket has no digests.
        let existing = match listed.filter(|_| self.place.local().is_some()) {
            Some(object) => ExistingObject::of(self.place, &item.path, object),
            None => self.ask_for(&item.path, listed),
        }
        .with_context(|| format!("failed to read `{}`", item.path))?;
        // The ETag of the listing, not of the request above. A page that another writer changed
        // between the two may name packages that this job does not know; the write has to fail.
        Ok(existing.map(|object| ExistingObject {
            etag: listed.map_or(object.etag, |listed| listed.etag.clone()),
            ..object
        }))
    }

    /// Whether the place is a directory that has the bytes of an item.
    pub(super) fn is_in_directory(&self, item: &Item) -> Result<bool> {
        let listed = self.objects.get(&item.path).filter(|_| self.place.local().is_some());
        let Some(object) = listed.filter(|object| object.size == item.size) else {
            return Ok(false);
        };
        let existing = ExistingObject::of(self.place, &item.path, object)
            .with_context(|| format!("failed to read `{}`", item.path))?;
        Ok(existing.is_some_and(|existing| existing.has_bytes_of(item)))
    }

    /// The existing object of an item whose bytes a listing proves. Listings say no headers, so a page takes a
    /// request. A sidecar takes none: installers accept it with any type.
    fn find_headers(&self, item: &Item, listed: &Object) -> Result<Option<ExistingObject>> {
        if !item.is_page() {
            return Ok(Some(ExistingObject::same(item)));
        }
        let place = self.place;
        let head = none_if_missing(place.store.head(&place.key(&item.path)?))
            .with_context(|| format!("failed to read `{}`", item.path))?;
        match head {
            Some(object) if object.etag == listed.etag => {
                let sha256 = Some(item.sha256);
                let existing = ExistingObject { sha256, ..ExistingObject::unread(&object) };
                self.remember(&item.path, listed, &object, &existing);
                Ok(Some(existing))
            }
            // Another writer was here since the listing: the write fails at the `ETag` of the listing.
            Some(_) => Ok(Some(ExistingObject::unread(listed))),
            None => Ok(None),
        }
    }

    /// What this machine knows of a listed object.
    fn remembered(&self, path: &str, listed: &Object) -> Option<ExistingObject> {
        let facts = self.place.memory()?.get(path, listed)?;
        let headers =
            ObjectHeaders { content_type: facts.content_type, cache_control: facts.cache_control };
        Some(ExistingObject {
            sha256: Some(facts.sha256),
            headers,
            ..ExistingObject::unread(listed)
        })
    }

    /// Asks a bucket for an object, and remembers the answer if it is about the listed object.
    fn ask_for(&self, path: &str, listed: Option<&Object>) -> Result<Option<ExistingObject>> {
        let place = self.place;
        let Some(answer) = none_if_missing(place.store.head(&place.key(path)?))? else {
            return Ok(None);
        };
        let existing = ExistingObject::of(place, path, &answer)?;
        if let (Some(listed), Some(existing)) = (listed, &existing) {
            self.remember(path, listed, &answer, existing);
        }
        Ok(existing)
    }

    fn remember(&self, path: &str, listed: &Object, answer: &Object, existing: &ExistingObject) {
        let is_of_answer =
            || ListedIdentity::of(listed).is_some_and(|identity| identity.is_of_answer(answer));
        if let (Some(memory), Some(facts)) = (self.place.memory(), existing.facts())
            && is_of_answer()
        {
            memory.insert(path, listed, facts, self.newest);
        }
    }

    /// Whether an object that was not listed may exist, so that it is worth a request. A listing may
    /// leave out keys that end in `/`, but contains the same page under its file name. If only the
    /// key that ends in `/` exists, it is written again, which does no harm.
    fn is_likely(&self, path: &str) -> bool {
        if path.ends_with('/') {
            let directory = path.strip_prefix(TOP).unwrap_or(path);
            let twins = ["index.html", "index.json"].map(|name| format!("{directory}{name}"));
            return twins.iter().any(|twin| self.objects.contains_key(twin));
        }
        let mut directories = self.directories.iter();
        path.contains('/') && !directories.any(|directory| path.starts_with(directory.as_str()))
    }
}

/// Whether a listing says that an object has the bytes of an item: the `ETag` of a small object in
/// a bucket is mostly its MD5. So pages that did not change are not read.
pub(super) fn has_bytes_of(item: &Item, listed: &Object) -> bool {
    let ItemBytes::Here(bytes) = &item.bytes else {
        return false;
    };
    let md5 = listed.etag.as_deref().and_then(Checksum::of_etag);
    listed.size == item.size && md5.is_some_and(|it| it.is_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_directory_may_be_there_when_its_twin_is() {
        let place = SetPlace::directory("set".as_ref(), &Stop::default());
        let listed = |paths: &[&str]| {
            let object = |path: &&str| Object {
                key: path.parse().unwrap(),
                size: 1,
                sha256: None,
                checksum: None,
                content_type: None,
                cache_control: None,
                etag: None,
                modified: None,
            };
            Listing {
                place: &place,
                objects: paths.iter().map(|path| ((*path).to_owned(), object(path))).collect(),
                directories: vec!["dist/".into(), "simple/".into()],
                asked: Vec::new(),
                newest: 0,
            }
        };
        let listing = listed(&["simple/a/index.html", "simple/_json/index.json"]);
        for path in ["simple/a/", "simple/_json/", "other/b.whl"] {
            assert!(listing.is_likely(path), "{path}");
        }
        for path in ["dist/b.whl", "simple/b/", "simple/", "./", "simple/a", "SHA256SUMS"] {
            assert!(!listing.is_likely(path), "{path}");
        }
        assert!(listed(&["index.html"]).is_likely("./"));
    }
}
