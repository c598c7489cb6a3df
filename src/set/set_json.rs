//! [`SetJson`]: the document `set.json`, which describes a set to programs. Writes and parses it.

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::packages::{Layout, PackageSet};
use crate::{
    digest::Sha256,
    error::{Context as _, Hint as _, Result, anyhow, as_text, ensure},
    location::Key,
    run::{ArtifactGroup, Platform, Repository, Run, RunId},
    target::{Scope, Target},
    version::{GitSha, Version},
    wheel::DistName,
};

/// The version of the format.
const SCHEMA: u32 = 1;

/// The file in which `upload --part` says what a part was built from. `set.json` does not exist
/// before the set is complete.
pub const PART: &str = "part.json";

/// What a set was built from, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<GitSha>,
    /// The version of ROCm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Scope>,
    /// Packages that the set leaves out on purpose: the names passed to `build --without`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

impl Identity {
    /// Fills in missing facts from the run that publishes the set.
    #[must_use]
    pub fn or_of(mut self, run: &Run) -> Self {
        if self.run_id.is_none() {
            self.repository = self.repository.or(Some(run.repository.clone()));
            self.run_id = Some(run.id.clone());
        }
        self
    }
}

/// A complete `set.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Relative to the directory of `set.json`: `dist/rocm-7.13.0.tar.gz`.
    pub path: String,
    pub project: DistName,
    pub version: Version,
    pub size: u64,
    pub sha256: Sha256,
    /// The reason why the file is yanked, which may be empty. `None` if it is not yanked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub yanked: Option<String>,
    /// What spares the next `index` from reading the file. `upload` does not publish it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remembered: Option<Remembered>,
}

/// Facts about a file, and the stamps of the file and its sidecar for which they are true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Remembered {
    pub file: SetStamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar: Option<SetStamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sidecar_sha256: Option<Sha256>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requires_python: Option<String>,
}

/// Size, time and `ETag` of a file, which show without reading it whether it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetStamp {
    pub size: u64,
    /// The modification time in nanoseconds since 1970, by the clock of the disk or store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub modified: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub etag: Option<String>,
}

impl SetJsonFile {
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The family whose directory contains the file, if any.
    pub fn family(&self) -> Option<ArtifactGroup> {
        let below = self.path.strip_prefix(Layout::Dist.files());
        let (family, _) = below.unwrap_or(&self.path).split_once('/')?;
        ArtifactGroup::of_directory(family).ok()
    }

    /// The path is outside input: it must be a key of a file, in no directory but that of a family.
    fn ensure_valid(&self) -> Result<()> {
        let key: Key = self.path.parse()?;
        let below = self.path.strip_prefix(Layout::Dist.files());
        let depth = below.unwrap_or(&self.path).matches('/').count();
        ensure!(
            !key.is_directory() && depth == usize::from(self.family().is_some()),
            "not the path of a package"
        );
        Ok(())
    }
}

impl SetJson {
    /// Describes a set. The targets of its device wheels are added to those of `identity`. If
    /// `identity` has no version, it is that of `rocm`.
    pub fn new(identity: Identity, set: &PackageSet, layout: Layout) -> Self {
        let files = set.files().iter().map(|file| SetJsonFile {
            path: file.path(layout),
            project: file.project.clone(),
            version: file.version.clone(),
            size: file.size,
            sha256: file.sha256,
            yanked: file.yanked.clone(),
            remembered: None,
        });
        let mut this = Self {
            schema: SCHEMA,
            identity,
            files: files.collect(),
        };
        let identity = &mut this.identity;
        if identity.version.is_none() {
            let mut files = this.files.iter().rev();
            let rocm = files.find(|file| file.project.normalized() == "rocm");
            identity.version = rocm.map(|file| file.version.clone());
        }
        let targets = device_targets(this.files.iter().map(|file| file.project.normalized()));
        identity
            .targets
            .extend(targets.into_iter().map(Scope::Target));
        identity.targets = identity.targets.drain(..).unique().collect();
        this
    }

    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct SetJsonSchema {
            schema: u32,
        }
        #[derive(Deserialize)]
        struct Files {
            files: Vec<SetJsonFile>,
        }
        // Check the schema first: a later version may not parse as this one.
        let SetJsonSchema { schema } =
            serde_json::from_str(text).context("failed to read the `schema` of a set")?;
        if schema != SCHEMA {
            return Err(anyhow!("a set of another schema than {SCHEMA}: {schema}"))
                .hint("use the version of rocwheel that wrote it, or a later one");
        }
        // Parse twice. With `#[serde(flatten)]`, serde would hold the whole document in memory a
        // second time.
        let identity = serde_json::from_str(text).context("failed to read a set")?;
        let Files { files } = serde_json::from_str(text).context("failed to read a set")?;
        let set = Self {
            schema,
            identity,
            files,
        };
        for file in &set.files {
            let path = &file.path;
            file.ensure_valid()
                .with_context(|| format!("failed to read the path of a file in a set: {path:?}"))?;
        }
        Ok(set)
    }

    /// The size of all files, without sidecars.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The targets that have a device wheel.
    pub fn device_targets(&self) -> Vec<Target> {
        device_targets(self.files.iter().map(|file| file.project.normalized()))
    }

    /// The families that have their own directory and index, sorted.
    pub fn families(&self) -> Vec<ArtifactGroup> {
        let families = self.files.iter().filter_map(SetJsonFile::family);
        families.sorted().dedup().collect()
    }

    pub fn has(&self, project: &str) -> bool {
        let mut files = self.files.iter();
        files.any(|file| file.project.normalized() == project)
    }

    /// The document on one line.
    pub fn compact(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The body of `part.json`: what all parts of a set have in common, without files.
    pub(super) fn part(&self) -> String {
        let mut common = Self {
            files: Vec::new(),
            ..self.clone()
        };
        common.identity.targets.clear();
        common.pretty()
    }

    /// The document on lines for people.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The targets that have a device package, sorted.
pub(super) fn device_targets<'a>(projects: impl Iterator<Item = &'a str>) -> Vec<Target> {
    let targets = projects.filter_map(|name| name.strip_prefix("rocm-sdk-device-"));
    let targets = targets.filter_map(|name| name.parse().ok());
    // By number, as people expect: gfx942 before gfx1100.
    let by_number = |it: &Target| (it.base().as_str().len(), it.clone());
    targets.sorted_by_key(by_number).dedup().collect()
}

as_text!(GitSha, Version, Scope, DistName);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::render, set::tests as samples};

    fn sample() -> SetJson {
        let identity = Identity {
            repository: "ROCm/TheRock".parse().ok(),
            run_id: "21440027240".parse().ok(),
            platform: Some(Platform::Linux),
            commit: Some("89553ce3746eda74ade42557470d25e37c91b6f0".parse().unwrap()),
            version: None,
            targets: vec!["gfx1100".parse().unwrap(), "gfx94X-dcgpu".parse().unwrap()],
            without: Vec::new(),
        };
        SetJson::new(identity, &samples::set(), Layout::Dist)
    }

    #[test]
    fn a_set_says_what_it_is_and_what_it_holds() {
        insta::assert_snapshot!(sample().pretty(), @r#"
        {
          "schema": 1,
          "repository": "ROCm/TheRock",
          "run-id": "21440027240",
          "platform": "linux",
          "commit": "89553ce3746eda74ade42557470d25e37c91b6f0",
          "version": "7.13.0.dev0+ab",
          "targets": [
            "gfx1100",
            "gfx94X-dcgpu"
          ],
          "files": [
            {
              "path": "dist/rocm-7.13.0.dev0+ab.tar.gz",
              "project": "rocm",
              "version": "7.13.0.dev0+ab",
              "size": 1234567,
              "sha256": "4b418a8fb07082923c45ba6b276c44f6e14bd90445bf1cbc07a0143c75ca2c24"
            },
            {
              "path": "dist/rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl",
              "project": "rocm-sdk-core",
              "version": "7.9.0",
              "size": 12,
              "sha256": "cf9f53400b4bde91dd10bf3b5d6119da97e7eb7ccfd5baee6008e53db992e808",
              "yanked": "broken \"launcher\" & more"
            },
            {
              "path": "dist/rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl",
              "project": "rocm-sdk-core",
              "version": "7.13.0.dev0+ab",
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
        let stamp = SetStamp {
            size: 7,
            modified: Some(1_700_000_000_000_000_001),
            etag: Some("\"".into()),
        };
        set.files[0].yanked = Some("broken".into());
        set.files[0].remembered = Some(Remembered {
            file: stamp.clone(),
            sidecar: Some(stamp),
            sidecar_sha256: Some(Sha256::of(b"")),
            requires_python: Some(">=3".into()),
        });
        assert_eq!(SetJson::parse(&set.pretty()).unwrap(), set);
        assert_eq!(SetJson::parse(&set.compact()).unwrap(), set);
        assert_eq!(set.files[0].name(), "rocm-7.13.0.dev0+ab.tar.gz");
        let empty = PackageSet::new(Vec::new()).unwrap();
        let anonymous = SetJson::new(Identity::default(), &empty, Layout::Flat);
        assert_eq!(anonymous.compact(), r#"{"schema":1,"files":[]}"#);
        assert_eq!(SetJson::parse(&anonymous.compact()).unwrap(), anonymous);
    }

    #[test]
    fn device_wheels_say_for_which_targets_a_set_is() {
        let names = [
            "rocm-sdk-device-gfx1100",
            "rocm-sdk-device-gfx942",
            "rocm-sdk-core",
        ];
        let files = names.map(|name| samples::file(&format!("{name}-1.whl"), name, "1"));
        let set = PackageSet::new(files.to_vec()).unwrap();
        let set = SetJson::new(Identity::default(), &set, Layout::Dist);
        assert_eq!(
            set.device_targets(),
            ["gfx942".parse().unwrap(), "gfx1100".parse().unwrap()]
        );
        assert_eq!(set.identity.targets.len(), 2);
        assert!(set.has("rocm-sdk-core") && !set.has("rocm"));
    }

    #[test]
    fn another_schema_and_other_texts_are_refused_in_words() {
        let file = |path: &str, sha256: &str| {
            format!(
                r#"{{"schema":1,"files":[{{"path":"{path}","project":"a","version":"1","size":1,"sha256":"{sha256}"}}]}}"#
            )
        };
        let sha256 = Sha256::of(b"").to_string();
        let texts = [
            String::new(),
            "{}".into(),
            r#"{"schema":2,"files":7}"#.into(),
            r#"{"schema":1,"files":7}"#.into(),
            r#"{"schema":1,"version":"x y","files":[]}"#.into(),
            r#"{"schema":1,"targets":["`"],"files":[]}"#.into(),
            file("../a.whl", &sha256),
            file("dist/../../a.whl", &sha256),
            file("dist/\\n", &sha256),
            file("dist/a.whl", "abc"),
        ];
        let messages: Vec<String> = texts
            .iter()
            .map(|text| render(&SetJson::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        error: failed to read the `schema` of a set
          caused by: EOF while parsing a value at line 1 column 0

        error: failed to read the `schema` of a set
          caused by: missing field `schema` at line 1 column 2

        error: a set of another schema than 1: 2

        hint: use the version of rocwheel that wrote it, or a later one

        error: failed to read a set
          caused by: invalid type: integer `7`, expected a sequence at line 1 column 21

        error: failed to read a set
          caused by: not a PEP 440 version: "x y" at line 1 column 27

        error: failed to read a set
          caused by: a family with other characters than letters, digits and `-`: "`" at line 1 column 27

        error: failed to read the path of a file in a set: "../a.whl"
          caused by: a key with `.` or `..`: "../a.whl"

        error: failed to read the path of a file in a set: "dist/../../a.whl"
          caused by: a key with `.` or `..`: "dist/../../a.whl"

        error: failed to read the path of a file in a set: "dist/\n"
          caused by: a key with a control character: "dist/\n"

        error: failed to read a set
          caused by: not a SHA-256 of 64 lower-case hexadecimal digits: "abc" at line 1 column 94
        "#);
        assert!(SetJson::parse(&file("dist/a.whl", &sha256)).is_ok());
    }
}
