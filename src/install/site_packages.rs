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

use super::origin::InstallOrigin;
use crate::{
    check::{
        facts::{MemberFacts, WheelFile},
        observe::{installed_member, installed_wheel},
    },
    error::{Context as _, Hint as _, Result, Stop},
    index::is_ours,
    io::FileAt,
    io::read_small,
    parallel,
    policy::DistNames,
    version::Version,
    wheel::{DistName, Headers, Metadata, Requirement},
};

/// A part of the name of each package with device code: `rocm-sdk-device-gfx942`, `amd-torch-device-gfx942`.
pub(super) const DEVICE: &str = "-device-gfx";

/// The packages of an environment.
#[derive(Debug)]
pub struct SitePackages {
    pub root: PathBuf,
    pub packages: Vec<InstalledPackage>,
    /// Whether packages of the Python that the environment was made with are imported as well.
    pub sees_other_site: bool,
    pub devel: Option<DevelFiles>,
    /// Where `install` took its packages from, with the environment.
    pub origin: Option<(PathBuf, InstallOrigin)>,
}

/// An installed package.
#[derive(Debug)]
pub struct InstalledPackage {
    pub name: DistName,
    pub version: Version,
    /// Whether it is a package of ROCm, one with device code, or one that requires ROCm. The files of other
    /// packages are not judged: a distribution or a company may have changed them on purpose.
    pub is_of_rocm: bool,
    /// The requirements of its METADATA that can be read.
    pub requires: Vec<Requirement>,
    /// The files of RECORD outside of `.dist-info` that exist.
    pub files: Vec<String>,
    /// The files of RECORD that do not exist, of a package that is judged.
    pub missing: Vec<String>,
    /// The files that have another size than in RECORD, of a package that is judged.
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
pub fn metadata(environment: &Path) -> Vec<Metadata> {
    let infos = site(environment).map(|(_, infos)| infos);
    infos.unwrap_or_default().iter().filter_map(|info| metadata_of(info)).collect()
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
        let settings = text_of(environment, "pyvenv.cfg").unwrap_or_default();
        let mut settings = settings.lines().filter_map(|line| line.split_once('='));
        let origin = InstallOrigin::environment_of(&root);
        Ok(Self {
            sees_other_site: settings.any(|(name, value)| {
                name.trim() == "include-system-site-packages"
                    && value.trim().eq_ignore_ascii_case("true")
            }),
            origin: origin.and_then(|it| InstallOrigin::read(&it).map(|origin| (it, origin))),
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

/// The text of a small file. `None` if it cannot be read: an environment has packages of many programs, and an
/// odd one must not hide what is wrong with the others.
fn text_of(directory: &Path, name: &str) -> Option<String> {
    let bytes = read_small(&directory.join(name)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The metadata of an installed package. `None` without a name or a version.
fn metadata_of(info: &Path) -> Option<Metadata> {
    let headers: Headers = text_of(info, "METADATA")?.parse().ok()?;
    Some(Metadata {
        name: headers.get("Name")?.parse().ok()?,
        version: headers.get("Version")?.parse().ok()?,
        requires_python: None,
        requires_dist: headers.all("Requires-Dist").map(str::to_owned).collect(),
        provides_extra: Vec::new(),
    })
}

impl InstalledPackage {
    /// `None` without a name, a version or RECORD: packages of Linux distributions have none.
    fn read(root: &Path, info: &Path) -> Result<Option<Self>> {
        let metadata = metadata_of(info);
        let Some((metadata, record)) = metadata.zip(text_of(info, "RECORD")) else {
            return Ok(None);
        };
        let requires: Vec<Requirement> = metadata.requirements().collect();
        let (name, version) = (metadata.name, metadata.version);
        let wheel: Option<Headers> = text_of(info, "WHEEL").and_then(|it| it.parse().ok());
        let tag = wheel.as_ref().and_then(|it| it.get("Tag")).unwrap_or("py3-none-any");
        let file = format!("{}-{version}-{tag}.whl", name.filename_form());
        let mut package = Self {
            is_of_rocm: is_of_rocm(&name, &requires),
            requires,
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
            let path = row.as_ref().ok().and_then(|it| it.get(0));
            let (Ok(row), Some(path)) = (&row, path.filter(|it| !it.contains('\0'))) else {
                if self.is_of_rocm {
                    self.changed.push("RECORD".to_owned());
                }
                continue;
            };
            // What Python compiled is made again.
            if Path::new(path).extension().is_some_and(|it| it == "pyc") {
                continue;
            }
            let place = root.join(path);
            let found = match fs::metadata(&place) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if self.is_of_rocm && !is_unpacked_archive(root, path) {
                        self.missing.push(path.to_owned());
                    }
                    continue;
                }
                Err(_) => {
                    if self.is_of_rocm {
                        self.changed.push(path.to_owned());
                    }
                    continue;
                }
            };
            let size: Option<u64> = row.get(2).and_then(|it| it.parse().ok());
            if self.is_of_rocm && size.is_some_and(|size| size != found.len()) {
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

/// Whether a package is one of ROCm, has device code, or requires ROCm.
fn is_of_rocm(name: &DistName, requires: &[Requirement]) -> bool {
    let is_meant = |name: &DistName| is_ours(name) || name.normalized().contains(DEVICE);
    is_meant(name) || requires.iter().any(|it| is_meant(&it.name))
}

/// Whether a path is that of the archive with the development files, which are unpacked: `rocm-sdk init`
/// removes the archive then, and leaves its row in RECORD.
fn is_unpacked_archive(root: &Path, path: &str) -> bool {
    let devel = DistNames::built_in().devel.replace('-', "_");
    let archive = path.strip_prefix(&format!("{devel}/_devel.tar"));
    let is_archive = archive.is_some_and(|end| end.is_empty() || end == ".xz");
    is_archive && root.join(format!("_{devel}")).is_dir()
}

impl DevelFiles {
    /// Whether the archive that they are unpacked from is still there.
    pub fn has_archive(&self) -> bool {
        let devel = DistNames::built_in().devel.replace('-', "_");
        let package = self.directory.with_file_name(devel);
        ["_devel.tar", "_devel.tar.xz"].iter().any(|it| package.join(it).exists())
    }

    /// `None` if the development files were not unpacked, or have no manifest.
    fn read(root: &Path) -> Result<Option<Self>> {
        let name = DistNames::built_in().devel.replace('-', "_");
        let directory = root.join(format!("_{name}"));
        let manifest = text_of(&root.join(name), "_devel_manifest.json");
        let Some(manifest) = manifest.filter(|_| directory.is_dir()) else {
            return Ok(None);
        };
        // A manifest that cannot be read has another size than RECORD says.
        let Ok(wanted) = serde_json::from_str(&manifest) else {
            return Ok(None);
        };
        let mut there = DevelCount::default();
        for entry in WalkDir::new(&directory) {
            let entry = entry.map_err(io::Error::from)?;
            if entry.file_type().is_file() {
                there.files += 1;
                there.bytes += entry.metadata().map_err(io::Error::from)?.len();
            }
        }
        Ok(Some(Self { directory, there, wanted }))
    }

    pub fn is_complete(&self) -> bool {
        self.there.files >= self.wanted.files && self.there.bytes >= self.wanted.bytes
    }
}
