//! The platform tag that a wheel may claim ([PEP 600](https://peps.python.org/pep-0600/)): the
//! oldest host that has every symbol version and every library which its binaries need.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::{elf::ElfFacts, loader::Dotted};

static BUILTIN: LazyLock<Manylinux> = LazyLock::new(|| {
    toml::from_str(include_str!("manylinux.toml")).expect("a test reads the built-in table")
});

/// The table in `manylinux.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manylinux {
    libraries: Vec<String>,
    /// From the oldest host to the newest.
    policy: Vec<TagPolicy>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TagPolicy {
    name: String,
    /// The name before PEP 600: `manylinux2014`.
    alias: Option<String>,
    /// The newest symbol version of each kind, such as `GLIBC`.
    newest: BTreeMap<String, Dotted>,
    /// Versions without a number: `CXXABI_TM_1`.
    names: Vec<String>,
    /// The libraries that only newer policies allow.
    #[serde(default)]
    without: Vec<String>,
}

/// The oldest policy that a wheel fulfils, and what keeps it from an older one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct ProvenTag {
    /// `manylinux_2_28`, or `linux` if no policy fits.
    pub policy: String,
    /// What rules out the next older policy.
    #[serde(flatten)]
    pub because: Option<NeedsNewer>,
}

/// A file, and the symbol version or library that it needs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct NeedsNewer {
    pub file: String,
    pub needs: String,
}

impl ProvenTag {
    /// What rules out the next older policy, behind a text that introduces it. Empty if nothing does.
    pub(super) fn reason(&self, before: &str) -> String {
        let because = self.because.as_ref();
        because.map_or(String::new(), |NeedsNewer { file, needs }| {
            format!("{before}`{file}` needs {needs}")
        })
    }
}

impl Manylinux {
    pub(super) fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Whether every policy allows a library.
    pub(super) fn has(&self, library: &str) -> bool {
        self.libraries.iter().any(|it| it == library)
    }

    /// The oldest policy that all files fulfil. Each file comes with its path and with the
    /// libraries that neither its wheel nor anything that the wheel requires provides.
    pub(super) fn oldest(&self, files: &[(&str, &ElfFacts, Vec<&str>)]) -> ProvenTag {
        let mut because = None;
        for policy in &self.policy {
            let obstacle = files.iter().find_map(|(path, elf, libraries)| {
                let needs = self.obstacle(policy, elf, libraries)?;
                Some(NeedsNewer { file: (*path).to_owned(), needs })
            });
            if obstacle.is_none() {
                let policy = policy.name.clone();
                return ProvenTag { policy, because };
            }
            because = obstacle;
        }
        ProvenTag { policy: "linux".to_owned(), because }
    }

    /// What a file needs that hosts of a policy may lack.
    fn obstacle(&self, policy: &TagPolicy, elf: &ElfFacts, libraries: &[&str]) -> Option<String> {
        let versions = elf.versions.iter().flat_map(|needs| &needs.versions);
        let newer = versions.filter(|version| policy.lacks(version));
        // Of several versions the newest says the most.
        let newest =
            newer.max_by_key(|it| it.split_once('_').map(|(_, it)| it.parse::<Dotted>().ok()));
        newest.cloned().or_else(|| {
            let is_allowed =
                |name: &str| self.has(name) && !policy.without.iter().any(|it| it == name);
            let mut libraries = libraries.iter();
            libraries.find(|it| !is_allowed(it)).map(ToString::to_string)
        })
    }

    /// Whether a tag of a wheel promises at most what was proved: `manylinux_2_28_x86_64` does for
    /// the policy `manylinux_2_27`. `None` for a tag that is about something else.
    pub(super) fn is_proved(&self, platform: &str, proved: &ProvenTag) -> Option<bool> {
        let claimed = platform.strip_suffix("_x86_64")?;
        if claimed == "linux" {
            return Some(true);
        }
        let place = |name: &str| {
            let mut policies = self.policy.iter();
            policies.position(|it| it.name == name || it.alias.as_deref() == Some(name))
        };
        let claimed = place(claimed).or_else(|| self.between(claimed))?;
        Some(place(&proved.policy).is_some_and(|proved| proved <= claimed))
    }

    /// The newest policy that is not newer than a glibc without a policy of its own:
    /// `manylinux_2_32` promises what `manylinux_2_31` does.
    fn between(&self, claimed: &str) -> Option<usize> {
        let glibc: Dotted = claimed.strip_prefix("manylinux_")?.replace('_', ".").parse().ok()?;
        self.policy.iter().rposition(|it| it.newest.get("GLIBC").is_some_and(|own| *own <= glibc))
    }
}

impl TagPolicy {
    /// Whether hosts may lack a symbol version, such as `GLIBC_2.34`. Kinds that no policy knows,
    /// such as `hip_6.5`, are those of other libraries.
    fn lacks(&self, version: &str) -> bool {
        let Some((kind, number)) = version.split_once('_') else {
            return false;
        };
        let Some(newest) = self.newest.get(kind) else {
            return false;
        };
        match number.parse::<Dotted>() {
            Ok(number) => number > *newest,
            Err(_) => !self.names.iter().any(|it| it == version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::NeededVersions;

    fn needing(versions: &[&str]) -> ElfFacts {
        ElfFacts {
            versions: vec![NeededVersions {
                library: "libc.so.6".to_owned(),
                versions: versions.iter().map(ToString::to_string).collect(),
            }],
            ..ElfFacts::default()
        }
    }

    fn proved(versions: &[&str], libraries: &[&'static str]) -> ProvenTag {
        let elf = needing(versions);
        let files = [("a/x.so", &elf, libraries.to_vec())];
        Manylinux::builtin().oldest(&files)
    }

    #[test]
    fn the_oldest_policy_with_every_symbol_is_proved() {
        let shown = |versions: &[&str], libraries: &[&'static str]| {
            let ProvenTag { policy, because } = proved(versions, libraries);
            let because =
                because.map(|NeedsNewer { file, needs }| format!(": `{file}` needs {needs}"));
            policy + &because.unwrap_or_default()
        };
        let lines = [
            shown(&[], &[]),
            shown(&["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.9"], &["libc.so.6"]),
            shown(&["GLIBCXX_3.4.21", "CXXABI_1.3.9"], &[]),
            shown(&["CXXABI_1.3.15"], &[]),
            shown(&["GLIBC_ABI_DT_RELR"], &[]),
            shown(&["GLIBC_2.99"], &[]),
            shown(&["hip_6.5", "noversion"], &["libmvec.so.1"]),
            shown(&[], &["libfoo.so.1"]),
            shown(&["GLIBC_PRIVATE"], &[]),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
        manylinux_2_5
        manylinux_2_17: `a/x.so` needs GLIBC_2.17
        manylinux_2_24: `a/x.so` needs GLIBCXX_3.4.21
        manylinux_2_39: `a/x.so` needs CXXABI_1.3.15
        manylinux_2_36: `a/x.so` needs GLIBC_ABI_DT_RELR
        linux: `a/x.so` needs GLIBC_2.99
        manylinux_2_24: `a/x.so` needs libmvec.so.1
        linux: `a/x.so` needs libfoo.so.1
        linux: `a/x.so` needs GLIBC_PRIVATE
        ");
    }

    #[test]
    fn a_tag_that_promises_less_is_proved_too() {
        let proved = proved(&["GLIBC_2.26"], &[]);
        let is_proved = |tag| Manylinux::builtin().is_proved(tag, &proved);
        assert_eq!(is_proved("manylinux_2_28_x86_64"), Some(true));
        assert_eq!(is_proved("manylinux_2_32_x86_64"), Some(true));
        assert_eq!(is_proved("manylinux_2_25_x86_64"), Some(false));
        assert_eq!(is_proved("manylinux2014_x86_64"), Some(false));
        assert_eq!(is_proved("linux_x86_64"), Some(true));
        assert_eq!(is_proved("win_amd64"), None);
        assert_eq!(is_proved("any"), None);
    }
}
