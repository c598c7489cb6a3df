//! A GitHub on this machine, and what it says of runs, of commits and of artifacts.

pub mod fake;
pub mod hosted;
pub mod judge;

use serde_json::{Value, json};

use fake::Reply;

/// A run as GitHub describes it, with what is read here as it is asked for.
pub fn run(id: u64, created_at: &str, status: &str, conclusion: Option<&str>) -> Value {
    let mut run = judge::example("workflow-run");
    run["id"] = json!(id);
    run["head_sha"] = json!("0123456789abcdef0123456789abcdef01234567");
    run["head_branch"] = json!("main");
    run["status"] = json!(status);
    run["conclusion"] = json!(conclusion);
    run["run_attempt"] = json!(1);
    run["created_at"] = json!(created_at);
    run["updated_at"] = json!("2026-08-22T10:00:00Z");
    run["html_url"] = json!(format!("https://github.com/ROCm/TheRock/actions/runs/{id}"));
    run["head_repository"]["full_name"] = json!("ROCm/TheRock");
    run
}

/// What GitHub answers if it is asked for runs.
pub fn page_of_runs(runs: &[Value]) -> Reply {
    Reply::json(&json!({"total_count": runs.len(), "workflow_runs": runs}))
}

pub fn commit(sha: &str) -> Value {
    let mut commit = judge::example("commit");
    commit["sha"] = json!(sha);
    // The example's file is not as the description of one has it.
    commit["files"] = json!([]);
    commit
}

pub fn pull(sha: &str) -> Value {
    let mut pull = judge::example("pull-request");
    pull["head"]["sha"] = json!(sha);
    // As above.
    pull["requested_teams"] = json!([]);
    pull
}

pub fn repository(default_branch: &str) -> Value {
    let mut repository = judge::example("full-repository");
    repository["default_branch"] = json!(default_branch);
    // As above.
    repository["has_discussions"] = json!(false);
    repository
}
