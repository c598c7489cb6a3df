//! [`IntoRecord`]: what an earlier run has unpacked into a directory, so that the next one replaces nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{
    changed, not_ours,
    unpack::{UnpackedFile, UnpackedTree},
};
use crate::console::World;
use rocwheel_base::{
    atomic::lock::LockPurpose,
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, ensure},
    io::{FileIdentity, read_text},
    parallel,
    relpath::RelPath,
    version::Version,
};

const FILE: &str = ".rocwheel-into.json";
const SCHEMA: &str = "rocwheel-into-record-v1";

/// The files and links below a directory, and where they came from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IntoRecord {
    schema: String,
    source: String,
    version: Version,
    packages: Vec<String>,
    /// The SHA-256 of each file.
    files: BTreeMap<RelPath, Sha256>,
    /// The text of each symlink.
    links: BTreeMap<RelPath, String>,
}

impl IntoRecord {
    pub(super) fn new(
        source: String,
        version: Version,
        packages: Vec<String>,
        tree: &UnpackedTree,
    ) -> Self {
        let digest = |(path, file): (&RelPath, &UnpackedFile)| (path.clone(), file.sha256);
        Self {
            schema: SCHEMA.to_owned(),
            source,
            version,
            packages,
            files: tree.files.iter().map(digest).collect(),
            links: tree.links.clone(),
        }
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        Ok(fs::write(directory.join(FILE), serde_json::to_vec(self)?)?)
    }

    fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE);
        let text = match read_text(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let read = || -> Result<Self> {
            let record: Self = serde_json::from_str(&text)?;
            ensure!(record.schema == SCHEMA, "an unknown schema: `{}`", record.schema);
            Ok(record)
        };
        read()
            .map(Some)
            .with_context(|| format!("failed to read `{}`", path.display()))
            .hint("name another directory")
    }

    /// Fails if a directory of the record is a link now, or if a link leads elsewhere.
    fn ensure_no_new_links(&self, directory: &Path) -> Result<()> {
        let paths = self.files.keys().chain(self.links.keys());
        let parents: BTreeSet<RelPath> =
            paths.flat_map(|path| path.ancestors().collect::<Vec<_>>()).collect();
        for parent in parents {
            let parent = directory.join(parent.as_str());
            if fs::symlink_metadata(&parent).is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(changed(&parent));
            }
        }
        for (path, text) in &self.links {
            let link = directory.join(path.as_str());
            match fs::read_link(&link) {
                Ok(now) if now == Path::new(text) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => return Err(changed(&link)),
            }
        }
        Ok(())
    }
}

/// What may be removed of the directory: the files of an earlier run that are as they were unpacked.
#[derive(Debug, Default)]
pub(super) struct ReplacedTree {
    /// What each file was right after its digest was compared.
    files: BTreeMap<String, FileIdentity>,
    links: BTreeMap<String, PathBuf>,
}

impl ReplacedTree {
    /// Fails if the directory has files and no record, or if a file of the record was changed.
    pub(super) fn find(directory: &Path, world: &World) -> Result<Self> {
        let Some(record) = IntoRecord::read(directory)? else {
            let lock = LockPurpose::Install.file_name();
            let is_foreign = |name: &str| name != lock;
            for entry in fs::read_dir(directory)? {
                if is_foreign(&entry?.file_name().to_string_lossy()) {
                    return Err(not_ours(directory));
                }
            }
            return Ok(Self::default());
        };
        record.ensure_no_new_links(directory)?;
        let files: Vec<(&RelPath, &Sha256)> = record.files.iter().collect();
        let look =
            |(path, sha256): &(&RelPath, &Sha256)| -> Result<Option<(String, FileIdentity)>> {
                let file = directory.join(path.as_str());
                let identity = match fs::symlink_metadata(&file) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Ok(metadata) if metadata.is_file() => FileIdentity::of(&file)?,
                    _ => return Err(changed(&file)),
                };
                let (now, _) = Sha256::of_reader(fs::File::open(&file)?)?;
                if now != **sha256 {
                    return Err(changed(&file));
                }
                Ok(Some((path.as_str().to_owned(), identity)))
            };
        let files = parallel::map(&files, World::jobs(), &world.stop, look)?;
        let mut tree = Self { files: files.into_iter().flatten().collect(), ..Self::default() };
        let own = directory.join(FILE);
        tree.files.insert(FILE.to_owned(), FileIdentity::of(&own)?);
        for (path, text) in record.links {
            tree.links.insert(path.as_str().to_owned(), text.into());
        }
        Ok(tree)
    }

    /// Fails if a file of somebody else is where the new tree has one.
    pub(super) fn ensure_free(&self, directory: &Path, tree: &UnpackedTree) -> Result<()> {
        for path in tree.files.keys().chain(tree.links.keys()) {
            let file = directory.join(path.as_str());
            if fs::symlink_metadata(&file).is_ok() && !self.may_remove(directory, path.as_str()) {
                let shown = file.display();
                return Err(anyhow!(No(format!(
                    "`{shown}` is of others, and a file has to be there"
                ))))
                .hint("move it away, or name another directory");
            }
        }
        Ok(())
    }

    /// Whether the file at this path below a directory, which is or was the directory of the tree, may be removed.
    pub(super) fn may_remove(&self, directory: &Path, name: &str) -> bool {
        let path = directory.join(name);
        if let Some(text) = self.links.get(name) {
            return fs::read_link(&path).is_ok_and(|now| now == *text);
        }
        self.files.get(name).is_some_and(|identity| identity.is_at(&path))
    }
}
