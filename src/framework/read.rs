//! Reads the wheel of a framework once: its members with their digests, its metadata, and the
//! binaries, which are kept in temporary files because planning and writing read them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Seek as _, SeekFrom},
    num::NonZeroUsize,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fs_err::{self as fs, File};

use super::{python_source::PythonSource, strings};
use crate::{
    check::{
        facts::{Elf, MemberFacts, MemberKind, WheelFile},
        observe::{Outline, PackageReader, ReadWatch},
    },
    console::World,
    index::is_directory_of_ours,
};
use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Hint as _, No, Result, anyhow, ensure},
    parallel,
    quantity::many,
    relpath::RelPath,
    spool::Spool,
};
use rocwheel_elf::{ElfFacts, Machine, loader::is_loadable};
use rocwheel_wheel::{
    Archive, MemberKeeper, Metadata, PackageFilename, Record, Requirement, Source, Tag, WheelEdit,
    dist_info::WheelFacts, installed_path,
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
    /// The file names of the ROCm packages that it brings along.
    pub bundles: Vec<String>,
    /// Its binaries by the paths of the members.
    pub binaries: BTreeMap<String, Binary>,
    pub archive: Archive,
    /// What is wrong with the archive, or differs from RECORD.
    pub damage: Vec<String>,
    /// The number of members that RECORD lists without a digest, and that should have one.
    pub without_digest: usize,
}

/// A binary of a wheel.
#[derive(Debug)]
pub struct Binary {
    pub bytes: Arc<Spool>,
    /// The names of libraries among its strings.
    pub names: BTreeSet<String>,
}

/// An ELF file of a wheel that could be read.
#[derive(Clone, Copy, Debug)]
pub struct ElfMember<'a> {
    /// The path that it gets in `site-packages`.
    pub path: &'a str,
    pub member: &'a MemberFacts,
    pub facts: &'a ElfFacts,
}

/// A wheel in a file.
struct LocalWheel<'a> {
    path: &'a Path,
    size: u64,
}

impl PackageReader for LocalWheel<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut file = File::open(self.path)?;
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
        // A file that does not exist fails below, with its name.
        let sizes = paths.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len()));
        let count = paths.len();
        let what = many(count, "wheel");
        let _bar = world.console.joined_progress("Reading", what, count, sizes.sum());
        paths.iter().map(|path| Self::read(path, jobs, world)).collect()
    }

    /// The size of the members.
    pub fn unpacked_size(&self) -> u64 {
        self.archive.members.values().map(|it| it.len).sum()
    }

    /// The members that are installed into `site-packages`, with the paths that they get there.
    pub fn installed(&self) -> impl Iterator<Item = (&str, &MemberFacts)> {
        installed_members(&self.facts)
    }

    /// The ELF files that could be read.
    pub fn elf_files(&self) -> impl Iterator<Item = ElfMember<'_>> {
        elf_files(&self.facts).filter_map(|(_, elf)| elf.ok())
    }

    /// The ELF files that the loader of a host loads.
    pub fn host_files(&self) -> impl Iterator<Item = ElfMember<'_>> {
        host_files(&self.facts)
    }

    /// The ELF files that could not be read, and why.
    pub fn unread_binaries(&self) -> impl Iterator<Item = (&str, &str)> {
        elf_files(&self.facts).filter_map(|(path, elf)| Some((path, elf.err()?)))
    }

    /// Whether a file belongs to ROCm packages that this wheel brings along.
    pub(super) fn is_bundled(&self, path: &str) -> bool {
        let top = path.split('/').next().unwrap_or_default();
        !self.bundles.is_empty() && is_directory_of_ours(top)
    }

    /// The binaries for Windows, by their names.
    pub fn windows_files(&self) -> impl Iterator<Item = (&str, &MemberFacts)> {
        self.installed().filter(|(path, _)| {
            let lower = path.to_ascii_lowercase();
            [".dll", ".pyd", ".exe"].iter().any(|extension| lower.ends_with(extension))
        })
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

    /// The names of libraries among the strings of a binary, without those in its own tables.
    pub fn opened<'a>(&'a self, elf: ElfMember<'a>) -> impl Iterator<Item = &'a str> {
        let binary = self.binaries.get(&elf.member.path).into_iter();
        let names = binary.flat_map(|it| it.names.iter().map(String::as_str));
        names.filter(move |name| {
            elf.facts.soname.as_deref() != Some(name)
                && !elf.facts.needed.iter().any(|it| it == name)
        })
    }

    /// The requirements that can be read.
    pub(super) fn requirements(&self) -> impl Iterator<Item = Requirement> {
        self.metadata.requirements()
    }

    /// The path of the member that is installed at a path.
    pub fn member(&self, installed: &str) -> Option<&str> {
        let (_, member) = self.installed().find(|(path, _)| *path == installed)?;
        Some(&member.path)
    }

    /// A text of the wheel in UTF-8. `None` if there is no such member.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let decode = |bytes| String::from_utf8(bytes).map_err(|_| anyhow!("`{path}` is not UTF-8"));
        self.text_bytes(path)?.map(decode).transpose()
    }

    /// A file of Python of the wheel. `None` if there is no such member.
    pub(super) fn python(&self, path: &str) -> Result<Option<PythonSource>> {
        let decode =
            |bytes| PythonSource::decode(bytes).with_context(|| format!("failed to read `{path}`"));
        self.text_bytes(path)?.map(decode).transpose()
    }

    fn text_bytes(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let Ok(member) = path.parse() else {
            return Ok(None);
        };
        self.archive.bytes(File::open(&self.path)?, &member, LONGEST_TEXT)
    }

    /// The `dist-info` directory of the wheel under another name. If the version is the same, the directory keeps
    /// its name, in which a tool may have written the version in another form.
    pub fn dist_info_of(&self, name: &PackageFilename) -> String {
        if name.version == self.name.version {
            self.archive.dist_info.to_string()
        } else {
            name.dist_info()
        }
    }

    /// Begins an edit of the wheel. `dist_info` is the directory of the metadata in the new wheel.
    pub(super) fn edit(&self, name: PackageFilename, dist_info: &str) -> Result<WheelEdit> {
        let digest_of = |member: &MemberFacts| {
            let path: RelPath = member.path.parse().ok()?;
            Some((path, member.content.as_ref().ok()?.sha256?))
        };
        let digests: BTreeMap<RelPath, Sha256> =
            self.facts.members.iter().filter_map(digest_of).collect();
        let known_digest = |path: &RelPath| digests.get(path).copied();
        WheelEdit::of(&self.path, &self.archive, name, dist_info.parse()?, known_digest)
    }

    /// A member, for another wheel.
    pub(super) fn member_source(&self, path: &str) -> Result<Source> {
        let facts = self.facts.members.iter().find(|member| member.path == path);
        let stored = self.archive.members.get(path);
        let (stored, facts) =
            stored.zip(facts).with_context(|| format!("no `{path}` in the wheel"))?;
        let sha256 = facts.content.as_ref().ok().and_then(|content| content.sha256);
        Ok(MemberKeeper::new(&self.path)?.keep(stored, sha256))
    }

    pub(super) fn tag(&self) -> Result<&Tag> {
        self.name.tag.as_ref().context("a wheel without a tag")
    }

    /// The bytes of a binary, by the path of its member.
    pub(super) fn binary(&self, path: &str) -> Result<&Arc<Spool>> {
        let binary = self.binaries.get(path);
        Ok(&binary.context("a binary that was not kept")?.bytes)
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
                && self.elf_files().all(|elf| elf.facts.machine == Machine::AmdGpu)
    }
}

/// The members of a wheel that are installed into `site-packages`, with the paths that they get there.
pub(super) fn installed_members(wheel: &WheelFile) -> impl Iterator<Item = (&str, &MemberFacts)> {
    wheel
        .members
        .iter()
        .filter(|member| member.kind != MemberKind::Directory)
        .filter_map(|member| Some((installed_path(&member.path)?, member)))
}

/// The ELF files of a wheel, or why they could not be read, with their paths.
fn elf_files(wheel: &WheelFile) -> impl Iterator<Item = (&str, Result<ElfMember<'_>, &str>)> {
    installed_members(wheel).filter_map(|(path, member)| {
        let read = match &member.content.as_ref().ok()?.elf.as_ref()? {
            Elf::Read(elf) => Ok(ElfMember { path, member, facts: &elf.facts }),
            Elf::Damaged(why) => Err(why.as_str()),
            Elf::TooLarge => Err("its headers or tables are too large to check"),
        };
        Some((path, read))
    })
}

/// The ELF files of a wheel that the loader of a host loads.
pub(super) fn host_files(wheel: &WheelFile) -> impl Iterator<Item = ElfMember<'_>> {
    elf_files(wheel).filter_map(|(_, elf)| elf.ok()).filter(|elf| is_loadable(elf.facts))
}

fn read(path: &Path, jobs: NonZeroUsize, world: &World) -> Result<FrameworkWheel> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name: PackageFilename = file.parse()?;
    ensure!(name.tag.is_some(), "not a wheel: `{file}`");
    if name.label.is_some() {
        let refusal = format!("a variant wheel, which this version cannot tie: `{file}`");
        return Err(anyhow!(No(refusal))).hint(
            "pass the wheel without a label; remove variant wheels before you promote a set",
        );
    }
    let size = fs::metadata(path).hint("pass a wheel: a file that ends in `.whl`")?.len();
    let source = LocalWheel { path, size };
    let binaries = Mutex::new(BTreeMap::new());
    let facts = observe(&file, &source, &binaries, jobs, world)?;
    let archive = Archive::read(File::open(path)?)?;
    let read_text = |name: &str| {
        let path = format!("{}/{name}", archive.dist_info);
        let bytes = facts
            .text(&path)
            .with_context(|| format!("no `{path}` in the wheel, or it cannot be read"))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| anyhow!("`{path}` is not UTF-8"))
    };
    let metadata_text = read_text("METADATA")?;
    let wheel_text = read_text("WHEEL")?;
    let metadata = Metadata::parse(metadata_text.as_bytes())?;
    ensure!(
        metadata.name == name.name && metadata.version == name.version,
        "its METADATA says {} {}",
        metadata.name,
        metadata.version
    );
    let record = Record::parse(read_text("RECORD")?.as_bytes())?;
    let (damage, without_digest) = find_damage(&facts, &record, &archive);
    Ok(FrameworkWheel {
        path: path.to_owned(),
        name,
        metadata,
        metadata_text,
        wheel: wheel_text.parse()?,
        wheel_text,
        binaries: binaries.into_inner().unwrap_or_else(PoisonError::into_inner),
        archive,
        damage,
        without_digest,
        bundles: facts.bundled_rocm().map(|rocm| rocm.packages).unwrap_or_default(),
        facts: Arc::new(facts),
    })
}

/// Reads all members. Binaries are kept, because planning and writing read them again.
fn observe(
    file: &str,
    source: &LocalWheel<'_>,
    binaries: &Mutex<BTreeMap<String, Binary>>,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<WheelFile> {
    let progress = world.console.progress("Reading", file, source.size);
    let hold = |path: &str, bytes: Spool| {
        // A binary that cannot be read again fails in the plan that needs it.
        let names = strings::library_names(&bytes).unwrap_or_default();
        let bytes = Arc::new(bytes);
        binaries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned(), Binary { bytes, names });
    };
    let watch = &ReadWatch {
        stop: &world.stop,
        progress: &|bytes| progress.inc(bytes),
        binaries: Some(&hold),
    };
    let outline = Outline::read(file, source);
    let read = |portion: &_| Ok(outline.read_portion(source, portion, watch)?);
    let portions = parallel::map(&outline.portions(false), jobs, &world.stop, read)?;
    let facts = outline.finish(portions);
    match &facts.unreadable {
        Some(why) => Err(anyhow!("{why}")),
        None => Ok(facts),
    }
}

/// Finds what is wrong with an archive and its RECORD, and counts the members without a digest.
fn find_damage(facts: &WheelFile, record: &Record, archive: &Archive) -> (Vec<String>, usize) {
    let mut damage = facts.contradictions.clone();
    let mut rows: BTreeMap<&str, _> =
        record.rows().iter().map(|row| (row.path.as_str(), row)).collect();
    let mut without_digest = 0;
    for member in &facts.members {
        let path = &member.path;
        let row = rows.remove(path.as_str());
        if member.kind == MemberKind::Directory {
            continue;
        }
        if member.kind != MemberKind::File {
            damage.push(format!("`{path}` is no file, and installers would not make what it is"));
        }
        match (&member.content, row) {
            (Err(why), _) => damage.push(format!("`{path}`: {why}")),
            // RECORD has no digest of itself, and signatures of it cannot be in it.
            _ if path.parse().is_ok_and(|path| archive.is_record(&path)) => {}
            (_, None) => damage.push(format!("`{path}` is not in RECORD")),
            (Ok(content), Some(row))
                if row.digest.is_none() && row.len.is_none_or(|len| len == content.len) =>
            {
                without_digest += 1;
            }
            (Ok(content), Some(row)) => {
                let mismatch = match content.sha256 {
                    Some(digest) => row.mismatch(digest, content.len),
                    None => Some("was not hashed".to_owned()),
                };
                damage.extend(mismatch.map(|why| format!("`{path}` {why}")));
            }
        }
    }
    // The rows that are left belong to no member.
    damage.extend(rows.keys().map(|path| format!("`{path}` is in RECORD and not in the wheel")));
    (damage, without_digest)
}
