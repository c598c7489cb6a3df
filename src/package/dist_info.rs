//! Writes and reads `_dist_info.py`: a static text, then generated lines with the version, the targets and
//! the tables of `packages.toml`.
//!
//! Every value is written as a Python literal, so no text in a version, a suffix or a target can
//! become code.

use std::{collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;
use ruff_python_ast::{Expr, ExprCall, Stmt};

use crate::{
    error::{Context as _, Result, bail},
    glob::Glob,
    package::{
        catalog::{Catalog, PackageSpec},
        naming::DistributionMode,
        python_source,
        required_file::{self, RequiredFile, RequiredFileKind},
    },
    run::Platform,
    target::{PlatformView, Scope, Target, TargetTable},
};

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

/// Renders the text of `_dist_info.py` for a package, and the target or family that it is for.
pub(super) fn render(info: &DistInfo<'_>, package: &str, target: Option<&Scope>) -> String {
    let lines = [tables(info), generated(info, package, target)].concat();
    format!("{DIST_INFO}{}\n", lines.join("\n"))
}

/// The text of `_dist_info.py` for device wheels of another package, whose names begin with `prefix`.
pub(super) fn of_devices(prefix: &str, version: &str, targets: &[Target]) -> String {
    let template = format!("{prefix}{{target_family}}");
    let module = [("pure_py_package_name", Some(""))];
    let mut lines = vec![call("PackageEntry", &["device", &template], &module, None)];
    lines.extend(known_targets());
    lines.push(format!("__version__ = {}", literal(version)));
    let names = targets.iter().map(|it| literal(it.as_str())).collect_vec();
    lines.extend(names.first().map(|it| format!("DEFAULT_TARGET_FAMILY = {it}")));
    let names = names.iter();
    lines.extend(names.map(|it| format!("AVAILABLE_TARGET_FAMILIES.append({it})")));
    format!("{DIST_INFO}{}\n", lines.join("\n"))
}

/// The generated lines, in their order.
fn generated(info: &DistInfo<'_>, package: &str, target: Option<&Scope>) -> Vec<String> {
    let scope = |scope: &Scope| literal(&scope.to_string());
    let default = |name| format!("DEFAULT_TARGET_FAMILY = {}", scope(name));
    let append = |list: &str, names: &[Scope]| {
        let lines = names.iter();
        let lines = lines.map(|name| format!("{list}_TARGET_FAMILIES.append({})", scope(name)));
        lines.collect::<Vec<_>>()
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
    let target = info.only.as_ref().or(target);
    let target = target.map_or("None".to_owned(), scope);
    lines.push(format!("THIS_TARGET_FAMILY = {target}"));
    let package = literal(package);
    lines.push(format!("THIS_PACKAGE_ENTRY = ALL_PACKAGES[{package}]"));
    if let Some(only) = &info.only {
        lines.push(default(only));
        lines.extend(append("AVAILABLE", std::slice::from_ref(only)));
    }
    lines
}

/// The tables of the policy: packages, libraries and files, and the families of each target.
fn tables(info: &DistInfo<'_>) -> Vec<String> {
    let packages = info.catalog.packages();
    let entries = packages.iter().map(|package| {
        let template = package.dist_template(info.mode).python_template();
        let platform = package.only_platform().map(Platform::sys_platform);
        let module = ("pure_py_package_name", Some(&*package.python));
        let named = [module, ("sys_platform", platform)];
        let flag = package.required.then_some("required");
        call("PackageEntry", &[&package.name, &template], &named, flag)
    });
    let libraries = packages.iter().flat_map(|package| {
        package.libraries.iter().map(|it| {
            let texts = [&*it.name, &*package.name, &*it.linux, &*it.windows];
            let directory = Some(it.directory.as_str()).filter(|it| *it != "lib");
            let named = [("posix_relpath", directory)];
            let flag = it.optional.then_some("optional");
            call("LibraryEntry", &texts, &named, flag)
        })
    });
    let files = packages.iter().flat_map(files);
    entries.chain(libraries).chain(files).chain(known_targets()).collect()
}

/// What is known of targets: their families, versions and code names.
fn known_targets() -> impl Iterator<Item = String> {
    let table = TargetTable::builtin();
    let families = table.known().map(|target| {
        let families = table.families_of(target).iter();
        let families = families.map(|one| literal(&one.to_string())).join(", ");
        let target = literal(&target.to_string());
        format!("_FAMILIES[{target}] = ({families},)")
    });
    let versions = by_target("_IP_VERSIONS", table.ip());
    let names = by_target("_CODE_NAMES", table.code_names());
    families.chain(versions).chain(names)
}

/// Lines that give each target its names in a table.
fn by_target<'a>(
    variable: &str,
    names: impl Iterator<Item = (&'a str, &'a Target)>,
) -> impl Iterator<Item = String> {
    let by_target = names.map(|(name, target)| (target, literal(name)));
    let by_target: BTreeMap<&Target, Vec<String>> =
        by_target.into_group_map().into_iter().collect();
    by_target.into_iter().map(move |(target, names)| {
        let (target, names) = (literal(target.as_str()), names.join(", "));
        format!("{variable}[{target}] = ({names},)")
    })
}

/// The programs of the console scripts of a package, and its other files.
fn files(package: &PackageSpec) -> Vec<String> {
    let entry = |path: &str, command, platform: Option<Platform>, is_optional: bool| {
        let platform = platform.map(Platform::sys_platform);
        let named = [("command", command), ("sys_platform", platform)];
        let flag = is_optional.then_some("optional");
        call("FileEntry", &[&package.name, path], &named, flag)
    };
    let programs = package.scripts.iter().filter_map(|it| {
        let path = it.runs.as_ref()?.as_str();
        Some(entry(path, Some(&*it.name), it.platform, it.if_present))
    });
    let files = package.files.iter();
    let files = files.map(|it| entry(&it.path, None, it.platform, false));
    programs.chain(files).collect()
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

/// A call on one line: `Name('a', 'b', key='c', flag=True)`.
fn call(
    function: &str,
    texts: &[&str],
    named: &[(&str, Option<&str>)],
    flag: Option<&str>,
) -> String {
    let texts = texts.iter().map(|text| literal(text));
    let named = named.iter();
    let named = named.filter_map(|(name, text)| Some(format!("{name}={}", literal((*text)?))));
    let flag = flag.map(|flag| format!("{flag}=True"));
    format!("{function}({})", texts.chain(named).chain(flag).join(", "))
}

/// Reads the required files for a platform from a `_dist_info.py`. They are those of all packages of the
/// set.
pub fn read(dist_info: &str, platform: Platform) -> Result<Vec<RequiredFile>> {
    // Python with errors is parsed as far as possible: other checks report the errors.
    python_source::parse(dist_info, |parsed| {
        let mut required_files = Vec::new();
        for statement in &parsed.syntax().body {
            if let Stmt::Expr(statement) = statement
                && let Expr::Call(call) = &*statement.value
            {
                let file = of_call(call, platform);
                let context = || format!("failed to read `{}`", &dist_info[call.range]);
                required_files.extend(file.with_context(context)?);
            }
        }
        Ok(required_files)
    })?
}

/// The file of `LibraryEntry('x', 'libraries', 'libx.so*', '')` or `FileEntry('core', 'bin/x')`,
/// if it is for this platform.
fn of_call(call: &ExprCall, platform: Platform) -> Result<Option<RequiredFile>> {
    let function = call.func.as_name_expr().map_or("", |name| name.id.as_str());
    let texts = call.arguments.args.iter().filter_map(text).collect_vec();
    let named = |name| Some(&call.arguments.find_keyword(name)?.value);
    let (package, kind, pattern) = match (function, &texts[..]) {
        ("LibraryEntry", [name, package, linux, windows]) => {
            let directory = named("posix_relpath").and_then(text).unwrap_or("lib");
            let pattern = required_file::library(platform, directory, [linux, windows]);
            (package, RequiredFileKind::Library((*name).to_owned()), pattern)
        }
        ("FileEntry", [package, path]) => {
            let (kind, path) = match named("command").and_then(text) {
                Some(name) => (
                    RequiredFileKind::Command(name.to_owned()),
                    required_file::program(path, platform),
                ),
                None => (RequiredFileKind::File, (*path).to_owned()),
            };
            let only = named("sys_platform").and_then(text);
            let is_here = only.is_none_or(|only| only == platform.sys_platform());
            (package, kind, is_here.then(|| Glob::new(path)))
        }
        ("LibraryEntry" | "FileEntry", _) => bail!("unexpected arguments"),
        _ => return Ok(None),
    };
    let is_true = |value: &Expr| matches!(value, Expr::BooleanLiteral(literal) if literal.value);
    let required = pattern.filter(|_| !named("optional").is_some_and(is_true));
    Ok(required.map(|pattern| RequiredFile {
        package: (*package).to_owned(),
        kind,
        pattern,
        artifact: None,
    }))
}

fn text(expression: &Expr) -> Option<&str> {
    let literal = expression.as_string_literal_expr()?;
    Some(literal.value.to_str())
}

#[cfg(test)]
mod tests;
