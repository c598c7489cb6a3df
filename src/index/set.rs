//! Facts about the files of a package set, as far as an index tells them.

use std::{collections::HashSet, fmt, str::FromStr};

use crate::{digest::Sha256, version::Version, wheel::DistName};

/// A package set: every file once, by project, then version, then name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet(Vec<SetFile>);

/// One wheel or sdist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    pub name: FileName,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// When it was uploaded, if somebody knows; a page never makes one up.
    pub upload_time: Option<UploadTime>,
    /// The wheel's METADATA, published beside it as `{name}.metadata`.
    pub metadata: Option<Sidecar>,
    /// As the package says it, for example `>=3.10`.
    pub requires_python: Option<String>,
    /// Why the file was withdrawn; the reason may be empty.
    pub yanked: Option<String>,
}

impl SetFile {
    /// The name of the metadata sidecar, whether there is one or not.
    pub fn sidecar_name(&self) -> String {
        format!("{}.metadata", self.name)
    }
}

/// The metadata file that lets an installer resolve without the wheel (PEP 658).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    bytes: Vec<u8>,
    sha256: Sha256,
}

impl Sidecar {
    pub fn new(bytes: Vec<u8>) -> Self {
        let sha256 = Sha256::of(&bytes);
        Self { bytes, sha256 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Of the sidecar, never of the wheel.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }
}

/// Two files of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two files of one name in a package set: `{0}`")]
pub struct Duplicate(FileName);

impl PackageSet {
    pub fn new(mut files: Vec<SetFile>) -> Result<Self, Duplicate> {
        files.sort_by(|a, b| {
            let project = a.project.cmp(&b.project);
            let version = a.version.cmp(&b.version);
            project.then(version).then_with(|| a.name.cmp(&b.name))
        });
        let mut names = HashSet::new();
        match files.iter().find(|file| !names.insert(&file.name)) {
            Some(twice) => Err(Duplicate(twice.name.clone())),
            None => Ok(Self(files)),
        }
    }

    pub fn files(&self) -> &[SetFile] {
        &self.0
    }

    /// Every project, by its normal form, with its files, in order.
    pub fn projects(&self) -> impl Iterator<Item = (&str, &[SetFile])> {
        self.0
            .chunk_by(|a, b| a.project == b.project)
            .filter_map(|files| {
                files
                    .first()
                    .map(|first| (first.project.normalized(), files))
            })
    }

    /// What all its files take, sidecars aside.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|file| file.size).sum()
    }
}

/// The name of a published file: one component of a path, and one line of text.
///
/// Never empty, `.` or `..`; no `/`, `\` or control character. Quotes, angle brackets, `%`, `+`,
/// spaces and any other Unicode are allowed, and pages escape them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidFileName {
    text: String,
    reason: &'static str,
}

impl FileName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FileName {
    type Err = InvalidFileName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let reason = if text.is_empty() {
            "an empty file name"
        } else if matches!(text, "." | "..") {
            "a directory for a file name"
        } else if text.contains(['/', '\\']) {
            "a path for a file name"
        } else if text.contains(char::is_control) {
            "a control character in a file name"
        } else {
            return Ok(Self(text.into()));
        };
        let text = text.to_owned();
        Err(InvalidFileName { text, reason })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A moment in UTC as PEP 700 writes it: `2026-03-01T12:00:05.250000Z`, the fraction optional.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadTime(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time like `2026-03-01T12:00:05Z`: {0:?}")]
pub struct InvalidUploadTime(String);

impl FromStr for UploadTime {
    type Err = InvalidUploadTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (seconds, fraction) = text
            .strip_suffix('Z')
            .map(|rest| rest.split_once('.').unwrap_or((rest, "0")))
            .unwrap_or_default();
        let shape = "0000-00-00T00:00:00";
        let alike = seconds.len() == shape.len()
            && seconds.chars().zip(shape.chars()).all(|(c, like)| {
                if like == '0' {
                    c.is_ascii_digit()
                } else {
                    c == like
                }
            });
        let digits =
            (1..=6).contains(&fraction.len()) && fraction.chars().all(|c| c.is_ascii_digit());
        if alike && digits {
            Ok(Self(text.into()))
        } else {
            Err(InvalidUploadTime(text.to_owned()))
        }
    }
}

impl fmt::Display for UploadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sets that the tests of this module and of its siblings speak of.
#[cfg(test)]
pub(super) mod samples {
    use super::*;

    pub(in crate::index) fn file(name: &str, project: &str, version: &str) -> SetFile {
        SetFile {
            name: name.parse().unwrap(),
            project: project.parse().unwrap(),
            version: version.parse().unwrap(),
            size: 1_234_567,
            sha256: Sha256::of(name.as_bytes()),
            upload_time: None,
            metadata: None,
            requires_python: None,
            yanked: None,
        }
    }

    pub(in crate::index) fn files() -> Vec<SetFile> {
        let sdist = file("rocm-7.13.0.dev0+ab.tar.gz", "rocm", "7.13.0.dev0+ab");
        let core = SetFile {
            metadata: Some(Sidecar::new(b"Metadata-Version: 2.4\n".to_vec())),
            ..file(
                "rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
                "rocm_sdk_core",
                "7.13.0.dev0+ab",
            )
        };
        let old = SetFile {
            requires_python: Some(">=3.8,<4".into()),
            yanked: Some("broken \"launcher\" & more".into()),
            upload_time: Some("2026-03-01T12:00:05.250000Z".parse().unwrap()),
            size: 12,
            ..file(
                "rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
                "rocm_sdk_core",
                "7.9.0",
            )
        };
        vec![core, sdist, old]
    }

    pub(in crate::index) fn set() -> PackageSet {
        PackageSet::new(files()).unwrap()
    }

    /// A file whose name and facts try to break out of wherever they are written.
    pub(in crate::index) fn hostile() -> PackageSet {
        let name = "a\" onload='x'><b>&amp;|`%2B+ é\u{202e}-1.0.tar.gz";
        let file = SetFile {
            requires_python: Some("\"><script>".into()),
            yanked: Some("\n\"'<&>".into()),
            ..file(name, "a", "1.0")
        };
        PackageSet::new(vec![file]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_in_the_order_of_projects_then_versions() {
        let names: Vec<String> = samples::set()
            .projects()
            .flat_map(|(project, files)| {
                files
                    .iter()
                    .map(move |file| format!("{project} {}", file.version))
            })
            .collect();
        let expected = [
            "rocm 7.13.0.dev0+ab",
            "rocm-sdk-core 7.9.0",
            "rocm-sdk-core 7.13.0.dev0+ab",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_name_twice_is_refused() {
        let file = samples::file("a-1.tar.gz", "a", "1");
        let refused = PackageSet::new(vec![file.clone(), file]).unwrap_err();
        insta::assert_snapshot!(refused, @"two files of one name in a package set: `a-1.tar.gz`");
    }

    #[test]
    fn a_file_name_is_one_component_on_one_line() {
        let refused = ["", ".", "..", "a/b", "..\\b", "a\nb", "a\0b", "a\u{85}b"];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<FileName>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty file name: ""
        a directory for a file name: "."
        a directory for a file name: ".."
        a path for a file name: "a/b"
        a path for a file name: "..\\b"
        a control character in a file name: "a\nb"
        a control character in a file name: "a\0b"
        a control character in a file name: "a\u{85}b"
        "#);
        assert!("..a b+%\"<é".parse::<FileName>().is_ok());
    }

    #[test]
    fn upload_times_are_in_utc_and_say_so() {
        let time = |text: &str| text.parse::<UploadTime>().map(|time| time.to_string());
        for text in ["2026-03-01T12:00:05Z", "2026-03-01T12:00:05.250000Z"] {
            assert_eq!(time(text), Ok(text.to_owned()));
        }
        let refused = [
            "",
            "Z",
            "2026-03-01",
            "2026-03-01T12:00:05",
            "2026-03-01 12:00:05Z",
            "2026-03-01T12:00:05.Z",
            "2026-03-01T12:00:05.1234567Z",
            "2026-03-01T12:00:05+01:00Z",
            "2026-03-01T12:00:0\u{665}Z",
        ];
        for text in refused {
            assert!(time(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(time("\">").unwrap_err(), @r#"not a time like `2026-03-01T12:00:05Z`: "\">""#);
    }
}
