//! Where a link ends, worked out from a list of what there is: the disk is never asked, so no link
//! can lead onto it.

use crate::relpath::RelPath;

/// As many links on one way as Linux follows.
const MOST_LINKS: usize = 40;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node<'a> {
    Directory,
    File,
    /// With its text.
    Link(&'a str),
}

/// Where a link ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedLink {
    File(RelPath),
    Directory,
    /// Inside, at nothing; or in a circle.
    Missing,
    /// At an absolute path, which is another file on each host.
    Absolute,
    /// Above the top.
    Outside,
}

/// Follows the link at `from` as the kernel would: through each link on the way, with `..` leading
/// up from where that one ends. Past the first thing that is missing, the text alone decides.
pub(super) fn resolve<'a>(
    from: &RelPath,
    text: &'a str,
    at: impl Fn(&str) -> Option<Node<'a>>,
) -> ResolvedLink {
    if text.starts_with('/') {
        return ResolvedLink::Absolute;
    }
    let mut here: Vec<&str> = from.components().collect();
    here.pop();
    let mut found = Some(Node::Directory);
    let mut links = 0;
    // What is still to be walked, the next component last.
    let mut ahead: Vec<&str> = text.rsplit('/').collect();
    while let Some(component) = ahead.pop() {
        // Only in a directory is there anything, be it `.` or `..`.
        found = found.filter(|node| *node == Node::Directory);
        match component {
            ".." if here.pop().is_none() => return ResolvedLink::Outside,
            "" | "." | ".." => {}
            name => {
                here.push(name);
                found = found.and_then(|_| at(&here.join("/")));
            }
        }
        if let Some(Node::Link(text)) = found {
            links += 1;
            if text.starts_with('/') {
                return ResolvedLink::Absolute;
            }
            if links > MOST_LINKS {
                return ResolvedLink::Missing;
            }
            here.pop();
            ahead.extend(text.rsplit('/'));
            found = Some(Node::Directory);
        }
    }
    match found {
        Some(Node::File) => here
            .join("/")
            .parse()
            .map_or(ResolvedLink::Missing, ResolvedLink::File),
        Some(Node::Directory) => ResolvedLink::Directory,
        Some(Node::Link(_)) | None => ResolvedLink::Missing,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// `a/` is a directory, `a -> b` a link, anything else a file.
    fn ends(tree: &[&str]) -> BTreeMap<String, ResolvedLink> {
        let nodes: BTreeMap<&str, Node> = tree
            .iter()
            .map(
                |line| match (line.split_once(" -> "), line.strip_suffix('/')) {
                    (Some((path, text)), _) => (path, Node::Link(text)),
                    (None, Some(directory)) => (directory, Node::Directory),
                    (None, None) => (*line, Node::File),
                },
            )
            .collect();
        let links = nodes.iter().filter_map(|(path, node)| match node {
            Node::Link(text) => Some((path.to_string(), *text)),
            _ => None,
        });
        links
            .map(|(path, text)| {
                let end = resolve(&path.parse().unwrap(), text, |path| {
                    nodes.get(path).copied()
                });
                (path, end)
            })
            .collect()
    }

    #[test]
    fn a_link_ends_where_the_kernel_would_end() {
        let tree = [
            "lib/",
            "lib/libx.so -> libx.so.1",
            "lib/libx.so.1 -> ./libx.so.1.2",
            "lib/libx.so.1.2",
            "lib64 -> lib",
            "through -> lib64/libx.so",
            "slash -> lib64/",
            "up -> lib/..",
            "file-as-directory -> lib/libx.so.1.2/.",
            "missing -> lib/liby.so",
            "elsewhere -> not/here/../../lib/libx.so",
        ];
        insta::assert_debug_snapshot!(ends(&tree), @r#"
        {
            "elsewhere": Missing,
            "file-as-directory": Missing,
            "lib/libx.so": File(
                RelPath(
                    "lib/libx.so.1.2",
                ),
            ),
            "lib/libx.so.1": File(
                RelPath(
                    "lib/libx.so.1.2",
                ),
            ),
            "lib64": Directory,
            "missing": Missing,
            "slash": Directory,
            "through": File(
                RelPath(
                    "lib/libx.so.1.2",
                ),
            ),
            "up": Directory,
        }
        "#);
    }

    #[test]
    fn a_link_out_is_seen_through_any_disguise() {
        let tree = [
            "a/",
            "a/b/",
            "a/b/c/",
            "absolute -> /etc/passwd",
            "up -> ..",
            "a/b/far -> ../../../x",
            // Its text alone would stay inside.
            "a/b/c/top -> ../../..",
            "a/b/c/disguised -> top/..",
            "a/b/c/disguised-too -> top/a/b/c/top/../y",
            "by-link -> absolute",
            "past-nothing -> not/here/../../../x",
            "past-file -> absolute/../../x",
        ];
        for (path, end) in ends(&tree) {
            let expected = match path.as_str() {
                "a/b/c/top" => ResolvedLink::Directory,
                "absolute" | "by-link" | "past-file" => ResolvedLink::Absolute,
                _ => ResolvedLink::Outside,
            };
            assert_eq!(end, expected, "{path}");
        }
    }

    #[test]
    fn circles_end_nowhere() {
        let tree = [
            "a -> b",
            "b -> a",
            "self -> self",
            "deep -> deep/x",
            "d/",
            "d/e -> ../d/e/f",
        ];
        assert!(
            ends(&tree)
                .values()
                .all(|end| *end == ResolvedLink::Missing)
        );
        let long: Vec<String> = (0..100).map(|n| format!("l{n} -> l{}", n + 1)).collect();
        let mut long: Vec<&str> = long.iter().map(String::as_str).collect();
        long.push("l100");
        let ends = ends(&long);
        assert_eq!(ends["l0"], ResolvedLink::Missing);
        assert_eq!(ends["l60"], ResolvedLink::File("l100".parse().unwrap()));
    }
}
