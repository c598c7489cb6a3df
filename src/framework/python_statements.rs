//! [`Statements`]: the statements of a Python source, each with its tokens. What it does not understand is an
//! error: it never guesses where a string or a statement ends.

use rocwheel_base::error::{Error, Result, anyhow, bail, ensure};

/// Python's own limit of open brackets: `MAXLEVEL` of
/// <https://github.com/python/cpython/blob/main/Parser/lexer/state.h>.
const MOST_BRACKETS: usize = 200;
const STRING_PREFIXES: [&str; 12] =
    ["", "r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"];

/// A simple statement, or the header of a compound statement with what follows on its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// The spaces and tabs before its line.
    pub indent: &'a str,
    /// Whether it follows a `;`.
    pub is_continued: bool,
    /// Without comments and line breaks.
    pub tokens: Vec<&'a str>,
    /// Where its last line ends. `None` if a `;` and another statement follow it on that line.
    pub end: Option<usize>,
}

/// Reads a source from its beginning. After an error, nothing more.
#[derive(Debug)]
pub(super) struct Statements<'a> {
    source: &'a str,
    at: usize,
    indent: &'a str,
    is_continued: bool,
    has_failed: bool,
}

impl<'a> Statements<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        let at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { source, at, indent: "", is_continued: false, has_failed: false }
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn error(&self, why: &str) -> Error {
        let line = self.source[..self.at].matches('\n').count() + 1;
        anyhow!("line {line}: {why}")
    }

    /// Takes the characters that are wanted.
    fn take_while(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_wanted(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Takes a line break. Python accepts the line break of every system.
    fn take_newline(&mut self) -> bool {
        let newline = ["\r\n", "\n", "\r"].into_iter().find(|it| self.rest().starts_with(it));
        self.at += newline.map_or(0, str::len);
        newline.is_some()
    }

    fn take_comment(&mut self) {
        if self.rest().starts_with('#') {
            self.take_while(|c| !matches!(c, '\n' | '\r'));
        }
    }

    /// Goes to the next statement. False at the end of the source.
    fn begin(&mut self) -> Result<bool> {
        loop {
            let before = if self.is_continued { self.indent } else { self.take_while(is_space) };
            self.take_comment();
            if self.take_newline() {
                self.is_continued = false;
                continue;
            }
            if self.rest().is_empty() {
                return Ok(false);
            }
            // A form feed begins the line again.
            let indent = before.rsplit('\x0c').next().unwrap_or_default();
            let is_prefix = indent.starts_with(self.indent) || self.indent.starts_with(indent);
            ensure!(is_prefix, self.error("its indentation mixes tabs and spaces"));
            self.indent = indent;
            return Ok(true);
        }
    }

    /// Reads the tokens of a statement to its end. `None` at the end of the source.
    fn statement(&mut self) -> Result<Option<Statement<'a>>> {
        if !self.begin()? {
            return Ok(None);
        }
        let indent = self.indent;
        let is_continued = self.is_continued;
        let mut tokens = Vec::new();
        let mut open = Vec::new();
        self.is_continued = false;
        while !self.rest().is_empty() {
            self.take_while(is_space);
            self.take_comment();
            if self.take_newline() {
                if open.is_empty() {
                    break;
                }
                continue;
            }
            if self.rest().starts_with('\\') {
                self.at += 1;
                ensure!(self.take_newline(), self.error("a backslash that continues no line"));
                continue;
            }
            if self.rest().starts_with(';') && open.is_empty() {
                self.at += 1;
                self.take_while(is_space);
                self.take_comment();
                self.is_continued = !self.rest().is_empty() && !self.take_newline();
                break;
            }
            tokens.extend(self.token(&mut open)?);
        }
        ensure!(open.is_empty(), self.error("a bracket is not closed"));
        let end = (!self.is_continued).then_some(self.at);
        Ok(Some(Statement { indent, is_continued, tokens, end }))
    }

    fn token(&mut self, open: &mut Vec<char>) -> Result<Option<&'a str>> {
        let start = self.at;
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let Some(next) = self.rest().chars().next() else {
            return Ok(Some(word).filter(|it| !it.is_empty()));
        };
        if matches!(next, '"' | '\'') {
            let prefix = word.to_ascii_lowercase();
            // `return"x"` is valid: any other word is a token before the string.
            if STRING_PREFIXES.contains(&prefix.as_str()) {
                self.string(next, prefix.contains(['f', 't']))?;
                return Ok(Some(&self.source[start..self.at]));
            }
        }
        if !word.is_empty() {
            return Ok(Some(word));
        }
        match next {
            '(' | '[' | '{' => {
                open.push(next);
                ensure!(open.len() <= MOST_BRACKETS, self.error("its brackets nest too deep"));
            }
            ')' | ']' | '}' => {
                let is_pair = matches!(
                    (open.pop(), next),
                    (Some('('), ')') | (Some('['), ']') | (Some('{'), '}')
                );
                ensure!(is_pair, self.error("a bracket is not opened"));
            }
            '!' => ensure!(self.rest().starts_with("!="), self.error("not Python: `!`")),
            _ if "+-*/%@&|^~<>=.,:;".contains(next) => {}
            other => bail!(self.error(&format!("not Python: {other:?}"))),
        }
        self.at += 1;
        Ok(Some(&self.source[start..self.at]))
    }

    /// Takes a string, from its quote. In raw strings, too, a backslash keeps a quote from ending it.
    fn string(&mut self, quote: char, has_fields: bool) -> Result<()> {
        let triple = quote.to_string().repeat(3);
        let is_long = self.rest().starts_with(&triple);
        let close = if is_long { triple.as_str() } else { &triple[..1] };
        self.at += close.len();
        let mut fields = 0_usize;
        loop {
            let rest = self.rest();
            if rest.starts_with(close) {
                // Since Python 3.12 the same quotes may stand between the braces.
                ensure!(fields == 0, self.error("quotes between the braces of a formatted string"));
                self.at += close.len();
                return Ok(());
            }
            let mut chars = rest.chars();
            match (chars.next(), chars.next()) {
                (None, _) => bail!(self.error("a string without an end")),
                (Some('\n' | '\r'), _) if !is_long => bail!(self.error("a string without an end")),
                (Some('\\'), Some('\r')) if rest.starts_with("\\\r\n") => self.at += 3,
                (Some('\\'), Some(next)) if !matches!(next, '{' | '}') => {
                    self.at += 1 + next.len_utf8();
                }
                (Some('{'), Some('{')) if has_fields && fields == 0 => self.at += 2,
                (Some(c), _) => {
                    match c {
                        '{' if has_fields => fields += 1,
                        '}' => fields = fields.saturating_sub(1),
                        _ => {}
                    }
                    self.at += c.len_utf8();
                }
            }
        }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = Result<Statement<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let statement = self.statement();
        self.has_failed = statement.is_err();
        statement.transpose()
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// Whether a token is a string that can be the docstring of a module, or a part of it.
pub(super) fn is_docstring(token: &str) -> bool {
    token.trim_start_matches(['r', 'R', 'u', 'U']).starts_with(['"', '\''])
}

/// The value of a token that is a plain string. `None` for any other token, and for a string with a prefix,
/// an escape or a line break.
pub(super) fn plain_text(token: &str) -> Option<&str> {
    let mut quotes = ["\"\"\"", "'''", "\"", "'"].into_iter();
    let value = quotes.find_map(|quote| token.strip_prefix(quote)?.strip_suffix(quote))?;
    (!value.contains(['\\', '\n', '\r'])).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each statement with its indentation, its tokens, and `;` if the next one is on its line.
    fn read(source: &str) -> Vec<String> {
        let statements = Statements::new(source).map(|it| match it {
            Ok(it) => {
                let more = if it.end.is_none() { ";" } else { "" };
                format!("{}{}{more}", it.indent.replace('\t', "<TAB>"), it.tokens.join(" "))
            }
            Err(error) => format!("error: {error}"),
        });
        statements.collect()
    }

    fn refusal(source: &str) -> String {
        read(source).pop().filter(|it| it.starts_with("error: ")).unwrap_or_default()
    }

    #[test]
    fn statements_end_where_python_ends_them() {
        for (source, statements) in [
            ("", &[][..]),
            ("# only a comment", &[]),
            ("a\r\nb\rc\nd", &["a", "b", "c", "d"]),
            ("\u{feff}# coding: utf-8\n\u{e9} = 1\n", &["\u{e9} = 1"]),
            ("a = 1; b ;  # c\nd\n", &["a = 1;", "b", "d"]),
            ("a; \\\n b\n", &["a;", "b"]),
            ("a + \\\r\n b\n", &["a + b"]),
            ("f(a, # one\n\n  b)\nc\n", &["f ( a , b )", "c"]),
            ("if a:\n\tb\n\n  # c\nd\n", &["if a :", "<TAB>b", "d"]),
            ("\x0cif a:\n  \x0c b\n", &["if a :", " b"]),
            ("if a: b; c\n", &["if a : b;", "c"]),
            ("return'x'\n", &["return 'x'"]),
            ("a != b != 'c'\n", &["a ! = b ! = 'c'"]),
        ] {
            assert_eq!(read(source), statements, "{source:?}");
        }
    }

    #[test]
    fn strings_end_where_python_ends_them() {
        for string in [
            "''",
            "\"\"\"\"\"\"",
            "'a;b#c'",
            "'it\\'s'",
            "'\\\\'",
            "r'\\\\'",
            "Rb'\\''",
            "bR\"a\"",
            "u'\u{e9}'",
            "'a\\\nb'",
            "'a\\\r\nb'",
            "'''a'b''c\n'''",
            "\"\"\"a\\\"\"\"\"",
            "f'{a}{{'",
            "f'{a!r:>{b}}}}'",
            "F\"{a['b']}\"",
            "rf'{a}\\{b}'",
            "t'{a}'",
            "'{'",
        ] {
            let source = format!("x = {string}; y\n");
            assert_eq!(read(&source), [format!("x = {string};"), "y".to_owned()]);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let deep = "(".repeat(100_000);
        let refused = [
            "a\nb = 'c\nd'\n",
            "\"\"\"a\n\"\"",
            "'\\'",
            "'\\",
            "f\"{a[\"b\"]}\"\n",
            "a = (\n",
            "a = (]\n",
            "a)\n",
            "a \\ b\n",
            "a \\",
            "a = $b\n",
            "a!\n",
            "a\u{a0}= 1\n",
            "if a:\n  b\n\tc\n",
            &deep,
        ];
        insta::assert_snapshot!(refused.map(refusal).join("\n"), @r"
        error: line 2: a string without an end
        error: line 2: a string without an end
        error: line 1: a string without an end
        error: line 1: a string without an end
        error: line 1: quotes between the braces of a formatted string
        error: line 2: a bracket is not closed
        error: line 1: a bracket is not opened
        error: line 1: a bracket is not opened
        error: line 1: a backslash that continues no line
        error: line 1: a backslash that continues no line
        error: line 1: not Python: '$'
        error: line 1: not Python: `!`
        error: line 1: not Python: '\u{a0}'
        error: line 3: its indentation mixes tabs and spaces
        error: line 1: its brackets nest too deep
        ");
    }

    #[test]
    fn many_lines_and_deep_blocks_take_no_stack() {
        let blocks: String = (0..1_000).map(|at| " ".repeat(at) + "if a:\n").collect();
        assert_eq!(read(&blocks).len(), 1_000);
        let nested = format!("x = {}{}\n", "[".repeat(MOST_BRACKETS), "]".repeat(MOST_BRACKETS));
        assert_eq!(read(&nested).len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn every_source_ends(source in r#"[a'"\\\n\r\t (){}\[\];:#fr!=.\x0c]{0,40}"#) {
            let statements: Vec<_> = Statements::new(&source).collect();
            let failed = statements.iter().rev().skip(1).any(Result::is_err);
            proptest::prop_assert!(!failed);
        }
    }

    #[test]
    fn only_plain_strings_have_a_text() {
        assert_eq!(plain_text("'a'"), Some("a"));
        assert_eq!(plain_text("\"\""), Some(""));
        assert_eq!(plain_text("'''a'''"), Some("a"));
        for other in ["a", "r'a'", "'a\\n'", "\"\"\"a\nb\"\"\"", "1"] {
            assert_eq!(plain_text(other), None, "{other}");
        }
        assert!(is_docstring("'a'") && is_docstring("R'a'") && is_docstring("\"\"\"a\"\"\""));
        assert!(!is_docstring("b'a'") && !is_docstring("f'a'") && !is_docstring("r"));
    }
}
