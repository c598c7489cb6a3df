//! Reads which packages are installed in an environment: a virtual environment, a conda prefix, or a
//! `site-packages` directory. Its Python is not run.

use std::{
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use walkdir::WalkDir;

use crate::{
    artifact::FileAt,
    check::{
        facts::{MemberFacts, WheelFile},
        observe::{installed_member, installed_wheel},
    },
    error::{Context as _, Hint as _, Result, Stop, anyhow, ensure},
    parallel,
    set::is_ours,
    version::Version,
    wheel::{DistName, Headers},
};

/// The directory of the development files, which `rocm-sdk init` unpacks.
const DEVEL: &str = "_rocm_sdk_devel";
const DEVEL_MANIFEST: &str = "rocm_sdk_devel/_devel_manifest.json";

/// The packages of an environment.
#[derive(Debug)]
pub struct SitePackages {
    pub root: PathBuf,
    pub packages: Vec<InstalledPackage>,
    /// Whether packages of the Python that the environment was made with are imported as well.
    pub sees_other_site: bool,
    pub devel: Option<DevelFiles>,
}

/// An installed package.
#[derive(Debug)]
pub struct InstalledPackage {
    pub name: DistName,
    pub version: Version,
    /// The requirements of its METADATA.
    pub requires: Vec<String>,
    /// The files of RECORD outside of `.dist-info`.
    pub files: Vec<String>,
    /// The files of RECORD that do not exist.
    pub missing: Vec<String>,
    /// The files that have another size than in RECORD.
    pub changed: Vec<String>,
    /// The facts of its files. Only of ROCm packages, and of the libraries of others.
    pub wheel: Arc<WheelFile>,
}

/// How much of the development files there is, and how much there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevelFiles {
    pub files: u64,
    pub of_files: u64,
    pub bytes: u64,
    pub of_bytes: u64,
}

impl SitePackages {
    pub fn read(environment: &Path, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let root = find(environment)?;
        let entries = fs::read_dir(&root)?.collect::<io::Result<Vec<_>>>()?;
        let mut infos: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        infos.retain(|it| it.extension().is_some_and(|it| it == "dist-info"));
        infos.sort();
        let packages = parallel::try_map(&infos, jobs, stop, |info| {
            let name = info.file_name().unwrap_or_default().to_string_lossy();
            InstalledPackage::read(&root, info).with_context(|| format!("failed to read `{name}`"))
        })?;
        Ok(Self {
            sees_other_site: sees_other_site(environment)?,
            devel: DevelFiles::read(&root)?,
            packages: packages.into_iter().flatten().collect(),
            root,
        })
    }

    pub fn find(&self, name: &str) -> Option<&InstalledPackage> {
        self.packages.iter().find(|it| it.name.normalized() == name)
    }
}

/// The directory with the packages of an environment.
fn find(environment: &Path) -> Result<PathBuf> {
    let has_packages = |directory: &PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut infos = entries.map(|it| it.path());
        infos.any(|it| it.extension().is_some_and(|it| it == "dist-info"))
    };
    let mut ways = vec![
        environment.to_owned(),
        environment.join("Lib/site-packages"),
    ];
    for lib in ["lib", "lib64"] {
        let pythons = fs::read_dir(environment.join(lib));
        let pythons = pythons.into_iter().flatten().flatten();
        let pythons = pythons.filter(|it| it.file_name().to_string_lossy().starts_with("python"));
        ways.extend(pythons.map(|it| it.path().join("site-packages")));
    }
    let found = ways.into_iter().find(has_packages);
    let shown = environment.display();
    found
        .ok_or_else(|| anyhow!("no packages are installed in `{shown}`"))
        .hint("pass a virtual environment, a conda prefix, or a `site-packages` directory")
}

/// Whether `pyvenv.cfg` lets the packages of the base Python in.
fn sees_other_site(environment: &Path) -> Result<bool> {
    let text = match fs::read_to_string(environment.join("pyvenv.cfg")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        text => text?,
    };
    let mut fields = text.lines().filter_map(|line| line.split_once('='));
    Ok(fields.any(|(name, value)| {
        name.trim() == "include-system-site-packages" && value.trim().eq_ignore_ascii_case("true")
    }))
}

impl InstalledPackage {
    /// `None` without a name, a version or RECORD: packages of Linux distributions have none.
    fn read(root: &Path, info: &Path) -> Result<Option<Self>> {
        let text = |name: &str| match fs::read_to_string(info.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.map(Some),
        };
        let (Some(metadata), Some(record)) = (text("METADATA")?, text("RECORD")?) else {
            return Ok(None);
        };
        let metadata: Headers = metadata.parse()?;
        let name = metadata.get("Name").and_then(|it| it.parse().ok());
        let version = metadata.get("Version").and_then(|it| it.parse().ok());
        let (Some(name), Some(version)) = (name, version) else {
            return Ok(None);
        };
        let (name, version): (DistName, Version) = (name, version);
        let requires = metadata.all("Requires-Dist").map(str::to_owned).collect();
        let wheel: Headers = text("WHEEL")?.unwrap_or_default().parse()?;
        let tag = wheel.get("Tag").unwrap_or("py3-none-any");
        let file = format!("{}-{version}-{tag}.whl", name.filename_form());
        let files = InstalledFiles::read(root, &record, is_ours(&name))?;
        Ok(Some(Self {
            name,
            version,
            requires,
            files: files.paths,
            missing: files.missing,
            changed: files.changed,
            wheel: Arc::new(installed_wheel(file, files.members)),
        }))
    }
}

/// The files of a package.
#[derive(Default)]
struct InstalledFiles {
    paths: Vec<String>,
    missing: Vec<String>,
    changed: Vec<String>,
    members: Vec<MemberFacts>,
}

impl InstalledFiles {
    /// Reads RECORD, and the headers of the files that rules need.
    fn read(root: &Path, record: &str, is_ours: bool) -> Result<Self> {
        let mut this = Self::default();
        let mut rows = csv::ReaderBuilder::new();
        let rows = rows.has_headers(false).flexible(true);
        for row in rows.from_reader(record.as_bytes()).records() {
            let row = row.context("failed to read RECORD")?;
            let path = row.get(0).context("an empty row in RECORD")?;
            ensure!(!path.contains('\0'), "a NUL in a path of RECORD");
            // What Python compiled is made again.
            if Path::new(path).extension().is_some_and(|it| it == "pyc") {
                continue;
            }
            let place = root.join(path);
            let found = match fs::metadata(&place) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    this.missing.push(path.to_owned());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let size: Option<u64> = row.get(2).and_then(|it| it.parse().ok());
            if size.is_some_and(|size| size != found.len()) {
                this.changed.push(path.to_owned());
            }
            if !path.contains(".dist-info/") {
                this.paths.push(path.to_owned());
            }
            let is_inside = !path.starts_with("..") && !Path::new(path).is_absolute();
            if is_inside && found.is_file() && (is_ours || path.contains(".so")) {
                let file = FileAt::open(&place)?;
                let member = installed_member(path.to_owned(), mode(&found), &file)?;
                this.members.push(member);
            }
        }
        Ok(this)
    }
}

#[cfg(unix)]
fn mode(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(found) & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &std::fs::Metadata) -> u32 {
    0o644
}

impl DevelFiles {
    /// `None` if the development files were not unpacked, or have no manifest.
    fn read(root: &Path) -> Result<Option<Self>> {
        let tree = root.join(DEVEL);
        let manifest = match fs::read_to_string(root.join(DEVEL_MANIFEST)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            manifest => manifest?,
        };
        if !tree.is_dir() {
            return Ok(None);
        }
        let manifest: serde_json::Value =
            serde_json::from_str(&manifest).context("failed to read `_devel_manifest.json`")?;
        let number = |name: &str| manifest.get(name).and_then(serde_json::Value::as_u64);
        let (Some(of_files), Some(of_bytes)) = (number("files"), number("bytes")) else {
            return Ok(None);
        };
        let (mut files, mut bytes) = (0, 0);
        for entry in WalkDir::new(&tree) {
            let entry = entry.map_err(io::Error::from)?;
            if entry.file_type().is_file() {
                files += 1;
                bytes += entry.metadata().map_err(io::Error::from)?.len();
            }
        }
        Ok(Some(Self {
            files,
            of_files,
            bytes,
            of_bytes,
        }))
    }

    pub fn is_complete(&self) -> bool {
        self.files >= self.of_files && self.bytes >= self.of_bytes
    }
}
