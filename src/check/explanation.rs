//! The section of `docs/checks.md` about each rule, for reports that contain their own help.

use crate::check::rule::Rule;

const PAGE: &str = include_str!("../../docs/checks.md");

impl Rule {
    /// The section about the rule, without its heading.
    pub fn explanation(&self) -> &'static str {
        let heading = format!("\n### {self} ({})\n", self.severity);
        let section = PAGE.split_once(&heading).map_or("", |(_, rest)| rest);
        let end = section.find("\n#").unwrap_or(section.len());
        section.get(..end).unwrap_or_default().trim()
    }
}

#[cfg(test)]
mod tests {
    use crate::check::rule::{self, RULES};

    #[test]
    fn a_rule_is_explained_by_its_own_section() {
        insta::assert_snapshot!(rule::MISSING_SELECTOR.explanation(), @"
        The set has no `rocm` sdist, so its extras cannot be installed.

        For example: only some of the packages were copied.

        Fix: add the `rocm` sdist to the set.
        ");
        for rule in RULES {
            assert!(rule.explanation().contains("\n\nFix: "), "{rule}");
        }
    }
}
