//! [`EarlierSet`]: the packages of an earlier build, and the compressed members that a new build
//! takes over from them instead of packing the same content again.
//!
//! An earlier wheel is input from outside: it may be damaged, made by another tool, or made to
//! deceive. So a wheel has to say that it was compressed as the new one will be, and every member
//! that is taken over is inflated first and compared with its digest. Only a wheel with the SHA-256 of one
//! that a build wrote (see [`memory`](super::memory)) is believed without that, and is used as a whole
//! if all of it would be the same.
//!
//! What no check finds: a wheel that gives the right contents, but lies about its compressor. Its
//! members are right, and only their compressed bytes differ from those of a build without it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::{Read, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use walkdir::WalkDir;

use super::{
    AssembleSettings,
    content::{MemberContent, Unchanged},
    memory::{BuildMemory, WheelRecipe},
};
use crate::{
    console::{World, count, many, size},
    digest::Sha256,
    error::{Result, Stop, one_line},
    io::{DigestCache, FileIdentity, FileState, Tap, buffered},
    parallel,
    wheel::{PackedMember, WheelCompression, packed_members},
};

/// A wheel of an earlier set.
#[derive(Debug)]
struct EarlierWheel {
    path: PathBuf,
    state: FileState,
    /// What its bytes follow from, if a build wrote them. Then its members need not be inflated.
    known: Option<(Sha256, WheelRecipe)>,
}

/// A compressed member of an earlier wheel.
#[derive(Clone, Debug)]
pub struct TakenMember {
    pub packed: PackedMember,
    wheel: Arc<EarlierWheel>,
}

impl TakenMember {
    /// A member of a wheel on this disk, of which the caller knows that the bytes are right.
    pub fn of_file(path: &Path, packed: PackedMember) -> Result<Self> {
        let wheel = Arc::new(EarlierWheel {
            path: path.to_owned(),
            state: FileState::of(path)?.but_for_links(),
            known: None,
        });
        Ok(Self { packed, wheel })
    }

    /// Reads its compressed bytes. Fails at the last one if the wheel has changed since it was
    /// opened first.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        let bytes = &self.packed.bytes;
        let left = bytes.end.saturating_sub(bytes.start);
        let mut file = fs_err::File::open(&self.wheel.path)?;
        file.seek(SeekFrom::Start(bytes.start))?;
        Ok(Box::new(Unchanged {
            reader: file.take(left),
            path: self.wheel.path.clone(),
            state: self.wheel.state,
            left,
        }))
    }

    /// Whether its compressed bytes can be read and give the content.
    fn is_good(&self, stop: &Stop) -> bool {
        let bytes = self.open();
        bytes.is_ok_and(|bytes| self.packed.verify(Tap::new(bytes, stop, |_| {})))
    }
}

/// The members and wheels of an earlier set.
#[derive(Debug)]
pub(super) struct EarlierSet {
    memory: BuildMemory,
    wheels: Vec<Arc<EarlierWheel>>,
    members: HashMap<Sha256, TakenMember>,
    /// The lengths of the members. A source of another length need not be hashed.
    lens: HashSet<u64>,
    stop: Stop,
}

impl EarlierSet {
    /// Reads which members the wheels of a set have. Wheels that cannot be used are named in notes.
    pub(super) fn read(
        place: &Path,
        settings: &AssembleSettings,
        program: Option<&PathBuf>,
        world: &World,
    ) -> Result<Self> {
        let dist = place.join("dist");
        let top = if dist.is_dir() { &*dist } else { place };
        let root = top.parent().filter(|_| top.ends_with("dist")).unwrap_or(top);
        let mut set = Self {
            memory: BuildMemory::read(root, program),
            wheels: Vec::new(),
            members: HashMap::new(),
            lens: HashSet::new(),
            stop: world.stop.clone(),
        };
        let (paths, cache) = (wheels_in(top), DigestCache::read(root));
        let opened = parallel::map(&paths, settings.jobs, &world.stop, |path| {
            Ok(set.open(path, root, &cache, settings.compression))
        })?;
        for (path, opened) in paths.iter().zip(opened) {
            match opened {
                Ok((wheel, members)) => set.add(wheel, members),
                Err(error) => {
                    let (shown, why) = (path.display(), one_line(&error));
                    let text = format!("`{shown}` is not reused: {why}");
                    world.console.note(text);
                }
            }
        }
        if set.wheels.is_empty() {
            let text = format!("no wheels to reuse in `{}`", place.display());
            world.console.warn(text);
        }
        Ok(set)
    }

    /// Reads the members of a wheel, and whether a build wrote it. For this, a wheel whose digest is not
    /// in the cache is hashed, which takes a tenth of the time of inflating it.
    fn open(
        &self,
        path: &Path,
        root: &Path,
        cache: &DigestCache,
        compression: WheelCompression,
    ) -> Result<(EarlierWheel, Vec<PackedMember>)> {
        let found = fs_err::metadata(path)?;
        let members = packed_members(fs_err::File::open(path)?, compression)?;
        let mut known = None;
        if self.memory.has_wheels() {
            let below = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
            let identity = FileIdentity::from_metadata(&found);
            let cached = identity.and_then(|it| cache.get(&below.replace('\\', "/"), it));
            let sha256 = match cached {
                Some(file) => file.sha256,
                None => self.digest(fs_err::File::open(path)?, found.len(), &|_| {})?,
            };
            known = self.memory.recipe(sha256).map(|recipe| (sha256, recipe));
        }
        let wheel = EarlierWheel {
            path: path.to_owned(),
            state: FileState::from_metadata(&found).but_for_links(),
            known,
        };
        Ok((wheel, members))
    }

    fn add(&mut self, wheel: EarlierWheel, members: Vec<PackedMember>) {
        let wheel = Arc::new(wheel);
        for packed in members {
            self.lens.insert(packed.len);
            let taken = TakenMember { packed, wheel: Arc::clone(&wheel) };
            // Of equal members prefer one that need not be inflated.
            match self.members.get(&taken.packed.sha256) {
                Some(other) if other.wheel.known.is_some() => {}
                _ => drop(self.members.insert(taken.packed.sha256, taken)),
            }
        }
        self.wheels.push(wheel);
    }

    fn digest(&self, source: impl Read, len: u64, progress: &dyn Fn(u64)) -> Result<Sha256> {
        let source = Tap::new(source, &self.stop, progress);
        Ok(Sha256::of_reader(buffered(source, len, READ))?.0)
    }

    /// The member with the content of a source, if there is one. Reads the source only if its digest
    /// is not remembered and a member has its length.
    pub(super) fn find(
        &self,
        content: &MemberContent,
        progress: &dyn Fn(u64),
    ) -> Result<Option<TakenMember>> {
        if let Some(sha256) = self.recall(content) {
            progress(content.len);
            return Ok(self.take(sha256));
        }
        if !self.lens.contains(&content.len) {
            progress(content.len);
            return Ok(None);
        }
        Ok(self.take(self.digest(content.open()?, content.len, progress)?))
    }

    /// The member with the content of a source, if the content is remembered.
    pub(super) fn find_remembered(&self, content: &MemberContent) -> Option<TakenMember> {
        self.take(self.recall(content)?)
    }

    fn recall(&self, content: &MemberContent) -> Option<Sha256> {
        self.memory.recall(content.key.as_ref()?)
    }

    fn take(&self, sha256: Sha256) -> Option<TakenMember> {
        let taken = self.members.get(&sha256)?;
        let is_right = taken.wheel.known.is_some() || taken.is_good(&self.stop);
        is_right.then(|| taken.clone())
    }

    /// A wheel with exactly the bytes that the recipe gives, and its digest.
    pub(super) fn whole(&self, recipe: WheelRecipe) -> Option<(&Path, FileState, Sha256)> {
        self.wheels.iter().find_map(|wheel| {
            let (sha256, known) = wheel.known?;
            (known == recipe).then_some((&*wheel.path, wheel.state, sha256))
        })
    }
}

/// The buffer for sources that are only hashed.
const READ: usize = 256 << 10;

/// The wheels of a set: directly in the directory, or, in a set with several families, one level
/// below. Unfinished directories and the pages of an index have none.
fn wheels_in(top: &Path) -> Vec<PathBuf> {
    let walk = WalkDir::new(top).max_depth(2).follow_links(true);
    let entries = walk.sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name();
        entry.depth() == 0 || name != "simple" && !name.to_string_lossy().starts_with('.')
    });
    let files = entries.flatten().filter(|entry| entry.file_type().is_file());
    let paths = files.map(walkdir::DirEntry::into_path);
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|it| it == "whl");
    paths.filter(is_wheel).collect()
}

/// How much of a set was taken over from an earlier one. Counts the files of wheels, without the texts
/// that are written for `.dist-info`; bytes are those of their contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReuseCount {
    pub members: usize,
    pub of_members: usize,
    pub bytes: u64,
    pub of_bytes: u64,
}

impl ReuseCount {
    /// Counts a member.
    pub(super) fn add(&mut self, len: u64, is_taken: bool) {
        self.of_members += 1;
        self.of_bytes += len;
        if is_taken {
            self.members += 1;
            self.bytes += len;
        }
    }
}

/// `9,812 of 10,009 members (2.1 GiB of 2.3 GiB)`
impl fmt::Display for ReuseCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (members, of) = (count(self.members), many(self.of_members, "member"));
        let (bytes, of_bytes) = (size(self.bytes), size(self.of_bytes));
        write!(f, "{members} of {of} ({bytes} of {of_bytes})")
    }
}
