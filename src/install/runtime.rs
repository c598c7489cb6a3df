//! What decides, besides the packages, which files of ROCm a program uses: the variables of its process, and the
//! libraries of this machine.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::installed_package::text_of;
use rocwheel_base::version::BaseVersion;

/// The directories in which the dynamic loader of a Linux host looks, besides those that `/etc/ld.so.conf` names.
const LIBRARY_DIRECTORIES: [&str; 5] =
    ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
/// The files that name further ones.
const LOADER_SETTINGS: &str = "/etc/ld.so.conf.d";

/// The variables of a process, as far as they decide which files of ROCm it uses.
#[derive(Clone, Debug, Default)]
pub struct RuntimeVariables {
    /// `LD_LIBRARY_PATH`
    pub library_path: Vec<PathBuf>,
    /// `PYTHONPATH`
    pub python_path: Vec<PathBuf>,
    /// `HOME`, where the packages of the user are.
    pub home: Option<PathBuf>,
    /// `ROCM_PATH`, `ROCM_HOME`, `HIP_PATH`: where programs look for ROCm.
    pub rocm: Vec<(&'static str, PathBuf)>,
    /// `HSA_OVERRIDE_GFX_VERSION`: `11.0.0`
    pub gfx_override: Option<String>,
    /// `ROCR_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`: `0,1`
    pub visible: Vec<(&'static str, String)>,
}

/// What the variables lead to, and what this machine has.
#[derive(Clone, Debug, Default)]
pub struct RuntimeFacts {
    pub variables: RuntimeVariables,
    /// The directories of `LD_LIBRARY_PATH`, each with the names in it.
    pub library_path: Vec<(PathBuf, BTreeSet<String>)>,
    /// The directories that are named as ROCm, each with its variable and the version that it says.
    pub rocm: Vec<NamedRocm>,
    /// The names of the libraries that this machine has.
    pub libraries: BTreeSet<String>,
}

/// A directory that a variable names as ROCm.
#[derive(Clone, Debug)]
pub struct NamedRocm {
    pub variable: &'static str,
    pub directory: PathBuf,
    pub exists: bool,
    /// The version in `.info/version`.
    pub version: Option<BaseVersion>,
}

impl RuntimeFacts {
    pub fn read(variables: RuntimeVariables) -> Self {
        let library_path = variables.library_path.iter();
        let rocm = variables.rocm.iter().map(|(variable, directory)| NamedRocm {
            variable,
            directory: canonical(directory),
            exists: directory.is_dir(),
            version: version_of(directory),
        });
        Self {
            library_path: library_path.map(|it| (canonical(it), names_in(it))).collect(),
            rocm: rocm.collect(),
            libraries: library_directories().iter().flat_map(|it| names_in(it)).collect(),
            variables,
        }
    }

    /// Whether this machine, or `LD_LIBRARY_PATH`, has a library.
    pub fn has_library(&self, name: &str) -> bool {
        let mut directories = self.library_path.iter();
        self.libraries.contains(name) || directories.any(|(_, names)| names.contains(name))
    }
}

fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The version of ROCm that a tree says.
pub(super) fn version_of(tree: &Path) -> Option<BaseVersion> {
    BaseVersion::of_install_tree(&text_of(tree, BaseVersion::FILE)?).ok()
}

/// The names in a directory; none of one that cannot be read.
fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn library_directories() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = LIBRARY_DIRECTORIES.map(PathBuf::from).into();
    let settings = Path::new(LOADER_SETTINGS);
    for name in names_in(settings) {
        let setting = text_of(settings, &name).unwrap_or_default();
        let lines = setting.lines().map(str::trim).filter(|line| line.starts_with('/'));
        directories.extend(lines.map(PathBuf::from));
    }
    directories
}
