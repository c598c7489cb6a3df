//! Workflow [commands] of GitHub Actions, and escaping that keeps other text from being one.
//!
//! [commands]: https://docs.github.com/actions/reference/workflow-commands-for-github-actions

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use rocwheel_base::quantity::is_hidden;

/// The severity of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum AnnotationLevel {
    Error,
    Warning,
}

/// A message that GitHub shows on the summary page of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    pub level: AnnotationLevel,
    pub title: String,
    pub message: String,
}

impl Annotation {
    /// Creates an annotation that does not belong to a file or a line.
    pub fn new(
        level: AnnotationLevel,
        title: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { level, title: title.into(), message: message.into() }
    }

    /// The workflow command, without a line feed.
    pub fn command(&self) -> String {
        let level = self.level;
        let message = data(&self.message);
        if self.title.is_empty() {
            format!("::{level}::{message}")
        } else {
            format!("::{level} title={}::{message}", property(&self.title))
        }
    }
}

impl fmt::Display for Annotation {
    /// `title: message`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            write!(f, "{}: ", self.title)?;
        }
        f.write_str(&self.message)
    }
}

/// Escapes the message of a command. The runner prints it to the log, so it must not contain a
/// command itself.
pub(super) fn data(text: &str) -> String {
    escape(&defang(&visible(text)))
}

/// Escapes a property, which stands between `::command` and `::`.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The escapes that the runner decodes.
fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Inserts a backslash into every line that the runner would execute.
///
/// The runner executes `::command` at the start of a line, after any white space, and the older
/// form `##[command]` anywhere in a line. A carriage return also ends a line.
pub(super) fn defang(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##[") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive(['\n', '\r']) {
        // Skips more than white space: also characters that a runner might drop, such as a byte
        // order mark.
        let start = line.find(|c: char| c.is_ascii_graphic()).unwrap_or(line.len());
        let (margin, rest) = line.split_at(start);
        out.push_str(margin);
        if rest.starts_with("::") {
            out.push('\\');
        }
        out.push_str(&rest.replace("##[", r"##\["));
    }
    Cow::Owned(out)
}

/// Escapes control characters, so that untrusted text cannot move the cursor, go back to the start of a line or
/// hide the text before it. Line feeds and tabs stay.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    let stays = |c: char| c == '\n' || c == '\t' || !is_hidden(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.replace("\r\n", "\n").chars() {
        if stays(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    Cow::Owned(out)
}

/// Like [`visible`], for text that belongs on one line: line feeds are escaped too.
pub fn one_line(text: &str) -> String {
    visible(text).trim_end().replace('\n', r"\n")
}

/// The same JSON document, with escapes for everything in its strings that a terminal or the runner
/// would execute.
pub(super) fn harmless_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.replace("##[", r"#\u0023[").chars() {
        if is_hidden(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether the runner would execute a line of the output. Follows the source of the runner.
    fn obeyed(output: &str) -> bool {
        output.split(['\n', '\r']).any(|line| {
            line.trim_start().starts_with("::")
                || line.split_once("##[").is_some_and(|(_, rest)| rest.contains(']'))
        })
    }

    #[test]
    fn a_command_escapes_what_would_end_it() {
        let annotation = Annotation::new(
            AnnotationLevel::Warning,
            "50%: a, b",
            "100 %\r\n::error::no: it, is fine",
        );
        insta::assert_snapshot!(
            annotation.command(),
            @r"::warning title=50%25%3A a%2C b::100 %25%0A\::error::no: it, is fine"
        );
    }

    #[test]
    fn a_command_without_properties_has_no_space() {
        let annotation = Annotation::new(AnnotationLevel::Warning, "", "done");
        assert_eq!(annotation.command(), "::warning::done");
    }

    #[test]
    fn text_from_outside_is_not_a_command() {
        let hostile = "\
            ::error::gone\n\
            \u{20} \t::set-output name=x::y\r::add-mask::a\n\
            \u{feff}::group::b\n\
            name ##[error]c\n\
            ####[add-path]d\n\
            std::fs at 12::30\n";
        insta::assert_snapshot!(defang(hostile).replace('\r', "<CR>"), @r"
        \::error::gone
          	\::set-output name=x::y<CR>\::add-mask::a
        ﻿\::group::b
        name ##\[error]c
        ####\[add-path]d
        std::fs at 12::30
        ");
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(
            visible("a\u{1b}[2Kb\r\u{7}c\td\r\n\u{202e}\u{200e}\u{2066}e\u{9b}é"),
            r"a\u{1b}[2Kb\r\u{7}c".to_owned() + "\td\n" + r"\u{202e}\u{200e}\u{2066}e\u{9b}é"
        );
    }

    proptest! {
        #[test]
        fn harmless_json_is_the_same_json(text in r"(?s).*|(##\[|\u{9b}|\u{202e}|\\)*") {
            let json = harmless_json(&serde_json::to_string(&text).unwrap());
            prop_assert!(!json.contains("##[") && !json.contains(is_hidden));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        #[test]
        fn nothing_defanged_is_obeyed(text in r"([ \t\r\n:#\[\]ea\u{feff}\u{85}\u{a0}]|::error::|##\[)*") {
            prop_assert!(!obeyed(&defang(&text)), "{:?}", defang(&text));
        }

        #[test]
        fn a_command_is_one_line_whose_data_comes_back(title in ".*", message in r"(?s).*") {
            let command = Annotation::new(AnnotationLevel::Error, title, message.clone()).command();
            prop_assert!(!command.contains(['\r', '\n']));
            let (_, data) = command[2..].split_once("::").unwrap();
            let data = data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%");
            let harmless = visible(&message);
            prop_assert_eq!(data, defang(&harmless));
        }

        #[test]
        fn the_runner_undoes_what_is_escaped(text in r"(?s).*|(%|0A|25|\r|\n)*") {
            let escaped = escape(&text);
            let back = escaped.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%");
            prop_assert!(!escaped.contains(['\r', '\n']));
            prop_assert_eq!(back, text);
        }
    }
}
