//! [`PythonPlatform`]: a Python on a platform, for which the base index has packages; and which
//! wheels fit it.

use std::str::FromStr;

use derive_more::Display;

use crate::run::Platform;
use rocwheel_base::error::{Context as _, Error, Result, as_text};
use rocwheel_wheel::{MarkerVariable, MarkerVariables, PackageFilename, Tag};

as_text!(PythonMinor);

/// The minor version of the oldest glibc that the ROCm packages support: 2.28.
const GLIBC: u32 = 28;
/// A patch version that is newer than every patch version of Python. Markers are evaluated for the newest patch
/// version, because a base index is for runners that get updates.
const NEWEST_PATCH: u32 = 99;

/// A minor version of `CPython`: `3.12`.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("3.{_0}")]
pub(super) struct PythonMinor(u32);

impl FromStr for PythonMinor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.strip_prefix("3.")
            .and_then(|minor| minor.parse().ok().map(Self))
            // `3.09` is read, and is not how a version is written.
            .filter(|python| python.to_string() == text)
            .with_context(|| format!("not a Python such as `3.12`: {text:?}"))
    }
}

/// A Python on a platform: `3.12-linux`.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{python}-{platform}")]
pub(super) struct PythonPlatform {
    pub python: PythonMinor,
    pub platform: Platform,
}

impl PythonPlatform {
    /// Whether an installer takes a file here. An sdist fits everywhere, and a variant wheel nowhere: pip refuses
    /// its name.
    pub(super) fn fits(self, file: &PackageFilename) -> bool {
        if file.label.is_some() {
            return false;
        }
        let Some(tag) = &file.tag else {
            return true;
        };
        let fits =
            |tag: &Tag| tag.is_for_python(self.python.0) && self.fits_platform(tag.platform());
        tag.expand().iter().any(fits)
    }

    fn fits_platform(self, tag: &str) -> bool {
        if tag == "any" || tag == self.platform.wheel_tag() {
            return true;
        }
        let glibc: Option<u32> = match tag {
            // Before PEP 600, tags named a year instead of a version of glibc.
            "manylinux1_x86_64" => Some(5),
            "manylinux2010_x86_64" => Some(12),
            "manylinux2014_x86_64" => Some(17),
            _ => tag
                .strip_prefix("manylinux_2_")
                .and_then(|rest| rest.strip_suffix("_x86_64")?.parse().ok()),
        };
        self.platform == Platform::Linux && glibc.is_some_and(|minor| minor <= GLIBC)
    }
}

impl MarkerVariables for PythonPlatform {
    fn value(&self, variable: MarkerVariable) -> Option<String> {
        let (os, system, machine) = match self.platform {
            Platform::Linux => ("posix", "Linux", "x86_64"),
            Platform::Windows => ("nt", "Windows", "AMD64"),
        };
        Some(match variable {
            MarkerVariable::PythonVersion => self.python.to_string(),
            MarkerVariable::PythonFullVersion | MarkerVariable::ImplementationVersion => {
                format!("{}.{NEWEST_PATCH}", self.python)
            }
            MarkerVariable::OsName => os.to_owned(),
            MarkerVariable::SysPlatform => self.platform.sys_platform().to_owned(),
            MarkerVariable::PlatformSystem => system.to_owned(),
            MarkerVariable::PlatformMachine => machine.to_owned(),
            MarkerVariable::PlatformPythonImplementation => "CPython".to_owned(),
            MarkerVariable::ImplementationName => "cpython".to_owned(),
            // They differ between machines of one platform.
            MarkerVariable::PlatformRelease | MarkerVariable::PlatformVersion => String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(environment: &str, tag: &str) -> bool {
        let (python, platform) = environment.split_once('-').unwrap();
        let environment =
            PythonPlatform { python: python.parse().unwrap(), platform: platform.parse().unwrap() };
        environment.fits(&format!("a-1.0-{tag}.whl").parse().unwrap())
    }

    #[test]
    fn a_wheel_fits_as_installers_see_it() {
        for tag in [
            "cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64",
            "cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64",
            "cp312-cp312-linux_x86_64",
            "cp311-abi3-manylinux1_x86_64",
            "cp310-abi3-manylinux_2_28_x86_64",
            "cp312-none-any",
            "py39-none-any",
            "py2.py3-none-any",
        ] {
            assert!(fits("3.12-linux", tag), "{tag}");
        }
        for tag in [
            "cp313-cp313-manylinux_2_28_x86_64",
            "cp312-cp312-manylinux_2_29_x86_64",
            "cp312-cp312-musllinux_1_2_x86_64",
            "cp312-cp312-manylinux_2_28_aarch64",
            "cp312-cp312-macosx_11_0_arm64",
            "cp312-cp312-win_amd64",
            "cp312-cp312t-linux_x86_64",
            "cp313-abi3-linux_x86_64",
            "pp310-pypy310_pp73-linux_x86_64",
            "py2-none-any",
        ] {
            assert!(!fits("3.12-linux", tag), "{tag}");
        }
        assert!(fits("3.12-windows", "cp312-cp312-win_amd64"));
        assert!(fits("3.15-linux", "cp315-cp315-manylinux_2_28_x86_64"));
        assert!(!fits("3.12-windows", "cp312-cp312-manylinux1_x86_64"));
        assert!(!fits("3.12-windows", "cp312-cp312-win32"));
        for text in ["3", "3.09", "2.7", "3.9.1"] {
            assert!(text.parse::<PythonMinor>().is_err(), "{text}");
        }
    }
}
