//! What every store promises: one run that ends in an error where a promise is broken.
//!
//! A directory runs it here; a server's store runs it against the server. It leaves nothing behind.

use std::{
    io::{self, Read},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, anyhow, ensure, render},
};
use rocwheel_store::{
    Body, Condition, Depth, PutOptions, Span, Store, StoreError, StoreFailureKind,
    local::LocalStore, location::Key,
};

use crate::support::memory::MemoryStore;

#[test]
fn a_directory_keeps_the_promises_of_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::new(directory.path().join("bucket +%é"));
    let prefixes = ["", "1-linux/a+b/"];
    let kept = prefixes.map(|prefix| contract(&store, prefix, Pages::Kept));
    if let Some(error) = kept.into_iter().find_map(Result::err) {
        panic!("{}", render(&error));
    }
}

#[test]
fn a_store_that_is_like_s3_keeps_the_promises_of_a_store() {
    for prefix in ["", "1-linux/"] {
        contract(&MemoryStore::default(), prefix, Pages::Kept).unwrap();
    }
}

/// Whether the bytes of a key that ends in `/` come back.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pages {
    Kept,
    /// By servers that keep objects in a file system, and so take such a key for a directory.
    Lost,
}

type Promise<'a> = (&'static str, fn(&Bench<'a>) -> Result<()>);

/// Runs it in an empty store, under `prefix`, which is empty or ends in `/`.
pub(crate) fn contract(store: &dyn Store, prefix: &str, pages: Pages) -> Result<()> {
    let bench = Bench { store, prefix };
    let raced = bench.one_of_many_writers_wins();
    raced.context("one of many writers wins")?;
    contract_in_turn(store, prefix, pages)
}

/// The same, but for writers of one key at one time, which not every server tells apart.
pub(crate) fn contract_in_turn(store: &dyn Store, prefix: &str, pages: Pages) -> Result<()> {
    let promises: [Promise; 7] = [
        ("what is put can be read", Bench::what_is_put_can_be_read),
        ("absent things are absent", Bench::absent_things_are_not_found),
        ("keys are taken literally", Bench::keys_are_taken_literally),
        ("a listing is whole", Bench::a_listing_is_whole_and_in_order),
        ("conditions hold", Bench::conditions_hold),
        ("promises are checked", Bench::promised_bytes_are_checked),
        ("a directory has a page", Bench::a_directory_has_a_page),
    ];
    let bench = Bench { store, prefix };
    let kept = promises.len() - usize::from(pages == Pages::Lost);
    for (what, promise) in &promises[..kept] {
        promise(&bench).context(*what)?;
    }
    let left = store.list(None, Depth::All)?;
    ensure!(left.is_empty(), "objects are left: {left:?}");
    Ok(())
}

struct Bench<'a> {
    store: &'a dyn Store,
    prefix: &'a str,
}

impl Bench<'_> {
    fn key(&self, name: &str) -> Result<Key> {
        let text = format!("{}{name}", self.prefix);
        text.parse().map_err(|error| anyhow!("{error}"))
    }

    fn put(&self, key: &Key, bytes: &[u8], condition: Condition) -> Result<(), StoreError> {
        self.store.put(key, &bytes, &options("application/zip", condition, None)).map(drop)
    }

    fn read(&self, key: &Key, span: Span) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.store.get(key, span)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn holds(&self, key: &Key, bytes: &[u8]) -> Result<()> {
        let read = self.read(key, Span::Whole)?;
        ensure!(read == bytes, "`{key}` holds: {read:?}");
        Ok(())
    }

    fn what_is_put_can_be_read(&self) -> Result<()> {
        let key = self.key("dist/a.whl")?;
        self.put(&key, b"0123456789", Condition::Always)?;
        let spans = [
            (Span::Whole, "0123456789"),
            (Span::From(7), "789"),
            (Span::From(10), ""),
            (Span::From(99), ""),
            (Span::Between(2..4), "23"),
            (Span::Between(8..99), "89"),
        ];
        for (span, expected) in spans {
            let read = self.read(&key, span.clone())?;
            ensure!(read == expected.as_bytes(), "{span:?} gives: {read:?}");
        }
        let object = self.store.head(&key)?;
        let is_it = object.size == 10 && object.key == key;
        ensure!(is_it, "head says: {object:?}");
        let kind = object.content_type.unwrap_or_default();
        ensure!(kind == "application/zip", "head says the type is: {kind}");
        let sha256 = object.sha256.unwrap_or(Sha256::of(b"0123456789"));
        ensure!(sha256 == Sha256::of(b"0123456789"), "another digest");
        self.put(&key, b"", Condition::Always)?;
        self.holds(&key, b"")?;
        Ok(self.store.delete(&key, &Condition::Always)?)
    }

    fn absent_things_are_not_found(&self) -> Result<()> {
        let key = self.key("no/such.whl")?;
        expect(StoreFailureKind::NotFound, self.store.head(&key))?;
        let read = self.store.get(&key, Span::Whole).map(drop);
        expect(StoreFailureKind::NotFound, read)?;
        let listed = self.store.list(Some(&self.key("no")?), Depth::All)?;
        ensure!(listed.is_empty(), "something is listed: {listed:?}");
        Ok(self.store.delete(&key, &Condition::Always)?)
    }

    fn keys_are_taken_literally(&self) -> Result<()> {
        let odd = ["a+b c%2B%.whl", "é&'(x).whl", "a b.whl"];
        let names = odd.into_iter().chain(["A+B.whl", ".hidden"]);
        for name in names.clone() {
            let key = self.key(&format!("odd/{name}"))?;
            self.put(&key, name.as_bytes(), Condition::IfAbsent)?;
        }
        for name in names {
            let key = self.key(&format!("odd/{name}"))?;
            let read = self.read(&key, Span::Whole)?;
            ensure!(read == name.as_bytes(), "`{name}` holds: {read:?}");
            self.store.delete(&key, &Condition::Always)?;
        }
        Ok(())
    }

    fn a_listing_is_whole_and_in_order(&self) -> Result<()> {
        let names = "run/b.whl run/a/x.whl run/a.whl run/a/b/c.whl run-2/a.whl";
        let mut names: Vec<&str> = names.split(' ').collect();
        for name in &names {
            self.put(&self.key(name)?, name.as_bytes(), Condition::Always)?;
        }
        names.sort_unstable();
        let list = |directory: &str, depth| -> Result<Vec<String>> {
            let directory = self.key(directory)?;
            let objects = self.store.list(Some(&directory), depth)?;
            let keys = objects.iter().map(|object| object.key.as_str());
            let names = keys.map(|key| key.strip_prefix(self.prefix).unwrap_or(key).to_owned());
            Ok(names.collect())
        };
        let (all, top) = (list("run", Depth::All)?, list("run/", Depth::Children)?);
        ensure!(all == names[1..], "all are: {all:?}");
        ensure!(top == ["run/a.whl", "run/b.whl"], "children are: {top:?}");
        let whole = self.store.list(None, Depth::All)?;
        ensure!(whole.len() == names.len(), "in all are: {whole:?}");
        let mut names = names.iter();
        names.try_for_each(|name| Ok(self.store.delete(&self.key(name)?, &Condition::Always)?))
    }

    fn conditions_hold(&self) -> Result<()> {
        let key = self.key("once.whl")?;
        self.put(&key, b"first", Condition::IfAbsent)?;
        let second = self.put(&key, b"second", Condition::IfAbsent);
        expect(StoreFailureKind::Exists, second)?;
        self.holds(&key, b"first")?;
        self.put(&key, b"third", Condition::Always)?;
        self.holds(&key, b"third")?;
        let seen = self.store.head(&key)?.etag;
        let seen = seen.context("an object without a mark")?;
        self.put(&key, b"fourth", Condition::IfSame(seen.clone()))?;
        let fifth = self.put(&key, b"fifth", Condition::IfSame(seen));
        expect(StoreFailureKind::Exists, fifth)?;
        self.holds(&key, b"fourth")?;
        let now = self.store.head(&key)?.etag.context("an object without a mark")?;
        let other = format!("{now}0");
        expect(StoreFailureKind::Exists, self.store.delete(&key, &Condition::IfSame(other)))?;
        self.holds(&key, b"fourth")?;
        let listed = self.store.list(None, Depth::All)?;
        let listed = listed.into_iter().find(|object| object.key == key);
        let (listed, head) = (listed.context("not listed")?, self.store.head(&key)?);
        let is_same = listed.etag.is_none() || listed.etag == head.etag;
        let is_marked = is_same && listed.modified.is_some();
        ensure!(is_marked, "listed in another way: {listed:?} {head:?}");
        // What is gone already is no error.
        self.store.delete(&key, &Condition::IfSame(now.clone()))?;
        expect(StoreFailureKind::NotFound, self.store.head(&key))?;
        Ok(self.store.delete(&key, &Condition::IfSame(now))?)
    }

    fn one_of_many_writers_wins(&self) -> Result<()> {
        let key = self.key("race.whl")?;
        let start = Barrier::new(4);
        let write = |bytes| {
            let body = Together(bytes, &start, AtomicBool::new(false));
            let options = options("application/zip", Condition::IfAbsent, None);
            self.store.put(&key, &body, &options).map(drop)
        };
        let texts: [&[u8]; 4] = [b"aaaa", b"bbbb", b"cccc", b"dddd"];
        let answers = thread::scope(|scope| {
            let writers = texts.map(|bytes| scope.spawn(|| write(bytes)));
            writers.map(|writer| writer.join().map_err(|_| anyhow!("a writer panicked")))
        });
        let mut winners = Vec::new();
        for (answer, bytes) in answers.into_iter().zip(texts) {
            match answer? {
                Ok(()) => winners.push(bytes),
                Err(error) => expect(StoreFailureKind::Exists, Err::<(), _>(error))?,
            }
        }
        let read = self.read(&key, Span::Whole)?;
        let is_one = winners == [read.as_slice()];
        ensure!(is_one, "of the winners {winners:?} it holds: {read:?}");
        Ok(self.store.delete(&key, &Condition::Always)?)
    }

    fn promised_bytes_are_checked(&self) -> Result<()> {
        let key = self.key("promised.whl")?;
        let wrong = options("application/zip", Condition::Always, Some(Sha256::of(b"b")));
        let put = self.store.put(&key, &b"a".as_slice(), &wrong);
        expect(StoreFailureKind::Differs, put)?;
        expect(StoreFailureKind::NotFound, self.store.head(&key))?;
        let right = options("application/zip", Condition::Always, Some(Sha256::of(b"a")));
        self.store.put(&key, &b"a".as_slice(), &right)?;
        let put = self.store.put(&key, &b"c".as_slice(), &wrong);
        expect(StoreFailureKind::Differs, put)?;
        self.holds(&key, b"a")?;
        Ok(self.store.delete(&key, &Condition::Always)?)
    }

    fn a_directory_has_a_page(&self) -> Result<()> {
        for kind in ["text/html; charset=utf-8", "application/vnd.pypi.simple.v1+json"] {
            let key = self.key("simple/rocm/")?;
            let options = options(kind, Condition::Always, None);
            self.store.put(&key, &b"page".as_slice(), &options)?;
            self.holds(&key, b"page")?;
            let size = self.store.head(&key)?.size;
            ensure!(size == 4, "the page has {size} bytes");
            self.store.delete(&key, &Condition::Always)?;
            expect(StoreFailureKind::NotFound, self.store.head(&key))?;
        }
        Ok(())
    }
}

/// Bytes that are not to be had before every writer asked for his: by then each of them has seen
/// that nothing is there.
struct Together<'a>(&'a [u8], &'a Barrier, AtomicBool);

impl Body for Together<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + Send + '_>> {
        if !self.2.swap(true, Ordering::Relaxed) {
            self.1.wait();
        }
        self.0.read_from(offset)
    }
}

fn options(kind: &str, condition: Condition, sha256: Option<Sha256>) -> PutOptions {
    PutOptions {
        content_type: kind.to_owned(),
        cache_control: Some("no-cache".to_owned()),
        condition,
        sha256,
    }
}

fn expect<T>(kind: StoreFailureKind, answer: Result<T, StoreError>) -> Result<()> {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(error).context(format!("{kind:?} was expected")),
        Ok(_) => Err(anyhow!("{kind:?} was expected, and it succeeded")),
    }
}
