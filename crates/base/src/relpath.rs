//! [`RelPath`], a path inside an artifact or a wheel.
//!
//! It is relative, UTF-8 and `/`-separated. It is never empty, and has no `.`, `..` or empty
//! component, no NUL and no backslash (which Windows takes for a separator).

pub mod links;

use std::{borrow::Borrow, iter, str::FromStr};

use itertools::Itertools as _;

use crate::error::{Invalid, as_text};

/// A validated relative path: `lib/libx.so`.
#[derive(
    Clone, Debug, derive_more::Display, derive_more::AsRef, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[as_ref(str)]
pub struct RelPath(Box<str>);

impl RelPath {
    /// The path with `/` between its components, on every system.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of the directories, and the file name last. There is always one.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The number of components: 2 for `lib/libx.so`.
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// The last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The parent directory; `None` at the top level.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// All parent directories, outermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.match_indices('/').map(|(at, _)| Self(self.0[..at].into()))
    }

    /// `self/other`.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self(format!("{}/{}", self.0, other.0).into())
    }

    /// The path relative to `base`, if it is below `base`.
    pub fn strip_prefix(&self, base: &Self) -> Option<Self> {
        let rest = self.0.strip_prefix(base.as_str())?.strip_prefix('/')?;
        Some(Self(rest.into()))
    }

    /// The target of a relative symlink at this path.
    ///
    /// `None` if the target is absolute, leaves the root, is the root itself, or is not a valid
    /// path.
    pub fn resolve_link(&self, text: &str) -> Option<Self> {
        if text.is_empty() || text.starts_with('/') || text.contains(['\\', '\0']) {
            return None;
        }
        let target = join(self.as_str(), text)?;
        (!target.is_empty()).then(|| Self(target.into()))
    }
}

/// The directory of a path, which is empty at the top, and the name of its file.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Where a relative text leads from the directory of a file, such as that of a symlink. Empty for the top.
/// `None` if it is absolute, or leads out of the tree.
pub fn join(file: &str, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    (!text.starts_with('/')).then(|| parts.join("/"))
}

/// The way from one directory to another, both below the same one: `../../lib` from `a/b` to `lib`. Empty
/// from a directory to itself.
pub fn between(from: &str, to: &str) -> String {
    let parts = |path| str::split(path, '/').filter(|it| !it.is_empty());
    let common = iter::zip(parts(from), parts(to)).take_while(|(one, other)| one == other);
    let common = common.count();
    let up = parts(from).skip(common).map(|_| "..");
    up.chain(parts(to).skip(common)).join("/")
}

impl FromStr for RelPath {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reason = if text.is_empty() {
            "an empty path"
        } else if text.starts_with('/') {
            "an absolute path"
        } else if text.contains('\0') {
            "a NUL in a path"
        } else if text.contains('\\') {
            "a backslash in a path"
        } else if text.split('/').any(|component| component == "..") {
            "a path with `..`"
        } else if text.split('/').any(|component| component.is_empty() || component == ".") {
            "a path that is not in its shortest form"
        } else {
            return Ok(Self(text.into()));
        };
        Err(Invalid::new(reason, text))
    }
}

as_text!(RelPath);

impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_that_could_leave_its_root_is_refused_in_words() {
        let refused = ["", "/etc/passwd", "a/../b", "a//b", "./a", "a/", "a\0b", "C:\\x"];
        let messages: Vec<String> =
            refused.iter().map(|text| text.parse::<RelPath>().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty path: ""
        an absolute path: "/etc/passwd"
        a path with `..`: "a/../b"
        a path that is not in its shortest form: "a//b"
        a path that is not in its shortest form: "./a"
        a path that is not in its shortest form: "a/"
        a NUL in a path: "a\0b"
        a backslash in a path: "C:\\x"
        "#);
    }

    #[test]
    fn links_resolve_inside_the_root_or_not_at_all() {
        let from = path("lib/llvm/bin/clang");
        assert_eq!(from.resolve_link("clang-22"), Some(path("lib/llvm/bin/clang-22")));
        assert_eq!(from.resolve_link("../../x.so"), Some(path("lib/x.so")));
        assert_eq!(from.resolve_link("./../lib//y"), Some(path("lib/llvm/lib/y")));
        assert_eq!(from.resolve_link("../../../../etc"), None);
        assert_eq!(from.resolve_link("../../.."), None);
        assert_eq!(from.resolve_link("/etc/passwd"), None);
        assert_eq!(from.resolve_link(""), None);
    }

    #[test]
    fn the_parts_of_a_path() {
        let file = path("lib/rocblas/library/x.dat");
        assert_eq!(file.depth(), 4);
        assert_eq!(file.file_name(), "x.dat");
        assert_eq!(file.parent(), Some(path("lib/rocblas/library")));
        assert_eq!(path("top").parent(), None);
        let above: Vec<String> = file.ancestors().map(|path| path.to_string()).collect();
        assert_eq!(above, ["lib", "lib/rocblas", "lib/rocblas/library"]);
        assert_eq!(file.strip_prefix(&path("lib/rocblas")), Some(path("library/x.dat")));
        assert_eq!(file.strip_prefix(&path("lib/roc")), None);
    }
}
