//! A client of GitHub's API for runs and their artifacts.
//!
//! Retries, pagination and error classification are our own, because the user reads about each
//! wait, and waits are bounded.

mod blob;
mod route;
mod runs;
mod transport;

pub use blob::ArtifactBlob;
pub use route::{ApiUrl, Workflow};
pub use runs::{RunArtifact, RunDetails, RunState, WorkflowRun};
pub use transport::{ApiSettings, GitHub, WaitPolicy};
