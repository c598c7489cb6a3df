//! Carries an upload out, and looks at the result before it is called one.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    io::{self, Read, Seek as _, SeekFrom},
    num::NonZeroUsize,
    path::Path,
};

use fs_err as fs;

use super::plan::{
    Bytes, ExistingObject, Item, Phase, RemoteListing, UploadPlan, UploadReason, conflict,
};
use crate::{
    console::World,
    digest::Sha256,
    error::{Context as _, Error, No, Result, Stop, bail, ensure, hinted, hints, one_line},
    index::{IndexPage, targets_of},
    parallel,
    set::{SetPlace, place::TOP},
    store::{self, Body, Condition, Depth, PutOptions, Span, StoreError, StoreFailureKind},
};

/// Requests mostly wait. The store bounds the memory of all of them together.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// What happened to one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Uploaded,
    Unchanged,
}

/// What is in the directory already.
pub fn look(destination: &SetPlace, items: &[Item], stop: &Stop) -> Result<RemoteListing> {
    let mut seen = RemoteListing::default();
    let listed = destination.list("", Depth::All)?;
    let listed: BTreeSet<String> = listed.into_iter().map(|(path, _)| path).collect();
    let is_likely = |item: &&Item| is_listed(&item.path, &listed);
    let items: Vec<&Item> = items.iter().filter(is_likely).collect();
    let there = |item: &&Item| existing(destination, &item.path);
    parallel::try_each(&items, AT_ONCE, stop, there, |item, there| {
        seen.there
            .extend(there.map(|there| (item.path.clone(), there)));
    })?;
    // Other groups of packages have their directories here too, and their own names in them.
    seen.paths.extend(
        listed
            .into_iter()
            .filter(|path| path.starts_with("dist/") || path.starts_with("simple/")),
    );
    Ok(seen)
}

/// Whether something may be there. A listing may leave out the page of a directory, but not the
/// same page under the name of a file; one without the other is written in any case.
fn is_listed(path: &str, listed: &BTreeSet<String>) -> bool {
    let twin = |directory: &str| {
        let directory = if directory == TOP { "" } else { directory };
        ["index.html", "index.json"].map(|name| listed.contains(&format!("{directory}{name}")))
    };
    listed.contains(path) || path.ends_with('/') && twin(path).contains(&true)
}

fn existing(destination: &SetPlace, path: &str) -> Result<Option<ExistingObject>> {
    let (store, key) = (destination.store().as_ref(), destination.key(path)?);
    match store.head(&key) {
        Err(error) if error.kind() == StoreFailureKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
        Ok(object) => Ok(Some(ExistingObject {
            size: object.size,
            sha256: store::digest(store, &key)?,
        })),
    }
}

/// Writes what the plan says. Of each phase all is there before the next begins, so that nothing
/// appears before what it points at; the last phase goes one by one, because its end says that all
/// is there.
pub fn write(
    plan: &UploadPlan,
    destination: &SetPlace,
    world: &World,
    report: &mut dyn FnMut(&Item, Outcome),
) -> Result<()> {
    let progress = world
        .console
        .progress("Uploading", &plan.destination, plan.size());
    let watch = UploadProgress {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
    };
    let act = |(item, why): &(Item, UploadReason)| act(item, *why, destination, &watch);
    for phase in plan.actions.chunk_by(|(a, _), (b, _)| a.phase == b.phase) {
        if phase.iter().any(|(item, _)| item.phase == Phase::Root) {
            for action in phase {
                world.stop.check()?;
                report(&action.0, act(action)?);
            }
        } else {
            // The largest first, because the end waits for whatever takes longest.
            let mut phase: Vec<&(Item, UploadReason)> = phase.iter().collect();
            phase.sort_by_key(|(item, _)| Reverse(item.size));
            let act = |action: &&(Item, UploadReason)| act(action);
            parallel::try_each(&phase, AT_ONCE, &world.stop, act, |(item, _), outcome| {
                report(item, outcome);
            })?;
        }
    }
    Ok(())
}

fn act(item: &Item, why: UploadReason, to: &SetPlace, watch: &UploadProgress) -> Result<Outcome> {
    let condition = match why {
        UploadReason::Same => return Ok(Outcome::Unchanged),
        UploadReason::Refused(there) => bail!(No(conflict(item, there))),
        UploadReason::Changed(_) => Condition::Always,
        UploadReason::New if item.is_page() => Condition::Always,
        UploadReason::New => Condition::IfAbsent,
    };
    put(item, to, condition, watch).with_context(|| format!("upload `{}`", item.path))
}

fn put(
    item: &Item,
    to: &SetPlace,
    condition: Condition,
    watch: &UploadProgress,
) -> Result<Outcome> {
    let key = to.key(&item.path)?;
    let options = PutOptions {
        content_type: item.content_type.to_owned(),
        cache_control: Some(item.cache_control().to_owned()),
        condition,
        sha256: Some(item.sha256),
    };
    let answer = match &item.bytes {
        Bytes::Here(bytes) => to.store().put(&key, &bytes.as_slice(), &options),
        Bytes::OnDisk(path) => {
            let size = item.size;
            to.store()
                .put(&key, &OnDisk { path, size, watch }, &options)
        }
    };
    match answer {
        Ok(()) => Ok(Outcome::Uploaded),
        // Another writer came first; that is fine if it wrote the same.
        Err(error) if error.kind() == StoreFailureKind::Exists => {
            let there = existing(to, &item.path)?.context(error)?;
            let others = "another writer came first, with other bytes";
            let same = there.sha256 == item.sha256;
            ensure!(same, No(format!("{others}: {}", conflict(item, there))));
            Ok(Outcome::Unchanged)
        }
        Err(error) => {
            watch.stop.check()?;
            Err(failed(error))
        }
    }
}

/// Without access nothing could be tried; any other failure of a store is a transfer that failed.
fn failed(error: StoreError) -> Error {
    let is_tried = !matches!(
        error.kind(),
        StoreFailureKind::Denied | StoreFailureKind::Unusable
    );
    let error = Error::from(error);
    if !is_tried {
        return error;
    }
    let no = Error::new(No(one_line(&error)));
    hints(&error).into_iter().rev().fold(no, hinted)
}

/// Reads every page back, and asks for everything else and for whatever one links to. Says which pages of
/// directories are empty, as they are on servers that take such a key for a directory.
pub fn verify(
    plan: &UploadPlan,
    pages: &[IndexPage],
    to: &SetPlace,
    stop: &Stop,
) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    let look = |(item, _): &(Item, UploadReason)| {
        there(item, to).with_context(|| format!("read back `{}`", item.path))
    };
    parallel::try_each(&plan.actions, AT_ONCE, stop, look, |(item, _), is| {
        if is == Is::Lost {
            lost.push(item.path.clone());
        }
    })?;
    let seen: BTreeSet<&str> = plan
        .actions
        .iter()
        .map(|(item, _)| item.path.as_str())
        .collect();
    for page in pages {
        for mut target in targets_of(page)? {
            if target.ends_with('/') && !to.has_directory_pages() {
                target.push_str(page.path.rsplit('/').next().unwrap_or_default());
            }
            if seen.contains(target.as_str()) {
                continue;
            }
            stop.check()?;
            let key = to.key(&target)?;
            let there = to.store().head(&key).map_err(failed);
            there.with_context(|| format!("follow a link of `{}`", page.path))?;
        }
    }
    lost.sort_unstable();
    Ok(lost)
}

/// What became of an object that was uploaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Same,
    Lost,
}

fn there(item: &Item, to: &SetPlace) -> Result<Is> {
    // What a directory's page says is read under its other name.
    let there = if item.is_page() && !item.path.ends_with('/') {
        read(to, &item.path).map(|(sha256, size)| ExistingObject { size, sha256 })
    } else {
        head(to, item)
    }?;
    if there.size == item.size && there.sha256 == item.sha256 {
        return Ok(Is::Same);
    }
    // Its twin under the name of a file was read back like everything else.
    ensure!(
        there.size == 0 && item.path.ends_with('/'),
        No(format!("not what was uploaded: {}", conflict(item, there)))
    );
    Ok(Is::Lost)
}

fn read(from: &SetPlace, path: &str) -> Result<(Sha256, u64)> {
    let key = from.key(path)?;
    let reader = from.store().get(&key, Span::Whole).map_err(failed)?;
    Ok(Sha256::of_reader(reader)?)
}

/// A file's digest is the store's word, if it has one: it checked the bytes as they came.
fn head(from: &SetPlace, item: &Item) -> Result<ExistingObject> {
    let key = from.key(&item.path)?;
    let object = from.store().head(&key).map_err(failed)?;
    Ok(ExistingObject {
        size: object.size,
        sha256: object.sha256.unwrap_or(item.sha256),
    })
}

/// Who is told how far an upload is, and who may end it.
struct UploadProgress<'a> {
    stop: &'a Stop,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// A file as bytes to put, which end with an error once the user asks to stop.
struct OnDisk<'a> {
    path: &'a Path,
    size: u64,
    watch: &'a UploadProgress<'a>,
}

impl Body for OnDisk<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut file = fs::File::open(self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        let watch = self.watch;
        Ok(Box::new(UploadBody { file, watch }))
    }
}

struct UploadBody<'a> {
    file: fs::File,
    watch: &'a UploadProgress<'a>,
}

impl Read for UploadBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.stop.check().map_err(io::Error::other)?;
        let count = self.file.read(buffer)?;
        (self.watch.progress)(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_directory_may_be_there_when_its_twin_is() {
        let listed = [
            "dist/a.whl",
            "simple/a/index.html",
            "simple/_json/index.json",
        ];
        let listed: BTreeSet<String> = listed.map(str::to_owned).into();
        for path in [
            "dist/a.whl",
            "simple/a/",
            "simple/_json/",
            "simple/a/index.html",
        ] {
            assert!(is_listed(path, &listed), "{path}");
        }
        for path in ["dist/b.whl", "simple/b/", "simple/", TOP, "simple/a"] {
            assert!(!is_listed(path, &listed), "{path}");
        }
        assert!(is_listed(TOP, &["index.html".to_owned()].into()));
    }
}
