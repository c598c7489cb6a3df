//! [`RunPlace`]: the place of a package set among the outputs of a run.

use std::path::Path;

use itertools::Itertools as _;

use super::{ArtifactGroup, Platform, RunId};

/// The place of a package set among the outputs of a run, which its key names:
/// `21440027240-linux/python/gfx94X-dcgpu/`. [`Run::python`](super::Run::python) makes such keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    pub id: RunId,
    pub platform: Platform,
    pub group: ArtifactGroup,
}

impl RunPlace {
    /// `None` for the key of any other place.
    pub fn of_key(key: &str) -> Option<Self> {
        let segments: Vec<&str> = key.trim_end_matches('/').split('/').collect();
        let (run, group) = match segments[..] {
            [.., run, "python"] => (run, ""),
            [.., run, "python", group] => (run, group),
            _ => return None,
        };
        let (id, platform) = run_of_prefix(run)?;
        Some(Self { id, platform, group: ArtifactGroup::of_directory(group).ok()? })
    }

    /// The same for a directory of a local tree that is laid out like a bucket.
    pub fn of_path(path: &Path) -> Option<Self> {
        let components = path.components();
        let names = components.map(|it| it.as_os_str().to_string_lossy());
        Self::of_key(&names.map(String::from).join("/"))
    }
}

/// The run and the platform that the directory of its outputs names: `21440027240-linux`, at the end of a path
/// or an address.
pub fn run_of_prefix(prefix: &str) -> Option<(RunId, Platform)> {
    let name = prefix.trim_end_matches('/').rsplit(['/', '\\']).next()?;
    let (id, platform) = name.rsplit_once('-')?;
    Some((id.parse().ok()?, platform.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_the_run_its_platform_and_the_group() {
        let shown = |key: &str| {
            let place = RunPlace::of_key(key)?;
            let RunPlace { id, platform, group } = place;
            Some(format!("{id} {platform} {group:?}", group = group.as_str()))
        };
        let of = |key| shown(key).unwrap();
        assert_eq!(of("42-linux/python/"), "42 linux \"\"");
        assert_eq!(of("local-windows/python"), "local windows \"\"");
        assert_eq!(
            of("ROCm-rocm-libraries/42-linux/python/gfx94X-dcgpu/"),
            "42 linux \"gfx94X-dcgpu\""
        );
        for key in ["", "python/", "v4/whl/", "x-linux/python/", "42-linux/", "42-mac/python/"] {
            assert_eq!(shown(key), None, "{key}");
        }
    }
}
