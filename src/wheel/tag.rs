//! `Tag`: the compatibility tag of a wheel, `py3-none-linux_x86_64`
//! ([PEP 425](https://peps.python.org/pep-0425/)).

use std::{fmt, str::FromStr};

/// Interpreter, ABI and platform, `py3-none-linux_x86_64`. Each may be a set of several, separated
/// by `.`: `py2.py3-none-any`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    python: Box<str>,
    abi: Box<str>,
    platform: Box<str>,
}

/// Error of parsing a [`Tag`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidTag {
    text: String,
    reason: &'static str,
}

impl Tag {
    /// The platform part: `linux_x86_64` of `py3-none-linux_x86_64`.
    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// All simple tags of a compressed set: `py2.py3-none-any` gives `py2-none-any` and
    /// `py3-none-any`.
    pub fn expand(&self) -> Vec<Self> {
        let mut tags = Vec::new();
        for python in self.python.split('.') {
            for abi in self.abi.split('.') {
                for platform in self.platform.split('.') {
                    tags.push(Self {
                        python: python.into(),
                        abi: abi.into(),
                        platform: platform.into(),
                    });
                }
            }
        }
        tags
    }
}

impl FromStr for Tag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidTag {
            text: text.to_owned(),
            reason,
        };
        let parts: Vec<&str> = text.split('-').collect();
        let [python, abi, platform] = parts[..] else {
            return Err(invalid("a tag has three parts between hyphens"));
        };
        if parts
            .iter()
            .flat_map(|part| part.split('.'))
            .any(str::is_empty)
        {
            return Err(invalid("an empty part in a tag"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !text.chars().all(is_plain) {
            return Err(invalid("a tag has ASCII letters, digits, `_` and `.` only"));
        }
        Ok(Self {
            python: python.into(),
            abi: abi.into(),
            platform: platform.into(),
        })
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.python, self.abi, self.platform)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_tag_stands_for_every_combination() {
        let tag: Tag = "py2.py3-none-linux_x86_64.win_amd64".parse().unwrap();
        let singles: Vec<String> = tag.expand().iter().map(Tag::to_string).collect();
        insta::assert_snapshot!(singles.join("\n"), @"
        py2-none-linux_x86_64
        py2-none-win_amd64
        py3-none-linux_x86_64
        py3-none-win_amd64
        ");
        assert_eq!(tag.to_string(), "py2.py3-none-linux_x86_64.win_amd64");
    }

    #[test]
    fn a_text_that_is_no_tag_is_refused_in_words() {
        let refused = [
            "",
            "py3-none",
            "py3-none-a-b",
            "py3--any",
            "py3-none-a..b",
            "py3-none-a b",
            "py3-none-é",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<Tag>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        a tag has three parts between hyphens: ""
        a tag has three parts between hyphens: "py3-none"
        a tag has three parts between hyphens: "py3-none-a-b"
        an empty part in a tag: "py3--any"
        an empty part in a tag: "py3-none-a..b"
        a tag has ASCII letters, digits, `_` and `.` only: "py3-none-a b"
        a tag has ASCII letters, digits, `_` and `.` only: "py3-none-é"
        "#);
    }
}
