//! Links to the documentation, for terminals that can show them.
//!
//! The form is OSC 8: <https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda>. Terminals
//! are known by their variables, because none can be asked. The others get plain text.

use std::{
    borrow::Cow,
    env,
    fmt::Write as _,
    io::{self, IsTerminal as _},
};

use super::{Console, Talk};

/// Overrides the address of `docs/`.
const VARIABLE: &str = "ROCWHEEL_DOCS_URL";
/// Begins the id of a rule, such as `RW405`.
const RULE: &str = "RW";
const DIGITS: usize = 3;

/// Turns the ids of rules into links to their sections.
#[derive(Debug)]
pub(super) struct DocsLinks {
    docs: String,
    /// The fragment of the section about a rule, if there is such a rule.
    section: fn(&str) -> Option<String>,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
}

impl Console {
    /// Links the ids of rules to their sections in the documentation, on terminals that show links.
    /// `section` knows the fragment of each section.
    pub fn link_docs(&self, section: fn(&str) -> Option<String>) {
        let terminals = (io::stdout().is_terminal(), io::stderr().is_terminal());
        if let Some(links) = DocsLinks::of_this_process(section, terminals) {
            // It is set once, when the program begins.
            let _ = self.talk.links.set(links);
        }
    }

    /// The address of the documentation, if it is known.
    pub fn docs() -> Option<String> {
        docs(&variable)
    }
}

impl Talk {
    /// The text with links, if the stream of the text is such a terminal.
    pub(super) fn linked<'a>(
        &self,
        text: Cow<'a, str>,
        is_for: fn(&DocsLinks) -> bool,
    ) -> Cow<'a, str> {
        match self.links.get().filter(|it| is_for(it)) {
            Some(links) => Cow::Owned(links.linked(&text).into_owned()),
            None => text,
        }
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|it| !it.is_empty())
}

impl DocsLinks {
    /// `None` if the terminal shows no links, or if nothing says where the documentation is.
    pub(super) fn of_this_process(
        section: fn(&str) -> Option<String>,
        (stdout, stderr): (bool, bool),
    ) -> Option<Self> {
        let docs = docs(&variable).filter(|_| is_supported(&variable))?;
        Some(Self {
            docs,
            section,
            stdout,
            stderr,
        })
    }

    /// The text, in which each id of a rule is a link.
    pub(super) fn linked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        let mut written = 0;
        for (start, _) in text.match_indices(RULE) {
            let end = start + RULE.len() + DIGITS;
            let Some(id) = text.get(start..end) else {
                continue;
            };
            let is_in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            let (before, after) = (&text[..start], &text[end..]);
            if is_in_word(before.chars().next_back()) || is_in_word(after.chars().next()) {
                continue;
            }
            if let Some(section) = (self.section)(id) {
                let url = format!("{}/checks.md#{section}", self.docs);
                let before = &text[written..start];
                let _ = write!(out, "{before}\x1b]8;;{url}\x1b\\{id}\x1b]8;;\x1b\\");
                written = end;
            }
        }
        if written == 0 {
            return Cow::Borrowed(text);
        }
        Cow::Owned(out + &text[written..])
    }
}

/// The address of `docs/` of the sources that this program was built from.
fn docs(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let named = variable(VARIABLE).filter(|it| !it.contains(char::is_control));
    let named = named.map(|url| url.trim_end_matches('/').to_owned());
    named.or_else(|| published(env!("ROCWHEEL_REPOSITORY"), env!("ROCWHEEL_COMMIT")))
}

/// The address in a repository on GitHub: at the commit, or at the tag of the version.
fn published(repository: &str, commit: &str) -> Option<String> {
    let repository = repository.trim_end_matches('/').trim_end_matches(".git");
    let revision = match commit {
        "" => concat!("v", env!("CARGO_PKG_VERSION")),
        commit => commit,
    };
    (!repository.is_empty()).then(|| format!("{repository}/blob/{revision}/docs"))
}

/// Whether the terminal is one of those that show links.
fn is_supported(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    if let Some(forced) = variable("FORCE_HYPERLINK") {
        return forced != "0";
    }
    let is = |name: &str, known: &[&str]| {
        variable(name).is_some_and(|value| known.iter().any(|it| value.contains(it)))
    };
    let vte = variable("VTE_VERSION").and_then(|it| it.parse().ok());
    ["WT_SESSION", "KONSOLE_VERSION", "DOMTERM"]
        .iter()
        .any(|name| variable(name).is_some())
        || is("TERM", &["kitty", "alacritty", "foot", "ghostty", "wezterm"])
        || is("TERM_PROGRAM", &["iTerm", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "zed"])
        // Before 0.50, VTE crashed on them.
        || vte.is_some_and(|version: u32| version >= 5000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_are_those_of_the_commit_or_of_the_version() {
        let repository = "https://github.com/example/rocwheel";
        let version = env!("CARGO_PKG_VERSION");
        let rows = [
            (
                repository,
                "0123abc",
                format!("{repository}/blob/0123abc/docs"),
            ),
            (repository, "", format!("{repository}/blob/v{version}/docs")),
            (
                "https://github.com/example/rocwheel.git",
                "0123abc",
                format!("{repository}/blob/0123abc/docs"),
            ),
        ];
        for (repository, commit, wanted) in rows {
            assert_eq!(published(repository, commit), Some(wanted));
        }
        assert_eq!(published("", "0123abc"), None);
        let named = |name: &str| (name == VARIABLE).then(|| "https://example.com/docs/".to_owned());
        assert_eq!(docs(&named).as_deref(), Some("https://example.com/docs"));
    }

    #[test]
    fn only_the_ids_of_rules_are_links() {
        let links = DocsLinks {
            docs: "https://example.com/docs".to_owned(),
            section: |id| (id == "RW405").then(|| "rw405-name".to_owned()),
            stdout: true,
            stderr: true,
        };
        let link = "\x1b]8;;https://example.com/docs/checks.md#rw405-name\x1b\\RW405\x1b]8;;\x1b\\";
        assert_eq!(
            links.linked("error RW405 name, RW405: é"),
            format!("error {link} name, {link}: é")
        );
        for text in ["RW4", "RW999", "xRW405", "RW4051", "RW", "RW40é", ""] {
            assert!(
                matches!(links.linked(text), Cow::Borrowed(it) if it == text),
                "{text}"
            );
        }
    }

    #[test]
    fn terminals_are_known_by_their_variables() {
        let rows = [
            ("TERM=xterm-256color", false),
            ("TERM=xterm-kitty", true),
            ("TERM=xterm-256color TERM_PROGRAM=vscode", true),
            ("TERM=xterm-256color TERM_PROGRAM=Apple_Terminal", false),
            ("VTE_VERSION=7600", true),
            ("VTE_VERSION=4602", false),
            ("WT_SESSION=1", true),
            ("WT_SESSION=1 FORCE_HYPERLINK=0", false),
            ("FORCE_HYPERLINK=1", true),
        ];
        for (environment, wanted) in rows {
            let variable = |name: &str| {
                let mut pairs = environment.split(' ').filter_map(|it| it.split_once('='));
                pairs
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.to_owned())
            };
            assert_eq!(is_supported(&variable), wanted, "{environment}");
        }
    }
}
