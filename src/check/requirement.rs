//! [`ParsedRequirement`]: the part of [PEP 508](https://peps.python.org/pep-0508/) that package
//! sets use.

use crate::{version::Version, wheel::DistName};

/// A requirement: `rocm-sdk-core==7.13.0; sys_platform == "linux" and extra == "devel"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedRequirement {
    pub(super) name: DistName,
    /// The version after `==`. `None` for other specifiers, which are not checked.
    pub(super) pin: Option<Version>,
    pub(super) extra: Option<String>,
    /// `linux` or `win32`.
    pub(super) platform: Option<String>,
}

impl ParsedRequirement {
    /// Parses a requirement. `None` if it does not begin with the name of a project.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (what, marker) = text.split_once(';').unwrap_or((text, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let what = what.trim();
        let end = what.find(|c| !is_name(c)).unwrap_or(what.len());
        let (name, specifier) = what.split_at(end);
        let pin = specifier
            .trim()
            .trim_start_matches('(')
            .trim_end_matches(')');
        let pin = pin.trim().strip_prefix("==").map(str::trim);
        Some(Self {
            name: name.parse().ok()?,
            pin: pin.and_then(|version| version.parse().ok()),
            extra: value(marker, "extra"),
            platform: value(marker, "sys_platform"),
        })
    }

    /// Whether it applies on one of these platforms (`sys_platform`).
    pub(super) fn concerns(&self, platforms: &[&str]) -> bool {
        self.platform
            .as_deref()
            .is_none_or(|platform| platforms.contains(&platform))
    }
}

/// The value with which a marker compares a variable.
fn value(marker: &str, variable: &str) -> Option<String> {
    marker.split(" and ").find_map(|clause| {
        let (left, right) = clause.split_once("==")?;
        let right = right.trim().trim_end_matches(')');
        (left.trim().trim_start_matches('(') == variable)
            .then(|| right.trim_matches(['"', '\'']).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_says_what_it_pins_and_where() {
        let parse = |text| ParsedRequirement::parse(text).unwrap();
        let both = parse("rocm-profiler==7.1; sys_platform == \"linux\" and extra == 'profiler'");
        assert_eq!(both.name.normalized(), "rocm-profiler");
        assert_eq!(both.pin, Some("7.1".parse().unwrap()));
        assert_eq!(both.extra.as_deref(), Some("profiler"));
        assert!(both.concerns(&["linux"]) && !both.concerns(&["win32"]));
        let plain = parse("numpy >=1.20");
        assert_eq!((plain.pin, plain.extra, plain.platform), (None, None, None));
        assert_eq!(parse("rocm-sdk-core (==7.1)").pin, both.pin);
        assert_eq!(ParsedRequirement::parse("; a"), None);
    }
}
