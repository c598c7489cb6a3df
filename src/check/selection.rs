//! [`RuleSelection`]: which rules are checked (`--select`, `--ignore`).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use crate::check::rule::{RULES, Rule};

/// Matches rules by id, beginning of the id, or name: `RW202`, `RW2`, `missing-device-wheel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePattern(String);

/// The text matches no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule is called that: {0:?}")]
pub struct UnknownRule(String);

/// The selected rules (all if `select` is empty) without the ignored ones.
#[derive(Clone, Debug, Default)]
pub struct RuleSelection {
    /// If not empty, only these rules are checked.
    pub select: Vec<RulePattern>,
    pub ignore: Vec<RulePattern>,
}

impl RuleSelection {
    pub fn has(&self, rule: &Rule) -> bool {
        let named = |patterns: &[RulePattern]| patterns.iter().any(|pattern| pattern.fits(rule));
        (self.select.is_empty() || named(&self.select)) && !named(&self.ignore)
    }
}

impl RulePattern {
    /// The rules that it matches.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        RULES.iter().copied().filter(|rule| self.fits(rule))
    }

    pub fn fits(&self, rule: &Rule) -> bool {
        rule.id.starts_with(&self.0) || rule.name == self.0
    }
}

impl fmt::Display for RulePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RulePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl FromStr for RulePattern {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pattern = Self(text.to_owned());
        // `R` and the empty text would match every id. They are mistakes.
        let is_known = text.len() > 2 && RULES.iter().any(|rule| pattern.fits(rule));
        is_known
            .then_some(pattern)
            .ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::rule;

    fn selection(select: &[&str], ignore: &[&str]) -> RuleSelection {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        RuleSelection {
            select: parse(select),
            ignore: parse(ignore),
        }
    }

    #[test]
    fn rules_are_chosen_by_id_by_subject_and_by_name() {
        assert!(selection(&[], &[]).has(rule::RUNPATH));
        assert!(selection(&["RW4"], &[]).has(rule::RUNPATH));
        assert!(!selection(&["RW2"], &[]).has(rule::RUNPATH));
        assert!(!selection(&["RW4"], &["runpath"]).has(rule::RUNPATH));
        assert!(!selection(&[], &["RW403"]).has(rule::RUNPATH));
    }

    #[test]
    fn a_name_of_no_rule_is_refused_in_words() {
        for text in ["", "R", "RW", "RW999", "rw101", "runpat"] {
            assert!(text.parse::<RulePattern>().is_err(), "{text}");
        }
        let error = "RW999".parse::<RulePattern>().unwrap_err();
        insta::assert_snapshot!(error, @r#"no rule is called that: "RW999""#);
    }
}
