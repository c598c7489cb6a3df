//! A client of GitHub's API for runs and their artifacts.
//!
//! Retries, pagination and error classification are our own, because the user is told about each
//! wait, and waits are bounded.

mod blob;
mod failure;
mod limits;
mod model;
mod route;
mod runs;
mod transport;

pub use blob::{ArtifactBlob, Blob};
pub use failure::Token;
pub use limits::WaitPolicy;
pub use model::{RunArtifact, RunState, WorkflowRun};
pub use route::{ApiUrl, Workflow};
pub use transport::{ApiSettings, GitHub};
