//! What was unpacked from which archive, in `.rocwheel-unpacked.json` beside the directory of the
//! artifacts, so that the same archive is not unpacked again.
//!
//! It is a [`FileCache`] of the archives. An entry says what the directory of the artifact looked like right
//! after it was unpacked, with the [`FileIdentity`] of everything in it. So what was edited, deleted, added or
//! copied since is unpacked again, and so is everything on systems without inodes, and what another version
//! unpacked.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    path::Path,
};

use walkdir::WalkDir;

use crate::artifact::ArtifactName;
use rocwheel_base::{
    atomic,
    digest::{Hasher, Sha256},
    error::{Hint as _, Result, anyhow},
    io::{FileCache, FileIdentity, read_text},
};

/// The name of the file. Programs that list a directory mostly leave such names out.
const FILE: &str = ".rocwheel-unpacked.json";
/// The schema names the version of the program, because another version may make other files of the same
/// archive. Raise the revision with such a change.
const SCHEMA: &str = concat!("rocwheel-unpacked-v2 by ", env!("CARGO_PKG_VERSION"), " revision 1");

/// The names of the artifacts that this program has unpacked in a directory, beside that directory.
const NAMES: &str = ".rocwheel-unpacked.txt";

/// Writes down that artifacts are about to be unpacked into a directory. Fails if the directory has one of them
/// already and somebody else has put it there: this program replaces only what it unpacked.
pub fn claim(directory: &Path, artifacts: &[&ArtifactName]) -> Result<()> {
    let file = directory.with_file_name(NAMES);
    let list = match read_text(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        list => list?,
    };
    let mut names: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    for artifact in artifacts {
        let path = directory.join(artifact.file_name());
        let is_new = names.insert(artifact.to_string());
        if is_new && fs_err::symlink_metadata(&path).is_ok() {
            return Err(anyhow!(
                "`{}` is there already, and no `build` or `pipeline` has unpacked it",
                path.display()
            ))
            .hint("choose another `--output-dir`, or remove it");
        }
    }
    // The names are written before the first artifact is unpacked: if this process is killed, the next process
    // may replace what this process has unpacked.
    fs_err::create_dir_all(directory)?;
    let new_list = names.into_iter().collect::<Vec<_>>().join("\n");
    Ok(atomic::write(&file, new_list)?)
}

/// The archives that were unpacked to a directory, by the names of their artifacts. An entry is what
/// [`digest_directory`] returned for the artifact.
#[derive(Debug)]
pub(super) struct UnpackMemory(FileCache<Sha256>);

/// An artifact that was unpacked.
#[derive(Debug)]
pub(super) struct UnpackedArtifact<'a> {
    pub(super) name: &'a ArtifactName,
    /// What its archive was before it was opened.
    pub(super) archive: FileIdentity,
    /// What [`digest_directory`] returned before the directory got its name, while no other program knew it.
    pub(super) files: Option<Sha256>,
}

impl UnpackMemory {
    pub(super) fn read(artifacts: &Path) -> Self {
        Self(FileCache::open(artifacts.with_file_name(FILE), SCHEMA))
    }

    /// Whether a directory has exactly what was unpacked from this archive.
    pub(super) fn has(&self, artifact: &ArtifactName, archive: &Path, directory: &Path) -> bool {
        let Ok(archive) = FileIdentity::of(archive) else {
            return false;
        };
        let remembered = self.0.get(&artifact.to_string(), archive);
        remembered.is_some_and(|files| {
            digest_directory(&directory.join(artifact.file_name())) == Some(*files)
        })
    }

    /// Remembers artifacts that were just unpacked, and writes the file.
    pub(super) fn remember(mut self, unpacked: Vec<UnpackedArtifact<'_>>) -> Result<()> {
        for UnpackedArtifact { name, archive, files } in unpacked {
            if let Some(files) = files {
                self.0.insert(&name.to_string(), archive, files);
            }
        }
        Ok(self.0.write()?)
    }
}

/// A digest of the names and the identities of everything in a directory. It stays the same if the directory is
/// renamed. `None` if the directory cannot be read, and on systems without inodes.
pub(in crate::artifact) fn digest_directory(directory: &Path) -> Option<Sha256> {
    let mut hasher = Hasher::default();
    for entry in WalkDir::new(directory).sort_by_file_name() {
        let entry = entry.ok()?;
        let identity = if entry.file_type().is_dir() {
            // The identity of a directory says nothing more than the names in it.
            None
        } else {
            let identity = FileIdentity::from_metadata(&entry.metadata().ok()?);
            // Length and time alone do not prove to a later command that the file is the same.
            if !identity.has_inode() {
                return None;
            }
            Some(identity)
        };
        let path = entry.path().strip_prefix(directory).ok()?;
        writeln!(hasher, "{:?}", (path, entry.file_type(), identity)).ok()?;
    }
    Some(hasher.finish().0)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{path::PathBuf, thread::sleep, time::Duration};

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
        // As an archive that was there before.
        sleep(Duration::from_millis(100));
        let name = name();
        let unpacked = UnpackedArtifact {
            name: &name,
            archive: FileIdentity::of(&archive).unwrap(),
            files: digest_directory(&artifacts.join("x_lib_generic")),
        };
        change(&lib.join("libx.so.1"));
        let memory = UnpackMemory::read(&artifacts);
        memory.remember(vec![unpacked]).unwrap();
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
        std::thread::scope(|scope| {
            for (change, make) in changes {
                scope.spawn(move || {
                    let (_place, archive, artifacts) = unpacked();
                    let has = || UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts);
                    assert!(has());
                    make(&artifacts.join("x_lib_generic/stage/lib"), &archive);
                    assert!(!has(), "{change}");
                });
            }
        });
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
    fn another_version_may_unpack_in_another_way() {
        let (place, archive, artifacts) = unpacked();
        let file = place.path().join(FILE);
        let text = read_text(&file).unwrap();
        assert!(text.contains(SCHEMA), "{text}");
        fs_err::write(&file, text.replace(SCHEMA, "another")).unwrap();
        assert!(!UnpackMemory::read(&artifacts).has(&name(), &archive, &artifacts));
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
    }
}
