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
    FindLinks,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Pip, Self::Uv, Self::FindLinks];

    pub fn title(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::FindLinks => "pip, from one page",
        }
    }
}

/// The lines of one way, one for each target that the set can be installed for.
///
/// A set of ROCm packages needs nothing else, not even to build `rocm`, so no other index is asked
/// and none can stand in for a package that is missing. Other packages, such as `torch`, need PyPI.
pub fn lines(set: &SetJson, urls: &Urls, way: Way) -> Vec<String> {
    let (pip, uv, page) = if set.has("rocm") {
        ("--index-url", "--default-index", "--no-index --find-links")
    } else {
        ("--extra-index-url", "--index", "--find-links")
    };
    let command = match way {
        Way::Pip => format!("pip install {pip} {}", urls.index()),
        Way::Uv => format!("uv pip install {uv} {}", urls.index()),
        Way::FindLinks => format!("pip install {page} {}", urls.find_links()),
    };
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
        let urls = samples::urls();
        let lines = Way::ALL.iter().flat_map(|way| lines(set, &urls, *way));
        lines.collect::<Vec<String>>().join("\n")
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
        ");
    }

    #[test]
    fn windows_takes_double_quotes() {
        let mut set = samples::set();
        set.identity.platform = Some(Platform::Windows);
        let line = lines(&set, &samples::urls(), Way::Pip).remove(0);
        insta::assert_snapshot!(line, @r#"pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ "rocm[libraries,devel,device-gfx1100]==7.13.0.dev0+ab""#);
    }

    #[test]
    fn a_set_without_device_wheels_has_one_line() {
        let set = samples::set_of(&["rocm", "rocm-sdk-core", "rocm-sdk-libraries-gfx94x-dcgpu"]);
        insta::assert_snapshot!(all(&set), @"
        pip install --index-url https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        uv pip install --default-index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'rocm[libraries]==7.13.0.dev0+ab'
        pip install --no-index --find-links https://bucket.s3.amazonaws.com/1-linux/python/index.html 'rocm[libraries]==7.13.0.dev0+ab'
        ");
    }

    #[test]
    fn a_set_without_rocm_names_its_projects() {
        let set = samples::set_of(&["torch", "torchvision"]);
        insta::assert_snapshot!(lines(&set, &samples::urls(), Way::Uv).join("\n"), @"uv pip install --index https://bucket.s3.amazonaws.com/1-linux/python/simple/ 'torch==7.13.0.dev0+ab' 'torchvision==7.13.0.dev0+ab'");
    }
}
