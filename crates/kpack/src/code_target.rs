//! `CodeTarget`: the target of a code object, as bundles and archives spell it. See
//! [Target ID](https://llvm.org/docs/AMDGPUUsage.html#target-id) in the AMDGPU ABI.

use std::str::FromStr;

use itertools::Itertools as _;

use rocwheel_base::{
    error::{Invalid, as_text},
    target::{Target, TargetId, TargetTable, runs_with_xnack_off},
};

/// A target with its features in LLVM's order (`gfx90a:sramecc+:xnack-`), a generic target
/// (`gfx9-4-generic`), or SPIR-V, which is compiled later (`amdgcnspirv`).
///
/// Parsing sorts the features, because the runtime asks for them in LLVM's order only.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeTarget(Box<str>);

as_text!(CodeTarget);

impl CodeTarget {
    /// The target as compilers write it: `gfx942`, or `gfx942:xnack+`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The target without its features: `gfx942` for `gfx942:xnack+`.
    #[must_use]
    pub fn base(&self) -> Self {
        Self(self.processor().into())
    }

    /// The GPU target, if it is one: `None` for `amdgcnspirv` and `gfx9-4-generic`.
    pub fn target(&self) -> Option<Target> {
        self.0.parse().ok()
    }

    /// Whether its code runs with XNACK off, which is the usual mode of devices.
    pub fn runs_with_xnack_off(&self) -> bool {
        runs_with_xnack_off(&self.0)
    }

    /// The targets whose code the runtime accepts for this target, most specific first: for
    /// `gfx90a:sramecc+:xnack-` these are itself, `gfx90a:sramecc+`, `gfx90a:xnack-` and `gfx90a`.
    pub fn accepted(&self) -> Vec<Self> {
        let features: Vec<&str> = self.0.split(':').skip(1).collect();
        (0..=features.len())
            .rev()
            .flat_map(|count| features.iter().copied().combinations(count))
            .map(|chosen| [&[self.processor()], chosen.as_slice()].concat().join(":"))
            .map(|target| Self(target.into()))
            .collect()
    }

    fn processor(&self) -> &str {
        self.0.split(':').next().unwrap_or(&self.0)
    }
}

impl From<&Target> for CodeTarget {
    fn from(target: &Target) -> Self {
        Self(target.canonical().into())
    }
}

impl FromStr for CodeTarget {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The text may come from a damaged file, and be megabytes long.
        let shown: String = text.chars().take(80).collect();
        let refuse = |reason| Err(Invalid::new(reason, shown.as_str()));
        match TargetId::parse(text) {
            Ok(id) if is_processor(id.processor) => Ok(Self(id.canonical().into())),
            Ok(_) => refuse(NO_PROCESSOR),
            Err(reason) => refuse(reason),
        }
    }
}

/// Whether `base`, a target without features, is a generic target of the runtime.
pub(super) fn is_generic(base: &CodeTarget) -> bool {
    TargetTable::builtin().is_generic(base.as_str())
}

const NO_PROCESSOR: &str = "not a processor such as `gfx942` or `gfx9-4-generic`";

/// A processor: `gfx1250-strict`, `gfx9-4-generic`, `amdgcnspirv`. It becomes part of file names, so
/// other characters are refused.
fn is_processor(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = text.strip_prefix("gfx").or_else(|| text.strip_prefix("amdgcn"));
    name.is_some_and(|name| !name.ends_with('-') && name.chars().all(is_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> CodeTarget {
        text.parse().unwrap()
    }

    #[test]
    fn targets_generic_targets_and_spirv_are_read() {
        for text in [
            "gfx942",
            "gfx90a:sramecc+:xnack-",
            "gfx1250-strict",
            "gfx9-4-generic:xnack+",
            "amdgcnspirv",
        ] {
            assert_eq!(target(text).to_string(), text);
        }
        assert_eq!(target("gfx942:xnack+").base(), target("gfx942"));
        assert!(target("gfx9-4-generic").target().is_none());
        assert!(target("gfx942:xnack+").target().is_some());
    }

    #[test]
    fn features_stand_in_the_order_in_which_the_runtime_asks_for_them() {
        assert_eq!(target("gfx90a:xnack-:sramecc+").as_str(), "gfx90a:sramecc+:xnack-");
    }

    #[test]
    fn a_device_accepts_every_choice_of_its_features_the_most_specific_first() {
        let accepted = target("gfx90a:sramecc+:xnack-").accepted();
        let accepted: Vec<&str> = accepted.iter().map(CodeTarget::as_str).collect();
        assert_eq!(
            accepted,
            ["gfx90a:sramecc+:xnack-", "gfx90a:sramecc+", "gfx90a:xnack-", "gfx90a"]
        );
    }

    #[test]
    fn what_could_not_name_a_file_is_refused() {
        let long = format!("gfx{}", "9".repeat(100));
        let refused: Vec<String> = [
            "",
            "gfx/../942",
            "x86_64",
            "gfx942-",
            "gfx942:",
            "gfx942:xnack",
            "gfx942:xnack+:xnack-",
            &long,
        ]
        .iter()
        .map(|text| text.parse::<CodeTarget>().unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(refused.join("\n"), @r#"
        not a processor such as `gfx942` or `gfx9-4-generic`: ""
        not a processor such as `gfx942` or `gfx9-4-generic`: "gfx/../942"
        not a processor such as `gfx942` or `gfx9-4-generic`: "x86_64"
        not a processor such as `gfx942` or `gfx9-4-generic`: "gfx942-"
        not features such as `xnack+`: "gfx942:"
        not features such as `xnack+`: "gfx942:xnack"
        a feature is named twice: "gfx942:xnack+:xnack-"
        not a processor such as `gfx942` or `gfx9-4-generic`: "gfx99999999999999999999999999999999999999999999999999999999999999999999999999999"
        "#);
    }
}
