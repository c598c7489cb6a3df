//! Reads what is installed in an environment: a virtual environment, a conda prefix, or a `site-packages`
//! directory. Its Python is not run.

use std::{
    collections::BTreeSet,
    iter,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;
use serde::Deserialize;
use walkdir::WalkDir;

use super::{
    installed_package::{
        InfoDirectory, InstalledPackage, PackageRemains, ReadDepth, metadata_of, text_of,
    },
    origin::InstallOrigin,
    overwritten::find_overwritten,
    runtime::{RuntimeVariables, version_of},
};
use crate::{check::is_library, policy::DistNames};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    io::{read_small, read_text},
    parallel,
    target::Target,
    version::{BaseVersion, Version},
};
use rocwheel_wheel::{DistName, MarkerVariable, MarkerVariables, Metadata};

/// The beginning of each directory with the files of a ROCm package: `_rocm_sdk_core`.
pub(super) const PLATFORM: &str = "_rocm_";

const PASS_AN_ENVIRONMENT: &str =
    "pass a virtual environment, a conda prefix, or a `site-packages` directory";

/// What Python imports in an environment.
#[derive(Debug)]
pub struct SitePackages {
    pub root: PathBuf,
    /// The packages that Python imports. One that another of the same name hides is not among them.
    pub packages: Vec<InstalledPackage>,
    /// Further packages, of which only name and version are known.
    pub named: Vec<(DistName, Version)>,
    /// What interrupted removals have left of packages of ROCm.
    pub remains: Vec<PackageRemains>,
    /// Libraries and archives of device code in the directories of ROCm that no RECORD names. A loader or the
    /// runtime may find them.
    pub strays: Vec<String>,
    pub devel: Option<DevelFiles>,
    /// The version that the files of the core package say. That of the packages may be another one.
    pub rocm: Option<BaseVersion>,
    /// `root` without symlinks.
    pub real_root: PathBuf,
    /// The directory of the Python that the scripts of the environment start, if it is another environment's. Then this
    /// environment was moved or copied.
    pub moved_from: Option<PathBuf>,
    pub python: PythonFacts,
    /// Where `install` took its packages from, with the environment.
    pub origin: Option<(PathBuf, InstallOrigin)>,
}

/// The Python of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonFacts {
    /// `3.12`, as far as a path says it.
    pub version: Option<String>,
    /// The program of the environment, if it leads to a Python that is gone.
    pub gone: Option<PathBuf>,
    /// Why `pyvenv.cfg` cannot be read. Python then ends before it runs anything.
    pub unreadable: Option<String>,
}

/// The development files, which `rocm-sdk init` unpacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevelFiles {
    pub directory: PathBuf,
    pub present: DevelCount,
    /// What the manifest of the package says. `None` without one that can be read.
    pub wanted: Option<DevelCount>,
    /// The version that the unpacked files say.
    pub version: Option<BaseVersion>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DevelCount {
    pub files: u64,
    pub bytes: u64,
}

/// The metadata of the packages in an environment.
pub fn metadata(environment: &Path) -> Vec<Metadata> {
    let site = own_site(environment);
    let infos = site.map(|site| infos_in(&site)).unwrap_or_default();
    infos.iter().filter_map(|info| metadata_of(info)).collect()
}

impl SitePackages {
    /// Reads the packages of an environment, and of the other directories that its Python imports from.
    pub fn read(
        environment: &Path,
        depth: ReadDepth,
        variables: &RuntimeVariables,
        jobs: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Self> {
        let shown = environment.display();
        if !environment.exists() {
            return Err(anyhow!("no such directory: `{shown}`")).hint(PASS_AN_ENVIRONMENT);
        }
        let nothing = || format!("no packages are installed in `{shown}`");
        let site = own_site(environment).with_context(nothing).hint(PASS_AN_ENVIRONMENT)?;
        // Paths are printed, and a reader may be elsewhere.
        let root = std::path::absolute(site)?;
        let settings = VenvSettings::read(environment);
        let python = PythonFacts::read(environment, &root, &settings);
        let sites = sites(environment, &root, &settings, python.version.as_deref(), variables);
        let infos: Vec<(PathBuf, PathBuf)> = sites
            .iter()
            .flat_map(|site| infos_in(site).into_iter().map(move |info| (site.clone(), info)))
            .collect();
        let directories = parallel::try_map(&infos, jobs, stop, |(site, info)| {
            let is_egg = info.extension().is_some_and(|it| it == "egg-info");
            Ok(if is_egg {
                InfoDirectory::read_egg(info)
            } else {
                InfoDirectory::read(site, info, depth)
            })
        })?;
        let mut packages: Vec<InstalledPackage> = Vec::new();
        let mut remains = Vec::new();
        let mut named = Vec::new();
        for directory in directories {
            match directory {
                InfoDirectory::Package(package) => packages.push(*package),
                InfoDirectory::Remains(one) => remains.push(one),
                InfoDirectory::Named(name, version) => named.push((name, version)),
                InfoDirectory::Other => {}
            }
        }
        hide_others(&mut packages);
        find_overwritten(&mut packages);
        // A new virtual environment has none, and nothing is wrong with it.
        if infos.is_empty() && !environment.join("pyvenv.cfg").is_file() {
            return Err(anyhow!("{}", nothing())).hint(PASS_AN_ENVIRONMENT);
        }
        let origin = InstallOrigin::environment_of(&root);
        Ok(Self {
            strays: strays(&root, &packages),
            devel: DevelFiles::read(&root),
            rocm: version_of(
                &root.join(format!("_{}", DistNames::built_in().core.replace('-', "_"))),
            ),
            origin: origin.and_then(|it| InstallOrigin::read(&it).map(|origin| (it, origin))),
            moved_from: moved_from(environment, &settings),
            real_root: fs::canonicalize(&root).unwrap_or_else(|_| root.clone()),
            python,
            packages,
            named,
            remains,
            root,
        })
    }

    /// The targets that `install` was asked for.
    pub fn installed_targets(&self) -> Vec<Target> {
        let targets = self.origin.iter().flat_map(|(_, origin)| &origin.targets);
        targets.filter_map(|target| target.parse().ok()).collect()
    }

    /// The version of the unpacked development files, if the other packages have files of another one.
    pub fn other_devel_version(&self) -> Option<&BaseVersion> {
        let unpacked = self.devel.as_ref()?.version.as_ref();
        unpacked.filter(|version| self.rocm.as_ref().is_some_and(|rocm| rocm != *version))
    }

    pub fn find(&self, name: &str) -> Option<&InstalledPackage> {
        self.packages.iter().find(|package| package.name.normalized() == name)
    }

    /// The version of an installed package, also of one of which nothing else is known.
    pub fn version_of(&self, name: &DistName) -> Option<&Version> {
        let package = self.find(name.normalized()).map(|package| &package.version);
        let named =
            || self.named.iter().find(|(other, _)| other == name).map(|(_, version)| version);
        package.or_else(named)
    }
}

/// The directories that Python imports packages from, in the order of `sys.path`, each once.
fn sites(
    environment: &Path,
    own: &Path,
    settings: &VenvSettings,
    version: Option<&str>,
    variables: &RuntimeVariables,
) -> Vec<PathBuf> {
    let user_site = variables
        .home
        .as_ref()
        .zip(version)
        .map(|(home, version)| home.join(format!(".local/lib/python{version}/site-packages")));
    let is_venv = settings.home.is_some();
    // A prefix of conda has a Python of its own, for which packages of the user come first.
    let is_prefix = !is_venv && environment.join("bin").is_dir();
    let mut sites: Vec<PathBuf> = user_site.clone().filter(|_| is_prefix).into_iter().collect();
    sites.push(own.to_owned());
    sites.extend(user_site.filter(|_| is_venv && settings.sees_other_sites));
    sites.extend(settings.other_sites(version));
    if let Some(version) = version.filter(|_| is_prefix) {
        sites.extend(sites_of_prefix(environment, version));
    }
    // Python reads `.pth` files in these directories, and not in the directories of `PYTHONPATH`.
    let named: Vec<PathBuf> = sites.iter().flat_map(|site| named_in_pth(site)).collect();
    let imported = variables.python_path.iter().cloned().chain(sites).chain(named);
    imported.unique_by(|site| fs::canonicalize(site).unwrap_or_else(|_| site.clone())).collect()
}

/// The directories that the `.pth` files of a directory of packages name, as editable installs do.
fn named_in_pth(site: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for file in entries_of(site) {
        if file.extension().is_none_or(|extension| extension != "pth") {
            continue;
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let pth = text_of(site, &name).unwrap_or_default();
        // Python runs a line that begins with `import`, and takes each other one for a directory.
        let is_directory = |line: &&str| {
            let is_code = line.starts_with("import ") || line.starts_with("import\t");
            !line.is_empty() && !line.starts_with('#') && !is_code
        };
        let paths = pth.lines().map(str::trim).filter(is_directory).map(|line| site.join(line));
        directories.extend(paths.filter(|path| path.is_dir()));
    }
    directories
}

/// The directory of the Python that the programs of a virtual environment run, if it is another one. Elsewhere, as in
/// `~/.local`, programs run a Python of another directory on purpose.
fn moved_from(environment: &Path, settings: &VenvSettings) -> Option<PathBuf> {
    settings.home.as_ref()?;
    let programs = fs::canonicalize(environment.join("bin")).ok()?;
    let script = read_small(&programs.join("rocm-sdk")).ok()?;
    let first_line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let program = Path::new(std::str::from_utf8(first_line).ok()?.trim());
    let directory = program.parent().filter(|directory| directory.is_absolute())?;
    let is_python = program.file_name()?.to_str()?.starts_with("python");
    let is_own = fs::canonicalize(directory).is_ok_and(|directory| directory == programs);
    (is_python && !is_own).then(|| directory.to_owned())
}

/// Leaves out the packages that Python does not import, because an earlier directory has one of the same name. Two
/// in one directory both stay: which one is imported is an accident.
fn hide_others(packages: &mut Vec<InstalledPackage>) {
    let mut first: Vec<(String, PathBuf)> = Vec::new();
    packages.retain(|package| {
        let site = package.site();
        let holder = first.iter().find(|(name, _)| name == package.name.normalized());
        if let Some((_, holder)) = holder {
            return holder == site;
        }
        first.push((package.name.normalized().to_owned(), site.to_owned()));
        true
    });
}

/// The settings of a virtual environment, `pyvenv.cfg`.
#[derive(Debug, Default)]
struct VenvSettings {
    /// The directory of the Python that the environment was made with.
    home: Option<PathBuf>,
    version: Option<String>,
    /// Whether the packages of that Python are imported as well.
    sees_other_sites: bool,
    /// Why the file cannot be read as Python reads it.
    unreadable: Option<String>,
}

impl VenvSettings {
    fn read(environment: &Path) -> Self {
        let file = environment.join("pyvenv.cfg");
        // Python looks for a regular file.
        let refusal = || read_text(&file).err().map(|error| error.to_string());
        let unreadable = if file.is_file() { refusal() } else { None };
        let mut settings = Self { unreadable, ..Self::default() };
        // Most lines of a file that is not UTF-8 still say where the packages are.
        let lines = text_of(environment, "pyvenv.cfg").unwrap_or_default();
        for (name, rest) in lines.lines().filter_map(|line| line.split_once('=')) {
            let value = rest.trim();
            match name.trim() {
                "home" => settings.home = Some(value.into()),
                "version" | "version_info" => settings.version = Some(value.to_owned()),
                "include-system-site-packages" => {
                    settings.sees_other_sites = value.eq_ignore_ascii_case("true");
                }
                _ => {}
            }
        }
        settings
    }

    /// The directories of packages that belong to the Python of the environment.
    fn other_sites(&self, version: Option<&str>) -> Vec<PathBuf> {
        let (true, Some(home), Some(version)) = (self.sees_other_sites, &self.home, version) else {
            return Vec::new();
        };
        sites_of_prefix(home.parent().unwrap_or(home), version)
    }
}

/// The directories of packages of a Python that is installed in a prefix such as `/usr`.
fn sites_of_prefix(prefix: &Path, version: &str) -> Vec<PathBuf> {
    let library = prefix.join(format!("lib/python{version}"));
    // Debian keeps packages of the distribution and of the administrator apart.
    vec![
        prefix.join(format!("local/lib/python{version}/dist-packages")),
        library.join("dist-packages"),
        prefix.join("lib/python3/dist-packages"),
        library.join("site-packages"),
    ]
}

impl PythonFacts {
    fn read(environment: &Path, site: &Path, settings: &VenvSettings) -> Self {
        let directories = site.ancestors().filter_map(Path::file_name);
        let mut names = directories.filter_map(|name| name.to_str()?.strip_prefix("python"));
        let of_path = names.find(|name| name.contains('.')).map(str::to_owned);
        let shown = std::path::absolute(environment).unwrap_or_else(|_| environment.to_owned());
        let program = shown.join("bin/python");
        // A virtual environment for Windows has no `bin/python`.
        let is_venv = settings.home.is_some() && !environment.join("Scripts").is_dir();
        let has_home = settings.home.as_ref().is_none_or(|home| home.is_dir());
        let is_gone = is_venv && cfg!(unix) && (!program.exists() || !has_home);
        Self {
            version: of_path.or_else(|| settings.version.as_deref().and_then(minor)),
            gone: is_gone.then_some(program),
            unreadable: settings.unreadable.clone(),
        }
    }
}

/// `3.12` of `3.12.1.final.0`.
fn minor(version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    Some(format!("{}.{}", numbers.next()?, numbers.next()?))
}

impl MarkerVariables for PythonFacts {
    fn value(&self, variable: MarkerVariable) -> Option<String> {
        let value = match variable {
            MarkerVariable::PythonVersion => return self.version.clone(),
            MarkerVariable::SysPlatform if cfg!(windows) => "win32",
            MarkerVariable::SysPlatform => "linux",
            MarkerVariable::OsName if cfg!(windows) => "nt",
            MarkerVariable::OsName => "posix",
            MarkerVariable::PlatformSystem if cfg!(windows) => "Windows",
            MarkerVariable::PlatformSystem => "Linux",
            _ => return None,
        };
        Some(value.to_owned())
    }
}

/// The directory with the packages of an environment: the first one that has a package, or else the first one that
/// exists.
fn own_site(environment: &Path) -> Option<PathBuf> {
    // Another Python may have left its directory.
    let version = VenvSettings::read(environment).version.as_deref().and_then(minor);
    let of_version =
        version.map(|version| environment.join(format!("lib/python{version}/site-packages")));
    if let Some(site) = of_version.filter(|site| site.is_dir()) {
        return Some(site);
    }
    // On Debian, what an administrator installs for the Python of `/usr` comes first.
    let libraries = ["local/lib", "lib", "lib64"].map(|name| environment.join(name));
    let pythons = libraries.iter().flat_map(|library| entries_of(library));
    let sites: Vec<PathBuf> = iter::once(environment.join("Lib/site-packages"))
        .chain(
            pythons.flat_map(|python| ["site-packages", "dist-packages"].map(|it| python.join(it))),
        )
        .filter(|site| site.is_dir())
        .collect();
    let mut candidates = iter::once(environment.to_owned()).chain(sites.iter().cloned());
    candidates.find(|site| !infos_in(site).is_empty()).or_else(|| sites.into_iter().next())
}

/// The `.dist-info` and `.egg-info` entries of a directory of packages, sorted.
fn infos_in(site: &Path) -> Vec<PathBuf> {
    let is_info = |path: &PathBuf| {
        // pip gives a package such a name while it removes it, and ignores what is left.
        let is_ignored =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"~"));
        !is_ignored && path.extension().is_some_and(|it| it == "dist-info" || it == "egg-info")
    };
    let mut infos: Vec<PathBuf> = entries_of(site).into_iter().filter(is_info).collect();
    infos.sort();
    infos
}

fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The files in the directories of ROCm packages that a loader or the runtime finds by their names, and that no
/// package has.
fn strays(site: &Path, packages: &[InstalledPackage]) -> Vec<String> {
    let known: BTreeSet<&str> =
        packages.iter().flat_map(|package| &package.files).map(String::as_str).collect();
    let devel = format!("_{}", DistNames::built_in().devel.replace('-', "_"));
    let is_of_rocm = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PLATFORM) && name != devel
    };
    let directories = entries_of(site).into_iter().filter(is_of_rocm);
    let files = directories.flat_map(|directory| WalkDir::new(directory).into_iter().flatten());
    // A second name for a file of a package, such as `libx.so` for linkers, brings nothing that could be loaded by
    // mistake. A link to another file does.
    let real_site = fs::canonicalize(site).ok();
    let is_second_name = |link: &Path| {
        let target = fs::canonicalize(link).unwrap_or_default();
        let path = real_site.as_ref().and_then(|site| target.strip_prefix(site).ok());
        path.and_then(Path::to_str).is_some_and(|path| known.contains(path))
    };
    let is_file = |entry: &walkdir::DirEntry| {
        // The loader follows links, of which this type says nothing.
        entry.file_type().is_file() || entry.path_is_symlink() && entry.path().is_file()
    };
    let paths = files.filter(is_file).filter_map(|entry| {
        if entry.path_is_symlink() && is_second_name(entry.path()) {
            return None;
        }
        let path = entry.path().strip_prefix(site).ok()?.to_str()?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_archive = Path::new(name).extension().is_some_and(|it| it == "kpack");
        let is_found_by_name = is_archive || is_library(name);
        (is_found_by_name && !known.contains(path)).then(|| path.to_owned())
    });
    let mut strays: Vec<String> = paths.collect();
    strays.sort();
    strays
}

impl DevelFiles {
    /// Whether the archive that they are unpacked from is still there.
    pub fn has_archive(&self) -> bool {
        let devel = DistNames::built_in().devel.replace('-', "_");
        let package = self.directory.with_file_name(devel);
        ["_devel.tar", "_devel.tar.xz"].iter().any(|name| package.join(name).exists())
    }

    /// `None` if the development files were not unpacked.
    fn read(site: &Path) -> Option<Self> {
        let name = DistNames::built_in().devel.replace('-', "_");
        let directory = site.join(format!("_{name}"));
        if !directory.is_dir() {
            return None;
        }
        let manifest = text_of(&site.join(name), "_devel_manifest.json");
        let mut present = DevelCount::default();
        for entry in WalkDir::new(&directory).into_iter().flatten() {
            if let Some(metadata) = entry.metadata().ok().filter(std::fs::Metadata::is_file) {
                present.files += 1;
                present.bytes += metadata.len();
            }
        }
        Some(Self {
            version: version_of(&directory),
            wanted: manifest.and_then(|text| serde_json::from_str(&text).ok()),
            present,
            directory,
        })
    }

    /// Whether all files are there, as far as the manifest says how many there are.
    pub fn is_complete(&self) -> bool {
        self.wanted.is_none_or(|wanted| {
            self.present.files >= wanted.files && self.present.bytes >= wanted.bytes
        })
    }
}
