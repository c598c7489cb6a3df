//! Carries out an upload: lists the destination, writes in phases, and reads everything back.

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

/// Requests at the same time. They mostly wait for the network; the store bounds the memory of all
/// of them together.
const AT_ONCE: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// What happened to one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Uploaded,
    Unchanged,
}

/// Finds the objects that the destination already has.
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
    // Directories of other groups may be stored here too. Their files are not strangers.
    seen.paths.extend(
        listed
            .into_iter()
            .filter(|path| path.starts_with("dist/") || path.starts_with("simple/")),
    );
    Ok(seen)
}

/// Whether an object may exist, so that it is worth a request. A listing may leave out keys that
/// end in `/`, but contains the same page under its file name. If only the key that ends in `/`
/// exists, it is written again, which does no harm.
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

/// Carries out the plan.
///
/// A phase begins only when the one before it is complete, so that readers, who may come at any
/// time, never follow a link to a missing file. The root pages are written one after the other in
/// the order of the plan: `set.json` is the last one, and says that the set is complete.
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
            // The largest first. A large file that starts last would upload alone at the end.
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
        // Pages are always replaced. A package must not replace one that another job uploaded
        // after the destination was listed.
        UploadReason::New if item.is_page() => Condition::Always,
        UploadReason::New => Condition::IfAbsent,
    };
    put(item, to, condition, watch).with_context(|| format!("failed to upload `{}`", item.path))
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
        // Another job uploaded this file first. That is fine if it has the same bytes.
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

/// Converts the error of a store. Missing access stays an error of usage; any other failure is a
/// failed transfer, which has its own exit code ([`No`]).
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

/// Reads back every page, and checks that all other objects and all link targets exist.
///
/// Returns the keys ending in `/` that are empty: some servers treat such a key as a directory and
/// drop the bytes.
pub fn verify(
    plan: &UploadPlan,
    pages: &[IndexPage],
    to: &SetPlace,
    stop: &Stop,
) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    let look = |(item, _): &(Item, UploadReason)| {
        there(item, to).with_context(|| format!("failed to read back `{}`", item.path))
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
            there.with_context(|| format!("failed to read back a link of `{}`", page.path))?;
        }
    }
    lost.sort_unstable();
    Ok(lost)
}

/// The state of an uploaded object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Same,
    Lost,
}

fn there(item: &Item, to: &SetPlace) -> Result<Is> {
    // A page is downloaded under its file name only; for its key that ends in `/`, size and digest
    // are compared.
    let there = if item.is_page() && !item.path.ends_with('/') {
        read(to, &item.path).map(|(sha256, size)| ExistingObject { size, sha256 })
    } else {
        head(to, item)
    }?;
    if there.size == item.size && there.sha256 == item.sha256 {
        return Ok(Is::Same);
    }
    // An empty key that ends in `/` is not fatal: the page under its file name is checked too.
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

/// Size and digest as the store has them: it verified the bytes when they arrived, so packages are
/// not downloaded again. Without a recorded digest, only the size is compared.
fn head(from: &SetPlace, item: &Item) -> Result<ExistingObject> {
    let key = from.key(&item.path)?;
    let object = from.store().head(&key).map_err(failed)?;
    Ok(ExistingObject {
        size: object.size,
        sha256: object.sha256.unwrap_or(item.sha256),
    })
}

/// Progress display and interruption of an upload.
struct UploadProgress<'a> {
    stop: &'a Stop,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// A file on disk as the body of a request. Reading fails once the user asks to stop.
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
