//! Edits METADATA and WHEEL line by line: what is not changed keeps its bytes.

use std::collections::BTreeSet;

use crate::{
    error::{Context as _, Result},
    version::Version,
    wheel::Tag,
};

/// A text of header lines, an empty line and a body, which is left alone.
#[derive(Clone, Debug)]
pub(super) struct HeaderText {
    /// The headers with their continuation lines, each with its line breaks.
    headers: Vec<String>,
    rest: String,
}

impl HeaderText {
    pub(super) fn parse(text: &str) -> Self {
        let (mut headers, mut at): (Vec<String>, usize) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            if line.trim_end_matches(['\r', '\n']).is_empty() {
                break;
            }
            at += line.len();
            match headers.last_mut() {
                Some(header) if line.starts_with([' ', '\t']) => header.push_str(line),
                _ => headers.push(line.to_owned()),
            }
        }
        if let Some(last) = headers.last_mut().filter(|it| !it.ends_with('\n')) {
            last.push('\n');
        }
        let rest = text.get(at..).unwrap_or_default().to_owned();
        Self { headers, rest }
    }

    /// The values of all headers of a name.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers
            .iter()
            .filter_map(move |header| value(header, name))
    }

    /// Replaces the value of the only header of a name, or adds the header at the end.
    pub(super) fn set(&mut self, name: &str, text: &str) {
        let line = format!("{name}: {text}\n");
        let mut headers = self.headers.iter_mut();
        match headers.find(|header| value(header, name).is_some()) {
            Some(header) if value(header, name) == Some(text) => {}
            Some(header) => *header = line,
            None => self.headers.push(line),
        }
    }

    /// Removes the headers of a name whose values a function wants gone, and returns their values.
    pub(super) fn remove(&mut self, name: &str, is_gone: impl Fn(&str) -> bool) -> Vec<String> {
        let mut removed = Vec::new();
        self.headers.retain(|header| {
            let gone = value(header, name).filter(|value| is_gone(value));
            removed.extend(gone.map(str::to_owned));
            gone.is_none()
        });
        removed
    }

    /// Adds headers behind the last one of a name, else behind the last of all.
    pub(super) fn add(&mut self, behind: &str, lines: impl IntoIterator<Item = String>) {
        let place = self
            .headers
            .iter()
            .rposition(|header| value(header, behind).is_some());
        let place = place.map_or(self.headers.len(), |it| it + 1);
        let lines = lines.into_iter().map(|line| format!("{line}\n"));
        self.headers.splice(place..place, lines);
    }

    pub(super) fn render(&self) -> String {
        self.headers.concat() + &self.rest
    }
}

fn value<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let (own, value) = header.split_once(':')?;
    own.eq_ignore_ascii_case(name).then(|| value.trim())
}

/// What changes in METADATA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MetadataEdit {
    /// Requirements and extras to add, as whole lines: `Requires-Dist: …`, `Provides-Extra: …`.
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// The requirements to remove, as they are written.
    pub removed: Vec<String>,
    /// The extras to remove.
    pub removed_extras: BTreeSet<String>,
    /// The version, if it changes.
    pub version: Option<Version>,
}

impl MetadataEdit {
    pub(super) fn apply(&self, text: &str) -> String {
        let mut text = HeaderText::parse(text);
        text.remove("Requires-Dist", |it| {
            self.removed.iter().any(|gone| gone == it)
        });
        text.remove("Provides-Extra", |it| self.removed_extras.contains(it));
        let extras = self.extras.iter().map(|it| format!("Provides-Extra: {it}"));
        let requires = self
            .requires
            .iter()
            .map(|it| format!("Requires-Dist: {it}"));
        text.add("Requires-Dist", extras.chain(requires));
        if let Some(version) = &self.version {
            text.set("Version", &version.to_string());
        }
        // Extras came with 2.1, and older installers ignore what an older version cannot have.
        let old = ["1.0", "1.1", "1.2", "2.0"];
        if text.values("Metadata-Version").any(|it| old.contains(&it)) {
            text.set("Metadata-Version", "2.1");
        }
        text.render()
    }
}

/// WHEEL for other tags: one line for each, sorted, and installed into the directory that the ROCm
/// packages use. Everything else keeps its bytes.
pub(super) fn wheel_text(text: &str, tag: &Tag) -> Result<String> {
    let mut text = HeaderText::parse(text);
    text.set("Root-Is-Purelib", "true");
    let old = text.remove("Tag", |_| true);
    old.first().context("WHEEL without `Tag`")?;
    let mut tags = tag.expand();
    tags.sort();
    text.add(
        "Root-Is-Purelib",
        tags.iter().map(|tag| format!("Tag: {tag}")),
    );
    Ok(text.render())
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
            version: Some("1+rocm2".parse().unwrap()),
        };
        insta::assert_snapshot!(edit.apply(text).replace('\r', "<CR>"), @"
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
        assert_eq!(MetadataEdit::default().apply("A: 1"), "A: 1\n");
    }

    #[test]
    fn wheel_gets_a_line_for_each_tag() {
        let tag = "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"
            .parse()
            .unwrap();
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
