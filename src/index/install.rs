//! The command lines that install a set.
//!
//! Each line pins the version and uses only the indexes that it names. CI builds have pre-release
//! versions, and an installer that may choose prefers a final release, which a stranger could have
//! uploaded to another index under the same name.

use std::fmt;

use itertools::Itertools as _;

use super::{
    package_file::{PackageFile, is_ours},
    projects::{ProjectOfOthers, device_targets, sorted_targets},
    set_json::SetJson,
    urls::Urls,
};
use crate::{
    policy::DistNames,
    run::{ArtifactGroup, Platform},
};
use rocwheel_base::target::Target;

/// The most projects in one line. The table of packages has all projects of a larger set.
const MOST_PROJECTS: usize = 20;

/// The index for what frameworks require, if the user names no other.
const PYPI: &str = "https://pypi.org/simple/";

/// What to know about the lines with two indexes.
const TWO_INDEXES: &str = "A line with two indexes is for uv, which takes a package from the first index \
    that has it. pip takes any build of a version that both have, and a stranger may have published one.";

/// The indexes that an installer uses.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The index of the set.
    pub set: &'a Urls,
    /// The index with all other packages, if the user named one.
    pub base: Option<&'a Urls>,
}

/// The family or target for which a reader installs. Both are `None` if the set leaves no choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// A family with its own index, in a set with a directory for each family.
    pub family: Option<ArtifactGroup>,
    /// A target whose device code is a separate package.
    pub target: Option<Target>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, &self.family) {
            (Some(target), Some(family)) => write!(f, "{target} of {family}"),
            (Some(target), None) => target.fmt(f),
            (None, Some(family)) => family.fmt(f),
            (None, None) => f.write_str("all"),
        }
    }
}

/// All choices of a set, in order. Where only one line is shown, it is for the first.
pub fn choices(set: &SetJson) -> Vec<Choice> {
    let mut targets: Vec<Option<Target>> = targets(&set.files).into_iter().map(Some).collect();
    if targets.is_empty() {
        targets.push(None);
    }
    let mut families: Vec<Option<ArtifactGroup>> =
        set.own_families().into_iter().map(Some).collect();
    if families.is_empty() {
        families.push(None);
    }
    let choices = families.into_iter().cartesian_product(targets);
    choices.map(|(family, target)| Choice { family, target }).collect()
}

/// The targets to choose from: the targets of `rocm`, or of its frameworks if there is no `rocm`.
pub fn targets<'a>(files: impl IntoIterator<Item = &'a PackageFile>) -> Vec<Target> {
    let listed: Vec<&PackageFile> = files.into_iter().collect();
    if listed.iter().any(|file| file.project.normalized() == "rocm") {
        return device_targets(listed.iter().map(|file| &file.project));
    }
    let projects = ProjectOfOthers::all(listed);
    sorted_targets(projects.into_iter().flat_map(|it| it.targets))
}

/// The command lines of each installer for one choice, with their titles. The first ones are from the index.
///
/// ROCm packages need no other index, not even to build the `rocm` sdist. Other packages, such as
/// `torch`, need a base index, which the user names.
///
/// **Contract:** a line of pip names one index. uv takes a package from the first index that has it. pip
/// takes any build of a version that two indexes have, so that a stranger could decide what is installed.
///
/// In a set with a directory for each family, only the indexes of the families have `rocm`.
pub fn lines(set: &SetJson, places: Places<'_>, choice: &Choice) -> Vec<(&'static str, String)> {
    let of_family = choice.family.as_ref().map(|family| places.set.of_family(family));
    let urls = of_family.as_ref().unwrap_or(places.set);
    let index = urls.index();
    let wanted = quoted_requirements(set, choice);
    let has_rocm = set.has("rocm");
    let mut lines = Vec::new();
    if has_rocm || places.base.is_none() {
        lines.push(("pip", format!("pip install --index-url {index}{wanted}")));
    }
    lines.push(match places.base {
        Some(base) => ("uv", uv_line(base, &index, &wanted)),
        None => ("uv", format!("uv pip install --default-index {index}{wanted}")),
    });
    if has_rocm || places.base.is_none() {
        let page = format!("--no-index --find-links {}", urls.find_links());
        lines.push(("pip, from the find-links page", format!("pip install {page}{wanted}")));
        lines.push(("uv, from the find-links page", format!("uv pip install {page}{wanted}")));
    }
    lines.extend(framework_line(set, places, choice, &index));
    lines
}

fn uv_line(base: impl fmt::Display, index: &str, wanted: &str) -> String {
    format!("uv pip install --default-index {base} --index {index}{wanted}")
}

/// The command line for frameworks with device packages. They require projects that only other
/// indexes have, so that there are always two indexes.
fn framework_line(
    set: &SetJson,
    places: Places<'_>,
    choice: &Choice,
    index: &str,
) -> Option<(&'static str, String)> {
    let frameworks = frameworks(set);
    // Without `rocm`, the other lines are for frameworks.
    let is_shown = !set.has("rocm") && places.base.is_some();
    if is_shown || frameworks.is_empty() {
        return None;
    }
    let base = places.base.map_or_else(|| PYPI.to_owned(), Urls::to_string);
    let wanted = frameworks.iter().map(|it| it.requirement(choice.target.as_ref()));
    Some(("uv, frameworks from two indexes", uv_line(base, index, &quoted(set, wanted))))
}

/// The command line of this program, which finds the GPU of the reader's machine. `None` for a set
/// without `rocm`.
pub fn own_line(set: &SetJson, places: Places<'_>) -> Option<String> {
    let deps = places.base.map_or_else(String::new, |base| format!(" --deps {base}"));
    set.has("rocm").then(|| format!("rocwheel install {}{deps}", places.set))
}

/// The frameworks of a set that have device packages.
fn frameworks(set: &SetJson) -> Vec<ProjectOfOthers<'_>> {
    let mut projects = ProjectOfOthers::all(&set.files);
    projects.retain(|it| !it.targets.is_empty());
    projects.truncate(MOST_PROJECTS);
    projects
}

/// What to know about two indexes, if a line of the set has two.
pub fn note_of_two_indexes(set: &SetJson, places: Places<'_>) -> Option<&'static str> {
    let has_two = places.base.is_some() || !frameworks(set).is_empty();
    has_two.then_some(TWO_INDEXES)
}

/// The command lines that install downloaded packages from a directory.
pub fn downloaded(set: &SetJson, directory: &str, choice: &Choice) -> Vec<(&'static str, String)> {
    let family_option = match &choice.family {
        Some(family) => format!(" --find-links {directory}/{family}"),
        None => String::new(),
    };
    let what = quoted_requirements(set, choice);
    let line = |installer: &str| {
        format!("{installer} install --no-index --find-links {directory}{family_option}{what}")
    };
    vec![("pip", line("pip")), ("uv", line("uv pip"))]
}

/// Where the packages of a product are installed from: `https://nightly.repo.amd.com/rocm/whl-next/`.
#[derive(Clone, Copy, Debug)]
pub struct ProductIndex<'a> {
    pub address: &'a str,
    /// The index with all other packages, if the user named one.
    pub base: Option<&'a Urls>,
    /// Whether the index has all that its packages require, as the index of a stream does.
    pub is_complete: bool,
}

/// The command lines that install packages of a product for one choice.
///
/// **Contract:** the contract of [`lines`]: a line of pip names one index.
pub fn of_product(
    set: &SetJson,
    index: ProductIndex<'_>,
    choice: &Choice,
) -> Vec<(&'static str, String)> {
    let wanted = quoted_requirements(set, choice);
    let address = index.address;
    match index.base.filter(|_| !index.is_complete) {
        Some(base) => vec![("uv", uv_line(base, address, &wanted))],
        None => vec![
            ("pip", format!("pip install --index-url {address}{wanted}")),
            ("uv", format!("uv pip install --default-index {address}{wanted}")),
        ],
    }
}

/// Each requirement in quotes. zsh expands unquoted brackets; `cmd` has no single quotes.
fn quoted_requirements(set: &SetJson, choice: &Choice) -> String {
    let requirements = requirements(&set.files, choice.target.as_ref());
    quoted(set, requirements.into_iter())
}

fn quoted(set: &SetJson, requirements: impl Iterator<Item = String>) -> String {
    let quote = match set.identity.platform {
        Some(Platform::Windows) => '"',
        _ => '\'',
    };
    let quoted: Vec<String> = requirements.map(|it| format!(" {quote}{it}{quote}")).collect();
    quoted.concat()
}

/// The requirements of a line: `rocm[libraries,devel,device-gfx942]==7.13.0` in the newest version.
/// A set without `rocm` has frameworks built against it; then all its projects, with the device code
/// of the target. Empty if every file is yanked.
pub fn requirements<'a>(
    files: impl IntoIterator<Item = &'a PackageFile>,
    target: Option<&Target>,
) -> Vec<String> {
    let offered: Vec<&PackageFile> =
        files.into_iter().filter(|file| file.yanked.is_none()).collect();
    let rocm = offered.iter().filter(|it| it.project.normalized() == "rocm");
    let Some(version) = rocm.map(|it| &it.version).max() else {
        let parts: Vec<String> = offered
            .iter()
            .filter(|it| is_ours(&it.project))
            .map(|it| format!("{}=={}", it.project, it.version))
            .dedup()
            .collect();
        let projects = ProjectOfOthers::all(offered);
        let of_others = projects.iter().map(|it| it.requirement(target));
        return parts.into_iter().chain(of_others).take(MOST_PROJECTS).collect();
    };
    let has_package = |start: &str| {
        offered
            .iter()
            .any(|it| it.version == *version && it.project.normalized().starts_with(start))
    };
    let names = DistNames::built_in();
    let mut extras = Vec::new();
    if has_package(&names.libraries) {
        extras.push("libraries".to_owned());
    }
    if has_package(&names.devel) {
        extras.push("devel".to_owned());
    }
    extras.extend(target.map(|target| format!("device-{target}")));
    match extras.as_slice() {
        [] => vec![format!("rocm=={version}")],
        extras => vec![format!("rocm[{}]=={version}", extras.join(","))],
    }
}

#[cfg(test)]
mod tests;
