//! The libraries that every Linux host provides: `system_libraries.toml`, parsed and validated
//! once.

use std::{fmt, str::FromStr, sync::LazyLock};

use itertools::Itertools as _;
use serde::{Deserialize, Deserializer, de};

use crate::error::Invalid;

static BUILTIN: LazyLock<SystemLibraries> = LazyLock::new(|| {
    toml::from_str(include_str!("system_libraries.toml")).expect("a test reads the built-in list")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemLibraries {
    library: Vec<LibraryNames>,
    /// Sorted by the version of glibc.
    host: Vec<HostRuntime>,
}

/// The libraries of one provider. A `*` in a name stands for any text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryNames {
    #[serde(rename = "provider")]
    _provider: String,
    names: Vec<String>,
}

/// The versions that hosts with this glibc have of the runtime of C++.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostRuntime {
    glibc: Dotted,
    glibcxx: Dotted,
    cxxabi: Dotted,
}

impl SystemLibraries {
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Whether every host has a library with this name.
    pub fn has(&self, name: &str) -> bool {
        let mut names = self.library.iter().flat_map(|it| &it.names);
        names.any(|known| match known.split_once('*') {
            None => known == name,
            Some((start, end)) => {
                let rest = name.strip_prefix(start);
                let middle = rest.and_then(|rest| rest.strip_suffix(end));
                middle.is_some_and(|middle| !middle.is_empty())
            }
        })
    }

    /// The newest symbol version of a kind, such as `GLIBCXX`, on hosts with this glibc. `None` if
    /// the kind is unknown or has no numbers.
    pub fn newest(&self, kind: &str, glibc: &Dotted) -> Option<Dotted> {
        let known = self.host.iter().rev().find(|host| host.glibc <= *glibc);
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

impl FromStr for Dotted {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // `u32::from_str` accepts a sign: `+2`. Versions have none.
        let number = |it: &str| it.parse().ok().filter(|_| !it.starts_with('+'));
        let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
        numbers
            .map(Self)
            .ok_or_else(|| Invalid::new("not a version of numbers such as `2.28`", text))
    }
}

impl<'de> Deserialize<'de> for Dotted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Dotted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().join("."))
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
        assert!(host.host.is_sorted_by(|one, next| one.glibc < next.glibc));
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
