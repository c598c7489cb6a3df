//! The Python that ships inside the packages, embedded at compile time.
//!
//! It lives under `src/package/python/`, where it is linted and tested as ordinary Python.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::package::{catalog::PackageSpec, python_literal::literal};

/// A file of a package: its name and its text.
pub type Text = (&'static str, &'static str);

macro_rules! texts {
    ($root:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("python/", $root, "/", $name)))),*]
    };
}

/// The static part of `_dist_info.py`; `dist_info::render` adds the rest.
pub const DIST_INFO: &str = include_str!("python/_dist_info.py");

/// The console scripts of a package that has no text of its own here; functions follow it.
const CLI: &str = include_str!("python/_cli.py");

/// The description of the `rocm` package; its name and version are filled in.
const README: &str = include_str!("python/rocm/README.md");

const ROCM_SDK: &[Text] = texts!("rocm/src/rocm_sdk":
    "__init__.py",
    "__main__.py",
    "_archive.py",
    "_devel.py",
    "_device_links.py",
    "_expand.py",
    "_installed.py",
    "_libraries.py",
    "_links.py",
    "_lock.py",
    "_manifest.py",
    "_patience.py",
    "_problem.py",
    "_process.py",
    "_record.py",
    "_versions.py",
    "py.typed",
    "tests/__init__.py",
    "tests/base_test.py",
    "tests/core_test.py",
    "tests/devel_test.py",
    "tests/device_test.py",
    "tests/libraries_test.py",
    "tests/profiler_test.py",
    "tests/runner.py",
    "tests/utils.py",
);

const ROCM_TOP: &[Text] = texts!("rocm":
    "MANIFEST.in",
    "pyproject.toml",
    "rocm_build.py",
    "setup.py",
);

const CORE: &[Text] = texts!("rocm_sdk_core": "__init__.py", "_cli.py", "py.typed");
const LIBRARIES: &[Text] = texts!("rocm_sdk_libraries": "__init__.py", "py.typed");
const DEVEL: &[Text] = texts!("rocm_sdk_devel": "__init__.py", "py.typed");
const PROFILER: &[Text] = texts!("rocm_profiler": "__init__.py", "_cli.py", "py.typed");

/// The files of a package's pure part, by its logical name, without `_dist_info.py`.
///
/// Empty for packages that have none: a device package only adds files to the libraries.
pub fn pure_package(logical: &str) -> &'static [Text] {
    match logical {
        "meta" => ROCM_SDK,
        "core" => CORE,
        "libraries" => LIBRARIES,
        "devel" => DEVEL,
        "profiler" => PROFILER,
        _ => &[],
    }
}

/// The Python part of a runtime package that only `packages.toml` knows.
pub fn plain_package(package: &PackageSpec) -> Vec<(&'static str, String)> {
    let mut files = vec![
        (
            "__init__.py",
            format!("\"\"\"The files of `{}`.\"\"\"\n", package.name),
        ),
        ("py.typed", String::new()),
    ];
    let mut functions = BTreeMap::new();
    for script in &package.scripts {
        if let Some(runs) = &script.runs {
            functions.insert(script.function(), literal(runs.as_str()));
        }
    }
    if !functions.is_empty() {
        let mut text = CLI.to_owned();
        for (function, runs) in functions {
            let _ = write!(
                text,
                "\n\ndef {function}() -> NoReturn:\n    _run({runs})\n"
            );
        }
        files.push(("_cli.py", text));
    }
    files
}

/// The description of the selector, with the line that installs this version and no other.
pub fn readme(dist: &str, version: &str) -> String {
    README.replace("{name}", dist).replace("{version}", version)
}

/// The files at the top of the `rocm` source distribution, without its description.
pub fn sdist_top() -> &'static [Text] {
    ROCM_TOP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pure_package_is_typed_and_starts_with_its_purpose() {
        for logical in ["meta", "core", "libraries", "devel", "profiler"] {
            let files = pure_package(logical);
            assert!(
                files.iter().any(|(name, _)| *name == "py.typed"),
                "{logical}"
            );
            for (name, text) in files.iter().filter(|(name, _)| *name != "py.typed") {
                assert!(text.starts_with("\"\"\""), "{logical}: {name}");
                assert!(text.ends_with('\n'), "{logical}: {name}");
                assert!(!text.contains('\r'), "{logical}: {name}");
                assert!(text.lines().count() < 500, "{logical}: {name}");
            }
        }
    }

    /// Another index may have a `rocm` of somebody else, and a newer one.
    #[test]
    fn every_line_that_installs_names_an_index_and_pins_the_version() {
        let readme = readme("rocm", "7.13.0");
        let python = ["meta", "core", "libraries", "devel", "profiler"].map(pure_package);
        let python = python.iter().flat_map(|files| files.iter());
        let texts = python.chain(ROCM_TOP).map(|(_, text)| *text);
        let texts: Vec<&str> = texts.chain([DIST_INFO, CLI, &readme]).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        let found: Vec<_> = lines.filter(|it| it.contains("pip install")).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        for line in found {
            assert!(line.contains("pip install --index-url INDEX_URL"), "{line}");
            assert!(
                line.contains("=={__version__}") || line.contains("==7.13.0"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_device_package_has_no_pure_part() {
        assert!(pure_package("device").is_empty());
    }
}
