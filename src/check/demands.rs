//! `Demands`: what a set has to satisfy beyond what always holds.

use std::{fmt, str::FromStr};

use crate::{target::Target, wheel::DistName};

#[derive(Clone, Debug)]
pub struct Demands {
    /// What must be covered, with or without features.
    pub targets: Vec<Target>,
    /// The newest glibc that may be needed.
    pub glibc: Dotted,
    /// By how many hundredths a package may be larger than that of the baseline.
    pub growth: u64,
    /// How many files of the baseline a package may lack.
    pub gone: usize,
    /// Projects that packages may require besides ours.
    pub base: Vec<DistName>,
    /// Where wheels for Windows are installed.
    pub windows_prefix: String,
}

/// A version of numbers: `2.28`. `2.28` is below `2.28.1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dotted(Vec<u32>);

/// The glibc of `manylinux_2_28`, which the packages are built for.
impl Default for Dotted {
    fn default() -> Self {
        Self(vec![2, 28])
    }
}

/// Why a text is not a `Dotted`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a version of numbers such as `2.28`: {0:?}")]
pub struct InvalidDotted(String);

impl FromStr for Dotted {
    type Err = InvalidDotted;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDotted(text.to_owned());
        let numbers = text.split('.').map(|number| {
            // `u32` takes a sign, which no version has.
            Some(number)
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|number| number.parse().ok())
                .ok_or_else(invalid)
        });
        numbers.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Dotted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| text.parse::<Dotted>().unwrap();
        assert!(version("2.9") < version("2.28"));
        assert!(version("2.28") < version("2.28.1"));
        assert_eq!(version("3.4.25").to_string(), "3.4.25");
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        for text in ["", "2.", "+2.28", "2.x", "99999999999"] {
            assert!(text.parse::<Dotted>().is_err(), "{text}");
        }
        let error = "2.x".parse::<Dotted>().unwrap_err();
        insta::assert_snapshot!(error, @r#"not a version of numbers such as `2.28`: "2.x""#);
    }
}
