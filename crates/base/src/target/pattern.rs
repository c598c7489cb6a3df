//! `TargetPattern`: what a user writes for GPU targets.

use std::str::FromStr;

use super::{TargetTable, split_list};
use crate::error::{Error, Invalid, anyhow};

/// Names that stand for GPU targets, separated by `,` or `;`: `gfx94X-dcgpu,gfx1100`. A name is a target, a
/// family, a sub-family (`gfx12-0`), a generation (`gfx11`), a generic target (`gfx11-generic`) or `all`, in
/// upper or lower case. [`TargetTable::select`] says which targets they stand for.
///
/// Every flag for GPUs has this type. Parsing checks the characters only, because a newer ROCm has names that
/// the table of this program lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetPattern(Vec<Box<str>>);

impl TargetPattern {
    /// The names, as the user wrote them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Each name as a pattern of its own.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        self.0.iter().map(|name| Self(vec![name.clone()]))
    }

    /// Whether it has no names, as `","` has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses names that the table must know: as the parser of a flag, it refuses a mistyped name before any
    /// work, and the error names the flag.
    pub fn known(text: &str) -> Result<Self, Error> {
        let pattern: Self = text.parse()?;
        let selected = TargetTable::builtin().select(std::slice::from_ref(&pattern));
        // The error of a flag has no place for a hint.
        selected.map_err(|unknown| anyhow!("{unknown}; {}", unknown.hint))?;
        Ok(pattern)
    }
}

impl FromIterator<TargetPattern> for TargetPattern {
    /// All names, because a flag may be given several times.
    fn from_iter<I: IntoIterator<Item = Self>>(patterns: I) -> Self {
        Self(patterns.into_iter().flat_map(|pattern| pattern.0).collect())
    }
}

impl FromStr for TargetPattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_name = |name: &str| {
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '+'))
        };
        match split_list(text).find(|name| !is_name(name)) {
            Some(name) => Err(Invalid::new("not the name of a GPU target or family", name)),
            None => Ok(Self(split_list(text).map(Box::from).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(text: &str) -> Vec<String> {
        let patterns = [text.parse().unwrap()];
        let targets = TargetTable::builtin().select(&patterns).unwrap();
        targets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_stands_for_targets() {
        assert_eq!(
            selected("gfx110x-dgpu; gfx942:xnack+,"),
            ["gfx1100", "gfx1101", "gfx1102", "gfx942:xnack+"]
        );
        assert_eq!(" ,".parse::<TargetPattern>().unwrap(), TargetPattern::default());
        assert!(selected("").is_empty());
    }

    #[test]
    fn names_are_refused_by_their_characters_or_by_the_table() {
        insta::assert_snapshot!("gfx942,gfx 950".parse::<TargetPattern>().unwrap_err(), @r#"not the name of a GPU target or family: "gfx 950""#);
        let refused = TargetPattern::known("gfx942,gfx94X-dcgp,gfx9999");
        insta::assert_snapshot!(refused.unwrap_err(), @"unknown GPU targets or families: `gfx94X-dcgp`, `gfx9999`; did you mean `gfx94X-dcgpu`? `rocwheel targets all --emit table` lists targets and families");
        assert!("gfx9999".parse::<TargetPattern>().is_ok());
    }
}
