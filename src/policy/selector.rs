//! The contents of the `rocm` sdist. Users install `rocm`, and its requirements and extras ([PEP
//! 508](https://peps.python.org/pep-0508/)) select the other packages.
//!
//! The contents do not depend on the machine that builds them. The extras are the same as those
//! that `build_extras(None)` of `_dist_info.py` computes; a test compares the two.

use std::{collections::BTreeMap, fmt::Write as _};

use itertools::Itertools as _;

use crate::{
    policy::{
        catalog::{PackageKind, PackageSpec},
        dist_info::{self, DistInfo},
        naming::DistributionMode,
        templates,
    },
    run::Platform,
};
use rocwheel_base::{
    error::Result,
    relpath::RelPath,
    target::{Scope, Target},
    version::Version,
};
use rocwheel_wheel::DistName;

/// The name of an extra, and the requirements that it installs: each with the environment marker
/// under which it applies.
type Extra = (String, Vec<(String, Option<String>)>);

/// The files of the sdist, relative to its top directory, in the order of the archive.
pub fn files(info: &DistInfo<'_>) -> Result<Vec<(RelPath, String)>> {
    let package = info.catalog.only(PackageKind::Selector)?;
    let python = templates::files(info, package, None)?.into_iter();
    let mut texts: Vec<(String, String)> =
        python.map(|(name, text)| (format!("src/rocm_sdk/{name}"), text)).collect();
    let mut add = |path: &str, text: &str| texts.push((path.to_owned(), text.to_owned()));
    for (name, text) in templates::ROCM_TOP {
        add(name, text);
    }
    let pkg_info = pkg_info(info, package);
    let entry_points = "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n";
    add("README.md", &readme(info, package));
    // The `.egg-info` files that setuptools would write, for tools that read them.
    add("src/rocm.egg-info/PKG-INFO", &pkg_info);
    add("src/rocm.egg-info/dependency_links.txt", "\n");
    add("src/rocm.egg-info/entry_points.txt", entry_points);
    add("src/rocm.egg-info/requires.txt", &requires_txt(info));
    add("src/rocm.egg-info/top_level.txt", "rocm_sdk\n");
    let sources = "src/rocm.egg-info/SOURCES.txt";
    let paths = texts.iter().map(|(path, _)| path.as_str());
    let listed = paths.chain([sources]).sorted().join("\n");
    texts.push((sources.to_owned(), listed));
    texts.push(("PKG-INFO".to_owned(), pkg_info));
    let setup = "[egg_info]\ntag_build = \ntag_date = 0\n\n";
    texts.push(("setup.cfg".to_owned(), setup.to_owned()));
    // The files of a directory come before its subdirectories, both by name.
    texts.sort_by_cached_key(|(path, _)| {
        let depth = path.matches('/').count();
        let steps = path.split('/').enumerate();
        steps.map(|(at, step)| (at < depth, step.to_owned())).collect_vec()
    });
    texts.into_iter().map(|(path, text)| Ok((path.parse()?, text))).collect()
}

/// PKG-INFO of the sdist. Fields that depend on the machine that installs it are declared dynamic
/// ([PEP 643](https://peps.python.org/pep-0643/)).
fn pkg_info(info: &DistInfo<'_>, package: &PackageSpec) -> String {
    let common = &info.catalog.metadata;
    let urls = common.urls.iter().map(|(label, url)| format!("Project-URL: {label}, {url}\n"));
    let mut text = format!(
        "Metadata-Version: 2.4\n\
         Name: {}\n\
         Version: {}\n\
         Summary: {}\n\
         {}\
         License-Expression: {}\n\
         Requires-Python: {}\n\
         Description-Content-Type: text/markdown\n\
         Dynamic: Provides-Extra\n\
         Dynamic: Requires-Dist\n",
        package.dist_name(info.mode, None),
        info.version,
        package.summary(None),
        urls.collect::<String>(),
        common.license,
        common.requires_python,
    );
    for pin in requires(info) {
        let _ = writeln!(text, "Requires-Dist: {pin}");
    }
    for (extra, requirements) in extras(info) {
        let _ = writeln!(text, "Provides-Extra: {extra}");
        for (pin, marker) in requirements {
            let condition = marker.map_or(String::new(), |marker| format!("{marker} and "));
            let _ = writeln!(text, "Requires-Dist: {pin}; {condition}extra == \"{extra}\"");
        }
    }
    text + "\n" + &readme(info, package)
}

/// The description of the package, with a command that installs exactly this version.
fn readme(info: &DistInfo<'_>, package: &PackageSpec) -> String {
    templates::README
        .replace("{name}", &package.dist_name(info.mode, None))
        .replace("{version}", &info.version)
}

fn pin(info: &DistInfo<'_>, package: &PackageSpec, target: &str) -> String {
    let dist = package.dist_template(info.mode).fill(target);
    format!("{dist}=={}", info.version)
}

/// The requirements of `rocm` without extras.
fn requires(info: &DistInfo<'_>) -> Vec<String> {
    let packages = info.catalog.packages().iter();
    packages
        .filter(|package| package.required && package.kind != PackageKind::Selector)
        .map(|package| pin(info, package, ""))
        .collect()
}

/// All extras: first one per package, then one per package and target.
fn extras(info: &DistInfo<'_>) -> Vec<Extra> {
    let scopes = match &info.only {
        Some(only) => std::slice::from_ref(only),
        None => &info.view.available,
    };
    let targets: BTreeMap<String, &Scope> =
        scopes.iter().map(|scope| (scope.packaged().to_string(), scope)).collect();
    let packages: Vec<&PackageSpec> = info
        .catalog
        .packages()
        .iter()
        .filter(|package| {
            // In a legacy set, the libraries packages contain all device code.
            let is_inside =
                info.mode == DistributionMode::Legacy && package.kind == PackageKind::Device;
            !package.required && !info.absent.contains(&package.name) && !is_inside
        })
        .collect();
    let is_per_target = |it: &PackageSpec| it.dist_template(info.mode).is_for_one_scope();
    let on = |platform: &str| format!("sys_platform == \"{platform}\"");
    let mut extras: Vec<Extra> = Vec::new();
    for package in &packages {
        let requirements = match (is_per_target(package), targets.keys().exactly_one()) {
            (true, Ok(only)) => vec![(pin(info, package, only), None)],
            // `setup.py` chooses the target on the machine that installs the sdist.
            (true, Err(_)) => Vec::new(),
            (false, _) => {
                let platform = package.only_platform().map(Platform::sys_platform);
                vec![(pin(info, package, ""), platform.map(on))]
            }
        };
        extras.push((package.name.clone(), requirements));
    }
    for package in packages.into_iter().filter(|it| is_per_target(it)) {
        // Device packages have such extras even for a single target, so that the same install
        // command works for every set.
        let is_device = package.kind == PackageKind::Device;
        if targets.is_empty() || (targets.len() == 1 && !is_device) {
            continue;
        }
        let mut for_all_targets = Vec::new();
        for (target, scope) in &targets {
            let requirement = (pin(info, package, target), info.view.marker(scope).map(on));
            for_all_targets.push(requirement.clone());
            extras.push((format!("{}-{target}", package.name), vec![requirement]));
        }
        extras.push((format!("{}-all", package.name), for_all_targets));
    }
    extras
}

fn requires_txt(info: &DistInfo<'_>) -> String {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (extra, requirements) in extras(info) {
        sections.entry(extra.clone()).or_default();
        for (pin, marker) in requirements {
            let section = marker.map_or(extra.clone(), |marker| format!("{extra}:{marker}"));
            sections.entry(section).or_default().push(pin);
        }
    }
    let mut text = requires(info).join("\n") + "\n";
    for (name, pins) in sections {
        let _ = writeln!(text, "\n[{name}]");
        for pin in pins {
            let _ = writeln!(text, "{pin}");
        }
    }
    text
}

const BUILD: &str = include_str!("python/device/device_build.py");
const PYPROJECT: &str = include_str!("python/device/pyproject.toml");

/// The sdist that selects the device wheel of a framework on the machine that installs it, with the
/// tables and the order of decisions of the `rocm` sdist.
#[derive(Debug)]
pub struct DeviceSelector<'a> {
    /// The name of the sdist, with which the names of the device wheels begin.
    pub name: &'a DistName,
    pub version: &'a Version,
    /// What the code is for.
    pub host: &'a DistName,
    pub targets: &'a [Target],
}

impl DeviceSelector<'_> {
    /// The files of the sdist, relative to its top directory, in the order of the archive.
    pub fn files(&self) -> Result<Vec<(RelPath, String)>> {
        let Self { name, version, host, .. } = self;
        let facts = format!(
            "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\
             Summary: Device code of {host} for the GPU of this machine\nDynamic: Requires-Dist\n"
        );
        let [tables, module] =
            dist_info::of_devices(&format!("{name}-"), &version.to_string(), self.targets)?;
        let files = [
            ("PKG-INFO", facts),
            tables,
            module,
            ("device_build.py", BUILD.to_owned()),
            ("pyproject.toml", PYPROJECT.to_owned()),
        ];
        files.into_iter().map(|(path, text)| Ok((path.parse()?, text))).collect()
    }
}

#[cfg(test)]
mod tests;
