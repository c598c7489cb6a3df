//! [`Headers`]: METADATA, PKG-INFO or WHEEL. They are `Name: value` lines, an empty line and a text, in
//! the syntax of email ([core
//! metadata](https://packaging.python.org/en/latest/specifications/core-metadata/)).

use std::fmt;

use rocwheel_base::error::{Context as _, Error, Result, anyhow};

/// The headers of a file and the text behind them. What is not changed keeps its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    headers: Vec<Header>,
    /// The empty line and the text behind it.
    rest: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    name: String,
    /// The lines of a folded value are joined by spaces.
    value: String,
    /// All its lines with their line breaks.
    text: String,
}

impl Header {
    fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned(), text: format!("{name}: {value}\n") }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl std::str::FromStr for Headers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut headers: Vec<Header> = Vec::new();
        let mut at = 0;
        for (index, whole) in text.split_inclusive('\n').enumerate() {
            let unix_line = whole.strip_suffix('\n').unwrap_or(whole);
            let line = unix_line.strip_suffix('\r').unwrap_or(unix_line);
            if line.is_empty() {
                break;
            }
            at += whole.len();
            let invalid = || anyhow!("line {} is no `Name: value`: {line:?}", index + 1);
            if line.starts_with([' ', '\t']) {
                let folded = headers.last_mut().with_context(invalid)?;
                let more = line.trim();
                if !folded.value.is_empty() && !more.is_empty() {
                    folded.value.push(' ');
                }
                folded.value.push_str(more);
                folded.text.push_str(whole);
                continue;
            }
            let (name, value) = line.split_once(':').with_context(invalid)?;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                return Err(invalid());
            }
            headers.push(Header {
                name: name.to_owned(),
                value: value.trim().to_owned(),
                text: whole.to_owned(),
            });
        }
        let rest = text.get(at..).unwrap_or_default().to_owned();
        Ok(Self { headers, rest })
    }
}

impl Headers {
    /// The names and values of all headers, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.headers.iter();
        headers.map(|it| (it.name.as_str(), it.value.as_str()))
    }

    /// The values of a header that are not empty.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.headers.iter().filter(move |it| it.is(name));
        named.map(|it| it.value.as_str()).filter(|it| !it.is_empty())
    }

    /// The first value of a header that is not empty.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Gives the first header of a name another value, or adds the header behind all others.
    pub fn set(&mut self, name: &str, value: &str) {
        let Some(header) = self.headers.iter_mut().find(|it| it.is(name)) else {
            self.end_line(self.headers.len());
            self.headers.push(Header::new(name, value));
            return;
        };
        let start = header.name.len() + 1;
        let place = header.text[start..].find(&header.value).map(|at| start + at);
        match place.filter(|_| !header.value.is_empty()) {
            Some(at) => {
                let end = at + header.value.len();
                header.text.replace_range(at..end, value);
                value.clone_into(&mut header.value);
            }
            // A folded or an empty value.
            None => *header = Header::new(name, value),
        }
    }

    /// Removes the headers of a name with some values. Returns whether there were any.
    pub fn remove(&mut self, name: &str, is_gone: impl Fn(&str) -> bool) -> bool {
        let count = self.headers.len();
        self.headers.retain(|it| !(it.is(name) && is_gone(&it.value)));
        self.headers.len() < count
    }

    /// Adds headers behind the last one with a certain name and value, or else behind all.
    pub fn insert_behind<V: AsRef<str>>(
        &mut self,
        is_before: impl Fn(&str, &str) -> bool,
        headers: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        let is_before = |it: &Header| is_before(&it.name, &it.value);
        let place = match self.headers.iter().rposition(is_before) {
            Some(before) => before + 1,
            None => self.headers.len(),
        };
        self.end_line(place);
        let new = headers.into_iter().map(|(name, value)| Header::new(name, value.as_ref()));
        self.headers.splice(place..place, new);
    }

    /// Ends the line of the header before a place, which the last one of a file may lack.
    fn end_line(&mut self, place: usize) {
        let before = place
            .checked_sub(1)
            .and_then(|it| self.headers.get_mut(it))
            .filter(|it| !it.text.ends_with('\n'));
        if let Some(before) = before {
            before.text.push('\n');
        }
    }
}

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for header in &self.headers {
            f.write_str(&header.text)?;
        }
        f.write_str(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_does_not_change_keeps_its_bytes() {
        let text = "Metadata-Version: 2.0\nName:   x\r\nVersion: \t1 \r\nSummary: two\n        lines\n\
                    Requires-Dist: a\nrequires-dist: b\nLicense:\n\nRequires-Dist: c\n\nbody";
        let mut headers: Headers = text.parse().unwrap();
        assert_eq!(headers.to_string(), text);
        let requires: Vec<&str> = headers.all("Requires-Dist").collect();
        assert_eq!((requires, headers.get("License")), (vec!["a", "b"], None));
        headers.set("version", "1+rocm2");
        headers.set("Summary", "one line");
        headers.set("License", "MIT");
        headers.set("Keywords", "k");
        assert!(headers.remove("Requires-Dist", |it| it == "a"));
        assert!(!headers.remove("Requires-Dist", |it| it == "c"));
        headers.insert_behind(
            |name, _| name.eq_ignore_ascii_case("Requires-Dist"),
            [("Requires-Dist", "d"), ("Other", "e")],
        );
        insta::assert_snapshot!(headers.to_string().replace('\r', "<CR>"), @"
        Metadata-Version: 2.0
        Name:   x<CR>
        Version: 	1+rocm2 <CR>
        Summary: one line
        requires-dist: b
        Requires-Dist: d
        Other: e
        License: MIT
        Keywords: k

        Requires-Dist: c

        body
        ");
        let mut short: Headers = "A: 1".parse().unwrap();
        short.set("B", "2");
        assert_eq!(short.to_string(), "A: 1\nB: 2\n");
    }

    proptest! {
        #[test]
        fn every_text_is_given_back_or_refused(text in "([A-c:\r \t-]{0,5}\n?){0,8}") {
            if let Ok(headers) = text.parse::<Headers>() {
                prop_assert_eq!(headers.to_string(), text);
            }
        }
    }
}
