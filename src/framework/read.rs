//! Reads the wheel of a framework once: its members with their digests, its metadata, and the
//! binaries, which are kept in temporary files because planning and writing read on in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Seek as _, SeekFrom},
    num::NonZeroUsize,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fs_err::{self as fs, File};

use super::strings;
use crate::{
    check::{
        facts::{ArchiveFault, Elf, ElfFile, MemberFacts, MemberKind, WheelFile},
        observe::{ObserveProgress, Outline, PackageReader},
    },
    console::{World, many},
    digest::Sha256,
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    package::assemble::{EditedContent, WheelEdit},
    parallel,
    relpath::RelPath,
    spool::Spool,
    wheel::{Archive, Metadata, PackageFilename, Record, Tag, dist_info::WheelFacts},
};

/// The longest file of Python that is read as text.
const LONGEST_TEXT: u64 = 16 << 20;

/// The wheel of a framework, or of anything else that is not a ROCm package.
#[derive(Debug)]
pub struct FrameworkWheel {
    pub path: PathBuf,
    pub name: PackageFilename,
    pub facts: Arc<WheelFile>,
    pub metadata: Metadata,
    pub metadata_text: String,
    pub wheel: WheelFacts,
    pub wheel_text: String,
    /// Its binaries by the paths of the members.
    pub binaries: BTreeMap<String, Binary>,
    pub archive: Archive,
    /// What is wrong with the archive, or differs from RECORD.
    pub damage: Vec<String>,
    /// How many members RECORD lists without a digest, of those that should have one.
    pub without_digest: usize,
}

/// A binary of a wheel.
#[derive(Debug)]
pub struct Binary {
    pub bytes: Arc<Spool>,
    /// The names of libraries among its strings.
    pub names: BTreeSet<String>,
}

/// A wheel in a file.
struct LocalWheel {
    path: PathBuf,
    size: u64,
}

impl PackageReader for LocalWheel {
    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(range.start))?;
        Ok(Box::new(file.take(range.end.saturating_sub(range.start))))
    }
}

impl FrameworkWheel {
    /// Reads a wheel. Damaged members are facts; it is an error if it cannot be read at all.
    pub fn read(path: &Path, jobs: NonZeroUsize, world: &World) -> Result<Self> {
        read(path, jobs, world).with_context(|| format!("failed to read `{}`", path.display()))
    }

    /// Reads several wheels, with one bar.
    pub fn read_all(paths: &[PathBuf], jobs: NonZeroUsize, world: &World) -> Result<Vec<Self>> {
        // A file that is not there fails below, with its name.
        let sizes = paths
            .iter()
            .filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        let (count, what) = (paths.len(), many(paths.len(), "wheel"));
        let _bar = world
            .console
            .joined_progress("Reading", what, count, sizes.sum());
        let wheels = paths.iter().map(|path| Self::read(path, jobs, world));
        wheels.collect()
    }

    /// The size of the members.
    pub fn unpacked_size(&self) -> u64 {
        self.archive.members.values().map(|it| it.len).sum()
    }

    /// The members that are installed into `site-packages`, with the paths that they get there.
    pub fn installed(&self) -> impl Iterator<Item = (&str, &MemberFacts)> {
        let members = self.facts.members.iter();
        let members = members.filter(|it| it.kind != MemberKind::Directory);
        members.filter_map(|member| Some((installed_path(&member.path)?, member)))
    }

    /// The ELF files that could be read, by the paths that they get in `site-packages`.
    pub fn elf_files(&self) -> impl Iterator<Item = (&str, &MemberFacts, &ElfFile)> {
        self.installed().filter_map(|(path, member)| {
            match &member.content.as_ref().ok()?.elf.as_ref()? {
                Elf::Read(elf) => Some((path, member, &**elf)),
                Elf::Damaged(_) | Elf::TooLarge => None,
            }
        })
    }

    /// The binaries for Windows, by their names.
    pub fn windows_files(&self) -> impl Iterator<Item = (&str, &MemberFacts)> {
        self.installed().filter(|(path, _)| {
            let lower = path.to_ascii_lowercase();
            [".dll", ".pyd", ".exe"]
                .iter()
                .any(|it| lower.ends_with(it))
        })
    }

    /// The ELF files that could not be read, and why.
    pub fn unread_binaries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.installed().filter_map(|(path, member)| {
            match member.content.as_ref().ok()?.elf.as_ref()? {
                Elf::Read(_) => None,
                Elf::Damaged(why) => Some((path, why.as_str())),
                Elf::TooLarge => Some((path, "its headers or tables are too large to check")),
            }
        })
    }

    /// The names of libraries among the strings of a binary, without those in its own tables.
    pub fn opened<'a>(
        &'a self,
        member: &str,
        elf: &'a ElfFile,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let own = &elf.facts;
        let names = self.binaries.get(member).into_iter();
        let names = names.flat_map(|binary| binary.names.iter().map(String::as_str));
        names.filter(move |name| {
            own.soname.as_deref() != Some(name) && !own.needed.iter().any(|it| it == name)
        })
    }

    /// The path of the member that is installed at a path.
    pub fn member(&self, installed: &str) -> Option<&str> {
        let mut members = self.installed();
        members
            .find(|it| it.0 == installed)
            .map(|it| it.1.path.as_str())
    }

    /// The bytes of a member, which must not be long.
    pub fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match path.parse() {
            Ok(path) => self
                .archive
                .bytes(File::open(&self.path)?, &path, LONGEST_TEXT),
            Err(_) => Ok(None),
        }
    }

    /// The directory of the metadata under another name. That of the same version stays as it is.
    pub fn dist_info_of(&self, name: &PackageFilename) -> String {
        if name.version == self.name.version {
            self.archive.dist_info.to_string()
        } else {
            name.dist_info()
        }
    }

    /// A change of the wheel. `dist_info` is the directory of its metadata then.
    pub(super) fn edit(&self, name: PackageFilename, dist_info: &str) -> Result<WheelEdit> {
        let members = self.facts.members.iter();
        let digests = members.filter_map(|it| {
            let path: RelPath = it.path.parse().ok()?;
            Some((path, it.content.as_ref().ok()?.sha256?))
        });
        let digests: BTreeMap<RelPath, Sha256> = digests.collect();
        let digest = |path: &RelPath| digests.get(path).copied();
        WheelEdit::of(&self.path, &self.archive, name, dist_info.parse()?, digest)
    }

    /// A member for another wheel.
    pub(super) fn edited_content(&self, path: &str) -> Result<EditedContent> {
        let missing = || format!("no `{path}` in the wheel");
        let member = self.archive.members.get(path);
        let facts = self.facts.members.iter().find(|it| it.path == path);
        let content = facts.with_context(missing)?.content.as_ref().ok();
        Ok(EditedContent::Kept {
            wheel: self.path.as_path().into(),
            member: member.with_context(missing)?.clone(),
            sha256: content.and_then(|it| it.sha256),
        })
    }

    /// A text of the wheel, such as Python. `None` if there is no such member.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let bytes = self.bytes(path)?;
        let text = bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| anyhow!("`{path}` is not UTF-8")));
        text.transpose()
    }

    /// The platform part of its tag: `linux_x86_64`.
    pub fn platform(&self) -> &str {
        self.name.tag.as_ref().map_or("", Tag::platform)
    }

    /// Whether its binaries are for Windows. Some builders give a wheel with DLLs the tag of pure Python.
    pub fn is_for_windows(&self) -> bool {
        self.platform().starts_with("win")
            || self.platform() == "any"
                && self.windows_files().next().is_some()
                && self.elf_files().next().is_none()
    }

    /// The libraries that the files for Windows import, or why they cannot be read, by path.
    pub fn imports(&self) -> BTreeMap<&str, Result<&BTreeSet<String>, &str>> {
        let files = self.windows_files().map(|(path, member)| {
            let content = member.content.as_ref().map_err(String::as_str);
            let imports = content.and_then(|it| match &it.imports {
                Some(imports) => imports.as_ref().map_err(String::as_str),
                None => Err("it is no file for Windows"),
            });
            (path, imports)
        });
        files.collect()
    }
}

/// The path of a member once it is installed. `None` for files that go elsewhere, such as scripts.
pub(super) fn installed_path(member: &str) -> Option<&str> {
    match member.split_once('/') {
        Some((top, rest)) if is_data(top) => rest
            .strip_prefix("platlib/")
            .or_else(|| rest.strip_prefix("purelib/")),
        _ => Some(member),
    }
}

/// Whether a top directory is that of files which installers put elsewhere.
fn is_data(top: &str) -> bool {
    top.rsplit_once('.').is_some_and(|(_, end)| end == "data")
}

fn read(path: &Path, jobs: NonZeroUsize, world: &World) -> Result<FrameworkWheel> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name: PackageFilename = file.parse()?;
    ensure!(name.tag.is_some(), "not a wheel: `{file}`");
    let size = fs::metadata(path)
        .hint("pass a wheel: a file that ends in `.whl`")?
        .len();
    let source = LocalWheel {
        path: path.to_owned(),
        size,
    };
    let binaries = Mutex::new(BTreeMap::new());
    let facts = observe(&file, &source, &binaries, jobs, world)?;
    let archive = Archive::read(File::open(path)?)?;
    let dist_info = &archive.dist_info;
    let text = |name: &str| {
        let path = format!("{dist_info}/{name}");
        let bytes = facts.text(&path);
        let bytes =
            bytes.with_context(|| format!("no `{path}` in the wheel, or it cannot be read"))?;
        let text = String::from_utf8(bytes.to_vec());
        text.map_err(|_| anyhow!("`{path}` is not UTF-8"))
    };
    let (metadata_text, wheel_text) = (text("METADATA")?, text("WHEEL")?);
    let metadata = Metadata::parse(metadata_text.as_bytes())?;
    ensure!(
        metadata.name == name.name && metadata.version == name.version,
        "its METADATA says {} {}",
        metadata.name,
        metadata.version
    );
    let record = Record::parse(text("RECORD")?.as_bytes())?;
    let (damage, without_digest) = damage(&facts, &record, &archive);
    let binaries = binaries
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(FrameworkWheel {
        path: path.to_owned(),
        name,
        metadata,
        metadata_text,
        wheel: wheel_text.parse()?,
        wheel_text,
        binaries,
        archive,
        damage,
        without_digest,
        facts: Arc::new(facts),
    })
}

/// Reads all members. The binaries are held for those who read on in them.
fn observe(
    file: &str,
    source: &LocalWheel,
    binaries: &Mutex<BTreeMap<String, Binary>>,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<WheelFile> {
    let progress = world.console.progress("Reading", file, source.size);
    let hold = |path: &str, bytes: Spool| {
        // A binary that cannot be read again fails in the plan that needs it.
        let names = strings::library_names(&bytes).unwrap_or_default();
        let bytes = Arc::new(bytes);
        let mut binaries = binaries.lock().unwrap_or_else(PoisonError::into_inner);
        binaries.insert(path.to_owned(), Binary { bytes, names });
    };
    let watch = &ObserveProgress {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
        binaries: Some(&hold),
    };
    let outline = Outline::read(file, source);
    let portions = outline.portions(false);
    let read = |portion: &_| Ok(outline.read_portion(source, portion, watch)?);
    let portions = parallel::map(&portions, jobs, &world.stop, read)?;
    let facts = outline.finish(portions);
    let unreadable = facts.faults.iter().find_map(|fault| match fault {
        ArchiveFault::Unreadable(why) => Some(why),
        ArchiveFault::Around(_) | ArchiveFault::Inconsistent(_) => None,
    });
    match unreadable {
        Some(why) => Err(anyhow!("{why}")),
        None => Ok(facts),
    }
}

/// What is wrong with an archive and its RECORD, and the number of members without a digest.
fn damage(facts: &WheelFile, record: &Record, archive: &Archive) -> (Vec<String>, usize) {
    let mut damage: Vec<String> = Vec::new();
    for fault in &facts.faults {
        damage.push(match fault {
            ArchiveFault::Unreadable(why) | ArchiveFault::Inconsistent(why) => why.clone(),
            ArchiveFault::Around(bytes) => format!("{bytes} bytes around the archive"),
        });
    }
    let rows: BTreeMap<&str, _> = record
        .rows()
        .iter()
        .map(|row| (row.path.as_str(), row))
        .collect();
    let mut without_digest = 0;
    let files = facts
        .members
        .iter()
        .filter(|it| it.kind != MemberKind::Directory);
    for member in files {
        let path = &member.path;
        if member.kind != MemberKind::File {
            damage.push(format!(
                "`{path}` is no file, and installers would not make what it is"
            ));
        }
        let content = match &member.content {
            Ok(content) => content,
            Err(why) => {
                damage.push(format!("`{path}`: {why}"));
                continue;
            }
        };
        match rows.get(path.as_str()) {
            // RECORD has no digest of itself, and signatures of it cannot be in it.
            _ if path.parse().is_ok_and(|path| archive.is_record(&path)) => {}
            None => damage.push(format!("`{path}` is not in RECORD")),
            Some(row) if row.digest.is_none() && row.len.is_none_or(|len| len == content.len) => {
                without_digest += 1;
            }
            Some(row) => {
                let mismatch = content.sha256.map(|it| row.mismatch(it, content.len));
                let mismatch = mismatch.unwrap_or(Some("was not hashed".to_owned()));
                damage.extend(mismatch.map(|why| format!("`{path}` {why}")));
            }
        }
    }
    let members: BTreeSet<&str> = facts.members.iter().map(|it| it.path.as_str()).collect();
    let gone = rows.keys().filter(|path| !members.contains(*path));
    damage.extend(gone.map(|path| format!("`{path}` is in RECORD and not in the wheel")));
    (damage, without_digest)
}
