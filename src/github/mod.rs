//! A client of GitHub's API for runs and their artifacts: an [`octocrab::Octocrab`] with our waits.
//!
//! octocrab knows the base URL, sends the token to that host only, and reads pages and errors. Its own
//! retries wait as long as a server asks, say nothing, and repeat no broken connection, so `waits` is
//! a service of ours below it. Its models of runs and artifacts demand fields that GitHub may omit, so
//! `runs` has its own.

mod client;
mod failure;
mod runs;
mod waits;

pub use client::{ApiSettings, GitHub};
pub use runs::{RunArtifact, RunsOf, WorkflowRun};
pub use waits::WaitPolicy;

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod tests;
