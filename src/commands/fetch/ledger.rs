//! What was fetched into a directory: recorded when it was whole, so that nothing has to be guessed
//! from a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::boot::{self, Boot, Settled};
use crate::{
    digest::Sha256,
    error::{Context as _, Result},
};

const FILE_NAME: &str = ".rocwheel-fetch.json";
const SCHEMA: &str = "rocwheel-fetch-ledger-v1";

/// The record of a directory, kept up to date on disk.
#[derive(Debug)]
pub struct Ledger {
    directory: PathBuf,
    boot: Option<Boot>,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// The packages that what is there is enough for, if it is not all of a run's.
    only: Mutex<BTreeSet<String>>,
}

/// What a fetch is to be enough for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enough {
    ForAll,
    /// For packages of these names.
    For(Vec<String>),
    /// For nothing in particular.
    Unknown,
}

/// Something that was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Where it came from.
    pub from: String,
    /// What was read for it.
    pub size: u64,
    pub sha256: Sha256,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// What it came to on disk.
    pub extent: Extent,
    /// The boot in which it was written, until it is known to be on the disk: what was not when the
    /// machine went down has its length on some file systems, and other bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<Boot>,
}

/// How much there is at a path; links are not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extent {
    pub files: u64,
    pub links: u64,
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    only: BTreeSet<String>,
    fetched: BTreeMap<String, Entry>,
}

impl Ledger {
    /// A record that is not there or cannot be understood is an empty one.
    pub fn read(directory: &Path) -> Result<Self> {
        Self::read_in(directory, Boot::current())
    }

    fn read_in(directory: &Path, boot: Option<Boot>) -> Result<Self> {
        let text = match fs::read_to_string(directory.join(FILE_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let document: Option<Document> = serde_json::from_str(&text).ok();
        let document = document.filter(|document| document.schema == SCHEMA);
        let (fetched, only) = document.map(|it| (it.fetched, it.only)).unwrap_or_default();
        Ok(Self {
            directory: directory.to_owned(),
            boot,
            entries: Mutex::new(fetched),
            only: Mutex::new(only),
        })
    }

    /// The packages that what is there is enough for, if it is not all of a run's.
    pub fn only(&self) -> Vec<String> {
        let only = self.only.lock().unwrap_or_else(PoisonError::into_inner);
        only.iter().cloned().collect()
    }

    /// Before anything is fetched: where all of a run was, it stays so.
    pub fn begin(&self, enough: &Enough) -> Result<()> {
        let Enough::For(names) = enough else {
            return Ok(());
        };
        self.change(|entries| {
            let mut only = self.only.lock().unwrap_or_else(PoisonError::into_inner);
            let before = only.len();
            if before > 0 || entries.is_empty() {
                only.extend(names.iter().cloned());
            }
            only.len() > before
        })
    }

    /// Once all of it is there.
    pub fn end(&self, enough: &Enough) -> Result<()> {
        self.change(|_| {
            let mut only = self.only.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = *enough == Enough::ForAll && !only.is_empty();
            if is_new {
                only.clear();
            }
            is_new
        })
    }

    /// What is recorded of a name, if what lies there is still as it was then.
    pub fn whole(&self, name: &str) -> Result<Option<Entry>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(name).cloned();
        drop(entries);
        let is_known = |entry: &Entry| entry.unsettled.is_none() || entry.unsettled == self.boot;
        let Some(entry) = entry.filter(is_known) else {
            return Ok(None);
        };
        let there = Extent::of(&self.directory.join(name))?;
        Ok((there == Some(entry.extent)).then_some(entry))
    }

    /// The names of what came from elsewhere, each with where from, as far as something lies there.
    pub fn others_than(&self, from: &str) -> Vec<(String, String)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let others = entries.iter().filter(|(name, entry)| {
            entry.from != from && fs::symlink_metadata(self.directory.join(name)).is_ok()
        });
        others
            .map(|(name, entry)| (name.clone(), entry.from.clone()))
            .collect()
    }

    /// Before a name is written to.
    pub fn forget(&self, name: &str) -> Result<()> {
        self.change(|entries| entries.remove(name).is_some())
    }

    /// Once a name is whole.
    pub fn record(&self, name: &str, entry: Entry) -> Result<()> {
        let unsettled = self.boot.clone();
        self.change(|entries| {
            entries.insert(name.to_owned(), Entry { unsettled, ..entry });
            true
        })
    }

    /// Has on the disk what was written in this boot, and records that it is.
    pub fn settle(&self) -> Result<()> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let of_now = |entry: &Entry| entry.unsettled.is_some() && entry.unsettled == self.boot;
        let is_due = entries.values().any(of_now);
        drop(entries);
        if !is_due {
            return Ok(());
        }
        let settled =
            boot::settle(&self.directory).context("write to the disk what was fetched")?;
        if settled == Settled::Unknown {
            return Ok(());
        }
        self.change(|entries| {
            for entry in entries.values_mut().filter(|entry| of_now(entry)) {
                entry.unsettled = None;
            }
            true
        })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> bool) -> Result<()> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if !change(&mut entries) {
            return Ok(());
        }
        let only = self.only.lock().unwrap_or_else(PoisonError::into_inner);
        let document = Document {
            schema: SCHEMA.to_owned(),
            only: only.clone(),
            fetched: entries.clone(),
        };
        drop(only);
        let mut text = serde_json::to_string_pretty(&document)?;
        text.push('\n');
        let path = self.directory.join(FILE_NAME);
        let part = self.directory.join(format!("{FILE_NAME}.part"));
        fs::create_dir_all(&self.directory)?;
        // The lock is held, so that an older record cannot replace a newer one.
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &path))
            .inspect_err(|_| {
                // There is an error to report already.
                let _ = fs::remove_file(&part);
            })
            .context("record what was fetched")
    }
}

impl Extent {
    /// Nothing, where nothing is.
    pub fn of(path: &Path) -> Result<Option<Self>> {
        let mut extent = Self::default();
        let mut paths = vec![path.to_owned()];
        while let Some(path) = paths.pop() {
            let found = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                found => found?,
            };
            if found.is_dir() {
                for entry in fs::read_dir(&path)? {
                    paths.push(entry?.path());
                }
            } else if found.is_symlink() {
                extent.links += 1;
            } else {
                extent.files += 1;
                extent.bytes += found.len();
            }
        }
        Ok(Some(extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(directory: &Path, name: &str) -> Entry {
        Entry {
            from: "s3://bucket/1-linux".to_owned(),
            size: 3,
            sha256: Sha256::of(b"abc"),
            etag: Some("\"1\"".to_owned()),
            extent: Extent::of(&directory.join(name)).unwrap().unwrap(),
            unsettled: None,
        }
    }

    #[test]
    fn what_was_recorded_is_whole_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::create_dir_all(at.join("a/sub")).unwrap();
        fs::write(at.join("a/sub/x"), "abc").unwrap();
        let ledger = Ledger::read(at).unwrap();
        assert_eq!(ledger.whole("a").unwrap(), None, "it was not recorded");
        ledger.record("a", entry(at, "a")).unwrap();

        let again = Ledger::read(at).unwrap();
        let found = again.whole("a").unwrap().unwrap();
        assert_eq!(found.extent, entry(at, "a").extent);
        fs::write(at.join("a/sub/x"), "ab").unwrap();
        assert_eq!(again.whole("a").unwrap(), None, "a shorter file");
        fs::write(at.join("a/sub/x"), "abc").unwrap();
        fs::write(at.join("a/y"), "").unwrap();
        assert_eq!(again.whole("a").unwrap(), None, "one file more");
        fs::remove_dir_all(at.join("a")).unwrap();
        assert_eq!(again.whole("a").unwrap(), None, "nothing at all");
    }

    #[test]
    fn a_record_that_cannot_be_written_leaves_no_part_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("a"), "abc").unwrap();
        let ledger = Ledger::read(at).unwrap();
        fs::create_dir(at.join(FILE_NAME)).unwrap();
        ledger.record("a", entry(at, "a")).unwrap_err();
        assert_eq!(fs::read_dir(at).unwrap().count(), 2);
    }

    #[test]
    fn what_may_not_have_been_on_the_disk_when_the_machine_went_down_is_not_whole() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for name in ["a", "b", "c"] {
            fs::write(at.join(name), "abc").unwrap();
        }
        let boot = |id: &str| serde_json::from_str::<Boot>(&format!("{id:?}")).unwrap();
        let whole = |boot: Option<Boot>| -> Vec<bool> {
            let ledger = Ledger::read_in(at, boot).unwrap();
            let names = ["a", "b", "c"].into_iter();
            names
                .map(|name| ledger.whole(name).unwrap().is_some())
                .collect()
        };
        let first = Ledger::read_in(at, Some(boot("1"))).unwrap();
        first.record("a", entry(at, "a")).unwrap();
        first.settle().unwrap();
        first.record("b", entry(at, "b")).unwrap();
        assert_eq!(whole(Some(boot("1"))), [true, true, false]);
        assert_eq!(whole(Some(boot("2"))), [true, false, false]);
        // What another boot has left is not settled by this one.
        let second = Ledger::read_in(at, Some(boot("2"))).unwrap();
        second.record("c", entry(at, "c")).unwrap();
        second.settle().unwrap();
        assert_eq!(whole(Some(boot("3"))), [true, false, true]);
        // Where nothing is known of boots, nothing can be told apart.
        let unknown = Ledger::read_in(at, None).unwrap();
        unknown.record("b", entry(at, "b")).unwrap();
        assert_eq!(whole(Some(boot("3"))), [true, true, true]);
    }

    #[test]
    fn what_is_enough_for_some_packages_is_known_until_all_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("a"), "abc").unwrap();
        let fetch = |enough: Enough| {
            let ledger = Ledger::read(at).unwrap();
            ledger.begin(&enough).unwrap();
            ledger.record("a", entry(at, "a")).unwrap();
            let interrupted = Ledger::read(at).unwrap().only().join(" ");
            ledger.end(&enough).unwrap();
            (interrupted, Ledger::read(at).unwrap().only().join(" "))
        };
        let some = |names: &[&str]| Enough::For(names.iter().map(ToString::to_string).collect());
        let both = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(fetch(some(&["core"])), both("core"));
        assert_eq!(fetch(some(&["devel", "core"])), both("core devel"));
        assert_eq!(fetch(Enough::Unknown), both("core devel"));
        assert_eq!(fetch(Enough::ForAll), ("core devel".into(), String::new()));
        assert_eq!(fetch(some(&["core"])), both(""), "all was there before");
    }

    #[test]
    fn what_is_forgotten_is_not_whole() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("a"), "abc").unwrap();
        let ledger = Ledger::read(at).unwrap();
        ledger.record("a", entry(at, "a")).unwrap();
        ledger.forget("a").unwrap();
        assert_eq!(Ledger::read(at).unwrap().whole("a").unwrap(), None);
    }

    #[test]
    fn a_record_that_cannot_be_understood_is_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a"), "abc").unwrap();
        for text in ["", "{", "[]", r#"{"schema": "other", "fetched": {}}"#] {
            fs::write(directory.path().join(FILE_NAME), text).unwrap();
            let ledger = Ledger::read(directory.path()).unwrap();
            assert_eq!(ledger.whole("a").unwrap(), None, "{text}");
        }
    }
}
