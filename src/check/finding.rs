//! `Finding`: one thing that is wrong, where, and by which rule.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct as _};

use crate::check::rule::{RULES, Rule};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: &'static Rule,
    /// The package; `None` for what is wrong with the set.
    pub file: Option<String>,
    /// A path in the package.
    pub member: Option<String>,
    /// What was seen, as a fragment.
    pub fact: String,
    /// Whether a package is missing or unreadable, so that what needs it looks broken too.
    pub(super) is_cause: bool,
}

/// The findings of rules, as they come.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

/// Where something is wrong: in the set as a whole, in a package, or at a path in one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FindingPlace<'a> {
    file: Option<&'a str>,
    member: Option<&'a str>,
}

impl Findings {
    /// `place` is `()` for the set, the file name of a package, or that with a path in it.
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

    /// Something that other findings may only follow from.
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
    /// About the set as a whole.
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

    /// By package and path, then by rule: the order in which findings are shown.
    pub fn order(&self) -> (Option<&str>, Option<&str>, &str, &str) {
        let (file, member) = (self.file.as_deref(), self.member.as_deref());
        (file, member, self.rule.id, &self.fact)
    }
}

/// Names come from packages, and may hold anything: a line break could pass for a line of ours, and
/// marks for writing from right to left could show another name.
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

/// Without the file: findings are listed below it.
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
