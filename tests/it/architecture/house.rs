//! The sources that the rules look at, and what they say.

use std::{collections::BTreeMap, fmt};

use super::source::{Path, Token, module_of, paths, tokens};

/// The sources of the crate and of its tests, by their place in the repository.
#[derive(Clone, Debug, Default)]
pub(super) struct House(pub(super) BTreeMap<String, String>);

/// A rule, where it is broken, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    file: String,
    line: usize,
    what: String,
    advice: String,
}

impl Violation {
    pub(super) fn new(
        file: &str,
        line: usize,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            what,
            advice,
        } = self;
        write!(f, "{file}:{line}: {what}\n    {advice}")
    }
}

/// A file of the crate, read.
pub(super) struct Read {
    pub(super) file: String,
    pub(super) module: Vec<String>,
    pub(super) tokens: Vec<Token>,
    pub(super) paths: Vec<Path>,
}

impl House {
    /// The files of the crate itself.
    pub(super) fn read(&self) -> Vec<Read> {
        self.0
            .iter()
            .filter(|(file, _)| file.starts_with("src/"))
            .map(|(file, text)| {
                let tokens = tokens(file, text);
                Read {
                    file: file.clone(),
                    module: module_of(file),
                    paths: paths(&tokens),
                    tokens,
                }
            })
            .collect()
    }
}
