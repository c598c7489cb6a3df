//! The lines that install a set.

use std::fmt;

use super::artifact::WorkflowArtifact;
use crate::{
    index::{SetJson, Urls},
    run::{ArtifactGroup, Platform},
    target::Target,
    version::Version,
};

/// Nobody installs more at once; what a set of more has is in the table of packages.
const MOST_PROJECTS: usize = 20;

/// Which installer a line is for, and how it finds the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Pip,
    Uv,
    PipPage,
    UvPage,
}

/// Where an installer looks.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The set.
    pub set: &'a Urls,
    /// The index that has everything else.
    pub base: Option<&'a Urls>,
}

/// What a reader chooses; a set that leaves no choice has one that says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which has an index of its own, in a set with a directory for each family.
    pub family: Option<ArtifactGroup>,
    /// Whose device code is a package of its own.
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

impl Way {
    pub const ALL: [Self; 4] = [Self::Pip, Self::Uv, Self::PipPage, Self::UvPage];

    pub fn title(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::PipPage => "pip, from one page",
            Self::UvPage => "uv, from one page",
        }
    }
}

/// All that a set can be installed for.
pub fn choices(set: &SetJson) -> Vec<Choice> {
    let targets = set.device_targets();
    let mut targets: Vec<Option<Target>> = targets.into_iter().map(Some).collect();
    if targets.is_empty() || !set.has("rocm") {
        targets = vec![None];
    }
    let mut families: Vec<Option<ArtifactGroup>> = set.families().into_iter().map(Some).collect();
    if families.is_empty() {
        families.push(None);
    }
    let of_family = |family: Option<ArtifactGroup>| {
        let targets = targets.clone().into_iter();
        targets.map(move |target| Choice {
            family: family.clone(),
            target,
        })
    };
    families.into_iter().flat_map(of_family).collect()
}

/// The line of one way for one choice.
///
/// A set of ROCm packages needs nothing else, not even to build `rocm`, so without a base index no
/// other index is asked and none can stand in for a package that is missing. Other packages, such as
/// `torch`, need a base index, and get the one of the user where none is known. uv takes a package
/// from the first index that has it; pip takes the highest version of all, so versions are pinned.
///
/// A set with a directory for each family has `rocm` in the indexes of the families alone.
pub fn line(set: &SetJson, places: Places<'_>, way: Way, choice: &Choice) -> String {
    let own = choice.family.as_ref().map(|it| places.set.of_family(it));
    let places = Places {
        set: own.as_ref().unwrap_or(places.set),
        base: places.base,
    };
    command(set.has("rocm"), places, way) + &quoted_requirements(set, choice)
}

/// The line of an installer for packages that were downloaded as an artifact of a workflow.
pub fn downloaded(
    set: &SetJson,
    artifact: &WorkflowArtifact,
    installer: &str,
    choice: &Choice,
) -> String {
    let no_index = if set.has("rocm") { " --no-index" } else { "" };
    let directory = artifact.name.as_str();
    let family = choice.family.as_ref();
    let family = family.map(|it| format!(" --find-links {directory}/{it}"));
    format!(
        "{installer} install{no_index} --find-links {directory}{}{}",
        family.unwrap_or_default(),
        quoted_requirements(set, choice)
    )
}

fn quoted_requirements(set: &SetJson, choice: &Choice) -> String {
    let quote = quote(set);
    let requirements = requirements(set, choice);
    let quoted = requirements.iter().map(|it| format!(" {quote}{it}{quote}"));
    quoted.collect()
}

fn command(is_whole: bool, places: Places<'_>, way: Way) -> String {
    let (index, page) = (places.set.index(), places.set.find_links());
    let no_index = if is_whole { "--no-index " } else { "" };
    match (way, places.base) {
        (Way::Pip, Some(base)) => {
            format!("pip install --index-url {base} --extra-index-url {index}")
        }
        (Way::Uv, Some(base)) => {
            format!("uv pip install --default-index {base} --index {index}")
        }
        (Way::Pip, None) if is_whole => format!("pip install --index-url {index}"),
        (Way::Pip, None) => format!("pip install --extra-index-url {index}"),
        (Way::Uv, None) if is_whole => format!("uv pip install --default-index {index}"),
        (Way::Uv, None) => format!("uv pip install --index {index}"),
        (Way::PipPage, _) => format!("pip install {no_index}--find-links {page}"),
        (Way::UvPage, _) => format!("uv pip install {no_index}--find-links {page}"),
    }
}

/// What a project of uv says. A package that the first index has comes from there alone; the index of
/// a set has nothing else.
pub fn project(set: &SetJson, places: Places<'_>) -> String {
    let choice = choices(set).into_iter().next().unwrap_or_default();
    let requirements = requirements(set, &choice);
    let shown = requirements.first().map(|one| format!("\"{one}\""));
    let shown = shown.unwrap_or_default();
    let index =
        |name: &str, url: &str| format!("[[tool.uv.index]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let base = places.base.map(|base| {
        let index = index("base", &base.to_string());
        format!("\n{index}default = true\n")
    });
    let family = choice.family.map(|it| places.set.of_family(&it));
    let own = family.as_ref().unwrap_or(places.set);
    format!(
        "[project]\ndependencies = [{shown}]\n\n{}{}",
        index("rocm-run", &own.index()),
        base.unwrap_or_default()
    )
}

/// `rocm[libraries,devel,device-gfx942]==7.13.0`; of a set without `rocm`, all its projects.
fn requirements(set: &SetJson, choice: &Choice) -> Vec<String> {
    let version = set.identity.version.as_ref().filter(|_| set.has("rocm"));
    let Some(version) = version else {
        return other_requirements(set);
    };
    let mut files = set.files().iter();
    let mut extras = Vec::new();
    if files.any(|file| file.project.normalized().starts_with("rocm-sdk-libraries")) {
        extras.push("libraries".to_owned());
    }
    if set.has("rocm-sdk-devel") {
        extras.push("devel".to_owned());
    }
    let target = choice.target.as_ref();
    extras.extend(target.map(|target| format!("device-{target}")));
    vec![requirement(&extras, version)]
}

/// Projects of a set that has no `rocm`: frameworks that were built against it.
fn other_requirements(set: &SetJson) -> Vec<String> {
    let mut all = Vec::new();
    for file in set.files() {
        let one = format!("{}=={}", file.project.normalized(), file.version);
        if all.last() != Some(&one) {
            all.push(one);
        }
        if all.len() == MOST_PROJECTS {
            break;
        }
    }
    all
}

fn requirement(extras: &[String], version: &Version) -> String {
    if extras.is_empty() {
        format!("rocm=={version}")
    } else {
        format!("rocm[{}]=={version}", extras.join(","))
    }
}

/// Brackets are patterns to zsh, and `cmd` knows no single quotes.
fn quote(set: &SetJson) -> char {
    match set.identity.platform {
        Some(Platform::Windows) => '"',
        _ => '\'',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::summary::samples;

    fn all(set: &SetJson) -> String {
        with_base(set, None)
    }

    fn with_base(set: &SetJson, base: Option<&Urls>) -> String {
        let urls = samples::urls();
        let places = Places { set: &urls, base };
        let of_way = |way: Way| {
            let choices = choices(set).into_iter();
            choices.map(move |choice| line(set, places, way, &choice))
        };
        let lines = Way::ALL.into_iter().flat_map(of_way);
        lines.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn a_base_index_comes_first_for_pip_and_last_for_uv() {
        let base = "https://deps.example/simple".parse().unwrap();
        let set = samples::set_of(&["rocm", "rocm-sdk-core"]);
        insta::assert_snapshot!(with_base(&set, Some(&base)), @"
        pip install --index-url https://deps.example/simple/ --extra-index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://deps.example/simple/ --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_project_asks_the_index_of_the_set_first() {
        let urls = samples::urls();
        let base = "https://deps.example/simple".parse().unwrap();
        let set = samples::set_of(&["rocm", "rocm-sdk-core"]);
        let places = Places {
            set: &urls,
            base: Some(&base),
        };
        insta::assert_snapshot!(project(&set, places), @r#"
        [project]
        dependencies = ["rocm==7.13.0.dev0+ab"]

        [[tool.uv.index]]
        name = "rocm-run"
        url = "https://bucket.s3.amazonaws.com/1-linux/python/simple/"

        [[tool.uv.index]]
        name = "base"
        url = "https://deps.example/simple/"
        default = true
        "#);
    }

    #[test]
    fn a_split_set_is_installed_for_a_target() {
        insta::assert_snapshot!(all(&samples::set()), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn each_family_has_an_index_of_its_own() {
        insta::assert_snapshot!(all(&samples::set_of_families(&["gfx110X-all", "gfx94X-dcgpu"])), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/index.html 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/index.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/index.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/index.html 'rocm==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn what_was_downloaded_is_found_in_its_directory() {
        let artifact = WorkflowArtifact {
            name: "packages".parse().unwrap(),
            run: None,
        };
        let sets = [
            samples::set(),
            samples::set_of_families(&["gfx110X-all", "gfx94X-dcgpu"]),
            samples::set_of(&["torch"]),
        ];
        let lines = sets.iter().flat_map(|set| {
            let choices = choices(set).into_iter();
            choices.map(|choice| downloaded(set, &artifact, "uv pip", &choice))
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
        uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages --find-links packages/gfx110X-all 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages --find-links packages/gfx94X-dcgpu 'rocm==7.13.0.dev0+ab'
        uv pip install --find-links packages 'torch==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_line_names_no_more_projects_than_anybody_reads() {
        let projects: Vec<String> = (0..10_000).map(|it| format!("project-{it}")).collect();
        let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
        let line = all(&samples::set_of(&projects))
            .lines()
            .next()
            .unwrap()
            .to_owned();
        assert_eq!(line.matches("project-").count(), MOST_PROJECTS);
    }

    #[test]
    fn windows_takes_double_quotes() {
        let mut set = samples::set();
        set.identity.platform = Some(Platform::Windows);
        let line = all(&set).lines().next().unwrap().to_owned();
        insta::assert_snapshot!(line, @r#"pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ "rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab""#);
    }

    #[test]
    fn a_set_without_device_wheels_has_one_line() {
        let set = samples::set_of(&["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx94x-dcgpu"]);
        insta::assert_snapshot!(all(&set), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries]==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_set_without_rocm_names_its_projects() {
        let set = samples::set_of(&["torch", "torchvision"]);
        insta::assert_snapshot!(all(&set), @"
        pip install --extra-index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        uv pip install --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        pip install --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        uv pip install --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        ");
    }
}
