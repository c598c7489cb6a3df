//! Writes and reads Python string literals, and calls whose arguments are literals. `_dist_info.py`
//! has its tables in this form.

use std::fmt::Write as _;

/// The Python string literal for a value, nearly as `repr` writes it.
///
/// `repr` keeps all non-ASCII characters that the Unicode version of Python calls printable. Here
/// only letters and digits are kept, and all others are escaped. The value is the same.
pub(super) fn literal(value: &str) -> String {
    let quote = if value.contains('\'') && !value.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in value.chars() {
        let _ = match (c, u32::from(c)) {
            ('\n', _) => write!(out, "\\n"),
            ('\r', _) => write!(out, "\\r"),
            ('\t', _) => write!(out, "\\t"),
            (c, _) if c == quote || c == '\\' => write!(out, "\\{c}"),
            (' '..='~', _) => write!(out, "{c}"),
            (c, _) if !c.is_ascii() && c.is_alphanumeric() => write!(out, "{c}"),
            (_, code @ 0..=0xff) => write!(out, "\\x{code:02x}"),
            (_, code @ 0x100..=0xffff) => write!(out, "\\u{code:04x}"),
            (_, code) => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
    out
}

/// A call on one line: `Name('a', 'b', key='c', flag=True)`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) function: &'a str,
    pub(super) arguments: Vec<String>,
    named: Vec<(&'a str, String)>,
    /// The named arguments that are `True`.
    flags: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// Parses a line; `None` if it is not such a call.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (function, mut rest) = line.strip_suffix(')')?.split_once('(')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut call = Self {
            function,
            ..Self::default()
        };
        if function.is_empty() || !function.chars().all(is_name) {
            return None;
        }
        while !rest.is_empty() {
            let name = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(name);
            rest = match after.strip_prefix('=') {
                Some(value) if value.starts_with(['T', 'F']) => {
                    call.flags.extend(value.starts_with("True").then_some(name));
                    let left = value.strip_prefix("True");
                    left.or_else(|| value.strip_prefix("False"))?
                }
                Some(value) => {
                    let (value, left) = read_text(value)?;
                    call.named.push((name, value));
                    left
                }
                None => {
                    let (value, left) = read_text(rest)?;
                    call.arguments.push(value);
                    left
                }
            };
            rest = match rest.strip_prefix(", ") {
                Some(more) => more,
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        Some(call)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let found = self.named.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| text.as_str())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.flags.contains(&name)
    }
}

/// Reads the literal at the start of a text. Returns its value, and the rest of the text.
fn read_text(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| "'\"".contains(*c))?;
    let mut chars = text[1..].chars();
    let mut out = String::new();
    loop {
        out.push(match chars.next()? {
            c if c == quote => return Some((out, chars.as_str())),
            '\n' | '\r' => return None,
            '\\' => {
                let digits = match chars.next()? {
                    'n' => Err('\n'),
                    'r' => Err('\r'),
                    't' => Err('\t'),
                    'x' => Ok(2),
                    'u' => Ok(4),
                    'U' => Ok(8),
                    c => Err(c),
                };
                match digits {
                    Err(c) => c,
                    Ok(digits) => {
                        let hex: String = chars.by_ref().take(digits).collect();
                        char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?
                    }
                }
            }
            c => c,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_are_what_python_writes() {
        let cases = [
            ("10.1.0", "'10.1.0'"),
            ("it's", "\"it's\""),
            ("'\"", r#"'\'"'"#),
            ("a\\b\n\r\t\0\x7f", r"'a\\b\n\r\t\x00\x7f'"),
            ("é日\u{a0}\u{2028}\u{202e}", r"'é日\xa0\u2028\u202e'"),
            ("\u{1f600}", r"'\U0001f600'"),
            ("'); import os #", "\"'); import os #\""),
        ];
        for (value, expected) in cases {
            assert_eq!(literal(value), expected);
        }
    }

    #[test]
    fn a_call_is_read_back_and_anything_else_is_none() {
        let call = Call::parse("Entry('a, b', \"it's\", path='lib', optional=True)").unwrap();
        assert_eq!(call.function, "Entry");
        assert_eq!(call.arguments, ["a, b", "it's"]);
        assert_eq!(call.text("path"), Some("lib"));
        assert!(call.is_set("optional") && !call.is_set("path"));
        for line in [
            "",
            "x = 1",
            "a.b('c')",
            "f('a'",
            "f('a' 'b')",
            "f(a)",
            "f('a',)",
            "f('\\q)",
        ] {
            assert_eq!(Call::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_can_leave_its_literal(text in any::<String>()) {
            let line = format!("f({})", literal(&text));
            prop_assert_eq!(line.lines().count(), 1);
            prop_assert_eq!(Call::parse(&line).unwrap().arguments, [text]);
        }
    }
}
