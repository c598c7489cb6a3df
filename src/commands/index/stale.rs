//! What an earlier index left: pages of projects that are gone.

use std::iter;

use super::shelf::Prefix;
use crate::{error::Result, run::ArtifactGroup, store::Depth};

/// Pages of an index that are not a project's.
const ROOTS: [&str; 3] = ["index.html", "simple/index.html", "simple/_json/index.json"];

/// Pages of projects and of families, as far as they are there and do not belong to the present index.
pub(super) fn find(
    at: &Prefix,
    families: &[ArtifactGroup],
    is_current: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    let families: Vec<String> = families.iter().map(|family| format!("{family}/")).collect();
    for family in iter::once(String::new()).chain(families) {
        let mut listed = at.list(&format!("{family}simple/"), Depth::All)?;
        if !family.is_empty() {
            listed.extend(at.list(&family, Depth::Children)?);
        }
        for (path, _) in listed {
            let below = path.strip_prefix(&family).unwrap_or_default();
            // The roots of the set are always there, those of a family go with it.
            let is_ours = is_page(below) || (!family.is_empty() && ROOTS.contains(&below));
            if is_ours && !is_current(&path) {
                stale.push(path);
            }
        }
    }
    Ok(stale)
}

/// Whether a path is that of a project's page, for all or for a family, under either of its keys.
pub(super) fn is_project_page(path: &str) -> bool {
    let name = match path.strip_suffix('/') {
        None => "",
        Some(directory) if directory.contains("_json") => "index.json",
        Some(_) => "index.html",
    };
    let page = format!("{path}{name}");
    let below = page.split_once('/').map(|(_, below)| below);
    is_page(&page) || below.is_some_and(is_page)
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
            "simple/rocm/",
            "simple/_json/rocm/",
            "gfx110X-all/simple/rocm/",
        ] {
            assert!(is_project_page(path), "{path}");
        }
        for path in ["", "simple/", "simple/_json/", "gfx110X-all/simple/_json/"] {
            assert!(!is_project_page(path), "{path}");
        }
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
