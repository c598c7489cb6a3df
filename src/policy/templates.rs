//! The Python code that ships in the packages, embedded at compile time.
//!
//! Its source is in `src/policy/python/`, where it is linted and tested as ordinary Python.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::policy::{
    catalog::{PackageKind, PackageSpec},
    dist_info::{self, DistInfo, literal},
};
use rocwheel_base::{error::Result, target::Scope};

/// A file of a package: its name and its text.
type Text = (&'static str, &'static str);

macro_rules! texts {
    ($root:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("python/", $root, "/", $name)))),*]
    };
}

/// The start of `_cli.py`, which runs programs. `console_scripts` adds one function per script.
const CLI: &str = include_str!("python/_cli.py");
const CORE_CLI: &str = include_str!("python/rocm_sdk_core/_cli.py");
const PROFILER_CLI: &str = include_str!("python/rocm_profiler/_cli.py");

/// The description of the `rocm` package, with placeholders for name and version.
pub(super) const README: &str = include_str!("python/rocm/README.md");
/// The description of every other package, with placeholders.
const DESCRIPTION: &str = include_str!("python/package.md");

/// The description of a package of a set. It names no version, so that a promotion leaves it as it is.
pub fn description(spec: &PackageSpec, dist: &str, scope: Option<&Scope>) -> String {
    let how = match scope.map(Scope::packaged) {
        Some(target) if spec.kind == PackageKind::Device => {
            format!("Install it as `rocm[device-{target}]`")
        }
        _ if spec.required => "`rocm` always installs it".to_owned(),
        _ => format!("Install it as `rocm[{}]`", spec.name),
    };
    DESCRIPTION
        .replace("{name}", dist)
        .replace("{summary}", &spec.summary(scope))
        .replace("{how}", &how)
}

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
    "tests/frameworks_test.py",
    "tests/libraries_test.py",
    "tests/profiler_test.py",
    "tests/runner.py",
    "tests/utils.py",
);

/// The files at the top of the `rocm` sdist, without its description.
pub(super) const ROCM_TOP: &[Text] = texts!("rocm":
    "MANIFEST.in",
    "pyproject.toml",
    "rocm_build.py",
    "setup.py",
);

/// The Python files of a package for a target or family.
///
/// A device package has none, because it only adds files to the libraries package. A runtime
/// package that a user has added in `packages.toml` has an empty module.
pub fn files(
    info: &DistInfo<'_>,
    package: &PackageSpec,
    target: Option<&Scope>,
) -> Result<Vec<(&'static str, String)>> {
    let module = |text: &str| vec![("__init__.py", text.to_owned()), ("py.typed", String::new())];
    let mut files = match package.name.as_str() {
        "meta" => ROCM_SDK.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
        "core" => module(include_str!("python/rocm_sdk_core/__init__.py")),
        "libraries" => module(include_str!("python/rocm_sdk_libraries/__init__.py")),
        "devel" => module(include_str!("python/rocm_sdk_devel/__init__.py")),
        "profiler" => module(include_str!("python/rocm_profiler/__init__.py")),
        other if package.kind == PackageKind::Runtime => {
            module(&format!("\"\"\"The files of `{other}`.\"\"\"\n"))
        }
        _ => Vec::new(),
    };
    files.extend(console_scripts(package).map(|text| ("_cli.py", text)));
    if !files.is_empty() {
        files.extend(dist_info::render(info, &package.name, target)?);
    }
    Ok(files)
}

/// `_cli.py`: code that runs a program of the package, and a function for each console script. It
/// has the functions for both platforms; `entry_points.txt` decides which scripts are installed.
fn console_scripts(package: &PackageSpec) -> Option<String> {
    let mut functions = BTreeMap::new();
    for script in &package.scripts {
        if let Some(runs) = &script.runs {
            let run = if script.only_asks { "_query" } else { "_run" };
            functions.insert(script.function(), (run, literal(runs.as_str())));
        }
    }
    if functions.is_empty() {
        return None;
    }
    let template = match package.name.as_str() {
        "core" => CORE_CLI,
        "profiler" => PROFILER_CLI,
        _ => CLI,
    };
    let mut module = template.to_owned();
    for (function, (run, program)) in functions {
        let _ = write!(module, "\n\ndef {function}() -> NoReturn:\n    {run}({program})\n");
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::{Catalog, DistributionMode};
    use rocwheel_base::target::PlatformView;

    fn python(catalog: &Catalog, package: &PackageSpec) -> Vec<(&'static str, String)> {
        let info = DistInfo {
            catalog,
            mode: DistributionMode::Split,
            version: "7.13.0".to_owned(),
            suffix: String::new(),
            view: PlatformView::new(None, None, []),
            absent: Vec::new(),
            only: None,
        };
        files(&info, package, None).unwrap()
    }

    #[test]
    fn every_pure_package_is_typed_and_starts_with_its_purpose() {
        let catalog = Catalog::built_in().unwrap();
        let data = ["py.typed", dist_info::TABLES];
        for package in catalog.packages() {
            let logical = &package.name;
            let files = python(&catalog, package);
            assert_eq!(files.is_empty(), package.kind == PackageKind::Device, "{logical}");
            let is_typed = files.iter().any(|(name, _)| *name == "py.typed");
            assert!(is_typed || files.is_empty(), "{logical}");
            for (name, text) in files.iter().filter(|(name, _)| !data.contains(name)) {
                assert!(text.starts_with("\"\"\""), "{logical}: {name}");
                assert!(text.ends_with('\n'), "{logical}: {name}");
                assert!(!text.contains('\r'), "{logical}: {name}");
                let is_short = text.lines().count() < 500;
                assert!(is_short || *name == "_dist_info.py", "{logical}: {name}");
            }
        }
    }

    #[test]
    fn a_script_of_the_policy_is_a_function_of_its_package() {
        let added = r#"scripts = [
    { name = "amdgone", runs = "bin/amdgone", only-asks = true },"#;
        let policy =
            include_str!("packages.toml").replacen("scripts = [\n", &format!("{added}\n"), 1);
        let catalog = Catalog::parse(&policy).unwrap();
        let files = python(&catalog, catalog.get("core").unwrap());
        let (_, text) = files.iter().find(|(name, _)| *name == "_cli.py").unwrap();
        let function = "\n\n\ndef amdgone() -> NoReturn:\n    _query('bin/amdgone')\n";
        assert!(text.contains(function), "{text}");
        let function = "\n\n\ndef amdclangpp() -> NoReturn:\n    _run('lib/llvm/bin/amdclang++')\n";
        assert!(text.contains(function), "{text}");
    }

    /// Another index may have a newer package of the same name by another author.
    #[test]
    fn every_line_that_installs_names_an_index_and_pins_the_version() {
        let catalog = Catalog::built_in().unwrap();
        let packages = catalog.packages().iter();
        let python = packages.flat_map(|package| python(&catalog, package));
        let top = ROCM_TOP.iter().map(|(_, text)| (*text).to_owned());
        let mut texts: Vec<String> = python.map(|(_, text)| text).chain(top).collect();
        texts.push(README.replace("{version}", "7.13.0"));
        let lines = texts.iter().flat_map(|text| text.lines());
        let found: BTreeSet<_> = lines.filter(|it| it.contains("pip install")).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        for line in found {
            // The requirement of a framework is pinned where it is made.
            let pins = ["=={__version__}", "==7.13.0", "\"{requirement}\""];
            let is_pinned = pins.iter().any(|pin| line.contains(pin));
            let has_index = line.contains("pip install --index-url INDEX_URL");
            assert!(is_pinned && has_index, "{line}");
        }
    }
}
