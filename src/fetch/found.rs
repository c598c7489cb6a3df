//! [`FoundRun`]: the run that was found, and everything that is known about it: from GitHub, from the rule
//! for its place, and from the list of its artifacts.

use std::{collections::BTreeSet, fmt};

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::query::Choice;
use crate::{
    github::WorkflowRun,
    run::{Buckets, ForeignCode, Run, RunOrigin},
};
use rocwheel_base::{
    quantity::size,
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
    /// The code that it built, if that is the code of another repository, as far as GitHub tells.
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
        let release_types = Buckets::builtin().release_types(&run.bucket);
        // A bucket of several release types does not say which of them the run has.
        let release_type = match &release_types[..] {
            [only] => Some(only),
            _ => None,
        };
        let scopes: BTreeSet<Scope> =
            inventory.iter().map(|archive| archive.name.artifact.scope.packaged()).collect();
        let families = list_families(&scopes);
        let targets = list_targets(&scopes);
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
            "release-type": release_type.map(ToString::to_string),
            "source": choice.source.to_string(),
            "artifact-groups": families.union(&targets).collect::<Vec<_>>(),
            "families": families,
            "targets": targets,
            "archives": inventory.len(),
            "size": inventory.iter().map(|archive| archive.size).sum::<u64>(),
            "complete": choice.lacks.as_ref().map(Vec::is_empty),
            "lacks": choice.lacks.as_deref().unwrap_or_default(),
            "note": silence,
        });
        let Value::Object(fields) = fields else { unreachable!("the literal above is an object") };
        let line = github.map(|workflow_run| {
            let Run { id, repository, .. } = &run;
            let state = workflow_run.state();
            let commit = &workflow_run.commit;
            let of_branch = match &workflow_run.branch {
                Some(branch) => format!(" of {branch}"),
                None => String::new(),
            };
            let page = workflow_run.page.as_deref().unwrap_or_default();
            format!("run {id} of {repository} ({state}), commit {commit:.12}{of_branch}: {page}")
        });
        let origin = github.map(|workflow_run| workflow_run.facts(&run.repository).origin);
        let head_repository = github.and_then(WorkflowRun::head_repository);
        let foreign = ForeignCode::of(&run, origin, head_repository, choice.source.is_github());
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
        // These fields are for people, and only in `run-json`.
        let is_for_people = |name: &str| ["schema", "lacks", "note", "source"].contains(&name);
        let json = Value::Object(self.fields.clone()).to_string();
        self.fields
            .iter()
            .filter(|(name, _)| !is_for_people(name))
            .map(|(name, value)| (format!("run-{name}"), print_value(value, ",")))
            .chain([("run-json".to_owned(), json)])
            .collect()
    }
}

impl fmt::Display for FoundRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.fields.iter().filter_map(|(name, value)| {
            let printed = match (name.as_str(), value.as_u64()) {
                // The note was printed already, to stderr.
                ("schema" | "note", _) => return None,
                ("size", Some(bytes)) => size(bytes).to_string(),
                _ => print_value(value, ", "),
            };
            (!printed.is_empty()).then(|| format!("{:17}{printed}", format!("{name}:")))
        });
        write!(f, "{}", lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The families that a run has artifacts for: under the name of the family, or for each of its targets.
fn list_families(scopes: &BTreeSet<Scope>) -> BTreeSet<String> {
    let table = TargetTable::builtin();
    let whole = table.families().filter(|family| {
        let mut targets = table.targets(family).peekable();
        targets.peek().is_some()
            && targets.all(|target| scopes.contains(&Scope::Target(target.clone())))
    });
    scopes
        .iter()
        .filter(|scope| matches!(scope, Scope::Family(_)))
        .map(Scope::to_string)
        .chain(whole.map(ToString::to_string))
        .collect()
}

fn list_targets(scopes: &BTreeSet<Scope>) -> BTreeSet<String> {
    scopes.iter().filter(|scope| matches!(scope, Scope::Target(_))).map(Scope::to_string).collect()
}

/// A value without quotes; nothing for null.
fn print_value(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(content) => content.clone(),
        Value::Array(list) => list.iter().map(|it| print_value(it, separator)).join(separator),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}
