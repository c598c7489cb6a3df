//! Symlinks in a tree that is known by the list of its paths. The disk is not accessed, so a symlink in an
//! untrusted archive cannot lead to other files.

use super::RelPath;

/// How many symlinks are followed. Linux has the same limit (`ELOOP`).
const MOST_LINKS: usize = 40;

/// What exists at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A real directory.
    Directory,
    /// Anything that is neither a directory nor a symlink.
    File,
    /// A symlink with its text.
    Link(Box<str>),
}

/// The end of a symlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedLink {
    /// A file, by its path without symlinks.
    File(RelPath),
    /// A directory, which may be the top directory.
    Directory,
    /// A path inside of the tree that does not exist, or a cycle.
    Missing,
    /// An absolute path, which is a different file on each host.
    Absolute,
    /// A path above the top directory.
    Outside,
}

/// What [`follow`] meets at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Directory,
    File,
    Link(&'a str),
}

/// Resolves the symlink at `from`. After the first missing component only the text is evaluated, so that
/// `..` out of the tree is still found.
pub fn resolve<'a>(
    from: &RelPath,
    text: &'a str,
    at: impl Fn(&str) -> Option<&'a Node>,
) -> ResolvedLink {
    let mut start: Vec<&str> = from.components().collect();
    start.pop();
    let step = |path: &str| {
        Some(match at(path)? {
            Node::Directory => Step::Directory,
            Node::File => Step::File,
            Node::Link(text) => Step::Link(text),
        })
    };
    match follow(start, text, step) {
        Ok((path, Some(Step::File))) => {
            let path = path.parse();
            path.map_or(ResolvedLink::Missing, ResolvedLink::File)
        }
        Ok((_, Some(Step::Directory))) => ResolvedLink::Directory,
        Ok(_) => ResolvedLink::Missing,
        Err(end) => end,
    }
}

/// A path from the top of a tree without its symlinks, whose texts `link` knows. `None` if it leads out of
/// the tree, or into a loop. Whether something exists there is not asked.
pub fn real<'a>(path: &'a str, link: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let step = |path: &str| Some(link(path).map_or(Step::Directory, Step::Link));
    let (path, end) = follow(Vec::new(), path, step).ok()?;
    end.map(|_| path)
}

/// Follows a path from a directory like the kernel: it follows each symlink on the way, and `..` goes up
/// from the target of that symlink. Returns the path where it ends and what has this path, if anything has. A
/// loop is [`ResolvedLink::Missing`].
fn follow<'a>(
    mut here: Vec<&'a str>,
    path: &'a str,
    at: impl Fn(&str) -> Option<Step<'a>>,
) -> Result<(String, Option<Step<'a>>), ResolvedLink> {
    if path.starts_with('/') {
        return Err(ResolvedLink::Absolute);
    }
    let mut found = Some(Step::Directory);
    let mut links = 0;
    // The remaining components, the next one last.
    let mut ahead: Vec<&str> = path.rsplit('/').collect();
    while let Some(component) = ahead.pop() {
        // Nothing can follow a file, not even `.` or `..`: the kernel fails with `ENOTDIR`.
        found = found.filter(|step| *step == Step::Directory);
        match component {
            ".." if here.pop().is_none() => return Err(ResolvedLink::Outside),
            "" | "." | ".." => {}
            name => {
                here.push(name);
                found = found.and_then(|_| at(&here.join("/")));
            }
        }
        if let Some(Step::Link(text)) = found {
            links += 1;
            if text.starts_with('/') {
                return Err(ResolvedLink::Absolute);
            }
            if links > MOST_LINKS {
                return Err(ResolvedLink::Missing);
            }
            here.pop();
            ahead.extend(text.rsplit('/'));
            found = Some(Step::Directory);
        }
    }
    Ok((here.join("/"), found))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Ends of the symlinks in a tree: `a/` is a directory, `a -> b` a symlink, anything else a
    /// file.
    fn ends(tree: &[&str]) -> BTreeMap<String, ResolvedLink> {
        let nodes: BTreeMap<&str, Node> = tree
            .iter()
            .map(|line| match (line.split_once(" -> "), line.strip_suffix('/')) {
                (Some((path, text)), _) => (path, Node::Link(text.into())),
                (None, Some(directory)) => (directory, Node::Directory),
                (None, None) => (*line, Node::File),
            })
            .collect();
        let links = nodes.iter().filter_map(|(path, node)| match node {
            Node::Link(text) => Some((path.to_string(), &**text)),
            _ => None,
        });
        links
            .map(|(path, text)| {
                let end = resolve(&path.parse().unwrap(), text, |path| nodes.get(path));
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
            // From its text alone, the target would be inside.
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
        let tree = ["a -> b", "b -> a", "self -> self", "deep -> deep/x", "d/", "d/e -> ../d/e/f"];
        assert!(ends(&tree).values().all(|end| *end == ResolvedLink::Missing));
        let long: Vec<String> = (0..100).map(|n| format!("l{n} -> l{}", n + 1)).collect();
        let mut long: Vec<&str> = long.iter().map(String::as_str).collect();
        long.push("l100");
        let ends = ends(&long);
        assert_eq!(ends["l0"], ResolvedLink::Missing);
        assert_eq!(ends["l60"], ResolvedLink::File("l100".parse().unwrap()));
    }

    #[test]
    fn a_path_without_its_symlinks() {
        let links = |path: &str| match path {
            "lib64" => Some("lib"),
            "lib/x.so" => Some("../core/x.so.1"),
            "out" => Some("../../etc"),
            "circle" => Some("circle"),
            _ => None,
        };
        let real = |path| real(path, links);
        assert_eq!(real("lib64/x.so").as_deref(), Some("core/x.so.1"));
        assert_eq!(real("lib64/./a/../b").as_deref(), Some("lib/b"));
        for path in ["out/passwd", "circle", "/lib64", "lib64/../.."] {
            assert_eq!(real(path), None, "{path}");
        }
    }
}
