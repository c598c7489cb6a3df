//! Parses and applies the list of `--yank`: which files are yanked, and why
//! ([PEP 592](https://peps.python.org/pep-0592/)).

use std::collections::BTreeSet;

use super::packages::{PackageSet, SetFile, is_package};
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
            Self::File(name) => file.name == *name,
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
                if line.reason.contains(char::is_control) {
                    bail!("a control character in the reason: {:?}", line.reason);
                }
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

    /// Yanks exactly the files in the list, and no others. A line that matches no file is an error,
    /// because the file that it meant would stay available.
    pub(super) fn apply(&self, set: PackageSet) -> Result<PackageSet> {
        let mut files = set.into_files();
        let mut used = BTreeSet::new();
        for file in &mut files {
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
            No(format!(
                "not in the set, so not to be yanked: `{}`",
                unused.join("`, `")
            ))
        );
        PackageSet::new(files)
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
mod tests {
    use super::*;
    use crate::{digest::Sha256, error::render};

    fn file(name: &str, project: &str, version: &str) -> SetFile {
        SetFile {
            family: None,
            name: name.to_owned(),
            project: project.parse().unwrap(),
            version: version.parse().unwrap(),
            size: 1,
            sha256: Sha256::of(b""),
            upload_time: None,
            metadata: None,
            requires_python: None,
            yanked: Some("before".into()),
        }
    }

    fn set() -> PackageSet {
        let files = vec![
            file("rocm-1.0.tar.gz", "rocm", "1.0"),
            file("rocm_sdk_core-1.0-py3-none-any.whl", "rocm-sdk-core", "1.0"),
            file(
                "rocm_sdk_core-1.0-py3-none-win_amd64.whl",
                "rocm-sdk-core",
                "1.0",
            ),
            file("rocm_sdk_core-2.0-py3-none-any.whl", "rocm-sdk-core", "2.0"),
        ];
        PackageSet::new(files).unwrap()
    }

    #[test]
    fn a_list_names_files_and_releases_with_their_reasons() {
        let list = "\u{feff}# broken\n\nRocm.SDK_core==1.0.0\tlauncher  is broken \r\n\
                    rocm_sdk_core-1.0-py3-none-win_amd64.whl   not <signed>\nrocm-1.0.tar.gz\n";
        let set = YankList::parse(list).unwrap().apply(set()).unwrap();
        let shown: Vec<String> = set
            .files()
            .iter()
            .map(|file| format!("{}: {:?}", file.name, file.yanked))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        rocm-1.0.tar.gz: Some("")
        rocm_sdk_core-1.0-py3-none-any.whl: Some("launcher  is broken")
        rocm_sdk_core-1.0-py3-none-win_amd64.whl: Some("not <signed>")
        rocm_sdk_core-2.0-py3-none-any.whl: None
        "#);
    }

    #[test]
    fn an_empty_list_takes_every_yank_back() {
        let set = YankList::parse("").unwrap().apply(set()).unwrap();
        assert!(set.files().iter().all(|file| file.yanked.is_none()));
    }

    #[test]
    fn what_cannot_be_yanked_is_an_error_in_words() {
        let lists = [
            "rocm-1.1.tar.gz\nrocm==2 gone\nrocm==1.0 there",
            "rocm\n",
            "\nrocm==x",
            "a b==1",
            "rocm==1.0 a\u{7}b",
            "rocm==1.0 a\nROCM==1.0.0 b",
        ];
        let said = lists.map(|list| {
            let answer = YankList::parse(list).and_then(|list| list.apply(set()));
            render(&answer.unwrap_err())
        });
        insta::assert_snapshot!(said.concat(), @r#"
        error: not in the set, so not to be yanked: `rocm-1.1.tar.gz`, `rocm==2`
        error: line 1
          caused by: neither the name of a file nor `project==version`: `rocm`
        error: line 2
          caused by: not a PEP 440 version: "x"
          caused by: expected version to start with a number, but no leading ASCII digits were found
        error: line 1
          caused by: neither the name of a file nor `project==version`: `a`
        error: line 1
          caused by: a control character in the reason: "a\u{7}b"
        error: line 2
          caused by: `ROCM==1.0.0` is there twice
        "#);
    }
}
