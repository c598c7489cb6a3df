//! `Rpath`: the directories in which the dynamic loader searches libraries first.

use std::str::FromStr;

use itertools::Itertools as _;

use crate::error::Invalid;

/// A run path, such as `$ORIGIN/../lib:$ORIGIN`: ordered entries without duplicates and without
/// empty ones.
///
/// The loader reads an empty entry as the current directory, so anyone who can write there could
/// choose the libraries that are loaded. Parsing drops empty entries.
#[derive(Clone, Debug, Default, derive_more::Display, PartialEq, Eq)]
#[display("{}", _0.join(":"))]
pub struct Rpath(Vec<String>);

impl Rpath {
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// The entries of this path, followed by those of `other` that it lacks.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).map(String::as_str))
    }

    fn of<'a>(entries: impl Iterator<Item = &'a str>) -> Self {
        let entries = entries.filter(|entry| !entry.is_empty()).unique();
        Self(entries.map(str::to_owned).collect())
    }
}

impl FromStr for Rpath {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('\0') {
            return Err(Invalid::new("a NUL in a run path", text));
        }
        Ok(Self::of(text.split(':')))
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
        assert!(rpath("").entries().is_empty());
        assert!(rpath(":").entries().is_empty());
    }

    #[test]
    fn a_nul_is_refused_in_words() {
        let error = "/a\0b".parse::<Rpath>().unwrap_err();
        insta::assert_snapshot!(error, @r#"a NUL in a run path: "/a\0b""#);
    }
}
