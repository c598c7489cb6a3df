//! The JSON documents `rocwheel-plan-v1` (a plan) and `rocwheel-build-v1` (the packages that were
//! built), and the same as text.

use std::{fmt, path::Path};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    artifact::TreeForm,
    console::size,
    digest::Sha256,
    elf::Rpath,
    package::{
        assemble::{MadePackage, ReuseCount},
        plan::{BuildOrigin, BuildPlan, MemberSource, PackagePlan, SdkEntry},
    },
    relpath::RelPath,
    target::Scope,
};

const SCHEMA: &str = "rocwheel-plan-v1";

impl Serialize for BuildPlan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let targets = self.targets.iter().map(Scope::to_string);
        let packages = self.packages.iter().map(PackagePlan::document);
        let mut document = json!({
            "schema": SCHEMA,
            "version": self.version.to_string(),
            "mode": self.mode,
            "platform": self.platform.to_string(),
            "targets": targets.collect::<Vec<_>>(),
            "packages": packages.collect::<Vec<_>>(),
        });
        if !self.without.is_empty() {
            document["without"] = json!(self.without);
        }
        if !self.unshipped.is_empty() {
            document["unshipped"] = json!(self.unshipped);
        }
        if !self.not_in_run.is_empty() {
            document["not-in-run"] = json!(self.not_in_run);
        }
        document["notes"] = json!(self.notes);
        document.serialize(to)
    }
}

/// Each package with its members, one on a line, and then the notes.
impl fmt::Display for BuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for package in &self.packages {
            write!(f, "{package}\n\n")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl PackagePlan {
    fn document(&self) -> Value {
        let members = self.members.ordered().into_iter();
        let members = members
            .map(|(path, source)| member(path, source.is_executable(), source_document(source)));
        let texts = self.texts.iter();
        let texts = texts.map(|(path, text)| member(path, false, text_document(text)));
        json!({
            "path": self.path(),
            "package": self.label.package,
            "name": self.label.dist,
            "target": self.label.scope.as_ref().map(ToString::to_string),
            "members": members.chain(texts).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for PackagePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())?;
        for (path, source) in self.members.ordered() {
            let mark = if source.is_executable() { "*" } else { "" };
            let path = format!("{}{mark}", on_one_line(path.as_str()));
            write!(f, "\n  {}", source_line(&path, source))?;
        }
        for (path, text) in &self.texts {
            write!(f, "\n  {}", text_line(&on_one_line(path.as_str()), text))?;
        }
        Ok(())
    }
}

/// A member with its path, and with the source of its bytes.
fn member(path: &RelPath, executable: bool, source: Value) -> Value {
    let mut member = json!({ "path": path.as_str(), "executable": executable });
    if let (Value::Object(member), Value::Object(source)) = (&mut member, source) {
        member.extend(source);
    }
    member
}

fn source_document(source: &MemberSource) -> Value {
    match source {
        MemberSource::File(origin, rpath) => file_document(origin, rpath.as_ref()),
        MemberSource::Launcher(target) => json!({ "source": "launcher", "target": target }),
        MemberSource::Text(text) => text_document(text),
        MemberSource::Sdk(tree, _) => {
            let members = tree.ordered().into_iter().map(|(path, entry)| match entry {
                SdkEntry::Directory => member(path, false, json!({ "source": "directory" })),
                SdkEntry::Empty => member(path, false, text_document("")),
                SdkEntry::File(origin, rpath) => {
                    let document = file_document(origin, rpath.as_ref());
                    member(path, origin.executable, document)
                }
                SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                    member(path, false, json!({ "source": "link", "target": target }))
                }
            });
            let members: Vec<Value> = members.collect();
            json!({ "source": "tree", "top": tree.top.as_str(), "members": members })
        }
        MemberSource::SdkManifest(_) => json!({ "source": "tree-manifest" }),
    }
}

fn text_document(text: &str) -> Value {
    json!({ "source": "text", "size": text.len(), "sha256": Sha256::of(text.as_bytes()) })
}

fn file_document(origin: &BuildOrigin, rpath: Option<&Rpath>) -> Value {
    let mut document = json!({
        "source": if rpath.is_some() { "relink" } else { "copy" },
        "artifact": origin.artifact.to_string(),
        "file": origin.path.to_string_lossy(),
    });
    // The build itself has yet to write an archive of device code.
    if origin.form != TreeForm::ToCome {
        document["size"] = json!(origin.len);
    }
    if let Some(rpath) = rpath {
        document["rpath"] = json!(rpath.to_string());
    }
    document
}

/// A member on one line, and the members of the tree that it packs on lines of their own.
fn source_line(path: &str, source: &MemberSource) -> String {
    match source {
        MemberSource::File(origin, rpath) => file_line(path, origin, rpath.as_ref()),
        MemberSource::Launcher(target) => format!("launch {path} -> {}", on_one_line(target)),
        MemberSource::Text(text) => text_line(path, text),
        MemberSource::Sdk(tree, _) => {
            let members = tree.ordered().into_iter().map(|(path, entry)| {
                let path = on_one_line(path.as_str());
                let line = match entry {
                    SdkEntry::Directory => format!("mkdir  {path}"),
                    SdkEntry::Empty => format!("empty  {path}"),
                    SdkEntry::File(origin, rpath) => file_line(&path, origin, rpath.as_ref()),
                    SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                        format!("link   {path} -> {}", on_one_line(target))
                    }
                };
                format!("\n    {line}")
            });
            format!("pack   {path}{}", members.collect::<String>())
        }
        MemberSource::SdkManifest(_) => format!("count  {path}"),
    }
}

fn text_line(path: &str, text: &str) -> String {
    format!("text   {path} ({} bytes)", text.len())
}

fn file_line(path: &str, origin: &BuildOrigin, rpath: Option<&Rpath>) -> String {
    let artifact = &origin.artifact;
    match rpath {
        None => format!("copy   {path} < {artifact}"),
        Some(rpath) => format!("relink {path} < {artifact} [{rpath}]"),
    }
}

/// A name with line breaks and other control characters escaped.
fn on_one_line(name: &str) -> String {
    if name.contains(char::is_control) { format!("{name:?}") } else { name.to_owned() }
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
            let (size, path) =
                (size(package.file.size).to_string(), dist.join(package.file.below()));
            format!("{size:>10}  {}\n", path.display())
        });
        lines.collect()
    }
}

impl fmt::Display for BuildAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut packages = self.packages.iter();
        packages.try_for_each(|package| writeln!(f, "{}", package.file.below()))
    }
}
