//! The JSON documents `rocwheel-plan-v1` (a plan) and `rocwheel-build-v1` (the packages that were
//! built), and the same as text.

use std::{fmt, path::Path};

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::{
    artifact::TreeForm,
    console::size,
    digest::Sha256,
    elf::Rpath,
    package::{
        assemble::{MadePackage, ReuseCount},
        plan::{BuildOrigin, BuildPlan, MemberSource, PackagePlan, SdkEntry, SdkTree},
    },
    relpath::RelPath,
    target::Scope,
};

const SCHEMA: &str = "rocwheel-plan-v1";

#[derive(Clone, Debug, Serialize)]
pub(super) struct PlannedPackage {
    /// Path of the package below `dist/`.
    path: String,
    package: String,
    name: String,
    target: Option<String>,
    members: Vec<PlannedMember>,
}

#[derive(Clone, Debug, Serialize)]
struct PlannedMember {
    path: String,
    executable: bool,
    #[serde(flatten)]
    source: PlannedSource,
}

/// The source of a member's bytes.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
enum PlannedSource {
    Copy {
        artifact: String,
        file: String,
        /// `None` for a file that the build itself has yet to write, such as an archive of device
        /// code.
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
        target: String,
    },
    Link {
        target: String,
    },
    Directory,
    Text {
        size: u64,
        sha256: Sha256,
    },
    Tree {
        top: String,
        members: Vec<PlannedMember>,
    },
    TreeManifest,
}

impl Serialize for BuildPlan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let targets = self.targets.iter().map(Scope::to_string);
        let mut document = json!({
            "schema": SCHEMA,
            "version": self.version.to_string(),
            "mode": self.mode,
            "platform": self.platform.to_string(),
            "targets": targets.collect::<Vec<_>>(),
            "packages": self.planned(),
        });
        if !self.without.is_empty() {
            document["without"] = json!(self.without);
        }
        document["notes"] = json!(self.notes);
        document.serialize(to)
    }
}

impl BuildPlan {
    pub(super) fn planned(&self) -> Vec<PlannedPackage> {
        self.packages.iter().map(planned).collect()
    }
}

fn planned(package: &PackagePlan) -> PlannedPackage {
    let members = package.members.ordered().into_iter();
    let members = members.map(|(path, it)| member(path, it.is_executable(), source(it)));
    let texts = package.texts.iter();
    let texts = texts.map(|(path, it)| member(path, false, text(it)));
    PlannedPackage {
        path: package.path(),
        package: package.label.package.clone(),
        name: package.label.dist.clone(),
        target: package.label.scope.as_ref().map(ToString::to_string),
        members: members.chain(texts).collect(),
    }
}

fn member(path: &RelPath, executable: bool, source: PlannedSource) -> PlannedMember {
    PlannedMember {
        path: path.to_string(),
        executable,
        source,
    }
}

fn text(text: &str) -> PlannedSource {
    PlannedSource::Text {
        size: text.len() as u64,
        sha256: Sha256::of(text.as_bytes()),
    }
}

fn source(source: &MemberSource) -> PlannedSource {
    match source {
        MemberSource::File(origin, rpath) => file(origin, rpath.as_ref()),
        MemberSource::Launcher(target) => PlannedSource::Launcher {
            target: target.clone(),
        },
        MemberSource::Text(it) => text(it),
        MemberSource::Sdk(tree, _) => tree_of(tree),
        MemberSource::SdkManifest(_) => PlannedSource::TreeManifest,
    }
}

fn tree_of(tree: &SdkTree) -> PlannedSource {
    let members = tree.ordered().into_iter().map(|(path, entry)| {
        let (executable, source) = match entry {
            SdkEntry::Directory => (false, PlannedSource::Directory),
            SdkEntry::Empty => (false, text("")),
            SdkEntry::File(origin, rpath) => (origin.executable, file(origin, rpath.as_ref())),
            SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                let target = target.clone();
                (false, PlannedSource::Link { target })
            }
        };
        member(path, executable, source)
    });
    PlannedSource::Tree {
        top: tree.top.to_string(),
        members: members.collect(),
    }
}

fn file(origin: &BuildOrigin, rpath: Option<&Rpath>) -> PlannedSource {
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
            rpath: rpath.to_string(),
        },
    }
}

/// Each package with its members, one on a line, and then the notes.
impl fmt::Display for BuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for package in self.planned() {
            write!(f, "{package}\n\n")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PlannedPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let mut members = self.members.iter();
        members.try_for_each(|member| write!(f, "\n  {}", line(member, false)))
    }
}

/// A member on one line, and the members of the tree that it packs on lines of their own.
fn line(member: &PlannedMember, is_in_tree: bool) -> String {
    let mark = if member.executable && !is_in_tree {
        "*"
    } else {
        ""
    };
    let path = format!("{}{mark}", on_one_line(&member.path));
    match &member.source {
        PlannedSource::Copy { artifact, .. } => format!("copy   {path} < {artifact}"),
        PlannedSource::Relink {
            artifact, rpath, ..
        } => format!("relink {path} < {artifact} [{rpath}]"),
        PlannedSource::Launcher { target } => format!("launch {path} -> {}", on_one_line(target)),
        PlannedSource::Link { target } => format!("link   {path} -> {}", on_one_line(target)),
        PlannedSource::Directory => format!("mkdir  {path}"),
        PlannedSource::Text { .. } if is_in_tree => format!("empty  {path}"),
        PlannedSource::Text { size, .. } => format!("text   {path} ({size} bytes)"),
        PlannedSource::Tree { members, .. } => {
            let members = members.iter();
            let members = members.map(|member| format!("\n    {}", line(member, true)));
            format!("pack   {path}{}", members.collect::<String>())
        }
        PlannedSource::TreeManifest => format!("count  {path}"),
    }
}

/// A name with line breaks and other control characters escaped.
fn on_one_line(name: &str) -> String {
    if name.contains(char::is_control) {
        format!("{name:?}")
    } else {
        name.to_owned()
    }
}

/// The JSON that `build` prints at its end.
#[derive(Serialize)]
pub struct BuildAnswer<'a> {
    pub packages: &'a [MadePackage],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reused: Option<ReuseCount>,
}

impl BuildAnswer<'_> {
    /// The size and the path of each package, for people.
    pub fn sized(&self, dist: &Path) -> String {
        let lines = self.packages.iter().map(|package| {
            let (size, path) = (size(package.size).to_string(), dist.join(&package.path));
            format!("{size:>10}  {}\n", path.display())
        });
        lines.collect()
    }
}

impl fmt::Display for BuildAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut packages = self.packages.iter();
        packages.try_for_each(|package| writeln!(f, "{}", package.path))
    }
}
