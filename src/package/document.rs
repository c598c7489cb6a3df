//! The JSON documents `rocwheel-plan-v1` (a plan) and `rocwheel-build-v1` (the packages that were
//! built).

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    artifact::TreeForm,
    digest::Sha256,
    error::{Context as _, Hint as _, Result, ensure},
    package::{
        self,
        assemble::MadePackage,
        origin::BuildOrigin,
        plan::{BuildPlan, Label, MemberSource},
        sdk_tree::{SdkEntry, SdkTree},
    },
    wheel::FileMode,
};

const SCHEMA: &str = "rocwheel-plan-v1";

/// A plan. `build --plan --format json` writes it, and `check --planned` reads it. Readers ignore
/// unknown fields, so later versions may add some.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanDocument {
    schema: String,
    version: String,
    mode: package::DistributionMode,
    platform: String,
    targets: Vec<String>,
    pub packages: Vec<PlannedPackage>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    without: Vec<String>,
    notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedPackage {
    /// Path of the package below `dist/`.
    pub path: String,
    package: String,
    name: String,
    target: Option<String>,
    pub members: Vec<PlannedMember>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedMember {
    pub path: String,
    #[serde(default)]
    pub executable: bool,
    #[serde(flatten)]
    pub source: PlannedSource,
}

/// The source of a member's bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
pub enum PlannedSource {
    Copy {
        artifact: String,
        file: String,
        /// `None` for a file that the build itself has yet to write, such as an archive of device
        /// code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    Relink {
        artifact: String,
        file: String,
        size: u64,
        rpath: String,
    },
    Launcher {
        target: String,
    },
    Link {
        target: String,
    },
    Directory,
    Text {
        size: u64,
        #[serde(default)]
        sha256: Option<Sha256>,
    },
    Tree {
        top: String,
        members: Vec<PlannedMember>,
    },
    TreeManifest,
    #[serde(other)]
    Other,
}

impl PlanDocument {
    pub fn parse(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct PlanSchema {
            schema: String,
        }
        let read = || -> Result<Self> {
            let form: PlanSchema = serde_json::from_str(text)?;
            ensure!(form.schema == SCHEMA, "its schema is {:?}", form.schema);
            Ok(serde_json::from_str(text)?)
        };
        read()
            .context("failed to read a plan")
            .hint("write it with `rocwheel build --plan --format json`")
    }
}

impl From<&BuildPlan> for PlanDocument {
    fn from(plan: &BuildPlan) -> Self {
        let wheels = plan.wheels.iter().map(|wheel| {
            let members = wheel.members.iter().map(|(path, member)| PlannedMember {
                path: path.to_string(),
                executable: member.mode == FileMode::Executable,
                source: source(&member.source),
            });
            let texts = wheel.dist_info.iter();
            let texts = texts.map(|(path, text)| self::text(path.as_str(), text.as_bytes()));
            planned(&wheel.label, wheel.path(), members.chain(texts).collect())
        });
        let sdists = plan.sdists.iter().map(|sdist| {
            let files = sdist.files.iter();
            let files = files.map(|(path, bytes)| text(path.as_str(), bytes));
            planned(&sdist.label, sdist.path(), files.collect())
        });
        Self {
            schema: SCHEMA.to_owned(),
            version: plan.version.to_string(),
            mode: plan.mode,
            platform: plan.platform.to_string(),
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            packages: wheels.chain(sdists).collect(),
            without: plan.without.clone(),
            notes: plan.notes.clone(),
        }
    }
}

impl Serialize for BuildPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PlanDocument::from(self).serialize(serializer)
    }
}

fn planned(label: &Label, path: String, members: Vec<PlannedMember>) -> PlannedPackage {
    PlannedPackage {
        path,
        package: label.package.clone(),
        name: label.dist.clone(),
        target: label.scope.as_ref().map(ToString::to_string),
        members,
    }
}

fn text(path: &str, bytes: &[u8]) -> PlannedMember {
    PlannedMember {
        path: path.to_owned(),
        executable: false,
        source: written(bytes),
    }
}

fn written(bytes: &[u8]) -> PlannedSource {
    PlannedSource::Text {
        size: bytes.len() as u64,
        sha256: Some(Sha256::of(bytes)),
    }
}

fn source(source: &MemberSource) -> PlannedSource {
    match source {
        MemberSource::Copy(origin) => file(origin, None),
        MemberSource::Relink(origin, rpath) => file(origin, Some(rpath.to_string())),
        MemberSource::Launcher(target) => PlannedSource::Launcher {
            target: target.clone(),
        },
        MemberSource::Text(text) => written(text.as_bytes()),
        MemberSource::Sdk(tree, _) => tree_of(tree),
        MemberSource::SdkManifest(_) => PlannedSource::TreeManifest,
    }
}

fn tree_of(tree: &SdkTree) -> PlannedSource {
    let members = tree
        .ordered()
        .into_iter()
        .map(|(path, entry)| PlannedMember {
            path: path.to_string(),
            executable: matches!(entry, SdkEntry::File { mode, .. } if *mode == FileMode::Executable),
            source: match entry {
                SdkEntry::Directory => PlannedSource::Directory,
                SdkEntry::Empty => written(&[]),
                SdkEntry::File { origin, rpath, .. } => {
                    file(origin, rpath.as_ref().map(ToString::to_string))
                }
                SdkEntry::Shipped(target) | SdkEntry::Link(target) => PlannedSource::Link {
                    target: target.clone(),
                },
            },
        });
    PlannedSource::Tree {
        top: tree.top.to_string(),
        members: members.collect(),
    }
}

fn file(origin: &BuildOrigin, rpath: Option<String>) -> PlannedSource {
    let artifact = origin.artifact.to_string();
    let (file, size) = (origin.path.to_string_lossy().into_owned(), origin.len);
    match rpath {
        None => PlannedSource::Copy {
            artifact,
            file,
            size: (origin.form != TreeForm::ToCome).then_some(size),
        },
        Some(rpath) => PlannedSource::Relink {
            artifact,
            file,
            size,
            rpath,
        },
    }
}

/// The JSON that `build` prints at its end.
#[derive(Serialize)]
pub struct BuildAnswer<'a> {
    schema: &'static str,
    packages: &'a [MadePackage],
}

impl<'a> BuildAnswer<'a> {
    pub fn new(packages: &'a [MadePackage]) -> Self {
        Self {
            schema: "rocwheel-build-v1",
            packages,
        }
    }
}

impl fmt::Display for BuildAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for package in self.packages {
            writeln!(f, "{}", package.path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn what_later_versions_add_is_passed_over() {
        let text = r#"{"schema":"rocwheel-plan-v1","new":1,"version":"1","mode":"split","platform":"linux",
            "targets":[],"notes":[],"packages":[{"path":"a.whl","package":"a","name":"a","members":[
            {"path":"a","executable":true,"source":"copy","artifact":"x","file":"/x/a","size":3},
            {"path":"e","source":"later"}]}]}"#;
        let plan = PlanDocument::parse(text).unwrap();
        let [package] = &plan.packages[..] else {
            panic!("{plan:?}")
        };
        assert!(matches!(package.members[1].source, PlannedSource::Other));
    }

    #[test]
    fn anything_else_is_refused_in_words() {
        let refused = ["{", r#"{"schema":"rocwheel-check-v1"}"#]
            .map(|text| render(&PlanDocument::parse(text).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: failed to read a plan
          caused by: EOF while parsing an object at line 1 column 1

        hint: write it with `rocwheel build --plan --format json`
        error: failed to read a plan
          caused by: its schema is "rocwheel-check-v1"

        hint: write it with `rocwheel build --plan --format json`
        "#);
    }
}
