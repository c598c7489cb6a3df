//! [`RequirementLine`]: a requirement ([PEP 508](https://peps.python.org/pep-0508/)), as far as the
//! metadata of ROCm packages and of frameworks uses it.

use std::collections::BTreeSet;

use pep440_rs::VersionSpecifiers;

use super::{
    DistName,
    marker::{self, MarkerVariables},
};
use crate::{
    error::{Context as _, Result, ensure},
    version::Version,
};

/// A requirement as METADATA has it: `rocm[libraries]==7.14.*; extra == "x"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementLine<'a> {
    pub name: DistName,
    /// What follows the name and its extras: `==7.14.*`.
    pub specifier: &'a str,
    /// The extra that asks for it, if only one does.
    pub extra: Option<&'a str>,
    /// The condition under which it applies, which may be empty.
    marker: &'a str,
    /// The whole requirement.
    text: &'a str,
}

impl<'a> RequirementLine<'a> {
    /// Reads the parts of a requirement that frameworks use. `None` if it names no project.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (what, marker) = text.split_once(';').unwrap_or((text, ""));
        let what = what.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let end = what.find(|c| !is_name(c)).unwrap_or(what.len());
        let (name, rest) = what.split_at(end);
        let (_, rest) = rest.rsplit_once(']').unwrap_or(("", rest));
        let extra = marker.split(" and ").find_map(|clause| {
            let (left, right) = clause.split_once("==")?;
            let is_extra = left.trim().trim_start_matches('(') == "extra";
            let right = right.trim().trim_end_matches(')');
            is_extra.then(|| right.trim_matches(['"', '\'']))
        });
        Some(Self {
            name: name.parse().ok()?,
            specifier: rest.trim().trim_start_matches('(').trim_end_matches(')'),
            extra,
            marker,
            text,
        })
    }

    /// Whether what follows the name is empty, an address, or begins with an operator.
    pub fn has_operator(&self) -> bool {
        let first = self.specifier.chars().next();
        first.is_none_or(|it| "@<>=!~".contains(it))
    }

    /// Fails if only some installers understand its versions or its marker.
    pub fn ensure_exact(&self) -> Result<()> {
        if !self.specifier.starts_with('@') {
            let specifier = self.specifier.parse::<VersionSpecifiers>();
            ensure!(specifier.is_ok(), "not every installer understands these versions");
        }
        self.applies(&AnyValue, &BTreeSet::new())?;
        Ok(())
    }

    /// The only version that it allows: `2` of `a==2` and of `a (== 2)`.
    pub fn pin(&self) -> Option<&'a str> {
        let pin = self.specifier.strip_prefix("==")?.trim();
        pin.parse::<Version>().is_ok().then_some(pin)
    }

    /// The requirement with these extras in place of its own: `torch[device-gfx942]>=2.10; python_version < "3.14"`.
    pub fn with_extras(&self, extras: &str) -> String {
        let (name, specifier) = (&self.name, self.specifier);
        let marker = match self.marker.trim() {
            "" => String::new(),
            marker => format!("; {marker}"),
        };
        format!("{name}[{extras}]{specifier}{marker}")
    }

    /// The requirement with another version than the one that it allows. All other bytes stay.
    pub fn with_pin(&self, version: &Version) -> Option<String> {
        let pin = self.pin()?;
        let start = pin.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let (before, rest) = self.text.split_at_checked(start)?;
        let rest = rest.strip_prefix(pin)?;
        Some(format!("{before}{version}{rest}"))
    }

    /// Whether it applies, if the project that has it was asked for with these extras.
    pub fn applies(
        &self,
        variables: &dyn MarkerVariables,
        extras: &BTreeSet<DistName>,
    ) -> Result<bool> {
        let holds = marker::holds(self.marker, variables, extras);
        holds.with_context(|| format!("failed to read the marker `{}`", self.marker.trim()))
    }

    /// Whether it may apply on a platform, by the name in `sys.platform`.
    pub fn may_apply_on(&self, sys_platform: &str) -> bool {
        let mut clauses = self.marker.split(" and ");
        clauses.all(|clause| match clause.split_once("==") {
            Some((left, right)) if left.trim().trim_start_matches('(') == "sys_platform" => {
                let right = right.trim().trim_end_matches(')');
                right.trim_matches(['"', '\'']) == sys_platform
            }
            _ => true,
        })
    }
}

/// Values with which each marker that installers understand can be read.
struct AnyValue;

impl MarkerVariables for AnyValue {
    fn value(&self, name: &str) -> Option<String> {
        let is_version = name.ends_with("_version") || name == "platform_release";
        let value = if is_version { "3.12" } else { "x" };
        marker::VARIABLES.contains(&name).then(|| value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_says_what_it_names_and_for_whom() {
        let parts = |text| {
            let it = RequirementLine::parse(text).unwrap();
            format!("{} {:?} {:?}", it.name, it.specifier, it.extra)
        };
        let lines = [
            "rocm",
            "rocm[libraries,devel]==7.14.*",
            "ROCm_SDK-core (>=1.0)",
            "a>=1,<2; python_version >= \"3.9\" and extra == 'x'",
            "b; (extra == \"y\")",
        ];
        insta::assert_snapshot!(lines.map(parts).join("\n"), @r#"
        rocm "" None
        rocm "==7.14.*" None
        rocm-sdk-core ">=1.0" None
        a ">=1,<2" Some("x")
        b "" Some("y")
        "#);
        assert_eq!(RequirementLine::parse("[x]"), None);
        let line = RequirementLine::parse("fw>=1; python_version < '3.0'").unwrap();
        assert_eq!(line.with_extras("x,y"), "fw[x,y]>=1; python_version < '3.0'");
        // The name and the extra have the digits of the version, too.
        let pinned = |text| {
            let it = RequirementLine::parse(text).unwrap();
            it.with_pin(&"2.1+rocm7".parse().unwrap())
        };
        assert_eq!(
            pinned(" lib2[x2] (== 2) ; extra == '2'").as_deref(),
            Some(" lib2[x2] (== 2.1+rocm7) ; extra == '2'")
        );
        assert_eq!(pinned("a==2.*"), None);
        let windows = RequirementLine::parse("c; sys_platform == \"win32\" and extra == \"z\"");
        let windows = windows.unwrap();
        assert!(windows.may_apply_on("win32") && !windows.may_apply_on("linux"));
    }
}
