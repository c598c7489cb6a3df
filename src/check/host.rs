//! What a Linux host provides: `system_libraries.toml`, read once and checked.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{
    check::demands::Dotted,
    error::{Context as _, Result, ensure},
};

static BUILTIN: LazyLock<Host> = LazyLock::new(|| {
    Host::parse(include_str!("system_libraries.toml")).expect("a test reads the built-in list")
});

#[derive(Debug)]
pub(super) struct Host {
    libraries: Vec<String>,
    /// By the version of glibc, ascending.
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
struct Raw {
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

impl Host {
    pub(super) fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self> {
        let raw: Raw = toml::from_str(text).context("read the list of system libraries")?;
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

    /// Whether a host has a library of this name.
    pub(super) fn has(&self, name: &str) -> bool {
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

    /// The newest symbol version of a kind that hosts with this glibc have; `None` if it is not
    /// known or not numbered.
    pub(super) fn newest(&self, kind: &str, glibc: &Dotted) -> Option<Dotted> {
        let known = self.runtimes.iter().rev().find(|host| host.glibc <= *glibc);
        match kind {
            "GLIBC" => Some(glibc.clone()),
            "GLIBCXX" => known.map(|host| host.glibcxx.clone()),
            "CXXABI" => known.map(|host| host.cxxabi.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read() {
        let host = Host::builtin();
        assert!(host.has("libc.so.6") && host.has("libpython3.12.so.1.0"));
        assert!(!host.has("libpython3.so.1.0") && !host.has("libamdhip64.so.7"));
    }

    #[test]
    fn a_host_has_the_runtime_of_its_glibc() {
        let newest = |kind, glibc: &str| {
            let found = Host::builtin().newest(kind, &glibc.parse().unwrap());
            found.map(|version| version.to_string())
        };
        assert_eq!(newest("GLIBC", "2.30"), Some("2.30".to_owned()));
        assert_eq!(newest("GLIBCXX", "2.30"), Some("3.4.25".to_owned()));
        assert_eq!(newest("GLIBCXX", "2.5"), None);
        assert_eq!(newest("OPENSSL", "2.28"), None);
    }
}
