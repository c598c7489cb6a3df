//! [`YankList`]: which files are yanked, and why ([PEP 592](https://peps.python.org/pep-0592/)).

use std::collections::BTreeSet;

use super::set_json::{SetFile, is_package};
use crate::{
    error::{Context as _, No, Result, bail, ensure},
    version::Version,
    wheel::DistName,
};

/// A list of files or releases, one per line, each optionally followed by a reason:
///
/// ```text
/// # broken launchers
/// rocm-sdk-core==7.13.0  launcher is broken
/// rocm-7.13.0.tar.gz
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct YankList(Vec<YankLine>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct YankLine {
    text: String,
    what: YankSubject,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum YankSubject {
    File(String),
    /// `rocm-sdk-core==7.13.0`: every file of it.
    Release(DistName, Version),
}

impl YankSubject {
    fn has(&self, file: &SetFile) -> bool {
        match self {
            Self::File(name) => file.name() == *name,
            Self::Release(project, version) => file.project == *project && file.version == *version,
        }
    }
}

impl YankList {
    /// Parses the list. Blank lines and lines that begin with `#` are ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines: Vec<YankLine> = Vec::new();
        let numbered = text.trim_start_matches('\u{feff}').lines().zip(1..);
        for (line, number) in numbered {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = || -> Result<YankLine> {
                let (text, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                let line = YankLine {
                    text: text.to_owned(),
                    what: what(text)?,
                    reason: reason.trim().to_owned(),
                };
                Self::ensure_plain(&line.reason)?;
                if lines.iter().any(|other| other.what == line.what) {
                    bail!("`{text}` is there twice");
                }
                Ok(line)
            };
            let line = read().with_context(|| format!("line {number}"))?;
            lines.push(line);
        }
        Ok(Self(lines))
    }

    /// Fails if pages cannot show the reason for a yank.
    pub fn ensure_plain(reason: &str) -> Result<()> {
        let is_plain = !reason.contains(char::is_control);
        ensure!(is_plain, "a control character in the reason: {reason:?}");
        Ok(())
    }

    /// Yanks exactly the files in the list, and no others. A line that matches no file is an error,
    /// because the file that it meant would stay available.
    pub(super) fn apply(&self, files: &mut [SetFile]) -> Result<()> {
        let mut used = BTreeSet::new();
        for file in files {
            file.yanked = None;
            for line in &self.0 {
                if line.what.has(file) {
                    used.insert(&*line.text);
                    // The reason for a file takes precedence over that for its release.
                    if file.yanked.is_none() || matches!(line.what, YankSubject::File(_)) {
                        file.yanked = Some(line.reason.clone());
                    }
                }
            }
        }
        let unused = self.0.iter().filter(|line| !used.contains(&*line.text));
        let unused: Vec<&str> = unused.map(|line| line.text.as_str()).collect();
        ensure!(
            unused.is_empty(),
            No(format!("not in the set, so not to be yanked: `{}`", unused.join("`, `")))
        );
        Ok(())
    }
}

fn what(text: &str) -> Result<YankSubject> {
    match text.split_once("==") {
        Some((project, version)) => Ok(YankSubject::Release(project.parse()?, version.parse()?)),
        None if is_package(text) => Ok(YankSubject::File(text.to_owned())),
        None => bail!("neither the name of a file nor `project==version`: `{text}`"),
    }
}

#[cfg(test)]
mod tests;
