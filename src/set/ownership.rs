//! [`OwnershipManifest`]: which projects the aggregate index of a stream has, and which product
//! publishes each of them. Reads schema 3 of TheRock's manifest; every problem names its line.

mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use self::yaml::{Problem, YamlNode, YamlValue};
use super::local::because;
use crate::{
    error::{Context as _, Hint as _, No, Result, anyhow},
    wheel::DistName,
};

const SCHEMA: &str = "3";
/// The only aggregate index that has a generator.
pub(super) const PUBLIC_BASE: &str = "/rocm/whl-next";

/// The projects of an aggregate index.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnershipManifest {
    /// In the order of the file.
    pub streams: Vec<String>,
    projects: BTreeMap<DistName, Ownership>,
}

#[derive(Debug, PartialEq, Eq)]
struct Ownership {
    /// The directory of the product below `rocm`: `core/whl-next`.
    owner: String,
    streams: BTreeSet<String>,
}

/// A project of a stream, in the order of the routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedProject {
    pub(super) owner: String,
    pub(super) project: DistName,
}

impl OwnershipManifest {
    /// Reads a manifest. With problems, the error has all of them, by line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::default();
        let manifest = match yaml::read(text.trim_start_matches('\u{feff}')) {
            Ok(document) => reader.manifest(&document),
            Err(problem) => {
                reader.problems.push(problem);
                None
            }
        };
        reader.problems.sort_by_key(|it| it.line);
        let problems = reader.problems.into_iter();
        let lines = problems.map(|it| format!("line {}: {}", it.line, it.text));
        match because("not a valid manifest".to_owned(), lines.collect()) {
            Some(error) => Err(error),
            None => manifest.context("an empty manifest"),
        }
    }

    /// The projects of a stream, sorted by product and name.
    pub(super) fn of_stream(&self, stream: &str) -> Result<Vec<OwnedProject>> {
        if !self.streams.iter().any(|it| it == stream) {
            let error = anyhow!(No(format!("the manifest has no stream `{stream}`")));
            let known = self.streams.iter().join(", ");
            return Err(error).hint(format!("the streams are {known}"));
        }
        let of_stream = |(_, it): &(&DistName, &Ownership)| it.streams.contains(stream);
        let projects = self.projects.iter().filter(of_stream);
        let owned = projects.map(|(project, it)| OwnedProject {
            owner: it.owner.clone(),
            project: project.clone(),
        });
        Ok(owned.sorted().collect())
    }

    /// The directories of all products.
    pub(super) fn owners(&self) -> BTreeSet<&str> {
        self.projects.values().map(|it| it.owner.as_str()).collect()
    }

    /// The number of projects of a stream, by product.
    pub fn counts(&self, stream: &str) -> BTreeMap<&str, usize> {
        let projects = self.projects.values();
        let of_stream = projects.filter(|it| it.streams.contains(stream));
        of_stream
            .map(|it| it.owner.as_str())
            .counts()
            .into_iter()
            .collect()
    }
}

/// Collects the problems of a document while it is read.
#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, node: &YamlNode, text: impl Into<String>) {
        self.problems.push(Problem::new(node.line, text));
    }

    fn manifest(&mut self, document: &YamlNode) -> Option<OwnershipManifest> {
        let keys = ["schema_version", "streams", "python_indexes"];
        let [schema, streams, indexes] = self.map(document, "the manifest", keys, 3)?;
        match schema {
            Some(YamlNode {
                value: YamlValue::Plain(it),
                ..
            }) if it == SCHEMA => {}
            Some(node) => self.problem(node, format!("`schema_version` is not {SCHEMA}")),
            None => {}
        }
        let streams = self.streams(streams?)?;
        let indexes = self.list(indexes?, "python_indexes")?;
        let [index] = indexes else {
            let text = format!("{} indexes, and only one is known", indexes.len());
            self.problem(indexes.get(1)?, text);
            return None;
        };
        let projects = self.index(index, &streams)?;
        Some(OwnershipManifest {
            streams: streams.known,
            projects,
        })
    }

    fn streams(&mut self, node: &YamlNode) -> Option<Streams> {
        let [known, groups, default] =
            self.map(node, "`streams`", ["known", "groups", "default"], 3)?;
        let mut streams = Streams {
            known: self.names(known?, "known")?,
            ..Streams::default()
        };
        for (name, node) in self.entries(groups?, "groups")? {
            self.name_of_stream(name, node);
            let members = self.names(node, name).unwrap_or_default();
            self.ensure_known(node, &members, &streams.known);
            streams.groups.insert(name.to_owned(), members);
        }
        streams.default = self.group(default?, &streams)?;
        Some(streams)
    }

    fn index(
        &mut self,
        node: &YamlNode,
        streams: &Streams,
    ) -> Option<BTreeMap<DistName, Ownership>> {
        let [base, packages] = self.map(node, "an index", ["public_base", "packages"], 2)?;
        if let Some(base) = base
            && self
                .text(base, "public_base")
                .is_some_and(|it| it != PUBLIC_BASE)
        {
            self.problem(base, format!("`public_base` is not `{PUBLIC_BASE}`"));
        }
        let mut projects = BTreeMap::new();
        for (name, node) in self.entries(packages?, "packages")? {
            let project = self.project(name, node);
            let owned = self.ownership(name, node, streams);
            projects.extend(project.zip(owned));
        }
        Some(projects)
    }

    fn project(&mut self, name: &str, node: &YamlNode) -> Option<DistName> {
        match name.parse::<DistName>() {
            Ok(project) if project.normalized() == name => Some(project),
            Ok(project) => {
                let text = format!("`{name}` is not normalized: it has to be `{project}`");
                self.problem(node, text);
                None
            }
            Err(error) => {
                self.problem(node, error.to_string());
                None
            }
        }
    }

    fn ownership(&mut self, name: &str, node: &YamlNode, streams: &Streams) -> Option<Ownership> {
        let keys = ["owner_path", "stream_group", "streams"];
        let [owner, group, exact] = self.map(node, &format!("`{name}`"), keys, 1)?;
        let of_streams = match (group, exact) {
            (Some(_), Some(exact)) => {
                let text = format!("`{name}` has both `stream_group` and `streams`");
                self.problem(exact, text);
                None
            }
            (Some(group), None) => self.group(group, streams),
            (None, Some(exact)) => {
                let names = self.names(exact, "streams")?;
                self.ensure_known(exact, &names, &streams.known);
                Some(names)
            }
            (None, None) => Some(streams.default.clone()),
        };
        let owner = owner?;
        let path = self.text(owner, "owner_path")?;
        if !path.split('/').all(is_segment) {
            let text = format!("`{path}` is not a path of small letters, digits, `.`, `_` and `-`");
            self.problem(owner, text);
            return None;
        }
        Some(Ownership {
            owner: path.to_owned(),
            streams: of_streams?.into_iter().collect(),
        })
    }

    /// The members of a named group.
    fn group(&mut self, node: &YamlNode, streams: &Streams) -> Option<Vec<String>> {
        let name = self.text(node, "a group")?;
        let group = streams.groups.get(name).cloned();
        if group.is_none() {
            let known = streams.groups.keys().join(", ");
            self.problem(node, format!("no group `{name}`: the groups are {known}"));
        }
        group
    }

    /// A list of streams.
    fn names(&mut self, node: &YamlNode, what: &str) -> Option<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for node in self.list(node, what)? {
            let Some(name) = self.text(node, "a stream") else {
                continue;
            };
            self.name_of_stream(name, node);
            if names.iter().any(|it| it == name) {
                self.problem(node, format!("`{name}` is there twice"));
            }
            names.push(name.to_owned());
        }
        Some(names)
    }

    fn ensure_known(&mut self, node: &YamlNode, names: &[String], known: &[String]) {
        let unknown = names.iter().filter(|it| !known.contains(it)).join("`, `");
        if !unknown.is_empty() {
            self.problem(node, format!("not in `known`: `{unknown}`"));
        }
    }

    fn name_of_stream(&mut self, name: &str, node: &YamlNode) {
        if !is_segment(name) || name.contains('.') {
            let text = format!("`{name}` has more than small letters, digits, `_` and `-`");
            self.problem(node, text);
        }
    }

    fn text<'n>(&mut self, node: &'n YamlNode, what: &str) -> Option<&'n str> {
        match &node.value {
            YamlValue::Text(text) if !text.is_empty() => Some(text),
            _ => {
                self.problem(node, format!("expected a text for {what}"));
                None
            }
        }
    }

    /// A list that is not empty.
    fn list<'n>(&mut self, node: &'n YamlNode, what: &str) -> Option<&'n [YamlNode]> {
        match &node.value {
            YamlValue::List(nodes) if !nodes.is_empty() => Some(nodes),
            _ => {
                self.problem(node, format!("expected a list with entries for `{what}`"));
                None
            }
        }
    }

    /// A mapping that is not empty, in which each key is there once.
    fn entries<'n>(
        &mut self,
        node: &'n YamlNode,
        what: &str,
    ) -> Option<Vec<(&'n str, &'n YamlNode)>> {
        let YamlValue::Map(pairs) = &node.value else {
            self.problem(node, format!("expected keys and values for {what}"));
            return None;
        };
        if pairs.is_empty() {
            self.problem(node, format!("{what} has no entries"));
        }
        let mut entries: Vec<(&str, &YamlNode)> = Vec::new();
        for (key, value) in pairs {
            let Some(name) = self.text(key, "a key") else {
                continue;
            };
            if entries.iter().any(|(it, _)| *it == name) {
                self.problem(key, format!("the key `{name}` is there twice"));
            }
            entries.push((name, value));
        }
        Some(entries)
    }

    /// The values of known keys, of which the first `required` have to be there.
    fn map<'n, const N: usize>(
        &mut self,
        node: &'n YamlNode,
        what: &str,
        keys: [&str; N],
        required: usize,
    ) -> Option<[Option<&'n YamlNode>; N]> {
        let entries = self.entries(node, what)?;
        for (name, value) in &entries {
            if !keys.contains(name) {
                let known = keys.join("`, `");
                let text = format!("unknown key `{name}` in {what}: the keys are `{known}`");
                self.problem(value, text);
            }
        }
        let found = keys.map(|key| {
            let entry = entries.iter().find(|(name, _)| *name == key);
            entry.map(|(_, value)| *value)
        });
        for (key, _) in keys
            .iter()
            .zip(&found)
            .take(required)
            .filter(|(_, it)| it.is_none())
        {
            self.problem(node, format!("{what} has no `{key}`"));
        }
        Some(found)
    }
}

/// The streams, the named groups of them, and the group of projects that name none.
#[derive(Default)]
struct Streams {
    known: Vec<String>,
    groups: BTreeMap<String, Vec<String>>,
    default: Vec<String>,
}

/// Whether a text is a segment of a public path.
fn is_segment(text: &str) -> bool {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || "._-".contains(c))
}

#[cfg(test)]
pub(in crate::set) mod tests;
