//! How METADATA and WHEEL change. What is not changed keeps its bytes.

use std::collections::BTreeSet;

use crate::{
    error::{Result, ensure},
    version::Version,
    wheel::{Headers, Tag},
};

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
}

impl MetadataEdit {
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let mut text: Headers = text.parse()?;
        text.remove("Requires-Dist", |it| self.removed.iter().any(|gone| gone == it));
        text.remove("Provides-Extra", |it| self.removed_extras.contains(it));
        let extras = self.extras.iter().map(|it| ("Provides-Extra", it));
        let requires = self.requires.iter().map(|it| ("Requires-Dist", it));
        text.insert_behind(
            |name, _| name.eq_ignore_ascii_case("Requires-Dist"),
            extras.chain(requires),
        );
        // The same version may be written in another form.
        if text.get("Version").and_then(|it| it.parse().ok()).as_ref() != Some(&self.version) {
            text.set("Version", &self.version.to_string());
        }
        // Extras came with 2.1, and older installers ignore what an older version cannot have.
        let old = ["1.0", "1.1", "1.2", "2.0"];
        if text.get("Metadata-Version").is_some_and(|it| old.contains(&it)) {
            text.set("Metadata-Version", "2.1");
        }
        Ok(text.to_string())
    }
}

/// WHEEL for other tags: one line for each, sorted, and installed into the directory that the ROCm
/// packages use.
pub(super) fn wheel_text(text: &str, tag: &Tag) -> Result<String> {
    let mut text: Headers = text.parse()?;
    text.set("Root-Is-Purelib", "true");
    ensure!(text.remove("Tag", |_| true), "WHEEL without `Tag`");
    let mut tags = tag.expand();
    tags.sort();
    text.insert_behind(
        |name, _| name.eq_ignore_ascii_case("Root-Is-Purelib"),
        tags.iter().map(|tag| ("Tag", tag.to_string())),
    );
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn wheel_gets_a_line_for_each_tag() {
        let tag = "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64".parse().unwrap();
        let text = "Wheel-Version: 1.0\nGenerator: x (1)\nRoot-Is-Purelib: false\nTag: a-b-c\nBuild: 1\n\n";
        insta::assert_snapshot!(wheel_text(text, &tag).unwrap(), @"
        Wheel-Version: 1.0
        Generator: x (1)
        Root-Is-Purelib: true
        Tag: cp311-cp311-manylinux2014_x86_64
        Tag: cp311-cp311-manylinux_2_17_x86_64
        Build: 1
        ");
        assert!(wheel_text("Wheel-Version: 1.0\n", &tag).is_err());
    }
}
