//! Glob patterns for relative paths, and filters made of them.
//!
//! A pattern is translated to a regular expression, so that matching takes time in proportion to
//! pattern times path. The `globset` crate does not fit: its `*`, `?` and `**` have other meanings.

use std::sync::OnceLock;

use derive_more::Display;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// A glob pattern that matches whole paths. `*` and `?` both match any text without `/`, and `**`
/// between slashes matches any number of directories. All other characters are literal, so every
/// text is a valid pattern.
///
/// `lib/**` also matches `lib` itself, and `**/*` matches everything. `**` without slashes is the
/// same as `*`.
#[derive(Clone, Debug, Display, Deserialize)]
#[display("{text}")]
#[serde(from = "String")]
pub struct Glob {
    text: String,
    // Compiled when it is first asked: many are never asked.
    regex: OnceLock<Regex>,
}

impl Glob {
    /// Never fails: every text is a pattern. It is compiled when it is first asked.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), regex: OnceLock::new() }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches the whole path.
    pub fn matches(&self, path: &str) -> bool {
        let regex = self.regex.get_or_init(|| compile(&self.text));
        regex.is_match(path.as_bytes())
    }
}

fn compile(glob: &str) -> Regex {
    // Patterns come from TheRock, which matches them with Python's `$`. That also matches before a
    // final line feed.
    RegexBuilder::new(&format!(r"\A{}\n?\z", translate(glob)))
        .unicode(false)
        .size_limit(usize::MAX)
        .build()
        .expect("an escaped text with plain repetitions is a regular expression")
}

/// Translates `**` between slashes first; each remaining `*` then matches within one component. The
/// two `**` of `/**/**/` share a slash, so only the first one matches directories; the second is
/// two `*`.
fn translate(glob: &str) -> String {
    let escaped = regex::escape(glob);
    let mut text = escaped.replace(r"/\*\*/", "/(?:.*/)?");
    if let Some(rest) = text.strip_prefix(r"\*\*/") {
        text = format!("(?:.*/)?{rest}");
    }
    if let Some(rest) = text.strip_suffix(r"/\*\*") {
        text = format!("{rest}(?:/.*)?");
    }
    text.replace(r"\*", "[^/]*").replace(r"\?", "[^/]*")
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl From<String> for Glob {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// Selects paths. The default accepts every path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// If not empty, a path must match one of these.
    pub includes: Vec<Glob>,
    /// A path that matches one of these is rejected.
    pub excludes: Vec<Glob>,
    /// A path that matches one of these is accepted, even if an exclude matches.
    pub force_includes: Vec<Glob>,
}

impl Filter {
    /// Whether the filter selects the path.
    pub fn accepts(&self, path: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(path));
        any(&self.force_includes)
            || ((self.includes.is_empty() || any(&self.includes)) && !any(&self.excludes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pattern_means_its_regular_expression() {
        let table = [
            ("lib/**", "lib(?:/.*)?"),
            ("**/cmake/**", "(?:.*/)?cmake(?:/.*)?"),
            ("share/**/rocprofiler-systems/**", r"share/(?:.*/)?rocprofiler\-systems(?:/.*)?"),
            ("bin/rocprof-*", r"bin/rocprof\-[^/]*"),
            ("**", "[^/]*[^/]*"),
            ("**/*", "(?:.*/)?[^/]*"),
            ("a/**/**/b", "a/(?:.*/)?[^/]*[^/]*/b"),
            ("a/**b", "a/[^/]*[^/]*b"),
            ("a**b", "a[^/]*[^/]*b"),
            ("**/**/b", "(?:.*/)?(?:.*/)?b"),
        ];
        for (glob, expected) in table {
            assert_eq!(translate(glob), expected);
        }
    }

    #[test]
    fn a_pattern_matches_whole_paths() {
        let table: [(&str, &[&str], &[&str]); 12] = [
            ("lib/**", &["lib", "lib/", "lib/a", "lib/a/b"], &["libx", "x/lib", "li"]),
            ("**/cmake/**", &["cmake", "lib/cmake", "lib/cmake/x"], &["lib/xcmake/a", "cmakex"]),
            (
                "share/**/rocprofiler-systems/**",
                &["share/rocprofiler-systems", "share/a/b/rocprofiler-systems/x"],
                &["share/xrocprofiler-systems", "rocprofiler-systems"],
            ),
            (
                "bin/rocprof-*",
                &["bin/rocprof-", "bin/rocprof-sys"],
                &["bin/rocprof-sys/x", "bin/rocprofv3", "x/bin/rocprof-sys"],
            ),
            ("**", &["", "top"], &["a/b", "/"]),
            ("**/*", &["", "a", "a/b/c", "a/b/"], &["a\nb/c"]),
            ("a/**/**/b", &["a/x/b", "a/x/y/b", "a//b"], &["a/b"]),
            ("a/**b", &["a/b", "a/xb"], &["a/x/b"]),
            ("a?b", &["ab", "axb", "axyb"], &["a/b"]),
            ("lib/*.so*", &["lib/x.so", "lib/x.so.1"], &["lib/x/y.so"]),
            ("a[b]{c}\\", &["a[b]{c}\\"], &["ab", "abc"]),
            ("Lib", &["Lib", "Lib\n"], &["lib", "Lib\n\n", "\nLib"]),
        ];
        for (glob, matched, others) in table {
            let glob = Glob::new(glob);
            for path in matched {
                assert!(glob.matches(path), "{glob} ought to match {path:?}");
            }
            for path in others {
                assert!(!glob.matches(path), "{glob} must not match {path:?}");
            }
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_its_length_says() {
        let glob = Glob::new("*a".repeat(500) + "/**/" + &"?*b/**/".repeat(100) + "c");
        assert!(!glob.matches(&"a".repeat(3_000)));
        assert!(!glob.matches(&("a".repeat(1_000) + &"/b".repeat(1_000))));
    }

    #[test]
    fn a_pattern_shows_as_it_was_written() {
        let glob = Glob::new("a/**/**/?*");
        assert_eq!(glob.to_string(), "a/**/**/?*");
        let read: Vec<Glob> = serde_json::from_str(r#"["lib/**"]"#).unwrap();
        assert_eq!(read, [Glob::new("lib/**")]);
    }

    fn filter(includes: &[&str], excludes: &[&str], force_includes: &[&str]) -> Filter {
        let globs = |texts: &[&str]| texts.iter().map(|text| Glob::new(*text)).collect();
        Filter {
            includes: globs(includes),
            excludes: globs(excludes),
            force_includes: globs(force_includes),
        }
    }

    #[test]
    fn forced_beats_excluded_and_excluded_beats_included() {
        assert!(Filter::default().accepts("a"));
        let table: [(Filter, &[&str], &[&str]); 4] = [
            (filter(&["lib/**"], &[], &[]), &["lib/a"], &["bin/a"]),
            (filter(&[], &["lib/**"], &[]), &["bin/a"], &["lib/a"]),
            (filter(&["lib/**"], &["**/*.a"], &[]), &["lib/x.so"], &["lib/x.a", "bin/x"]),
            (
                filter(&["lib/**"], &["**/*.a"], &["**/keep.*"]),
                &["lib/keep.a", "bin/keep.a", "lib/x"],
                &["lib/x.a", "bin/x"],
            ),
        ];
        for (filter, taken, left) in table {
            assert!(taken.iter().all(|path| filter.accepts(path)), "{filter:?}");
            assert!(!left.iter().any(|path| filter.accepts(path)), "{filter:?}");
        }
    }

    proptest! {
        #[test]
        fn every_other_character_stands_for_itself(text in "[^*?]{0,12}", other in "\\PC{0,12}") {
            let glob = Glob::new(text.as_str());
            prop_assert!(glob.matches(&text));
            prop_assert_eq!(glob.matches(&other), other == text);
        }
    }
}
