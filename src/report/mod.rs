//! Reports about a package set, from the set and the findings of `check`: the job summary in
//! Markdown, the same as a JSON document, and step outputs. Reads and writes no files.

mod cells;
mod changes;
mod coverage;
mod document;
mod findings;
mod markdown;
pub mod outputs;
mod packages;

pub use cells::LIMIT;
pub use document::{Forecast, PipelineAnswer};
pub use findings::check_page;
pub use markdown::{SummaryPage, Whereabouts, WorkflowArtifact, WorkflowArtifactName};
