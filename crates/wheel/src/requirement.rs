//! [`Requirement`]: what a package needs ([PEP 508](https://peps.python.org/pep-0508/)).

use std::{ops::Range, str::FromStr};

use derive_more::Display;
use pep440_rs::VersionSpecifiers;

use super::{DistName, Marker};
use rocwheel_base::{
    error::{Context as _, Error, Result, ensure},
    version::Version,
};

/// A requirement as METADATA has it: `rocm[libraries]==7.14.*; extra == "x"`. Its text stays as it was, because
/// METADATA that is edited keeps its other bytes.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
#[display("{text}")]
pub struct Requirement {
    text: String,
    /// The project that is required, normalized.
    pub name: DistName,
    /// What the brackets have.
    pub extras: Vec<DistName>,
    /// Where the text has the versions or the address.
    specifier: Range<usize>,
    /// `None` for an address, and for versions that only some installers understand.
    versions: Option<VersionSpecifiers>,
    /// When it is required; empty if always.
    pub marker: Marker,
}

impl FromStr for Requirement {
    type Err = Error;

    /// Fails if no installer takes the text for a requirement. Versions and markers that only some installers
    /// understand are refused by [`Requirement::ensure_exact`].
    fn from_str(text: &str) -> Result<Self> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let start = text.trim_start();
        let (name, rest) = start.split_at(start.find(|c| !is_name(c)).unwrap_or(start.len()));
        let (extras, after_extras) = split_extras(rest.trim_start())?;
        let rest = after_extras.trim_start();
        let (specifier, after_specifier) = match rest.strip_prefix('@') {
            // Addresses may have a `;`. So an address ends at a space.
            Some(after_sign) => {
                let address = after_sign.trim_start();
                let end = address.find(char::is_whitespace).unwrap_or(address.len());
                rest.split_at(rest.len() - address.len() + end)
            }
            None => rest.split_at(rest.find(';').unwrap_or(rest.len())),
        };
        let marker = after_specifier.trim();
        ensure!(
            marker.is_empty() || marker.starts_with(';'),
            "no `;` after the address: {marker:?}"
        );
        // `numpy (>=1.20)`, as metadata before 2.0 has it.
        let written = specifier.trim_end();
        let specifier = written
            .strip_prefix('(')
            .and_then(|inside| inside.strip_suffix(')'))
            .map_or(written, str::trim);
        ensure!(
            specifier.is_empty() || specifier.starts_with(['@', '<', '>', '=', '!', '~']),
            "no operator before the version: {specifier:?}"
        );
        let at = specifier.as_ptr().addr() - text.as_ptr().addr();
        Ok(Self {
            text: text.to_owned(),
            name: name.parse()?,
            extras,
            specifier: at..at + specifier.len(),
            versions: specifier.parse().ok(),
            marker: marker.strip_prefix(';').unwrap_or_default().to_owned().into(),
        })
    }
}

/// The extras in brackets, and what follows them.
fn split_extras(text: &str) -> Result<(Vec<DistName>, &str)> {
    let Some(inside) = text.strip_prefix('[') else {
        return Ok((Vec::new(), text));
    };
    let (inside, rest) = inside.split_once(']').context("a bracket is not closed")?;
    if inside.trim().is_empty() {
        return Ok((Vec::new(), rest));
    }
    let extras: Result<_> = inside.split(',').map(|extra| extra.trim().parse()).collect();
    Ok((extras?, rest))
}

impl Requirement {
    /// The requirements among lines of METADATA. Lines that are none are left out.
    pub fn all(lines: &[String]) -> impl Iterator<Item = Self> {
        lines.iter().filter_map(|line| line.parse().ok())
    }

    /// What follows the name: `==7.14.*`, or `@ https://…`.
    pub fn specifier(&self) -> &str {
        &self.text[self.specifier.clone()]
    }

    /// The address that it names instead of versions.
    pub fn url(&self) -> Option<&str> {
        self.specifier().strip_prefix('@').map(str::trim_start)
    }

    /// Whether a version fulfils it. `None` if that is not understood.
    pub fn allows(&self, version: &Version) -> Option<bool> {
        self.versions.as_ref().map(|versions| version.is_in(versions))
    }

    /// Fails if only some installers understand its versions or its marker.
    pub fn ensure_exact(&self) -> Result<()> {
        ensure!(
            self.versions.is_some() || self.url().is_some(),
            "not every installer understands these versions"
        );
        self.marker.ensure_exact()
    }

    /// The only version that it allows: `2` of `a==2` and of `a (== 2)`.
    pub fn pin(&self) -> Option<Version> {
        self.pinned()?.parse().ok()
    }

    /// The requirement with these extras in place of its own: `torch[device-gfx942]>=2.10; python_version < "3.14"`.
    pub fn with_extras(&self, extras: &str) -> String {
        let name = &self.name;
        let specifier = self.specifier();
        let marker = &self.marker;
        match (self.url(), marker.is_empty()) {
            (_, true) => format!("{name}[{extras}]{specifier}"),
            // An address would take the `;` as one of its characters.
            (Some(_), false) => format!("{name}[{extras}]{specifier} ; {marker}"),
            (None, false) => format!("{name}[{extras}]{specifier}; {marker}"),
        }
    }

    /// The requirement with another version than the one that it allows. All other bytes stay.
    pub fn with_pin(&self, version: &Version) -> Option<String> {
        self.pin()?;
        let end = self.specifier.end;
        let start = end - self.pinned()?.len();
        Some(format!("{}{version}{}", &self.text[..start], &self.text[end..]))
    }

    /// What follows a single `==`. It ends the specifier.
    fn pinned(&self) -> Option<&str> {
        self.specifier().strip_prefix("==").map(str::trim_start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requirement(text: &str) -> Requirement {
        text.parse().unwrap()
    }

    #[test]
    fn a_requirement_says_what_it_names_and_for_whom() {
        let parts = |text| {
            let it = requirement(text);
            assert_eq!(it.to_string(), text);
            let extras: Vec<_> = it.extras.iter().map(DistName::to_string).collect();
            let specifier = it.specifier();
            let url = it.url();
            let marker = it.marker.extras();
            format!("{} {extras:?} {specifier:?} {url:?} {marker:?}", it.name)
        };
        let lines = [
            "rocm",
            "rocm[libraries, Dev_el]==7.14.*",
            "ROCm_SDK-core (>=1.0)",
            "a>=1,<2; python_version >= \"3.9\" and extra == 'x'",
            "b; (extra == \"y\")",
            "b ;'y' == extra or extra == \"z\"",
            "c[]",
            "d @ https://h/a;b#sha256=1 ; extra == 'x'",
            "e @https://h/a;extra=='x'",
            "f==1.0.*.*; $",
        ];
        insta::assert_snapshot!(lines.map(parts).join("\n"), @r#"
        rocm [] "" None []
        rocm ["libraries", "dev-el"] "==7.14.*" None []
        rocm-sdk-core [] ">=1.0" None []
        a [] ">=1,<2" None ["x"]
        b [] "" None ["y"]
        b [] "" None ["y", "z"]
        c [] "" None []
        d [] "@ https://h/a;b#sha256=1" Some("https://h/a;b#sha256=1") ["x"]
        e [] "@https://h/a;extra=='x'" Some("https://h/a;extra=='x'") []
        f [] "==1.0.*.*" None []
        "#);
        let line = requirement("fw>=1; python_version < '3.0'");
        assert_eq!(line.with_extras("x,y"), "fw[x,y]>=1; python_version < '3.0'");
        let line = requirement("fw @ https://h ; python_version < '3.0'");
        assert_eq!(line.with_extras("x"), "fw[x]@ https://h ; python_version < '3.0'");
        // The name and the extra have the digits of the version, too.
        let pinned = |text| requirement(text).with_pin(&"2.1+rocm7".parse().unwrap());
        assert_eq!(
            pinned(" lib2[x2] (== 2) ; extra == '2'").as_deref(),
            Some(" lib2[x2] (== 2.1+rocm7) ; extra == '2'")
        );
        assert_eq!(pinned("a ==\t2 ").as_deref(), Some("a ==\t2.1+rocm7 "));
        assert_eq!(pinned("a==2.*"), None);
        assert_eq!(pinned("a==2,<3"), None);
        assert_eq!(requirement("a>=2").allows(&"1".parse().unwrap()), Some(false));
        assert_eq!(requirement("a @ https://h").allows(&"1".parse().unwrap()), None);
    }

    #[test]
    fn what_no_installer_takes_for_a_requirement_is_refused() {
        let refused =
            ["", "[x]", "-a", "a b", "a 1.0", "a[x", "a[x y]", "a[,]", "a (>=1", "a @ h x"];
        let said = refused.map(|text| format!("{:#}\n", text.parse::<Requirement>().unwrap_err()));
        insta::assert_snapshot!(said.concat(), @r#"
        an empty distribution name: ""
        an empty distribution name: ""
        a distribution name begins and ends with a letter or digit: "-a"
        no operator before the version: "b"
        no operator before the version: "1.0"
        a bracket is not closed
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "x y"
        an empty distribution name: ""
        no operator before the version: "(>=1"
        no `;` after the address: "x"
        "#);
        let inexact = ["a==1.0.*.*", "a>=x", "a; os_name ~= 'x'", "a; $"];
        let said =
            inexact.map(|text| format!("{:#}\n", requirement(text).ensure_exact().unwrap_err()));
        insta::assert_snapshot!(said.concat(), @r"
        not every installer understands these versions
        not every installer understands these versions
        failed to read the marker `os_name ~= 'x'`: `~=` compares versions only
        failed to read the marker `$`: not part of a marker: '$'
        ");
    }

    proptest! {
        #[test]
        fn any_text_is_a_requirement_that_keeps_its_text_or_none(text in "[ab]?( |\\[|\\]|@|;|\\(|\\)|,|==|>=|1|x|'|extra|\\PC){0,12}") {
            if let Ok(requirement) = text.parse::<Requirement>() {
                prop_assert_eq!(requirement.to_string(), text);
                prop_assert!(requirement.with_extras("x").parse::<Requirement>().is_ok());
                if let Some(pin) = requirement.pin() {
                    let again: Requirement = requirement.with_pin(&pin).unwrap().parse().unwrap();
                    prop_assert_eq!(again.pin(), Some(pin));
                }
            }
        }
    }
}
