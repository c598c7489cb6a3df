//! What code is built for: a target (`gfx942`), a family of targets (`gfx94X-dcgpu`), or every GPU.

use std::{
    borrow::Cow,
    cmp::Ordering,
    hash::{Hash, Hasher},
    str::FromStr,
};

use derive_more::{Display, From};

use crate::error::{Invalid, as_text};

mod ci;
mod id;
mod isa;
mod names;
mod pattern;
mod table;
mod view;

pub use ci::TestJob;
pub use id::{TargetId, runs_with_xnack_off};
use id::{canonical, with_colons};
pub use isa::generic;
pub use pattern::TargetPattern;
pub use table::{TargetTable, UnknownFamilies};
pub use view::{PlatformView, missing};

/// A GPU instruction set, with or without features: `gfx942`, `gfx942:xnack+`, `gfx1250-strict`.
/// See [target IDs](https://llvm.org/docs/AMDGPUUsage.html#target-id) of LLVM.
///
/// Targets are ordered as texts, so `gfx1100` comes before `gfx942`. Names of files and of packages have
/// features behind `-`: `gfx942-xnack+` is equal to `gfx942:xnack+`, and keeps its text. The order of features
/// does not matter either.
#[derive(Clone, Debug, Display)]
pub struct Target(Box<str>);

/// A named group of targets: `gfx94X-dcgpu`, `dgpu-all`. The name is never `generic`, and never the name
/// of a target.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family(Box<str>);

/// What an artifact is built for. Scopes of all kinds are ordered by their text.
#[derive(Clone, Debug, Display, From, PartialEq, Eq, Hash)]
pub enum Scope {
    /// For every GPU.
    #[display("generic")]
    Generic,
    /// For the targets of a family.
    Family(Family),
    /// For one target.
    Target(Target),
}

as_text!(Target, Family, Scope);

impl Target {
    /// The name as it was written. Two spellings of one target differ here;
    /// [`canonical`](Self::canonical) does not.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text by which it is compared: `gfx90a:sramecc+:xnack-`.
    pub fn canonical(&self) -> Cow<'_, str> {
        canonical(&self.0)
    }

    /// The target without its features: `gfx942` for `gfx942:xnack+`.
    #[must_use]
    pub fn base(&self) -> Self {
        Self(with_colons(&self.0).split(':').next().unwrap_or_default().into())
    }

    /// Whether code for this target runs with XNACK off, which is the normal mode of devices. Code
    /// for `gfx942:xnack+` does not, so it never counts as code for `gfx942`.
    pub fn runs_with_xnack_off(&self) -> bool {
        runs_with_xnack_off(&self.0)
    }
}

impl Family {
    /// The name, as CMake and the CI spell it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scope {
    /// The text that stands in the name of an artifact: `generic`, `gfx94X-dcgpu` or `gfx942`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Generic => "generic",
            Self::Family(family) => family.as_str(),
            Self::Target(target) => target.as_str(),
        }
    }

    /// The scope whose device package has the code: `gfx942` for `gfx942:xnack+`, `gfx1250` for
    /// `gfx1250-strict`.
    #[must_use]
    pub fn packaged(&self) -> Self {
        match self {
            Self::Target(target) => Self::Target(target.packaged()),
            other => other.clone(),
        }
    }
}

/// The names in a list of CI, separated by `;` or `,`. Spaces and empty names are ignored.
pub fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', ',']).map(str::trim).filter(|name| !name.is_empty())
}

impl FromStr for Target {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let colons = with_colons(text);
        let is_target = TargetId::parse(&colons).is_ok_and(|id| is_processor(id.processor));
        let invalid = || Invalid::new("not a GPU target such as `gfx942` or `gfx942:xnack+`", text);
        is_target.then(|| Self(text.into())).ok_or_else(invalid)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        canonical(&self.0) == canonical(&other.0)
    }
}

impl Eq for Target {}

impl Ord for Target {
    fn cmp(&self, other: &Self) -> Ordering {
        canonical(&self.0).cmp(&canonical(&other.0))
    }
}

impl PartialOrd for Target {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        canonical(&self.0).hash(state);
    }
}

impl FromStr for Family {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let reason = if text.is_empty() {
            "an empty family"
        } else if text == "generic" || is_processor(text) {
            "not a name for a family"
        } else if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            "a family with other characters than letters, digits and `-`"
        } else if !edge(text.chars().next()) || !edge(text.chars().next_back()) {
            "a family that begins or ends with `-`"
        } else {
            return Ok(Self(text.into()));
        };
        Err(Invalid::new(reason, text))
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "generic" => Self::Generic,
            _ if with_colons(text).contains(':') => Self::Target(text.parse()?),
            _ if is_processor(text) => Self::Target(Target(text.into())),
            _ => Self::Family(text.parse()?),
        })
    }
}

/// Whether a text is `gfx`, digits, optional lower-case letters, and an optional `-strict`. The
/// name of a family has an upper-case letter or another `-`.
fn is_processor(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("gfx") else {
        return false;
    };
    let number = rest.strip_suffix("-strict").unwrap_or(rest);
    let letters = number.trim_start_matches(|c: char| c.is_ascii_digit());
    letters.len() < number.len() && letters.chars().all(|c| c.is_ascii_lowercase())
}

impl Ord for Scope {
    fn cmp(&self, other: &Self) -> Ordering {
        canonical(self.as_str()).cmp(&canonical(other.as_str()))
    }
}

impl PartialOrd for Scope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    #[test]
    fn a_text_is_generic_a_target_or_a_family() {
        assert_eq!(scope("generic"), Scope::Generic);
        for text in [
            "gfx942",
            "gfx90a",
            "gfx90c",
            "gfx942:xnack+",
            "gfx942:xnack-",
            "gfx90a:sramecc+:xnack-",
            "gfx1250-strict",
            "gfx11",
        ] {
            assert!(matches!(scope(text), Scope::Target(_)), "{text}");
            assert_eq!(scope(text).to_string(), text);
        }
        for text in
            ["gfx94X-dcgpu", "gfx950-all", "dgpu-all", "gfx9-4-generic", "GFX942", "gfx", "gfxabc"]
        {
            assert!(matches!(scope(text), Scope::Family(_)), "{text}");
            assert_eq!(scope(text).to_string(), text);
        }
    }

    #[test]
    fn a_text_that_could_not_name_a_wheel_is_refused_in_words() {
        let refused = [
            "",
            ":xnack+",
            "gfx942:",
            "gfx942:xnack",
            "gfx942:+",
            "gfx942:XNACK+",
            "gfx94X-dcgpu:xnack+",
            "gfx942/../x",
            "-all",
            "all-",
            "a.b",
            "gfx942\n",
            "é",
        ];
        let messages: Vec<String> =
            refused.iter().map(|text| text.parse::<Scope>().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty family: ""
        not a GPU target such as `gfx942` or `gfx942:xnack+`: ":xnack+"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx942:"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx942:xnack"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx942:+"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx942:XNACK+"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx94X-dcgpu:xnack+"
        a family with other characters than letters, digits and `-`: "gfx942/../x"
        a family that begins or ends with `-`: "-all"
        a family that begins or ends with `-`: "all-"
        a family with other characters than letters, digits and `-`: "a.b"
        a family with other characters than letters, digits and `-`: "gfx942\n"
        a family with other characters than letters, digits and `-`: "é"
        "#);
        insta::assert_snapshot!("gfx94X".parse::<Target>().unwrap_err(), @r#"not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx94X""#);
        insta::assert_snapshot!("gfx942".parse::<Family>().unwrap_err(), @r#"not a name for a family: "gfx942""#);
        insta::assert_snapshot!("generic".parse::<Family>().unwrap_err(), @r#"not a name for a family: "generic""#);
    }

    #[test]
    fn a_scope_is_packaged_without_features() {
        assert_eq!(scope("gfx942:xnack+").packaged(), scope("gfx942"));
        assert_eq!(scope("gfx90a:sramecc+:xnack-").packaged(), scope("gfx90a"));
        // The text stays, because it is also the name of an archive.
        let dashed = scope("gfx942-xnack+");
        assert_eq!(dashed.to_string(), "gfx942-xnack+");
        assert_eq!(dashed, scope("gfx942:xnack+"));
        assert_eq!(dashed.cmp(&scope("gfx942:xnack+")), Ordering::Equal);
        let both = HashSet::from([dashed, scope("gfx942:xnack+"), scope("gfx942")]);
        assert_eq!(both.len(), 2);
        assert_eq!(scope("gfx90a-sramecc+-xnack-").packaged(), scope("gfx90a"));
        assert!(!runs_with_xnack_off("gfx942-xnack+"));
        assert_eq!(scope("gfx90a:xnack-:sramecc+"), scope("gfx90a-sramecc+-xnack-"));
        assert_eq!(scope("gfx1250-strict:xnack+").packaged(), scope("gfx1250"));
        assert_eq!(scope("gfx94X-dcgpu").packaged(), scope("gfx94X-dcgpu"));
        assert_eq!(Scope::Generic.packaged(), Scope::Generic);
    }

    #[test]
    fn scopes_sort_by_code_points() {
        let mut scopes = [
            "gfx950",
            "gfx942:xnack+",
            "gfx94X-dcgpu",
            "gfx942",
            "generic",
            "gfx1201",
            "gfx110X-all",
            "gfx1100",
        ]
        .map(scope);
        scopes.sort();
        assert_eq!(
            scopes.map(|scope| scope.to_string()),
            [
                "generic",
                "gfx1100",
                "gfx110X-all",
                "gfx1201",
                "gfx942",
                "gfx942:xnack+",
                "gfx94X-dcgpu",
                "gfx950",
            ]
        );
    }

    #[test]
    fn a_list_has_commas_or_semicolons_and_no_blanks() {
        let names: Vec<&str> = split_list(" gfx942 ;gfx950,, ;dgpu-all\n").collect();
        assert_eq!(names, ["gfx942", "gfx950", "dgpu-all"]);
        assert_eq!(split_list(" ; , ").count(), 0);
    }
}
