//! A plan and what was made of it, as text and as JSON: `rocwheel-plan-v1`, `rocwheel-build-v1`.

use std::fmt;

use serde::Serialize;

use crate::{
    artifact::Form,
    digest::Sha256,
    package::{
        BuildPlan,
        assemble::Made,
        origin::Origin,
        plan::{Label, Source},
        sdk_tree::{SdkEntry, SdkTree},
    },
    wheel::Mode,
};

/// What `--plan` answers.
pub(super) struct Document<'a>(pub(super) &'a BuildPlan);

/// What a build answers.
#[derive(Serialize)]
pub(super) struct Answer {
    schema: &'static str,
    packages: Vec<Package>,
}

#[derive(Serialize)]
struct Package {
    /// Below `dist/`.
    path: String,
    size: u64,
    sha256: Sha256,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Set<'a> {
    schema: &'static str,
    version: String,
    mode: crate::package::Mode,
    platform: String,
    targets: Vec<String>,
    packages: Vec<File<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    without: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct File<'a> {
    /// Below `dist/`.
    path: String,
    package: &'a str,
    name: &'a str,
    target: Option<String>,
    members: Vec<Member<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    path: &'a str,
    executable: bool,
    #[serde(flatten)]
    source: From<'a>,
}

/// Where bytes come from.
#[derive(Serialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
enum From<'a> {
    Copy {
        artifact: String,
        file: String,
        /// Not known of what is written first.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    Relink {
        artifact: String,
        file: String,
        size: u64,
        rpath: String,
    },
    Launcher {
        target: &'a str,
    },
    Link {
        target: &'a str,
    },
    Directory,
    Text {
        size: u64,
        sha256: Sha256,
    },
    Tree {
        top: &'a str,
        members: Vec<Member<'a>>,
    },
    TreeManifest,
}

impl Answer {
    pub(super) fn new(made: Vec<Made>) -> Self {
        let package = |made: Made| Package {
            path: made.path,
            size: made.size,
            sha256: made.sha256,
        };
        Self {
            schema: "rocwheel-build-v1",
            packages: made.into_iter().map(package).collect(),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for package in &self.packages {
            writeln!(f, "{}", package.path)?;
        }
        Ok(())
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let wheels = plan.wheels.iter().map(|wheel| {
            let members = wheel.members.iter().map(|(path, member)| Member {
                path: path.as_str(),
                executable: member.mode == Mode::Executable,
                source: source(&member.source),
            });
            let texts = wheel.dist_info.iter();
            let texts = texts.map(|(path, text)| self::text(path.as_str(), text.as_bytes()));
            package(&wheel.label, wheel.path(), members.chain(texts).collect())
        });
        let sdists = plan.sdists.iter().map(|sdist| {
            let files = sdist.files.iter();
            let files = files.map(|(path, bytes)| text(path.as_str(), bytes));
            package(&sdist.label, sdist.path(), files.collect())
        });
        let set = Set {
            schema: "rocwheel-plan-v1",
            version: plan.version.to_string(),
            mode: plan.mode,
            platform: plan.platform.to_string(),
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            packages: wheels.chain(sdists).collect(),
            without: &plan.without,
            notes: &plan.notes,
        };
        set.serialize(serializer)
    }
}

impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn package<'a>(label: &'a Label, path: String, members: Vec<Member<'a>>) -> File<'a> {
    File {
        path,
        package: &label.package,
        name: &label.dist,
        target: label.scope.as_ref().map(ToString::to_string),
        members,
    }
}

fn text<'a>(path: &'a str, bytes: &[u8]) -> Member<'a> {
    Member {
        path,
        executable: false,
        source: written(bytes),
    }
}

fn written(bytes: &[u8]) -> From<'static> {
    From::Text {
        size: bytes.len() as u64,
        sha256: Sha256::of(bytes),
    }
}

fn source(source: &Source) -> From<'_> {
    match source {
        Source::Copy(origin) => file(origin, None),
        Source::Relink(origin, rpath) => file(origin, Some(rpath.to_string())),
        Source::Launcher(target) => From::Launcher { target },
        Source::Text(text) => written(text.as_bytes()),
        Source::Sdk(tree, _) => tree_of(tree),
        Source::SdkManifest(_) => From::TreeManifest,
    }
}

fn tree_of(tree: &SdkTree) -> From<'_> {
    let members = tree.ordered().into_iter().map(|(path, entry)| Member {
        path: path.as_str(),
        executable: matches!(entry, SdkEntry::File { mode, .. } if *mode == Mode::Executable),
        source: match entry {
            SdkEntry::Directory => From::Directory,
            SdkEntry::Empty => written(&[]),
            SdkEntry::File { origin, rpath, .. } => {
                file(origin, rpath.as_ref().map(ToString::to_string))
            }
            SdkEntry::Shipped(target) | SdkEntry::Link(target) => From::Link { target },
        },
    });
    From::Tree {
        top: tree.top.as_str(),
        members: members.collect(),
    }
}

fn file(origin: &Origin, rpath: Option<String>) -> From<'static> {
    let artifact = origin.artifact.to_string();
    let (file, size) = (origin.path.to_string_lossy().into_owned(), origin.len);
    match rpath {
        None => From::Copy {
            artifact,
            file,
            size: (origin.form != Form::ToCome).then_some(size),
        },
        Some(rpath) => From::Relink {
            artifact,
            file,
            size,
            rpath,
        },
    }
}
