//! Writes the two files that say what a set has, in every package: `_dist_info.json` has the tables of
//! `packages.toml`; `_dist_info.py` is a static text that reads them, then generated lines with the version
//! and the targets.
//!
//! Every value in those lines is written as a Python literal, so no text in a version, a suffix or a target
//! can become code.

mod tables;

use std::fmt::Write as _;

use itertools::Itertools as _;

pub use self::tables::Tables;
use crate::policy::{catalog::Catalog, naming::DistributionMode};
use rocwheel_base::{
    error::Result,
    target::{PlatformView, Scope, Target},
};

/// The names of the two files.
pub const MODULE: &str = "_dist_info.py";
pub const TABLES: &str = "_dist_info.json";
/// The static part; `render` adds the rest.
pub(super) const DIST_INFO: &str = include_str!("python/_dist_info.py");

/// What the packages of a set say about it in `_dist_info.py` and in the metadata of `rocm`.
#[derive(Clone, Debug)]
pub struct DistInfo<'a> {
    pub catalog: &'a Catalog,
    pub mode: DistributionMode,
    pub version: String,
    /// The suffix of the import names of packages with files.
    pub suffix: String,
    pub view: PlatformView,
    /// Names of optional packages that the set does not have.
    pub absent: Vec<String>,
    /// The only family that the text names. Only legacy sets with several families have it.
    pub only: Option<Scope>,
}

/// The two files of a package, and the target or family that it is for.
pub(super) fn render(
    info: &DistInfo<'_>,
    package: &str,
    target: Option<&Scope>,
) -> Result<[(&'static str, String); 2]> {
    let tables = Tables::of_packages(info.catalog.packages(), info.mode);
    both(&tables, &generated(info, package, target))
}

/// The two files for device wheels of another package, whose names begin with `prefix`.
pub(super) fn of_devices(
    prefix: &str,
    version: &str,
    targets: &[Target],
) -> Result<[(&'static str, String); 2]> {
    let mut lines = vec![format!("__version__ = {}", literal(version))];
    let names = targets.iter().map(|it| literal(it.as_str())).collect_vec();
    lines.extend(names.first().map(|it| format!("DEFAULT_TARGET_FAMILY = {it}")));
    lines.extend(names.iter().map(|it| format!("AVAILABLE_TARGET_FAMILIES.append({it})")));
    both(&Tables::of_devices(prefix), &lines)
}

fn both(tables: &Tables, lines: &[String]) -> Result<[(&'static str, String); 2]> {
    let module = format!("{DIST_INFO}{}\n", lines.join("\n"));
    Ok([(TABLES, tables.render()?), (MODULE, module)])
}

/// The version that a line `__version__ = '7.14.0'` assigns.
pub fn assigned_version(line: &str) -> Option<&str> {
    let value = line.strip_prefix("__version__ = ")?;
    Some(value.trim_end().trim_matches(['\'', '"']))
}

/// The generated lines, in their order.
fn generated(info: &DistInfo<'_>, package: &str, target: Option<&Scope>) -> Vec<String> {
    let scope = |scope: &Scope| literal(&scope.to_string());
    let default = |name| format!("DEFAULT_TARGET_FAMILY = {}", scope(name));
    let append = |list: &str, names: &[Scope]| -> Vec<String> {
        let line = |name| format!("{list}_TARGET_FAMILIES.append({})", scope(name));
        names.iter().map(line).collect()
    };
    let mut lines = vec![
        format!("__version__ = {}", literal(&info.version)),
        format!("PY_PACKAGE_SUFFIX_NONCE = {}", literal(&info.suffix)),
    ];
    if info.only.is_none() {
        lines.extend(info.view.default.as_ref().map(default));
        lines.extend(append("AVAILABLE", &info.view.available));
        lines.extend(append("LINUX", &info.view.linux));
        lines.extend(append("WINDOWS", &info.view.windows));
    }
    for name in &info.absent {
        lines.push(format!("ABSENT_PACKAGES.append({})", literal(name)));
    }
    let target = info.only.as_ref().or(target).map_or("None".to_owned(), scope);
    lines.push(format!("THIS_TARGET_FAMILY = {target}"));
    let package = literal(package);
    lines.push(format!("THIS_PACKAGE_ENTRY = ALL_PACKAGES[{package}]"));
    if let Some(only) = &info.only {
        lines.push(default(only));
        lines.extend(append("AVAILABLE", std::slice::from_ref(only)));
    }
    lines
}

/// The Python string literal for a value, nearly as `repr` writes it.
///
/// `repr` keeps all non-ASCII characters that the Unicode version of Python calls printable. Here
/// only letters and digits are kept, and all others are escaped. The value is the same.
pub(super) fn literal(value: &str) -> String {
    let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in value.chars() {
        let _ = match (c, u32::from(c)) {
            ('\n', _) => write!(out, "\\n"),
            ('\r', _) => write!(out, "\\r"),
            ('\t', _) => write!(out, "\\t"),
            (c, _) if c == quote || c == '\\' => write!(out, "\\{c}"),
            (' '..='~', _) => write!(out, "{c}"),
            (c, _) if !c.is_ascii() && c.is_alphanumeric() => write!(out, "{c}"),
            (_, code @ 0..=0xff) => write!(out, "\\x{code:02x}"),
            (_, code @ 0x100..=0xffff) => write!(out, "\\u{code:04x}"),
            (_, code) => write!(out, "\\U{code:08x}"),
        };
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests;
