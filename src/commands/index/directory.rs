//! A directory of packages, read: what an index, an upload and a summary are made from.

use std::{
    collections::HashMap,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fs_err as fs;

use super::{address::local_urls, facts};
use crate::{
    commands::World,
    digest::Sha256,
    error::{Context as _, Hint as _, Result, Stop, ensure},
    index::{Identity, Layout, PackageSet, SetFile, SetJson, Urls},
};

/// The packages of a directory, with what its `set.json` knows about them.
#[derive(Debug)]
pub struct LocalSet {
    /// Where `simple/`, `set.json` and the packages, or `dist/`, are.
    pub root: PathBuf,
    pub layout: Layout,
    pub set: PackageSet,
    pub document: SetJson,
}

impl LocalSet {
    /// Reads and hashes every package. Without a layout, `dist` is where they are if it exists.
    pub fn read(
        root: &Path,
        layout: Option<Layout>,
        stop: &Stop,
        progress: &dyn Fn(u64),
    ) -> Result<Self> {
        let layout = layout.unwrap_or_else(|| {
            if root.join("dist").is_dir() {
                Layout::Dist
            } else {
                Layout::Flat
            }
        });
        let (identity, known) = read_document(root)?;
        Self::read_known(root, layout, identity, &known, &Watch { stop, progress })
    }

    /// The packages below `dist` that were just made, with their sizes and digests by path.
    pub fn made(root: &Path, made: HashMap<String, (u64, Sha256)>, stop: &Stop) -> Result<Self> {
        let known = Known {
            made,
            ..Known::default()
        };
        let watch = Watch {
            stop,
            progress: &|_| {},
        };
        Self::read_known(root, Layout::Dist, Identity::default(), &known, &watch)
    }

    fn read_known(
        root: &Path,
        layout: Layout,
        identity: Identity,
        known: &Known,
        watch: &Watch,
    ) -> Result<Self> {
        let names = names(&root.join(layout.files()))?;
        let mut files = Vec::new();
        let mut modified = HashMap::new();
        for name in names {
            watch.stop.check()?;
            let path = format!("{}{name}", layout.files());
            let reading = || format!("read `{}`", root.join(&path).display());
            let on_disk = root.join(&path);
            let read = known.file(&on_disk, &path, &name, watch);
            let (file, time) = read.with_context(reading)?;
            modified.insert(path, time);
            files.push(file);
        }
        let set = PackageSet::new(files)?;
        let mut document = SetJson::new(identity, &set, layout);
        for file in document.files_mut() {
            file.modified = modified.get(file.path()).copied().flatten();
        }
        Ok(Self {
            root: root.to_owned(),
            layout,
            set,
            document,
        })
    }

    /// The same, as a command does it: with progress, and a layout that shows itself.
    pub fn read_aloud(root: &Path, world: &World) -> Result<Self> {
        let progress = world.console.progress("Reading", root.display(), None);
        Self::read(root, None, &world.stop, &|bytes| progress.inc(bytes))
    }

    /// Where a package is.
    pub fn path(&self, file: &SetFile) -> PathBuf {
        self.root
            .join(format!("{}{}", self.layout.files(), file.name))
    }

    /// The addresses on this machine.
    pub fn urls(&self) -> Result<Urls> {
        local_urls(&self.root)
    }
}

/// The names of all packages, in order. Anything else may lie beside them.
fn names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in
        fs::read_dir(directory).hint("pass the directory that `rocwheel build` wrote to")?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let Some(name) = name.to_str().filter(|name| is_package(name)) else {
            continue;
        };
        // A link to a file will do.
        if fs::metadata(&path)?.is_file() {
            names.push(name.to_owned());
        }
    }
    names.sort();
    let found = || -> Result<()> {
        ensure!(
            !names.is_empty(),
            "no wheel or sdist in `{}`",
            directory.display()
        );
        Ok(())
    };
    found().hint("pass the directory that `rocwheel build` wrote to")?;
    Ok(names)
}

fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(".whl") || ends(".tar.gz"))
}

/// What an earlier run knew.
#[derive(Debug, Default)]
struct Known {
    files: HashMap<String, (u64, u64, Sha256)>,
    /// What this process wrote itself.
    made: HashMap<String, (u64, Sha256)>,
    /// When that was written down.
    written: Option<SystemTime>,
}

/// What `set.json` says, if there is one.
fn read_document(root: &Path) -> Result<(Identity, Known)> {
    let path = root.join("set.json");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Identity::default(), Known::default()));
        }
        text => text?,
    };
    let document = SetJson::parse(&text)
        .with_context(|| format!("read `{}`", path.display()))
        .hint("remove it to have it written anew")?;
    let files = document.files().iter().filter_map(|file| {
        let known = (file.size, file.modified?, file.sha256);
        Some((file.path().to_owned(), known))
    });
    let known = Known {
        files: files.collect(),
        written: fs::metadata(&path)?.modified().ok(),
        made: HashMap::new(),
    };
    Ok((document.identity, known))
}

impl Known {
    /// Facts about one package, and when it was modified if that can be told.
    fn file(
        &self,
        on_disk: &Path,
        path: &str,
        name: &str,
        watch: &Watch,
    ) -> Result<(SetFile, Option<u64>)> {
        let found = fs::metadata(on_disk)?;
        let modified = found.modified().ok();
        let time = modified.and_then(nanoseconds);
        let remembered = self.files.get(path).filter(|(size, known, _)| {
            *size == found.len() && Some(*known) == time && self.is_settled(modified)
        });
        let made = self.made.get(path).filter(|(size, _)| *size == found.len());
        let sha256 = if let Some((_, sha256)) = made {
            *sha256
        } else if let Some((_, _, sha256)) = remembered {
            *sha256
        } else {
            let (sha256, size) = hash(on_disk, watch)?;
            ensure!(size == found.len(), "it changed while it was read");
            sha256
        };
        let facts = facts::read(on_disk, name)?;
        let file = SetFile {
            name: name.parse()?,
            project: facts.project,
            version: facts.version,
            size: found.len(),
            sha256,
            upload_time: None,
            metadata: facts.sidecar,
            requires_python: facts.requires_python,
            yanked: None,
        };
        Ok((file, time))
    }

    /// Whether the file was left alone for a while before its digest was written down. Within the
    /// grain of a file system's clock it can change and keep its time.
    fn is_settled(&self, modified: Option<SystemTime>) -> bool {
        const GRAIN: Duration = Duration::from_secs(2);
        let settled = modified.and_then(|time| time.checked_add(GRAIN));
        settled
            .zip(self.written)
            .is_some_and(|(settled, written)| settled <= written)
    }
}

fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Who is told how far the reading is, and who may end it.
struct Watch<'a> {
    stop: &'a Stop,
    progress: &'a dyn Fn(u64),
}

fn hash(path: &Path, watch: &Watch) -> Result<(Sha256, u64)> {
    let watched = Watched {
        file: fs::File::open(path)?,
        watch,
    };
    let answer = Sha256::of_reader(io::BufReader::with_capacity(1 << 20, watched));
    // The reader ended with an error of its own if it was stopped.
    watch.stop.check()?;
    Ok(answer?)
}

struct Watched<'a> {
    file: fs::File,
    watch: &'a Watch<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.stop.check().map_err(io::Error::other)?;
        let count = self.file.read(buffer)?;
        (self.watch.progress)(count as u64);
        Ok(count)
    }
}
