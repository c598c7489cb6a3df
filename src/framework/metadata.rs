//! Edits METADATA and WHEEL. **Contract:** lines that do not change keep their bytes.

use std::{collections::BTreeSet, iter};

use itertools::Itertools as _;

use rocwheel_base::{
    error::{Result, ensure},
    version::Version,
};
use rocwheel_wheel::{Headers, Tag};

/// What changes in METADATA.
#[derive(Clone, Debug)]
pub(super) struct MetadataEdit {
    /// Requirements and extras to add, as whole lines: `Requires-Dist: …`, `Provides-Extra: …`.
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// The requirements to remove, as they are written.
    pub removed: Vec<String>,
    /// The extras to remove.
    pub removed_extras: BTreeSet<String>,
    pub version: Version,
    /// License files to name, and license expressions that hold besides that of the wheel.
    pub license_files: Vec<String>,
    pub licenses: Vec<String>,
    /// Specifiers of the version of Python that hold besides those of the wheel: `>=3.10`.
    pub requires_python: Vec<String>,
}

impl MetadataEdit {
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let mut headers: Headers = text.parse()?;
        headers.remove("Requires-Dist", |line| self.removed.iter().any(|it| it == line));
        headers.remove("Provides-Extra", |extra| self.removed_extras.contains(extra));
        let extras = self.extras.iter().map(|extra| ("Provides-Extra", extra));
        let requires = self.requires.iter().map(|line| ("Requires-Dist", line));
        headers.insert_behind(
            |name, _| name.eq_ignore_ascii_case("Requires-Dist"),
            extras.chain(requires),
        );
        // The same version may be written in another form, which stays.
        let version: Option<Version> = headers.get("Version").and_then(|text| text.parse().ok());
        if version.as_ref() != Some(&self.version) {
            headers.set("Version", &self.version.to_string());
        }
        // Extras came with 2.1, and installers ignore fields that the version of the metadata does not have.
        let without_extras = ["1.0", "1.1", "1.2", "2.0"];
        if headers.get("Metadata-Version").is_some_and(|it| without_extras.contains(&it)) {
            headers.set("Metadata-Version", "2.1");
        }
        self.add_licenses(&mut headers);
        self.join_requires_python(&mut headers);
        Ok(headers.to_string())
    }

    /// The files that join the wheel need a Python that their packages allow.
    fn join_requires_python(&self, headers: &mut Headers) {
        let before = headers.get("Requires-Python").unwrap_or_default().to_owned();
        let of_packages = self.requires_python.iter().map(String::as_str);
        let specifiers = iter::once(before.as_str()).chain(of_packages);
        let joined = specifiers
            .flat_map(|specifiers| specifiers.split(','))
            .map(str::trim)
            .filter(|specifier| !specifier.is_empty())
            .unique()
            .join(",");
        if !self.requires_python.is_empty() && joined != before {
            headers.set("Requires-Python", &joined);
        }
    }

    /// Adds the licenses of files that join the wheel. The fields came with 2.4; a wheel without a license expression
    /// claims nothing that would be false now.
    fn add_licenses(&self, headers: &mut Headers) {
        if let Some(expression) = headers.get("License-Expression") {
            let all =
                iter::once(expression).chain(self.licenses.iter().map(String::as_str)).unique();
            let joined = match all.exactly_one() {
                Ok(only) => only.to_owned(),
                Err(several) => several.map(|it| format!("({it})")).join(" AND "),
            };
            headers.set("License-Expression", &joined);
            let names = self.license_files.iter().map(|name| ("License-File", name));
            headers.insert_behind(|name, _| name.eq_ignore_ascii_case("License-File"), names);
        }
    }
}

/// Changes the tags of WHEEL: one line for each tag, sorted. The wheel is then installed into purelib, as the
/// ROCm packages are, because run paths lead from one to the other.
pub(super) fn change_wheel(text: &str, tag: &Tag) -> Result<String> {
    let mut headers: Headers = text.parse()?;
    headers.set("Root-Is-Purelib", "true");
    ensure!(headers.remove("Tag", |_| true), "WHEEL without `Tag`");
    let mut tags = tag.expand();
    tags.sort();
    headers.insert_behind(
        |name, _| name.eq_ignore_ascii_case("Root-Is-Purelib"),
        tags.iter().map(|tag| ("Tag", tag.to_string())),
    );
    Ok(headers.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_that_joining_files_need_is_required_too() {
        let required = |line: &str| {
            let edit = MetadataEdit {
                requires: Vec::new(),
                extras: Vec::new(),
                removed: Vec::new(),
                removed_extras: BTreeSet::new(),
                version: "1".parse().unwrap(),
                license_files: Vec::new(),
                licenses: Vec::new(),
                requires_python: vec![">=3.10".to_owned()],
            };
            let text = format!("Metadata-Version: 2.1\nName: x\nVersion: 1\n{line}\nbody");
            let headers: Headers = edit.apply(&text).unwrap().parse().unwrap();
            headers.get("Requires-Python").unwrap().to_owned()
        };
        assert_eq!(required(""), ">=3.10");
        assert_eq!(required("Requires-Python: >=3.10\n"), ">=3.10");
        assert_eq!(required("Requires-Python: >=3.9, <3.15\n"), ">=3.9,<3.15,>=3.10");
    }

    #[test]
    fn lines_that_do_not_change_keep_their_bytes() {
        let text = "Metadata-Version: 2.0\nName:   x\r\nVersion: 1\nSummary: two\n        lines\n\
                    Requires-Dist: numpy (>=1)\nRequires-Dist: rocm==1\nProvides-Extra: old\nLicense: x\n\n\
                    Requires-Dist: rocm==1\n\nbody";
        let edit = MetadataEdit {
            requires: vec!["rocm==2".to_owned()],
            extras: vec!["device".to_owned()],
            removed: vec!["rocm==1".to_owned()],
            removed_extras: ["old".to_owned()].into(),
            version: "1+rocm2".parse().unwrap(),
            license_files: vec!["rocm/LICENSE".to_owned()],
            licenses: vec!["MIT".to_owned()],
            requires_python: Vec::new(),
        };
        insta::assert_snapshot!(edit.apply(text).unwrap().replace('\r', "<CR>"), @"
        Metadata-Version: 2.1
        Name:   x<CR>
        Version: 1+rocm2
        Summary: two
                lines
        Requires-Dist: numpy (>=1)
        Provides-Extra: device
        Requires-Dist: rocm==2
        License: x

        Requires-Dist: rocm==1

        body
        ");
    }

    #[test]
    fn licenses_of_joining_files_are_added() {
        let edit = MetadataEdit {
            requires: Vec::new(),
            extras: Vec::new(),
            removed: Vec::new(),
            removed_extras: BTreeSet::new(),
            version: "1".parse().unwrap(),
            license_files: vec!["rocm/LICENSE".to_owned()],
            licenses: vec!["MIT".to_owned(), "A OR B".to_owned()],
            requires_python: Vec::new(),
        };
        let text = |license: &str| {
            let head = "Metadata-Version: 2.4\nName: x\nVersion: 1\nLicense-Expression: ";
            format!("{head}{license}\nLicense-File: LICENSE\nSummary: x\n")
        };
        insta::assert_snapshot!(edit.apply(&text("MIT")).unwrap(), @"
        Metadata-Version: 2.4
        Name: x
        Version: 1
        License-Expression: (MIT) AND (A OR B)
        License-File: LICENSE
        License-File: rocm/LICENSE
        Summary: x
        ");
        let alone = MetadataEdit { licenses: vec!["MIT".to_owned()], ..edit };
        assert!(alone.apply(&text("MIT")).unwrap().contains("License-Expression: MIT\n"));
    }

    #[test]
    fn wheel_gets_a_line_for_each_tag() {
        let tag = "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64".parse().unwrap();
        let text = "Wheel-Version: 1.0\nGenerator: x (1)\nRoot-Is-Purelib: false\nTag: a-b-c\nBuild: 1\n\n";
        insta::assert_snapshot!(change_wheel(text, &tag).unwrap(), @"
        Wheel-Version: 1.0
        Generator: x (1)
        Root-Is-Purelib: true
        Tag: cp311-cp311-manylinux2014_x86_64
        Tag: cp311-cp311-manylinux_2_17_x86_64
        Build: 1
        ");
        assert!(change_wheel("Wheel-Version: 1.0\n", &tag).is_err());
    }
}
