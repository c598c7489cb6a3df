//! The manifests of TheRock: `artifact_manifest.txt` has the base directories of an artifact, which
//! are merged into one install tree, and `therock_manifest.json` in the base artifact describes the
//! whole build.

use std::{collections::BTreeSet, ops::Bound, str::FromStr};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::run::RunId;
use rocwheel_base::{
    error::{Error, Invalid, Result, anyhow, bail, ensure, one_line},
    relpath::RelPath,
    version::GitSha,
};

/// The base directories in their order, one per line, such as `math-libs/BLAS/rocBLAS/stage`. None
/// occurs twice or is inside of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactManifest {
    basedirs: Vec<RelPath>,
    known: BTreeSet<RelPath>,
}

impl ArtifactManifest {
    /// The name of the file. CI writes it as the first member of an archive.
    pub const FILE_NAME: &str = "artifact_manifest.txt";
    /// Size limit. Real manifests are far smaller.
    pub const MAX_LEN: usize = 1 << 20;

    /// Parses the file. Repeated lines are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.len() <= Self::MAX_LEN, "more than {} bytes", Self::MAX_LEN);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bail!("not UTF-8 from byte {} on", error.valid_up_to()),
        };
        let mut manifest = Self::default();
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.is_empty()) {
            ensure!(!text.contains(char::is_control), "line {line}: a control character: {text:?}");
            let basedir: RelPath =
                text.parse().map_err(|error: Invalid| anyhow!("line {line}: {error}"))?;
            if manifest.known.insert(basedir.clone()) {
                manifest.basedirs.push(basedir);
            }
        }
        for inner in &manifest.basedirs {
            let mut above = inner.ancestors();
            if let Some(outer) = above.find(|above| manifest.known.contains(above)) {
                bail!("`{inner}` lies inside `{outer}`, so its files would be in two places");
            }
        }
        Ok(manifest)
    }

    pub fn basedirs(&self) -> &[RelPath] {
        &self.basedirs
    }

    /// Whether a path is in a base directory.
    pub fn has(&self, path: &RelPath) -> bool {
        let mut above = path.ancestors();
        above.any(|above| self.known.contains(&above))
    }

    /// Whether a path is a base directory or a directory above one.
    pub fn leads_to_basedir(&self, path: &RelPath) -> bool {
        let below = format!("{path}/");
        let mut from =
            self.known.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded));
        self.known.contains(path)
            || from.next().is_some_and(|basedir| basedir.as_str().starts_with(&below))
    }
}

/// The build that artifacts come from: commit, run, version and flags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TherockManifest {
    pub commit: Option<GitSha>,
    pub run_id: Option<RunId>,
    pub package_version: Option<String>,
    /// The text of [`BaseVersion::FILE`](rocwheel_base::version::BaseVersion::FILE), which is beside the
    /// manifest in the same artifact.
    pub base_version: Option<String>,
    /// Whether device code is in separate `.kpack` archives, with one artifact per target.
    pub kpack_split: bool,
    /// What is not used, and why: a commit that is none.
    pub notes: Vec<String>,
}

/// The file. The names are TheRock's.
#[derive(Deserialize)]
struct ManifestDocument {
    the_rock_commit: Option<String>,
    #[serde(default, deserialize_with = "text")]
    github_run_id: Option<String>,
    rocm_package_version: Option<String>,
    /// Build flags. So far, all are booleans or numbers.
    flags: Option<Map<String, Value>>,
}

impl TherockManifest {
    /// The artifact that contains the file.
    pub const ARTIFACT: &str = "base_lib_generic";
    /// The path in the install tree.
    pub const PATH: &str = "share/therock/therock_manifest.json";
    /// Size limit. Real manifests are far smaller.
    pub const MAX_LEN: u64 = 16 << 20;

    pub fn parse(bytes: &[u8]) -> Result<Self> {
        // Without this check, serde would also accept an array, field by field.
        serde_json::from_slice::<Map<String, Value>>(bytes)?;
        let document: ManifestDocument = serde_json::from_slice(bytes)?;
        let split = document.flags.as_ref().and_then(|flags| flags.get("KPACK_SPLIT_ARTIFACTS"));
        let mut notes = Vec::new();
        Ok(Self {
            commit: known("the_rock_commit", document.the_rock_commit, &mut notes),
            run_id: known("github_run_id", document.github_run_id, &mut notes),
            package_version: document.rocm_package_version,
            base_version: None,
            kpack_split: split.is_some_and(is_truthy),
            notes,
        })
    }
}

/// Parses the value of a field. A value that cannot be read counts as missing, with a note: a build outside of CI may
/// write a text that is no commit and no run id.
fn known<T: FromStr<Err: Into<Error>>>(
    field: &str,
    value: Option<String>,
    notes: &mut Vec<String>,
) -> Option<T> {
    let written = value.filter(|value| !value.is_empty())?;
    match written.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let why = one_line(&error.into());
            notes.push(format!("`{field}` of the manifest is not used: {why}"));
            None
        }
    }
}

/// Accepts a number in place of a string: some writers omit the quotes of an id.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        other => {
            let problem = format!("neither a text nor a number: {other}");
            return Err(de::Error::custom(problem));
        }
    })
}

/// Truth as in Python, because Python scripts built the packages published so far from these flags.
/// So `"OFF"` is true.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error::render;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    fn manifest(text: &str) -> ArtifactManifest {
        ArtifactManifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn lines_are_base_directories_in_their_order() {
        let text = "math-libs/BLAS/rocBLAS/stage\n\nbase/stage\r\nmath-libs/BLAS/rocBLAS/stage\n";
        let manifest = manifest(text);
        let expected = ["math-libs/BLAS/rocBLAS/stage", "base/stage"];
        assert_eq!(manifest.basedirs(), expected.map(path));
        assert_eq!(ArtifactManifest::parse(b"").unwrap().basedirs(), []);
    }

    #[test]
    fn hostile_lines_are_refused_in_words() {
        let refused: [&[u8]; 9] = [
            b"base/stage\n/etc\n",
            b"../other\n",
            b".\n",
            b"base/stage/\n",
            b"C:\\stage\n",
            b" \n\0\n",
            b"a\rb\n",
            b"base/\xff\n",
            b"a/b\na-b\nx\na\n",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| format!("{:#}", ArtifactManifest::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        line 2: an absolute path: "/etc"
        line 1: a path with `..`: "../other"
        line 1: a path that is not in its shortest form: "."
        line 1: a path that is not in its shortest form: "base/stage/"
        line 1: a backslash in a path: "C:\\stage"
        line 2: a control character: "\0"
        line 1: a control character: "a\rb"
        not UTF-8 from byte 5 on
        `a/b` lies inside `a`, so its files would be in two places
        "#);
        let long = vec![b'\n'; ArtifactManifest::MAX_LEN + 1];
        insta::assert_snapshot!(ArtifactManifest::parse(&long).unwrap_err(), @"more than 1048576 bytes");
    }

    #[test]
    fn a_path_belongs_to_the_base_directory_above_it() {
        let manifest = manifest("a/stage\na/stage.2\n");
        for inside in ["a/stage/lib/x", "a/stage.2/x"] {
            assert!(manifest.has(&path(inside)), "{inside}");
        }
        for outside in ["a", "a/stage", "a/stag/x", "b/stage/x"] {
            assert!(!manifest.has(&path(outside)), "{outside}");
        }
    }

    #[test]
    fn only_the_way_to_a_base_directory_leads_there() {
        let manifest = manifest("a.b/x\na/b/stage\nab/x\n");
        for on_the_way in ["a", "a/b", "a/b/stage", "a.b", "ab"] {
            assert!(manifest.leads_to_basedir(&path(on_the_way)), "{on_the_way}");
        }
        for off in ["b", "a/b/stage/lib", "a/", "a/bc", "abc"] {
            let off = off.trim_end_matches('/').to_owned() + "/c";
            assert!(!manifest.leads_to_basedir(&path(&off)), "{off}");
        }
    }

    fn build(text: &str) -> TherockManifest {
        TherockManifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_manifest_says_what_was_built() {
        let manifest = build(
            r#"{
                "the_rock_commit": "0123abcd0123abcd0123abcd0123abcd0123abcd",
                "github_job": "build",
                "github_run_id": 17000000000,
                "rocm_package_version": "7.13.0a20261101",
                "rocm_version": "7.13.0",
                "submodules": [{
                    "submodule_name": "rocBLAS", "submodule_path": "rocm-libraries",
                    "submodule_url": "https://example.com/x.git", "pin_sha": "4567", "patches": []
                }],
                "flags": { "KPACK_SPLIT_ARTIFACTS": true, "CANARY": -1 },
                "later": {}
            }"#,
        );
        let commit = "0123abcd0123abcd0123abcd0123abcd0123abcd".parse().unwrap();
        assert_eq!(manifest.commit, Some(commit));
        assert_eq!(manifest.run_id, Some("17000000000".parse().unwrap()));
        assert!(manifest.kpack_split && manifest.notes.is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        let manifest = build(r#"{"the_rock_commit": "main", "github_run_id": "r7"}"#);
        assert_eq!((manifest.commit, manifest.run_id), (None, None));
        insta::assert_snapshot!(manifest.notes.join("\n"), @r#"
        `the_rock_commit` of the manifest is not used: not a commit of 7 to 64 hexadecimal digits: "main"
        `github_run_id` of the manifest is not used: not a run id such as `21440027240`, nor `local`: "r7"
        "#);
    }

    #[test]
    fn a_flag_counts_as_it_does_in_python() {
        let split = |value: &str| {
            let text = format!(r#"{{"flags": {{"KPACK_SPLIT_ARTIFACTS": {value}}}}}"#);
            build(&text).kpack_split
        };
        for on in ["true", "1", "-1", "0.5", r#""OFF""#, "[0]", r#"{"a": 0}"#] {
            assert!(split(on), "{on}");
        }
        for off in ["false", "0", "-0", "0.0", r#""""#, "[]", "{}", "null"] {
            assert!(!split(off), "{off}");
        }
    }

    #[test]
    fn a_manifest_without_flags_is_of_the_old_kind() {
        for text in ["{}", r#"{"flags": null}"#, r#"{"flags": {}, "the_rock_commit": null}"#] {
            assert!(!build(text).kpack_split);
        }
    }

    #[test]
    fn what_is_no_manifest_is_refused_in_words() {
        let refused = [
            "",
            "[null, null, null, null, null, null, null]",
            r#"{"the_rock_commit": "01"#,
            r#"{"flags": ["KPACK_SPLIT_ARTIFACTS"]}"#,
            r#"{"the_rock_commit": 7}"#,
            r#"{"github_run_id": {}}"#,
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| render(&TherockManifest::parse(text.as_bytes()).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join(""), @"
        error: EOF while parsing a value at line 1 column 0
        error: invalid type: sequence, expected a map at line 1 column 0
        error: EOF while parsing a string at line 1 column 23
        error: invalid type: sequence, expected a map at line 1 column 10
        error: invalid type: integer `7`, expected a string at line 1 column 21
        error: neither a text nor a number: {} at line 1 column 21
        ");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(TherockManifest::parse(deep.as_bytes()).is_err());
    }
}
