//! `_devel_manifest.json`: what the packed SDK tree holds, for whoever unpacks it to know that
//! nothing is missing. `python/rocm/src/rocm_sdk/_manifest.py` reads it.

use std::fmt::Write as _;

use serde_json::json;

use crate::{digest::Sha256, relpath::RelPath, version::Version};

pub const FILE_NAME: &str = "_devel_manifest.json";

/// One entry of the tree, as its reader counts it.
#[derive(Clone, Debug)]
pub enum Entry {
    Directory,
    /// A file of this many bytes.
    File(u64),
    /// A link with this text.
    Link(String),
}

/// The manifest of a tree.
pub fn render<'a>(
    version: &Version,
    entries: impl IntoIterator<Item = (&'a RelPath, &'a Entry)>,
) -> String {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(path, _)| *path);
    let (mut files, mut links, mut directories, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut listing = String::new();
    for (path, entry) in entries {
        let (kind, detail) = match entry {
            Entry::Directory => {
                directories += 1;
                ('d', String::new())
            }
            Entry::File(len) => {
                files += 1;
                bytes += len;
                ('f', len.to_string())
            }
            Entry::Link(text) => {
                links += 1;
                ('l', text.clone())
            }
        };
        let _ = writeln!(listing, "{kind}\0{path}\0{detail}");
    }
    let manifest = json!({
        "version": version.to_string(),
        "files": files,
        "links": links,
        "directories": directories,
        "bytes": bytes,
        "sha256": Sha256::of(listing.as_bytes()).to_string(),
    });
    format!("{manifest:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_counts_everything_whatever_the_order() {
        let entries: Vec<(RelPath, Entry)> = [
            ("lib", Entry::Directory),
            ("lib/liba.so", Entry::Link("liba.so.1".into())),
            ("__init__.py", Entry::File(0)),
            ("lib/liba.so.1", Entry::File(40)),
        ]
        .map(|(path, entry)| (path.parse().unwrap(), entry))
        .into();
        let version = "1.0".parse().unwrap();
        let pairs = || entries.iter().map(|(path, entry)| (path, entry));
        let text = render(&version, pairs());
        let lines =
            b"f\0__init__.py\x000\nd\0lib\0\nl\0lib/liba.so\0liba.so.1\nf\0lib/liba.so.1\x0040\n";
        assert!(text.contains(&Sha256::of(lines).to_string()), "{text}");
        assert_eq!(text, render(&version, pairs().rev()));
        insta::assert_snapshot!(text.lines().take(6).collect::<Vec<_>>().join("\n"), @r#"
        {
          "version": "1.0",
          "files": 2,
          "links": 1,
          "directories": 1,
          "bytes": 40,
        "#);
    }
}
