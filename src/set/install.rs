//! The command lines that install a set.
//!
//! Each line pins the version and uses only the indexes that it names. CI builds have pre-release
//! versions, and an installer that may choose prefers a final release, which a stranger could have
//! uploaded to another index under the same name.

use std::fmt;

use itertools::Itertools as _;

use super::{
    projects::{ProjectOfOthers, device_targets, sorted_targets},
    set_json::{SetFile, SetJson, is_ours},
    urls::Urls,
};
use crate::{
    package::DistNames,
    run::{ArtifactGroup, Platform},
    target::Target,
    version::Version,
};

/// The most projects in one line. The table of packages has all projects of a larger set.
const MOST_PROJECTS: usize = 20;

/// The index for what frameworks require, if the user names no other.
const PYPI: &str = "https://pypi.org/simple/";

const PIN: &str = "pip takes the highest version of all indexes: without the exact version behind \
    `==`, it takes a build of PyPI instead of this one.";
const NO_PIN: &str = "pip takes any build of a version that several indexes have, and PyPI may have \
    this version too. Use uv, which takes a package from the first index that has it, or give the \
    wheels a version of their own with `rocwheel framework tie --version-suffix`.";

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

/// The targets to choose from: those of `rocm`, or those of its frameworks if there is no `rocm`.
pub(super) fn targets<'a>(files: impl IntoIterator<Item = &'a SetFile>) -> Vec<Target> {
    let files: Vec<&SetFile> = files.into_iter().collect();
    let names = files.iter().map(|file| file.project.normalized());
    if names.clone().any(|it| it == "rocm") {
        return device_targets(names);
    }
    let projects = ProjectOfOthers::all(files);
    sorted_targets(projects.into_iter().flat_map(|it| it.targets))
}

/// The command lines of each installer for one choice, with their titles.
///
/// ROCm packages need no other index, not even to build the `rocm` sdist. Other packages, such as
/// `torch`, need a base index, which the user names. uv takes a package from the first index that
/// has it; pip takes the highest version from all indexes, so pip depends on the pinned versions.
///
/// In a set with a directory for each family, only the indexes of the families have `rocm`.
pub fn lines(set: &SetJson, places: Places<'_>, choice: &Choice) -> Vec<(&'static str, String)> {
    let own = choice.family.as_ref().map(|it| places.set.of_family(it));
    let urls = own.as_ref().unwrap_or(places.set);
    let index = urls.index();
    let (pip, uv) = match places.base {
        Some(base) => (
            format!("--index-url {base} --extra-index-url {index}"),
            format!("--default-index {base} --index {index}"),
        ),
        None => (format!("--index-url {index}"), format!("--default-index {index}")),
    };
    let page = format!("--no-index --find-links {}", urls.find_links());
    let what = quoted_requirements(set, choice);
    let line = |installer: &str, from: &str| format!("{installer} install {from}{what}");
    let mut lines = vec![
        ("pip", line("pip", &pip)),
        ("uv", line("uv pip", &uv)),
        ("pip, from the find-links page", line("pip", &page)),
        ("uv, from the find-links page", line("uv pip", &page)),
    ];
    lines.extend(framework_lines(set, places, choice, &index));
    lines
}

/// The command lines for frameworks with device packages. They require projects that only other
/// indexes have, so that there are always two.
fn framework_lines(
    set: &SetJson,
    places: Places<'_>,
    choice: &Choice,
    index: &str,
) -> Vec<(&'static str, String)> {
    // Without `rocm`, the other lines are for frameworks.
    let are_shown = !set.has("rocm") && places.base.is_some();
    let frameworks = frameworks(set);
    if are_shown || frameworks.is_empty() {
        return Vec::new();
    }
    let base = places.base.map_or_else(|| PYPI.to_owned(), Urls::to_string);
    let what = frameworks.iter().map(|it| it.requirement(choice.target.as_ref()));
    let what = quoted(set, what);
    vec![
        (
            "pip, frameworks from two indexes",
            format!("pip install --index-url {base} --extra-index-url {index}{what}"),
        ),
        (
            "uv, frameworks from two indexes",
            format!("uv pip install --default-index {base} --index {index}{what}"),
        ),
    ]
}

/// The command line of this program, which finds the GPU of the reader's machine. `None` for a set in a
/// directory, and for one without `rocm`.
pub fn own_line(set: &SetJson, places: Places<'_>) -> Option<String> {
    let url = places.set.to_string();
    let is_installable = set.has("rocm") && !url.starts_with("file:");
    let base = places.base.map(|it| format!(" --deps {it}"));
    is_installable.then(|| format!("rocwheel install {url}{}", base.unwrap_or_default()))
}

/// The frameworks of a set that have device packages.
fn frameworks(set: &SetJson) -> Vec<ProjectOfOthers<'_>> {
    let mut projects = ProjectOfOthers::all(&set.files);
    projects.retain(|it| !it.targets.is_empty());
    projects.truncate(MOST_PROJECTS);
    projects
}

/// What to know about two indexes, if the set has frameworks with device packages.
pub fn warning(set: &SetJson) -> Option<&'static str> {
    let frameworks = frameworks(set);
    let is_elsewhere = frameworks.iter().any(ProjectOfOthers::may_be_elsewhere);
    (!frameworks.is_empty()).then_some(if is_elsewhere { NO_PIN } else { PIN })
}

/// The command lines that install downloaded packages from a directory.
pub fn downloaded(set: &SetJson, directory: &str, choice: &Choice) -> Vec<(&'static str, String)> {
    let family = choice.family.as_ref();
    let family = family.map_or_else(String::new, |it| format!(" --find-links {directory}/{it}"));
    let what = quoted_requirements(set, choice);
    let line = |installer: &str| {
        format!("{installer} install --no-index --find-links {directory}{family}{what}")
    };
    vec![("pip", line("pip")), ("uv", line("uv pip"))]
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
pub(super) fn requirements<'a>(
    files: impl IntoIterator<Item = &'a SetFile>,
    target: Option<&Target>,
) -> Vec<String> {
    let files = files.into_iter().filter(|file| file.yanked.is_none());
    let all: Vec<&SetFile> = files.collect();
    let files = all.iter().map(|it| (it.project.normalized(), &it.version));
    let files: Vec<(&str, &Version)> = files.collect();
    let rocm = files.iter().filter(|(project, _)| *project == "rocm");
    let Some(version) = rocm.map(|(_, version)| *version).max() else {
        let parts = all.iter().filter(|it| is_ours(&it.project));
        let parts: Vec<String> =
            parts.map(|it| format!("{}=={}", it.project, it.version)).dedup().collect();
        let others = ProjectOfOthers::all(all);
        let others = others.iter().map(|it| it.requirement(target));
        return parts.into_iter().chain(others).take(MOST_PROJECTS).collect();
    };
    let has = |start: &str| {
        let mut files = files.iter().filter(|(_, other)| *other == version);
        files.any(|(project, _)| project.starts_with(start))
    };
    let (names, mut extras) = (DistNames::built_in(), Vec::new());
    if has(&names.libraries) {
        extras.push("libraries".to_owned());
    }
    if has(&names.devel) {
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
