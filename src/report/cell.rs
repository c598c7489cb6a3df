//! Escapes text from outside, such as names of files, for Markdown and the HTML that GitHub allows.

use std::fmt::Write as _;

use crate::set::Urls;

/// Longer texts are cut.
const LONGEST_TEXT: usize = 300;
/// Bytes reserved for the end of a section.
pub(super) const RESERVE: usize = 400;

/// Appends rows up to a limit. Returns how many were left out.
pub(super) fn rows(
    text: &mut String,
    mut rows: impl Iterator<Item = String>,
    limit: usize,
) -> usize {
    while let Some(row) = rows.next() {
        if text.len() + row.len() + RESERVE > limit {
            return rows.count() + 1;
        }
        text.push_str(&row);
    }
    0
}

/// Escapes a text, so that it cannot end its table cell, its HTML element or its line.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(LONGEST_TEXT) {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '+' | ' ' | ',' => out.push(c),
            c if c.is_ascii_punctuation() => _ = write!(out, "&#{};", u32::from(c)),
            c if c.is_alphanumeric() => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    if text.chars().nth(LONGEST_TEXT).is_some() {
        out.push('…');
    }
    out
}

/// Escapes a text and shows it as code.
pub(super) fn code(text: &str) -> String {
    format!("<code>{}</code>", plain(text))
}

/// Escapes a message. Texts between backticks are shown as code.
pub(super) fn message(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 && !part.is_empty() {
            out.push_str(&code(part));
        } else {
            out.push_str(&plain(part));
        }
    }
    out
}

/// A text that links to a path on the server; without the link if that is not a valid address.
pub(super) fn linked(text: &str, path: Option<String>, server: &str) -> String {
    let url = path.and_then(|path| format!("{server}/{path}").parse::<Urls>().ok());
    let url = url.map(|url| url.to_string());
    match url {
        Some(url) => format!("[{}]({})", code(text), url.trim_end_matches('/')),
        None => code(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_stays_in_its_cell() {
        let hostile = "a|b`c</code>\n| x |\n```<script>[x](y)&amp;*_\u{202e}é.whl";
        insta::assert_snapshot!(code(hostile), @"<code>a&#124;b&#96;c&#60;&#47;code&#62;�&#124; x &#124;�&#96;&#96;&#96;&#60;script&#62;&#91;x&#93;&#40;y&#41;&#38;amp&#59;&#42;&#95;�é.whl</code>");
    }

    #[test]
    fn what_a_message_marks_as_code_is_code() {
        insta::assert_snapshot!(message("`a|b` and ``, `<x>"), @"<code>a&#124;b</code> and , <code>&#60;x&#62;</code>");
        assert_eq!(plain(&"x".repeat(301)).len(), 300 + "…".len());
    }
}
