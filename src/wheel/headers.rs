//! Headers of METADATA and WHEEL: `Name: value` lines, an empty line and a text. The syntax is that
//! of email ([core
//! metadata](https://packaging.python.org/en/latest/specifications/core-metadata/)).

use std::{fmt, str::FromStr};

/// A value that fits on one line: not empty, no control characters, no space around it.
///
/// Because it cannot contain a line break, a value can never add a header of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderLine(Box<str>);

/// Error of parsing a [`HeaderLine`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidLine {
    text: String,
    reason: &'static str,
}

/// Error of parsing headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no `Name: value`: {text:?}")]
pub struct InvalidHeader {
    line: usize,
    text: String,
}

impl HeaderLine {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderLine {
    type Err = InvalidLine;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Python's `splitlines` breaks lines at U+2028 and U+2029 too.
        let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let reason = if text.is_empty() {
            "an empty value"
        } else if text.contains(breaks) {
            "a control character in a value"
        } else if text.trim() != text {
            "a space around a value"
        } else {
            return Ok(Self(text.into()));
        };
        Err(InvalidLine {
            text: text.to_owned(),
            reason,
        })
    }
}

impl fmt::Display for HeaderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One header. The lines of a folded value are joined by LF, each trimmed at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Header {
    /// The value on one line, with its folded lines joined by spaces; `None` if it is empty.
    pub(crate) fn line(&self) -> Result<Option<HeaderLine>, InvalidLine> {
        let words: Vec<&str> = self.value.split('\n').map(str::trim).collect();
        let text = words.join(" ");
        match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some),
        }
    }
}

/// Parses the headers. Also returns the text after the first empty line.
pub(crate) fn parse(text: &str) -> Result<(Vec<Header>, &str), InvalidHeader> {
    let mut headers: Vec<Header> = Vec::new();
    let mut rest = text;
    for number in 1.. {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let line = line.strip_suffix('\r').unwrap_or(line);
        rest = after;
        if line.is_empty() {
            break;
        }
        let invalid = || InvalidHeader {
            line: number,
            text: line.to_owned(),
        };
        if line.starts_with([' ', '\t']) {
            let folded = headers.last_mut().ok_or_else(invalid)?;
            folded.value.push('\n');
            folded.value.push_str(line.trim_end());
        } else {
            let (name, value) = line.split_once(':').ok_or_else(invalid)?;
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || name.is_empty() {
                return Err(invalid());
            }
            headers.push(Header {
                name: name.to_owned(),
                value: value.trim().to_owned(),
            });
        }
    }
    Ok((headers, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn folded_lines_belong_to_the_header_above_and_the_rest_is_the_body() {
        let (headers, body) = parse("A: 1\r\nB-c:2\n  x \n\ty\nC:\n\nA: body\n").unwrap();
        let lines: Vec<String> = headers
            .iter()
            .map(|header| {
                format!(
                    "{} = {:?}, {:?}",
                    header.name,
                    header.value,
                    header.line().unwrap()
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        A = "1", Some(HeaderLine("1"))
        B-c = "2\n  x\n\ty", Some(HeaderLine("2 x y"))
        C = "", None
        "#);
        assert_eq!(body, "A: body\n");
    }

    #[test]
    fn a_line_that_is_no_header_is_refused_in_words() {
        let messages = [
            " folded\n",
            "A: 1\nplain text\n",
            "A: 1\n: x",
            "A b: 1",
            "A: 1\nÄ: 1",
        ]
        .map(|text| parse(text).unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        line 1 is no `Name: value`: " folded"
        line 2 is no `Name: value`: "plain text"
        line 2 is no `Name: value`: ": x"
        line 1 is no `Name: value`: "A b: 1"
        line 2 is no `Name: value`: "Ä: 1"
        "#);
    }

    #[test]
    fn a_value_of_more_than_one_line_is_refused_in_words() {
        let messages = [
            "",
            "x\nRequires-Dist: evil",
            "x\r",
            "x\u{2028}y",
            "\x1b[31m",
            " x",
            "x\u{a0}",
        ]
        .map(|text| text.parse::<HeaderLine>().unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty value: ""
        a control character in a value: "x\nRequires-Dist: evil"
        a control character in a value: "x\r"
        a control character in a value: "x\u{2028}y"
        a control character in a value: "\u{1b}[31m"
        a space around a value: " x"
        a space around a value: "x\u{a0}"
        "#);
    }

    proptest! {
        #[test]
        fn every_line_reads_back_from_a_header(text in "\\PC{1,20}") {
            if let Ok(line) = text.parse::<HeaderLine>() {
                let text = format!("A: {line}\nB: x\n");
                let (headers, body) = parse(&text).unwrap();
                prop_assert_eq!(headers.len(), 2);
                prop_assert_eq!(headers[0].line(), Ok(Some(line)));
                prop_assert_eq!(body, "");
            }
        }

        #[test]
        fn any_text_has_headers_or_is_an_error(text in "(A: ?|[ \t\r\n:]|\\PC){0,20}") {
            let _ = parse(&text);
        }
    }
}
