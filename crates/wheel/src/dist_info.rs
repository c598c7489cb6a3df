//! The small files of a `.dist-info` directory besides RECORD: METADATA, WHEEL ([PEP
//! 427](https://peps.python.org/pep-0427/)), `entry_points.txt` and `top_level.txt`.

use std::{collections::BTreeSet, str::FromStr};

use itertools::Itertools as _;

use crate::{
    Headers, Requirement, WheelCompression,
    name::{DistName, Tag},
};
use rocwheel_base::{
    error::{Context as _, Error, Result, anyhow, ensure},
    relpath::RelPath,
    version::Version,
};

/// Checks that a value fits on one line: not empty, no control characters, no space around it.
///
/// Because it cannot contain a line break, such a value can never add a header of its own.
pub fn ensure_one_line(text: &str) -> Result<()> {
    // Python's `splitlines` breaks lines at U+2028 and U+2029 too.
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    ensure!(!text.is_empty(), "an empty value: {text:?}");
    ensure!(!text.contains(breaks), "a control character in a value: {text:?}");
    ensure!(text.trim() == text, "a space around a value: {text:?}");
    Ok(())
}

/// The value of a header that a file must have.
fn required<'a>(headers: &'a Headers, file: &str, name: &'a str) -> Result<&'a str> {
    let value = headers.get(name);
    value.with_context(|| format!("{file} without `{name}`"))
}

/// What rocwheel needs of the metadata of a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// `Name`.
    pub name: DistName,
    /// `Version`.
    pub version: Version,
    /// `Requires-Python`, as it is written: it need not be valid.
    pub requires_python: Option<String>,
    /// Requirements, `a>=1; extra == "x"` ([PEP 508](https://peps.python.org/pep-0508/)).
    pub requires_dist: Vec<String>,
    /// `Provides-Extra`, the extras that the distribution offers, as they are written.
    pub provides_extra: Vec<String>,
}

/// The fields that are checked, and whether metadata may have several of them.
const FIELDS: [(&str, bool); 16] = [
    ("Metadata-Version", false),
    ("Name", false),
    ("Version", false),
    ("Summary", false),
    ("Author", false),
    ("Author-email", false),
    ("License-Expression", false),
    ("Requires-Python", false),
    ("Description-Content-Type", false),
    ("Description", false),
    ("License-File", true),
    ("Project-URL", true),
    ("Classifier", true),
    ("Requires-Dist", true),
    ("Provides-Extra", true),
    ("Dynamic", true),
];

impl Metadata {
    /// The requirements that can be read.
    pub fn requirements(&self) -> impl Iterator<Item = Requirement> {
        Requirement::all(&self.requires_dist)
    }

    /// Reads METADATA or PKG-INFO. Fails without `Metadata-Version`, `Name` or `Version`, and if a
    /// field that must be unique is repeated.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = str::from_utf8(bytes).map_err(|_| anyhow!("metadata that is not UTF-8"))?;
        let headers: Headers = text.parse()?;
        // Metadata 1.x and 2.x: a newer minor version only adds fields, but a newer major one may
        // change their meaning.
        let version = required(&headers, "metadata", "Metadata-Version")?;
        ensure!(
            matches!(version.split_once('.'), Some(("1" | "2", minor)) if minor.bytes().all(|byte| byte.is_ascii_digit())),
            "metadata of a version that is not known: {version}"
        );
        for (field, may_repeat) in FIELDS {
            let named = headers.iter().filter(|it| it.0.eq_ignore_ascii_case(field));
            ensure!(may_repeat || named.count() <= 1, "metadata with a second `{field}`");
            // The lines of a description are joined here, and may have any characters.
            for value in headers.all(field).filter(|_| field != "Description") {
                ensure_one_line(value).with_context(|| format!("`{field}` of metadata"))?;
            }
        }
        for extra in headers.all("Provides-Extra") {
            read::<DistName>("Provides-Extra", extra)?;
        }
        let lines = |field| headers.all(field).map(str::to_owned);
        Ok(Self {
            name: read("Name", required(&headers, "metadata", "Name")?)?,
            version: read("Version", required(&headers, "metadata", "Version")?)?,
            requires_python: headers.get("Requires-Python").map(str::to_owned),
            requires_dist: lines("Requires-Dist").collect(),
            provides_extra: lines("Provides-Extra").collect(),
        })
    }
}

fn read<T: FromStr<Err: Into<Error>>>(field: &str, value: &str) -> Result<T> {
    value.parse().map_err(Into::into).with_context(|| format!("`{field}` of metadata"))
}

/// The name of this program in WHEEL.
const GENERATOR: &str = "rocwheel";

/// The contents of WHEEL.
///
/// `Root-Is-Purelib` is `true` although the wheels contain binaries. Some systems have different
/// directories for purelib and platlib (`lib` and `lib64`), and all packages have to be installed
/// into the same one.
///
/// `Generator` also says how the members are compressed, because another build can then take them
/// over, see [`packed_members`](super::packed_members).
pub fn wheel_text(tag: &Tag, compression: WheelCompression) -> String {
    let tags = tag.expand().iter().map(|tag| format!("Tag: {tag}\n")).join("");
    format!(
        "Wheel-Version: 1.0\nGenerator: {GENERATOR} ({}; {})\nRoot-Is-Purelib: true\n{tags}",
        env!("CARGO_PKG_VERSION"),
        compression.recipe()
    )
}

/// The facts of WHEEL that `check` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelFacts {
    /// `Tag`: the interpreters and platforms for which the wheel says it is.
    pub tags: Vec<Tag>,
    /// `Root-Is-Purelib`: whether its files belong into `purelib` and not into `platlib`.
    pub root_is_purelib: bool,
    /// The program that made the wheel: `setuptools (84.2.1)`. Empty if WHEEL does not say it.
    pub generator: String,
}

impl WheelFacts {
    /// Whether rocwheel made the wheel.
    pub fn is_made_by_us(&self) -> bool {
        self.generator.split(' ').next() == Some(GENERATOR)
    }
}

impl FromStr for WheelFacts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let headers: Headers = text.parse()?;
        let version = required(&headers, "WHEEL", "Wheel-Version")?;
        ensure!(version.starts_with("1."), "WHEEL of a version that is not known: {version:?}");
        required(&headers, "WHEEL", "Tag")?;
        let purelib = required(&headers, "WHEEL", "Root-Is-Purelib");
        Ok(Self {
            tags: headers.all("Tag").map(str::parse).collect::<Result<_>>()?,
            root_is_purelib: purelib?.eq_ignore_ascii_case("true"),
            generator: headers.get("Generator").unwrap_or_default().to_owned(),
        })
    }
}

/// A console script of `entry_points.txt`: `hipcc = rocm_sdk_core._cli:hipcc`. Installers create an
/// executable for it.
pub fn entry_point(name: &str, call: &str) -> Result<String> {
    let line = format!("{name} = {call}");
    let is_dotted = |text: &str| {
        text.split('.').all(|word| {
            word.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && word.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
    };
    // The name becomes a file name, so nothing else may be in it.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    ensure!(
        !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('.'),
        "the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only: {line:?}"
    );
    let (module, function) = call.split_once(':').unwrap_or_default();
    ensure!(
        is_dotted(module) && is_dotted(function),
        "not a module and a function of Python: {line:?}"
    );
    Ok(line)
}

/// The contents of `top_level.txt`: the names that `import` can find in the wheel, sorted.
pub fn top_level_text<'a>(members: impl IntoIterator<Item = &'a RelPath>) -> String {
    let names: BTreeSet<&str> = members
        .into_iter()
        .filter_map(|path| {
            let first = path.components().next()?;
            if path.depth() == 1 {
                first.strip_suffix(".py")
            } else {
                let is_own = matches!(first.rsplit_once('.'), Some((_, "dist-info" | "data")));
                (!is_own).then_some(first)
            }
        })
        .collect();
    names.into_iter().flat_map(|name| [name, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_is_no_header_is_refused_in_words() {
        let messages = [" folded\n", "A: 1\nplain text\n", "A: 1\n: x", "A b: 1", "A: 1\nÄ: 1"]
            .map(|text| text.parse::<Headers>().err().unwrap().to_string());
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
        let messages =
            ["", "x\nRequires-Dist: evil", "x\r", "x\u{2028}y", "\x1b[31m", " x", "x\u{a0}"]
                .map(|text| ensure_one_line(text).unwrap_err().to_string());
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

    #[test]
    fn bytes_that_are_no_metadata_are_refused_in_words() {
        let whole = "Metadata-Version: 2.4\nName: a\nVersion: 1\n";
        let refused = [
            String::new(),
            "\n".to_owned() + whole,
            whole.replace("2.4", "3.0"),
            whole.replace("2.4", "2.x"),
            whole.replace("Name: a", "Name:"),
            whole.replace("Name: a", "Name: ../a"),
            whole.replace("Version: 1", "Version: one"),
            whole.replace("Version: 1", "Version 1"),
            format!("{whole}NAME: b\n"),
            format!("{whole}Summary: a\x1b[31m\n"),
            format!("{whole}Provides-Extra: a b\n"),
        ];
        let mut messages: Vec<String> = refused
            .iter()
            .map(|text| format!("{:#}", Metadata::parse(text.as_bytes()).unwrap_err()))
            .collect();
        messages.push(Metadata::parse(b"Name: \xFF").unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        metadata without `Metadata-Version`
        metadata without `Metadata-Version`
        metadata of a version that is not known: 3.0
        metadata of a version that is not known: 2.x
        metadata without `Name`
        `Name` of metadata: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "../a"
        `Version` of metadata: not a PEP 440 version: "one": expected version to start with a number, but no leading ASCII digits were found
        line 3 is no `Name: value`: "Version 1"
        metadata with a second `Name`
        `Summary` of metadata: a control character in a value: "a\u{1b}[31m"
        `Provides-Extra` of metadata: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a b"
        metadata that is not UTF-8
        "#);
    }

    #[test]
    fn what_other_tools_write_is_understood() {
        let text = "Metadata-Version: 2.1\r\nName: Foo.Bar\r\nVersion: 1.0-1\r\nSummary: two\r\n\
            \x20       lines\r\n\x20 \r\nHome-page: https://example.com\r\nLicense: \r\nKeywords:\r\n\
            requires-dist: a\r\nRequires-Dist: b;\r\n  extra == \"x\"\r\nDescription: first\r\n\
            \x20       second\r\n       |\r\n       |\tthird\r\n\r\nRequires-Dist: c\r\n";
        let metadata = Metadata::parse(text.as_bytes()).unwrap();
        assert_eq!(metadata.requires_dist, ["a", "b; extra == \"x\""]);
        assert_eq!(metadata.name.to_string(), "foo-bar");
        assert_eq!(metadata.version.to_string(), "1.0.post1");
        assert_eq!(metadata.requires_python, None);
        // Long enough that copying the value for each line would take minutes.
        let folded = [text.trim_end(), "\nLicense: a", &"\n b".repeat(1 << 19)].concat();
        assert_eq!(Metadata::parse(folded.as_bytes()).unwrap(), metadata);
    }

    #[test]
    fn wheel_names_every_single_tag_and_reads_back() {
        let tag: Tag = "py3-none-linux_x86_64.win_amd64".parse().unwrap();
        let text = wheel_text(&tag, WheelCompression::default());
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
        Wheel-Version: 1.0
        Generator: rocwheel (VERSION; deflate level 5, revision 3)
        Root-Is-Purelib: true
        Tag: py3-none-linux_x86_64
        Tag: py3-none-win_amd64
        ");
        let facts: WheelFacts = text.parse().unwrap();
        assert_eq!(facts.tags, tag.expand());
        assert!(facts.root_is_purelib);
    }

    #[test]
    fn a_text_that_is_not_that_of_wheel_is_refused_in_words() {
        let whole = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n";
        assert!(!whole.parse::<WheelFacts>().unwrap().root_is_purelib);
        let messages = [
            String::new(),
            whole.replace("1.0", "2.0"),
            whole.replace("Tag: py3-none-any\n", ""),
            whole.replace("any", "any/"),
            whole.replace("Root-Is-Purelib: ", "Root "),
            whole.replace("Root-Is-Purelib: false\n", ""),
        ]
        .map(|text| format!("{:#}", text.parse::<WheelFacts>().unwrap_err()));
        insta::assert_snapshot!(messages.join("\n"), @r#"
        WHEEL without `Wheel-Version`
        WHEEL of a version that is not known: "2.0"
        WHEEL without `Tag`
        a tag has ASCII letters, digits, `_` and `.` only: "py3-none-any/"
        line 2 is no `Name: value`: "Root false"
        WHEEL without `Root-Is-Purelib`
        "#);
    }

    #[test]
    fn a_text_that_is_no_entry_point_is_refused_in_words() {
        let line = entry_point("amdclang++", "rocm_sdk_core._cli:amdclangpp").unwrap();
        assert_eq!(line, "amdclang++ = rocm_sdk_core._cli:amdclangpp");
        let messages = [
            ("hipcc", "a"),
            ("", "a:b"),
            ("../x", "a:b"),
            (".x", "a:b"),
            ("x", "a:"),
            ("x", "a..b:c"),
            ("x", "1a:b"),
            ("x", "a:b\n[evil]"),
            ("x", "a b:c"),
        ]
        .map(|(name, call)| entry_point(name, call).unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not a module and a function of Python: "hipcc = a"
        the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only: " = a:b"
        the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only: "../x = a:b"
        the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only: ".x = a:b"
        not a module and a function of Python: "x = a:"
        not a module and a function of Python: "x = a..b:c"
        not a module and a function of Python: "x = 1a:b"
        not a module and a function of Python: "x = a:b\n[evil]"
        not a module and a function of Python: "x = a b:c"
        "#);
    }

    #[test]
    fn top_level_names_packages_and_modules_only() {
        let paths: Vec<RelPath> = [
            "_core/lib/x.so",
            "_core/__init__.py",
            "core/__init__.py",
            "single.py",
            "README",
            "core-1.dist-info/METADATA",
            "core-1.data/scripts/x",
        ]
        .map(|text| text.parse().unwrap())
        .to_vec();
        insta::assert_snapshot!(top_level_text(&paths), @"
        _core
        core
        single
        ");
    }

    proptest! {
        #[test]
        fn every_line_reads_back_from_a_header(text in "\\PC{1,20}") {
            if ensure_one_line(&text).is_ok() {
                let headers: Headers = format!("A: {text}\nB: x\n").parse().unwrap();
                prop_assert_eq!(headers.iter().count(), 2);
                prop_assert_eq!(headers.get("A"), Some(&*text));
            }
        }

        #[test]
        fn any_bytes_are_metadata_or_an_error(text in "(Metadata-Version: 2.4\nName: a\nVersion: 1\n)?([\\PC\r\n:]{0,40}|(A: ?|[ \t\r\n:]|\\PC){0,20})") {
            let _ = Metadata::parse(text.as_bytes());
        }
    }
}
