//! What an earlier index left: pages of projects that are gone.

use super::shelf::Prefix;
use crate::{error::Result, run::ArtifactGroup, store::Depth};

/// Pages of projects, as far as they are there and do not belong to the present index.
pub(super) fn find(
    at: &Prefix,
    families: &[ArtifactGroup],
    is_current: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    let families = families.iter().map(|family| format!("{family}/"));
    for family in std::iter::once(String::new()).chain(families) {
        for (path, _) in at.list(&format!("{family}simple/"), Depth::All)? {
            let is_page = path.strip_prefix(&family).is_some_and(is_page);
            if is_page && !is_current(&path) {
                stale.push(path);
            }
        }
    }
    Ok(stale)
}

/// Whether a path is that of a project's page, for all or for a family.
pub(super) fn is_project_page(path: &str) -> bool {
    let below = path.split_once('/').map(|(_, below)| below);
    is_page(path) || below.is_some_and(is_page)
}

/// `simple/{project}/index.html` or `simple/_json/{project}/index.json`, and nothing deeper.
fn is_page(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts[..],
        ["simple", _, "index.html"] | ["simple", "_json", _, "index.json"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_projects_can_be_stale() {
        assert!(is_page("simple/rocm/index.html"));
        assert!(is_page("simple/_json/rocm/index.json"));
        for path in [
            "simple/index.html",
            "simple/rocm/notes.html",
            "simple/a/b/index.html",
            "simple/_json/index.json",
            "index.html",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }
}
