//! `therock_manifest.json`: what TheRock records about a build, in the base artifact.

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use crate::error::Result;

/// The build that artifacts come from: commit, run, versions and flags.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TherockManifest {
    #[serde(rename = "the_rock_commit")]
    pub commit: Option<String>,
    #[serde(rename = "github_job", default, deserialize_with = "text")]
    pub job: Option<String>,
    #[serde(rename = "github_run_id", default, deserialize_with = "text")]
    pub run_id: Option<String>,
    #[serde(rename = "rocm_package_version")]
    pub package_version: Option<String>,
    /// The first three numbers of the package version, `X.Y.Z`.
    pub rocm_version: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub submodules: Vec<Submodule>,
    /// Build flags. So far, all are booleans or numbers.
    #[serde(default, deserialize_with = "or_default")]
    pub flags: Map<String, Value>,
    /// Whether device code is in separate `.kpack` archives, with one artifact per target.
    #[serde(skip)]
    pub kpack_split: bool,
}

/// A project of the build and its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Submodule {
    #[serde(rename = "submodule_name")]
    pub name: Option<String>,
    #[serde(rename = "submodule_path")]
    pub path: Option<String>,
    #[serde(rename = "submodule_url")]
    pub url: Option<String>,
    #[serde(rename = "pin_sha")]
    pub commit: Option<String>,
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
        let mut manifest: Self = serde_json::from_slice(bytes)?;
        let split = manifest.flags.get("KPACK_SPLIT_ARTIFACTS");
        manifest.kpack_split = split.is_some_and(is_truthy);
        Ok(manifest)
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

/// Accepts `null` in place of an empty value.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
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
    use crate::error::render;

    fn manifest(text: &str) -> TherockManifest {
        TherockManifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_manifest_says_what_was_built() {
        let manifest = manifest(
            r#"{
                "the_rock_commit": "0123abcd",
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
        assert_eq!(manifest.commit.as_deref(), Some("0123abcd"));
        assert_eq!(manifest.run_id.as_deref(), Some("17000000000"));
        assert_eq!(manifest.rocm_version.as_deref(), Some("7.13.0"));
        assert_eq!(manifest.submodules[0].commit.as_deref(), Some("4567"));
        assert_eq!(manifest.flags["CANARY"], -1);
        assert!(manifest.kpack_split);
    }

    #[test]
    fn a_flag_counts_as_it_does_in_python() {
        let split = |value: &str| {
            let text = format!(r#"{{"flags": {{"KPACK_SPLIT_ARTIFACTS": {value}}}}}"#);
            manifest(&text).kpack_split
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
        for text in [
            "{}",
            r#"{"flags": null}"#,
            r#"{"flags": {}, "the_rock_commit": null}"#,
        ] {
            assert!(!manifest(text).kpack_split);
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
