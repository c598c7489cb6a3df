//! Which run was found, and everything that is known about it: from GitHub, from the rule for its
//! place, and from the list of its artifacts.

use std::{collections::BTreeSet, fmt};

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::source::ArtifactArchive;
use crate::{
    console::size,
    github::{RunState, WorkflowRun},
    run::{Buckets, Run, RunOrigin},
    target::{Family, Scope, TargetTable},
};

/// A run that was named or found by a search.
///
/// Its JSON, its text and its step outputs are the same fields. What only GitHub knows is null if
/// GitHub did not tell.
#[derive(Debug)]
pub struct FoundRun {
    pub(super) run: Run,
    /// What GitHub says about the run, if it was asked and answered.
    pub(super) from_github: Option<WorkflowRun>,
    /// The commit that a run of a pull request checks out.
    pub(super) merge_commit: Option<String>,
    /// Why GitHub did not tell about the run.
    pub(super) silence: Option<String>,
    /// The place that has its artifacts.
    pub(super) source: String,
    pub(super) contents: RunContents,
}

/// What the artifacts of a run are for, and whether packages can be built from them.
#[derive(Clone, Debug, Default)]
pub(super) struct RunContents {
    archives: usize,
    size: u64,
    families: BTreeSet<String>,
    targets: BTreeSet<String>,
    /// `None` if only a part of the run is wanted.
    is_complete: Option<bool>,
    lacks: Vec<String>,
    remarks: Vec<String>,
}

impl RunContents {
    /// `lacks` is what packages lack; `None` if only a part of the run is wanted.
    pub(super) fn of(
        archives: &[ArtifactArchive],
        lacks: Option<Vec<String>>,
        remarks: Vec<String>,
    ) -> Self {
        let scopes = archives.iter().map(|it| it.name.artifact.scope.base());
        let scopes: BTreeSet<Scope> = scopes.collect();
        let texts = |is_one: fn(&Scope) -> bool| scopes.iter().filter(move |it| is_one(it));
        let targets = texts(|it| matches!(it, Scope::Target(_))).map(Scope::to_string);
        let named = texts(|it| matches!(it, Scope::Family(_))).map(Scope::to_string);
        Self {
            archives: archives.len(),
            size: archives.iter().map(|it| it.size).sum(),
            families: named.chain(whole_families(&scopes)).collect(),
            targets: targets.collect(),
            is_complete: lacks.as_ref().map(Vec::is_empty),
            lacks: lacks.unwrap_or_default(),
            remarks,
        }
    }
}

/// The families of which a run has all targets.
fn whole_families(scopes: &BTreeSet<Scope>) -> impl Iterator<Item = String> {
    let table = TargetTable::builtin();
    let is_whole = |family: &&Family| {
        let mut targets = table.targets(family).peekable();
        targets.peek().is_some() && targets.all(|it| scopes.contains(&Scope::Target(it.clone())))
    };
    table.families().filter(is_whole).map(ToString::to_string)
}

impl FoundRun {
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Why the fields that only GitHub knows are empty, if they are.
    pub fn silence(&self) -> Option<&str> {
        self.silence.as_deref()
    }

    /// The step outputs: each field, its name after `run-`, and all of them as `run-json`. A list is
    /// comma-separated.
    pub fn outputs(&self) -> Vec<(String, String)> {
        let short = self.fields().into_iter().filter(|(name, _)| !is_long(name));
        let mut outputs: Vec<_> = short
            .map(|(name, value)| (format!("run-{name}"), text(&value, ",")))
            .collect();
        let all = serde_json::to_string(self).unwrap_or_default();
        outputs.push(("run-json".to_owned(), all));
        outputs
    }

    /// One line for a log: `run 7 of ROCm/TheRock (success), commit 0123456789ab of main: https://…`;
    /// `None` if GitHub did not tell about the run.
    pub(super) fn line(&self) -> Option<String> {
        let Run { id, repository, .. } = &self.run;
        let from_github = self.from_github.as_ref()?;
        let (state, commit, page) = (&from_github.state, &from_github.commit, &from_github.page);
        let branch = from_github.details.branch.as_ref();
        let of = branch.map(|branch| format!(" of {branch}"));
        let of = of.unwrap_or_default();
        Some(format!(
            "run {id} of {repository} ({state}), commit {commit:.12}{of}: {page}"
        ))
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = self.told_fields();
        let (run, contents) = (&self.run, &self.contents);
        let kinds = Buckets::builtin().release_types(&run.bucket);
        let kind = kinds.first().filter(|_| kinds.len() == 1);
        let groups: BTreeSet<&String> = contents.families.union(&contents.targets).collect();
        fields.extend([
            ("platform", json!(run.platform)),
            ("bucket", json!(run.bucket.to_string())),
            ("region", json!(run.region)),
            ("prefix", json!(run.prefix.to_path().to_string())),
            ("role", json!(run.role)),
            ("release-type", json!(kind.map(ToString::to_string))),
            ("source", json!(self.source)),
            ("artifact-groups", json!(groups)),
            ("families", json!(contents.families)),
            ("targets", json!(contents.targets)),
            ("archives", json!(contents.archives)),
            ("size", json!(contents.size)),
            ("complete", json!(contents.is_complete)),
            ("lacks", json!(contents.lacks)),
            ("remarks", json!(contents.remarks)),
            ("note", json!(self.silence)),
        ]);
        fields
    }

    /// What GitHub tells about a run; without that, only what the run was named by.
    fn told_fields(&self) -> Vec<(&'static str, Value)> {
        let from_github = self.from_github.as_ref();
        let details = from_github.map(|from_github| &from_github.details);
        let set = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
        let (status, conclusion) = match from_github.map(|from_github| &from_github.state) {
            Some(RunState::Running(status)) => (set(status), None),
            Some(RunState::Ended(how)) => (Some("completed".to_owned()), set(how)),
            None => (None, None),
        };
        vec![
            ("id", json!(self.run.id.as_str())),
            ("attempt", json!(details.and_then(|it| it.attempt))),
            ("url", json!(from_github.and_then(|it| set(&it.page)))),
            ("status", json!(status)),
            ("conclusion", json!(conclusion)),
            ("event", json!(details.and_then(|it| it.event.as_ref()))),
            ("branch", json!(details.and_then(|it| it.branch.as_ref()))),
            ("commit", json!(from_github.map(|it| &it.commit))),
            ("merge-commit", json!(self.merge_commit)),
            ("repository", json!(self.run.repository.to_string())),
            (
                "head-repository",
                json!(details.and_then(|it| it.head_repository())),
            ),
            (
                "fork",
                json!(from_github.map(|it| it.facts.origin == RunOrigin::Fork)),
            ),
            (
                "workflow",
                json!(details.and_then(|it| it.workflow.as_ref())),
            ),
            (
                "created",
                json!(from_github.and_then(|it| set(&it.created_at))),
            ),
            (
                "started",
                json!(details.and_then(|it| it.started_at.as_ref())),
            ),
            (
                "updated",
                json!(from_github.and_then(|it| it.facts.updated_at.as_ref())),
            ),
        ]
    }
}

/// Whether a field is for people, and so no step output of its own.
fn is_long(name: &str) -> bool {
    ["lacks", "remarks", "note", "source"].contains(&name)
}

/// A value without quotes; nothing for null.
fn text(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(|it| text(it, separator)).join(separator),
        other => other.to_string(),
    }
}

impl Serialize for FoundRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = ("schema", json!("rocwheel-run-v1"));
        let fields = [schema].into_iter().chain(self.fields());
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        fields.collect::<Map<String, Value>>().serialize(serializer)
    }
}

impl fmt::Display for FoundRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().into_iter().map(|(name, value)| match name {
            "size" => (name, size(self.contents.size).to_string()),
            _ => (name, text(&value, ", ")),
        });
        // The note is for people already, on stderr.
        let lines = fields.filter(|(name, value)| !value.is_empty() && *name != "note");
        let lines = lines.map(|(name, value)| format!("{:17}{value}", format!("{name}:")));
        write!(f, "{}", lines.collect::<Vec<_>>().join("\n"))
    }
}
