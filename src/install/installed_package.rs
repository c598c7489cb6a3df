//! [`InstalledPackage`]: a package as its `.dist-info` directory and its files say it. What cannot be read is
//! said, and never ends the reading: an environment has files of many programs.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;

use crate::{
    check::{
        facts::{MemberFacts, WheelFile},
        observe::{installed_member, installed_wheel},
    },
    index::{BundledRocm, TIE_RECORD, is_ours},
    policy::DistNames,
};
use rocwheel_base::{
    digest::Sha256,
    io::{FileAt, read_small},
    version::Version,
};
use rocwheel_wheel::{DistName, Headers, Metadata, Requirement, record::parse_hash};

/// A part of the name of each package with device code: `rocm-sdk-device-gfx942`, `amd-torch-device-gfx942`.
pub(super) const DEVICE: &str = "-device-gfx";

/// An installed package.
#[derive(Debug)]
pub struct InstalledPackage {
    pub name: DistName,
    pub version: Version,
    /// Its `.dist-info` directory.
    pub info: PathBuf,
    /// Whether it is a package of ROCm, one with device code, or one that requires ROCm. The files of other
    /// packages are not judged: a distribution or a company may have changed them on purpose.
    pub is_of_rocm: bool,
    /// The requirements of its METADATA that can be read.
    pub requires: Vec<Requirement>,
    /// The files of RECORD outside of `.dist-info` that exist.
    pub files: Vec<String>,
    /// The files of RECORD that do not exist, of a package that is judged.
    pub missing: Vec<String>,
    /// The files that have another size than in RECORD, of a package that is judged; and those that `replaced_by` has
    /// replaced.
    pub changed: Vec<String>,
    /// What RECORD says of the bytes of `files`, as far as it says something.
    pub recorded: BTreeMap<String, RecordedContent>,
    /// The ROCm packages whose files it has in it.
    pub bundled: Option<BundledRocm>,
    /// The package that was installed over it.
    pub replaced_by: Option<Replacement>,
    /// The facts of its files, if they were read. Only of ROCm packages, and of the libraries of others.
    pub wheel: Arc<WheelFile>,
}

/// What RECORD says of the bytes of a file. The wheels of some projects have no hashes there, or no sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedContent {
    pub sha256: Option<Sha256>,
    pub size: Option<u64>,
}

/// A package that has replaced files of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub name: DistName,
    pub version: Version,
}

/// How much is read of the files of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadDepth {
    /// Whether they are there, with the sizes of RECORD. That is what an installer can break.
    Sizes,
    /// Also the headers of libraries, and what device code there is, which rules judge.
    Headers,
}

/// What a `.dist-info` directory is.
#[derive(Debug)]
pub(super) enum InfoDirectory {
    Package(Box<InstalledPackage>),
    /// A package of ROCm, or one with device code, without the files that say what is installed.
    Remains(PackageRemains),
    /// A package of others of which nothing but this is known: distributions of Linux write no RECORD, and
    /// setuptools once wrote `.egg-info`.
    Named(DistName, Version),
    /// No package.
    Other,
}

/// What a removal that was interrupted has left of a package: a `.dist-info` directory without METADATA or RECORD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageRemains {
    pub name: DistName,
    pub info: PathBuf,
    /// The file that cannot be read: `RECORD`.
    pub lacks: &'static str,
}

impl InfoDirectory {
    /// Reads a `.dist-info` directory of `site`.
    pub(super) fn read(site: &Path, info: &Path, depth: ReadDepth) -> Self {
        match (metadata_of(info), text_of(info, "RECORD")) {
            (Some(metadata), Some(record)) => {
                let package = InstalledPackage::read(site, info, metadata, &record, depth);
                Self::Package(Box::new(package))
            }
            (Some(metadata), None) => {
                let requires_rocm = metadata.requirements().any(|line| is_of_rocm(&line.name));
                if requires_rocm || is_of_rocm(&metadata.name) {
                    return Self::remains(metadata.name, info, "RECORD");
                }
                Self::Named(metadata.name, metadata.version)
            }
            (None, _) => {
                let file_name = info.file_name().unwrap_or_default().to_string_lossy();
                let name = file_name.split('-').next().unwrap_or_default().parse();
                match name {
                    Ok(name) if is_of_rocm(&name) => Self::remains(name, info, "METADATA"),
                    _ => Self::Other,
                }
            }
        }
    }

    /// Reads an `.egg-info` directory or file.
    pub(super) fn read_egg(egg: &Path) -> Self {
        let pkg_info = if egg.is_dir() {
            text_of(egg, "PKG-INFO")
        } else {
            let file = egg.parent().zip(egg.file_name());
            file.and_then(|(site, name)| text_of(site, &name.to_string_lossy()))
        };
        match pkg_info.as_deref().and_then(parse_metadata) {
            Some(metadata) => Self::Named(metadata.name, metadata.version),
            None => Self::Other,
        }
    }

    fn remains(name: DistName, info: &Path, lacks: &'static str) -> Self {
        Self::Remains(PackageRemains { name, info: info.to_owned(), lacks })
    }
}

impl InstalledPackage {
    /// The directory that it is installed in.
    pub fn site(&self) -> &Path {
        self.info.parent().unwrap_or(&self.info)
    }

    fn read(site: &Path, info: &Path, metadata: Metadata, record: &str, depth: ReadDepth) -> Self {
        let requires: Vec<Requirement> = metadata.requirements().collect();
        let name = metadata.name;
        let version = metadata.version;
        let wheel: Option<Headers> = text_of(info, "WHEEL").and_then(|text| text.parse().ok());
        let tag = wheel.as_ref().and_then(|headers| headers.get("Tag")).unwrap_or("py3-none-any");
        let file = format!("{}-{version}-{tag}.whl", name.filename_form());
        let requires_rocm = requires.iter().any(|requirement| is_of_rocm(&requirement.name));
        let bundled = bundled_rocm(info, record);
        let mut package = Self {
            is_of_rocm: is_of_rocm(&name) || requires_rocm || bundled.is_some(),
            bundled,
            info: info.to_owned(),
            requires,
            files: Vec::new(),
            missing: Vec::new(),
            changed: Vec::new(),
            recorded: BTreeMap::new(),
            replaced_by: None,
            wheel: Arc::new(installed_wheel(file.clone(), Vec::new())),
            version,
            name,
        };
        let members = package.read_files(site, record, depth);
        package.wheel = Arc::new(installed_wheel(file, members));
        package
    }

    /// Compares the files with RECORD. Returns the facts of those that rules judge, if they are wanted.
    fn read_files(&mut self, site: &Path, record: &str, depth: ReadDepth) -> Vec<MemberFacts> {
        let is_ours = is_ours(&self.name);
        let mut members = Vec::new();
        let mut reader = csv::ReaderBuilder::new();
        let rows = reader.has_headers(false).flexible(true).from_reader(record.as_bytes());
        for row in rows.into_records() {
            let recorded_path = row.as_ref().ok().and_then(recorded_path);
            let readable_path = recorded_path.filter(|path| !path.contains('\0'));
            let (Ok(row), Some(recorded_path)) = (&row, readable_path) else {
                self.note_changed("RECORD");
                continue;
            };
            let path = &*with_slashes(site, &recorded_path);
            // What Python compiled is made again.
            if Path::new(path).extension().is_some_and(|it| it == "pyc") {
                continue;
            }
            // Programs are outside of `site-packages`. Installers put them where they like, and change their first
            // line.
            if path.starts_with("..") || Path::new(path).is_absolute() {
                continue;
            }
            let place = site.join(path);
            let metadata = match fs::metadata(&place) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if self.is_of_rocm && !is_unpacked_archive(site, path) {
                        self.missing.push(path.to_owned());
                    }
                    continue;
                }
                Err(_) => {
                    self.note_changed(path);
                    continue;
                }
            };
            let recorded = RecordedContent::of_row(row);
            if recorded.size.is_some_and(|size| size != metadata.len()) {
                self.note_changed(path);
            }
            if !path.contains(".dist-info/") {
                self.files.push(path.to_owned());
                if recorded.sha256.is_some() || recorded.size.is_some() {
                    self.recorded.insert(path.to_owned(), recorded);
                }
            }
            let is_judged = metadata.is_file() && (is_ours || path.contains(".so"));
            if is_judged && depth == ReadDepth::Headers {
                match member(path, &place, &metadata) {
                    Ok(member) => members.push(member),
                    Err(_) => self.note_changed(path),
                }
            }
        }
        members
    }

    /// Remembers a file that is not as it was installed, or cannot be read.
    fn note_changed(&mut self, path: &str) {
        if self.is_of_rocm && self.changed.last().is_none_or(|last| last != path) {
            self.changed.push(path.to_owned());
        }
    }
}

impl RecordedContent {
    /// The last two fields of a row of RECORD.
    fn of_row(row: &csv::StringRecord) -> Self {
        let fields: Vec<&str> = row.iter().collect();
        match fields[..] {
            [_, .., hash, size] => {
                Self { sha256: parse_hash(hash).ok().flatten(), size: size.parse().ok() }
            }
            _ => Self { sha256: None, size: None },
        }
    }

    /// Whether a file has the recorded bytes. `None` if it cannot be read, or if RECORD says nothing of them.
    pub(super) fn fits(&self, file: &Path) -> Option<bool> {
        let has_other_size = |size: u64| fs::metadata(file).is_ok_and(|it| it.len() != size);
        if self.size.is_some_and(has_other_size) {
            return Some(false);
        }
        match self.sha256 {
            Some(sha256) => {
                let (installed, _) = Sha256::of_reader(fs::File::open(file).ok()?).ok()?;
                Some(installed == sha256)
            }
            None => self.size.map(|_| true),
        }
    }
}

/// The path of a row of RECORD. `rocm-sdk init` of TheRock adds rows as text, without quotes, so that a comma in a
/// path ends a field: `licenses/a, b.txt,,`.
fn recorded_path(row: &csv::StringRecord) -> Option<String> {
    let fields: Vec<&str> = row.iter().collect();
    let path = match &fields[..] {
        [path @ .., _, _] if !path.is_empty() => path,
        fields => fields.get(..1)?,
    };
    Some(path.join(","))
}

/// A path of RECORD with `/`. Programs on Windows write `\`, which elsewhere can be a part of a name too.
fn with_slashes<'a>(site: &Path, path: &'a str) -> Cow<'a, str> {
    if path.contains('\\') && !site.join(path).exists() {
        return Cow::Owned(path.replace('\\', "/"));
    }
    Cow::Borrowed(path)
}

fn member(path: &str, place: &Path, metadata: &std::fs::Metadata) -> io::Result<MemberFacts> {
    #[cfg(unix)]
    let mode = std::os::unix::fs::MetadataExt::mode(metadata) & 0o7777;
    #[cfg(not(unix))]
    let mode = 0o644;
    installed_member(path.to_owned(), mode, &FileAt::open(place)?)
}

/// What `rocm_tie.json` and RECORD say of the files of ROCm in a package.
fn bundled_rocm(info: &Path, record: &str) -> Option<BundledRocm> {
    let tie_record = text_of(info, TIE_RECORD)?;
    let mut reader = csv::ReaderBuilder::new();
    let rows = reader.has_headers(false).flexible(true).from_reader(record.as_bytes());
    let files = rows.into_records().filter_map(|row| {
        let row = row.ok()?;
        // Installers for Windows write `\`.
        Some((recorded_path(&row)?.replace('\\', "/"), RecordedContent::of_row(&row).sha256))
    });
    let digests: Vec<(String, Option<Sha256>)> = files.collect();
    BundledRocm::read(
        tie_record.as_bytes(),
        digests.iter().map(|(path, sha256)| (path.as_str(), *sha256)),
    )
}

/// Whether a package is one of ROCm, or has device code.
fn is_of_rocm(name: &DistName) -> bool {
    is_ours(name) || name.normalized().contains(DEVICE)
}

/// Whether a path names the archive of the development files, and they are unpacked: `rocm-sdk init`
/// removes the archive then, and leaves its row in RECORD.
fn is_unpacked_archive(site: &Path, path: &str) -> bool {
    let devel = DistNames::built_in().devel.replace('-', "_");
    let end = path.strip_prefix(&format!("{devel}/_devel.tar"));
    let is_archive = end.is_some_and(|end| end.is_empty() || end == ".xz");
    is_archive && site.join(format!("_{devel}")).is_dir()
}

/// The text of a small file. `None` if it cannot be read.
pub(super) fn text_of(directory: &Path, name: &str) -> Option<String> {
    let bytes = read_small(&directory.join(name)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The metadata of an installed package. `None` without a name or a version.
pub(super) fn metadata_of(info: &Path) -> Option<Metadata> {
    parse_metadata(&text_of(info, "METADATA")?)
}

fn parse_metadata(text: &str) -> Option<Metadata> {
    let headers: Headers = text.parse().ok()?;
    Some(Metadata {
        name: headers.get("Name")?.parse().ok()?,
        version: headers.get("Version")?.parse().ok()?,
        requires_python: None,
        requires_dist: headers.all("Requires-Dist").map(str::to_owned).collect(),
        provides_extra: Vec::new(),
    })
}
