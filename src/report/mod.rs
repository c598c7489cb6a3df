//! What is said about a package set, from the set and what `check` found: the job summary in Markdown,
//! the same as a document for programs, and step outputs. Facts in, text out.

mod artifact;
mod cell;
mod changes;
mod document;
mod forecast;
mod markdown;
pub mod outputs;
mod sections;

pub use artifact::{InvalidWorkflowArtifactName, WorkflowArtifact, WorkflowArtifactName};
pub use document::PipelineAnswer;
pub use forecast::Forecast;
pub use markdown::{LIMIT, SummaryPage, Whereabouts};
