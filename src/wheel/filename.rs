//! `WheelFilename` and `SdistFilename`: file names, parsed as in
//! [PEP 427](https://peps.python.org/pep-0427/) and [PEP 625](https://peps.python.org/pep-0625/).
//!
//! A parsed name is displayed exactly as it was, even if it is not normalized: it names a file that
//! exists.

use std::{fmt, str::FromStr};

use crate::{
    version::{InvalidVersion, Version},
    wheel::{
        name::{DistName, InvalidDistName},
        tag::{InvalidTag, Tag},
    },
};

/// The file name of a wheel, `rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WheelFilename {
    text: Box<str>,
    name: DistName,
    version: Version,
    build: Option<Box<str>>,
    tag: Tag,
}

/// The file name of an sdist, `rocm-7.13.0.tar.gz`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SdistFilename {
    text: Box<str>,
    name: DistName,
    version: Version,
}

/// Error of parsing a [`WheelFilename`] or a [`SdistFilename`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the file name of {kind}: {text:?}")]
pub struct InvalidFilename {
    kind: &'static str,
    text: String,
    #[source]
    reason: FilenameErrorReason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum FilenameErrorReason {
    #[error("no `{0}` at its end")]
    Suffix(&'static str),
    #[error("five or six parts between hyphens expected, not {0}")]
    Parts(usize),
    #[error("no hyphen before a version")]
    Hyphen,
    #[error("a build number is a digit, then letters, digits, `_` and `.`: {0:?}")]
    Build(String),
    #[error(transparent)]
    Name(#[from] InvalidDistName),
    #[error(transparent)]
    Version(#[from] InvalidVersion),
    #[error(transparent)]
    Tag(#[from] InvalidTag),
}

impl WheelFilename {
    /// The normalized file name for a name, a version and a tag.
    pub fn new(name: &DistName, version: &Version, tag: &Tag) -> Self {
        let stem = stem(name, version);
        Self {
            text: format!("{stem}-{tag}.whl").into(),
            name: name.clone(),
            version: version.clone(),
            build: None,
            tag: tag.clone(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn name(&self) -> &DistName {
        &self.name
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The build number, `1` of `a-1.0-1-py3-none-any.whl`. Among wheels that are otherwise the
    /// same, installers prefer the highest.
    pub fn build(&self) -> Option<&str> {
        self.build.as_deref()
    }

    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The directory of the wheel's metadata, `rocm_sdk_core-7.13.0.dist-info`.
    pub fn dist_info(&self) -> String {
        format!("{}.dist-info", stem(&self.name, &self.version))
    }
}

impl SdistFilename {
    /// The normalized file name for a name and a version.
    pub fn new(name: &DistName, version: &Version) -> Self {
        Self {
            text: format!("{}.tar.gz", stem(name, version)).into(),
            name: name.clone(),
            version: version.clone(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn name(&self) -> &DistName {
        &self.name
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The top directory of the archive, `rocm-7.13.0`.
    pub fn top(&self) -> &str {
        self.text.strip_suffix(SDIST).unwrap_or(&self.text)
    }
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

/// The part that the file names and the `.dist-info` directory have in common:
/// `rocm_sdk_core-7.13.0`.
fn stem(name: &DistName, version: &Version) -> String {
    format!("{}-{}", name.filename_form(), version.filename_form())
}

impl FromStr for WheelFilename {
    type Err = InvalidFilename;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_wheel(text).map_err(|reason| InvalidFilename {
            kind: "a wheel",
            text: text.to_owned(),
            reason,
        })
    }
}

impl FromStr for SdistFilename {
    type Err = InvalidFilename;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_sdist(text).map_err(|reason| InvalidFilename {
            kind: "an sdist",
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse_wheel(text: &str) -> Result<WheelFilename, FilenameErrorReason> {
    let stem = text
        .strip_suffix(WHEEL)
        .ok_or(FilenameErrorReason::Suffix(WHEEL))?;
    let parts: Vec<&str> = stem.split('-').collect();
    let (name, version, build, tag) = match parts[..] {
        [name, version, _, _, _] => (name, version, None, &parts[2..]),
        [name, version, build, _, _, _] => (name, version, Some(build), &parts[3..]),
        _ => return Err(FilenameErrorReason::Parts(parts.len())),
    };
    if let Some(build) = build.filter(|build| !is_build(build)) {
        return Err(FilenameErrorReason::Build(build.to_owned()));
    }
    Ok(WheelFilename {
        text: text.into(),
        name: name.parse()?,
        version: version.parse()?,
        build: build.map(Box::from),
        tag: tag.join("-").parse()?,
    })
}

fn parse_sdist(text: &str) -> Result<SdistFilename, FilenameErrorReason> {
    let stem = text
        .strip_suffix(SDIST)
        .ok_or(FilenameErrorReason::Suffix(SDIST))?;
    // Names of older sdists may contain hyphens, but versions never do: split at the last one.
    let (name, version) = stem.rsplit_once('-').ok_or(FilenameErrorReason::Hyphen)?;
    Ok(SdistFilename {
        text: text.into(),
        name: name.parse()?,
        version: version.parse()?,
    })
}

fn is_build(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
}

impl fmt::Display for WheelFilename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Display for SdistFilename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;

    fn wheel(text: &str) -> WheelFilename {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_made_from_parts_is_in_normal_form() {
        let name: DistName = "rocm-sdk-libraries-gfx94X-dcgpu".parse().unwrap();
        let version: Version = "10.1.0.dev0+ABC-def".parse().unwrap();
        let tag: Tag = "py3-none-linux_x86_64".parse().unwrap();
        let filename = WheelFilename::new(&name, &version, &tag);
        assert_eq!(
            filename.to_string(),
            "rocm_sdk_libraries_gfx94x_dcgpu-10.1.0.dev0+abc.def-py3-none-linux_x86_64.whl"
        );
        assert_eq!(wheel(filename.as_str()), filename);
        assert_eq!(
            filename.dist_info(),
            "rocm_sdk_libraries_gfx94x_dcgpu-10.1.0.dev0+abc.def.dist-info"
        );
        let sdist = SdistFilename::new(&"ROCm".parse().unwrap(), &version);
        assert_eq!(sdist.to_string(), "rocm-10.1.0.dev0+abc.def.tar.gz");
        assert_eq!(sdist.top(), "rocm-10.1.0.dev0+abc.def");
        assert_eq!(sdist.to_string().parse(), Ok(sdist));
    }

    #[test]
    fn a_parsed_name_prints_as_it_was_and_tells_its_parts() {
        let filename = wheel(
            "Ruamel.Yaml-1.0+x_2-1a-cp39.cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        );
        assert_eq!(filename.name().normalized(), "ruamel-yaml");
        assert_eq!(filename.version().to_string(), "1.0+x.2");
        assert_eq!(filename.build(), Some("1a"));
        assert_eq!(filename.tag().expand().len(), 4);
        assert!(filename.to_string().starts_with("Ruamel.Yaml-"));
        let sdist: SdistFilename = "rocm-sdk-1.0.tar.gz".parse().unwrap();
        assert_eq!(sdist.name().normalized(), "rocm-sdk");
    }

    #[test]
    fn a_file_name_that_is_no_wheels_is_refused_in_words() {
        let refused = [
            "rocm-1.0.tar.gz",
            ".whl",
            "rocm-1.0-py3-none.whl",
            "rocm-sdk-core-1.0-py3-none-any-x.whl",
            "rocm-sdk-1.0-py3-none-any.whl",
            "rocm-1.0-x1-py3-none-any.whl",
            "rocm-1.0-1/2-py3-none-any.whl",
            "-1.0-py3-none-any.whl",
            "../rocm-1.0-py3-none-any.whl",
            "rocm-seven-py3-none-any.whl",
            "rocm-1.0-py3-none-.whl",
            "rocm-1.0-py3-none-a/b.whl",
            "rocm-1.0-py3-none-any.WHL",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| {
                format!(
                    "{:#}",
                    Error::from(text.parse::<WheelFilename>().unwrap_err())
                )
            })
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the file name of a wheel: "rocm-1.0.tar.gz": no `.whl` at its end
        not the file name of a wheel: ".whl": five or six parts between hyphens expected, not 1
        not the file name of a wheel: "rocm-1.0-py3-none.whl": five or six parts between hyphens expected, not 4
        not the file name of a wheel: "rocm-sdk-core-1.0-py3-none-any-x.whl": five or six parts between hyphens expected, not 8
        not the file name of a wheel: "rocm-sdk-1.0-py3-none-any.whl": not a PEP 440 version: "sdk": expected version to start with a number, but no leading ASCII digits were found
        not the file name of a wheel: "rocm-1.0-x1-py3-none-any.whl": a build number is a digit, then letters, digits, `_` and `.`: "x1"
        not the file name of a wheel: "rocm-1.0-1/2-py3-none-any.whl": a build number is a digit, then letters, digits, `_` and `.`: "1/2"
        not the file name of a wheel: "-1.0-py3-none-any.whl": an empty distribution name: ""
        not the file name of a wheel: "../rocm-1.0-py3-none-any.whl": a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "../rocm"
        not the file name of a wheel: "rocm-seven-py3-none-any.whl": not a PEP 440 version: "seven": expected version to start with a number, but no leading ASCII digits were found
        not the file name of a wheel: "rocm-1.0-py3-none-.whl": an empty part in a tag: "py3-none-"
        not the file name of a wheel: "rocm-1.0-py3-none-a/b.whl": a tag has ASCII letters, digits, `_` and `.` only: "py3-none-a/b"
        not the file name of a wheel: "rocm-1.0-py3-none-any.WHL": no `.whl` at its end
        "#);
    }

    #[test]
    fn a_file_name_that_is_no_sdists_is_refused_in_words() {
        let refused = [
            "rocm-1.0.zip",
            "rocm.tar.gz",
            "-1.0.tar.gz",
            "rocm-.tar.gz",
            "a/rocm-1.0.tar.gz",
            "rocm-x.tar.gz",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| {
                format!(
                    "{:#}",
                    Error::from(text.parse::<SdistFilename>().unwrap_err())
                )
            })
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the file name of an sdist: "rocm-1.0.zip": no `.tar.gz` at its end
        not the file name of an sdist: "rocm.tar.gz": no hyphen before a version
        not the file name of an sdist: "-1.0.tar.gz": an empty distribution name: ""
        not the file name of an sdist: "rocm-.tar.gz": not a PEP 440 version: "": expected version to start with a number, but no leading ASCII digits were found
        not the file name of an sdist: "a/rocm-1.0.tar.gz": a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a/rocm"
        not the file name of an sdist: "rocm-x.tar.gz": not a PEP 440 version: "x": expected version to start with a number, but no leading ASCII digits were found
        "#);
    }

    proptest! {
        #[test]
        fn any_text_is_a_file_name_or_an_error(text in "(\\PC{0,8}|rocm-1)(-[a-z0-9._]{0,4}){0,6}(\\.whl|\\.tar\\.gz)?") {
            if let Ok(filename) = text.parse::<WheelFilename>() {
                prop_assert_eq!(filename.to_string(), &*text);
            }
            if let Ok(filename) = text.parse::<SdistFilename>() {
                prop_assert_eq!(filename.to_string(), &*text);
            }
        }
    }
}
