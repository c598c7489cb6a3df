//! Finds stale pages: those of projects and families that an earlier index had, and that the
//! current one does not.

use crate::run::ArtifactGroup;

/// The pages of an index that do not belong to one project.
const ROOTS: [&str; 3] = ["index.html", "simple/index.html", "simple/_json/index.json"];

/// The existing pages that do not belong to the current index, sorted.
pub(super) fn find<'a>(
    there: impl Iterator<Item = &'a str>,
    families: &[ArtifactGroup],
    is_current: impl Fn(&str) -> bool,
) -> Vec<String> {
    let families: Vec<String> = families.iter().map(|family| format!("{family}/")).collect();
    let in_family = |path: &'a str| families.iter().find_map(|family| path.strip_prefix(family));
    let is_ours = |path: &&'a str| match in_family(path) {
        // The roots of a family are removed with the family; the set always has its own roots.
        Some(below) => is_page(below) || ROOTS.contains(&below),
        None => is_page(path),
    };
    let stale = there.filter(is_ours).filter(|path| !is_current(path));
    let mut stale: Vec<String> = stale.map(str::to_owned).collect();
    stale.sort_unstable();
    stale
}

/// Whether a path is the page of a project, of the set or of a family, under either of its keys.
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

/// Whether a path is `simple/{project}/index.html` or `simple/_json/{project}/index.json`.
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
