//! The environment in which a framework is built against an installed set: the rows of `env.toml`.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::{
    policy::{FrameworkSpec, Frameworks},
    version::{suffix, with_suffix},
};
use crate::run::Platform;
use rocwheel_base::{
    error::{Result, ensure},
    target::Target,
    version::Version,
};

static ROWS: LazyLock<EnvironmentTable> = LazyLock::new(|| {
    toml::from_str(include_str!("env.toml")).expect("a test reads the built-in table")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvironmentTable {
    variable: Vec<EnvironmentRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct EnvironmentRow {
    name: String,
    value: String,
    #[serde(default)]
    r#for: Vec<BuiltFramework>,
    #[serde(default)]
    not_for: Vec<BuiltFramework>,
    /// A path below the root, without which the row is left out.
    if_exists: Option<String>,
    /// The beginnings of the names of targets, one of which must be in the set.
    #[serde(default)]
    if_targets: Vec<String>,
    /// The value is put before the value that the variable has, with this separator.
    before: Option<String>,
    platform: Option<Platform>,
}

/// The framework that is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum BuiltFramework {
    Torch,
    Torchvision,
    Torchaudio,
    Triton,
    Apex,
    Jax,
    Cmake,
}

impl BuiltFramework {
    /// The row of the framework in the built-in policy.
    pub fn policy(self) -> Option<&'static FrameworkSpec> {
        Frameworks::builtin().of(&self.to_string().parse().ok()?)
    }
}

/// An installed set, as far as builds need to know it.
#[derive(Clone, Debug)]
pub struct InstalledRocm {
    /// The development tree, as an absolute path.
    pub root: String,
    pub version: Version,
    pub targets: Vec<Target>,
    /// The version of the framework, without a part that names ROCm.
    pub base: Option<Version>,
    pub platform: Platform,
}

/// A variable for a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuildVariable {
    pub name: String,
    pub value: String,
    /// The value is put before the value that the variable has, with this separator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// The variables for a build.
#[derive(Debug, Default)]
pub struct BuildVariables {
    pub variables: Vec<BuildVariable>,
    /// The names of the variables that were left out, by what is missing for them.
    pub left_out: BTreeMap<String, Vec<String>>,
}

/// The variables for a build. `exists` says whether the development tree has a path.
pub fn variables(
    rocm: &InstalledRocm,
    built: BuiltFramework,
    exists: impl Fn(&str) -> bool,
) -> Result<BuildVariables> {
    let mut environment = BuildVariables::default();
    let placeholders = rocm.placeholders(built)?;
    for row in ROWS.variable.iter().filter(|row| row.applies(rocm, built)) {
        let mut value = row.value.clone();
        for (placeholder, text) in &placeholders {
            value = value.replace(placeholder, text);
        }
        // A line break would begin another line for a shell or a workflow that reads the variables.
        ensure!(
            !value.contains(char::is_control),
            "the value of `{}` has a control character: {value:?}",
            row.name
        );
        // The placeholder is left in the value if the version of the framework is not known.
        let missing = if value.contains(BUILD_VERSION) {
            Some("no version was named with `--base-version`".to_owned())
        } else {
            let missing_path = row.if_exists.as_ref().filter(|path| !exists(path));
            missing_path.map(|path| format!("the packages have no `{path}`"))
        };
        if let Some(missing) = missing {
            environment.left_out.entry(missing).or_default().push(row.name.clone());
        } else if !value.is_empty() {
            // To many build systems an empty variable is not the same as no variable.
            environment.add(row, value);
        }
    }
    for names in environment.left_out.values_mut() {
        names.dedup();
    }
    Ok(environment)
}

impl BuildVariables {
    /// Adds a variable. If several rows put a value before the value that a variable has, their values are
    /// joined in one variable.
    fn add(&mut self, row: &EnvironmentRow, value: String) {
        let known = self.variables.iter_mut().find(|variable| variable.name == row.name);
        match (known, &row.before) {
            (Some(known), Some(separator)) => {
                known.value = format!("{}{separator}{value}", known.value);
            }
            _ => self.variables.push(BuildVariable {
                name: row.name.clone(),
                value,
                before: row.before.clone(),
            }),
        }
    }
}

impl EnvironmentRow {
    fn applies(&self, rocm: &InstalledRocm, built: BuiltFramework) -> bool {
        let is_for_framework = self.r#for.is_empty() || self.r#for.contains(&built);
        let is_for_target =
            |target: &Target| self.if_targets.iter().any(|it| target.as_str().starts_with(it));
        let is_for_set = self.if_targets.is_empty() || rocm.targets.iter().any(is_for_target);
        is_for_framework
            && !self.not_for.contains(&built)
            && is_for_set
            && self.platform.is_none_or(|platform| platform == rocm.platform)
    }
}

/// The placeholder for the version of the built wheel.
const BUILD_VERSION: &str = "{build-version}";

impl InstalledRocm {
    /// The placeholders in the values of rows, and the texts that replace them. They are replaced in this
    /// order.
    fn placeholders(&self, built: BuiltFramework) -> Result<Vec<(&'static str, String)>> {
        let suffix = suffix(&self.version, built.policy());
        let mut placeholders = vec![
            ("{root}", self.root.clone()),
            ("{targets}", self.targets.iter().join(";")),
            ("{suffix}", format!("+{suffix}")),
            ("{version}", self.version.to_string()),
        ];
        if let Some(base) = &self.base {
            let built_version = with_suffix(base, &suffix)?;
            placeholders.push((BUILD_VERSION, built_version.to_string()));
        }
        Ok(placeholders)
    }
}

/// Shows the line that sets the variable in a shell.
impl fmt::Display for BuildVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "export {name}='{}'", self.value.replace('\'', r"'\''"))?;
        match &self.before {
            None => Ok(()),
            // Without a value, the variable gets no separator.
            Some(separator) => write!(f, "\"${{{name}:+{separator}${name}}}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rocm(targets: &[&str]) -> InstalledRocm {
        InstalledRocm {
            root: "/site/_rocm_sdk_devel".to_owned(),
            version: "7.14.0".parse().unwrap(),
            targets: targets.iter().map(|it| it.parse().unwrap()).collect(),
            base: Some("2.12.0".parse().unwrap()),
            platform: Platform::Linux,
        }
    }

    fn shown(rocm: &InstalledRocm, built: BuiltFramework, has: &str) -> String {
        let found = variables(rocm, built, |path| path.contains(has)).unwrap();
        let lines = found.variables.iter().map(ToString::to_string);
        let left_out = found.left_out.iter();
        let left_out = left_out.map(|(why, names)| format!("# {why}: {}", names.join(" ")));
        lines.chain(left_out).join("\n")
    }

    #[test]
    fn torch_gets_what_the_set_has() {
        let rocm = rocm(&["gfx942", "gfx1100"]);
        insta::assert_snapshot!(shown(&rocm, BuiltFramework::Torch, "rocm_sysdeps"), @r#"
        export PYTHONUTF8='1'
        export ROCM_PATH='/site/_rocm_sdk_devel'
        export ROCM_HOME='/site/_rocm_sdk_devel'
        export CMAKE_PREFIX_PATH='/site/_rocm_sdk_devel/lib/cmake'
        export PATH='/site/_rocm_sdk_devel/bin'"${PATH:+:$PATH}"
        export PYTORCH_ROCM_ARCH='gfx942;gfx1100'
        export USE_KINETO='ON'
        export USE_GLOO='ON'
        export CXXFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict -I/site/_rocm_sdk_devel/lib/rocm_sysdeps/include'"${CXXFLAGS:+ $CXXFLAGS}"
        export CPPFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict'"${CPPFLAGS:+ $CPPFLAGS}"
        export USE_ROCM='ON'
        export USE_CUDA='OFF'
        export USE_MPI='OFF'
        export USE_NUMA='OFF'
        export PYTORCH_BUILD_VERSION='2.12.0+rocm7.14.0'
        export PYTORCH_BUILD_NUMBER='1'
        export PYTORCH_EXTRA_INSTALL_REQUIREMENTS='rocm[libraries]==7.14.0'
        export USE_FLASH_ATTENTION='1'
        export USE_MEM_EFF_ATTENTION='1'
        export LDFLAGS='-L/site/_rocm_sdk_devel/lib/rocm_sysdeps/lib'"${LDFLAGS:+ $LDFLAGS}"
        export PKG_CONFIG_PATH='/site/_rocm_sdk_devel/lib/rocm_sysdeps/lib/pkgconfig'"${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
        export LD_LIBRARY_PATH='/site/_rocm_sdk_devel/lib/rocm_sysdeps/lib'"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        # the packages have no `include/roctracer`: CXXFLAGS
        # the packages have no `lib/host-math`: BLAS OpenBLAS_HOME OpenBLAS_LIB_NAME
        # the packages have no `lib/llvm/amdgcn/bitcode`: HIP_DEVICE_LIB_PATH
        "#);
    }

    #[test]
    fn each_framework_has_its_own() {
        let rocm = rocm(&["gfx942"]);
        let common = shown(&rocm, BuiltFramework::Cmake, "");
        let of_torch = ["PYTORCH", "USE_", "BLAS"];
        assert!(!of_torch.iter().any(|name| common.contains(name)), "{common}");
        let frameworks = [
            BuiltFramework::Torchvision,
            BuiltFramework::Torchaudio,
            BuiltFramework::Triton,
            BuiltFramework::Apex,
            BuiltFramework::Jax,
        ];
        let own = frameworks.map(|built| {
            let lines = shown(&rocm, built, "");
            let own = lines.lines().filter(|line| !common.contains(line));
            format!("{built:?}\n{}", own.map(|line| format!("  {line}")).join("\n"))
        });
        insta::assert_snapshot!(own.join("\n"), @"
        Torchvision
          export PYTORCH_ROCM_ARCH='gfx942'
          export BLAS='OpenBLAS'
          export OpenBLAS_HOME='/site/_rocm_sdk_devel/lib/host-math'
          export OpenBLAS_LIB_NAME='rocm-openblas'
          export USE_KINETO='ON'
          export USE_GLOO='ON'
          export BUILD_VERSION='2.12.0+rocm7.14.0'
          export VERSION_NAME='2.12.0+rocm7.14.0'
          export FORCE_CUDA='1'
          export TORCHVISION_USE_NVJPEG='0'
          export TORCHVISION_USE_VIDEO_CODEC='0'
        Torchaudio
          export PYTORCH_ROCM_ARCH='gfx942'
          export BLAS='OpenBLAS'
          export OpenBLAS_HOME='/site/_rocm_sdk_devel/lib/host-math'
          export OpenBLAS_LIB_NAME='rocm-openblas'
          export USE_KINETO='ON'
          export USE_GLOO='ON'
          export BUILD_VERSION='2.12.0+rocm7.14.0'
          export BUILD_NUMBER='1'
          export USE_ROCM='1'
          export USE_CUDA='0'
          export USE_FFMPEG='1'
          export USE_OPENMP='1'
          export BUILD_SOX='0'
        Triton
          export TRITON_APPEND_CMAKE_ARGS='-DCMAKE_PREFIX_PATH=/site/_rocm_sdk_devel/lib/cmake'
          export TRITON_WHEEL_VERSION_SUFFIX='+rocm7.14.0'
        Apex
          export PYTORCH_ROCM_ARCH='gfx942'
          export BLAS='OpenBLAS'
          export OpenBLAS_HOME='/site/_rocm_sdk_devel/lib/host-math'
          export OpenBLAS_LIB_NAME='rocm-openblas'
          export USE_KINETO='ON'
          export USE_GLOO='ON'
          export BUILD_VERSION='2.12.0+rocm7.14.0'
        Jax
          export ML_WHEEL_TYPE='release'
          export ML_WHEEL_VERSION_SUFFIX='+rocm7.14.0'
        ");
    }

    #[test]
    fn jax_marks_no_set_under_development() {
        let rocm = InstalledRocm {
            version: "7.12.0.dev0+e1a5d395".parse().unwrap(),
            base: Some("0.8.2".parse().unwrap()),
            ..rocm(&[])
        };
        let jax = shown(&rocm, BuiltFramework::Jax, "");
        assert!(jax.contains("ML_WHEEL_VERSION_SUFFIX='+rocm7.12.0.dev0.e1a5d395'"), "{jax}");
        let torch = shown(&rocm, BuiltFramework::Torch, "");
        assert!(torch.contains("'0.8.2+devrocm7.12.0.dev0.e1a5d395'"), "{torch}");
        let names = ["jax", "jaxlib", "jax-rocm7-plugin", "jax-rocm10-pjrt"];
        for name in names.map(|name| name.parse().unwrap()) {
            let row = Frameworks::builtin().of(&name);
            assert_eq!(suffix(&rocm.version, row), "rocm7.12.0.dev0.e1a5d395");
        }
    }

    #[test]
    fn windows_has_no_flags_of_other_compilers() {
        let windows = InstalledRocm { platform: Platform::Windows, ..rocm(&["gfx1100"]) };
        insta::assert_snapshot!(shown(&windows, BuiltFramework::Torch, "llvm"), @r#"
        export PYTHONUTF8='1'
        export ROCM_PATH='/site/_rocm_sdk_devel'
        export ROCM_HOME='/site/_rocm_sdk_devel'
        export CMAKE_PREFIX_PATH='/site/_rocm_sdk_devel/lib/cmake'
        export PATH='/site/_rocm_sdk_devel/bin'"${PATH:+;$PATH}"
        export PYTORCH_ROCM_ARCH='gfx1100'
        export HIP_DEVICE_LIB_PATH='/site/_rocm_sdk_devel/lib/llvm/amdgcn/bitcode'
        export USE_KINETO='OFF'
        export USE_GLOO='ON'
        export HIP_CLANG_PATH='/site/_rocm_sdk_devel/lib/llvm/bin'
        export CC='/site/_rocm_sdk_devel/lib/llvm/bin/clang-cl.exe'
        export CXX='/site/_rocm_sdk_devel/lib/llvm/bin/clang-cl.exe'
        export USE_ROCM='ON'
        export USE_CUDA='OFF'
        export USE_MPI='OFF'
        export USE_NUMA='OFF'
        export PYTORCH_BUILD_VERSION='2.12.0+rocm7.14.0'
        export PYTORCH_BUILD_NUMBER='1'
        export PYTORCH_EXTRA_INSTALL_REQUIREMENTS='rocm[libraries]==7.14.0'
        export USE_FLASH_ATTENTION='1'
        export USE_MEM_EFF_ATTENTION='1'
        export DISTUTILS_USE_SDK='1'
        export BUILD_TEST='0'
        # the packages have no `lib/host-math`: BLAS OpenBLAS_HOME OpenBLAS_LIB_NAME
        "#);
    }

    #[test]
    fn nothing_is_set_to_an_empty_value() {
        let nowhere = InstalledRocm { base: None, ..rocm(&[]) };
        insta::assert_snapshot!(shown(&nowhere, BuiltFramework::Triton, "?"), @r#"
        export PYTHONUTF8='1'
        export ROCM_PATH='/site/_rocm_sdk_devel'
        export ROCM_HOME='/site/_rocm_sdk_devel'
        export TRITON_APPEND_CMAKE_ARGS='-DCMAKE_PREFIX_PATH=/site/_rocm_sdk_devel/lib/cmake'
        export PATH='/site/_rocm_sdk_devel/bin'"${PATH:+:$PATH}"
        export CXXFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict'"${CXXFLAGS:+ $CXXFLAGS}"
        export CPPFLAGS='-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict'"${CPPFLAGS:+ $CPPFLAGS}"
        export TRITON_WHEEL_VERSION_SUFFIX='+rocm7.14.0'
        # the packages have no `lib/llvm/amdgcn/bitcode`: HIP_DEVICE_LIB_PATH
        "#);
    }

    #[test]
    fn no_value_has_a_control_character() {
        let odd = InstalledRocm { root: "/a\nexport EVIL=1".to_owned(), ..rocm(&[]) };
        let refused = variables(&odd, BuiltFramework::Cmake, |_| true).unwrap_err();
        insta::assert_snapshot!(refused, @r#"the value of `ROCM_PATH` has a control character: "/a\nexport EVIL=1""#);
    }
}
