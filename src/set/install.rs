//! The command lines that install a set.
//!
//! Each line pins the version and uses only the indexes that it names. CI builds have pre-release
//! versions, and an installer that may choose prefers a final release, which a stranger could have
//! uploaded to another index under the same name.

use std::fmt;

use itertools::Itertools as _;

use super::{
    set_json::{Identity, SetFile, SetJson},
    urls::Urls,
};
use crate::{
    run::{ArtifactGroup, Buckets, Platform},
    target::Target,
    version::ReleaseType,
};

/// The most projects in one line. The table of packages has all projects of a larger set.
const MOST_PROJECTS: usize = 20;

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
    let mut targets: Vec<Option<Target>> = set.device_targets().into_iter().map(Some).collect();
    if targets.is_empty() || !set.has("rocm") {
        targets = vec![None];
    }
    let mut families: Vec<Option<ArtifactGroup>> =
        set.own_families().into_iter().map(Some).collect();
    if families.is_empty() {
        families.push(None);
    }
    let choices = families.into_iter().cartesian_product(targets);
    choices
        .map(|(family, target)| Choice { family, target })
        .collect()
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
        None => (
            format!("--index-url {index}"),
            format!("--default-index {index}"),
        ),
    };
    let page = format!("--no-index --find-links {}", urls.find_links());
    let what = quoted_requirements(set, choice);
    let line = |installer: &str, from: &str| format!("{installer} install {from}{what}");
    vec![
        ("pip", line("pip", &pip)),
        ("uv", line("uv pip", &uv)),
        ("pip, from the find-links page", line("pip", &page)),
        ("uv, from the find-links page", line("uv pip", &page)),
    ]
}

/// The command line of this program, which finds the GPU of the reader's machine. It names the run
/// if `install` looks for the set of the run where this one is. `None` for a set in a directory, and
/// for one without `rocm`.
pub fn own_line(set: &SetJson, places: Places<'_>) -> Option<String> {
    let url = places.set.to_string();
    let is_installable = set.has("rocm") && !url.starts_with("file:");
    let source = flags_of_run(&set.identity, &url).unwrap_or_else(|| format!("--set {url}"));
    let base = places.base.map(|it| format!(" --deps {it}"));
    is_installable.then(|| format!("rocwheel install {source}{}", base.unwrap_or_default()))
}

/// The flags by which `install` finds the set at this address: `--run-id 21440027240`.
fn flags_of_run(identity: &Identity, url: &str) -> Option<String> {
    let run = identity.run_id.as_ref().filter(|it| !it.is_local())?;
    let (repository, platform) = (identity.repository.as_ref()?, identity.platform?);
    let (host, path) = url.strip_prefix("https://")?.split_once('/')?;
    let (bucket, server) = host.split_once('.')?;
    if !server.starts_with("s3") || !server.ends_with(".amazonaws.com") {
        return None;
    }
    let prefix = format!("{run}-{platform}/python");
    let (_, group) = path.trim_end_matches('/').split_once(&prefix)?;
    let mut flags = format!("--run-id {run}");
    let buckets = Buckets::builtin();
    if repository != buckets.home() {
        flags += &format!(" --repository {repository}");
    }
    match buckets.release_type(&bucket.parse().ok()?)? {
        ReleaseType::Ci => {}
        other => flags += &format!(" --release-type {other}"),
    }
    match group.strip_prefix('/') {
        Some(group) => flags += &format!(" --artifact-group {group}"),
        None if group.is_empty() => {}
        None => return None,
    }
    Some(flags)
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
    let quote = match set.identity.platform {
        Some(Platform::Windows) => '"',
        _ => '\'',
    };
    let requirements = requirements(&set.files, choice.target.as_ref());
    let quoted = requirements.iter().map(|it| format!(" {quote}{it}{quote}"));
    quoted.collect()
}

/// The lines for the `pyproject.toml` of a uv project.
///
/// The default index stays, because a project needs it for its other packages; uv uses it only for
/// packages that no index before it has. An index from an environment variable or the user's
/// configuration comes before those of the project. So `tool.uv.sources` ties each package to the
/// index of the set.
pub fn project(set: &SetJson, places: Places<'_>) -> String {
    let choice = choices(set).into_iter().next().unwrap_or_default();
    let requirements = requirements(&set.files, choice.target.as_ref());
    let shown = requirements.first().map_or("", String::as_str);
    let name = shown.split(['[', '=']).next().unwrap_or_default();
    let index =
        |name: &str, url: &str| format!("[[tool.uv.index]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let base = places.base.map(|base| {
        let index = index("base", &base.to_string());
        format!("\n{index}default = true\n")
    });
    let family = choice.family.map(|it| places.set.of_family(&it));
    let own = family.as_ref().unwrap_or(places.set);
    format!(
        "[project]\ndependencies = [\"{shown}\"]\n\n\
         [tool.uv.sources]\n{name} = {{ index = \"rocm-run\" }}\n\n{}{}",
        index("rocm-run", &own.index()),
        base.unwrap_or_default()
    )
}

/// The requirements of a line: `rocm[libraries,devel,device-gfx942]==7.13.0` in the newest version.
/// A set without `rocm` has frameworks built against it; then all its projects. Empty if every file
/// is yanked.
pub(super) fn requirements<'a>(
    files: impl IntoIterator<Item = &'a SetFile>,
    target: Option<&Target>,
) -> Vec<String> {
    let files = files.into_iter().filter(|file| file.yanked.is_none());
    let files: Vec<_> = files
        .map(|it| (it.project.normalized(), &it.version))
        .collect();
    let rocm = files.iter().filter(|(project, _)| *project == "rocm");
    let Some(version) = rocm.map(|(_, version)| *version).max() else {
        let all = files
            .iter()
            .map(|(project, version)| format!("{project}=={version}"));
        return all.dedup().take(MOST_PROJECTS).collect();
    };
    let has = |start: &str| {
        let mut files = files.iter().filter(|(_, other)| *other == version);
        files.any(|(project, _)| project.starts_with(start))
    };
    let mut extras = Vec::new();
    if has("rocm-sdk-libraries") {
        extras.push("libraries".to_owned());
    }
    if has("rocm-sdk-devel") {
        extras.push("devel".to_owned());
    }
    extras.extend(target.map(|target| format!("device-{target}")));
    match extras.as_slice() {
        [] => vec![format!("rocm=={version}")],
        extras => vec![format!("rocm[{}]=={version}", extras.join(","))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests as samples;

    fn all(set: &SetJson) -> String {
        with_base(set, None)
    }

    fn with_base(set: &SetJson, base: Option<&Urls>) -> String {
        let urls = samples::urls();
        let places = Places { set: &urls, base };
        let choices = choices(set);
        let of_way = |way: usize| {
            let lines = choices.iter().map(move |choice| lines(set, places, choice));
            lines.map(move |lines| lines[way].1.clone())
        };
        (0..4).flat_map(of_way).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn a_base_index_comes_first_for_pip_and_last_for_uv() {
        let base = "https://deps.example/simple".parse().unwrap();
        let set = samples::document_of(&["rocm", "rocm-sdk-core"]);
        insta::assert_snapshot!(with_base(&set, Some(&base)), @"
        pip install --index-url https://deps.example/simple/ --extra-index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://deps.example/simple/ --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn the_own_line_names_the_run_where_install_finds_its_set() {
        let line = |set: &SetJson, url: &str| {
            let (urls, base) = (url.parse().unwrap(), "https://deps.example/simple".parse());
            let base = base.unwrap();
            let base = url.contains("nightly").then_some(&base);
            own_line(set, Places { set: &urls, base }).unwrap_or_else(|| "none".to_owned())
        };
        let set = samples::document();
        let mut of_libraries = set.clone();
        of_libraries.identity.repository = Some("ROCm/rocm-libraries".parse().unwrap());
        let frameworks = samples::document_of(&["torch"]);
        let run = "21440027240-linux/python";
        let lines = [
            line(
                &set,
                &format!("https://therock-ci-artifacts.s3.amazonaws.com/{run}"),
            ),
            line(
                &set,
                &format!(
                    "https://therock-ci-artifacts.s3.us-east-2.amazonaws.com/{run}/gfx94X-dcgpu"
                ),
            ),
            line(
                &set,
                &format!("https://therock-nightly-artifacts.s3.amazonaws.com/{run}"),
            ),
            line(
                &of_libraries,
                &format!(
                    "https://therock-ci-artifacts-external.s3.amazonaws.com/ROCm-rocm-libraries/{run}"
                ),
            ),
            line(&set, &format!("https://mine.s3.amazonaws.com/{run}")),
            line(
                &set,
                "https://therock-ci-artifacts.s3.amazonaws.com/1-linux/python",
            ),
            line(&set, "file:///tmp/python"),
            line(&frameworks, "https://mine.s3.amazonaws.com/torch"),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
        rocwheel install --run-id 21440027240
        rocwheel install --run-id 21440027240 --artifact-group gfx94X-dcgpu
        rocwheel install --run-id 21440027240 --release-type nightly --deps https://deps.example/simple/
        rocwheel install --run-id 21440027240 --repository ROCm/rocm-libraries
        rocwheel install --set https://mine.s3.amazonaws.com/21440027240-linux/python/
        rocwheel install --set https://therock-ci-artifacts.s3.amazonaws.com/1-linux/python/
        none
        none
        ");
    }

    #[test]
    fn a_project_asks_the_index_of_the_set_first() {
        let urls = samples::urls();
        let base = "https://deps.example/simple".parse().unwrap();
        let set = samples::document_of(&["rocm", "rocm-sdk-core"]);
        let places = Places {
            set: &urls,
            base: Some(&base),
        };
        insta::assert_snapshot!(project(&set, places), @r#"
        [project]
        dependencies = ["rocm==7.13.0.dev0+ab"]

        [tool.uv.sources]
        rocm = { index = "rocm-run" }

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
        insta::assert_snapshot!(all(&samples::document()), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn each_family_has_an_index_of_its_own() {
        insta::assert_snapshot!(all(&samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"])), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx110X-all/simple/ 'rocm==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/gfx94X-dcgpu/simple/ 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx110X-all.html 'rocm==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx110X-all.html 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/gfx94X-dcgpu.html 'rocm==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn what_was_downloaded_is_found_in_its_directory() {
        let sets = [
            samples::document(),
            samples::document_of_families(&["gfx110X-all", "gfx94X-dcgpu"]),
            samples::document_of(&["torch"]),
        ];
        let lines = sets.iter().flat_map(|set| {
            let choices = choices(set).into_iter();
            choices.map(|choice| downloaded(set, "packages", &choice)[1].1.clone())
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
        uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages 'rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages --find-links packages/gfx110X-all 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages --find-links packages/gfx94X-dcgpu 'rocm==7.13.0.dev0+ab'
        uv pip install --no-index --find-links packages 'torch==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_line_names_no_more_projects_than_anybody_reads() {
        let projects: Vec<String> = (0..10_000).map(|it| format!("project-{it}")).collect();
        let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
        let line = all(&samples::document_of(&projects))
            .lines()
            .next()
            .unwrap()
            .to_owned();
        assert_eq!(line.matches("project-").count(), MOST_PROJECTS);
    }

    #[test]
    fn windows_takes_double_quotes() {
        let mut set = samples::document();
        set.identity.platform = Some(Platform::Windows);
        let line = all(&set).lines().next().unwrap().to_owned();
        insta::assert_snapshot!(line, @r#"pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ "rocm[libraries,devel,device-gfx942]==7.13.0.dev0+ab""#);
    }

    #[test]
    fn a_set_without_device_wheels_has_one_line() {
        let set =
            samples::document_of(&["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx94x-dcgpu"]);
        insta::assert_snapshot!(all(&set), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries]==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'rocm[libraries]==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_set_without_rocm_names_its_projects() {
        let set = samples::document_of(&["torch", "torchvision"]);
        insta::assert_snapshot!(all(&set), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        uv pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/dist/index.html 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'
        ");
    }
}
