//! Patterns over whole relative paths, and the filter made of them.
//!
//! A pattern means a regular expression, which the tests write out; matching takes time in
//! proportion to pattern times path, whatever they are.

use std::{convert::Infallible, fmt, mem, str::FromStr};

use serde::Deserialize;

/// A pattern for paths: `*` and `?` both stand for any text without `/`, `**` between slashes for
/// any directories or none. Every text is a pattern, and no other character is special.
///
/// `lib/**` also matches `lib` itself, `**/*` matches everything, and `**` alone is one `*`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Glob {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This byte.
    Byte(u8),
    /// Any text without `/`: `[^/]*`.
    Segment,
    /// Directories, or none: `(.*/)?`, where `.` is no line feed.
    Directories,
    /// Everything below, or nothing: `(/.*)?`. It ends a pattern.
    Below,
}

/// How far a match has come: at a step, or inside the optional text of one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    At(usize),
    Inside(usize),
}

impl Glob {
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let steps = steps(text.as_bytes());
        Self { text, steps }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern stands for the whole path.
    pub fn matches(&self, path: &str) -> bool {
        if !self.may_match(path) {
            return false;
        }
        let mut states = States::new(self.steps.len());
        let mut next = States::new(self.steps.len());
        self.enter(0, &mut states);
        for (at, byte) in path.bytes().enumerate() {
            // As `$` does, the end of a pattern also matches before one last line feed.
            if byte == b'\n' && at + 1 == path.len() && self.is_end(&states) {
                return true;
            }
            for state in &states.alive {
                self.advance(*state, byte, &mut next);
            }
            mem::swap(&mut states, &mut next);
            next.clear();
            if states.alive.is_empty() {
                return false;
            }
        }
        self.is_end(&states)
    }

    /// Most paths differ from most patterns before the first wildcard, which is cheap to see.
    fn may_match(&self, path: &str) -> bool {
        self.steps
            .iter()
            .zip(path.bytes())
            .find_map(|(step, byte)| match step {
                Step::Byte(wanted) if *wanted == byte => None,
                Step::Byte(_) => Some(false),
                Step::Segment | Step::Directories | Step::Below => Some(true),
            })
            .unwrap_or(true)
    }

    fn advance(&self, state: State, byte: u8, next: &mut States) {
        let (State::At(step) | State::Inside(step)) = state;
        let Some(kind) = self.steps.get(step) else {
            return;
        };
        match (kind, state) {
            (Step::Byte(wanted), _) if *wanted == byte => self.enter(step + 1, next),
            (Step::Segment, _) if byte != b'/' => self.enter(step, next),
            (Step::Directories, _) if byte != b'\n' => {
                next.add(State::Inside(step));
                if byte == b'/' {
                    self.enter(step + 1, next);
                }
            }
            (Step::Below, State::At(_)) if byte != b'/' => {}
            (Step::Below, _) if byte != b'\n' => {
                next.add(State::Inside(step));
                self.enter(step + 1, next);
            }
            _ => {}
        }
    }

    /// Adds a step, and the steps after it for as long as each may stand for nothing.
    fn enter(&self, from: usize, states: &mut States) {
        let mut step = from;
        while states.add(State::At(step))
            && !matches!(self.steps.get(step), None | Some(Step::Byte(_)))
        {
            step += 1;
        }
    }

    fn is_end(&self, states: &States) -> bool {
        states.alive.contains(&State::At(self.steps.len()))
    }
}

/// The states of a match, each once.
struct States {
    alive: Vec<State>,
    /// Whether a state is alive, by number.
    is_alive: Vec<bool>,
}

impl States {
    fn new(steps: usize) -> Self {
        Self {
            alive: Vec::new(),
            is_alive: vec![false; 2 * steps + 2],
        }
    }

    /// Whether the state was not there yet.
    fn add(&mut self, state: State) -> bool {
        let is_new = !mem::replace(&mut self.is_alive[state.number()], true);
        if is_new {
            self.alive.push(state);
        }
        is_new
    }

    fn clear(&mut self) {
        for state in self.alive.drain(..) {
            self.is_alive[state.number()] = false;
        }
    }
}

impl State {
    fn number(self) -> usize {
        match self {
            Self::At(step) => 2 * step,
            Self::Inside(step) => 2 * step + 1,
        }
    }
}

/// Replaces what stands for directories first, from left to right and without overlap, so that a
/// second `**` between the same slashes is two `*`.
fn steps(pattern: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = pattern;
    if let Some(after) = pattern.strip_prefix(b"**/") {
        // The two of `**/**/` share their slash, and mean what one means.
        rest = after.strip_prefix(b"**/").unwrap_or(after);
        steps.push(Step::Directories);
    }
    loop {
        rest = match rest {
            [] => return steps,
            [b'/', b'*', b'*', b'/', rest @ ..] => {
                steps.extend([Step::Byte(b'/'), Step::Directories]);
                rest
            }
            b"/**" => {
                steps.push(Step::Below);
                &[]
            }
            [b'*' | b'?', rest @ ..] => {
                // `**` means what `*` means.
                if steps.last() != Some(&Step::Segment) {
                    steps.push(Step::Segment);
                }
                rest
            }
            [byte, rest @ ..] => {
                steps.push(Step::Byte(*byte));
                rest
            }
        };
    }
}

impl From<String> for Glob {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl FromStr for Glob {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Which paths are taken. The default takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// When there are any, a path must match one.
    pub includes: Vec<Glob>,
    /// A path must match none.
    pub excludes: Vec<Glob>,
    /// A path that matches one is taken, whatever else it matches.
    pub force_includes: Vec<Glob>,
}

impl Filter {
    pub fn accepts(&self, path: &str) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(path));
        any(&self.force_includes)
            || ((self.includes.is_empty() || any(&self.includes)) && !any(&self.excludes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    /// What a pattern means: the replacements in their order, on the escaped text.
    fn translation(glob: &str) -> String {
        let escaped = regex::escape(glob);
        let mut text = escaped.replace(r"/\*\*/", "/(.*/)?");
        if let Some(rest) = text.strip_prefix(r"\*\*/") {
            text = format!("(.*/)?{rest}");
        }
        if let Some(rest) = text.strip_suffix(r"/\*\*") {
            text = format!("{rest}(/.*)?");
        }
        text.replace(r"\*", "[^/]*").replace(r"\?", "[^/]*")
    }

    /// The `$` of the translation's own flavour also matches before one last line feed.
    fn regex(glob: &str) -> Regex {
        Regex::new(&format!(r"\A{}\n?\z", translation(glob))).unwrap()
    }

    #[test]
    fn a_pattern_means_its_regular_expression() {
        let table = [
            ("lib/**", "lib(/.*)?"),
            ("**/cmake/**", "(.*/)?cmake(/.*)?"),
            (
                "share/**/rocprofiler-systems/**",
                r"share/(.*/)?rocprofiler\-systems(/.*)?",
            ),
            ("bin/rocprof-*", r"bin/rocprof\-[^/]*"),
            ("**", "[^/]*[^/]*"),
            ("**/*", "(.*/)?[^/]*"),
            ("a/**/**/b", "a/(.*/)?[^/]*[^/]*/b"),
            ("a/**b", "a/[^/]*[^/]*b"),
            ("a**b", "a[^/]*[^/]*b"),
            ("**/**/b", "(.*/)?(.*/)?b"),
        ];
        for (glob, expected) in table {
            assert_eq!(translation(glob), expected);
        }
    }

    #[test]
    fn a_pattern_matches_whole_paths() {
        let table: [(&str, &[&str], &[&str]); 12] = [
            (
                "lib/**",
                &["lib", "lib/", "lib/a", "lib/a/b"],
                &["libx", "x/lib", "li"],
            ),
            (
                "**/cmake/**",
                &["cmake", "lib/cmake", "lib/cmake/x"],
                &["lib/xcmake/a", "cmakex"],
            ),
            (
                "share/**/rocprofiler-systems/**",
                &[
                    "share/rocprofiler-systems",
                    "share/a/b/rocprofiler-systems/x",
                ],
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
        let glob = Glob::new("*a".repeat(2_000) + "/**/" + &"?*b/**/".repeat(500) + "c");
        assert!(!glob.matches(&"a".repeat(10_000)));
        assert!(!glob.matches(&("a".repeat(3_000) + &"/b".repeat(3_000))));
    }

    #[test]
    fn a_pattern_shows_as_it_was_written() {
        let glob: Glob = "a/**/**/?*".parse().unwrap();
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
            (
                filter(&["lib/**"], &["**/*.a"], &[]),
                &["lib/x.so"],
                &["lib/x.a", "bin/x"],
            ),
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
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn every_pattern_agrees_with_its_regular_expression(
            glob in "(\\*\\*/|/\\*\\*|[*?/ab.\n]){0,6}",
            paths in proptest::collection::vec("[/ab.\n]{0,8}", 1..12),
        ) {
            let (ours, theirs) = (Glob::new(glob.as_str()), regex(&glob));
            for path in paths {
                prop_assert_eq!(ours.matches(&path), theirs.is_match(&path), "{:?} on {:?}", glob, path);
            }
        }

        #[test]
        fn every_other_character_stands_for_itself(text in "[^*?]{0,12}", other in "\\PC{0,12}") {
            let glob = Glob::new(text.as_str());
            prop_assert!(glob.matches(&text));
            prop_assert_eq!(glob.matches(&other), other == text);
            prop_assert_eq!(Glob::new(other.as_str()).matches(&text), regex(&other).is_match(&text));
        }
    }
}
