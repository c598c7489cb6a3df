//! `rocm_sdk_devel/_devel_manifest.json`: what the development files are, so that an incomplete
//! tree is never taken for a whole one. Three counts, the size of all files, and a SHA-256 over
//! one line per member, sorted by path: the kind, the path below the root, and the size of a file
//! or the text of a link, with NUL between them and a newline behind.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{digest::Sha256, relpath::RelPath};

/// Where the manifest lies in the devel wheel.
pub const PATH: &str = "rocm_sdk_devel/_devel_manifest.json";

/// One member of the archive; its path is relative to the root of the development files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    Directory,
    File { len: u64 },
    Link { text: &'a str },
}

/// The text of the manifest. The members may come in any order.
pub fn render<'a>(
    version: &str,
    members: impl IntoIterator<Item = (&'a RelPath, Member<'a>)>,
) -> String {
    let sorted: BTreeMap<&RelPath, Member<'_>> = members.into_iter().collect();
    let (mut files, mut links, mut directories, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut listing = String::new();
    for (path, member) in sorted {
        let (kind, detail) = match member {
            Member::Directory => {
                directories += 1;
                ("d", String::new())
            }
            Member::File { len } => {
                files += 1;
                bytes = bytes.saturating_add(len);
                ("f", len.to_string())
            }
            Member::Link { text } => {
                links += 1;
                ("l", text.to_owned())
            }
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
        let members = [
            Member::Link {
                text: "../../_rocm_sdk_core/lib/b.so",
            },
            Member::Directory,
            Member::File { len: 0 },
            Member::File { len: 12 },
        ];
        // The same figures are in `tests/python/test_parts.py`.
        insta::assert_snapshot!(render("10.1.0", paths.iter().zip(members)), @r#"
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
