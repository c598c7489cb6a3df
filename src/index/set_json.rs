//! `set.json`: what a package set is, for programs. Written and read.

use serde::{Deserialize, Serialize};

use crate::{
    error::{Context as _, Hint as _, Result, ensure},
    index::{Layout, PackageSet, Page, PageKind, Rank},
};

/// The form that this version writes and reads.
const SCHEMA: u32 = 1;

/// What a set was built from, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Identity {
    /// `owner/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// A whole `set.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetJson {
    schema: u32,
    #[serde(flatten)]
    pub identity: Identity,
    pub files: Vec<SetJsonFile>,
}

/// One file of the set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetJsonFile {
    /// Below the directory of `set.json`: `dist/rocm-7.13.0.tar.gz`.
    pub path: String,
    pub size: u64,
    pub sha256: String,
    /// When the file was last modified, in nanoseconds, on the machine that hashed it.
    ///
    /// It lets the same machine skip hashing again, and is never published.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified: Option<u64>,
}

impl SetJson {
    pub fn new(identity: Identity, set: &PackageSet, layout: Layout) -> Self {
        let files = set.files().iter().map(|file| SetJsonFile {
            path: format!("{}{}", layout.files(), file.name),
            size: file.size,
            sha256: file.sha256.to_string(),
            modified: None,
        });
        Self {
            schema: SCHEMA,
            identity,
            files: files.collect(),
        }
    }

    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        // The number first: of a later form nothing else may be understood.
        let version: Version = serde_json::from_str(text).context("read the `schema` of a set")?;
        ensure_known(version.schema)?;
        serde_json::from_str(text).context("read a set")
    }

    /// The page `set.json`.
    pub fn page(&self) -> Page {
        let value = serde_json::to_value(self).unwrap_or_default();
        Page {
            path: "set.json".into(),
            kind: PageKind::Json,
            rank: Rank::Root,
            body: format!("{value:#}\n"),
        }
    }
}

fn ensure_known(schema: u32) -> Result<()> {
    let known = || -> Result<()> {
        ensure!(
            schema == SCHEMA,
            "a set of schema {SCHEMA} is readable, this one is: {schema}"
        );
        Ok(())
    };
    known().hint("use the version of rocwheel that wrote it, or a later one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::render, index::set::samples};

    fn sample() -> SetJson {
        let identity = Identity {
            repository: Some("ROCm/TheRock".into()),
            run_id: Some("21440027240".into()),
            platform: Some("linux".into()),
            commit: Some("89553ce3746eda74ade42557470d25e37c91b6f0".into()),
            version: Some("7.13.0.dev0+ab".into()),
            targets: vec!["gfx1100".into(), "gfx942".into()],
        };
        SetJson::new(identity, &samples::set(), Layout::Dist)
    }

    #[test]
    fn a_set_says_what_it_is_and_what_it_holds() {
        insta::assert_snapshot!(sample().page().body, @r#"
        {
          "schema": 1,
          "repository": "ROCm/TheRock",
          "run-id": "21440027240",
          "platform": "linux",
          "commit": "89553ce3746eda74ade42557470d25e37c91b6f0",
          "version": "7.13.0.dev0+ab",
          "targets": [
            "gfx1100",
            "gfx942"
          ],
          "files": [
            {
              "path": "dist/rocm-7.13.0.dev0+ab.tar.gz",
              "size": 1234567,
              "sha256": "4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24"
            },
            {
              "path": "dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
              "size": 12,
              "sha256": "cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808"
            },
            {
              "path": "dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
              "size": 1234567,
              "sha256": "e63c597381d45812a09f6d8d38cbb7a430eab2b97f8fef52db3e61d4e04e59fb"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_set_reads_back_and_an_unknown_identity_is_left_out() {
        let mut set = sample();
        set.files[0].modified = Some(1_700_000_000_000_000_001);
        assert_eq!(SetJson::parse(&set.page().body).unwrap(), set);
        let anonymous = SetJson::new(Identity::default(), &samples::set(), Layout::Flat);
        let body = anonymous.page().body;
        assert!(
            !body.contains("commit") && !body.contains("targets"),
            "{body}"
        );
        assert_eq!(SetJson::parse(&body).unwrap(), anonymous);
    }

    #[test]
    fn another_schema_and_other_texts_are_refused_in_words() {
        let texts = [
            "",
            "{}",
            "[1]",
            r#"{"schema":2,"files":7}"#,
            r#"{"schema":1,"files":7}"#,
        ];
        let messages: Vec<String> = texts
            .iter()
            .map(|text| render(&SetJson::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r"
        error: read the `schema` of a set
          caused by: EOF while parsing a value at line 1 column 0

        error: read the `schema` of a set
          caused by: missing field `schema` at line 1 column 2

        error: read a set
          caused by: invalid type: sequence, expected struct SetJson at line 1 column 0

        error: a set of schema 1 is readable, this one is: 2

        hint: use the version of rocwheel that wrote it, or a later one

        error: read a set
          caused by: invalid type: integer `7`, expected a sequence at line 1 column 21
        ");
    }
}
