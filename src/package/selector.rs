//! The contents of the `rocm` sdist. Users install `rocm`, and its requirements and extras ([PEP
//! 508](https://peps.python.org/pep-0508/)) select the other packages.
//!
//! The contents do not depend on the machine that builds them. The extras are the same as those
//! that `build_extras(None)` of `_dist_info.py` computes; a test compares the two.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use crate::{
    error::Invalid,
    package::{
        catalog::{PackageKind, PackageSpec},
        dist_info::{self, DeviceCodeForm, DistInfo},
        naming::{DistributionMode, NameTemplate},
        templates,
    },
    relpath::RelPath,
    run::Platform,
};

const EGG_INFO: &str = "src/rocm.egg-info";
const ENTRY_POINTS: &str = "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n";

/// A requirement, and the environment marker under which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorRequirement {
    pub pin: String,
    pub marker: Option<&'static str>,
}

/// The name of an extra, and the requirements that it installs.
pub type Extra = (String, Vec<SelectorRequirement>);

/// The files of the sdist, relative to its top directory, in the order of the archive.
pub fn files(info: &DistInfo<'_>) -> Result<Vec<(RelPath, Vec<u8>)>, Invalid> {
    let info = DistInfo {
        this_package: "meta",
        libraries_py_package: None,
        ..*info
    };
    let mut texts: Vec<(String, String)> = templates::sdist_top()
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    texts.push(("README.md".into(), readme(&info)));
    texts.push((
        "src/rocm_sdk/_dist_info.py".into(),
        dist_info::render(&info),
    ));
    let python = selector(&info).map(templates::pure_package);
    for (name, text) in python.unwrap_or_default() {
        texts.push((format!("src/rocm_sdk/{name}"), text));
    }
    texts.extend(egg_info(&info, &texts));
    texts.push(("PKG-INFO".into(), pkg_info(&info)));
    texts.push((
        "setup.cfg".into(),
        "[egg_info]\ntag_build = \ntag_date = 0\n\n".into(),
    ));
    texts.sort_by(|a, b| files_first(&a.0, &b.0));
    texts
        .into_iter()
        .map(|(path, text)| Ok((path.parse()?, text.into_bytes())))
        .collect()
}

/// PKG-INFO of the sdist. Fields that depend on the machine that installs it are declared dynamic
/// ([PEP 643](https://peps.python.org/pep-0643/)).
pub fn pkg_info(info: &DistInfo<'_>) -> String {
    let common = &info.catalog.metadata;
    let (name, summary) = selector(info).map_or_else(Default::default, |package| {
        let dist = package.dist_template(info.form.mode()).fill_text("");
        (dist, package.summary(None))
    });
    let urls = common.urls.iter();
    let urls = urls.map(|(label, url)| format!("Project-URL: {label}, {url}\n"));
    let mut text = format!(
        "Metadata-Version: 2.4\n\
         Name: {name}\n\
         Version: {}\n\
         Summary: {summary}\n\
         {}\
         License-Expression: {}\n\
         Requires-Python: {}\n\
         Description-Content-Type: text/markdown\n\
         Dynamic: Provides-Extra\n\
         Dynamic: Requires-Dist\n",
        info.version,
        urls.collect::<String>(),
        common.license,
        common.requires_python,
    );
    for pin in requires(info) {
        let _ = writeln!(text, "Requires-Dist: {pin}");
    }
    for (extra, requirements) in extras(info) {
        let _ = writeln!(text, "Provides-Extra: {extra}");
        for SelectorRequirement { pin, marker } in requirements {
            let marker = marker.map_or(String::new(), |marker| format!("{marker} and "));
            let _ = writeln!(text, "Requires-Dist: {pin}; {marker}extra == \"{extra}\"");
        }
    }
    text.push('\n');
    text.push_str(&readme(info));
    text
}

fn readme(info: &DistInfo<'_>) -> String {
    let dist = selector(info).map(|package| package.dist_template(info.form.mode()).fill_text(""));
    templates::readme(&dist.unwrap_or_default(), info.version)
}

fn selector<'a>(info: &DistInfo<'a>) -> Option<&'a PackageSpec> {
    let mut packages = info.catalog.packages().iter();
    packages.find(|package| package.kind == PackageKind::Selector)
}

/// The requirements of `rocm` without extras.
pub fn requires(info: &DistInfo<'_>) -> Vec<String> {
    let packages = info.catalog.packages().iter();
    let required =
        packages.filter(|package| package.required && package.kind != PackageKind::Selector);
    required
        .map(|package| {
            let dist = package.dist_template(info.form.mode()).fill_text("");
            format!("{dist}=={}", info.version)
        })
        .collect()
}

/// All extras: first one per package, then one per package and target.
pub fn extras(info: &DistInfo<'_>) -> Vec<Extra> {
    let targets = base_targets(info);
    let only = (targets.len() == 1).then(|| targets.first()).flatten();
    let packages = extra_packages(info);
    let mut extras: Vec<Extra> = Vec::new();
    for package in &packages {
        let requirements = match (package.is_per_target(), only) {
            // `setup.py` chooses the target on the machine that installs the sdist.
            (true, None) => Vec::new(),
            (true, Some(target)) => vec![package.requirement(info, Some(target), None)],
            (false, _) => vec![package.requirement(info, None, package.marker)],
        };
        extras.push((package.logical.to_owned(), requirements));
    }
    // Device packages have such extras even for a single target, so that the same install command
    // works for every set.
    let several = |p: &&ExtraPackage| targets.len() > 1 || p.kind == PackageKind::Device;
    let each = packages
        .iter()
        .filter(|p| p.is_per_target() && !targets.is_empty());
    for package in each.filter(several) {
        let all: Vec<SelectorRequirement> = targets
            .iter()
            .map(|target| package.requirement(info, Some(target), marker(info, target)))
            .collect();
        for (target, requirement) in targets.iter().zip(&all) {
            let extra = format!("{}-{target}", package.logical);
            extras.push((extra, vec![requirement.clone()]));
        }
        extras.push((format!("{}-all", package.logical), all));
    }
    extras
}

/// A package that has an extra.
struct ExtraPackage<'a> {
    logical: &'a str,
    dist: &'a NameTemplate,
    kind: PackageKind,
    marker: Option<&'static str>,
}

impl ExtraPackage<'_> {
    fn is_per_target(&self) -> bool {
        self.dist.is_for_one_scope()
    }

    fn requirement(
        &self,
        info: &DistInfo<'_>,
        target: Option<&String>,
        marker: Option<&'static str>,
    ) -> SelectorRequirement {
        let dist = self.dist.fill_text(target.map_or("", String::as_str));
        SelectorRequirement {
            pin: format!("{dist}=={}", info.version),
            marker,
        }
    }
}

fn extra_packages<'a>(info: &DistInfo<'a>) -> Vec<ExtraPackage<'a>> {
    let mode = info.form.mode();
    let packages = info.catalog.packages().iter();
    let has_extra = |package: &&PackageSpec| {
        let is_absent = info.absent.contains(&package.name);
        // In a legacy set, the libraries packages contain all device code.
        let is_inside = mode == DistributionMode::Legacy && package.kind == PackageKind::Device;
        !package.required && !is_absent && !is_inside
    };
    let extras = packages.filter(has_extra).map(|package| ExtraPackage {
        logical: &package.name,
        dist: package.dist_template(mode),
        kind: package.kind,
        marker: package.only_platform().map(only_on),
    });
    extras.collect()
}

fn only_on(platform: Platform) -> &'static str {
    match platform {
        Platform::Linux => "sys_platform == \"linux\"",
        Platform::Windows => "sys_platform == \"win32\"",
    }
}

fn base(target: &str) -> &str {
    target.split(':').next().unwrap_or(target)
}

fn base_targets(info: &DistInfo<'_>) -> Vec<String> {
    let own = info
        .this_target
        .filter(|_| info.form == DeviceCodeForm::Restricted);
    let names: BTreeSet<&str> = match own {
        Some(own) => BTreeSet::from([base(own)]),
        None => info.available.iter().map(|name| base(name)).collect(),
    };
    names.into_iter().map(str::to_owned).collect()
}

/// The environment marker for a target that only one of the two platforms has.
fn marker(info: &DistInfo<'_>, target: &str) -> Option<&'static str> {
    if info.linux.is_empty() || info.windows.is_empty() {
        return None;
    }
    let within = |list: &[String]| list.iter().any(|name| base(name) == target);
    match (within(info.linux), within(info.windows)) {
        (true, false) => Some(only_on(Platform::Linux)),
        (false, true) => Some(only_on(Platform::Windows)),
        _ => None,
    }
}

/// The `.egg-info` files that setuptools would write, for tools that read them.
fn egg_info(info: &DistInfo<'_>, others: &[(String, String)]) -> Vec<(String, String)> {
    let mut files = vec![
        ("PKG-INFO", pkg_info(info)),
        ("dependency_links.txt", "\n".to_owned()),
        ("entry_points.txt", ENTRY_POINTS.to_owned()),
        ("requires.txt", requires_txt(info)),
        ("top_level.txt", "rocm_sdk\n".to_owned()),
    ];
    let mut sources: Vec<String> = others.iter().map(|(path, _)| path.clone()).collect();
    sources.extend(files.iter().map(|(name, _)| format!("{EGG_INFO}/{name}")));
    sources.push(format!("{EGG_INFO}/SOURCES.txt"));
    sources.sort();
    files.push(("SOURCES.txt", sources.join("\n")));
    files
        .into_iter()
        .map(|(name, text)| (format!("{EGG_INFO}/{name}"), text))
        .collect()
}

fn requires_txt(info: &DistInfo<'_>) -> String {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (extra, requirements) in extras(info) {
        sections.entry(extra.clone()).or_default();
        for SelectorRequirement { pin, marker } in requirements {
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

/// Orders the files of a directory before its subdirectories, both by name.
fn files_first(a: &str, b: &str) -> Ordering {
    match (a.split_once('/'), b.split_once('/')) {
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some((a, below_a)), Some((b, below_b))) if a == b => files_first(below_a, below_b),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests;
