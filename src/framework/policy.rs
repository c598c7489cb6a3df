//! [`Frameworks`]: what `frameworks.toml` says about frameworks, other vendors, and the directories
//! of the ROCm packages.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::policy::DistNames;
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, anyhow, ensure},
    glob::Glob,
    relpath::RelPath,
    version::Version,
};
use rocwheel_wheel::{DistName, PackageFilename};

static BUILTIN: LazyLock<Frameworks> = LazyLock::new(|| {
    Frameworks::parse(include_str!("frameworks.toml")).expect("a test reads the built-in policy")
});

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frameworks {
    #[serde(default)]
    framework: Vec<FrameworkSpec>,
    #[serde(default)]
    vendor: Vec<OtherVendor>,
    #[serde(default, rename = "directory")]
    pub directories: Vec<RocmDirectory>,
}

/// What is known about a framework besides what its wheels say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FrameworkSpec {
    names: Vec<String>,
    pub why: String,
    /// The package whose `__init__.py` users import.
    pub root: Option<RelPath>,
    /// Libraries that other frameworks link.
    provides: Vec<ProvidedLibraries>,
    /// Other frameworks that it is built for: it has to require one version of each.
    pub needs: Vec<DistName>,
    /// Whether it uses ROCm although no binary needs a library of ROCm.
    pub runs_rocm: bool,
    /// Extras of `rocm` that it needs besides the extras that follow from its libraries.
    pub extras: Vec<String>,
    /// Libraries that it opens at run time, by the short names of `rocm_sdk`.
    pub preload: Vec<String>,
    /// How the part of its version that names ROCm begins: `rocm`, also for a set under development.
    pub version_prefix: Option<String>,
    /// The step output of TheRock's scripts with the version of its wheel: `torch_version`.
    version_output: Option<String>,
    /// The step output with that version without its local part: `jax_version`.
    base_version_output: Option<String>,
    /// Files with the version of the wheel in their text.
    pub version_files: Vec<RelPath>,
    /// Requirements that no index has.
    dead_requirements: Vec<Glob>,
    /// The beginning of the names of its device wheels: `amd-torch-device`.
    device_prefix: Option<DistName>,
    /// The kernel databases that move to its device wheels, by their names in `databases.toml`.
    databases: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProvidedLibraries {
    directory: String,
    libraries: Vec<Glob>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct OtherVendor {
    name: String,
    libraries: Vec<Glob>,
    /// The packages with these libraries.
    #[serde(default)]
    packages: Vec<Glob>,
    /// The local versions of wheels that are built for it.
    #[serde(default)]
    local_versions: Vec<Glob>,
}

/// A directory of the ROCm packages, below `site-packages`, in which frameworks find libraries.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RocmDirectory {
    pub key: RocmDirectoryKey,
    /// A glob, whose first directory stands for a package and its names in legacy sets.
    pub path: String,
    libraries: Vec<Glob>,
}

/// The directories of the ROCm packages, in the order in which they are searched.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Deserialize,
    serde::Serialize,
    strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RocmDirectoryKey {
    /// Runtime, compiler libraries, profiler, system management.
    Core,
    /// Copies of libraries of the system.
    SystemCopies,
    /// Math for the host.
    HostMath,
    /// LLVM and, before ROCm 10.1, OpenMP.
    Llvm,
    /// OpenMP and other runtimes of LLVM, in a directory for the host.
    LlvmRuntimes,
    /// Math and communication libraries, which are in another package.
    Math,
}

impl RocmDirectoryKey {
    /// Whether it has runtimes of compilers, of which frameworks may bring their own.
    pub fn is_llvm(self) -> bool {
        matches!(self, Self::Llvm | Self::LlvmRuntimes)
    }
}

impl RocmDirectory {
    /// Whether a directory is this one. A legacy set has `_rocm_sdk_libraries_gfx94X_dcgpu` instead of
    /// `_rocm_sdk_libraries`.
    pub fn is(&self, directory: &str) -> bool {
        let (known_top, known_rest) = self.path.split_once('/').unwrap_or((&self.path, ""));
        let (top, rest) = directory.split_once('/').unwrap_or((directory, ""));
        let suffix = top.strip_prefix(known_top);
        suffix.is_some_and(|it| it.is_empty() || it.starts_with('_'))
            && Glob::new(known_rest).matches(rest)
    }
}

impl Frameworks {
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Parses a policy file, and checks that it can be true.
    pub fn parse(text: &str) -> Result<Self> {
        let mut policy: Self = toml::from_str(text)?;
        let dist_names = DistNames::built_in();
        let core = DistNames::import_name(&dist_names.core);
        let libraries = DistNames::import_name(&dist_names.libraries);
        for directory in &mut policy.directories {
            directory.path =
                directory.path.replace("{core}", &core).replace("{libraries}", &libraries);
        }
        for row in &policy.framework {
            let names = row.names.join(", ");
            ensure!(!row.names.is_empty(), "a framework without `names`");
            ensure!(!row.why.trim().is_empty(), "`{names}`: no `why`");
            for name in &row.names {
                // A pattern is a name with a star. Wheels are looked up by normalized names, so any other
                // spelling would never match.
                let example = name.replace('*', "0");
                let parsed: DistName =
                    example.parse().with_context(|| format!("`names` of `{names}`"))?;
                ensure!(parsed.normalized() == example, "`{name}` is not normalized: `{parsed}`");
            }
        }
        let keys: Vec<RocmDirectoryKey> =
            policy.directories.iter().map(|directory| directory.key).collect();
        ensure!(keys.is_sorted_by(|a, b| a < b), "the directories are not in their order");
        Ok(policy)
    }

    /// Adds the rows of another policy. They come first, so that they replace the built-in ones.
    #[must_use]
    pub fn with(&self, mut more: Self) -> Self {
        more.framework.extend(self.framework.iter().cloned());
        more.vendor.extend(self.vendor.iter().cloned());
        if more.directories.is_empty() {
            more.directories.clone_from(&self.directories);
        }
        more
    }

    /// The first row for a framework.
    pub fn of(&self, name: &DistName) -> Option<&FrameworkSpec> {
        let has_name =
            |row: &&FrameworkSpec| row.names.iter().any(|it| is_named(it, name.normalized()));
        self.framework.iter().find(has_name)
    }

    /// The step outputs of TheRock's scripts with the versions of these wheels, in the order of the rows. If several
    /// wheels give one output, the wheel of the first row does. Fails if two wheels of a row have different versions.
    pub fn version_outputs(&self, wheels: &[PackageFilename]) -> Result<Vec<(String, String)>> {
        let mut outputs: Vec<(String, String)> = Vec::new();
        for row in &self.framework {
            let is_of_row = |wheel: &&PackageFilename| {
                self.of(&wheel.name).is_some_and(|other| std::ptr::eq(other, row))
            };
            let mut of_row = wheels.iter().filter(is_of_row);
            let Some(wheel) = of_row.next() else { continue };
            if let Some(other) = of_row.find(|other| other.version != wheel.version) {
                return Err(anyhow!("`{wheel}` and `{other}` have different versions"))
                    .hint("pass the wheels of one build");
            }
            let version = wheel.version.to_string();
            let base = version.split('+').next().unwrap_or_default().to_owned();
            for (output, value) in
                [(&row.version_output, version), (&row.base_version_output, base)]
            {
                if let Some(name) = output
                    && !outputs.iter().any(|(known, _)| known == name)
                {
                    outputs.push((name.clone(), value));
                }
            }
        }
        Ok(outputs)
    }

    /// The package of a framework that users import, if a row names it.
    pub fn root_of(&self, name: &DistName) -> Option<String> {
        Some(self.of(name)?.root.as_ref()?.to_string())
    }

    /// The framework that provides a library to others, and the directory of the library.
    pub fn provider(&self, library: &str) -> Option<(&str, &str)> {
        for row in &self.framework {
            for provided in &row.provides {
                if matches_any(&provided.libraries, library) {
                    return Some((row.names.first()?, &provided.directory));
                }
            }
        }
        None
    }

    /// Whether a framework has libraries for others in a directory.
    pub fn provides(&self, directory: &str) -> bool {
        self.framework.iter().flat_map(|row| &row.provides).any(|it| it.directory == directory)
    }

    /// The other vendor whose library this is.
    pub fn vendor(&self, library: &str) -> Option<&str> {
        self.vendor
            .iter()
            .find(|vendor| matches_any(&vendor.libraries, library))
            .map(|vendor| vendor.name.as_str())
    }

    /// The other vendor of whose libraries this is a package.
    pub fn vendor_of_package(&self, name: &DistName) -> Option<&str> {
        let mut vendors = self.vendor.iter();
        let vendor = vendors.find(|it| matches_any(&it.packages, name.normalized()))?;
        Some(&vendor.name)
    }

    /// The other vendor for which a version is: NVIDIA for `2.9.0+cu126`.
    pub fn vendor_of_version(&self, version: &Version) -> Option<&str> {
        let text = version.to_string();
        let (_, local) = text.split_once('+')?;
        let vendor = self.vendor.iter().find(|it| matches_any(&it.local_versions, local))?;
        Some(&vendor.name)
    }

    /// The directory in which ROCm packages usually have a library.
    pub fn directory_of(&self, library: &str) -> Option<RocmDirectoryKey> {
        self.directories
            .iter()
            .find(|directory| matches_any(&directory.libraries, library))
            .map(|directory| directory.key)
    }

    /// Whether `top`, a directory directly below `site-packages`, belongs to the package that has the
    /// directory with this key. A package of a legacy set has a suffix: see [`RocmDirectory::is`].
    pub fn is_in_package(&self, key: RocmDirectoryKey, top: &str) -> bool {
        let package = self.path_of(key).split('/').next();
        let suffix = package.and_then(|package| top.strip_prefix(package));
        suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('_'))
    }

    /// The path of a directory below `site-packages`. Empty if the policy has no such directory.
    pub fn path_of(&self, key: RocmDirectoryKey) -> &str {
        self.directories.iter().find(|it| it.key == key).map_or("", |it| &it.path)
    }
}

fn matches_any(globs: &[Glob], name: &str) -> bool {
    globs.iter().any(|glob| glob.matches(name))
}

impl FrameworkSpec {
    /// The beginning of the names of the device wheels of a framework.
    pub fn device_prefix(row: Option<&Self>, name: &DistName) -> Result<DistName> {
        match row.and_then(|row| row.device_prefix.as_ref()) {
            Some(prefix) => Ok(prefix.clone()),
            None => format!("amd-{name}-device").parse(),
        }
    }

    /// Whether the files of a kernel database move to device wheels.
    pub fn moves(&self, database: &str) -> bool {
        self.databases.iter().any(|it| it.eq_ignore_ascii_case(database))
    }

    /// Whether no index has the project that is required.
    pub fn is_dead(&self, requirement: &DistName) -> bool {
        matches_any(&self.dead_requirements, requirement.normalized())
    }
}

/// Whether a name fits a pattern, in which `*` stands for letters and digits; at the end of the pattern, also
/// for `-`.
fn is_named(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            let middle = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || (c == '-' && end.is_empty());
            middle.is_some_and(|middle| !middle.is_empty() && middle.chars().all(is_allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use itertools::Itertools as _;

    use super::*;

    fn row(name: &str) -> Option<String> {
        let name = name.parse().unwrap();
        Frameworks::builtin().of(&name).map(|it| it.why.clone())
    }

    #[test]
    fn the_built_in_policy_is_read() {
        let policy = Frameworks::builtin();
        assert_eq!(policy.directories.len(), 6);
        assert_eq!(policy.directory_of("librocblas.so.5"), Some(RocmDirectoryKey::Math));
        assert_eq!(policy.directory_of("libc.so.6"), None);
        assert_eq!(policy.vendor("libcudart.so.12"), Some("NVIDIA"));
        assert_eq!(policy.provider("libtorch_hip.so"), Some(("torch", "torch/lib")));
    }

    #[test]
    fn a_directory_may_be_for_a_host_or_for_a_family() {
        let of = |directory: &str| {
            let mut known = Frameworks::builtin().directories.iter();
            known.find(|it| it.is(directory)).map(|it| it.key)
        };
        let llvm = "_rocm_sdk_core/lib/llvm/lib";
        assert_eq!(of(llvm), Some(RocmDirectoryKey::Llvm));
        assert_eq!(
            of(&format!("{llvm}/x86_64-unknown-linux-gnu")),
            Some(RocmDirectoryKey::LlvmRuntimes)
        );
        assert_eq!(of(&format!("{llvm}/clang")), None);
        let legacy = "_rocm_sdk_libraries_gfx94X_dcgpu/lib";
        assert_eq!(of(legacy), Some(RocmDirectoryKey::Math));
    }

    #[test]
    fn a_star_in_a_name_is_one_word() {
        assert!(row("jax-rocm7-pjrt").is_some() && row("jax-rocm10-pjrt").is_some());
        assert!(row("jax-rocm7-other").is_none() && row("jax-rocm-pjrt").is_none());
        assert!(row("cupy-rocm-7-0").is_some() && row("torch-scatter-rocm").is_some());
        assert!(row("torch-a-b-rocm").is_none());
    }

    #[test]
    fn wheels_give_the_outputs_of_upstream() {
        let outputs = |files: &[&str]| {
            let wheels: Vec<PackageFilename> = files.iter().map(|it| it.parse().unwrap()).collect();
            let outputs = Frameworks::builtin().version_outputs(&wheels);
            let line = |(name, value): &(String, String)| format!("{name}={value}\n");
            outputs.map(|outputs| outputs.iter().map(line).join(""))
        };
        let torch = [
            "apex-1.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
            "numpy-2.0-cp312-cp312-linux_x86_64.whl",
            "torch-2.12.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
            "torch-2.12.0+rocm7.14.0-cp313-cp313-linux_x86_64.whl",
            "torchaudio-2.11.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
            "torchvision-0.27.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
            "triton-3.9.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
        ];
        let plugin = [
            "jax_rocm7_pjrt-0.12.0+rocm7.14.0-py3-none-linux_x86_64.whl",
            "jax_rocm7_plugin-0.12.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
        ];
        let jaxlib =
            [&plugin[..], &["jaxlib-0.9.0+rocm7.14.0-cp312-cp312-linux_x86_64.whl"]].concat();
        let shown = [&torch[..], &plugin, &jaxlib].map(|files| outputs(files).unwrap());
        insta::assert_snapshot!(shown.join("\n"), @"
        torch_version=2.12.0+rocm7.14.0
        torchvision_version=0.27.0+rocm7.14.0
        torchaudio_version=2.11.0+rocm7.14.0
        triton_version=3.9.0+rocm7.14.0
        apex_version=1.0+rocm7.14.0

        jax_pjrt_version=0.12.0+rocm7.14.0
        jax_plugin_version=0.12.0+rocm7.14.0
        jax_version=0.12.0

        jaxlib_version=0.9.0+rocm7.14.0
        jax_version=0.9.0
        jax_pjrt_version=0.12.0+rocm7.14.0
        jax_plugin_version=0.12.0+rocm7.14.0
        ");
        let two = [
            "torch-2.12.0-cp312-cp312-linux_x86_64.whl",
            "torch-2.13.0-cp312-cp312-linux_x86_64.whl",
        ];
        insta::assert_snapshot!(outputs(&two).unwrap_err(), @"`torch-2.12.0-cp312-cp312-linux_x86_64.whl` and `torch-2.13.0-cp312-cp312-linux_x86_64.whl` have different versions");
    }

    #[test]
    fn a_policy_that_cannot_be_true_is_refused_in_words() {
        let refused = [
            "[[framework]]\nwhy = \"x\"",
            "[[framework]]\nnames = [\"a\"]",
            "[[framework]]\nnames = [\"A_b\"]\nwhy = \"x\"",
            "[[framework]]\nnames = [\"a b\"]\nwhy = \"x\"",
            "[[directory]]\nkey = \"math\"\npath = \"a\"\nlibraries = []\n[[directory]]\nkey = \"core\"\npath = \"b\"\nlibraries = []",
        ];
        let messages = refused.map(|text| format!("{:#}", Frameworks::parse(text).unwrap_err()));
        insta::assert_snapshot!(messages.join("\n"), @r#"
        a framework without `names`
        `a`: no `why`
        `A_b` is not normalized: `a-b`
        `names` of `a b`: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a b"
        the directories are not in their order
        "#);
    }
}
