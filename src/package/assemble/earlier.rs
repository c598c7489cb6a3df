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
use tempfile::{NamedTempFile, TempPath};
use walkdir::WalkDir;

use super::{
    content::{CountedReader, MemberContent, Unchanged},
    memory::{BuildMemory, RememberedPackage, WheelRecipe},
};
use crate::{
    artifact::FileStamp,
    console::{World, count, many, size},
    digest::{Hasher, Sha256},
    error::{Result, Stop, one_line},
    wheel::{PackedMember, WheelCompression, packed_members},
};

/// Where an earlier set is.
#[derive(Clone, Debug)]
pub enum EarlierPlace {
    /// A set in a directory, or the `dist` of one.
    Directory(PathBuf),
    /// Wheels that are read over a network, and the address of their set.
    Remote(String, Vec<RemoteWheel>),
}

/// A wheel that is read over a network.
#[derive(Clone, derive_more::Debug)]
pub struct RemoteWheel {
    pub address: String,
    /// Opens it for reading in ranges.
    #[debug(skip)]
    pub open: Arc<dyn Fn() -> Result<Box<dyn RemoteFile>> + Send + Sync>,
}

/// A file that is read in ranges.
pub trait RemoteFile: Read + Seek + Send {}

impl<T: Read + Seek + Send> RemoteFile for T {}

/// To download fewer compressed bytes takes as long as to pack them.
const LEAST_REMOTE: u64 = 256 << 10;

/// A wheel of an earlier set.
#[derive(Debug)]
struct EarlierWheel {
    file: EarlierFile,
    /// What the build that wrote it remembers of it, if it did not change since.
    known: Option<RememberedPackage>,
}

#[derive(Debug)]
enum EarlierFile {
    Here(PathBuf, FileStamp),
    Remote(RemoteWheel),
}

/// A compressed member of an earlier wheel.
#[derive(Clone, Debug)]
pub struct TakenMember {
    pub packed: PackedMember,
    wheel: Arc<EarlierWheel>,
    /// Its compressed bytes, if they were downloaded.
    copy: Option<Arc<TempPath>>,
}

impl TakenMember {
    /// A member of a wheel on this disk, of which the caller knows that the bytes are right.
    pub fn of_file(path: &Path, packed: PackedMember) -> Result<Self> {
        let stamp = FileStamp::of(path)?;
        let file = EarlierFile::Here(path.to_owned(), stamp);
        let wheel = Arc::new(EarlierWheel { file, known: None });
        Ok(Self {
            packed,
            wheel,
            copy: None,
        })
    }

    /// Reads its compressed bytes. Fails at the last one if the wheel has changed since it was
    /// opened first.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        if let Some(copy) = &self.copy {
            return Ok(Box::new(fs_err::File::open(copy.as_ref())?));
        }
        let bytes = &self.packed.bytes;
        let (start, left) = (bytes.start, bytes.end.saturating_sub(bytes.start));
        Ok(match &self.wheel.file {
            EarlierFile::Here(path, stamp) => {
                let mut file = fs_err::File::open(path)?;
                file.seek(SeekFrom::Start(start))?;
                Box::new(Unchanged {
                    reader: file.take(left),
                    path: path.clone(),
                    stamp: *stamp,
                    left,
                })
            }
            EarlierFile::Remote(wheel) => {
                let mut file = (wheel.open)()?;
                file.seek(SeekFrom::Start(start))?;
                Box::new(file.take(left))
            }
        })
    }

    /// Whether its compressed bytes can be read and give the content.
    fn is_good(&self, stop: &Stop) -> bool {
        let progress = &|_| {};
        self.open().is_ok_and(|source| {
            self.packed.verify(CountedReader {
                source,
                stop,
                progress,
            })
        })
    }

    /// The member with a copy of its compressed bytes in a directory.
    fn downloaded(&self, to: &Path, stop: &Stop) -> Result<Self> {
        let mut file = NamedTempFile::new_in(to)?;
        let progress = &|_| {};
        let mut source = CountedReader {
            source: self.open()?,
            stop,
            progress,
        };
        io::copy(&mut source, &mut file)?;
        Ok(Self {
            copy: Some(Arc::new(file.into_temp_path())),
            ..self.clone()
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
    /// Where members are downloaded to.
    scratch: PathBuf,
    stop: Stop,
}

impl EarlierSet {
    /// Reads which members the wheels of a set have. Wheels that cannot be used are named in notes.
    pub(super) fn read(
        place: &EarlierPlace,
        scratch: &Path,
        compression: WheelCompression,
        program: Option<&PathBuf>,
        world: &World,
    ) -> Self {
        let mut set = Self {
            memory: BuildMemory::new(program),
            wheels: Vec::new(),
            members: HashMap::new(),
            lens: HashSet::new(),
            scratch: scratch.to_owned(),
            stop: world.stop.clone(),
        };
        let console = &world.console;
        let leave_aside = |shown: &dyn fmt::Display, error| {
            let why = one_line(&error);
            console.note(format!("`{shown}` is not reused: {why}"));
        };
        let shown = match place {
            EarlierPlace::Directory(place) => {
                let dist = place.join("dist");
                let top = if dist.is_dir() { &dist } else { place };
                set.memory = BuildMemory::read(top, program);
                for path in wheels_in(top) {
                    let added = set.add_here(top, &path, compression);
                    added.unwrap_or_else(|error| leave_aside(&path.display(), error));
                }
                place.display().to_string()
            }
            EarlierPlace::Remote(address, wheels) => {
                for wheel in wheels {
                    let added = set.add_remote(wheel, compression);
                    added.unwrap_or_else(|error| leave_aside(&wheel.address, error));
                }
                address.clone()
            }
        };
        if set.wheels.is_empty() {
            console.warn(format!("no wheels to reuse in `{shown}`"));
        }
        set
    }

    fn add_here(&mut self, top: &Path, file: &Path, compression: WheelCompression) -> Result<()> {
        let below = file.strip_prefix(top).unwrap_or(file);
        let below = below.to_string_lossy().replace('\\', "/");
        let wheel = EarlierWheel {
            file: EarlierFile::Here(file.to_owned(), FileStamp::of(file)?),
            known: self.memory.package(&below, file).cloned(),
        };
        let members = packed_members(fs_err::File::open(file)?, compression)?;
        self.add(wheel, members);
        Ok(())
    }

    fn add_remote(&mut self, remote: &RemoteWheel, compression: WheelCompression) -> Result<()> {
        self.stop.check()?;
        let wheel = EarlierWheel {
            file: EarlierFile::Remote(remote.clone()),
            known: None,
        };
        let mut members = packed_members((remote.open)()?, compression)?;
        members.retain(|member| member.bytes.end - member.bytes.start >= LEAST_REMOTE);
        self.add(wheel, members);
        Ok(())
    }

    fn add(&mut self, wheel: EarlierWheel, members: Vec<PackedMember>) {
        let wheel = Arc::new(wheel);
        for packed in members {
            self.lens.insert(packed.len);
            let taken = TakenMember {
                packed,
                wheel: Arc::clone(&wheel),
                copy: None,
            };
            let key = (taken.packed.sha256, taken.packed.len);
            // Of equal members prefer one that need not be inflated.
            match self.members.get(&key) {
                Some(other) if other.wheel.known.is_some() => {}
                _ => drop(self.members.insert(key, taken)),
            }
        }
        self.wheels.push(wheel);
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
        let taken = match taken.wheel.file {
            EarlierFile::Here(..) => taken.clone(),
            EarlierFile::Remote(_) => taken.downloaded(&self.scratch, &self.stop).ok()?,
        };
        (taken.wheel.known.is_some() || taken.is_good(&self.stop)).then_some(taken)
    }

    /// A wheel with exactly the bytes that the recipe gives, and its digest.
    pub(super) fn whole(
        &self,
        recipe: WheelRecipe,
    ) -> Option<(&Path, FileStamp, &RememberedPackage)> {
        let mut wheels = self.wheels.iter();
        wheels.find_map(|wheel| {
            let known = wheel.known.as_ref()?;
            match &wheel.file {
                EarlierFile::Here(path, stamp) if known.recipe == Some(recipe) => {
                    Some((&**path, *stamp, known))
                }
                _ => None,
            }
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
