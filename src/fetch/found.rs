//! Which run was found, and everything that is known about it: from GitHub, from the rule for its
//! place, and from the list of its artifacts.

use std::{collections::BTreeSet, fmt};

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::query::Choice;
use crate::{
    console::size,
    github::WorkflowRun,
    run::{Buckets, ForeignCode, Run, RunOrigin},
    target::{Scope, TargetTable},
};

/// A run that was named or found by a search.
///
/// Its JSON, its text and its step outputs are the same fields. What only GitHub knows is null if
/// GitHub did not tell.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct FoundRun {
    fields: Map<String, Value>,
    #[serde(skip)]
    run: Run,
    /// Set if its code is not the repository's own, as far as GitHub tells.
    #[serde(skip)]
    pub foreign: Option<ForeignCode>,
    /// One line for a log: `run 7 of ROCm/TheRock (success), commit 0123456789ab of main: https://…`;
    /// `None` if GitHub did not tell about the run.
    #[serde(skip)]
    pub(super) line: Option<String>,
}

impl FoundRun {
    /// `silence` is why GitHub did not tell about the run.
    pub(super) fn new(
        run: Run,
        github: Option<&WorkflowRun>,
        choice: &Choice,
        silence: Option<&str>,
    ) -> Self {
        let inventory = &choice.inventory;
        let told = |get: fn(&WorkflowRun) -> Option<&String>| github.and_then(get);
        let kinds = Buckets::builtin().release_types(&run.bucket);
        let kind = kinds.first().filter(|_| kinds.len() == 1);
        let scopes: BTreeSet<Scope> =
            inventory.iter().map(|it| it.name.artifact.scope.base()).collect();
        let (families, targets) = (families(&scopes), targets(&scopes));
        let fields = json!({
            "schema": "rocwheel-run-v1",
            "id": run.id.as_str(),
            "attempt": github.and_then(|it| it.run_attempt),
            "url": told(|it| it.page.as_ref()),
            "status": told(|it| it.status.as_ref()),
            "conclusion": github.and_then(|it| it.conclusion()).filter(|it| !it.is_empty()),
            "event": told(|it| it.event.as_ref()),
            "branch": told(|it| it.branch.as_ref()),
            "commit": told(|it| Some(&it.commit)),
            "repository": run.repository.to_string(),
            "head-repository": github.and_then(|it| it.head_repository()),
            "fork": github.map(|it| it.facts(&run.repository).origin == RunOrigin::Fork),
            "workflow": told(|it| it.workflow.as_ref()),
            "created": told(|it| it.created_at.as_ref()),
            "started": told(|it| it.run_started_at.as_ref()),
            "updated": told(|it| it.updated_at.as_ref()),
            "platform": run.platform,
            "bucket": run.bucket.to_string(),
            "region": run.region,
            "prefix": run.prefix.to_path().to_string(),
            "role": run.role,
            "release-type": kind.map(ToString::to_string),
            "source": choice.source.to_string(),
            "artifact-groups": families.union(&targets).collect::<Vec<_>>(),
            "families": families,
            "targets": targets,
            "archives": inventory.len(),
            "size": inventory.iter().map(|it| it.size).sum::<u64>(),
            "complete": choice.lacks.as_ref().map(Vec::is_empty),
            "lacks": choice.lacks.as_deref().unwrap_or_default(),
            "note": silence,
        });
        let Value::Object(fields) = fields else { unreachable!("the literal above is an object") };
        let line = github.map(|it| {
            let (state, commit) = (it.state(), &it.commit);
            let branch = it.branch.as_ref().map(|branch| format!(" of {branch}"));
            let (branch, page) = (branch.unwrap_or_default(), it.page.as_deref());
            let (id, page) = (&run.id, page.unwrap_or_default());
            let of = &run.repository;
            format!("run {id} of {of} ({state}), commit {commit:.12}{branch}: {page}")
        });
        let foreign = {
            let origin = github.map(|it| it.facts(&run.repository).origin);
            let head = github.and_then(WorkflowRun::head_repository);
            ForeignCode::of(&run, origin, head, choice.source.is_github())
        };
        Self { fields, run, foreign, line }
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Why the fields that only GitHub knows are empty, if they are.
    pub fn silence(&self) -> Option<&str> {
        self.fields["note"].as_str()
    }

    /// The step outputs: each field, its name after `run-`, and all of them as `run-json`. A list is
    /// comma-separated.
    pub fn outputs(&self) -> Vec<(String, String)> {
        // What is for people is no output of its own.
        let is_long = |name: &str| ["schema", "lacks", "note", "source"].contains(&name);
        let short = self.fields.iter().filter(|(name, _)| !is_long(name));
        let outputs = short.map(|(name, value)| (format!("run-{name}"), text(value, ",")));
        let all = Value::Object(self.fields.clone()).to_string();
        outputs.chain([("run-json".to_owned(), all)]).collect()
    }
}

impl fmt::Display for FoundRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.fields.iter().filter_map(|(name, value)| {
            let value = match (name.as_str(), value.as_u64()) {
                // The note is for people already, on stderr.
                ("schema" | "note", _) => return None,
                ("size", Some(bytes)) => size(bytes).to_string(),
                _ => text(value, ", "),
            };
            (!value.is_empty()).then(|| format!("{:17}{value}", format!("{name}:")))
        });
        write!(f, "{}", lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The families that a run has artifacts for, or all targets of.
fn families(scopes: &BTreeSet<Scope>) -> BTreeSet<String> {
    let table = TargetTable::builtin();
    let whole = table.families().filter(|family| {
        let mut targets = table.targets(family).peekable();
        targets.peek().is_some() && targets.all(|it| scopes.contains(&Scope::Target(it.clone())))
    });
    let named = scopes.iter().filter(|it| matches!(it, Scope::Family(_)));
    let named = named.map(Scope::to_string);
    named.chain(whole.map(ToString::to_string)).collect()
}

fn targets(scopes: &BTreeSet<Scope>) -> BTreeSet<String> {
    let targets = scopes.iter().filter(|it| matches!(it, Scope::Target(_)));
    targets.map(Scope::to_string).collect()
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
