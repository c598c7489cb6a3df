//! `Rpath`: the directories in which the dynamic loader searches libraries first.

use std::str::FromStr;

use itertools::Itertools as _;

use rocwheel_base::{error::Invalid, relpath::RelPath};

/// A run path, such as `$ORIGIN/../lib:$ORIGIN`: ordered entries without duplicates and without
/// empty ones.
///
/// The loader reads an empty entry as the current directory, so anyone who can write there could
/// choose the libraries that are loaded. Parsing drops empty entries.
#[derive(Clone, Debug, Default, derive_more::Display, PartialEq, Eq)]
#[display("{}", _0.join(":"))]
pub struct Rpath(Vec<String>);

impl Rpath {
    /// The entries of this path, followed by the entries of `other` that this path lacks.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self::from_entries(self.0.iter().chain(&other.0).map(String::as_str))
    }

    /// The `$ORIGIN` entries, adjusted for a loader that opens `file` by its symlink `name` in the
    /// same tree. Other entries are left out, because they mean the same directory for every name.
    #[must_use]
    pub fn seen_from(&self, file: &RelPath, name: &RelPath) -> Self {
        let entries = self.0.iter().filter_map(|entry| {
            let below_origin =
                entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
            // `$ORIGINAL` is not `$ORIGIN`.
            if !below_origin.is_empty() && !below_origin.starts_with('/') {
                return None;
            }
            // From the directory of the symlink up to the top of the tree, then down to the directory
            // that the entry means for the file.
            let mut steps_up = name.depth().saturating_sub(1);
            let mut directory: Vec<&str> = file.components().collect();
            directory.pop();
            for component in below_origin.split('/') {
                match component {
                    "" | "." => {}
                    // An entry for another package leads out of the tree, so `..` may exceed the
                    // top of the tree.
                    ".." => steps_up += usize::from(directory.pop().is_none()),
                    component => directory.push(component),
                }
            }
            let steps = std::iter::repeat_n("..", steps_up).chain(directory);
            Some(["$ORIGIN"].into_iter().chain(steps).join("/"))
        });
        // The loader splits at every `:`, and so does this: the name of a directory may contain one.
        Self::from_entries(entries.collect_vec().join(":").split(':'))
    }

    fn from_entries<'a>(entries: impl Iterator<Item = &'a str>) -> Self {
        Self(entries.filter(|entry| !entry.is_empty()).unique().map(str::to_owned).collect())
    }
}

impl FromStr for Rpath {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('\0') {
            return Err(Invalid::new("a NUL in a run path", text));
        }
        Ok(Self::from_entries(text.split(':')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpath(text: &str) -> Rpath {
        text.parse().unwrap()
    }

    #[test]
    fn entries_stay_in_order_and_appear_once() {
        let joined = rpath("$ORIGIN:/b:$ORIGIN").join(&rpath("/c:/b:$ORIGIN/../lib"));
        assert_eq!(joined.to_string(), "$ORIGIN:/b:/c:$ORIGIN/../lib");
        assert_eq!(joined.join(&joined), joined);
    }

    #[test]
    fn an_entry_that_means_the_current_directory_is_left_out() {
        assert_eq!(rpath(":/a::/b:").to_string(), "/a:/b");
        assert!(rpath("").0.is_empty());
        assert!(rpath(":").0.is_empty());
    }

    #[test]
    fn a_run_path_reads_otherwise_from_another_directory() {
        let seen = |text: &str, name: &str| {
            let (file, name) = ("lib/sub/libx.so".parse().unwrap(), name.parse().unwrap());
            rpath(text).seen_from(&file, &name)
        };
        insta::assert_snapshot!(
            seen("$ORIGIN:${ORIGIN}/../b:/opt:$ORIGINAL:$ORIGIN/../../../core/./lib", "share/x/y/libx.so"),
            @"$ORIGIN/../../../lib/sub:$ORIGIN/../../../lib/b:$ORIGIN/../../../../core/lib"
        );
        insta::assert_snapshot!(seen("$ORIGIN/../..:$ORIGIN/..", "libx.so"), @"$ORIGIN:$ORIGIN/lib");
    }

    #[test]
    fn a_nul_is_refused_in_words() {
        let error = "/a\0b".parse::<Rpath>().unwrap_err();
        insta::assert_snapshot!(error, @r#"a NUL in a run path: "/a\0b""#);
    }
}
