//! `_dist_info.py`: a static text and generated lines that say version, targets and package.
//!
//! Every value is written as a Python literal, so that no text in a version, a suffix or a target
//! can become code.

use std::fmt::Write as _;

use crate::package::templates;

/// What one package knows about itself and its distribution.
#[derive(Clone, Copy, Debug)]
pub struct DistInfo<'a> {
    pub version: &'a str,
    /// Appended to every import name of a package with files.
    pub nonce: &'a str,
    pub form: Form,
    pub default: Option<&'a str>,
    pub available: &'a [String],
    pub linux: &'a [String],
    pub windows: &'a [String],
    /// Logical names of optional packages that this distribution goes without.
    pub absent: &'a [String],
    pub this_target: Option<&'a str>,
    pub this_package: &'a str,
    /// The import name of the libraries package: device packages only.
    pub libraries_py_package: Option<&'a str>,
}

/// How device code is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Libraries per family, device code inside.
    Legacy,
    /// Legacy, and the text names no family but its own (`this_target`).
    Restricted,
    /// Libraries for every target, device code in packages of its own.
    Split,
}

/// The whole text of `_dist_info.py`.
pub fn render(info: &DistInfo<'_>) -> String {
    let mut text = String::from(templates::DIST_INFO);
    for line in generated(info) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The generated lines alone, in their order.
pub fn generated(info: &DistInfo<'_>) -> Vec<String> {
    let mut lines = vec![
        format!("__version__ = {}", literal(info.version)),
        format!("PY_PACKAGE_SUFFIX_NONCE = {}", literal(info.nonce)),
    ];
    let own = info
        .this_target
        .filter(|_| info.form == Form::Restricted)
        .map(str::to_owned);
    if own.is_none() {
        lines.extend(distribution(info));
    }
    lines.extend(appends("ABSENT_PACKAGES", info.absent));
    lines.push(format!(
        "THIS_TARGET_FAMILY = {}",
        info.this_target.map_or("None".to_owned(), literal)
    ));
    lines.push(format!(
        "THIS_PACKAGE_ENTRY = ALL_PACKAGES[{}]",
        literal(info.this_package)
    ));
    if let Some(own) = own {
        lines.push(format!("DEFAULT_TARGET_FAMILY = {}", literal(&own)));
        lines.extend(appends("AVAILABLE_TARGET_FAMILIES", &[own]));
    }
    if let Some(name) = info.libraries_py_package {
        lines.push(format!("LIBRARIES_PY_PACKAGE_NAME = {}", literal(name)));
    }
    lines
}

/// What all packages of an unrestricted distribution say alike.
fn distribution(info: &DistInfo<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if info.form == Form::Split {
        lines.push(
            "ALL_PACKAGES[\"libraries\"].dist_package_template = \"rocm-sdk-libraries\"".to_owned(),
        );
    }
    if let Some(default) = info.default {
        lines.push(format!("DEFAULT_TARGET_FAMILY = {}", literal(default)));
    }
    lines.extend(appends("AVAILABLE_TARGET_FAMILIES", info.available));
    lines.extend(appends("LINUX_TARGET_FAMILIES", info.linux));
    lines.extend(appends("WINDOWS_TARGET_FAMILIES", info.windows));
    lines
}

fn appends(list: &str, values: &[String]) -> impl Iterator<Item = String> {
    let list = list.to_owned();
    values
        .iter()
        .map(move |value| format!("{list}.append({})", literal(value)))
}

/// A Python string literal with this value: what `repr` writes.
///
/// `repr` keeps printable characters beyond ASCII, which its version of Unicode decides; here they
/// are kept if they are letters or digits and escaped otherwise, which has the same value.
pub fn literal(value: &str) -> String {
    let quote = if value.contains('\'') && !value.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if !c.is_ascii() && c.is_alphanumeric() => out.push(c),
            c => escape(&mut out, u32::from(c)),
        }
    }
    out.push(quote);
    out
}

fn escape(out: &mut String, code: u32) {
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn split<'a>(available: &'a [String], linux: &'a [String]) -> DistInfo<'a> {
        DistInfo {
            version: "10.1.0a20260820",
            nonce: "",
            form: Form::Split,
            default: Some("gfx1100"),
            available,
            linux,
            windows: &[],
            absent: &[],
            this_target: None,
            this_package: "libraries",
            libraries_py_package: None,
        }
    }

    #[test]
    fn a_split_package_says_the_whole_distribution() {
        let (all, linux, windows) = (
            texts(&["gfx1100", "gfx1201", "gfx942"]),
            texts(&["gfx1100", "gfx942"]),
            texts(&["gfx1100", "gfx1201"]),
        );
        let info = DistInfo {
            windows: &windows,
            ..split(&all, &linux)
        };
        insta::assert_snapshot!(generated(&info).join("\n"), @r#"
        __version__ = '10.1.0a20260820'
        PY_PACKAGE_SUFFIX_NONCE = ''
        ALL_PACKAGES["libraries"].dist_package_template = "rocm-sdk-libraries"
        DEFAULT_TARGET_FAMILY = 'gfx1100'
        AVAILABLE_TARGET_FAMILIES.append('gfx1100')
        AVAILABLE_TARGET_FAMILIES.append('gfx1201')
        AVAILABLE_TARGET_FAMILIES.append('gfx942')
        LINUX_TARGET_FAMILIES.append('gfx1100')
        LINUX_TARGET_FAMILIES.append('gfx942')
        WINDOWS_TARGET_FAMILIES.append('gfx1100')
        WINDOWS_TARGET_FAMILIES.append('gfx1201')
        THIS_TARGET_FAMILY = None
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']
        "#);
    }

    #[test]
    fn a_device_package_names_the_libraries_it_extends() {
        let all = texts(&["gfx942"]);
        let info = DistInfo {
            default: Some("gfx942"),
            this_target: Some("gfx942"),
            this_package: "device",
            libraries_py_package: Some("_rocm_sdk_libraries"),
            ..split(&all, &[])
        };
        insta::assert_snapshot!(generated(&info)[3..].join("\n"), @r"
        DEFAULT_TARGET_FAMILY = 'gfx942'
        AVAILABLE_TARGET_FAMILIES.append('gfx942')
        THIS_TARGET_FAMILY = 'gfx942'
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['device']
        LIBRARIES_PY_PACKAGE_NAME = '_rocm_sdk_libraries'
        ");
    }

    #[test]
    fn a_restricted_package_names_no_family_but_its_own() {
        let all = texts(&["gfx110X-all", "gfx94X-dcgpu"]);
        let info = DistInfo {
            form: Form::Restricted,
            default: Some("gfx110X-all"),
            this_target: Some("gfx94X-dcgpu"),
            this_package: "meta",
            ..split(&all, &all)
        };
        insta::assert_snapshot!(generated(&info).join("\n"), @r"
        __version__ = '10.1.0a20260820'
        PY_PACKAGE_SUFFIX_NONCE = ''
        THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
        DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
        AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
        ");
    }

    #[test]
    fn a_restriction_without_a_target_restricts_nothing() {
        let all = texts(&["gfx110X-all", "gfx94X-dcgpu"]);
        let info = DistInfo {
            form: Form::Restricted,
            ..split(&all, &[])
        };
        assert!(generated(&info).join("\n").contains("gfx110X-all"));
    }

    #[test]
    fn a_distribution_says_what_it_goes_without() {
        let absent = texts(&["profiler"]);
        let info = DistInfo {
            absent: &absent,
            default: None,
            ..split(&[], &[])
        };
        insta::assert_snapshot!(generated(&info)[3..].join("\n"), @r"
        ABSENT_PACKAGES.append('profiler')
        THIS_TARGET_FAMILY = None
        THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']
        ");
    }

    #[test]
    fn the_generated_lines_follow_the_template() {
        let text = render(&split(&[], &[]));
        assert!(text.starts_with(templates::DIST_INFO));
        assert!(text.ends_with("THIS_PACKAGE_ENTRY = ALL_PACKAGES['libraries']\n"));
    }

    #[test]
    fn literals_are_what_python_writes() {
        let cases = [
            ("10.1.0", "'10.1.0'"),
            ("it's", "\"it's\""),
            ("'\"", r#"'\'"'"#),
            ("a\\b\n\r\t\0\x7f", r"'a\\b\n\r\t\x00\x7f'"),
            ("é日\u{a0}\u{2028}\u{202e}", r"'é日\xa0\u2028\u202e'"),
            ("\u{1f600}", r"'\U0001f600'"),
            ("'); import os #", "\"'); import os #\""),
        ];
        for (value, expected) in cases {
            assert_eq!(literal(value), expected);
        }
    }

    /// Reads a literal back as Python does; `None` if it ends early or is no literal.
    fn value(literal: &str) -> Option<String> {
        let quote = literal.chars().next().filter(|c| "'\"".contains(*c))?;
        let inner = literal.get(1..literal.len() - 1)?;
        (literal.len() > 1 && literal.ends_with(quote)).then_some(())?;
        let mut chars = inner.chars();
        let mut out = String::new();
        while let Some(c) = chars.next() {
            if c == quote || c == '\n' || c == '\r' {
                return None;
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            let digits = match chars.next()? {
                'n' => {
                    out.push('\n');
                    continue;
                }
                'r' => {
                    out.push('\r');
                    continue;
                }
                't' => {
                    out.push('\t');
                    continue;
                }
                'x' => 2,
                'u' => 4,
                'U' => 8,
                c => {
                    out.push(c);
                    continue;
                }
            };
            let hex: String = chars.by_ref().take(digits).collect();
            out.push(char::from_u32(u32::from_str_radix(&hex, 16).ok()?)?);
        }
        Some(out)
    }

    proptest! {
        #[test]
        fn no_text_can_leave_its_literal(text in any::<String>()) {
            prop_assert_eq!(value(&literal(&text)), Some(text));
        }

        #[test]
        fn hostile_texts_stay_one_line_each(text in r#"['"\\\n\r\u{2028}#;)(]{0,12}"#) {
            let all = [text.clone()];
            let info = DistInfo { version: &text, nonce: &text, ..split(&all, &all) };
            let rendered = generated(&info);
            prop_assert_eq!(rendered.join("\n").lines().count(), rendered.len());
            prop_assert_eq!(value(&literal(&text)), Some(text));
        }
    }
}
