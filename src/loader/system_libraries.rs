//! The libraries that every Linux host provides: `system_libraries.toml`, parsed and validated
//! once.

use std::{fmt, str::FromStr, sync::LazyLock};

use serde::Deserialize;

use crate::error::{Context as _, Result, ensure};

static BUILTIN: LazyLock<SystemLibraries> = LazyLock::new(|| {
    SystemLibraries::parse(include_str!("system_libraries.toml"))
        .expect("a test reads the built-in list")
});

#[derive(Debug)]
pub struct SystemLibraries {
    libraries: Vec<String>,
    /// Sorted by the version of glibc.
    runtimes: Vec<Runtime>,
}

#[derive(Debug)]
struct Runtime {
    glibc: Dotted,
    glibcxx: Dotted,
    cxxabi: Dotted,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHostFile {
    library: Vec<RawLibraries>,
    host: Vec<RawHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLibraries {
    provider: String,
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    glibc: String,
    glibcxx: String,
    cxxabi: String,
}

impl SystemLibraries {
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self> {
        let raw: RawHostFile =
            toml::from_str(text).context("failed to read the list of system libraries")?;
        let mut libraries = Vec::new();
        for group in raw.library {
            ensure!(!group.provider.is_empty(), "libraries without a provider");
            libraries.extend(group.names);
        }
        let runtime = |raw: RawHost| -> Result<Runtime> {
            Ok(Runtime {
                glibc: raw.glibc.parse()?,
                glibcxx: raw.glibcxx.parse()?,
                cxxabi: raw.cxxabi.parse()?,
            })
        };
        let runtimes = raw.host.into_iter().map(runtime);
        let runtimes = runtimes.collect::<Result<Vec<_>>>()?;
        ensure!(
            runtimes.is_sorted_by(|one, next| one.glibc < next.glibc),
            "hosts that do not ascend by glibc"
        );
        Ok(Self {
            libraries,
            runtimes,
        })
    }

    /// Whether every host has a library with this name.
    pub fn has(&self, name: &str) -> bool {
        self.libraries
            .iter()
            .any(|known| match known.split_once('*') {
                None => known == name,
                Some((start, end)) => {
                    let middle = name
                        .strip_prefix(start)
                        .and_then(|rest| rest.strip_suffix(end));
                    middle.is_some_and(|middle| !middle.is_empty())
                }
            })
    }

    /// The newest symbol version of a kind, such as `GLIBCXX`, on hosts with this glibc. `None` if
    /// the kind is unknown or has no numbers.
    pub fn newest(&self, kind: &str, glibc: &Dotted) -> Option<Dotted> {
        let known = self.runtimes.iter().rev().find(|host| host.glibc <= *glibc);
        match kind {
            "GLIBC" => Some(glibc.clone()),
            "GLIBCXX" => known.map(|host| host.glibcxx.clone()),
            "CXXABI" => known.map(|host| host.cxxabi.clone()),
            _ => None,
        }
    }
}

/// A version of dotted numbers: `2.28`. `2.28` is less than `2.28.1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dotted(Vec<u32>);

/// The default is the glibc of `manylinux_2_28`, for which the packages are built.
impl Default for Dotted {
    fn default() -> Self {
        Self(vec![2, 28])
    }
}

/// Why a text is not a `Dotted`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version of numbers such as `2.28`: {0:?}")]
pub struct InvalidDotted(String);

impl FromStr for Dotted {
    type Err = InvalidDotted;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDotted(text.to_owned());
        let numbers = text.split('.').map(|number| {
            // `u32::from_str` accepts a sign: `+2`. Versions have none.
            Some(number)
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|number| number.parse().ok())
                .ok_or_else(invalid)
        });
        numbers.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Dotted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read() {
        let host = SystemLibraries::builtin();
        assert!(host.has("libc.so.6") && host.has("libpython3.12.so.1.0"));
        assert!(!host.has("libpython3.so.1.0") && !host.has("libamdhip64.so.7"));
    }

    #[test]
    fn a_host_has_the_runtime_of_its_glibc() {
        let newest = |kind, glibc: &str| {
            let found = SystemLibraries::builtin().newest(kind, &glibc.parse().unwrap());
            found.map(|version| version.to_string())
        };
        assert_eq!(newest("GLIBC", "2.30"), Some("2.30".to_owned()));
        assert_eq!(newest("GLIBCXX", "2.30"), Some("3.4.25".to_owned()));
        assert_eq!(newest("GLIBCXX", "2.5"), None);
        assert_eq!(newest("OPENSSL", "2.28"), None);
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<Dotted>().unwrap();
        assert!(version("2.9") < version("2.28"));
        assert!(version("2.28") < version("2.28.1"));
        assert_eq!(version("3.4.25").to_string(), "3.4.25");
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        for text in ["", "2.", "+2.28", "2.x", "99999999999"] {
            assert!(text.parse::<Dotted>().is_err(), "{text}");
        }
        let error = "2.x".parse::<Dotted>().unwrap_err();
        insta::assert_snapshot!(error, @r#"not a version of numbers such as `2.28`: "2.x""#);
    }
}
