//! A client of GitHub's API for runs and their artifacts.
//!
//! octocrab sends the token to the right host only; reqwest does TLS, proxies and streaming.
//! Retries, pagination and error classification are our own, because the user is told about each
//! wait, and waits are bounded.

mod artifacts;
mod blob;
mod failure;
mod model;
mod route;
mod runs;
mod transport;
mod wait_policy;

pub use blob::{ArtifactBlob, Blob};
pub use failure::{ApiFailureKind, GitHubError, Token};
pub use model::{Keeping, RunArtifact, RunState, WorkflowRun};
pub use route::{ApiUrl, InvalidApiUrl, InvalidWorkflow, Workflow};
pub use transport::{ApiSettings, GitHub};
pub use wait_policy::WaitPolicy;
