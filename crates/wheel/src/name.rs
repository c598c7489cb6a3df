//! Names: of distributions ([PEP 503](https://peps.python.org/pep-0503/)), of what a wheel runs on
//! ([PEP 425](https://peps.python.org/pep-0425/)), and the file names made of both ([PEP
//! 427](https://peps.python.org/pep-0427/), [PEP 625](https://peps.python.org/pep-0625/)).

use std::str::FromStr;

use derive_more::Display;
use itertools::Itertools as _;

use super::variant::VARIANTS_JSON;
use rocwheel_base::{
    error::{Context as _, Error, Result, as_text, bail, ensure},
    version::Version,
};

/// The name of a distribution in its normalized form, `rocm-sdk-core`: lower case, each run of `-`,
/// `_` and `.` replaced by `-`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DistName(String);

as_text!(DistName);

impl DistName {
    /// The name of the project on an index.
    pub fn normalized(&self) -> &str {
        &self.0
    }

    /// The name in file names, `rocm_sdk_core`: `-` separates the parts of a file name, so it is
    /// replaced by `_` ([PEP 625](https://peps.python.org/pep-0625/)).
    pub fn filename_form(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl FromStr for DistName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_separator = |c: char| matches!(c, '-' | '_' | '.');
        let is_inner = |c: char| c.is_ascii_alphanumeric() || is_separator(c);
        ensure!(!text.is_empty(), "an empty distribution name: {text:?}");
        ensure!(
            text.chars().all(is_inner),
            "a distribution name has ASCII letters, digits, `-`, `_` and `.` only: {text:?}"
        );
        ensure!(
            !text.starts_with(is_separator) && !text.ends_with(is_separator),
            "a distribution name begins and ends with a letter or digit: {text:?}"
        );
        let lower = text.to_ascii_lowercase();
        let mut words = lower.split(is_separator).filter(|word| !word.is_empty());
        Ok(Self(words.join("-")))
    }
}

/// Interpreter, ABI and platform, `py3-none-linux_x86_64`. Each may be a set of several, separated
/// by `.`: `py2.py3-none-any`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

impl Tag {
    /// The platform part: `linux_x86_64` of `py3-none-linux_x86_64`.
    pub fn platform(&self) -> &str {
        self.0.rsplit('-').next().unwrap_or_default()
    }

    /// All simple tags of a compressed set: `py2.py3-none-any` gives `py2-none-any` and
    /// `py3-none-any`.
    pub fn expand(&self) -> Vec<Self> {
        let parts = self.0.split('-').map(|part| part.split('.'));
        let tags = parts.multi_cartesian_product();
        tags.map(|tag| Self(tag.join("-"))).collect()
    }

    /// The Python that it is for: `cp312`.
    pub fn python(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// Whether it is for the stable ABI, and so for every later Python too: `cp39-abi3-linux_x86_64`.
    pub fn is_for_later_pythons(&self) -> bool {
        self.0.split('-').nth(1) == Some("abi3")
    }

    /// Whether `CPython` 3.{minor} may import from a wheel with this simple tag.
    pub fn is_for_python(&self, minor: u32) -> bool {
        let python = self.python();
        let abi = self.0.split('-').nth(1).unwrap_or_default();
        let number = |start: &str| python.strip_prefix(start)?.parse::<u32>().ok();
        let is_older = |start: &str| number(start).is_some_and(|it| it <= minor);
        let is_own = number("cp3") == Some(minor);
        match abi {
            "abi3" => is_older("cp3"),
            "none" => is_own || python == "py3" || is_older("py3"),
            _ => is_own && abi == python,
        }
    }
}

impl FromStr for Tag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        ensure!(text.split('-').count() == 3, "a tag has three parts between hyphens: {text:?}");
        ensure!(!text.split(['-', '.']).any(str::is_empty), "an empty part in a tag: {text:?}");
        ensure!(
            text.chars().all(is_plain),
            "a tag has ASCII letters, digits, `_` and `.` only: {text:?}"
        );
        Ok(Self(text.to_owned()))
    }
}

/// What the last part of the file name of a variant wheel calls its properties: `gfx942`
/// ([PEP 825](https://peps.python.org/pep-0825/)). One label means the same properties in all wheels of a
/// version.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariantLabel(String);

impl VariantLabel {
    /// Whether it is the label of the wheel without properties, which fits every machine.
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }
}

impl FromStr for VariantLabel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
        ensure!(
            !text.is_empty() && text.chars().all(is_plain),
            "a variant label has lower-case letters, digits, `_` and `.` only: {text:?}"
        );
        Ok(Self(text.to_owned()))
    }
}

as_text!(VariantLabel);

/// The file name of a wheel, `rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl`, of a variant wheel,
/// `rocm-7.13.0-py3-none-any-gfx942.whl`, or of an sdist, `rocm-7.13.0.tar.gz`.
///
/// A parsed name is displayed exactly as it was, even if it is not normalized: it names a file that
/// exists. Names are sorted by their parts: a variant wheel follows the wheel without a label.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{text}")]
pub struct PackageFilename {
    /// The project, normalized. The text of the file name may spell it with underscores.
    pub name: DistName,
    /// The version, without a build number.
    pub version: Version,
    /// `None` for an sdist.
    pub tag: Option<Tag>,
    /// `None` for an sdist, and for a wheel that is no variant.
    pub label: Option<VariantLabel>,
    text: String,
}

impl PackageFilename {
    /// The normalized file name for a name, a version, and the tag of a wheel.
    pub fn new(name: DistName, version: &Version, tag: Option<&Tag>) -> Self {
        let end = tag.map_or(".tar.gz".to_owned(), |tag| format!("-{tag}.whl"));
        Self {
            text: stem(&name, version) + &end,
            name,
            version: version.clone(),
            tag: tag.cloned(),
            label: None,
        }
    }

    /// The same package in another version. All other parts of the name stay as they are written.
    #[must_use]
    pub fn with_version(&self, version: &Version) -> Self {
        let form = version.filename_form();
        let text = if let Some(stem) = self.text.strip_suffix(".tar.gz") {
            let (name, _) = stem.rsplit_once('-').unwrap_or((stem, ""));
            format!("{name}-{form}.tar.gz")
        } else {
            let mut parts = self.text.splitn(3, '-');
            let name = parts.next();
            let rest = parts.nth(1);
            format!("{}-{form}-{}", name.unwrap_or_default(), rest.unwrap_or_default())
        };
        Self { text, version: version.clone(), ..self.clone() }
    }

    /// The directory of the metadata of a wheel, `rocm_sdk_core-7.13.0.dist-info`.
    pub fn dist_info(&self) -> String {
        stem(&self.name, &self.version) + ".dist-info"
    }

    /// The file of an index that says what the labels of this version mean, `rocm-7.13.0-variants.json`.
    pub fn variants_json(&self) -> String {
        stem(&self.name, &self.version) + VARIANTS_JSON
    }

    /// The top directory of an sdist, `rocm-7.13.0`.
    pub fn top(&self) -> &str {
        self.text.strip_suffix(".tar.gz").unwrap_or(&self.text)
    }
}

/// The part that the file names and the `.dist-info` directory have in common:
/// `rocm_sdk_core-7.13.0`.
fn stem(name: &DistName, version: &Version) -> String {
    format!("{}-{}", name.filename_form(), version.filename_form())
}

impl FromStr for PackageFilename {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let sdist = text.strip_suffix(".tar.gz");
        let parse = || -> Result<Self> {
            if let Some(stem) = sdist {
                // Names of older sdists may contain hyphens, but versions never do: split at the
                // last one.
                let parts = stem.rsplit_once('-');
                let (name, version) = parts.context("no hyphen before a version")?;
                let name = name.parse()?;
                let version = version.parse()?;
                return Ok(Self { name, version, tag: None, label: None, text: text.to_owned() });
            }
            let stem = text.strip_suffix(".whl").context("no `.whl` at its end")?;
            let parts: Vec<&str> = stem.split('-').collect();
            ensure!(
                matches!(parts.len(), 5..=7),
                "five to seven parts between hyphens expected, not {}",
                parts.len()
            );
            // A build number begins with a digit, and the Python of a tag does not: that tells a wheel with a
            // build number from a variant wheel.
            let has_build = parts[2].starts_with(|c: char| c.is_ascii_digit());
            let (build, rest) = parts[2..].split_at(usize::from(has_build));
            for build in build {
                let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
                ensure!(
                    build.chars().all(is_inner),
                    "a build number is a digit, then letters, digits, `_` and `.`: {build:?}"
                );
            }
            let (tag, label) = match rest {
                [_, _, _] => (rest, None),
                [tag @ .., label] if tag.len() == 3 => (tag, Some(label.parse()?)),
                [] | [_, ..] => bail!("a tag of three parts expected, not {:?}", rest.join("-")),
            };
            Ok(Self {
                name: parts[0].parse()?,
                version: parts[1].parse()?,
                tag: Some(tag.join("-").parse()?),
                label,
                text: text.to_owned(),
            })
        };
        let kind = sdist.map_or("a wheel", |_| "an sdist");
        parse().with_context(|| format!("not the file name of {kind}: {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> DistName {
        text.parse().unwrap()
    }

    #[test]
    fn names_compare_by_their_normal_form() {
        let legacy = name("rocm-sdk-libraries-gfx94X-dcgpu");
        assert_eq!(legacy.normalized(), "rocm-sdk-libraries-gfx94x-dcgpu");
        assert_eq!(legacy.filename_form(), "rocm_sdk_libraries_gfx94x_dcgpu");
        assert_eq!(name("Rocm.__SDK-.core"), name("rocm-sdk-core"));
        assert!(name("rocm_b") > name("ROCM-A"));
    }

    #[test]
    fn a_text_that_is_no_name_is_refused_in_words() {
        let refused = ["", "-a", "a_", ".", "rocm sdk", "rocm/sdk", "rocm\n", "é", "a\0"];
        let messages: Vec<String> =
            refused.iter().map(|text| text.parse::<DistName>().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        an empty distribution name: ""
        a distribution name begins and ends with a letter or digit: "-a"
        a distribution name begins and ends with a letter or digit: "a_"
        a distribution name begins and ends with a letter or digit: "."
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm sdk"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm/sdk"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "rocm\n"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "é"
        a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a\0"
        "#);
    }

    #[test]
    fn a_compressed_tag_stands_for_every_combination() {
        let tag: Tag = "py2.py3-none-linux_x86_64.win_amd64".parse().unwrap();
        let singles: Vec<String> = tag.expand().iter().map(Tag::to_string).collect();
        insta::assert_snapshot!(singles.join("\n"), @"
        py2-none-linux_x86_64
        py2-none-win_amd64
        py3-none-linux_x86_64
        py3-none-win_amd64
        ");
        assert_eq!(tag.to_string(), "py2.py3-none-linux_x86_64.win_amd64");
    }

    #[test]
    fn a_text_that_is_no_tag_is_refused_in_words() {
        let refused = [
            "",
            "py3-none",
            "py3-none-a-b",
            "py3--any",
            "py3-none-a..b",
            "py3-none-a b",
            "py3-none-é",
        ];
        let messages: Vec<String> =
            refused.iter().map(|text| text.parse::<Tag>().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        a tag has three parts between hyphens: ""
        a tag has three parts between hyphens: "py3-none"
        a tag has three parts between hyphens: "py3-none-a-b"
        an empty part in a tag: "py3--any"
        an empty part in a tag: "py3-none-a..b"
        a tag has ASCII letters, digits, `_` and `.` only: "py3-none-a b"
        a tag has ASCII letters, digits, `_` and `.` only: "py3-none-é"
        "#);
    }

    fn parsed(text: &str) -> PackageFilename {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_made_from_parts_is_in_normal_form() {
        let name: DistName = "rocm-sdk-libraries-gfx94X-dcgpu".parse().unwrap();
        let version: Version = "10.1.0.dev0+ABC-def".parse().unwrap();
        let tag: Tag = "py3-none-linux_x86_64".parse().unwrap();
        let filename = PackageFilename::new(name, &version, Some(&tag));
        assert_eq!(
            filename.to_string(),
            "rocm_sdk_libraries_gfx94x_dcgpu-10.1.0.dev0+abc.def-py3-none-linux_x86_64.whl"
        );
        assert_eq!(parsed(&filename.to_string()), filename);
        assert_eq!(
            filename.dist_info(),
            "rocm_sdk_libraries_gfx94x_dcgpu-10.1.0.dev0+abc.def.dist-info"
        );
        let sdist = PackageFilename::new("ROCm".parse().unwrap(), &version, None);
        assert_eq!(sdist.to_string(), "rocm-10.1.0.dev0+abc.def.tar.gz");
        assert_eq!(sdist.top(), "rocm-10.1.0.dev0+abc.def");
        assert_eq!(parsed(&sdist.to_string()), sdist);
    }

    #[test]
    fn a_parsed_name_prints_as_it_was_and_tells_its_parts() {
        let filename = parsed(
            "Ruamel.Yaml-1.0+x_2-1a-cp39.cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        );
        assert_eq!(filename.name.normalized(), "ruamel-yaml");
        assert_eq!(filename.version.to_string(), "1.0+x.2");
        assert!(filename.to_string().starts_with("Ruamel.Yaml-"));
        assert_eq!(filename.tag.unwrap().expand().len(), 4);
        let sdist = parsed("rocm-sdk-1.0.tar.gz");
        assert_eq!(sdist.tag, None);
        assert_eq!(sdist.name.normalized(), "rocm-sdk");
    }

    #[test]
    fn a_variant_wheel_has_a_label_after_its_tag() {
        let variant = parsed("rocm-7.14.0-py3-none-any-gfx9.4_a.whl");
        assert_eq!(variant.tag, parsed("rocm-7.14.0-py3-none-any.whl").tag);
        assert_eq!(variant.label.as_ref().unwrap().to_string(), "gfx9.4_a");
        assert!(parsed("rocm-7.14.0-py3-none-any-null.whl").label.unwrap().is_null());
        let with_build = parsed("rocm-7.14.0-1a-py3-none-any-942.whl");
        assert_eq!(with_build.label.as_ref().unwrap().to_string(), "942");
        assert_eq!(
            with_build.with_version(&"8".parse().unwrap()).to_string(),
            "rocm-8-1a-py3-none-any-942.whl"
        );
        let mut names = [
            "rocm-7.14.0-py3-none-any-gfx942.whl",
            "rocm-7.14.0-py3-none-any-gfx1100.whl",
            "rocm-7.14.0-py3-none-any.whl",
            "rocm-7.14.0.tar.gz",
            "rocm-7.13.0-py3-none-any-null.whl",
        ]
        .map(parsed);
        names.sort();
        insta::assert_snapshot!(names.iter().join("\n"), @"
        rocm-7.13.0-py3-none-any-null.whl
        rocm-7.14.0.tar.gz
        rocm-7.14.0-py3-none-any.whl
        rocm-7.14.0-py3-none-any-gfx1100.whl
        rocm-7.14.0-py3-none-any-gfx942.whl
        ");
    }

    #[test]
    fn a_file_name_that_is_no_wheels_is_refused_in_words() {
        let refused = [
            "rocm-1.0.zip",
            ".whl",
            "rocm-1.0-py3-none.whl",
            "rocm-sdk-core-1.0-py3-none-any-x.whl",
            "rocm-sdk-1.0-py3-none-any.whl",
            "rocm-1.0-1a-none-any.whl",
            "rocm-1.0-x1-py3-none-any-any.whl",
            "rocm-1.0-py3-none-any-GFX942.whl",
            "rocm-1.0-py3-none-any-gfx942+xnack.whl",
            "rocm-1.0-py3-none-any-.whl",
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
            .map(|text| format!("{:#}", text.parse::<PackageFilename>().unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the file name of a wheel: "rocm-1.0.zip": no `.whl` at its end
        not the file name of a wheel: ".whl": five to seven parts between hyphens expected, not 1
        not the file name of a wheel: "rocm-1.0-py3-none.whl": five to seven parts between hyphens expected, not 4
        not the file name of a wheel: "rocm-sdk-core-1.0-py3-none-any-x.whl": five to seven parts between hyphens expected, not 8
        not the file name of a wheel: "rocm-sdk-1.0-py3-none-any.whl": not a PEP 440 version: "sdk": expected version to start with a number, but no leading ASCII digits were found
        not the file name of a wheel: "rocm-1.0-1a-none-any.whl": a tag of three parts expected, not "none-any"
        not the file name of a wheel: "rocm-1.0-x1-py3-none-any-any.whl": a tag of three parts expected, not "x1-py3-none-any-any"
        not the file name of a wheel: "rocm-1.0-py3-none-any-GFX942.whl": a variant label has lower-case letters, digits, `_` and `.` only: "GFX942"
        not the file name of a wheel: "rocm-1.0-py3-none-any-gfx942+xnack.whl": a variant label has lower-case letters, digits, `_` and `.` only: "gfx942+xnack"
        not the file name of a wheel: "rocm-1.0-py3-none-any-.whl": a variant label has lower-case letters, digits, `_` and `.` only: ""
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
        let refused =
            ["rocm.tar.gz", "-1.0.tar.gz", "rocm-.tar.gz", "a/rocm-1.0.tar.gz", "rocm-x.tar.gz"];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| format!("{:#}", text.parse::<PackageFilename>().unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the file name of an sdist: "rocm.tar.gz": no hyphen before a version
        not the file name of an sdist: "-1.0.tar.gz": an empty distribution name: ""
        not the file name of an sdist: "rocm-.tar.gz": not a PEP 440 version: "": expected version to start with a number, but no leading ASCII digits were found
        not the file name of an sdist: "a/rocm-1.0.tar.gz": a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a/rocm"
        not the file name of an sdist: "rocm-x.tar.gz": not a PEP 440 version: "x": expected version to start with a number, but no leading ASCII digits were found
        "#);
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own_normal_form(text in "[A-Za-z0-9]([A-Za-z0-9._-]{0,12}[A-Za-z0-9])?") {
            let written = name(&text);
            let normal = name(written.normalized());
            prop_assert_eq!(normal.normalized(), written.normalized());
            prop_assert_eq!(&name(&written.filename_form()), &written);
            prop_assert_eq!(normal, written);
        }

        #[test]
        fn any_text_is_a_name_or_an_error(text in ".*") {
            if let Ok(name) = text.parse::<DistName>() {
                let again: DistName = name.normalized().parse().unwrap();
                prop_assert_eq!(again, name);
            }
        }

        #[test]
        fn any_text_is_a_file_name_or_an_error(text in "(\\PC{0,8}|rocm-1)(-[a-z0-9._]{0,4}){0,6}(\\.whl|\\.tar\\.gz)?") {
            if let Ok(filename) = text.parse::<PackageFilename>() {
                prop_assert_eq!(filename.to_string(), &*text);
            }
        }
    }
}
