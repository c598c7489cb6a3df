//! Reads which packages are installed in an environment: a virtual environment, a conda prefix, or a
//! `site-packages` directory. Its Python is not run.

use std::{
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use serde::Deserialize;
use walkdir::WalkDir;

use crate::{
    artifact::FileAt,
    check::{
        facts::{MemberFacts, WheelFile},
        observe::{installed_member, installed_wheel},
    },
    error::{Context as _, Hint as _, Result, Stop, ensure},
    package::DistNames,
    parallel,
    set::is_ours,
    version::Version,
    wheel::{DistName, Headers, Metadata},
};

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

/// The development files, which `rocm-sdk init` unpacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevelFiles {
    pub directory: PathBuf,
    pub there: DevelCount,
    pub wanted: DevelCount,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DevelCount {
    pub files: u64,
    pub bytes: u64,
}

/// The metadata of the packages in an environment.
pub fn metadata(environment: &Path) -> Result<Vec<Metadata>> {
    let infos = site(environment).map(|(_, infos)| infos);
    let infos = infos.unwrap_or_default();
    let read = infos.iter().map(|info| metadata_of(info));
    read.filter_map(Result::transpose).collect()
}

impl SitePackages {
    pub fn read(environment: &Path, jobs: NonZeroUsize, stop: &Stop) -> Result<Self> {
        let (root, infos) = site(environment)
            .with_context(|| format!("no packages are installed in `{}`", environment.display()))
            .hint("pass a virtual environment, a conda prefix, or a `site-packages` directory")?;
        let packages = parallel::try_map(&infos, jobs, stop, |info| {
            let name = info.file_name().unwrap_or_default().to_string_lossy();
            InstalledPackage::read(&root, info).with_context(|| format!("failed to read `{name}`"))
        })?;
        let settings = text_of(environment, "pyvenv.cfg")?.unwrap_or_default();
        let mut settings = settings.lines().filter_map(|line| line.split_once('='));
        Ok(Self {
            sees_other_site: settings.any(|(name, value)| {
                name.trim() == "include-system-site-packages"
                    && value.trim().eq_ignore_ascii_case("true")
            }),
            devel: DevelFiles::read(&root)?,
            packages: packages.into_iter().flatten().collect(),
            root,
        })
    }

    pub fn find(&self, name: &str) -> Option<&InstalledPackage> {
        self.packages.iter().find(|it| it.name.normalized() == name)
    }
}

/// The directory with the packages of an environment, and their `.dist-info` directories.
fn site(environment: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|it| it.path())
    };
    let libraries = ["lib", "lib64"].map(|it| environment.join(it));
    let pythons = libraries.iter().flat_map(|it| entries(it));
    let mut ways = [environment.into(), environment.join("Lib/site-packages")]
        .into_iter()
        .chain(pythons.map(|it| it.join("site-packages")));
    ways.find_map(|site| {
        let is_info = |it: &PathBuf| it.extension().is_some_and(|it| it == "dist-info");
        let mut infos: Vec<PathBuf> = entries(&site).filter(is_info).collect();
        infos.sort();
        (!infos.is_empty()).then_some((site, infos))
    })
}

/// The text of a file, if it exists.
fn text_of(directory: &Path, name: &str) -> Result<Option<String>> {
    match fs::read_to_string(directory.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => Ok(Some(text?)),
    }
}

/// The metadata of an installed package. `None` without a name or a version.
fn metadata_of(info: &Path) -> Result<Option<Metadata>> {
    let headers: Headers = text_of(info, "METADATA")?.unwrap_or_default().parse()?;
    let name = headers.get("Name").and_then(|it| it.parse().ok());
    let version = headers.get("Version").and_then(|it| it.parse().ok());
    let named = name.zip(version).map(|(name, version)| Metadata {
        name,
        version,
        requires_python: None,
        requires_dist: headers.all("Requires-Dist").map(str::to_owned).collect(),
        provides_extra: Vec::new(),
    });
    Ok(named)
}

impl InstalledPackage {
    /// `None` without a name, a version or RECORD: packages of Linux distributions have none.
    fn read(root: &Path, info: &Path) -> Result<Option<Self>> {
        let (metadata, record) = (metadata_of(info)?, text_of(info, "RECORD")?);
        let Some((metadata, record)) = metadata.zip(record) else {
            return Ok(None);
        };
        let (name, version) = (metadata.name, metadata.version);
        let wheel: Headers = text_of(info, "WHEEL")?.unwrap_or_default().parse()?;
        let tag = wheel.get("Tag").unwrap_or("py3-none-any");
        let file = format!("{}-{version}-{tag}.whl", name.filename_form());
        let mut package = Self {
            requires: metadata.requires_dist,
            files: Vec::new(),
            missing: Vec::new(),
            changed: Vec::new(),
            wheel: Arc::new(installed_wheel(file.clone(), Vec::new())),
            version,
            name,
        };
        let members = package.read_files(root, &record)?;
        package.wheel = Arc::new(installed_wheel(file, members));
        Ok(Some(package))
    }

    /// Reads RECORD, and the headers of the files that rules need.
    fn read_files(&mut self, root: &Path, record: &str) -> Result<Vec<MemberFacts>> {
        let (is_ours, mut members) = (is_ours(&self.name), Vec::new());
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
                    self.missing.push(path.to_owned());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let size: Option<u64> = row.get(2).and_then(|it| it.parse().ok());
            if size.is_some_and(|size| size != found.len()) {
                self.changed.push(path.to_owned());
            }
            if !path.contains(".dist-info/") {
                self.files.push(path.to_owned());
            }
            let is_inside = !path.starts_with("..") && !Path::new(path).is_absolute();
            if is_inside && found.is_file() && (is_ours || path.contains(".so")) {
                #[cfg(unix)]
                let mode = std::os::unix::fs::MetadataExt::mode(&found) & 0o7777;
                #[cfg(not(unix))]
                let mode = 0o644;
                let file = FileAt::open(&place)?;
                members.push(installed_member(path.to_owned(), mode, &file)?);
            }
        }
        Ok(members)
    }
}

impl DevelFiles {
    /// `None` if the development files were not unpacked, or have no manifest.
    fn read(root: &Path) -> Result<Option<Self>> {
        let name = DistNames::built_in().devel.replace('-', "_");
        let directory = root.join(format!("_{name}"));
        let manifest = text_of(&root.join(name), "_devel_manifest.json")?;
        let Some(manifest) = manifest.filter(|_| directory.is_dir()) else {
            return Ok(None);
        };
        let wanted = serde_json::from_str(&manifest);
        let wanted = wanted.context("failed to read `_devel_manifest.json`")?;
        let mut there = DevelCount::default();
        for entry in WalkDir::new(&directory) {
            let entry = entry.map_err(io::Error::from)?;
            if entry.file_type().is_file() {
                there.files += 1;
                there.bytes += entry.metadata().map_err(io::Error::from)?.len();
            }
        }
        Ok(Some(Self {
            directory,
            there,
            wanted,
        }))
    }

    pub fn is_complete(&self) -> bool {
        self.there.files >= self.wanted.files && self.there.bytes >= self.wanted.bytes
    }
}
