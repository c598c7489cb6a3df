//! Where packages lie, near or far: what is there, and how it is read.

use std::{
    fmt,
    io::{self, Read, Seek},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use fs_err as fs;

use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, Result, Stop},
    index::{Layout, Stamp},
    location::Key,
    parallel,
    run::ArtifactGroup,
    store::{Depth, Kind, Object, Ranged, Span, Store},
};

/// A file of this size is read at once: its digest and what it says come from the same bytes.
const AT_ONCE: u64 = 1 << 20;

/// A file in the directory of packages, or in that of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) family: Option<ArtifactGroup>,
    pub(super) name: String,
    pub(super) stamp: Stamp,
    /// When it came; of a file in a directory nobody knows that.
    pub(super) uploaded: Option<SystemTime>,
}

impl Listed {
    /// Below the directory of the set: `dist/rocm-7.13.0.tar.gz`.
    pub(super) fn path(&self, layout: Layout) -> String {
        let family = self.family.as_ref();
        let family = family.map_or_else(String::new, |family| format!("{family}/"));
        format!("{}{family}{}", layout.files(), self.name)
    }
}

/// The bytes of a package.
pub(super) enum Opened {
    Whole(Vec<u8>),
    Far(Box<dyn ReadSeek + Send>),
}

pub(super) trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// A directory with packages, or with `dist/`.
pub(super) trait Shelf: fmt::Display + Sync {
    /// All files in the directory of packages, and in those of families in it. Where each has to
    /// be looked at, so many are at once.
    fn list(&self, layout: Layout, at_once: NonZeroUsize) -> Result<Vec<Listed>>;

    fn has_dist(&self) -> Result<bool>;

    fn open(&self, listed: &Listed, layout: Layout) -> Result<Opened>;

    /// The same from its first to its last byte, for whoever wants all of them.
    fn stream(&self, listed: &Listed, layout: Layout) -> Result<Box<dyn Read + Send>>;

    /// The digest, where somebody said it who had the bytes.
    fn vouched(&self, listed: &Listed, layout: Layout) -> Result<Option<Sha256>>;

    /// How a file looks now, where that can be said of one file alone.
    fn stamp(&self, path: &str) -> Result<Option<Stamp>>;

    /// The text of a document such as `set.json`, and how that looks.
    fn document(&self, name: &str) -> Result<Option<(String, Stamp)>>;

    /// For people: a path below the directory of the set.
    fn shown(&self, path: &str) -> String;
}

/// On this machine. A link to a file will do.
#[derive(Debug)]
pub struct Directory(pub PathBuf);

impl Shelf for Directory {
    fn list(&self, layout: Layout, at_once: NonZeroUsize) -> Result<Vec<Listed>> {
        let packages = self.0.join(layout.files());
        let mut found = Vec::new();
        let families = list_directory(&packages, None, &mut found)
            .hint("pass the directory that `rocwheel build` wrote to")?;
        for family in families.iter().filter(|name| is_family(name, layout)) {
            let parsed = ArtifactGroup::of_directory(family)?;
            list_directory(&packages.join(family), Some(&parsed), &mut found)?;
        }
        let listed = parallel::try_map(&found, at_once, &Stop::default(), look)?;
        Ok(listed.into_iter().flatten().collect())
    }

    fn has_dist(&self) -> Result<bool> {
        Ok(self.0.join("dist").is_dir())
    }

    fn open(&self, listed: &Listed, layout: Layout) -> Result<Opened> {
        let file = fs::File::open(self.at(listed, layout))?;
        let size = listed.stamp.size;
        if size > AT_ONCE {
            return Ok(Opened::Far(Box::new(file)));
        }
        // One byte more tells a file that grew from one that did not.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.take(size + 1).read_to_end(&mut bytes)?;
        Ok(Opened::Whole(bytes))
    }

    fn stream(&self, listed: &Listed, layout: Layout) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(fs::File::open(self.at(listed, layout))?))
    }

    fn vouched(&self, _: &Listed, _: Layout) -> Result<Option<Sha256>> {
        Ok(None)
    }

    fn stamp(&self, path: &str) -> Result<Option<Stamp>> {
        match fs::metadata(self.0.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => {
                let found = found?;
                Ok(Some(stamp(found.len(), found.modified())))
            }
        }
    }

    fn document(&self, name: &str) -> Result<Option<(String, Stamp)>> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => {
                let found = fs::metadata(&path)?;
                Ok(Some((text?, stamp(found.len(), found.modified()))))
            }
        }
    }

    fn shown(&self, path: &str) -> String {
        self.0.join(path).display().to_string()
    }
}

/// Something in a directory that is called as a package or as a sidecar is.
struct Entry {
    family: Option<ArtifactGroup>,
    name: String,
    at: fs::DirEntry,
    is_link: bool,
}

/// Adds what is in a directory, and says which directories are in it, in order.
fn list_directory(
    directory: &Path,
    family: Option<&ArtifactGroup>,
    found: &mut Vec<Entry>,
) -> io::Result<Vec<String>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            directories.push(name.to_owned());
        } else if is_wanted(name) {
            found.push(Entry {
                family: family.cloned(),
                name: name.to_owned(),
                is_link: kind.is_symlink(),
                at: entry,
            });
        }
    }
    directories.sort_unstable();
    Ok(directories)
}

/// A file, or None where a directory or something else has its name.
fn look(found: &Entry) -> Result<Option<Listed>> {
    // The entry of a link tells of the link.
    let file = if found.is_link {
        fs::metadata(found.at.path())?
    } else {
        found.at.metadata()?
    };
    Ok(file.is_file().then(|| Listed {
        family: found.family.clone(),
        name: found.name.clone(),
        stamp: stamp(file.len(), file.modified()),
        uploaded: None,
    }))
}

fn stamp(size: u64, modified: io::Result<SystemTime>) -> Stamp {
    Stamp {
        size,
        modified: modified.ok().and_then(nanoseconds),
        etag: None,
    }
}

fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Beside plain packages anything may lie, so that only what is called as a target is a family's.
fn is_family(name: &str, layout: Layout) -> bool {
    let is_likely = layout == Layout::Dist || name.starts_with("gfx");
    is_likely && !name.is_empty() && ArtifactGroup::of_directory(name).is_ok()
}

pub(super) fn is_wheel(name: &str) -> bool {
    name.strip_suffix(".whl").is_some()
}

pub(super) fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(".whl") || ends(".tar.gz"))
}

fn is_wanted(name: &str) -> bool {
    is_package(name) || name.ends_with(".whl.metadata")
}

/// In a store.
#[derive(Clone, Debug)]
pub struct Prefix {
    pub store: Arc<dyn Store>,
    /// None for the whole store.
    pub directory: Option<Key>,
}

impl Prefix {
    /// The key of a path below the directory; the path may be empty, or end in `/`.
    pub fn key(&self, path: &str) -> Result<Key> {
        let directory = self.directory.as_ref().map(Key::directory);
        let directory = directory.as_ref().map_or("", Key::as_str);
        let key = format!("{directory}{path}");
        key.parse().with_context(|| format!("place `{path}`"))
    }

    /// What is in a directory, by path below the directory of the set.
    pub fn list(&self, path: &str, depth: Depth) -> Result<Vec<(String, Object)>> {
        let directory = match (&self.directory, path) {
            (None, "") => None,
            _ => Some(self.key(path)?),
        };
        let objects = self.store.list(directory.as_ref(), depth)?;
        let found = objects.into_iter().filter_map(|object| {
            let path = match &self.directory {
                Some(directory) => object.key.relative_to(directory)?.to_string(),
                None => object.key.to_string(),
            };
            Some((path, object))
        });
        Ok(found.collect())
    }

    fn object(&self, listed: &Listed, layout: Layout) -> Result<Key> {
        self.key(&listed.path(layout))
    }
}

impl Shelf for Prefix {
    fn list(&self, layout: Layout, _: NonZeroUsize) -> Result<Vec<Listed>> {
        let objects = self.list(layout.files(), Depth::All)?;
        let found = objects.into_iter().filter_map(|(path, object)| {
            let path = path.strip_prefix(layout.files())?;
            let (family, name) = match path.split_once('/') {
                Some((family, name)) if is_family(family, layout) => {
                    (ArtifactGroup::of_directory(family).ok(), name)
                }
                _ => (None, path),
            };
            // What lies deeper is no package of the set.
            (is_wanted(name) && !name.contains('/')).then(|| listed(family, name, &object))
        });
        Ok(found.collect())
    }

    fn has_dist(&self) -> Result<bool> {
        let listed = self.list(Layout::Dist.files(), Depth::All)?;
        Ok(!listed.is_empty())
    }

    fn open(&self, listed: &Listed, layout: Layout) -> Result<Opened> {
        let key = self.object(listed, layout)?;
        if listed.stamp.size <= AT_ONCE / 4 {
            let mut bytes = Vec::new();
            let reader = self.store.get(&key, Span::Whole)?;
            reader.take(AT_ONCE).read_to_end(&mut bytes)?;
            return Ok(Opened::Whole(bytes));
        }
        let ranged = Ranged::of(Arc::clone(&self.store), key, listed.stamp.size);
        Ok(Opened::Far(Box::new(ranged)))
    }

    fn stream(&self, listed: &Listed, layout: Layout) -> Result<Box<dyn Read + Send>> {
        Ok(self.store.get(&self.object(listed, layout)?, Span::Whole)?)
    }

    fn vouched(&self, listed: &Listed, layout: Layout) -> Result<Option<Sha256>> {
        Ok(self.store.head(&self.object(listed, layout)?)?.sha256)
    }

    /// A listing tells of a thousand at a time, with the marks that the next one will have.
    fn stamp(&self, _: &str) -> Result<Option<Stamp>> {
        Ok(None)
    }

    fn document(&self, name: &str) -> Result<Option<(String, Stamp)>> {
        let key = self.key(name)?;
        let object = match self.store.head(&key) {
            Err(error) if error.kind() == Kind::NotFound => return Ok(None),
            object => object?,
        };
        let mut text = String::new();
        let reader = self.store.get(&key, Span::Whole)?;
        reader.take(object.size).read_to_string(&mut text)?;
        Ok(Some((text, stamp_of(&object))))
    }

    fn shown(&self, path: &str) -> String {
        format!("{self}/{path}")
    }
}

fn listed(family: Option<ArtifactGroup>, name: &str, object: &Object) -> Listed {
    Listed {
        family,
        name: name.to_owned(),
        stamp: stamp_of(object),
        uploaded: object.modified,
    }
}

fn stamp_of(object: &Object) -> Stamp {
    Stamp {
        size: object.size,
        modified: object.modified.and_then(nanoseconds),
        etag: object.etag.clone(),
    }
}

impl Directory {
    fn at(&self, listed: &Listed, layout: Layout) -> PathBuf {
        self.0.join(listed.path(layout))
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.directory {
            Some(directory) => write!(f, "{}/{}", self.store, directory.to_path()),
            None => self.store.fmt(f),
        }
    }
}
