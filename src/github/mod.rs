//! GitHub's API, as far as runs and their artifacts need it.
//!
//! octocrab knows whom to tell the token, reqwest does TLS, proxies and streams. Waiting, pages and
//! what an answer means are said here, because waits have to be announced and have a bound.

mod artifacts;
mod blob;
mod failure;
mod model;
mod patience;
mod route;
mod runs;
mod transport;

pub use blob::{Blob, Content};
pub use failure::{GitHubError, Kind, Token};
pub use model::{Keeping, Run, RunArtifact, State};
pub use patience::Patience;
pub use route::{ApiUrl, InvalidApiUrl, InvalidWorkflow, Workflow};
pub use transport::{GitHub, Settings};
