//! `index` in a bucket: what it reads, what it writes, and what it does when it is not alone.

use std::{
    fmt,
    io::Read,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rocwheel_test_files::{
    assert_has, noise,
    wheels::{VERSION, unzip, wheel, wheels, zipped},
};
use tempfile::TempDir;
use walkdir::WalkDir;

use super::{
    PLACE,
    memory::{self, MemoryStore},
    place_in, publish_to, quiet_world,
};
use crate::place::{IndexOptions, Indexed, KnownPackages, index};
use rocwheel_base::{
    digest::Sha256,
    error::{Exit, Result, render},
};
use rocwheel_store::{
    Body, Condition, Depth, Object, PutOptions, Span, Store, StoreError, location::Key,
};

/// A store that counts what is read of it, keeps no digests if that is wanted, and in which
/// somebody else is at work.
#[derive(Clone, Debug)]
struct Busy {
    inside: MemoryStore,
    forgetful: bool,
    /// Every reading: its key, and how many bytes.
    read: Arc<Mutex<Vec<(String, u64)>>>,
    /// How often another writer comes first, when, and what it does.
    others: Arc<AtomicU64>,
    moment: (&'static str, &'static str),
    other: fn(&MemoryStore),
}

impl Busy {
    fn new(inside: MemoryStore) -> Self {
        Self {
            inside,
            forgetful: false,
            read: Arc::default(),
            others: Arc::default(),
            moment: ("put", "simple/index.html"),
            other: |_| (),
        }
    }

    fn meet(&self, act: &str, key: &Key) {
        let is_now = self.moment.0 == act && key.as_str().ends_with(self.moment.1);
        let left = |left: u64| is_now.then(|| left.checked_sub(1)).flatten();
        let ordering = Ordering::Relaxed;
        if self.others.fetch_update(ordering, ordering, left).is_ok() {
            (self.other)(&self.inside);
        }
    }

    /// How often wheels were read from, and how many bytes.
    fn read_of_wheels(&self) -> (usize, u64) {
        let read = self.read.lock().unwrap();
        let wheels = read.iter().filter(|(key, _)| key.strip_suffix(".whl").is_some());
        wheels.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
    }
}

impl Store for Busy {
    fn list(&self, directory: Option<&Key>, depth: Depth) -> Result<Vec<Object>, StoreError> {
        let listed = self.inside.list(directory, depth)?;
        // As S3's store, which leaves out pages of directories.
        let objects = listed.into_iter();
        Ok(objects.filter(|it| !it.key.is_directory()).collect())
    }

    fn head(&self, key: &Key) -> Result<Object, StoreError> {
        let mut object = self.inside.head(key)?;
        object.sha256 = object.sha256.filter(|_| !self.forgetful);
        Ok(object)
    }

    fn get(&self, key: &Key, span: Span) -> Result<Box<dyn Read + Send>, StoreError> {
        let mut bytes = Vec::new();
        self.inside.get(key, span)?.read_to_end(&mut bytes).unwrap();
        let mut read = self.read.lock().unwrap();
        read.push((key.to_string(), bytes.len() as u64));
        self.meet("get", key);
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }

    fn put(
        &self,
        key: &Key,
        body: &dyn Body,
        options: &PutOptions,
    ) -> Result<Option<String>, StoreError> {
        self.meet("put", key);
        self.inside.put(key, body, options)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.meet("delete", key);
        self.inside.delete(key, condition)
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inside.fmt(f)
    }
}

fn put(store: &MemoryStore, path: &str, bytes: &[u8]) {
    let key = format!("{PLACE}{path}");
    memory::put(store, &key, "application/zip", bytes);
}

/// The packages of a directory, alone.
fn stocked(bench: &TempDir) -> MemoryStore {
    let store = MemoryStore::default();
    for entry in WalkDir::new(bench.path().join("dist")) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let name = entry.file_name().to_str().unwrap();
            put(&store, &format!("dist/{name}"), &fs_err::read(entry.path()).unwrap());
        }
    }
    store
}

/// A directory with a set, and a store with its packages.
fn with_set() -> (TempDir, MemoryStore) {
    let bench = tempfile::tempdir().unwrap();
    wheels(bench.path());
    let store = stocked(&bench);
    (bench, store)
}

fn index_in(store: &(impl Store + Clone + 'static)) -> Result<Indexed> {
    let world = quiet_world();
    let place = place_in(store.clone(), &world);
    let options = IndexOptions { read: KnownPackages::new(), jobs: NonZeroUsize::MIN };
    index(&place, &options, &world)
}

fn text(store: &MemoryStore, path: &str) -> String {
    let kept = store.find(&format!("{PLACE}{path}"));
    let kept = kept.unwrap_or_else(|| panic!("no `{path}`"));
    String::from_utf8(kept.bytes).unwrap()
}

#[test]
fn packages_in_a_bucket_get_the_index_that_an_upload_makes() {
    let (bench, store) = with_set();
    index_in(&Busy::new(store.clone())).unwrap();
    let uploaded = MemoryStore::default();
    publish_to(uploaded.clone(), bench.path()).unwrap();
    assert_eq!(store.keys(), uploaded.keys());
    for key in store.keys() {
        let (here, there) = (store.find(&key).unwrap(), uploaded.find(&key).unwrap());
        if !key.contains("/dist/") || key.strip_suffix(".metadata").is_some() {
            assert_eq!(here.content_type, there.content_type, "{key}");
            assert_eq!(here.cache_control, there.cache_control, "{key}");
        }
    }
    // A bucket knows when its objects came.
    let page = text(&store, "simple/rocm-sdk-core/");
    assert_has!(page, " data-upload-time=\"2");
}

#[test]
fn a_large_wheel_is_indexed_from_a_small_part_of_it() {
    let bench = tempfile::tempdir().unwrap();
    let path = wheel(&bench.path().join("dist"), "rocm-sdk-core", VERSION, "");
    let small = fs_err::read(&path).unwrap();
    let store = stocked(&bench);
    let name = format!("dist/rocm_sdk_core-{VERSION}-py3-none-any.whl");
    put(&store, &name, &with_payload(&small, 5 << 20));
    let busy = Busy::new(store.clone());
    index_in(&busy).unwrap();
    let (requests, bytes) = busy.read_of_wheels();
    assert!(requests <= 3 && bytes <= 300_000, "{requests} {bytes}");
    // No page says what its digest is: all of it is read, once.
    let busy = Busy { forgetful: true, ..Busy::new(stocked(&bench)) };
    put(&busy.inside, &name, &with_payload(&small, 5 << 20));
    index_in(&busy).unwrap();
    let (_, bytes) = busy.read_of_wheels();
    assert!((5 << 20..6 << 20).contains(&bytes), "{bytes}");
    let whole = store.find(&format!("{PLACE}{name}")).unwrap();
    let sha256 = Sha256::of(&whole.bytes).to_string();
    assert!(text(&busy.inside, "SHA256SUMS").starts_with(&sha256));
}

/// The same wheel with so many bytes before everything else.
fn with_payload(wheel: &[u8], len: usize) -> Vec<u8> {
    let mut members = unzip(wheel);
    // They do not get smaller by compression.
    members.insert(0, ("payload.bin".to_owned(), 0o100_644, noise(7, len)));
    zipped(&members)
}

#[test]
fn what_is_remembered_is_not_read_again() {
    let (bench, store) = with_set();
    // The `ETag` of this bucket is no MD5, so only a listing says which one a new sidecar has.
    for _ in 0..2 {
        index_in(&Busy::new(store.clone())).unwrap();
    }
    let busy = Busy::new(store.clone());
    let again = index_in(&busy).unwrap();
    assert_eq!(busy.read_of_wheels(), (0, 0));
    assert_eq!(again.changed, 0);
    wheel(&bench.path().join("dist"), "rocm-sdk-new", "1.0", "");
    let new = "dist/rocm_sdk_new-1.0-py3-none-any.whl";
    put(&store, new, &fs_err::read(bench.path().join(new)).unwrap());
    let busy = Busy::new(store.clone());
    index_in(&busy).unwrap();
    assert_eq!(busy.read_of_wheels().0, 1);
    assert!(text(&store, "simple/index.html").contains("rocm-sdk-new"));
    assert!(text(&store, "simple/").contains("rocm-sdk-new"));
}

#[test]
fn a_project_that_is_gone_from_a_bucket_loses_its_pages() {
    let bench = tempfile::tempdir().unwrap();
    wheels(bench.path());
    wheel(&bench.path().join("dist"), "gone", "1.0", "");
    let store = stocked(&bench);
    index_in(&Busy::new(store.clone())).unwrap();
    put(&store, "simple/gone/notes.txt", b"mine");
    put(&store, "simple/mine/index.html", b"<p>mine");
    // Of Latin-1.
    put(&store, "simple/latin/index.html", b"<p>caf\xe9");
    let gone = format!("{PLACE}dist/gone-1.0-py3-none-any.whl");
    store.delete(&gone.parse().unwrap(), &Condition::Always).unwrap();
    index_in(&Busy::new(store.clone())).unwrap();
    let mut left = store.keys();
    left.retain(|key| key.contains("gone"));
    assert_eq!(left, [format!("{PLACE}simple/gone/notes.txt")]);
    assert!(!text(&store, "simple/").contains("gone"));
    // Other programs wrote these pages.
    assert!(store.keys().contains(&format!("{PLACE}simple/latin/index.html")));
    assert_eq!(text(&store, "simple/mine/index.html"), "<p>mine");
}

#[test]
fn a_page_that_another_job_writes_while_it_is_removed_stays() {
    let bench = tempfile::tempdir().unwrap();
    wheels(bench.path());
    wheel(&bench.path().join("dist"), "gone", "1.0", "");
    let store = stocked(&bench);
    index_in(&Busy::new(store.clone())).unwrap();
    let gone = format!("{PLACE}dist/gone-1.0-py3-none-any.whl");
    store.delete(&gone.parse().unwrap(), &Condition::Always).unwrap();
    let busy = Busy {
        others: Arc::new(AtomicU64::new(1)),
        moment: ("delete", "simple/gone/index.html"),
        other: |store| {
            let place = tempfile::tempdir().unwrap();
            let path = wheel(place.path(), "gone", "2.0", "");
            let name = format!("dist/{}", path.rsplit('/').next().unwrap());
            put(store, &name, &fs_err::read(&path).unwrap());
            index_in(&Busy::new(store.clone())).unwrap();
        },
        ..Busy::new(store.clone())
    };
    index_in(&busy).unwrap();
    for page in ["simple/gone/index.html", "simple/gone/"] {
        assert!(text(&store, page).contains("gone-2.0-py3-none-any.whl"), "{page}");
    }
}

/// A number that was not there before.
fn next() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// Another writer puts a package there, and indexes it.
fn another(store: &MemoryStore) {
    let number = next();
    let place = tempfile::tempdir().unwrap();
    let path = wheel(place.path(), "from-another", &format!("1.{number}"), "");
    let name = format!("dist/{}", path.rsplit('/').next().unwrap());
    put(store, &name, &fs_err::read(&path).unwrap());
    index_in(&Busy::new(store.clone())).unwrap();
}

#[test]
fn of_two_writers_at_once_neither_loses_a_package() {
    let (bench, store) = with_set();
    for first in [true, false] {
        if !first {
            let path = wheel(&bench.path().join("z"), "z", "1.0", "");
            let bytes = fs_err::read(path).unwrap();
            put(&store, "dist/z-1.0-py3-none-any.whl", &bytes);
        }
        let busy = Busy {
            others: Arc::new(AtomicU64::new(1)),
            other: another,
            ..Busy::new(store.clone())
        };
        index_in(&busy).unwrap();
        assert_eq!(busy.others.load(Ordering::Relaxed), 0);
        for page in "simple/index.html simple/ dist/index.html".split(' ') {
            let page = text(&store, page);
            let page = page.replace('_', "-");
            assert_has!(page, "from-another", "rocm-sdk-core");
        }
        assert_eq!(first, !text(&store, "simple/").contains("\"z/\""));
    }
}

#[test]
fn what_another_writer_yanks_while_this_one_begins_stays_yanked() {
    let (_, store) = with_set();
    index_in(&store).unwrap();
    let busy = Busy {
        others: Arc::new(AtomicU64::new(1)),
        moment: ("get", "set.json"),
        other: |store| {
            let set = text(store, "set.json").replace("\"size\"", "\"yanked\": \"bad\", \"size\"");
            put(store, "set.json", set.as_bytes());
        },
        ..Busy::new(store.clone())
    };
    index_in(&busy).unwrap();
    assert_eq!(busy.others.load(Ordering::Relaxed), 0);
    assert!(text(&store, "simple/rocm-sdk-core/").contains("data-yanked=\"bad\""));
}

#[test]
fn a_page_that_another_writer_has_just_added_is_not_left_over() {
    const LATE: &str = "<meta name=\"generator\" content=\"rocwheel\">";
    let (_, store) = with_set();
    let busy = Busy {
        others: Arc::new(AtomicU64::new(1)),
        other: |store| put(store, "simple/late/index.html", LATE.as_bytes()),
        ..Busy::new(store.clone())
    };
    index_in(&busy).unwrap();
    assert_eq!(text(&store, "simple/late/index.html"), LATE);
    // Nothing came of it until the next time.
    index_in(&Busy::new(store.clone())).unwrap();
    assert!(!store.keys().iter().any(|key| key.contains("late")));
}

#[test]
#[ignore = "slow"]
fn uploads_that_never_stop_interfering_are_an_error() {
    let (_, store) = with_set();
    let busy = Busy {
        others: Arc::new(AtomicU64::new(100)),
        other: |store| put(store, "simple/index.html", next().as_bytes()),
        ..Busy::new(store)
    };
    let error = index_in(&busy).unwrap_err();
    assert_eq!(Exit::of(&error), Exit::No);
    let said = render(&error);
    let (headline, cause) = said.split_once('\n').unwrap();
    assert_eq!(
        headline,
        "error: other jobs published meanwhile in all 8 attempts: `memory:/42-linux/python`"
    );
    assert_has!(
        cause,
        "another writer came first, with other bytes: `simple/index.html`",
        "hint: repeat the command when they are done"
    );
}
