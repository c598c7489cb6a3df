//! `ArtifactGroup`: the name of a package set within a run, such as a GPU family.

use std::{collections::BTreeSet, str::FromStr};

use super::is_segment;
use rocwheel_base::{
    error::{Error, Result, ensure},
    target::{Scope, TargetTable},
};

/// Names of files and directories in the directory of a package set. No group may have such a name.
const RESERVED: [&str; 5] = ["dist", "simple", "index.html", "SHA256SUMS", "set.json"];
/// Suffixes of family names. `gfx942-dcgpu` is then a family that does not exist, rather than the
/// target `gfx942` with a build variant `dcgpu`.
const KINDS: [&str; 4] = ["all", "dcgpu", "dgpu", "igpu"];
/// Prefix of the group for all families in multi-arch CI: `multi-arch-release`, or another build
/// variant. Jobs pass it beside `--multi-target`, or beside the families that they want: it names
/// the run, and selects nothing.
const MULTI_ARCH: &str = "multi-arch-";

/// The name of a package set within a run. It is for a family (`gfx94X-dcgpu`), a target
/// (`gfx942`), a build variant of either (`gfx950-dcgpu-asan`), or all families
/// (`multi-arch-release`). The empty name is for all families too, and their set is at the top.
///
/// Any other name becomes a directory. Parsing accepts only names that CI uses: for a mistyped family, an
/// upload would create a new directory without any error, and no other job would find it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct ArtifactGroup(Box<str>);

impl ArtifactGroup {
    /// Whether the group is for all families.
    pub fn is_for_all(&self) -> bool {
        self.0.is_empty() || self.0.starts_with(MULTI_ARCH)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The group of a directory that exists. Any valid name is accepted, because a newer version of
    /// CI may have families that the table of this version lacks.
    pub fn of_directory(name: &str) -> Result<Self> {
        ensure!(
            name.is_empty() || is_segment(name),
            "expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: {name:?}"
        );
        ensure!(!RESERVED.contains(&name), "the name of a part of every package set: {name:?}");
        Ok(Self(name.into()))
    }

    /// The family or target that the group is for, and the targets of that family. Empty if the
    /// group is for all families.
    pub fn scopes(&self) -> BTreeSet<Scope> {
        if self.is_for_all() {
            return BTreeSet::new();
        }
        let mut scopes = known_scopes(&self.0).unwrap_or_default();
        scopes.extend(self.0.parse::<Scope>().ok());
        scopes
    }
}

/// The scopes of the longest prefix of a name that is a family or a target: of `gfx950-dcgpu` in
/// `gfx950-dcgpu-asan`.
fn known_scopes(name: &str) -> Option<BTreeSet<Scope>> {
    let table = TargetTable::builtin();
    let ends = name.rmatch_indices('-').map(|(at, _)| at);
    [name.len()].into_iter().chain(ends).find_map(|end| {
        let (head, rest) = name.split_at_checked(end)?;
        let suffix = rest.trim_start_matches('-');
        let is_family = suffix.split('-').next().is_some_and(|it| KINDS.contains(&it));
        // In exactly this spelling: the group is the name of a directory.
        let scope = head.parse().ok().filter(|_| !is_family)?;
        table.scopes_of(&scope)
    })
}

impl FromStr for ArtifactGroup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let group = Self::of_directory(text)?;
        let variant = text.strip_prefix(MULTI_ARCH);
        let is_known = text.is_empty()
            || text == Scope::Generic.as_str()
            || variant.is_some_and(|it| !it.is_empty())
            || known_scopes(text).is_some();
        let hint = TargetTable::builtin().unknown(vec![text.to_owned()]).hint;
        // The hint ends with a list of all families and targets, which is too long here.
        let nearest = match hint.split_once('?') {
            Some((nearest, _)) => format!("; {nearest}?"),
            None => String::new(),
        };
        ensure!(is_known, "not a family, a target or `multi-arch-release`{nearest}: {text:?}");
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(texts: &[&str]) -> String {
        let refuse = |text: &&str| text.parse::<ArtifactGroup>().unwrap_err().to_string();
        let messages: Vec<String> = texts.iter().map(refuse).collect();
        messages.join("\n")
    }

    #[test]
    fn a_group_is_a_family_a_target_a_variant_of_one_or_for_all() {
        for text in [
            "",
            "generic",
            "gfx94X-dcgpu",
            "gfx942",
            "gfx950-dcgpu-asan",
            "gfx110X-all-host-asan",
            "gfx942-asan",
            "multi-arch-release",
            "multi-arch-asan",
        ] {
            assert_eq!(text.parse::<ArtifactGroup>().unwrap().to_string(), text);
        }
        assert_eq!(ArtifactGroup::default().as_str(), "");
    }

    #[test]
    fn a_name_that_ci_does_not_have_is_refused_with_the_nearest() {
        insta::assert_snapshot!(refusals(&[
            "gfx94x-dcgpu",
            "gfx94X-dcgp",
            "gfx942-dcgpu",
            "multi-arch-",
            "linux",
        ]), @r#"
        not a family, a target or `multi-arch-release`; did you mean `gfx94X-dcgpu`?: "gfx94x-dcgpu"
        not a family, a target or `multi-arch-release`; did you mean `gfx94X-dcgpu`?: "gfx94X-dcgp"
        not a family, a target or `multi-arch-release`; did you mean `gfx94X-dcgpu`?: "gfx942-dcgpu"
        not a family, a target or `multi-arch-release`: "multi-arch-"
        not a family, a target or `multi-arch-release`: "linux"
        "#);
    }

    #[test]
    fn what_cannot_be_a_directory_of_its_own_is_refused() {
        insta::assert_snapshot!(refusals(&[
            "a/b",
            "..",
            ".hidden",
            "-x",
            "gfx942:xnack+",
            "dist",
            "simple",
            "index.html",
            "SHA256SUMS",
            "set.json",
        ]), @r#"
        expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: "a/b"
        expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: ".."
        expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: ".hidden"
        expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: "-x"
        expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: "gfx942:xnack+"
        the name of a part of every package set: "dist"
        the name of a part of every package set: "simple"
        the name of a part of every package set: "index.html"
        the name of a part of every package set: "SHA256SUMS"
        the name of a part of every package set: "set.json"
        "#);
    }

    #[test]
    fn a_directory_may_be_of_a_family_that_is_not_known_yet() {
        let group = ArtifactGroup::of_directory("gfx130X-dcgpu").unwrap();
        assert_eq!(group.as_str(), "gfx130X-dcgpu");
        assert!(ArtifactGroup::of_directory("dist").is_err());
    }

    #[test]
    fn a_group_stands_for_its_family_and_the_targets_of_that() {
        let scopes = |text: &str| -> Vec<String> {
            let group: ArtifactGroup = text.parse().unwrap();
            group.scopes().iter().map(ToString::to_string).collect()
        };
        assert_eq!(scopes("gfx94X-dcgpu"), ["gfx942", "gfx94X-dcgpu"]);
        assert_eq!(scopes("gfx942"), ["gfx942"]);
        assert_eq!(scopes("multi-arch-release"), [""; 0]);
        assert_eq!(scopes(""), [""; 0]);
    }
}
