//! The lines that install a published set.

use crate::{
    index::{SetJson, Urls},
    run::Platform,
    version::Version,
};

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

/// The lines of one way, one for each target that the set can be installed for.
///
/// A set of ROCm packages needs nothing else, not even to build `rocm`, so without a base index no
/// other index is asked and none can stand in for a package that is missing. Other packages, such as
/// `torch`, need a base index, and get the one of the user where none is known. uv takes a package
/// from the first index that has it; pip takes the highest version of all, so versions are pinned.
///
/// A set with a directory for each family has `rocm` in the indexes of the families alone.
pub fn lines(set: &SetJson, places: Places<'_>, way: Way) -> Vec<String> {
    let families = set.families();
    if families.is_empty() {
        return lines_of(set, places, way);
    }
    let lines = families.iter().flat_map(|family| {
        let urls = places.set.of_family(family);
        let base = places.base;
        lines_of(set, Places { set: &urls, base }, way)
    });
    lines.collect()
}

fn lines_of(set: &SetJson, places: Places<'_>, way: Way) -> Vec<String> {
    let command = command(set.has("rocm"), places, way);
    let quote = quote(set);
    let quoted = |requirement: &String| format!(" {quote}{requirement}{quote}");
    match rocm_requirements(set) {
        Some(requirements) => {
            let lines = requirements
                .iter()
                .map(|one| command.clone() + &quoted(one));
            lines.collect()
        }
        None => vec![
            command
                + &other_requirements(set)
                    .iter()
                    .map(quoted)
                    .collect::<String>(),
        ],
    }
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
    let requirements = rocm_requirements(set).unwrap_or_else(|| other_requirements(set));
    let shown = requirements.first().map(|one| format!("\"{one}\""));
    let shown = shown.unwrap_or_default();
    let index =
        |name: &str, url: &str| format!("[[tool.uv.index]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let base = places.base.map(|base| {
        let index = index("base", &base.to_string());
        format!("\n{index}default = true\n")
    });
    let family = set.families().first().map(|it| places.set.of_family(it));
    let own = family.as_ref().unwrap_or(places.set);
    format!(
        "[project]\ndependencies = [{shown}]\n\n{}{}",
        index("rocm-run", &own.index()),
        base.unwrap_or_default()
    )
}

/// `rocm[libraries,devel,device-gfx942]==7.13.0`, for each target.
fn rocm_requirements(set: &SetJson) -> Option<Vec<String>> {
    let version = set.identity.version.as_ref().filter(|_| set.has("rocm"))?;
    let mut files = set.files().iter();
    let mut extras = Vec::new();
    if files.any(|file| file.project.normalized().starts_with("rocm-sdk-libraries")) {
        extras.push("libraries".to_owned());
    }
    if set.has("rocm-sdk-devel") {
        extras.push("devel".to_owned());
    }
    let device = set.device_targets();
    if device.is_empty() {
        return Some(vec![requirement(&extras, version)]);
    }
    let for_target = |target| {
        let extras = [extras.as_slice(), &[format!("device-{target}")]].concat();
        requirement(&extras, version)
    };
    Some(device.iter().map(for_target).collect())
}

/// Every project of a set that has no `rocm`: frameworks that were built against it.
fn other_requirements(set: &SetJson) -> Vec<String> {
    let files = set.files().iter();
    let mut all: Vec<String> = files
        .map(|file| format!("{}=={}", file.project.normalized(), file.version))
        .collect();
    all.dedup();
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
        let lines = Way::ALL.iter().flat_map(|way| lines(set, places, *way));
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
