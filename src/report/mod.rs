//! Reports about a package set, from the set and the findings of `check`: the job summary in
//! Markdown, the same as a JSON document, and step outputs. Renders text only; does no I/O.

mod artifact;
mod cell;
mod document;
mod forecast;
mod markdown;
pub mod outputs;
mod packages;
mod sections;

pub use artifact::{WorkflowArtifact, WorkflowArtifactName};
pub use document::PipelineAnswer;
pub use forecast::Forecast;
pub use markdown::{LIMIT, SummaryPage, Whereabouts};
