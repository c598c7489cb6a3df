//! [`Finding`]: one defect: the rule, the place, and what was seen there.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct as _};

use crate::check::rule::{RULES, Rule};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static Rule,
    /// The package. `None` for a defect of the whole set.
    pub file: Option<String>,
    /// A path in the package.
    pub member: Option<String>,
    /// What was seen, as a fragment of a sentence.
    pub fact: String,
    /// Whether it says that a package is missing or unreadable. Other findings may only follow from
    /// that, see `consequences`.
    pub(super) is_cause: bool,
}

/// Collects findings in the order in which the rules report them.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

/// The place of a finding: the whole set, a package, or a path in a package.
#[derive(Clone, Copy, Debug)]
pub(super) struct FindingPlace<'a> {
    file: Option<&'a str>,
    member: Option<&'a str>,
}

impl Findings {
    /// Adds a finding. `place` is `()` for the set, a file name for a package, or a pair of a file
    /// name and a path in the package.
    pub(super) fn add<'a>(
        &mut self,
        rule: &'static Rule,
        place: impl Into<FindingPlace<'a>>,
        fact: impl Into<String>,
    ) {
        let (FindingPlace { file, member }, finding) = (place.into(), Finding::new(rule, fact));
        self.0.push(Finding {
            file: file.map(|file| one_line(file.to_owned())),
            member: member.map(|member| one_line(member.to_owned())),
            ..finding
        });
    }

    /// Adds a finding that may be the cause of others.
    pub(super) fn add_cause<'a>(
        &mut self,
        rule: &'static Rule,
        place: impl Into<FindingPlace<'a>>,
        fact: impl Into<String>,
    ) {
        self.add(rule, place, fact);
        if let Some(last) = self.0.last_mut() {
            last.is_cause = true;
        }
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

impl From<()> for FindingPlace<'_> {
    fn from((): ()) -> Self {
        Self {
            file: None,
            member: None,
        }
    }
}

impl<'a, F: AsRef<str> + ?Sized> From<&'a F> for FindingPlace<'a> {
    fn from(file: &'a F) -> Self {
        Self {
            file: Some(file.as_ref()),
            member: None,
        }
    }
}

impl<'a, F: AsRef<str> + ?Sized, M: AsRef<str> + ?Sized> From<(&'a F, &'a M)> for FindingPlace<'a> {
    fn from((file, member): (&'a F, &'a M)) -> Self {
        Self {
            file: Some(file.as_ref()),
            member: Some(member.as_ref()),
        }
    }
}

impl Finding {
    /// A finding about the whole set.
    pub fn new(rule: &'static Rule, fact: impl Into<String>) -> Self {
        Self {
            rule,
            file: None,
            member: None,
            fact: one_line(fact.into()),
            is_cause: false,
        }
    }

    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(one_line(file.into()));
        self
    }

    #[must_use]
    pub fn at(mut self, member: impl Into<String>) -> Self {
        self.member = Some(one_line(member.into()));
        self
    }

    /// The key by which findings are sorted: package, path, rule, fact.
    pub fn order(&self) -> (Option<&str>, Option<&str>, &str, &str) {
        let (file, member) = (self.file.as_deref(), self.member.as_deref());
        (file, member, self.rule.id, &self.fact)
    }
}

/// Replaces control characters. Names come from packages and may contain anything: a line break
/// could fake a line of our output, and bidirectional control characters could display another
/// name.
pub(super) fn one_line(text: String) -> String {
    if text.contains(is_hidden) {
        text.replace(is_hidden, "\u{fffd}")
    } else {
        text
    }
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Shows the finding without the file name, because findings are listed below it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7} {}: ", self.rule.severity, self.rule)?;
        if let Some(member) = &self.member {
            write!(f, "`{member}`: ")?;
        }
        f.write_str(&self.fact)
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Finding", 7)?;
        out.serialize_field("id", self.rule.id)?;
        out.serialize_field("name", self.rule.name)?;
        out.serialize_field("severity", &self.rule.severity)?;
        out.serialize_field("file", &self.file)?;
        out.serialize_field("member", &self.member)?;
        out.serialize_field("fact", &self.fact)?;
        out.serialize_field("way-out", self.rule.way_out)?;
        out.end()
    }
}

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct WrittenFinding {
            id: String,
            file: Option<String>,
            member: Option<String>,
            fact: String,
        }
        let written = WrittenFinding::deserialize(deserializer)?;
        let mut rules = RULES.iter();
        let rule = rules.find(|rule| rule.id == written.id);
        let rule = rule.ok_or_else(|| {
            let id = written.id;
            de::Error::custom(format!("a rule that this version does not have: {id:?}"))
        })?;
        let mut finding = Self::new(rule, written.fact);
        finding.file = written.file.map(one_line);
        finding.member = written.member.map(one_line);
        Ok(finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::rule::BAD_PATH;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let finding = Finding::new(BAD_PATH, "a\nb\u{202e}c").at("d\u{1b}[31m\u{200b}\u{feff}e");
        insta::assert_snapshot!(finding, @"error   RW105 bad-path: `d�[31m��e`: a�b�c");
    }
}
