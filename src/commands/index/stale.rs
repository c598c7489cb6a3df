//! What an earlier index left: pages of projects that are gone, metadata of wheels that are gone.

use std::collections::HashSet;

use fs_err as fs;

use crate::{
    error::Result,
    index::Layout,
    location::Key,
    store::{Depth, Store as _, local::LocalStore},
};

/// Removes what an index writes and this one did not write, and says what that was.
pub(super) fn remove(
    store: &LocalStore,
    layout: Layout,
    written: &[String],
) -> Result<Vec<String>> {
    let written: HashSet<&str> = written.iter().map(String::as_str).collect();
    let simple: Key = "simple/".parse()?;
    let mut stale = store.list(Some(&simple), Depth::All)?;
    stale.retain(|object| is_page(object.key.as_str()));
    let files: Option<Key> = layout.files().parse().ok();
    let mut sidecars = store.list(files.as_ref(), Depth::Children)?;
    sidecars.retain(|object| object.key.as_str().ends_with(".whl.metadata"));
    stale.append(&mut sidecars);
    stale.retain(|object| !written.contains(object.key.as_str()));
    let mut removed = Vec::new();
    for object in stale {
        store.delete(&object.key)?;
        if let Some(directory) = store.root().join(object.key.as_str()).parent() {
            // Only if it is empty now: whatever else is in it is not ours.
            let _ = fs::remove_dir(directory);
        }
        removed.push(object.key.to_string());
    }
    Ok(removed)
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
