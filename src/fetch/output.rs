//! The directory that artifacts are fetched to, and its state file, `.rocwheel-fetch.json`: which
//! artifacts were wanted, and which of them are complete on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::{merge, source::ArtifactArchive};
use crate::{
    artifact::ArtifactName,
    run::{ForeignCode, Provenance, run_of_prefix},
};
use rocwheel_base::{
    atomic::{self, AtomicFile},
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, ensure, hinted},
    io::read_text,
    quantity::{few, many},
};

/// The directory in an install tree where artifacts wait until they are merged into it.
pub(super) const WORK: &str = ".rocwheel-fetch";

/// The state of the fetch that made an install tree, in the tree.
pub(super) const TREE_RECORD: &str = ".rocwheel-tree.json";

/// The form in which artifacts are kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputForm {
    /// One directory for each artifact, with its contents.
    Unpacked,
    /// The archives as they were downloaded.
    Packed,
    /// One install tree with the contents of all artifacts (`--flatten`).
    Merged,
}

/// The output directory and the recorded state of the artifacts in it.
#[derive(Debug)]
pub(super) struct OutputDir {
    pub root: PathBuf,
    pub form: OutputForm,
    /// The directory that archives are fetched to: `root`, or a directory inside the install tree.
    pub work: PathBuf,
    /// The state of the artifacts in `work`, or of the artifacts that the tree was made of, when the
    /// directory was opened.
    pub state: FetchState,
    /// Whether `root` is a complete install tree.
    pub is_tree: bool,
}

impl OutputForm {
    /// The name of an archive's file or directory in [`OutputDir::work`].
    pub(super) fn name(self, archive: &ArtifactArchive) -> String {
        match self {
            Self::Unpacked | Self::Merged => archive.name.artifact.file_name(),
            Self::Packed => archive.name.file_name(),
        }
    }
}

impl OutputDir {
    pub(super) fn open(root: &Path, form: OutputForm) -> Result<Self> {
        if fs::metadata(root).is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(anyhow!("not a directory: `{}`", root.display()))
                .hint("choose another `--output-dir`");
        }
        let work = match form {
            OutputForm::Merged => root.join(WORK),
            OutputForm::Unpacked | OutputForm::Packed => root.to_owned(),
        };
        let record = root.join(TREE_RECORD);
        let is_tree = form == OutputForm::Merged && record.exists();
        let file = if is_tree { record } else { work.join(FILE_NAME) };
        Ok(Self { state: FetchState::read(&file)?, is_tree, root: root.to_owned(), form, work })
    }

    /// The recorded state of an archive if all of it is still on disk, otherwise `None`.
    pub(super) fn find_whole(&self, archive: &ArtifactArchive) -> Result<Option<&Fetched>> {
        let name = self.form.name(archive);
        let Some(fetched) = self.state.fetched.get(&name) else {
            return Ok(None);
        };
        // The files of a tree are no longer apart by artifact. Its record is written last, so it has all.
        let is_whole =
            self.is_tree || PathExtent::of(&self.work.join(name))? == Some(fetched.extent);
        Ok(is_whole.then_some(fetched))
    }

    /// Whether anything of this name is on disk, complete or not.
    pub(super) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.work.join(name)).is_ok()
    }

    /// Opens the directory after finishing the renames of a fetch that was killed, and removing its
    /// partial downloads.
    ///
    /// Call it only while holding the lock: without it, another fetch may still be writing these
    /// files.
    pub(super) fn open_cleared(root: &Path, form: OutputForm) -> Result<Self> {
        if form == OutputForm::Merged {
            merge::publish(root)?;
        }
        let output = Self::open(root, form)?;
        output.clear()?;
        Ok(output)
    }

    fn clear(&self) -> io::Result<()> {
        atomic::sweep(&self.work);
        let entries = match fs::read_dir(&self.work) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Only what a fetch made is removed: other programs may have files that end in `.part`.
            let is_partial_download = name
                .strip_suffix(".part")
                .is_some_and(|artifact| ArtifactName::of_file(artifact).is_ok());
            if is_partial_download {
                atomic::clear(&entry.path())?;
            }
        }
        Ok(())
    }
}

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
    file: PathBuf,
    schema: String,
    /// The place that the wanted artifacts come from.
    from: String,
    /// The names of all selected artifacts.
    wanted: BTreeSet<String>,
    /// The packages that can be built from the artifacts; empty if all packages of the run can be.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    only: BTreeSet<String>,
    pub fetched: BTreeMap<String, Fetched>,
    /// The runs that built the code of another repository, by the places that artifacts come from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    foreign: BTreeMap<String, ForeignCode>,
}

/// An artifact that is completely fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fetched {
    pub from: String,
    /// Size of the archive, or of the zip file that contained it.
    pub size: u64,
    /// The SHA-256 of the same bytes, if their source stated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// What it is on disk.
    pub extent: PathExtent,
}

/// Counts of everything below a path, to detect that something changed. Symlinks are not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathExtent {
    pub files: usize,
    links: usize,
    pub bytes: u64,
}

impl FetchState {
    /// Reads a state file. A missing or damaged state counts as an empty state: then everything is
    /// fetched again.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let state = read_file(file)?.and_then(Result::ok).unwrap_or_default();
        Ok(Self { file: file.to_owned(), ..state })
    }

    /// Records the wanted artifacts. Call it before the first download.
    ///
    /// The due artifacts lose their entries: otherwise, if this fetch is killed, an old artifact
    /// could pass for the new artifact.
    ///
    /// `packages` are the packages that can be built from the artifacts, as `Wish::packages` says. A
    /// directory that is complete for all packages stays so: they do not narrow it.
    pub(super) fn begin(
        &mut self,
        from: &str,
        foreign: Option<&ForeignCode>,
        wanted: BTreeSet<String>,
        due: &BTreeSet<String>,
        packages: Option<&[String]>,
    ) -> Result<()> {
        self.change(|state| {
            let is_complete_for_all = !state.wanted.is_empty() && state.only.is_empty();
            if !is_complete_for_all {
                state.only.extend(packages.unwrap_or_default().iter().cloned());
            }
            // What another run was asked for does not have to be here.
            if state.from != from {
                from.clone_into(&mut state.from);
                state.wanted.clear();
            }
            state.wanted.extend(wanted);
            state.fetched.retain(|name, _| !due.contains(name));
            state.foreign.remove(from);
            state.foreign.extend(foreign.map(|code| (from.to_owned(), code.clone())));
        })
    }

    /// Records artifacts that are complete, and takes them out of the list.
    pub(super) fn record(&mut self, fetched: &mut Vec<(String, Fetched)>) -> Result<()> {
        self.change(|state| state.fetched.extend(fetched.drain(..)))
    }

    /// Call it after the last download. If the artifacts are enough for all packages, the list of
    /// packages is cleared.
    pub(super) fn end(&mut self, packages: Option<&[String]>) -> Result<()> {
        let are_all = packages.is_some_and(<[_]>::is_empty);
        self.change(|state| state.only.retain(|_| !are_all))
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        let before = self.clone();
        change(self);
        if *self == before {
            return Ok(());
        }
        SCHEMA.clone_into(&mut self.schema);
        self.write_to(&self.file)
    }

    pub(super) fn write_to(&self, path: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        let directory = path.parent().context("a state file has a directory")?;
        fs::create_dir_all(directory)?;
        // Write, sync, rename, in this order. Without the sync, a machine that crashes may come
        // back with a state that names files whose bytes never reached the disk: some file systems
        // then show the right length, and zeros. One sync of the file system takes far less time
        // than one for each file.
        let write = || -> io::Result<()> {
            let mut file = AtomicFile::beside(path)?;
            file.file().write_all(json.as_bytes())?;
            sync_file_system(directory)?;
            file.replace(path)
        };
        write().context("failed to record what was fetched")
    }
}

/// Where the artifacts in a directory are from. For a directory without a state, which `fetch` did not fill,
/// nothing is known.
pub fn provenance(directory: &Path) -> Result<Provenance> {
    let Some(state) = read_state(directory)? else {
        return Ok(Provenance::default());
    };
    // Artifacts of several runs have no run in common.
    let run = state
        .fetched
        .values()
        .map(|fetched| run_of_prefix(&fetched.from))
        .dedup()
        .exactly_one()
        .ok()
        .flatten();
    let mut foreign_codes = state.fetched.values().filter_map(|it| state.foreign.get(&it.from));
    Ok(Provenance { run_id: run.map(|(id, _)| id), foreign_code: foreign_codes.next().cloned() })
}

/// The packages that the artifacts in a directory were fetched for; empty if they are for all.
///
/// Fails if a fetch into the directory is incomplete. A directory without a state was not filled by
/// `fetch`, so nothing can be checked.
pub fn fetched_for(directory: &Path) -> Result<Vec<String>> {
    let Some(state) = read_state(directory)? else {
        return Ok(Vec::new());
    };
    // A file that was recorded may have been deleted since, or unpacked beside or over its archive.
    let is_on_disk = |name: &String| {
        let unpacked = name.split(".tar.").next().unwrap_or(name);
        [name, unpacked].iter().any(|file_name| directory.join(file_name).exists())
    };
    let missing: Vec<&String> = state
        .wanted
        .iter()
        .filter(|name| !state.fetched.contains_key(*name) || !is_on_disk(name))
        .collect();
    if missing.is_empty() {
        return Ok(state.only.into_iter().collect());
    }
    let message = format!(
        "the fetch into `{}` is not whole: {} of {} missing: {}",
        directory.display(),
        missing.len(),
        many(state.wanted.len(), "artifact"),
        few(missing.into_iter().map(|name| format!("`{name}`")))
    );
    let hint = "run the same `rocwheel fetch` again: it fetches only what is missing";
    Err(hinted(No(message), hint))
}

/// The state of a directory of artifacts, if it has one.
fn read_state(directory: &Path) -> Result<Option<FetchState>> {
    let path = directory.join(FILE_NAME);
    read_file(&path)?.transpose().map_err(|error| {
        let message = format!("failed to read `{}`: {error}", path.display());
        hinted(No(message), "run the same `rocwheel fetch` again")
    })
}

/// Reads a state file. `None` if it does not exist; an inner error if it is damaged or has another
/// schema.
fn read_file(file: &Path) -> Result<Option<Result<FetchState>>> {
    let json = match read_text(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let directory = file.parent().unwrap_or(file).display();
            return Err(anyhow!("not a directory: `{directory}`")).hint("pass a directory");
        }
        content => content?,
    };
    let parse = || -> Result<FetchState> {
        let state: FetchState = serde_json::from_str(&json)?;
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
        result => result,
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
        for entry in WalkDir::new(path).follow_root_links(false) {
            let read = entry.and_then(|entry| entry.metadata()).map_err(io::Error::from);
            let metadata = match read {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                read => read?,
            };
            if metadata.is_symlink() {
                extent.links += 1;
            } else if !metadata.is_dir() {
                extent.files += 1;
                extent.bytes += metadata.len();
            }
        }
        Ok(Some(extent))
    }
}

#[cfg(test)]
mod tests;
