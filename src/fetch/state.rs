//! The state file of a fetch directory, `.rocwheel-fetch.json`: which artifacts were wanted, and
//! which of them are complete on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::{
    atomic::AtomicFile,
    console::{few, many},
    digest::Sha256,
    error::{Context as _, No, Result, ensure, hinted},
};

const FILE_NAME: &str = ".rocwheel-fetch.json";
const SCHEMA: &str = "rocwheel-fetch-state-v1";

/// The state of a fetch directory, kept up to date on disk.
///
/// The names of the wanted artifacts are written before the first byte is downloaded, and an
/// artifact is recorded only when all of it is on disk. So after a fetch was killed, at any moment,
/// the state shows that it is incomplete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FetchState {
    #[serde(skip)]
    directory: PathBuf,
    schema: String,
    /// The place that the wanted artifacts come from.
    from: String,
    /// The names of all selected artifacts.
    wanted: BTreeSet<String>,
    /// The packages that can be built from the artifacts; empty if all packages of the run can be.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    only: BTreeSet<String>,
    pub fetched: BTreeMap<String, Fetched>,
}

/// Which packages can be built from the selected artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sufficiency {
    /// All packages of the run.
    All,
    /// The packages of these names.
    Only(Vec<String>),
    /// Unknown, because the user selected by patterns or components.
    Unknown,
}

/// An artifact that is completely fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fetched {
    pub from: String,
    /// Size of the archive, or of the zip file that contained it.
    pub size: u64,
    pub sha256: Sha256,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// What it is on disk. `None` once its files are part of a merged tree.
    pub extent: Option<PathExtent>,
}

/// Counts of everything below a path, to detect that something changed. Symlinks are not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathExtent {
    pub files: usize,
    links: usize,
    pub bytes: u64,
}

impl FetchState {
    /// Reads the state of a directory. A missing or unreadable state is an empty one: then
    /// everything is fetched again.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let state = read(directory)?.and_then(Result::ok);
        Ok(Self {
            directory: directory.to_owned(),
            ..state.unwrap_or_default()
        })
    }

    /// Records the wanted artifacts. Call it before the first download.
    ///
    /// The due artifacts lose their entries: otherwise, if this fetch is killed, an old artifact
    /// could pass for the new one.
    ///
    /// A directory that is complete for all packages stays so: `enough` does not narrow it.
    pub(super) fn begin(
        &mut self,
        from: &str,
        wanted: BTreeSet<String>,
        due: &BTreeSet<String>,
        enough: &Sufficiency,
    ) -> Result<()> {
        self.change(|state| {
            if let Sufficiency::Only(names) = enough
                && (state.wanted.is_empty() || !state.only.is_empty())
            {
                state.only.extend(names.iter().cloned());
            }
            if state.from != from {
                from.clone_into(&mut state.from);
                state.wanted.clear();
            }
            state.wanted.extend(wanted);
            state.fetched.retain(|name, _| !due.contains(name));
        })
    }

    /// Records artifacts that are complete.
    pub(super) fn record(&mut self, fetched: Vec<(String, Fetched)>) -> Result<()> {
        self.change(|state| state.fetched.extend(fetched))
    }

    pub(super) fn forget(&mut self, name: &str) -> Result<()> {
        self.change(|state| drop(state.fetched.remove(name)))
    }

    /// Call it after the last download. If the artifacts are enough for all packages, the list of
    /// packages is cleared.
    pub(super) fn end(&mut self, enough: &Sufficiency) -> Result<()> {
        self.change(|state| state.only.retain(|_| *enough != Sufficiency::All))
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        let before = self.clone();
        change(self);
        if *self == before {
            return Ok(());
        }
        SCHEMA.clone_into(&mut self.schema);
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        let path = self.directory.join(FILE_NAME);
        fs::create_dir_all(&self.directory)?;
        // Write, sync, rename, in this order. Without the sync, a machine that crashes may come
        // back with a state that names files whose bytes never reached the disk: some file systems
        // then show the right length, and zeros. One sync of the file system takes far less time
        // than one for each file.
        let write = || -> io::Result<()> {
            let mut file = AtomicFile::beside(&path)?;
            file.write_all(text.as_bytes())?;
            sync_file_system(&self.directory)?;
            file.replace(&path)
        };
        write().context("failed to record what was fetched")
    }
}

/// The packages that the artifacts in a directory were fetched for; empty if they are for all.
///
/// Fails if a fetch into the directory is incomplete. A directory without a state was not filled by
/// `fetch`, so nothing can be checked.
pub fn fetched_for(directory: &Path) -> Result<Vec<String>> {
    let Some(state) = read(directory)? else {
        return Ok(Vec::new());
    };
    let state = state.map_err(|error| {
        let path = directory.join(FILE_NAME);
        let text = format!("failed to read `{}`: {error}", path.display());
        hinted(No(text), "run the same `rocwheel fetch` again")
    })?;
    let missing = |name: &&String| !state.fetched.contains_key(*name);
    let missing: Vec<_> = state.wanted.iter().filter(missing).collect();
    if missing.is_empty() {
        return Ok(state.only.into_iter().collect());
    }
    let text = format!(
        "the fetch into `{}` did not end: {} of {} missing: {}",
        directory.display(),
        missing.len(),
        many(state.wanted.len(), "artifact"),
        few(missing.into_iter().map(|name| format!("`{name}`")))
    );
    let hint = "run the same `rocwheel fetch` again: it fetches only what is missing";
    Err(hinted(No(text), hint))
}

/// `None` if there is no state; an inner error if it is damaged or has another schema.
fn read(directory: &Path) -> Result<Option<Result<FetchState>>> {
    let text = match fs::read_to_string(directory.join(FILE_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let parse = || -> Result<FetchState> {
        let state: FetchState = serde_json::from_str(&text)?;
        ensure!(state.schema == SCHEMA, "expected schema `{SCHEMA}`");
        Ok(state)
    };
    Ok(Some(parse()))
}

#[cfg(target_os = "linux")]
fn sync_file_system(directory: &Path) -> io::Result<()> {
    let directory = fs::File::open(directory)?;
    match rustix::fs::syncfs(&directory).map_err(io::Error::from) {
        // Sandboxes and old kernels may lack or forbid `syncfs`. Then go on without it: the sync
        // only matters if the machine crashes.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::Unsupported
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_directory: &Path) -> io::Result<()> {
    Ok(())
}

impl PathExtent {
    /// `None` if nothing exists at the path, or if something in it is removed meanwhile.
    pub(super) fn of(path: &Path) -> Result<Option<Self>> {
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
    use crate::error::render;

    fn names(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    fn fetched(from: &str) -> Fetched {
        Fetched {
            from: from.to_owned(),
            size: 3,
            sha256: Sha256::of(b"abc"),
            etag: Some("\"1\"".to_owned()),
            extent: Some(PathExtent::default()),
        }
    }

    /// Wants some artifacts of a run, and fetches others.
    fn fetch(at: &Path, from: &str, wanted: &str, done: &str) {
        let mut state = FetchState::read(at).unwrap();
        let due = names(wanted);
        state
            .begin(from, names(wanted), &due, &Sufficiency::All)
            .unwrap();
        let done = names(done).into_iter().map(|name| (name, fetched(from)));
        state.record(done.collect()).unwrap();
    }

    fn verdict(at: &Path) -> String {
        match fetched_for(at) {
            Ok(only) => format!("whole {only:?}"),
            Err(error) => render(&error).replace(at.to_str().unwrap(), "OUT"),
        }
    }

    #[test]
    fn a_fetch_is_whole_once_all_that_was_wanted_is_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        assert_eq!(verdict(at), "whole []", "it was not fetched");
        fetch(at, "run 1", "a b c", "");
        insta::assert_snapshot!(verdict(at), @"
        error: the fetch into `OUT` did not end: 3 of 3 artifacts missing: `a`, `b`, `c`

        hint: run the same `rocwheel fetch` again: it fetches only what is missing
        ");
        fetch(at, "run 1", "a b", "a b");
        assert!(verdict(at).contains("1 of 3 artifacts missing: `c`"));
        fetch(at, "run 1", "c", "c");
        assert_eq!(verdict(at), "whole []");
        // What is due again is not there, although an older one is.
        fetch(at, "run 1", "a", "");
        assert!(verdict(at).contains("1 of 3 artifacts missing: `a`"));
        // Another run is another whole.
        fetch(at, "run 2", "a d", "a d");
        assert_eq!(verdict(at), "whole []");
    }

    #[test]
    fn a_state_that_cannot_be_read_is_not_a_whole_fetch() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for text in ["", "{", "[]", r#"{"schema": "other", "fetched": {}}"#] {
            fs::write(at.join(FILE_NAME), text).unwrap();
            assert!(verdict(at).contains("failed to read"), "{text}");
            assert_eq!(
                FetchState::read(at).unwrap().fetched.get("a"),
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_enough_for_some_packages_is_known_until_all_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let fetch = |enough: Sufficiency| {
            let mut state = FetchState::read(at).unwrap();
            state
                .begin("run 1", names("a"), &names("a"), &enough)
                .unwrap();
            state
                .record(vec![("a".to_owned(), fetched("run 1"))])
                .unwrap();
            let interrupted = fetched_for(at).unwrap().join(" ");
            state.end(&enough).unwrap();
            (interrupted, fetched_for(at).unwrap().join(" "))
        };
        let some =
            |names: &[&str]| Sufficiency::Only(names.iter().map(ToString::to_string).collect());
        let both = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(fetch(some(&["core"])), both("core"));
        assert_eq!(fetch(some(&["devel", "core"])), both("core devel"));
        assert_eq!(fetch(Sufficiency::Unknown), both("core devel"));
        assert_eq!(
            fetch(Sufficiency::All),
            ("core devel".into(), String::new())
        );
        assert_eq!(fetch(some(&["core"])), both(""), "all was there before");
    }

    #[test]
    fn a_state_that_cannot_be_written_leaves_no_part_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let mut state = FetchState::read(at).unwrap();
        fs::create_dir(at.join(FILE_NAME)).unwrap();
        state
            .record(vec![("a".to_owned(), fetched("run 1"))])
            .unwrap_err();
        assert_eq!(fs::read_dir(at).unwrap().count(), 1);
    }

    #[test]
    fn an_extent_changes_with_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::create_dir_all(at.join("a/sub")).unwrap();
        fs::write(at.join("a/sub/x"), "abc").unwrap();
        let of = || PathExtent::of(&at.join("a")).unwrap();
        let before = of();
        fs::write(at.join("a/sub/x"), "ab").unwrap();
        assert_ne!(of(), before, "a shorter file");
        fs::write(at.join("a/sub/x"), "abc").unwrap();
        assert_eq!(of(), before);
        fs::write(at.join("a/y"), "").unwrap();
        assert_ne!(of(), before, "one file more");
        fs::remove_dir_all(at.join("a")).unwrap();
        assert_eq!(of(), None);
    }
}
