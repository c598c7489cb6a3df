//! `rocm_sdk_devel/_devel_manifest.json`, which describes the development files, so that `rocm-sdk`
//! can detect an incomplete tree.
//!
//! It has three counts, the total size of all files, and a SHA-256 over one line per member, sorted
//! by path. A line has the kind, the path below the root, and the size of a file or the text of a
//! symlink. NUL separates these fields, and a newline ends the line.

use std::{collections::BTreeMap, fmt::Write as _};

use rocwheel_base::{digest::Sha256, relpath::RelPath};
use rocwheel_wheel::tar::TarKind;

/// The path of the manifest in the devel wheel.
pub const PATH: &str = "rocm_sdk_devel/_devel_manifest.json";

/// Renders the manifest. Paths are relative to the root of the tree; members may come in any order.
pub fn render<'a>(
    version: &str,
    members: impl IntoIterator<Item = (&'a RelPath, &'a TarKind)>,
) -> String {
    let sorted: BTreeMap<&RelPath, &TarKind> = members.into_iter().collect();
    let mut files = 0_u64;
    let mut links = 0_u64;
    let mut directories = 0_u64;
    let mut bytes = 0_u64;
    let mut listing = String::new();
    for (path, member) in sorted {
        let (kind, detail) = match member {
            TarKind::Directory => {
                directories += 1;
                ("d", String::new())
            }
            TarKind::File { len, .. } => {
                files += 1;
                bytes = bytes.saturating_add(*len);
                ("f", len.to_string())
            }
            TarKind::Symlink(text) => {
                links += 1;
                ("l", text.clone())
            }
            // Our packages have no hard links.
            TarKind::Hardlink(_) => continue,
        };
        let _ = writeln!(listing, "{kind}\0{path}\0{detail}");
    }
    let facts = serde_json::json!({
        "version": version,
        "files": files,
        "links": links,
        "directories": directories,
        "bytes": bytes,
        "sha256": Sha256::of(listing.as_bytes()).to_string(),
    });
    format!("{facts:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_what_the_installed_python_computes() {
        let paths: Vec<RelPath> = ["lib/b.so", "lib", "__init__.py", "include/é.h"]
            .iter()
            .map(|path| path.parse().unwrap())
            .collect();
        let file = |len| TarKind::File { len, executable: false };
        let members = [
            TarKind::Symlink("../../_rocm_sdk_core/lib/b.so".to_owned()),
            TarKind::Directory,
            file(0),
            file(12),
        ];
        // `tests/python/test_parts.py` expects the same numbers.
        insta::assert_snapshot!(render("10.1.0", paths.iter().zip(&members)), @r#"
        {
          "version": "10.1.0",
          "files": 2,
          "links": 1,
          "directories": 1,
          "bytes": 12,
          "sha256": "a6baea49df3faf429536aaf574dd1ba83ea7be73da7322aab99ad12a1321598f"
        }
        "#);
    }

    #[test]
    fn no_members_are_a_manifest_too() {
        assert!(render("1", []).contains("\"files\": 0"));
    }
}
