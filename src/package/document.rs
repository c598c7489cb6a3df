//! The JSON documents `rocwheel-plan-v1` (a plan) and `rocwheel-build-v1` (the packages that were
//! built), and the same as text.

use std::{fmt, path::Path};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    artifact::TreeForm,
    package::{
        assemble::{MadePackage, ReuseCount},
        plan::{BuildOrigin, BuildPlan, MemberSource, PackagePlan, SdkEntry},
    },
};
use rocwheel_base::{digest::Sha256, quantity::size, relpath::RelPath, target::Scope};
use rocwheel_elf::Rpath;

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
        let members = self.members.ordered().into_iter().map(|(path, source)| {
            describe_member(path, source.is_executable(), describe_source(source))
        });
        let texts =
            self.texts.iter().map(|(path, text)| describe_member(path, false, describe_text(text)));
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
            let marked_path = format!("{}{mark}", escape_controls(path.as_str()));
            write!(f, "\n  {}", print_source(&marked_path, source))?;
        }
        for (path, text) in &self.texts {
            write!(f, "\n  {}", print_text(&escape_controls(path.as_str()), text))?;
        }
        Ok(())
    }
}

/// A member as JSON: its path, and the fields of `source`, which say where its bytes come from.
fn describe_member(path: &RelPath, executable: bool, source: Value) -> Value {
    let mut member = json!({ "path": path.as_str(), "executable": executable });
    if let (Value::Object(member), Value::Object(source)) = (&mut member, source) {
        member.extend(source);
    }
    member
}

fn describe_source(source: &MemberSource) -> Value {
    match source {
        MemberSource::File(origin, rpath) => describe_file(origin, rpath.as_ref()),
        MemberSource::Launcher(target) => json!({ "source": "launcher", "target": target }),
        MemberSource::Text(text) => describe_text(text),
        MemberSource::Sdk(tree, _) => {
            let members: Vec<Value> = tree
                .ordered()
                .into_iter()
                .map(|(path, entry)| match entry {
                    SdkEntry::Directory => {
                        describe_member(path, false, json!({ "source": "directory" }))
                    }
                    SdkEntry::Empty => describe_member(path, false, describe_text("")),
                    SdkEntry::File(origin, rpath) => {
                        let file = describe_file(origin, rpath.as_ref());
                        describe_member(path, origin.executable, file)
                    }
                    SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                        describe_member(path, false, json!({ "source": "link", "target": target }))
                    }
                })
                .collect();
            json!({ "source": "tree", "top": tree.top.as_str(), "members": members })
        }
        MemberSource::SdkManifest(_) => json!({ "source": "tree-manifest" }),
    }
}

fn describe_text(text: &str) -> Value {
    json!({ "source": "text", "size": text.len(), "sha256": Sha256::of(text.as_bytes()) })
}

fn describe_file(origin: &BuildOrigin, rpath: Option<&Rpath>) -> Value {
    let mut document = json!({
        "source": if rpath.is_some() { "relink" } else { "copy" },
        "artifact": origin.artifact.to_string(),
        "file": origin.path.to_string_lossy(),
    });
    // The build has yet to write an archive of device code, so its size is not known.
    if origin.form != TreeForm::ToCome {
        document["size"] = json!(origin.len);
    }
    if let Some(rpath) = rpath {
        document["rpath"] = json!(rpath.to_string());
    }
    document
}

/// A member on one line. If it packs a tree, a line for each member of the tree follows.
fn print_source(path: &str, source: &MemberSource) -> String {
    match source {
        MemberSource::File(origin, rpath) => print_file(path, origin, rpath.as_ref()),
        MemberSource::Launcher(target) => format!("launch {path} -> {}", escape_controls(target)),
        MemberSource::Text(text) => print_text(path, text),
        MemberSource::Sdk(tree, _) => {
            let members = tree.ordered().into_iter().map(|(member_path, entry)| {
                let member_path = escape_controls(member_path.as_str());
                let line = match entry {
                    SdkEntry::Directory => format!("mkdir  {member_path}"),
                    SdkEntry::Empty => format!("empty  {member_path}"),
                    SdkEntry::File(origin, rpath) => {
                        print_file(&member_path, origin, rpath.as_ref())
                    }
                    SdkEntry::Shipped(target) | SdkEntry::Link(target) => {
                        format!("link   {member_path} -> {}", escape_controls(target))
                    }
                };
                format!("\n    {line}")
            });
            format!("pack   {path}{}", members.collect::<String>())
        }
        MemberSource::SdkManifest(_) => format!("count  {path}"),
    }
}

fn print_text(path: &str, text: &str) -> String {
    format!("text   {path} ({} bytes)", text.len())
}

fn print_file(path: &str, origin: &BuildOrigin, rpath: Option<&Rpath>) -> String {
    let artifact = &origin.artifact;
    match rpath {
        None => format!("copy   {path} < {artifact}"),
        Some(rpath) => format!("relink {path} < {artifact} [{rpath}]"),
    }
}

/// Escapes line breaks and other control characters of a name, so that it stays on one line.
fn escape_controls(name: &str) -> String {
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
            let size = size(package.file.size).to_string();
            let path = dist.join(package.file.below());
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
