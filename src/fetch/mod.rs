//! Fetches the artifacts of a run into a directory, each in one stream from its source to the disk.
//!
//! `settle` chooses the run; `source` and `run_artifacts` list its archives; `select` and
//! `completeness` decide which of them are wanted. `plan` compares these with the output directory,
//! and `download_all` downloads what is due.

mod candidates;
mod completeness;
mod download;
mod download_all;
pub mod inventory;
mod job;
mod leftovers;
mod merge;
pub mod output;
pub mod plan;
mod query;
mod run_artifacts;
pub mod select;
mod settle;
pub mod source;
mod space;
pub mod state;
mod zip_directory;

pub use self::{
    job::{FetchJob, FetchRequest, Purpose},
    output::OutputForm,
    plan::FetchPlan,
    query::{GitHubSettings, Keeper, RunQuery, Search},
    select::{ArchivePattern, Wish},
    state::fetched_for,
};
