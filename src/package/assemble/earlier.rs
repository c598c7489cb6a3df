//! [`EarlierSet`]: the wheels of an earlier build, which a new build takes over as they are if it would write
//! the same bytes.
//!
//! An earlier wheel is input from outside: it may be damaged, made by another tool, or made to deceive. So
//! only a file with the SHA-256 of a wheel that this program wrote (see [`memory`](super::memory)) is taken
//! over.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

use super::{
    content::PlannedMember,
    memory::{BuildMemory, WheelRecipe},
};
use crate::{
    console::World,
    digest::Sha256,
    error::{Result, Stop, one_line},
    io::{DigestCache, FileIdentity, Tap},
    parallel,
};

/// A wheel of an earlier set that this program wrote.
#[derive(Debug)]
pub(super) struct EarlierWheel {
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
    pub(super) sha256: Sha256,
    /// What its bytes follow from.
    pub(super) recipe: WheelRecipe,
}

/// The wheels of an earlier set, and what its build remembers of the sources.
#[derive(Debug)]
pub(super) struct EarlierSet {
    memory: BuildMemory,
    wheels: Vec<EarlierWheel>,
}

impl EarlierSet {
    /// Finds the wheels of a set that this program wrote. Notes name the others.
    pub(super) fn read(
        place: &Path,
        jobs: NonZeroUsize,
        program: Option<&PathBuf>,
        world: &World,
    ) -> Result<Self> {
        let dist = place.join("dist");
        let top = if dist.is_dir() { &*dist } else { place };
        let root = top.parent().filter(|_| top.ends_with("dist")).unwrap_or(top);
        let memory = BuildMemory::read(root, program);
        // Without a recipe no wheel can be taken over, so none is hashed.
        let paths = if memory.has_wheels() { wheels_in(top) } else { Vec::new() };
        let cache = DigestCache::read(root);
        let opened = parallel::map(&paths, jobs, &world.stop, |path| {
            Ok(open_earlier(path, root, &cache, &memory, &world.stop))
        })?;
        let mut wheels = Vec::new();
        for (path, opened) in paths.iter().zip(opened) {
            let why = match opened {
                Ok(Some(wheel)) => {
                    wheels.push(wheel);
                    continue;
                }
                Ok(None) => "it is not as this program wrote it".to_owned(),
                Err(error) => one_line(&error),
            };
            world.console.note(format!("`{}` is not reused: {why}", path.display()));
        }
        if wheels.is_empty() {
            let place = place.display();
            let text = format!("no wheels to reuse in `{place}`: this program wrote none of them");
            world.console.warn(text);
        }
        Ok(Self { memory, wheels })
    }

    /// The wheels with the file name of a new wheel, whose path is given. A set with several families may have
    /// one in each of their directories.
    pub(super) fn wheels_named(&self, path: &str) -> Vec<&EarlierWheel> {
        let name = Path::new(path).file_name();
        self.wheels.iter().filter(|wheel| wheel.path.file_name() == name).collect()
    }

    /// The digest of a member, if the build of the set remembers it.
    pub(super) fn recall(&self, member: &PlannedMember) -> Option<Sha256> {
        self.memory.recall(member.key.as_ref()?)
    }
}

/// Reads what the bytes of a wheel follow from. `None` if this program did not write it. A wheel whose digest
/// is not in the cache is hashed.
fn open_earlier(
    path: &Path,
    root: &Path,
    cache: &DigestCache,
    memory: &BuildMemory,
    stop: &Stop,
) -> Result<Option<EarlierWheel>> {
    let identity = FileIdentity::of(path)?;
    let below = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let sha256 = match cache.get(&below, identity) {
        Some(file) => file.sha256,
        None => Sha256::of_reader(Tap::new(fs_err::File::open(path)?, stop, |_| {}))?.0,
    };
    Ok(memory.recipe(sha256).map(|recipe| EarlierWheel {
        path: path.to_owned(),
        identity: identity.but_for_links(),
        sha256,
        recipe,
    }))
}

/// The wheels of a set: directly in the directory, or, in a set with several families, one level
/// below. Unfinished directories and the pages of an index have none.
fn wheels_in(top: &Path) -> Vec<PathBuf> {
    let walk = WalkDir::new(top).max_depth(2).follow_links(true);
    let entries = walk.sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name();
        entry.depth() == 0 || name != "simple" && !name.to_string_lossy().starts_with('.')
    });
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect()
}
