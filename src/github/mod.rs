//! GitHub's API, as far as runs and their artifacts need it.
//!
//! octocrab knows whom to tell the token, reqwest does TLS, proxies and streams. Waiting, pages and
//! what an answer means are said here, because waits have to be announced and have a bound.

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
