//! What was unpacked from which archive, in `.rocwheel-unpacked.json` beside the directory of the
//! artifacts, so that the same archive is not unpacked again.
//!
//! An artifact is believed only while its archive and everything in its directory have the same
//! [`FileIdentity`]. So what was edited, deleted, added or copied since is unpacked again, and so
//! is everything on systems without inodes, on file systems whose `ctime` is not of their own, what
//! another version unpacked, and what was unpacked before the machine was started.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    path::Path,
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::{
    artifact::{ArtifactName, FileIdentity},
    atomic,
    digest::{Hasher, Sha256},
    error::Result,
};

/// The name of the file. Programs that list a directory mostly leave such names out.
const FILE: &str = ".rocwheel-unpacked.json";
const SCHEMA: &str = "rocwheel-unpacked-v2";
/// The program that unpacked: another version may make other files of the same archive. Raise the
/// revision with such a change.
const UNPACKED_BY: &str = concat!(env!("CARGO_PKG_VERSION"), " revision 1");
/// The longest file that is read: a hundred thousand artifacts.
const LIMIT: u64 = 32 << 20;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UnpackMemory {
    schema: String,
    unpacked_by: String,
    /// What was not on the disk when the power failed may have been lost.
    boot: Option<Sha256>,
    /// By the name of the artifact.
    artifacts: BTreeMap<String, RememberedArtifact>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RememberedArtifact {
    archive: FileIdentity,
    /// A digest of the identities of all files.
    files: Sha256,
}

impl UnpackMemory {
    /// What is remembered of the artifacts in a directory. Nothing if there is no such file, or if
    /// it cannot be read: an archive can always be unpacked again.
    pub(super) fn read(artifacts: &Path) -> Self {
        let read = || -> Result<Self> {
            let mut bytes = Vec::new();
            let file = fs_err::File::open(artifacts.with_file_name(FILE))?;
            file.take(LIMIT).read_to_end(&mut bytes)?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        let empty = Self {
            schema: SCHEMA.to_owned(),
            unpacked_by: UNPACKED_BY.to_owned(),
            boot: atomic::boot(),
            artifacts: BTreeMap::new(),
        };
        let found = read().ok().filter(|found| {
            let found = (&found.schema, &found.unpacked_by, &found.boot);
            found == (&empty.schema, &empty.unpacked_by, &empty.boot)
        });
        found.unwrap_or(empty)
    }

    /// Whether a directory has exactly what was unpacked from this archive.
    pub(super) fn has(&self, artifact: &ArtifactName, archive: &Path, directory: &Path) -> bool {
        let remembered = self.artifacts.get(&artifact.file_name());
        remembered.is_some_and(|remembered| {
            let archive = FileIdentity::of(archive).ok().flatten();
            let files = || SeenFiles::of(&directory.join(artifact.file_name()));
            archive == Some(remembered.archive)
                && files().is_some_and(|seen| seen.digest == remembered.files)
        })
    }

    /// Remembers artifacts that were just unpacked to a directory, and writes the file. Each has the
    /// identity that its archive had when this began, and the files as they were written,
    /// because another program may have changed them since. Leaves out artifacts with a file that
    /// changed so recently that another change might not be seen.
    pub(super) fn remember(
        mut self,
        unpacked: Vec<UnpackedArtifact<'_>>,
        directory: &Path,
    ) -> Result<()> {
        if unpacked.is_empty() {
            return Ok(());
        }
        let settles = unpacked
            .iter()
            .filter_map(|(_, _, seen)| Some(seen.as_ref()?.settles));
        FileIdentity::wait(settles.max());
        let now = SystemTime::now();
        let is_kept = FileIdentity::is_kept_in(directory);
        for (artifact, archive, seen) in unpacked {
            let seen = seen.filter(|seen| is_kept && seen.settles <= now);
            if let Some((archive, seen)) = archive.zip(seen) {
                let files = seen.digest;
                let remembered = RememberedArtifact { archive, files };
                self.artifacts.insert(artifact.file_name(), remembered);
            }
        }
        let text = serde_json::to_vec(&self)?;
        Ok(atomic::write(&directory.with_file_name(FILE), text)?)
    }
}

/// An artifact that was unpacked, its archive, and its files.
pub(super) type UnpackedArtifact<'a> = (&'a ArtifactName, Option<FileIdentity>, Option<SeenFiles>);

/// Stands for everything in a directory. To rename the directory changes nothing in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenFiles {
    /// Of the identities of all files.
    digest: Sha256,
    /// When the last of them settles.
    settles: SystemTime,
}

impl SeenFiles {
    /// `None` if the directory cannot be read.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let (mut hasher, mut settles) = (Hasher::default(), SystemTime::UNIX_EPOCH);
        for entry in WalkDir::new(directory).sort_by_file_name() {
            let entry = entry.ok()?;
            let mut identity = None;
            // The identity of a directory says nothing more than the names in it.
            if !entry.file_type().is_dir() {
                let found = FileIdentity::from_metadata(&entry.metadata().ok()?)?;
                settles = settles.max(found.settles());
                identity = Some(found);
            }
            let path = entry.path().strip_prefix(directory).ok()?;
            writeln!(hasher, "{:?}", (path, entry.file_type(), identity)).ok()?;
        }
        let digest = hasher.finish().0;
        Some(Self { digest, settles })
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// An archive, and a directory with the artifact that was unpacked from it.
    fn unpacked() -> (TempDir, PathBuf, PathBuf) {
        changed_meanwhile(|_| {})
    }

    /// The same, but somebody changes the library before the artifact is remembered.
    fn changed_meanwhile(change: impl Fn(&Path)) -> (TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("x_lib_generic.tar.zst");
        let artifacts = place.path().join("artifacts");
        let lib = artifacts.join("x_lib_generic/stage/lib");
        fs_err::create_dir_all(&lib).unwrap();
        fs_err::write(&archive, "an archive").unwrap();
        fs_err::write(lib.join("libx.so.1"), "a library").unwrap();
        fs_err::os::unix::fs::symlink("libx.so.1", lib.join("libx.so")).unwrap();
        let identity = FileIdentity::of(&archive).unwrap();
        let seen = SeenFiles::of(&artifacts.join("x_lib_generic"));
        change(&lib.join("libx.so.1"));
        let (memory, name) = (UnpackMemory::read(&artifacts), name());
        let unpacked = vec![(&name, identity, seen)];
        memory.remember(unpacked, &artifacts).unwrap();
        (place, archive, artifacts)
    }

    fn name() -> ArtifactName {
        "x_lib_generic".parse().unwrap()
    }

    #[test]
    fn any_change_is_noticed() {
        type Change = fn(&Path, &Path);
        let changes: [(&str, Change); 8] = [
            ("written", |lib, _| {
                fs_err::write(lib.join("libx.so.1"), "A LIBRARY").unwrap();
            }),
            ("with its old time", |lib, _| {
                let path = lib.join("libx.so.1");
                let time = fs_err::metadata(&path).unwrap().modified().unwrap();
                fs_err::write(&path, "A LIBRARY").unwrap();
                let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
                file.file().set_modified(time).unwrap();
            }),
            ("deleted", |lib, _| {
                fs_err::remove_file(lib.join("libx.so.1")).unwrap();
            }),
            ("added", |lib, _| {
                fs_err::write(lib.join("other"), "").unwrap();
            }),
            ("an empty directory", |lib, _| {
                fs_err::create_dir(lib.join("other")).unwrap();
            }),
            ("another link", |lib, _| {
                fs_err::remove_file(lib.join("libx.so")).unwrap();
                fs_err::os::unix::fs::symlink("libx.so.2", lib.join("libx.so")).unwrap();
            }),
            ("no directory", |lib, _| {
                fs_err::remove_dir_all(lib.parent().unwrap().parent().unwrap()).unwrap();
            }),
            ("another archive", |_, archive| {
                fs_err::write(archive, "an ARCHIVE").unwrap();
            }),
        ];
        for (change, make) in changes {
            let (_place, archive, artifacts) = unpacked();
            let has = || UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts);
            assert!(has());
            make(&artifacts.join("x_lib_generic/stage/lib"), &archive);
            assert!(!has(), "{change}");
        }
    }

    #[test]
    fn what_changed_while_other_archives_were_unpacked_is_not_remembered() {
        let is_there = |(_place, archive, artifacts): (TempDir, PathBuf, PathBuf)| {
            UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts)
        };
        assert!(is_there(changed_meanwhile(|_| {})));
        assert!(!is_there(changed_meanwhile(|library| {
            fs_err::write(library, "another one").unwrap();
        })));
        // As another process does that unpacks to the same directory.
        assert!(!is_there(changed_meanwhile(|library| {
            let other = library.with_extension("new");
            fs_err::copy(library, &other).unwrap();
            fs_err::rename(other, library).unwrap();
        })));
    }

    #[test]
    fn another_version_may_unpack_in_another_way_and_the_power_may_fail() {
        let (place, archive, artifacts) = unpacked();
        let file = place.path().join(FILE);
        let text = fs_err::read_to_string(&file).unwrap();
        let other = Sha256::of(b"another boot").to_string();
        let boot = atomic::boot().map(|boot| boot.to_string());
        let boot = boot.iter().map(|boot| (boot.as_str(), other.as_str()));
        let changes = [(SCHEMA, "another"), (UNPACKED_BY, "another")];
        for (ours, other) in changes.into_iter().chain(boot) {
            assert!(text.contains(ours), "{ours}");
            fs_err::write(&file, text.replace(ours, other)).unwrap();
            assert!(!UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts));
        }
        fs_err::write(&file, text).unwrap();
        assert!(UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts));
    }

    #[test]
    fn a_damaged_file_and_a_copy_are_not_believed() {
        let (place, archive, artifacts) = unpacked();
        let copy = place.path().join("copy");
        fs_err::create_dir(&copy).unwrap();
        fs_err::rename(artifacts.join("x_lib_generic"), copy.join("x_lib_generic")).unwrap();
        // Renaming it changes nothing in it, and the memory is beside both directories.
        assert!(UnpackMemory::read(&copy).has(&name(), &archive, &copy));
        let file = copy.join("x_lib_generic/stage/lib/libx.so.1");
        fs_err::copy(&file, file.with_extension("new")).unwrap();
        fs_err::rename(file.with_extension("new"), &file).unwrap();
        assert!(!UnpackMemory::read(&copy).has(&name(), &archive, &copy));
        fs_err::write(place.path().join(FILE), "{").unwrap();
        assert!(UnpackMemory::read(&copy).artifacts.is_empty());
    }
}
