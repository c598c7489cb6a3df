//! Reports about a package set, from the set and the findings of `check`: the job summary in
//! Markdown, the same as a JSON document, and step outputs. Renders text only; does no I/O.

mod changes;
mod document;
mod markdown;
pub mod outputs;
mod places;
mod tables;

pub use changes::DifferencePage;
pub use document::{Forecast, PipelineAnswer};
pub use markdown::{LIMIT, SummaryPage, Whereabouts, WorkflowArtifact, WorkflowArtifactName};
pub use places::RunPlaces;
