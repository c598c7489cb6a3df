//! [`Finding`]: one defect: the rule, the place, and what was seen there.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};

use crate::check::rule::Rule;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenFinding")]
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

impl Findings {
    /// Adds a finding about the whole set.
    pub(super) fn of_set(&mut self, rule: &'static Rule, fact: impl Into<String>) {
        self.0.push(Finding::new(rule, fact));
    }

    /// Adds a finding about a package.
    pub(super) fn of(&mut self, rule: &'static Rule, file: &str, fact: impl Into<String>) {
        self.0.push(Finding::new(rule, fact).in_file(file));
    }

    /// Adds a finding about a package that may be the cause of others.
    pub(super) fn cause(&mut self, rule: &'static Rule, file: &str, fact: impl Into<String>) {
        self.0.push(Finding {
            is_cause: true,
            ..Finding::new(rule, fact).in_file(file)
        });
    }

    /// Adds a finding about a package and a path in it.
    pub(super) fn at(
        &mut self,
        rule: &'static Rule,
        (file, member): (&str, &str),
        fact: impl Into<String>,
    ) {
        self.0
            .push(Finding::new(rule, fact).in_file(file).at(member));
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

impl Finding {
    /// A finding about the whole set.
    pub fn new(rule: &'static Rule, fact: impl Into<String>) -> Self {
        Self {
            rule,
            file: None,
            member: None,
            fact: one_line(&fact.into()),
            is_cause: false,
        }
    }

    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<str>) -> Self {
        self.file = Some(one_line(file.as_ref()));
        self
    }

    #[must_use]
    pub fn at(mut self, member: impl AsRef<str>) -> Self {
        self.member = Some(one_line(member.as_ref()));
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
pub(super) fn one_line(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.replace(is_hidden, "\u{fffd}")
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
        out.serialize_field("way-out", self.rule.way_out())?;
        out.end()
    }
}

/// A finding in a document, whose texts may contain anything.
#[derive(Deserialize)]
struct WrittenFinding {
    #[serde(rename = "id")]
    rule: &'static Rule,
    file: Option<String>,
    member: Option<String>,
    fact: String,
}

impl From<WrittenFinding> for Finding {
    fn from(written: WrittenFinding) -> Self {
        Self {
            file: written.file.as_deref().map(one_line),
            member: written.member.as_deref().map(one_line),
            ..Self::new(written.rule, written.fact)
        }
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
