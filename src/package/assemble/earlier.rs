//! [`EarlierSet`]: the packages of an earlier build, and the compressed members that a new build
//! takes over from them instead of packing the same content again.
//!
//! An earlier wheel is input from outside: it may be damaged, made by another tool, or made to
//! deceive. So a wheel has to say that it was compressed as the new one will be, and every member
//! that is taken over is inflated first and compared with its digest. Only a wheel that this machine
//! wrote and that did not change since (see [`memory`](super::memory)) is believed without that, and
//! is used as a whole if all of it would be the same.
//!
//! What no check finds: a wheel that gives the right contents, but lies about its compressor. Its
//! members are right, and only their compressed bytes differ from those of a build without it.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use walkdir::WalkDir;

use super::{
    content::{CountedReader, MemberContent, Unchanged},
    memory::{BuildMemory, RememberedWheel, WheelRecipe},
};
use crate::{
    artifact::FileStamp,
    console::{World, count, many, size},
    digest::{Hasher, Sha256},
    error::{Result, Stop, one_line},
    wheel::{PackedMember, WheelCompression, packed_members},
};

/// A wheel of an earlier set.
#[derive(Debug)]
struct EarlierWheel {
    file: PathBuf,
    stamp: FileStamp,
    /// What the build that wrote it remembers of it, if it did not change since.
    known: Option<RememberedWheel>,
}

/// A compressed member of an earlier wheel.
#[derive(Clone, Debug)]
pub struct TakenMember {
    pub packed: PackedMember,
    wheel: Arc<EarlierWheel>,
}

impl TakenMember {
    /// Reads its compressed bytes. Fails at the last one if the wheel has changed since it was
    /// opened first.
    pub fn open(&self) -> io::Result<impl Read + use<>> {
        let mut file = fs_err::File::open(&self.wheel.file)?;
        let bytes = &self.packed.bytes;
        file.seek(SeekFrom::Start(bytes.start))?;
        let left = bytes.end.saturating_sub(bytes.start);
        Ok(Unchanged {
            reader: file.take(left),
            path: self.wheel.file.clone(),
            stamp: self.wheel.stamp,
            left,
        })
    }
}

/// The members and wheels of an earlier set.
#[derive(Debug)]
pub(super) struct EarlierSet {
    memory: BuildMemory,
    wheels: Vec<Arc<EarlierWheel>>,
    members: HashMap<(Sha256, u64), TakenMember>,
    /// The lengths of the members. A source of another length need not be hashed.
    lens: HashSet<u64>,
    stop: Stop,
}

impl EarlierSet {
    /// Reads which members the wheels of a directory have: a set, or the `dist` of one. Wheels that
    /// cannot be used are named in notes.
    pub(super) fn read(
        place: &Path,
        compression: WheelCompression,
        program: Option<&PathBuf>,
        world: &World,
    ) -> Self {
        let dist = place.join("dist");
        let top = if dist.is_dir() { &dist } else { place };
        let beside = top.parent().unwrap_or(top);
        let mut set = Self {
            memory: BuildMemory::read(beside, program),
            wheels: Vec::new(),
            members: HashMap::new(),
            lens: HashSet::new(),
            stop: world.stop.clone(),
        };
        for path in wheels_in(top) {
            if let Err(error) = set.add(top, &path, compression) {
                let (shown, why) = (path.display(), one_line(&error));
                world
                    .console
                    .note(format!("`{shown}` is not reused: {why}"));
            }
        }
        if set.wheels.is_empty() {
            let shown = place.display();
            world
                .console
                .warn(format!("no wheels to reuse in `{shown}`"));
        }
        set
    }

    fn add(&mut self, top: &Path, file: &Path, compression: WheelCompression) -> Result<()> {
        let below = file.strip_prefix(top).unwrap_or(file);
        let below = below.to_string_lossy().replace('\\', "/");
        let wheel = Arc::new(EarlierWheel {
            file: file.to_owned(),
            stamp: FileStamp::of(file)?,
            known: self.memory.wheel(&below, file).cloned(),
        });
        for packed in packed_members(fs_err::File::open(file)?, compression)? {
            self.lens.insert(packed.len);
            let taken = TakenMember {
                packed,
                wheel: Arc::clone(&wheel),
            };
            let key = (taken.packed.sha256, taken.packed.len);
            // Of equal members prefer one that need not be inflated.
            match self.members.get(&key) {
                Some(other) if other.wheel.known.is_some() => {}
                _ => drop(self.members.insert(key, taken)),
            }
        }
        self.wheels.push(wheel);
        Ok(())
    }

    /// The member with the content of a source, if there is one. Reads the source only if its digest
    /// is not remembered and a member has its length.
    pub(super) fn find(
        &self,
        content: &MemberContent,
        progress: &dyn Fn(u64),
    ) -> Result<Option<TakenMember>> {
        if let Some((sha256, len)) = self.recall(content) {
            progress(content.len);
            return Ok(self.take(sha256, len));
        }
        if !self.lens.contains(&content.len) {
            progress(content.len);
            return Ok(None);
        }
        let mut hasher = Hasher::default();
        let source = CountedReader {
            source: content.open()?,
            stop: &self.stop,
            progress,
        };
        io::copy(&mut io::BufReader::with_capacity(READ, source), &mut hasher)?;
        let (sha256, len) = hasher.finish();
        Ok(self.take(sha256, len))
    }

    /// The member with the content of a source, if the content is remembered.
    pub(super) fn find_remembered(&self, content: &MemberContent) -> Option<TakenMember> {
        let (sha256, len) = self.recall(content)?;
        self.take(sha256, len)
    }

    fn recall(&self, content: &MemberContent) -> Option<(Sha256, u64)> {
        self.memory.recall(content.key.as_ref()?)
    }

    fn take(&self, sha256: Sha256, len: u64) -> Option<TakenMember> {
        let taken = self.members.get(&(sha256, len))?;
        let is_good = taken.wheel.known.is_some()
            || taken.open().is_ok_and(|bytes| taken.packed.verify(bytes));
        is_good.then(|| taken.clone())
    }

    /// A wheel with exactly the bytes that the recipe gives, and its digest.
    pub(super) fn whole(&self, recipe: WheelRecipe) -> Option<(&Path, FileStamp, Sha256)> {
        let mut wheels = self.wheels.iter();
        wheels.find_map(|wheel| {
            let known = wheel.known.as_ref()?;
            (known.recipe == Some(recipe)).then_some((&*wheel.file, wheel.stamp, known.sha256))
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
    let files = entries
        .flatten()
        .filter(|entry| entry.file_type().is_file());
    let paths = files.map(walkdir::DirEntry::into_path);
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|it| it == "whl");
    paths.filter(is_wheel).collect()
}

/// How much of a set was taken over from an earlier one. Counts the files of wheels, without those
/// in `.dist-info`; bytes are those of their contents.
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
