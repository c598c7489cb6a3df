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
use crate::console::World;
use rocwheel_base::{
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
    /// What the build of the set remembers. `None` without the file of this program: then no wheel can be
    /// taken over.
    memory: Option<BuildMemory>,
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
        let digests = DigestCache::of_directory(root);
        // Without a recipe no wheel can be taken over, so none is hashed.
        let wheels = match memory.as_ref().filter(|memory| memory.has_wheels()) {
            Some(memory) => EarlierPlace { top, root, memory, digests }.wheels(jobs, world)?,
            None => Vec::new(),
        };
        if wheels.is_empty() {
            let place = place.display();
            world
                .console
                .warn(format!("no wheels to reuse in `{place}`: this program wrote none of them"));
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
    pub(super) fn content(&self, member: &PlannedMember) -> Option<Sha256> {
        self.memory.as_ref()?.content(member.key.as_ref()?)
    }
}

/// Where the wheels of an earlier set are, and what is known of them.
struct EarlierPlace<'a> {
    /// The directory of the wheels: `dist`, or the set itself if it has none.
    top: &'a Path,
    /// The directory of the set, which has both caches.
    root: &'a Path,
    memory: &'a BuildMemory,
    digests: DigestCache,
}

impl EarlierPlace<'_> {
    /// The wheels that this program wrote. Notes name the others.
    fn wheels(&self, jobs: NonZeroUsize, world: &World) -> Result<Vec<EarlierWheel>> {
        let paths = find_wheels(self.top);
        let opened =
            parallel::map(&paths, jobs, &world.stop, |path| Ok(self.open(path, &world.stop)))?;
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
        Ok(wheels)
    }

    /// Reads what the bytes of a wheel follow from. `None` if this program did not write it. A wheel whose
    /// digest is not in the cache is hashed.
    fn open(&self, path: &Path, stop: &Stop) -> Result<Option<EarlierWheel>> {
        let identity = FileIdentity::of(path)?;
        let cached = self.digests.get(&path_below(self.root, path), identity);
        let sha256 = if let Some(package) = cached {
            package.sha256
        } else {
            let file = Tap::new(fs_err::File::open(path)?, stop, |_| {});
            Sha256::of_reader(file)?.0
        };
        let recipe = self.memory.recipe(&path_below(self.top, path), sha256);
        Ok(recipe.map(|recipe| EarlierWheel {
            path: path.to_owned(),
            identity: identity.but_for_links(),
            sha256,
            recipe,
        }))
    }
}

/// The path of a wheel below a directory, as caches have it.
fn path_below(directory: &Path, path: &Path) -> String {
    path.strip_prefix(directory).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Finds the wheels of a set: directly in the directory, or, in a set with several families, one level
/// below. Unfinished directories and the pages of an index have none.
fn find_wheels(top: &Path) -> Vec<PathBuf> {
    let may_have_wheels = |entry: &walkdir::DirEntry| {
        let name = entry.file_name();
        entry.depth() == 0 || name != "simple" && !name.to_string_lossy().starts_with('.')
    };
    WalkDir::new(top)
        .max_depth(2)
        .follow_links(true)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(may_have_wheels)
        .flatten()
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect()
}
