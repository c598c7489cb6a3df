//! The platform tag that a wheel may claim ([PEP 600](https://peps.python.org/pep-0600/)): the
//! oldest host that has every symbol version and every library which its binaries need.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use rocwheel_elf::{ElfFacts, loader::Dotted};

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
    pub(super) fn reason(&self, introduction: &str) -> String {
        match &self.because {
            Some(NeedsNewer { file, needs }) => format!("{introduction}`{file}` needs {needs}"),
            None => String::new(),
        }
    }
}

/// A file of a wheel, as far as it decides on which hosts the wheel runs.
#[derive(Debug)]
pub(super) struct HostNeeds<'a> {
    pub path: &'a str,
    pub elf: &'a ElfFacts,
    /// The libraries that neither its wheel nor anything that the wheel requires provides.
    pub libraries: Vec<&'a str>,
}

impl Manylinux {
    pub(super) fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Whether every policy allows a library.
    pub(super) fn has(&self, library: &str) -> bool {
        self.libraries.iter().any(|it| it == library)
    }

    /// The oldest policy that all files fulfil.
    pub(super) fn oldest(&self, files: &[HostNeeds<'_>]) -> ProvenTag {
        let mut because = None;
        for policy in &self.policy {
            let obstacle = files.iter().find_map(|file| {
                let needs = self.obstacle(policy, file)?;
                Some(NeedsNewer { file: file.path.to_owned(), needs })
            });
            if obstacle.is_none() {
                return ProvenTag { policy: policy.name.clone(), because };
            }
            because = obstacle;
        }
        ProvenTag { policy: "linux".to_owned(), because }
    }

    /// What a file needs that hosts of a policy may lack.
    fn obstacle(&self, policy: &TagPolicy, file: &HostNeeds<'_>) -> Option<String> {
        let number = |version: &&String| {
            version.split_once('_').map(|(_, number)| number.parse::<Dotted>().ok())
        };
        let versions = file.elf.versions.iter().flat_map(|needs| &needs.versions);
        // The newest version says the most: it rules out the most hosts.
        if let Some(newest) = versions.filter(|version| policy.lacks(version)).max_by_key(number) {
            return Some(newest.clone());
        }
        let is_allowed = |name: &str| self.has(name) && !policy.without.iter().any(|it| it == name);
        file.libraries.iter().find(|library| !is_allowed(library)).map(ToString::to_string)
    }

    /// Whether a tag of a wheel promises at most what was proved: `manylinux_2_28_x86_64` does for
    /// the policy `manylinux_2_27`. `None` for a tag that is about something else.
    pub(super) fn is_proved(&self, platform: &str, proved: &ProvenTag) -> Option<bool> {
        let claimed = platform.strip_suffix("_x86_64")?;
        if claimed == "linux" {
            return Some(true);
        }
        let age_of = |name: &str| {
            self.policy.iter().position(|it| it.name == name || it.alias.as_deref() == Some(name))
        };
        let claimed_age = age_of(claimed).or_else(|| self.age_of_glibc(claimed))?;
        Some(age_of(&proved.policy).is_some_and(|proved_age| proved_age <= claimed_age))
    }

    /// The place in `policy` of the newest policy that is not newer than the glibc of a tag, for a glibc
    /// without a policy: `manylinux_2_32` promises what `manylinux_2_31` promises.
    fn age_of_glibc(&self, claimed: &str) -> Option<usize> {
        let glibc: Dotted = claimed.strip_prefix("manylinux_")?.replace('_', ".").parse().ok()?;
        let is_not_newer =
            |policy: &TagPolicy| policy.newest.get("GLIBC").is_some_and(|newest| *newest <= glibc);
        self.policy.iter().rposition(is_not_newer)
    }
}

impl TagPolicy {
    /// Whether hosts may lack a symbol version, such as `GLIBC_2.34`. A kind that no policy knows, such as
    /// `hip_6.5`, belongs to a library that hosts need not have.
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
    use rocwheel_elf::NeededVersions;

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
        let file = HostNeeds { path: "a/x.so", elf: &elf, libraries: libraries.to_vec() };
        Manylinux::builtin().oldest(&[file])
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
