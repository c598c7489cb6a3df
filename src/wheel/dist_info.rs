//! The small files of a `.dist-info` directory besides METADATA and RECORD: WHEEL
//! ([PEP 427](https://peps.python.org/pep-0427/)), `entry_points.txt` and `top_level.txt`.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::{
    relpath::RelPath,
    wheel::{
        headers::{self, InvalidHeader, InvalidLine},
        tag::{InvalidTag, Tag},
    },
};

/// The contents of WHEEL.
///
/// `Root-Is-Purelib` is `true` although the wheels contain binaries. Some systems have different
/// directories for purelib and platlib (`lib` and `lib64`), and all packages have to be installed
/// into the same one.
pub fn wheel_text(tag: &Tag) -> String {
    let tags = tag.expand();
    let tags: Vec<String> = tags.iter().map(|tag| format!("Tag: {tag}\n")).collect();
    format!(
        "Wheel-Version: 1.0\nGenerator: rocwheel ({})\nRoot-Is-Purelib: true\n{}",
        env!("CARGO_PKG_VERSION"),
        tags.concat()
    )
}

/// The facts of WHEEL that `check` needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelFacts {
    pub tags: Vec<Tag>,
    pub root_is_purelib: bool,
}

/// Error of parsing WHEEL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWheelText {
    #[error(transparent)]
    Header(#[from] InvalidHeader),
    #[error(transparent)]
    Line(#[from] InvalidLine),
    #[error(transparent)]
    Tag(#[from] InvalidTag),
    #[error("WHEEL without `{0}`")]
    Missing(&'static str),
    #[error("WHEEL of a version that is not known: {0:?}")]
    Version(String),
}

impl FromStr for WheelFacts {
    type Err = InvalidWheelText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (headers, _) = headers::parse(text)?;
        let values = |name: &'static str| {
            headers
                .iter()
                .filter(move |header| header.name.eq_ignore_ascii_case(name))
                .map(|header| header.value.as_str())
        };
        let first = |name| values(name).next().ok_or(InvalidWheelText::Missing(name));
        let version = first("Wheel-Version")?;
        if !version.starts_with("1.") {
            return Err(InvalidWheelText::Version(version.to_owned()));
        }
        let tags: Vec<Tag> = values("Tag").map(str::parse).collect::<Result<_, _>>()?;
        if tags.is_empty() {
            return Err(InvalidWheelText::Missing("Tag"));
        }
        Ok(Self {
            tags,
            root_is_purelib: first("Root-Is-Purelib")?.eq_ignore_ascii_case("true"),
        })
    }
}

/// A console script, `hipcc = rocm_sdk_core._cli:hipcc`. Installers create an executable for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPoint {
    name: Box<str>,
    module: Box<str>,
    function: Box<str>,
}

/// Error of parsing an [`EntryPoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidEntryPoint {
    text: String,
    reason: &'static str,
}

impl EntryPoint {
    /// The name of the executable, `hipcc`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module to import, `rocm_sdk_core._cli`.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// The function to call, `hipcc`.
    pub fn function(&self) -> &str {
        &self.function
    }
}

impl FromStr for EntryPoint {
    type Err = InvalidEntryPoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidEntryPoint {
            text: text.to_owned(),
            reason,
        };
        let (name, target) = text
            .split_once('=')
            .ok_or_else(|| invalid("an entry point is `name = module:function`"))?;
        let (module, function) = target
            .split_once(':')
            .ok_or_else(|| invalid("an entry point is `name = module:function`"))?;
        let (name, module, function) = (name.trim(), module.trim(), function.trim());
        // The name becomes a file name, so nothing else may be in it.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        if name.is_empty() || !name.chars().all(is_plain) || name.starts_with('.') {
            return Err(invalid(
                "the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only",
            ));
        }
        if !is_dotted(module) || !is_dotted(function) {
            return Err(invalid("not a module and a function of Python"));
        }
        Ok(Self {
            name: name.into(),
            module: module.into(),
            function: function.into(),
        })
    }
}

impl fmt::Display for EntryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}:{}", self.name, self.module, self.function)
    }
}

/// Whether a text consists of identifiers separated by dots.
fn is_dotted(text: &str) -> bool {
    text.split('.').all(|word| {
        word.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

const CONSOLE_SCRIPTS: &str = "[console_scripts]";

/// The contents of `entry_points.txt`, sorted by name; `None` if there are no commands.
pub fn entry_points_text(commands: &[EntryPoint]) -> Option<String> {
    let sorted: BTreeSet<&EntryPoint> = commands.iter().collect();
    let lines = sorted.iter().map(|command| format!("{command}\n"));
    (!commands.is_empty()).then(|| format!("{CONSOLE_SCRIPTS}\n{}", lines.collect::<String>()))
}

/// Parses the console scripts of `entry_points.txt`. Other groups are ignored.
pub fn parse_entry_points(text: &str) -> Result<Vec<EntryPoint>, InvalidEntryPoint> {
    let mut group = "";
    let mut commands = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            group = line;
        } else if group == CONSOLE_SCRIPTS && !line.is_empty() && !line.starts_with(['#', ';']) {
            commands.push(line.parse()?);
        }
    }
    Ok(commands)
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
    use super::*;
    use crate::error::Error;

    #[test]
    fn wheel_names_every_single_tag_and_reads_back() {
        let tag: Tag = "py3-none-linux_x86_64.win_amd64".parse().unwrap();
        let text = wheel_text(&tag);
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "VERSION"), @"
        Wheel-Version: 1.0
        Generator: rocwheel (VERSION)
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
        .map(|text| format!("{:#}", Error::from(text.parse::<WheelFacts>().unwrap_err())));
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
    fn entry_points_are_sorted_and_read_back() {
        let commands: Vec<EntryPoint> = [
            "rocminfo=rocm_sdk_core._cli:rocm_info",
            "amdclang++ = rocm_sdk_core._cli:amdclangpp",
        ]
        .map(|text| text.parse().unwrap())
        .to_vec();
        let text = entry_points_text(&commands).unwrap();
        insta::assert_snapshot!(text, @"
        [console_scripts]
        amdclang++ = rocm_sdk_core._cli:amdclangpp
        rocminfo = rocm_sdk_core._cli:rocm_info
        ");
        let other = format!("[x]\nno = script\n# {text}\n{text}\n[y]\n\n");
        let read = parse_entry_points(&other).unwrap();
        assert_eq!(read, [commands[1].clone(), commands[0].clone()]);
        assert_eq!(entry_points_text(&[]), None);
    }

    #[test]
    fn a_text_that_is_no_entry_point_is_refused_in_words() {
        let messages = [
            "hipcc",
            "hipcc = a",
            "= a:b",
            "../x = a:b",
            ".x = a:b",
            "x = a:",
            "x = a..b:c",
            "x = 1a:b",
            "x = a:b\n[evil]",
            "x = a b:c",
        ]
        .map(|text| text.parse::<EntryPoint>().unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an entry point is `name = module:function`: "hipcc"
        an entry point is `name = module:function`: "hipcc = a"
        the name of a command has ASCII letters, digits, `_`, `-`, `.` and `+` only: "= a:b"
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
}
